"""A picture as a caller gives it: encoded bytes, or the path of a file that is read when needed."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Union

from cropseek.errors import InvalidInput

Image = Union[bytes, str, "os.PathLike[str]"]


def read_picture(image: Image, max_bytes: int) -> bytes:
    """Return the encoded bytes; raises `InvalidInput` for a file that cannot be read or sent."""
    if isinstance(image, bytes):
        return _within(len(image), image, max_bytes)
    path = Path(image)
    try:
        return _within(path.stat().st_size, path, max_bytes)
    except FileNotFoundError:
        raise InvalidInput("no such file") from None
    except IsADirectoryError:
        raise InvalidInput("expected a picture, got a folder") from None
    except OSError as error:
        raise InvalidInput(f"cannot be read: {error.strerror}") from None


def _within(size: int, image: bytes | Path, max_bytes: int) -> bytes:
    if size > max_bytes:
        raise InvalidInput(f"image: expected at most {max_bytes} bytes a message, got {size}")
    return image if isinstance(image, bytes) else image.read_bytes()
