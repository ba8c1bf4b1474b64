"""Between the API's messages and plain types."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from cropseek.engine import Found, Kept
from cropseek.errors import CropseekError, InvalidInput
from cropseek.pb import cropseek_pb2 as pb
from cropseek.types import (
    DEFAULT_MIN_SCORE,
    MAX_DETECTIONS,
    Item,
    PictureOptions,
    PictureResult,
    Regions,
)

DEFAULT_TOP_K = 5
_REGIONS = {
    pb.REGIONS_UNSPECIFIED: Regions.DETECTIONS,
    pb.REGIONS_DETECTIONS: Regions.DETECTIONS,
    pb.REGIONS_WHOLE_PICTURE: Regions.WHOLE_PICTURE,
    pb.REGIONS_DETECTIONS_AND_WHOLE_PICTURE: Regions.DETECTIONS_AND_WHOLE_PICTURE,
    pb.REGIONS_BOXES: Regions.BOXES,
}
Label = Callable[[int], str]


def region_options(
    message: pb.RegionOptions, class_ids: Callable[[Sequence[str]], tuple[int, ...]]
) -> PictureOptions:
    """Return a request's regions with the defaults filled in; raises `InvalidInput`."""
    if message.regions not in _REGIONS:  # an open enum: a newer client may know more
        raise InvalidInput(
            f"regions: expected one of {', '.join(pb.Regions.keys())}, got {message.regions}"
        )
    return PictureOptions(
        regions=_REGIONS[message.regions],
        boxes_xyxy=tuple((box.x1, box.y1, box.x2, box.y2) for box in message.boxes),
        min_score=message.min_score if message.HasField("min_score") else DEFAULT_MIN_SCORE,
        max_detections=(
            message.max_detections if message.HasField("max_detections") else MAX_DETECTIONS
        ),
        class_ids=class_ids(message.classes),
    )


def detect_regions(request: pb.DetectRequest) -> pb.RegionOptions:
    """Return the region options that a DetectRequest means."""
    options = pb.RegionOptions(classes=request.classes)
    if request.HasField("min_score"):
        options.min_score = request.min_score
    if request.HasField("max_detections"):
        options.max_detections = request.max_detections
    return options


def size(result: PictureResult) -> pb.Size:
    """Return a picture's upright size."""
    return pb.Size(width=result.size_wh[0], height=result.size_wh[1])


def detections(
    result: PictureResult, label: Label, *, embeddings: bool = False
) -> list[pb.Detection]:
    """Return the regions of a picture, with their vectors if asked for."""
    found = result.detections
    messages = [
        pb.Detection(box=_box(box), score=score, label=label(class_id), class_id=class_id)
        for box, score, class_id in zip(
            found.boxes_xyxy.tolist(),
            found.scores.tolist(),
            found.class_ids.tolist(),
            strict=True,
        )
    ]
    if embeddings and result.embeddings is not None:
        for message, vector in zip(messages, result.embeddings.tolist(), strict=True):
            message.embedding.extend(vector)
    return messages


def search_response(found: Found, label: Label, *, embeddings: bool) -> pb.SearchResponse:
    """Return a search's answer."""
    messages = detections(found.result, label, embeddings=embeddings)
    for message, neighbors in zip(messages, found.neighbors, strict=True):
        message.neighbors.extend(_neighbor(item, cosine) for item, cosine in neighbors)
    return pb.SearchResponse(
        size=size(found.result),
        detections=messages,
        index_sequence=found.result.index_sequence,
        timings_ms=found.result.timings_ms,
        truncated=found.result.truncated,
    )


def indexed(kept: Kept, label: Label) -> pb.Indexed:
    """Return what indexing a picture did."""
    return pb.Indexed(
        item_ids=kept.item_ids, sequence=kept.sequence, detections=detections(kept.result, label)
    )


def error(fault: CropseekError) -> pb.Error:
    """Return an error as an answer of a stream."""
    return pb.Error(code=fault.code, message=str(fault), reason=type(fault).__name__)


def _neighbor(item: Item, similarity: float) -> pb.Neighbor:
    return pb.Neighbor(
        item_id=item.id,
        similarity=similarity,
        source=item.source,
        time_s=item.time_s,
        box=_box(item.box_xyxy),
        label=item.label,
        score=item.score,
        metadata=item.metadata,
    )


def _box(xyxy: Sequence[float]) -> pb.Box:
    return pb.Box(x1=xyxy[0], y1=xyxy[1], x2=xyxy[2], y2=xyxy[3])
