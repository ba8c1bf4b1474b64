"""The commands on pictures: `index`, `search`, `detect`, `embed` and `draw`."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from cropseek.cli import options

if TYPE_CHECKING:
    from cropseek.cli.connect import Where
    from cropseek.cli.failures import Failures
    from cropseek.cli.inputs import Picture
    from cropseek.client import Client, IndexItem
    from cropseek.client.results import IndexOutcome

_Result = TypeVar("_Result")


def detect(
    images: options.Paths,
    min_score: options.MinScore = None,
    max_detections: options.MaxDetections = None,
    classes: options.Classes = None,
    fps: options.Fps = 1.0,
    server: options.Server = None,
    local: options.Local = False,
    data_dir: options.DataDir = None,
    json: options.Json = False,
) -> None:
    """Print the objects of each picture: label, score and box in pixels."""
    from cropseek.cli import show

    labels = options.split_classes(classes)
    failures = _each_picture(
        images,
        fps,
        options.where(server, local, data_dir),
        lambda client, picture: client.detect(
            picture.image, min_score=min_score, max_detections=max_detections, classes=labels
        ),
        show.print_detections_json if json else show.print_detections,
    )
    _exit_on(failures)


def search(
    images: options.Paths,
    collection: options.Collection = "default",
    top_k: options.TopK = None,
    min_similarity: options.MinSimilarity = None,
    regions: options.RegionsOption = options.RegionChoice.DETECTIONS,
    min_score: options.MinScore = None,
    max_detections: options.MaxDetections = None,
    classes: options.Classes = None,
    fps: options.Fps = 1.0,
    server: options.Server = None,
    local: options.Local = False,
    data_dir: options.DataDir = None,
    json: options.Json = False,
) -> None:
    """Find the objects of each picture, and for each its look-alikes in a collection."""
    from cropseek.cli import show

    labels = options.split_classes(classes)
    failures = _each_picture(
        images,
        fps,
        options.where(server, local, data_dir),
        lambda client, picture: client.search(
            picture.image,
            collection=collection,
            top_k=top_k,
            min_similarity=min_similarity,
            regions=regions.regions,
            min_score=min_score,
            max_detections=max_detections,
            classes=labels,
        ),
        show.print_neighbors_json if json else show.print_neighbors,
    )
    _exit_on(failures)


def index(
    paths: Annotated[
        list[Path],
        typer.Argument(metavar="PATH", help="Pictures, videos, or folders of them."),
    ],
    collection: options.Collection = "default",
    metadata: Annotated[
        list[str] | None,
        typer.Option(metavar="KEY=VALUE", help="Kept with every item; can be repeated."),
    ] = None,
    regions: options.RegionsOption = options.RegionChoice.DETECTIONS,
    min_score: options.MinScore = None,
    max_detections: options.MaxDetections = None,
    classes: options.Classes = None,
    fps: options.Fps = 1.0,
    server: options.Server = None,
    local: options.Local = False,
    data_dir: options.DataDir = None,
    json: options.Json = False,
) -> None:
    """Add the objects of pictures to a collection, which is made if need be.

    A hit names the picture by its absolute path. Indexing a path again replaces its items.
    """
    from cropseek.cli import show
    from cropseek.cli.connect import connected
    from cropseek.cli.failures import print_error
    from cropseek.cli.inputs import pictures
    from cropseek.cli.progress import with_progress
    from cropseek.errors import CropseekError

    kept = options.split_metadata(metadata or [])
    labels = options.split_classes(classes)
    work = _Indexing()

    def tell() -> None:
        images, objects = len(work.stored), sum(work.stored)
        if json:
            show.print_json({"images": images, "items": objects, "failed": work.failures.rows})
        else:
            show.print_indexed(images, objects, collection, perf_counter() - began)

    with connected(options.where(server, local, data_dir)) as client:
        began = perf_counter()
        outcomes = client.index_images(
            work.items(pictures(paths, fps), kept),
            collection=collection,
            regions=regions.regions,
            min_score=min_score,
            max_detections=max_detections,
            classes=labels,
        )
        try:
            for outcome in with_progress(outcomes, paths):
                work.take(outcome)
        except (CropseekError, KeyboardInterrupt):
            if work.stored or work.failures.rows:
                tell()
                print_error("stopped before the end; what was indexed so far is kept")
            raise
    tell()
    _exit_on(work.failures)


class _Indexing:
    """What an `index` command sends, and what became of it: `stored` has each picture's count."""

    def __init__(self) -> None:
        from cropseek.cli.failures import Failures

        self.failures = Failures()
        self.stored: list[int] = []
        self._sent: deque[Picture] = deque()

    def items(self, pictures: Iterator[Picture], metadata: dict[str, str]) -> Iterator[IndexItem]:
        """Yield what is to be sent; a picture that is none is a failure."""
        from cropseek.client import IndexItem

        for picture in pictures:
            if picture.error is not None:
                self.failures.add(picture, picture.error)
                continue
            self._sent.append(picture)
            yield IndexItem(picture.image, picture.source, picture.time_s, metadata)

    def take(self, outcome: IndexOutcome) -> None:
        """Note the outcome of the next picture that was sent."""
        picture = self._sent.popleft()
        if outcome.error is not None:
            self.failures.add(picture, outcome.error)
        elif outcome.indexed is not None:
            self.stored.append(len(outcome.indexed.item_ids))


