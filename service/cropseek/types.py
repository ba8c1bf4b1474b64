"""The plain data that crosses rooms: struct-of-arrays dataclasses, checked once when made."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from enum import Enum
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cropseek.errors import InvalidInput

Float32Array = NDArray[np.float32]
Int32Array = NDArray[np.int32]
Int64Array = NDArray[np.int64]
Uint8Array = NDArray[np.uint8]

DEFAULT_MIN_SCORE = 0.25
MAX_DETECTIONS = 300
MAX_TOP_K = 1000
NO_CLASS = -1  # the class id of a region that no detector named
NO_ITEM = -1  # the id that fills up a row with fewer neighbours than the longest


class Regions(str, Enum):
    """Which parts of a picture are embedded."""

    DETECTIONS = "detections"
    WHOLE_PICTURE = "whole_picture"
    DETECTIONS_AND_WHOLE_PICTURE = "detections_and_whole_picture"
    BOXES = "boxes"

    @property
    def wants_detections(self) -> bool:
        """Whether the detector's boxes are among the regions."""
        return self in (Regions.DETECTIONS, Regions.DETECTIONS_AND_WHOLE_PICTURE)

    @property
    def wants_whole_picture(self) -> bool:
        """Whether the whole picture is one of the regions."""
        return self in (Regions.WHOLE_PICTURE, Regions.DETECTIONS_AND_WHOLE_PICTURE)


@dataclass(frozen=True)
class PictureOptions:
    """What to do with one picture: which regions, whether to embed them, what to search.

    `class_ids` empty means every class; `boxes_xyxy` is read only with `Regions.BOXES` and is in
    upright original pixels; `collection_id` None means no search; `alone` says that no other
    picture is in work, so that a model may take every core for this one. Raises `InvalidInput`.
    """

    regions: Regions = Regions.DETECTIONS
    boxes_xyxy: tuple[tuple[float, float, float, float], ...] = ()
    min_score: float = DEFAULT_MIN_SCORE
    max_detections: int = MAX_DETECTIONS
    class_ids: tuple[int, ...] = ()
    embed: bool = True
    collection_id: int | None = None
    top_k: int = 0
    min_similarity: float = -1.0
    alone: bool = False

    def __post_init__(self) -> None:
        _in_range("min_score", self.min_score, 0.0, 1.0)
        _whole("max_detections", self.max_detections)
        _in_range("max_detections", self.max_detections, 1, MAX_DETECTIONS)
        _whole("top_k", self.top_k)
        _in_range("top_k", self.top_k, 0, MAX_TOP_K)
        _in_range("min_similarity", self.min_similarity, -1.0, 1.0)
        for class_id in self.class_ids:
            _whole("class_ids", class_id)
            _in_range("class_ids", class_id, 0, 2**31 - 1)
        if self.collection_id is not None:
            _whole("collection_id", self.collection_id)
            _in_range("collection_id", self.collection_id, 0, 2**63 - 1)
        if self.regions is Regions.BOXES and not self.boxes_xyxy:
            raise InvalidInput("boxes: expected at least one box with regions = boxes, got none")
        if len(self.boxes_xyxy) > MAX_DETECTIONS:
            raise InvalidInput(
                f"boxes: expected at most {MAX_DETECTIONS}, got {len(self.boxes_xyxy)}"
            )
        for number, (x1, y1, x2, y2) in enumerate(self.boxes_xyxy):
            # Written so that NaN fails too.
            if not (x1 < x2 and y1 < y2 and np.isfinite([x1, y1, x2, y2]).all()):
                raise InvalidInput(
                    f"boxes[{number}]: expected finite x1 < x2 and y1 < y2, "
                    f"got {x1:g}, {y1:g}, {x2:g}, {y2:g}"
                )

    def to_json(self) -> str:
        """Return the options as the JSON text that travels to Triton as a request parameter."""
        return json.dumps(asdict(self))

    @staticmethod
    def from_json(text: str) -> PictureOptions:
        """Return the options that `to_json` wrote; raises `InvalidInput` for anything else."""
        try:
            raw: dict[str, Any] = json.loads(text)
            raw["regions"] = Regions(raw["regions"])
            raw["boxes_xyxy"] = tuple(tuple(box) for box in raw["boxes_xyxy"])
            raw["class_ids"] = tuple(raw["class_ids"])
            return PictureOptions(**raw)
        except (KeyError, TypeError, ValueError, RecursionError) as error:
            raise InvalidInput(  # a parameter may be a number too
                f"options: expected the JSON of PictureOptions, got {str(text)[:80]!r} ({error!r})"
            ) from None


