"""Texts from elsewhere, such as file names, made fit for a terminal or for JSON."""

from __future__ import annotations

import os
import unicodedata
from pathlib import Path

# Controls, halves of surrogate pairs, line and paragraph separators; and what turns the order of
# the letters around it.
_ORDERS = frozenset(("Cc", "Cs", "Zl", "Zp"))
_DIRECTIONS = frozenset("\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")


def printable(text: str) -> str:
    """Return a text on one line, without what a terminal would take for orders."""
    return "".join(repr(c)[1:-1] if _is_order(c) else c for c in text)


def _is_order(character: str) -> bool:
    return unicodedata.category(character) in _ORDERS or character in _DIRECTIONS


def path_text(path: Path) -> str:
    """Return a path as text that JSON and protobuf can hold: bytes that are no UTF-8 as `\\xe9`.

    They are not replaced by one sign for all, which would make two files' names the same. (A name
    that spells out such an escape itself still equals the one that it stands for.)
    """
    return os.fsencode(path).decode("utf-8", "backslashreplace")