def embed(
    images: options.Paths,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", metavar="FILE.npz", help="Write arrays there, not JSON lines."
        ),
    ] = None,
    regions: options.RegionsOption = options.RegionChoice.DETECTIONS,
    min_score: options.MinScore = None,
    max_detections: options.MaxDetections = None,
    classes: options.Classes = None,
    fps: options.Fps = 1.0,
    server: options.Server = None,
    local: options.Local = False,
    data_dir: options.DataDir = None,
    json: options.Json = False,
) -> None:
    """Print the vector of each object: JSON lines, or arrays in a file.

    The file holds embeddings [dim](n, D)[/dim], boxes_xyxy [dim](n, 4)[/dim], scores, labels,
    images and times_s [dim](NaN where it is no video)[/dim].
    """
    from cropseek.cli import show
    from cropseek.cli.files import VectorFile

    labels = options.split_classes(classes)
    file = None if output is None else VectorFile(output)
    failures = _each_picture(
        images,
        fps,
        options.where(server, local, data_dir),
        lambda client, picture: client.embed(
            picture.image,
            regions=regions.regions,
            min_score=min_score,
            max_detections=max_detections,
            classes=labels,
        ),
        show.print_embeddings if file is None else file.add,
    )
    if file is not None:
        file.write()
        show.print_vectors_written(file, as_json=json)
    _exit_on(failures)


def draw(
    image: Annotated[Path, typer.Argument(metavar="IMAGE", dir_okay=False, help="A picture.")],
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            metavar="OUT.jpg",
            help="Where to write it.  [dim]\\[default: NAME-detections.jpg, here][/dim]",
        ),
    ] = None,
    min_score: options.MinScore = None,
    max_detections: options.MaxDetections = None,
    classes: options.Classes = None,
    server: options.Server = None,
    local: options.Local = False,
    data_dir: options.DataDir = None,
    json: options.Json = False,
) -> None:
    """Write a copy of a picture with its objects' boxes and labels."""
    from cropseek.cli import show
    from cropseek.cli.files import write_drawn
    from cropseek.video.frames import is_video

    if is_video(image):
        raise typer.BadParameter(f"expected a picture, got a video: {image}")

    labels = options.split_classes(classes)
    target = output or Path(f"{image.stem}-detections.jpg")
    failures = _each_picture(
        [image],
        1.0,
        options.where(server, local, data_dir),
        lambda client, picture: client.detect(
            picture.image, min_score=min_score, max_detections=max_detections, classes=labels
        ),
        lambda picture, result: show.print_drawn(
            picture, result, write_drawn(picture, result, target), as_json=json
        ),
    )
    _exit_on(failures)


def _each_picture(
    images: list[Path],
    fps: float,
    where: Where,
    call: Callable[[Client, Picture], _Result],
    show_one: Callable[[Picture, _Result], None],
) -> Failures:
    """Show what `call` makes of each picture, in order; return those that failed."""
    from cropseek.cli.connect import connected
    from cropseek.cli.failures import Failures
    from cropseek.cli.inputs import each, pictures
    from cropseek.errors import CropseekError

    failures = Failures()
    with connected(where) as client:
        for picture, result in each(pictures(images, fps), partial(call, client)):
            if isinstance(result, CropseekError):
                failures.add(picture, result)
            else:
                show_one(picture, result)
    return failures


def _exit_on(failures: Failures) -> None:
    if failures.rows:
        raise typer.Exit(1)
