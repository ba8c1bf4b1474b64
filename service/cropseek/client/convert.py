"""Between the API's messages and what the client takes and returns."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, TypedDict

import numpy as np

from cropseek.client.results import (
    BoxXyxy,
    Collection,
    Detection,
    DetectResult,
    EmbedResult,
    Indexed,
    IndexItem,
    IndexOutcome,
    Neighbor,
    SearchOutcome,
    SearchResult,
)
from cropseek.errors import CropseekError, from_code
from cropseek.pb import cropseek_pb2 as pb
from cropseek.types import Float32Array, Regions

if TYPE_CHECKING:
    from typing_extensions import Unpack

_REGIONS = {
    Regions.DETECTIONS: pb.REGIONS_DETECTIONS,
    Regions.WHOLE_PICTURE: pb.REGIONS_WHOLE_PICTURE,
    Regions.DETECTIONS_AND_WHOLE_PICTURE: pb.REGIONS_DETECTIONS_AND_WHOLE_PICTURE,
    Regions.BOXES: pb.REGIONS_BOXES,
}


class DetectOptions(TypedDict, total=False):
    """Which objects are reported; what is left out is the server's default."""

    min_score: float | None
    max_detections: int | None
    classes: Sequence[str]


class RegionOptions(DetectOptions, total=False):
    """Which regions are embedded; `boxes_xyxy` goes with `Regions.BOXES` only."""

    regions: Regions
    boxes_xyxy: Sequence[BoxXyxy]


class SearchOptions(RegionOptions, total=False):
    """Where to look and how many neighbours to tell of each region."""

    collection: str
    top_k: int | None
    min_similarity: float | None
    include_embeddings: bool


def detect_request(image: bytes, **options: Unpack[DetectOptions]) -> pb.DetectRequest:
    """Return the request to find a picture's objects."""
    return pb.DetectRequest(image=image, **options)


def embed_request(image: bytes, **options: Unpack[RegionOptions]) -> pb.EmbedRequest:
    """Return the request to embed a picture's regions."""
    return pb.EmbedRequest(image=image, options=region_options(**options))


def search_request(
    image: bytes,
    *,
    collection: str = "",
    top_k: int | None = None,
    min_similarity: float | None = None,
    include_embeddings: bool = False,
    **options: Unpack[RegionOptions],
) -> pb.SearchRequest:
    """Return the request to search by a picture."""
    return pb.SearchRequest(
        image=image,
        collection=collection,
        options=region_options(**options),
        top_k=top_k,
        min_similarity=min_similarity,
        include_embeddings=include_embeddings,
    )


def index_request(
    item: IndexItem, image: bytes, collection: str, **options: Unpack[RegionOptions]
) -> pb.IndexImagesRequest:
    """Return the request to index one picture, whose bytes have been read."""
    return pb.IndexImagesRequest(
        image=image,
        collection=collection,
        source=item.source,
        time_s=item.time_s,
        metadata=item.metadata,
        options=region_options(**options),
    )


def region_options(
    *,
    regions: Regions = Regions.DETECTIONS,
    boxes_xyxy: Sequence[BoxXyxy] = (),
    min_score: float | None = None,
    max_detections: int | None = None,
    classes: Sequence[str] = (),
) -> pb.RegionOptions:
    """Return the message for `RegionOptions`."""
    return pb.RegionOptions(
        regions=_REGIONS[Regions(regions)],
        boxes=[pb.Box(x1=x1, y1=y1, x2=x2, y2=y2) for x1, y1, x2, y2 in boxes_xyxy],
        min_score=min_score,
        max_detections=max_detections,
        classes=classes,
    )


def detect_result(message: pb.DetectResponse) -> DetectResult:
    """Return what the answer says."""
    return DetectResult(
        size_wh=_size(message.size),
        detections=_detections(message.detections),
        timings_ms=dict(message.timings_ms),
        truncated=message.truncated,
    )


def search_result(message: pb.SearchResponse, *, embeddings: bool) -> SearchResult:
    """Return what the answer says, with vectors where they were asked for."""
    return SearchResult(
        size_wh=_size(message.size),
        detections=_detections(message.detections),
        timings_ms=dict(message.timings_ms),
        truncated=message.truncated,
        index_sequence=message.index_sequence,
        embeddings=_embeddings(message.detections) if embeddings else None,
    )


def embed_result(message: pb.EmbedResponse) -> EmbedResult:
    """Return what the answer says."""
    return EmbedResult(
        size_wh=_size(message.size),
        detections=_detections(message.detections),
        embeddings=_embeddings(message.detections),
        embedder=message.embedder,
        timings_ms=dict(message.timings_ms),
        truncated=message.truncated,
    )


def search_outcome(
    message: pb.SearchStreamResponse, position: int, *, embeddings: bool
) -> SearchOutcome:
    """Return what one answer of the stream says; `position` counts the caller's pictures."""
    if message.WhichOneof("outcome") == "error":
        return SearchOutcome(position, error=_error(message.error))
    return SearchOutcome(position, result=search_result(message.result, embeddings=embeddings))


def index_outcome(message: pb.IndexImagesResponse, position: int) -> IndexOutcome:
    """Return what one answer of the stream says; `position` counts the caller's items."""
    if message.WhichOneof("outcome") == "error":
        return IndexOutcome(position, message.source, error=_error(message.error))
    indexed = Indexed(
        item_ids=tuple(message.indexed.item_ids),
        sequence=message.indexed.sequence,
        detections=_detections(message.indexed.detections),
    )
    return IndexOutcome(position, message.source, indexed=indexed)


def collection(message: pb.Collection) -> Collection:
    """Return what the message says."""
    return Collection(message.name, message.embedder, message.dim, message.items)


def _error(message: pb.Error) -> CropseekError:
    return from_code(message.code, message.message, message.reason)


def _size(message: pb.Size) -> tuple[int, int]:
    return message.width, message.height


def _box(message: pb.Box) -> BoxXyxy:
    return message.x1, message.y1, message.x2, message.y2


def _detections(messages: Iterable[pb.Detection]) -> tuple[Detection, ...]:
    return tuple(
        Detection(
            box_xyxy=_box(message.box),
            score=message.score,
            label=message.label,
            class_id=message.class_id,
            neighbors=tuple(_neighbor(neighbor) for neighbor in message.neighbors),
        )
        for message in messages
    )


def _neighbor(message: pb.Neighbor) -> Neighbor:
    return Neighbor(
        item_id=message.item_id,
        similarity=message.similarity,
        source=message.source,
        time_s=message.time_s if message.HasField("time_s") else None,
        box_xyxy=_box(message.box),
        label=message.label,
        score=message.score,
        metadata=dict(message.metadata),
    )


def _embeddings(messages: Sequence[pb.Detection]) -> Float32Array:
    """Return float32 `[n, D]`; `[0, 0]` when there is no region to tell D."""
    if not messages:
        return np.empty((0, 0), np.float32)
    return np.array([message.embedding for message in messages], np.float32)
