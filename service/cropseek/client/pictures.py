"""A picture as a caller gives it: encoded bytes, or the path of a file that is read when needed."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Union

from cropseek.errors import InvalidInput
from cropseek.text import path_text

_PART_BYTES = 2**20

Image = Union[bytes, str, "os.PathLike[str]"]


def read_picture(image: Image, max_bytes: int) -> bytes:
    """Return the encoded bytes; raises `InvalidInput` for a file that cannot be read or sent."""
    if isinstance(image, bytes):
        _check_size("image", len(image), max_bytes)
        return image
    path = Path(image)
    name = path_text(path)
    try:
        _check_size(name, path.stat().st_size, max_bytes)
        encoded = _read(path, max_bytes)
    except FileNotFoundError:
        raise InvalidInput(f"{name}: no such file") from None
    except IsADirectoryError:
        raise InvalidInput(f"{name}: expected a picture, got a folder") from None
    except OSError as error:
        raise InvalidInput(f"{name}: cannot be read: {error.strerror}") from None
    _check_size(name, len(encoded), max_bytes)
    return encoded


def _read(path: Path, max_bytes: int) -> bytes:
    """Read a file, which may be a pipe or a device without end: of that a little more than fits."""
    parts, size = [], 0
    with path.open("rb") as file:
        while size <= max_bytes and (part := file.read(_PART_BYTES)):
            parts.append(part)
            size += len(part)
    return b"".join(parts)


def _check_size(name: str, size: int, max_bytes: int) -> None:
    if size > max_bytes:
        raise InvalidInput(f"{name}: expected at most {max_bytes} bytes a message, got {size}")
