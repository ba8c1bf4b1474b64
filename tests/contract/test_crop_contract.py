"""What every crop kernel must do, whoever implements it: the NumPy reference defines it."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from cropseek.types import Float32Array, Uint8Array
from cropseek.vision.crop import FILL, crop, crop_reference
from cropseek.vision.decode import decode_image
from cropseek.vision.geometry import square_matrices
from tests.builders import packaged

Kernel = Callable[[Uint8Array, Float32Array, int], Uint8Array]
SIDE = 64


@pytest.fixture(params=[crop_reference, crop], ids=["numpy", "opencv"])
def kernel(request: pytest.FixtureRequest) -> Kernel:
    """Each kernel; one for a device joins here."""
    found: Kernel = request.param
    return found


@pytest.fixture(scope="module")
def photo() -> Uint8Array:
    """A photograph with fine structure."""
    return decode_image(packaged("skimage", "data", "astronaut.png").read_bytes())


def cut(kernel: Kernel, image: Uint8Array, box: tuple[float, ...], edge: float) -> Uint8Array:
    boxes = np.array([box], np.float32)
    matrices = square_matrices(boxes, np.array([edge], np.float32), SIDE)
    return np.asarray(kernel(image, matrices, SIDE)[0], np.uint8)


class TestCropContract:
    """Shapes, places, colours, edges; and agreement with the reference on a photograph."""

    def test_no_regions_are_no_crops(self, kernel: Kernel, photo: Uint8Array) -> None:
        assert kernel(photo, np.zeros((0, 2, 3), np.float32), SIDE).shape == (0, 3, SIDE, SIDE)

    def test_at_scale_one_the_pixels_are_the_pictures(
        self, kernel: Kernel, photo: Uint8Array
    ) -> None:
        found = cut(kernel, photo, (100, 200, 164, 264), SIDE)
        np.testing.assert_array_equal(found, photo[200:264, 100:164].transpose(2, 0, 1))

    def test_colours_stay_in_their_order(self, kernel: Kernel) -> None:
        solid = np.full((90, 120, 3), (200, 30, 10), np.uint8)
        found = cut(kernel, solid, (10, 10, 80, 80), 50)
        assert [int(plane.min()) for plane in found] == [200, 30, 10]
        assert [int(plane.max()) for plane in found] == [200, 30, 10]

    def test_outside_the_picture_is_the_fill(self, kernel: Kernel, photo: Uint8Array) -> None:
        assert (cut(kernel, photo, (-300, -300, -200, -200), 100) == FILL).all()

    @pytest.mark.parametrize("edge", [20, 64, 90, 200, 500])
    def test_it_is_the_reference(self, kernel: Kernel, photo: Uint8Array, edge: float) -> None:
        found = cut(kernel, photo, (180, 120, 320, 260), edge).astype(int)
        expected = cut(crop_reference, photo, (180, 120, 320, 260), edge).astype(int)
        assert np.abs(found - expected).max() <= 4
        assert np.abs(found - expected).mean() <= 0.2
