"""Text files of a repository, which may be anything: pipes, links, other bytes."""

from __future__ import annotations

import errno
import stat
from pathlib import Path

_MAX_TEXT_BYTES = 16 * 2**20


class Unreadable(Exception):
    """A file that is no text, or that the file system does not let be read; its rule and why."""

    def __init__(self, code: str, why: str) -> None:
        super().__init__(why)
        self.code = code


def text_of(path: Path) -> str:
    """Return the text of a configuration or a source; raises `Unreadable`. Never waits for a pipe.

    As bytes decoded, since Triton too takes a lone carriage return as it is.
    """
    try:
        status = path.stat()
        if not stat.S_ISREG(status.st_mode):
            raise Unreadable("S006", "expected a file of text, got something else")
        if status.st_size > _MAX_TEXT_BYTES:
            raise Unreadable("S006", f"expected text, got {status.st_size} bytes")
        raw = path.read_bytes()
    except OSError as error:
        raise Unreadable("R002", why_unreadable(path, error)) from None
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError as error:
        why = f"expected UTF-8 text, got byte 0x{raw[error.start]:02x} at {error.start}"
        raise Unreadable("S006", why) from None
    if "\0" in text:
        raise Unreadable("S006", f"expected text, got a zero byte at {text.index(chr(0))}")
    return text


def why_unreadable(path: Path, error: OSError) -> str:
    """Return why the file system does not let something be read, in words."""
    reason = error.strerror or str(error)
    if error.errno == errno.ELOOP:
        reason = "a symbolic link that leads back to itself"
    elif path.is_symlink() and not path.exists():
        reason = "a symbolic link to nothing"
    return f"cannot be read: {reason}"
