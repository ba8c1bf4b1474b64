"""How the upright full frame gets from `preprocess` to the crops: sent, or decoded again.

Between two model processes a frame is copied several times through shared memory. For a photo or a
video's frame that is cheaper than decoding again; for a 12-megapixel picture it costs as much, and
several hundred megabytes (docs/performance.md, "The frame").
"""

from __future__ import annotations

import sys

import numpy as np

from cropseek.types import Uint8Array
from cropseek.vision.decode import DecodeLimits, decode_image

MOST_SENT_PIXELS = 1920 * 1080
_CHECKED_BEFORE = DecodeLimits(max_bytes=sys.maxsize, max_pixels=sys.maxsize)


def to_send(frame_rgb: Uint8Array) -> Uint8Array:
    """Return a frame `[h, w, 3]`, or an empty one `[0, 0, 3]` in place of a large one."""
    height, width = frame_rgb.shape[:2]
    return frame_rgb if height * width <= MOST_SENT_PIXELS else np.zeros((0, 0, 3), np.uint8)


def received(sent_rgb: Uint8Array, encoded: Uint8Array) -> Uint8Array:
    """Return the frame `[h, w, 3]` that `to_send` was given, from what it sent or the picture."""
    return sent_rgb if sent_rgb.size else decode_image(encoded, _CHECKED_BEFORE)
