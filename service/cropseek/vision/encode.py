"""RGB to encoded bytes."""

from __future__ import annotations

import cv2
import numpy as np

from cropseek.types import Uint8Array


def encode_jpeg(image_rgb: Uint8Array, quality: int = 95) -> bytes:
    """Return uint8 `[h, w, 3]` as a JPEG; raises ValueError for a picture JPEG cannot hold."""
    image_bgr = cv2.cvtColor(np.ascontiguousarray(image_rgb), cv2.COLOR_RGB2BGR)
    done, encoded = cv2.imencode(".jpg", image_bgr, [cv2.IMWRITE_JPEG_QUALITY, quality])
    if not done:
        height, width = image_rgb.shape[:2]
        raise ValueError(f"image_rgb: expected at most 65500 pixels a side, got {width} x {height}")
    return encoded.tobytes()
