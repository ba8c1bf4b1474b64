"""The pictures that a command line names: files, folders and videos."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from cropseek.errors import CropseekError, InvalidInput
from cropseek.text import path_text

if TYPE_CHECKING:
    from cropseek.client.pictures import Image

# What is taken from a folder: what `cropseek.vision.decode` reads, but for working files.
PICTURE_SUFFIXES = frozenset(
    ".apng .avif .bmp .gif .j2k .jfif .jp2 .jpe .jpeg .jpg .mpo .pgm .png .ppm .qoi .tga .tif "
    ".tiff .webp".split()
)

_CTRL_C_CHECK_S = 0.2

_Result = TypeVar("_Result")


@dataclass(frozen=True)
class Picture:
    """One picture to work on: `image` is a path, not read yet, or a frame's bytes.

    `name` is the path as the user gave it, `time_s` a video frame's time. `error` says why there is
    no picture under that name.
    """

    name: str
    image: Image = b""
    time_s: float | None = None
    error: CropseekError | None = None

    @property
    def source(self) -> str:
        """The absolute path, which means the same file wherever a later search is run."""
        return path_text(Path(os.path.abspath(self.name)))

    @property
    def title(self) -> str:
        """The name for people."""
        return self.name if self.time_s is None else f"{self.name} at {self.time_s:.2f} s"

    def to_dict(self) -> dict[str, Any]:
        """Return how JSON names it."""
        named: dict[str, Any] = {"image": self.name}
        if self.time_s is not None:
            named["time_s"] = round(self.time_s, 6)
        return named


def pictures(paths: Iterable[Path], fps: float) -> Iterator[Picture]:
    """Yield every picture of files, folders (sorted, with what is below) and videos, lazily."""
    for path in files(paths):
        if isinstance(path, Picture):
            yield path
        elif _is_video(path):
            yield from _frames(path, fps)
        else:
            yield Picture(path_text(path), path)


def files(paths: Iterable[Path]) -> Iterator[Path | Picture]:
    """Yield the files behind paths; a folder without pictures is a `Picture` with the error."""
    for path in paths:
        if not path.is_dir():
            yield path
            continue
        found = sorted(file for file in path.rglob("*") if _is_wanted(file, path))
        if not found:
            error = InvalidInput("no pictures or videos in this folder")
            yield Picture(path_text(path), error=error)
        yield from found


def count_pictures(paths: Iterable[Path]) -> int | None:
    """Return how many there are, or None with a video among them: that takes decoding it."""
    found = [path for path in files(paths) if not isinstance(path, Picture)]
    return None if any(_is_video(path) for path in found) else len(found)


def _is_wanted(file: Path, folder: Path) -> bool:
    from cropseek.video.frames import VIDEO_SUFFIXES

    if any(part.startswith(".") for part in file.relative_to(folder).parts):
        return False
    suffix = file.suffix.lower()
    return (suffix in PICTURE_SUFFIXES or suffix in VIDEO_SUFFIXES) and file.is_file()


def _is_video(path: Path) -> bool:
    from cropseek.video.frames import is_video

    return path.suffix.lower() not in PICTURE_SUFFIXES and path.is_file() and is_video(path)


def _frames(path: Path, fps: float) -> Iterator[Picture]:
    from cropseek.video.frames import sample_frames
    from cropseek.vision.encode import encode_jpeg

    name = path_text(path)
    try:
        for time_s, image_rgb in sample_frames(path, fps):
            yield Picture(name, encode_jpeg(image_rgb), time_s)
    except CropseekError as error:
        yield Picture(name, error=error)


def each(
    items: Iterable[Picture], call: Callable[[Picture], _Result]
) -> Iterator[tuple[Picture, _Result | CropseekError]]:
    """Yield `call`'s result or error for each picture, in order, a few calls at a time."""
    from cropseek.triton.cores import usable_cores

    def attempt(picture: Picture) -> _Result | CropseekError:
        try:
            return picture.error or call(picture)
        except CropseekError as error:
            return error

    at_once = 2 * usable_cores()
    waiting: deque[tuple[Picture, Future[_Result | CropseekError]]] = deque()
    pool = ThreadPoolExecutor(at_once)
    try:
        for picture in items:
            waiting.append((picture, pool.submit(attempt, picture)))
            while len(waiting) >= at_once or (waiting and waiting[0][1].done()):
                done, future = waiting.popleft()
                yield done, _awaited(future)
        while waiting:
            done, future = waiting.popleft()
            yield done, _awaited(future)
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


def _awaited(future: Future[_Result]) -> _Result:
    # In short steps, since Python loses a ctrl-C that comes just before a wait without end.
    while not future.done():
        wait([future], _CTRL_C_CHECK_S)
    return future.result()
