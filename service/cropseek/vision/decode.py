"""Encoded bytes to upright RGB: the one place that decodes a picture and turns it upright.

Every format goes through one policy: a picture is read in full or refused (nothing is ever filled
in), EXIF orientation is applied exactly once, transparency lies on white. Pillow reads the header
and every format; JPEG pixels come from OpenCV, which gives the same values as Pillow (both are
libjpeg-turbo) at a quarter of the time on a 12-megapixel picture.

The formats are a list, not all that Pillow knows: EPS would start Ghostscript on a stranger's
bytes, and icon files are unpacked before their true size can be read.
"""

from __future__ import annotations

import io
import warnings
from dataclasses import dataclass
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray
from PIL import Image

from cropseek.errors import InvalidImage
from cropseek.types import Uint8Array

BACKGROUND_RGB = (255, 255, 255)
_SIGNATURES = {"JPEG": b"\xff\xd8\xff", "PNG": b"\x89PNG", "WebP": b"RIFF", "GIF": b"GIF8"}
_EXIF_ORIENTATION = 0x0112
_JPEG_FLAGS = cv2.IMREAD_COLOR_RGB | cv2.IMREAD_IGNORE_ORIENTATION
# "JPEG" opens MPO too. AVIF comes last: Pillow before 11.3 has none, and looks no further.
_FORMATS = "JPEG PNG WEBP GIF BMP TIFF JPEG2000 PPM QOI PSD TGA AVIF".split()
_START_OF_SCAN, _END_OF_IMAGE = b"\xff\xda", b"\xff\xd9"

Image.MAX_IMAGE_PIXELS = None  # `DecodeLimits` does this, with a clear error
# It warns of metadata that it cannot read. Once: warning filters are no matter for threads.
warnings.filterwarnings("ignore", module=r"PIL\.")


@dataclass(frozen=True)
class DecodeLimits:
    """What a picture may cost: encoded bytes, and decoded pixels (read from the header)."""

    max_bytes: int = 32 * 2**20
    max_pixels: int = 100_000_000


def decode_image(data: bytes | Uint8Array, limits: DecodeLimits | None = None) -> Uint8Array:
    """Decode a picture to upright RGB.

    Takes encoded bytes (or a uint8 vector of them); returns uint8 `[h, w, 3]`, contiguous. The
    first frame of an animation is the picture. Raises `InvalidImage`.
    """
    limits = limits or DecodeLimits()
    encoded = bytes(data)
    if not encoded:
        raise InvalidImage("image: expected the bytes of a picture, got 0 bytes")
    if len(encoded) > limits.max_bytes:
        raise InvalidImage(f"image: expected at most {limits.max_bytes} bytes, got {len(encoded)}")
    picture = _open(encoded)
    _check(picture, limits)
    pixels = _pixels(picture, encoded)
    return np.ascontiguousarray(_upright(pixels, _orientation(picture)))


def _open(encoded: bytes) -> Image.Image:
    try:
        return Image.open(io.BytesIO(encoded), formats=_FORMATS)
    except Exception:  # on broken files Pillow's many plugins raise anything
        for kind, start in _SIGNATURES.items():
            if encoded.startswith(start):
                raise InvalidImage(
                    f"image: expected a whole {kind}, got one that is damaged or not supported"
                ) from None
        raise InvalidImage(
            "image: expected a picture (JPEG, PNG, WebP, BMP, TIFF, GIF, ...), "
            f"got {len(encoded)} bytes of another kind, starting with {encoded[:12]!r}"
        ) from None


def _check(picture: Image.Image, limits: DecodeLimits) -> None:
    """Raise `InvalidImage` if the header says that the picture is too large, or of numbers."""
    width, height = picture.size
    if width * height > limits.max_pixels:
        raise InvalidImage(
            f"image: expected at most {limits.max_pixels} pixels, "
            f"got {width} x {height} = {width * height}"
        )
    if picture.mode == "F" or (picture.mode == "I" and picture.format != "PPM"):
        raise InvalidImage(
            "image: expected 8 or 16 bits a channel, got 32-bit numbers of unknown range"
        )


def _pixels(picture: Image.Image, encoded: bytes) -> Uint8Array:
    """Return uint8 `[h, w, 3]` as stored, orientation not yet applied."""
    if picture.format in ("JPEG", "MPO") and not _jpeg_ends(encoded):
        raise InvalidImage(_damaged(picture, "it has no end"))
    if picture.format == "JPEG" and picture.mode in ("RGB", "L"):
        try:
            pixels = cv2.imdecode(np.frombuffer(encoded, np.uint8), _JPEG_FLAGS)
        except cv2.error as error:
            raise InvalidImage(_damaged(picture, error.err)) from None
        if pixels is None:
            raise InvalidImage(_damaged(picture, "data ends early or is not valid"))
        return np.asarray(pixels, np.uint8)
    try:
        return _flattened(picture)
    except Exception as error:
        raise InvalidImage(_damaged(picture, str(error) or type(error).__name__)) from None


def _jpeg_ends(encoded: bytes) -> bool:
    """Return whether a JPEG's end marker follows its header (which may hold a whole thumbnail).

    Where a cut file was filled up with zeros, decoders take them for pixels and do not complain.
    """
    at = 2
    while (marker := encoded[at : at + 2])[:1] == b"\xff" and marker != _START_OF_SCAN:
        length = int.from_bytes(encoded[at + 2 : at + 4], "big")
        at += 1 if marker == b"\xff\xff" else 2 + length  # a marker may begin with several 0xff
    return encoded.find(_END_OF_IMAGE, at) >= 0


def _damaged(picture: Image.Image, why: str) -> str:
    width, height = picture.size
    return (
        f"image: expected a whole {picture.format} of {width} x {height}, got a damaged one: {why}"
    )


def _flattened(picture: Image.Image) -> Uint8Array:
    """Return any Pillow mode as uint8 RGB, transparency composited on `BACKGROUND_RGB`."""
    picture.load()
    if picture.mode.startswith("I"):  # I;16 and its like, and a PGM of 16 bits
        return _from_grey16(np.asarray(picture), picture.info.get("transparency"))
    if picture.has_transparency_data:
        canvas = Image.new("RGBA", picture.size, (*BACKGROUND_RGB, 255))
        picture = Image.alpha_composite(canvas, picture.convert("RGBA"))
    return np.asarray(picture.convert("RGB"))


def _from_grey16(grey: NDArray[Any], transparent: int | None) -> Uint8Array:
    """Return 16-bit grey `[h, w]` as uint8 RGB; one value of it may stand for transparency."""
    rgb = np.repeat((grey >> 8).astype(np.uint8)[..., None], 3, axis=2)
    if transparent is not None:
        rgb[grey == transparent] = BACKGROUND_RGB
    return rgb


def _orientation(picture: Image.Image) -> int:
    """Return the EXIF orientation, 1 to 8; broken metadata is no orientation."""
    try:
        value = picture.getexif().get(_EXIF_ORIENTATION, 1)
    except Exception:
        return 1
    return value if isinstance(value, int) and 1 <= value <= 8 else 1


def _upright(pixels: Uint8Array, orientation: int) -> Uint8Array:
    """Undo an EXIF orientation (Exif 2.32, tag 0x0112)."""
    if orientation >= 5:
        pixels = pixels.swapaxes(0, 1)
    if orientation in (3, 4, 7, 8):
        pixels = pixels[::-1]
    if orientation in (2, 3, 6, 7):
        pixels = pixels[:, ::-1]
    return pixels
