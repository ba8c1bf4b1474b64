"""Where pixels go: the detector's letterbox and its inverse, boxes, and crop matrices."""

from __future__ import annotations

from dataclasses import dataclass

import cv2
import numpy as np

from cropseek.types import Float32Array, Int32Array, Uint8Array

LETTERBOX_FILL = 114
CONTEXT = 0.25
MIN_EDGE_PX = 192.0
MIN_EDGE_SHARE = 0.3


@dataclass(frozen=True)
class Letterbox:
    """How a picture was fitted into the detector's square: `x_square = x * inner_w / w + pad_left`.

    `size_wh` is the upright picture's and `inner_wh` its size within the square, in pixels. The
    inner size is rounded, so the two axes' scales differ a little: boxes go back by each its own.
    """

    size_wh: tuple[int, int]
    inner_wh: tuple[int, int]
    pad_left: int
    pad_top: int

    @staticmethod
    def fit(size_wh: tuple[int, int], side: int) -> Letterbox:
        """Fit a picture into a square, centred, aspect kept (the rounding is Ultralytics')."""
        ratio = min(side / size_wh[0], side / size_wh[1])
        inner_w, inner_h = (max(1, round(length * ratio)) for length in size_wh)
        pad_left = round((side - inner_w) / 2 - 0.1)
        pad_top = round((side - inner_h) / 2 - 0.1)
        return Letterbox(size_wh, (inner_w, inner_h), pad_left, pad_top)

    def to_array(self) -> Int32Array:
        """Return int32 `[6]`: width, height, inner width and height, pad_left, pad_top."""
        values = (*self.size_wh, *self.inner_wh, self.pad_left, self.pad_top)
        return np.array(values, np.int32)

    @staticmethod
    def from_array(values: Int32Array) -> Letterbox:
        """Return the letterbox that `to_array` wrote."""
        width, height, inner_w, inner_h, pad_left, pad_top = values.tolist()
        return Letterbox((width, height), (inner_w, inner_h), pad_left, pad_top)

    def to_picture(self, boxes_xyxy: Float32Array) -> Float32Array:
        """Map boxes `[n, 4]` from the square to the picture's pixels, clipped to the picture."""
        pads = np.array([self.pad_left, self.pad_top] * 2, np.float32)
        scales = np.array(self.inner_wh * 2, np.float32) / np.array(self.size_wh * 2, np.float32)
        return clip_boxes((boxes_xyxy - pads) / scales, self.size_wh)


def letterbox(image_rgb: Uint8Array, side: int) -> tuple[Uint8Array, Letterbox]:
    """Fit a picture into the detector's square.

    Takes uint8 `[h, w, 3]`; returns uint8 `[3, side, side]` and how it was fitted. Bilinear, no
    antialiasing, as the detector was trained.
    """
    height, width = image_rgb.shape[:2]
    fitted = Letterbox.fit((width, height), side)
    inner_w, inner_h = fitted.inner_wh
    if fitted.inner_wh != fitted.size_wh:
        image_rgb = np.asarray(
            cv2.resize(image_rgb, fitted.inner_wh, interpolation=cv2.INTER_LINEAR), np.uint8
        )
    square = np.full((3, side, side), LETTERBOX_FILL, np.uint8)
    rows = slice(fitted.pad_top, fitted.pad_top + inner_h)
    columns = slice(fitted.pad_left, fitted.pad_left + inner_w)
    for channel, plane in enumerate(cv2.split(image_rgb)):
        square[channel, rows, columns] = plane
    return square, fitted


def clip_boxes(boxes_xyxy: Float32Array, size_wh: tuple[int, int]) -> Float32Array:
    """Clip boxes float32 `[n, 4]` to a picture."""
    limits = np.array([*size_wh, *size_wh], np.float32)
    return np.clip(boxes_xyxy, np.float32(0), limits).astype(np.float32, copy=False)


def square_edges(boxes_xyxy: Float32Array, size_wh: tuple[int, int]) -> Float32Array:
    """Return the edge `[n]`, in picture pixels, of the square that is cut out for each box.

    The longer edge of the box and a quarter more for context; but at least `MIN_EDGE_PX`, or
    `MIN_EDGE_SHARE` of the picture's longer side if that is less, since a thumbnail blown up to the
    embedder's input finds other blurred things instead of itself (docs/performance.md, "The crop");
    and at most the picture's longer side, beyond which there is nothing to see.
    """
    longest = float(max(size_wh))
    edges = (boxes_xyxy[:, 2:] - boxes_xyxy[:, :2]).max(axis=1) * np.float32(1 + CONTEXT)
    least = min(MIN_EDGE_PX, MIN_EDGE_SHARE * longest)
    return np.asarray(np.clip(edges, least, longest), np.float32)


def square_matrices(boxes_xyxy: Float32Array, edges: Float32Array, side: int) -> Float32Array:
    """Return the affine matrices that cut squares around boxes `[n, 4]` out, `side` pixels wide.

    Each square has the centre of its box and an edge of `edges` `[n]` picture pixels, so the
    aspect is kept. Returns float32 `[n, 2, 3]` that map a pixel of the crop `(i, j, 1)` to the
    picture; integers are pixel centres on both sides.
    """
    centres = (boxes_xyxy[:, :2] + boxes_xyxy[:, 2:]) / 2
    scales = edges / side
    matrices = np.zeros((len(boxes_xyxy), 2, 3), np.float32)
    matrices[:, 0, 0] = matrices[:, 1, 1] = scales
    matrices[:, :, 2] = centres - edges[:, None] / 2 + scales[:, None] / 2 - 0.5
    return matrices
