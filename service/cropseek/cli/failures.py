"""What goes to stderr: that something is going on, and errors, one line each."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.text import Text

from cropseek.cli.inputs import Picture
from cropseek.errors import (
    CropseekError,
    DeadlineExceeded,
    InvalidInput,
    ModelFailed,
    Overloaded,
)
from cropseek.text import printable

stderr = Console(stderr=True, highlight=False)

# What one picture may fail with while the others go on; the rest ends the command.
ITEM_ERRORS = (InvalidInput, ModelFailed, DeadlineExceeded, Overloaded)


def print_error(message: str, details: str = "") -> None:
    """Print one line, however wide the terminal is, above a progress bar if there is one.

    `details` are lines that follow, as the end of a log.
    """
    lines = [f"cropseek: {message}", *details.splitlines()]
    stderr.print(Text("\n".join(map(printable, lines))), soft_wrap=True)


@contextmanager
def working(what: str) -> Iterator[None]:
    """Show that something is going on, where stderr is a terminal."""
    if not stderr.is_terminal:
        yield
        return
    with stderr.status(what):
        yield


class Failures:
    """The pictures that failed, told as they happen."""

    def __init__(self) -> None:
        self.rows: list[dict[str, Any]] = []

    def add(self, picture: Picture, error: CropseekError) -> None:
        """Print the error and keep it; raises it if it is not about this picture only."""
        if not isinstance(error, ITEM_ERRORS):
            raise error
        message = " ".join(str(error).removeprefix(f"{picture.name}: ").split())
        self.rows.append({**picture.to_dict(), "code": error.code, "message": message})
        print_error(f"{picture.title}: {message}")
