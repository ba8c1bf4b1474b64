"""A progress bar on stderr, where that is a terminal."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TypeVar

from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from cropseek.cli.failures import stderr
from cropseek.cli.inputs import count_pictures

_Value = TypeVar("_Value")


def with_progress(values: Iterable[_Value], paths: Iterable[Path]) -> Iterator[_Value]:
    """Yield the values, one a picture of `paths`, and show how far they are."""
    if not stderr.is_terminal:
        yield from values
        return
    bar = Progress(
        TextColumn("indexing"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        console=stderr,
        transient=True,
    )
    with bar:
        yield from bar.track(values, total=count_pictures(paths))
