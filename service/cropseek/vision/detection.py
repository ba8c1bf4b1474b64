"""From the detector's rows to the regions of a picture that a request asks for."""

from __future__ import annotations

import numpy as np

from cropseek.errors import InvalidInput
from cropseek.types import NO_CLASS, Detections, Float32Array, PictureOptions, Regions
from cropseek.vision.geometry import Letterbox, clip_boxes


def select_regions(
    rows: Float32Array, fitted: Letterbox, options: PictureOptions
) -> tuple[Detections, bool]:
    """Return the regions of a picture, and whether `max_detections` cut any off.

    `rows` float32 `[300, 6]` is the detector's output: x1, y1, x2, y2 (pixels of its square),
    score, class; best first, filled up with score 0. The whole picture, if asked for, comes first.
    Raises `InvalidInput` for a box of the caller's that lies outside the picture.
    """
    if options.regions is Regions.BOXES:
        return _unnamed(_boxes(options, fitted.size_wh)), False
    found, truncated = _detections(rows, fitted, options)
    if not options.regions.wants_whole_picture:
        return found, truncated
    whole = _unnamed(np.array([[0, 0, *fitted.size_wh]], np.float32))
    if not options.regions.wants_detections:
        return whole, False
    return _joined(whole, found), truncated


def _boxes(options: PictureOptions, size_wh: tuple[int, int]) -> Float32Array:
    boxes = clip_boxes(np.array(options.boxes_xyxy), size_wh)
    for number, (x1, y1, x2, y2) in enumerate(boxes.tolist()):
        if not (x1 < x2 and y1 < y2):
            raise InvalidInput(
                f"boxes[{number}]: expected a box in the picture of {size_wh[0]} x {size_wh[1]}, "
                f"got {', '.join(f'{v:g}' for v in options.boxes_xyxy[number])}"
            )
    return boxes


def _detections(
    rows: Float32Array, fitted: Letterbox, options: PictureOptions
) -> tuple[Detections, bool]:
    keep = (rows[:, 4] >= options.min_score) & (rows[:, 4] > 0)
    if options.class_ids:
        keep &= np.isin(rows[:, 5], options.class_ids)
    kept = rows[keep]
    truncated = len(kept) > options.max_detections
    kept = kept[: options.max_detections]
    boxes = fitted.to_picture(kept[:, :4])
    return Detections(boxes, kept[:, 4].copy(), kept[:, 5].astype(np.int32)), truncated


def _unnamed(boxes_xyxy: Float32Array) -> Detections:
    n = len(boxes_xyxy)
    return Detections(boxes_xyxy, np.ones(n, np.float32), np.full(n, NO_CLASS, np.int32))


def _joined(first: Detections, second: Detections) -> Detections:
    return Detections(
        np.concatenate([first.boxes_xyxy, second.boxes_xyxy]),
        np.concatenate([first.scores, second.scores]),
        np.concatenate([first.class_ids, second.class_ids]),
    )
