"""The options that several commands share, and what their texts become."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cropseek.cli.connect import Where

if TYPE_CHECKING:
    from cropseek.types import Regions

DEFAULT_DATA_DIR = Path(".cropseek")
DEFAULT_TARGET = "127.0.0.1:50051"
_WHERE = "Which server"
_WHAT = "Which objects"


class RegionChoice(str, Enum):
    """`--regions` by name."""

    DETECTIONS = "detections"
    WHOLE_PICTURE = "whole-picture"
    BOTH = "both"

    @property
    def regions(self) -> Regions:
        """What the API calls it."""
        from cropseek.types import Regions

        return {
            RegionChoice.DETECTIONS: Regions.DETECTIONS,
            RegionChoice.WHOLE_PICTURE: Regions.WHOLE_PICTURE,
            RegionChoice.BOTH: Regions.DETECTIONS_AND_WHOLE_PICTURE,
        }[self]


Server = Annotated[
    str | None,
    typer.Option(
        metavar="HOST:PORT",
        help=f"A running server.  [dim]\\[default: {DEFAULT_TARGET}][/dim]",
        rich_help_panel=_WHERE,
    ),
]
Local = Annotated[
    bool,
    typer.Option(
        "--local", help="Start one for the length of this command.", rich_help_panel=_WHERE
    ),
]
DataDir = Annotated[
    Path | None,
    typer.Option(
        metavar="DIR",
        help=f"Where --local keeps its data.  [dim]\\[default: {DEFAULT_DATA_DIR}][/dim]",
        rich_help_panel=_WHERE,
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON, one document a line.")]
MinScore = Annotated[
    float | None,
    typer.Option(
        min=0.0,
        max=1.0,
        metavar="SCORE",
        help="Leave out objects below this score.  [dim]\\[default: 0.25][/dim]",
        rich_help_panel=_WHAT,
    ),
]
MaxDetections = Annotated[
    int | None,
    typer.Option(
        min=1,
        metavar="N",
        help="At most this many a picture.  [dim]\\[default: 300][/dim]",
        rich_help_panel=_WHAT,
    ),
]
Classes = Annotated[
    str | None,
    typer.Option(
        metavar="A,B",
        help="Only these labels, as [bold]person,car[/bold].",
        rich_help_panel=_WHAT,
    ),
]
RegionsOption = Annotated[
    RegionChoice,
    typer.Option("--regions", help="What is embedded.", rich_help_panel=_WHAT),
]
Collection = Annotated[str, typer.Option(metavar="NAME", help="Name of the collection.")]
TopK = Annotated[
    int | None,
    typer.Option(
        min=1,
        metavar="N",
        help="Neighbours an object.  [dim]\\[default: 5][/dim]",
    ),
]
MinSimilarity = Annotated[
    float | None,
    typer.Option(
        min=-1.0, max=1.0, metavar="COSINE", help="Leave out neighbours below this cosine."
    ),
]


def _above_zero(fps: float) -> float:
    if not 0 < fps < float("inf"):
        raise typer.BadParameter("expected a number above 0")
    return fps


Fps = Annotated[
    float,
    typer.Option(callback=_above_zero, metavar="RATE", help="Frames a second taken from a video."),
]
Paths = Annotated[
    list[Path],
    typer.Argument(
        metavar="IMAGE", help="Pictures, videos, or folders of them.", show_default=False
    ),
]


def where(server: str | None, local: bool, data_dir: Path | None) -> Where:
    """Return which server is meant; contradictions are wrong usage."""
    if local and server is not None:
        raise typer.BadParameter("give --server or --local, not both")
    if data_dir is not None and not local:
        raise typer.BadParameter("--data-dir goes with --local: a running server has its own")
    if local:
        return Where(None, data_dir)
    return Where(server or DEFAULT_TARGET, None)


def split_classes(classes: str | None) -> list[str]:
    """Return the labels of `a,b`."""
    return [label.strip() for label in (classes or "").split(",") if label.strip()]


def split_metadata(pairs: Sequence[str]) -> dict[str, str]:
    """Return the dict of `key=value` texts; anything else is wrong usage."""
    for pair in pairs:
        if not pair.partition("=")[0] or "=" not in pair:
            raise typer.BadParameter(f"--metadata: expected KEY=VALUE, got {pair!r}")
    return {key: value for key, _, value in (pair.partition("=") for pair in pairs)}
