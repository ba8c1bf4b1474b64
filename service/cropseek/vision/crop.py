"""Crop and align: resample every region of a picture from its affine matrix.

The rule, the same for the NumPy reference, OpenCV on the host and a kernel on a device: a region
that shrinks by `s` picture pixels a crop pixel is read from pyramid level `floor(log2(s))`, made by
2x2 means (rounded half up; an odd edge is repeated), bilinearly; what lies outside the picture is
`FILL`. So a large object is averaged, not sampled, and a small one is not blurred.
"""

from __future__ import annotations

import math

import cv2
import numpy as np

from cropseek.types import Float32Array, Uint8Array
from cropseek.vision.geometry import square_edges, square_matrices

FILL = 114
CROP_RECIPE = "square-c25-min192-v1"  # part of a collection's fingerprint: name any change


def crop_boxes(image_rgb: Uint8Array, boxes_xyxy: Float32Array, side: int) -> Uint8Array:
    """Crop boxes `[n, 4]` of a picture `[h, w, 3]` to uint8 `[n, 3, side, side]`."""
    height, width = image_rgb.shape[:2]
    edges = square_edges(boxes_xyxy, (width, height))
    return crop(image_rgb, square_matrices(boxes_xyxy, edges, side), side)


def crop(image_rgb: Uint8Array, matrices: Float32Array, side: int) -> Uint8Array:
    """Resample regions given by matrices `[n, 2, 3]` (crop pixel to picture) with OpenCV."""
    crops = np.empty((len(matrices), 3, side, side), np.uint8)
    pyramid = [image_rgb]
    for out, matrix in zip(crops, matrices, strict=True):
        level = pyramid_level(matrix)
        while len(pyramid) <= level:
            pyramid.append(halved(pyramid[-1]))
        pixels = _warp(pyramid[level], at_level(matrix, level), side)
        cv2.split(pixels, list(out))
    return crops


def _warp(image_rgb: Uint8Array, matrix: Float32Array, side: int) -> Uint8Array:
    """Bilinear warp that hands OpenCV only the part it reads, which may have any offset."""
    corners = matrix @ np.array(
        [[0, side - 1, 0, side - 1], [0, 0, side - 1, side - 1], [1, 1, 1, 1]], np.float32
    )
    low = np.floor(corners.min(axis=1)).astype(int) - 1
    high = np.ceil(corners.max(axis=1)).astype(int) + 2
    height, width = image_rgb.shape[:2]
    x1, x2 = (int(np.clip(v, 0, width)) for v in (low[0], high[0]))
    y1, y2 = (int(np.clip(v, 0, height)) for v in (low[1], high[1]))
    if x1 == x2 or y1 == y2:
        return np.full((side, side, 3), FILL, np.uint8)
    local = matrix.copy()
    local[:, 2] -= (x1, y1)
    flags = cv2.INTER_LINEAR | cv2.WARP_INVERSE_MAP
    return np.asarray(
        cv2.warpAffine(
            image_rgb[y1:y2, x1:x2],
            local,
            (side, side),
            flags=flags,
            borderMode=cv2.BORDER_CONSTANT,
            borderValue=(FILL, FILL, FILL),
        ),
        np.uint8,
    )


def pyramid_level(matrix: Float32Array) -> int:
    """Return `floor(log2(shrink))` of a matrix `[2, 3]`, at least 0.

    The shrink is the geometric mean of both axes: the square root of the determinant.
    """
    shrink = math.sqrt(abs(float(np.linalg.det(matrix[:, :2]))))
    return max(0, math.floor(math.log2(shrink))) if shrink > 0 else 0


def at_level(matrix: Float32Array, level: int) -> Float32Array:
    """Return the matrix in the pixels of a pyramid level: `x_level = (x + 0.5) / 2^level - 0.5`."""
    scaled = matrix / np.float32(2**level)
    scaled[:, 2] += np.float32(0.5 / 2**level - 0.5)
    return scaled


def halved(image_rgb: Uint8Array) -> Uint8Array:
    """Return the next pyramid level: 2x2 means of `[h, w, 3]`, an odd edge repeated."""
    height, width = image_rgb.shape[:2]
    if height % 2 or width % 2:
        image_rgb = cv2.copyMakeBorder(  # type: ignore[assignment]
            image_rgb, 0, height % 2, 0, width % 2, cv2.BORDER_REPLICATE
        )
    size_wh = (image_rgb.shape[1] // 2, image_rgb.shape[0] // 2)
    return np.asarray(cv2.resize(image_rgb, size_wh, interpolation=cv2.INTER_AREA), np.uint8)


def crop_reference(image_rgb: Uint8Array, matrices: Float32Array, side: int) -> Uint8Array:
    """Do what `crop` does in plain NumPy: the definition that every kernel is tested against."""
    crops = np.empty((len(matrices), 3, side, side), np.uint8)
    for out, matrix in zip(crops, matrices, strict=True):
        level = pyramid_level(matrix)
        pixels = image_rgb
        for _ in range(level):
            pixels = _halved_reference(pixels)
        out[:] = _bilinear_reference(pixels, at_level(matrix, level), side).transpose(2, 0, 1)
    return crops


def _halved_reference(image_rgb: Uint8Array) -> Uint8Array:
    height, width = image_rgb.shape[:2]
    even = np.pad(image_rgb, ((0, height % 2), (0, width % 2), (0, 0)), mode="edge")
    blocks = even.reshape(even.shape[0] // 2, 2, even.shape[1] // 2, 2, 3).astype(np.uint16)
    return np.asarray((blocks.sum(axis=(1, 3)) + 2) // 4, np.uint8)


def _bilinear_reference(image_rgb: Uint8Array, matrix: Float32Array, side: int) -> Uint8Array:
    columns, rows = np.meshgrid(np.arange(side), np.arange(side))
    pixel = np.stack([columns, rows, np.ones_like(columns)], axis=-1).astype(np.float64)
    x, y = np.moveaxis(pixel @ matrix.T.astype(np.float64), -1, 0)
    left, top = np.floor(x).astype(int), np.floor(y).astype(int)
    dx, dy = (x - left)[..., None], (y - top)[..., None]

    def tap(row_offset: int, column_offset: int) -> Float32Array:
        rows_at, columns_at = top + row_offset, left + column_offset
        height, width = image_rgb.shape[:2]
        inside = (0 <= rows_at) & (rows_at < height) & (0 <= columns_at) & (columns_at < width)
        values = np.full((side, side, 3), FILL, np.float32)
        values[inside] = image_rgb[rows_at[inside], columns_at[inside]]
        return values

    upper = tap(0, 0) * (1 - dx) + tap(0, 1) * dx
    lower = tap(1, 0) * (1 - dx) + tap(1, 1) * dx
    return np.asarray(np.floor(upper * (1 - dy) + lower * dy + 0.5), np.uint8)
