"""How the frame reaches the crops: sent if small, else decoded again, never another picture."""

from __future__ import annotations

import numpy as np
import pytest
from PIL import Image

from cropseek.errors import InvalidImage
from cropseek.triton.frame import MOST_SENT_PIXELS, received, to_send
from tests.builders import encoded, noise, only_promised


@pytest.mark.parametrize(
    ("size_wh", "sent"),
    [
        ((1, 1), True),
        ((640, 480), True),
        ((1920, 1080), True),
        ((1080, 1920), True),
        ((MOST_SENT_PIXELS + 1, 1), False),
        ((1921, 1080), False),
    ],
    ids=str,
)
def test_the_frame_arrives(size_wh: tuple[int, int], sent: bool) -> None:
    """Up to a video's full frame as it is; a larger one by decoding the picture again."""
    frame = noise(*size_wh)
    tensor = to_send(frame)
    assert tensor.dtype == np.uint8
    assert tensor.shape == (frame.shape if sent else (0, 0, 3))
    picture = encoded(Image.fromarray(frame), "PPM")
    np.testing.assert_array_equal(received(tensor, np.frombuffer(picture, np.uint8)), frame)


def test_what_was_sent_is_not_decoded_again() -> None:
    """The picture's bytes are not looked at."""
    frame = noise(4, 3)
    assert received(to_send(frame), np.zeros(5, np.uint8)) is frame


def test_a_picture_decoded_again_has_passed_the_limits_before() -> None:
    """`preprocess` let it through: what is wrong with these 196 megapixels is not their number."""
    picture = np.frombuffer(only_promised(14_000, 14_000), np.uint8)
    with pytest.raises(InvalidImage, match="expected a whole PNG of 14000 x 14000"):
        received(np.zeros((0, 0, 3), np.uint8), picture)
