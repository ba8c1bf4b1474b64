"""RGB to JPEG: the right colours, the right bytes, the limits."""

from __future__ import annotations

import io

import numpy as np
import pytest
from PIL import Image

from cropseek.vision.decode import decode_image
from cropseek.vision.encode import encode_jpeg
from tests.builders import noise, packaged


@pytest.mark.parametrize(
    "size_wh", [(0, 0), (0, 5), (5, 0), (65501, 1), (1, 65501)], ids=lambda s: f"{s[0]} x {s[1]}"
)
def test_what_a_jpeg_cannot_hold_is_refused(size_wh: tuple[int, int]) -> None:
    """The message says what came."""
    width, height = size_wh
    with pytest.raises(ValueError, match=f"1 to 65500 pixels a side, got {width} x {height}"):
        encode_jpeg(np.zeros((height, width, 3), np.uint8))


@pytest.mark.parametrize("size_wh", [(1, 1), (17, 9), (65500, 1)], ids=str)
def test_it_is_a_jpeg_of_that_size(size_wh: tuple[int, int]) -> None:
    """As another library reads it."""
    image = Image.open(io.BytesIO(encode_jpeg(noise(*size_wh))))
    assert (image.format, image.mode, image.size) == ("JPEG", "RGB", size_wh)


@pytest.mark.parametrize("colour", [(255, 0, 0), (0, 255, 0), (0, 0, 255), (200, 30, 90)], ids=str)
def test_a_solid_colour_stays(colour: tuple[int, int, int]) -> None:
    """Red does not become blue, on the way out or in."""
    data = encode_jpeg(np.full((16, 16, 3), colour, np.uint8))
    for pixels in (decode_image(data), np.asarray(Image.open(io.BytesIO(data)))):
        assert np.abs(pixels.astype(int) - colour).max() <= 3


def test_a_photo_comes_back_nearly_the_same() -> None:
    """Three grey levels off on average at the default quality; more at a low one, for less."""
    image = np.asarray(Image.open(packaged("skimage", "data", "astronaut.png")).convert("RGB"))
    good, poor = encode_jpeg(image), encode_jpeg(image, quality=20)
    errors = [np.abs(decode_image(data).astype(int) - image).mean() for data in (good, poor)]
    assert errors[0] < 3 < errors[1]
    assert len(poor) < len(good) / 4


def test_a_picture_with_strides_of_its_own() -> None:
    """A mirrored view is encoded as it looks."""
    image = noise(20, 10)
    assert encode_jpeg(image[:, ::-1]) == encode_jpeg(image[:, ::-1].copy())