def _whole(name: str, value: object) -> None:
    if not isinstance(value, Integral) or isinstance(value, bool):
        raise InvalidInput(f"{name}: expected a whole number, got {value!r}")


def _in_range(name: str, value: float, low: float, high: float) -> None:
    if not low <= value <= high:  # false for NaN as well
        low_text, high_text, text = map(_number_text, (low, high, value))
        raise InvalidInput(f"{name}: expected a value from {low_text} to {high_text}, got {text}")


def _number_text(value: float) -> str:
    return str(value) if isinstance(value, Integral) else f"{value:g}"


@dataclass(frozen=True)
class Detections:
    """The regions of one picture, best score first.

    `boxes_xyxy` float32 `[n, 4]` in upright original pixels, `scores` float32 `[n]`, `class_ids`
    int32 `[n]` (`NO_CLASS` for a region no detector named).
    """

    boxes_xyxy: Float32Array
    scores: Float32Array
    class_ids: Int32Array

    def __post_init__(self) -> None:
        n = len(self.boxes_xyxy)
        if self.boxes_xyxy.shape != (n, 4):
            raise ValueError(f"boxes_xyxy: expected [n, 4], got {list(self.boxes_xyxy.shape)}")
        if self.scores.shape != (n,) or self.class_ids.shape != (n,):
            raise ValueError(
                f"scores, class_ids: expected [{n}], "
                f"got {list(self.scores.shape)}, {list(self.class_ids.shape)}"
            )

    def __len__(self) -> int:
        return len(self.boxes_xyxy)


@dataclass(frozen=True)
class Neighbors:
    """The nearest items of each region.

    `item_ids` int64 `[n, k]` and `similarities` float32 `[n, k]` (cosine), nearest first; a row
    with fewer hits is filled up with `NO_ITEM`.
    """

    item_ids: Int64Array
    similarities: Float32Array


@dataclass(frozen=True)
class PictureResult:
    """What Triton made of one picture.

    `size_wh` is the upright picture's; `embeddings` float32 `[n, D]` and `neighbors` are None when
    not asked for; `index_sequence` is the change up to which the index had read (0 without a
    search); `truncated` says that more objects were found than asked for.
    """

    size_wh: tuple[int, int]
    detections: Detections
    embeddings: Float32Array | None = None
    neighbors: Neighbors | None = None
    index_sequence: int = 0
    truncated: bool = False
    timings_ms: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Fingerprint:
    """Which embedder made a collection's vectors: two collections compare only when it is equal.

    `source_sha256` is of the source FP32 ONNX file, whatever precision is served.
    """

    name: str
    dim: int
    source_sha256: str
    crop_recipe: str


@dataclass(frozen=True)
class Collection:
    """A named set of items with vectors of one embedder."""

    id: int
    name: str
    fingerprint: Fingerprint


@dataclass(frozen=True)
class Item:
    """One stored object: a region of a picture.

    `box_xyxy` is in the picture's upright pixels; `time_s` is None unless it is a video's frame.
    """

    id: int
    source: str
    time_s: float | None
    box_xyxy: tuple[float, float, float, float]
    score: float
    label: str
    metadata: dict[str, str]
