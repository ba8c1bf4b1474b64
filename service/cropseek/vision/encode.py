"""RGB to encoded bytes."""

from __future__ import annotations

import cv2
import numpy as np

from cropseek.types import Uint8Array

_MOST_PIXELS_A_SIDE = 65500  # libjpeg's limit


def encode_jpeg(image_rgb: Uint8Array, quality: int = 95) -> bytes:
    """Return uint8 `[h, w, 3]` as a JPEG; raises ValueError for a picture JPEG cannot hold."""
    height, width = image_rgb.shape[:2]
    if not 1 <= min(width, height) <= max(width, height) <= _MOST_PIXELS_A_SIDE:
        raise ValueError(
            f"image_rgb: expected 1 to {_MOST_PIXELS_A_SIDE} pixels a side, got {width} x {height}"
        )
    image_bgr = cv2.cvtColor(np.ascontiguousarray(image_rgb), cv2.COLOR_RGB2BGR)
    encoded = cv2.imencode(".jpg", image_bgr, [cv2.IMWRITE_JPEG_QUALITY, quality])[1]
    return encoded.tobytes()
