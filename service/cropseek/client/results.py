"""What the client returns: plain frozen dataclasses, each with the dict that `--json` prints."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from cropseek.client.pictures import Image
from cropseek.errors import CropseekError
from cropseek.types import Float32Array

BoxXyxy = tuple[float, float, float, float]


def _box_to_list(box_xyxy: BoxXyxy) -> list[float]:
    return [round(value, 2) for value in box_xyxy]


@dataclass(frozen=True)
class Neighbor:
    """One stored object that looks like a region of the query.

    `similarity` is the cosine; `source`, `time_s` and `metadata` are as given when it was indexed;
    `box_xyxy` is in upright pixels of the picture it comes from, `score` its detector's.
    """

    item_id: int
    similarity: float
    source: str
    time_s: float | None
    box_xyxy: BoxXyxy
    label: str
    score: float
    metadata: dict[str, str]

    def to_dict(self) -> dict[str, Any]:
        """Return it for JSON; `score` is the similarity, `time_s` is there for a video's frame."""
        raw: dict[str, Any] = {
            "id": self.item_id,
            "score": round(self.similarity, 6),
            "source": self.source,
            "box": _box_to_list(self.box_xyxy),
            "label": self.label,
            "metadata": self.metadata,
        }
        if self.time_s is not None:
            raw["time_s"] = round(self.time_s, 6)
        return raw


@dataclass(frozen=True)
class Detection:
    """One region of a picture.

    `box_xyxy` is in upright original pixels; a region that no detector found has score 1, an empty
    label and class id -1; `neighbors` are nearest first, and empty unless this is a search.
    """

    box_xyxy: BoxXyxy
    score: float
    label: str
    class_id: int
    neighbors: tuple[Neighbor, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Return it for JSON, without neighbours."""
        return {
            "box": _box_to_list(self.box_xyxy),
            "score": round(self.score, 6),
            "label": self.label,
            "class_id": self.class_id,
        }


@dataclass(frozen=True)
class DetectResult:
    """The objects of one picture, best first; `size_wh` is the upright picture's.

    `truncated` says that there are more objects than `max_detections`.
    """

    size_wh: tuple[int, int]
    detections: tuple[Detection, ...]
    timings_ms: dict[str, float]
    truncated: bool

    def to_dict(self) -> dict[str, Any]:
        """Return it for JSON."""
        return {
            "width": self.size_wh[0],
            "height": self.size_wh[1],
            "detections": [detection.to_dict() for detection in self.detections],
            **_truncated_to_dict(self.truncated),
        }


@dataclass(frozen=True, eq=False)
class SearchResult:
    """The objects of one picture with their neighbours.

    `index_sequence` is the last change of the catalog that the index had read; `embeddings` is
    float32 `[n, D]`, L2-normalised, or None unless asked for.
    """

    size_wh: tuple[int, int]
    detections: tuple[Detection, ...]
    timings_ms: dict[str, float]
    truncated: bool
    index_sequence: int
    embeddings: Float32Array | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return it for JSON, without embeddings."""
        return {
            "detections": [_searched_to_dict(detection) for detection in self.detections],
            "index_sequence": self.index_sequence,
            "timings_ms": {name: round(ms, 3) for name, ms in self.timings_ms.items()},
            **_truncated_to_dict(self.truncated),
        }


def _searched_to_dict(detection: Detection) -> dict[str, Any]:
    raw = detection.to_dict()
    del raw["class_id"]
    raw["neighbors"] = [neighbor.to_dict() for neighbor in detection.neighbors]
    return raw


def _truncated_to_dict(truncated: bool) -> dict[str, bool]:
    return {"truncated": True} if truncated else {}


@dataclass(frozen=True, eq=False)
class EmbedResult:
    """The regions of one picture; `embeddings` float32 `[n, D]`, L2-normalised."""

    size_wh: tuple[int, int]
    detections: tuple[Detection, ...]
    embeddings: Float32Array
    embedder: str
    timings_ms: dict[str, float]
    truncated: bool

    def to_dict(self) -> dict[str, Any]:
        """Return it for JSON; nine digits give every float32 back exactly."""
        rows = [
            {**detection.to_dict(), "embedding": [float(f"{v:.9g}") for v in vector]}
            for detection, vector in zip(self.detections, self.embeddings.tolist(), strict=True)
        ]
        return {
            "width": self.size_wh[0],
            "height": self.size_wh[1],
            "embedder": self.embedder,
            "detections": rows,
            **_truncated_to_dict(self.truncated),
        }


@dataclass(frozen=True)
class Indexed:
    """What one picture added to a collection: an item id for each of `detections`.

    `sequence` is the catalog's last change with it.
    """

    item_ids: tuple[int, ...]
    sequence: int
    detections: tuple[Detection, ...]


@dataclass(frozen=True)
class SearchOutcome:
    """One answer of `search_stream`: `result`, or the `error` that hit this picture only."""

    position: int
    result: SearchResult | None = None
    error: CropseekError | None = None


@dataclass(frozen=True)
class IndexOutcome:
    """One answer of `index_images`: `indexed`, or the `error` that hit this picture only."""

    position: int
    source: str
    indexed: Indexed | None = None
    error: CropseekError | None = None


@dataclass(frozen=True)
class Collection:
    """A named set of items with vectors `[dim]` of one embedder."""

    name: str
    embedder: str
    dim: int
    items: int

    def to_dict(self) -> dict[str, Any]:
        """Return it for JSON."""
        return {
            "name": self.name,
            "embedder": self.embedder,
            "dim": self.dim,
            "items": self.items,
        }


@dataclass(frozen=True)
class IndexItem:
    """One picture to index: a path (read only when its turn comes) or encoded bytes.

    `source` is told back with each hit, and indexing the same source (and `time_s`, for a video's
    frame) again replaces its items; empty means that the picture is always new.
    """

    image: Image
    source: str = ""
    time_s: float | None = None
    metadata: dict[str, str] = field(default_factory=dict)
