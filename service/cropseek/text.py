"""Texts from elsewhere, such as file names, made fit for a terminal or for JSON."""

from __future__ import annotations

import os
from pathlib import Path


def printable(text: str) -> str:
    """Return a text on one line, without what a terminal would take for orders."""
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)


def path_text(path: Path) -> str:
    """Return a path as text that JSON and protobuf can hold: bytes that are no UTF-8 as `\\xe9`.

    They are not replaced by one sign for all, which would make two files' names the same.
    """
    return os.fsencode(path).decode("utf-8", "backslashreplace")
