"""Texts as a drawing needs them: printable, of known width, and short enough."""

from __future__ import annotations

import re

from rich.cells import cell_len

# What XML cannot hold, or a terminal would obey; a name may be any text.
_UNPRINTABLE = re.compile("[\x00-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]")


def printable(text: str) -> str:
    """Return a text whose control characters are replaced."""
    return _UNPRINTABLE.sub("\ufffd", text)


def shortened(text: str, limit: int) -> str:
    """Return a text of at most `limit` cells: its middle is left out if need be."""
    text, limit = printable(text), max(limit, 1)
    if cell_len(text) <= limit:
        return text
    head, tail = text[: (limit + 1) // 2], text[-(limit // 2) :]
    while cell_len(head) + cell_len(tail) + 1 > limit:
        if cell_len(head) >= cell_len(tail):
            head = head[:-1]
        else:
            tail = tail[1:]
    return f"{head}…{tail}"


def counted(count: int, what: str) -> str:
    """Return a number of things: `1 model`, `2 models`."""
    return f"{count} {what}" if count == 1 else f"{count} {what}s"
