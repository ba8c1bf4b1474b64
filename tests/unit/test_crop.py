"""Cropping: OpenCV against the NumPy reference, and the reference against arithmetic by hand."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from PIL import Image

from cropseek.types import Float32Array, Uint8Array
from cropseek.vision.crop import (
    FILL,
    at_level,
    crop,
    crop_boxes,
    crop_reference,
    halved,
    pyramid_level,
)
from cropseek.vision.geometry import square_matrices
from tests.builders import noise, packaged

# OpenCV places a pixel to 1/32: off by up to 1/64 along each axis, at a contrast of 255 a pixel.
NOISE_TOLERANCE = 8
PHOTO_TOLERANCE = 4
PHOTO_MEAN_TOLERANCE = 0.1
# Crop pixels to picture pixels: enlarged twenty-fold to shrunk twenty-fold, and level boundaries.
SCALES = (0.05, 0.3, 0.77, 1.0, 1.3, 1.99, 2.0, 2.01, 3.0, 3.99, 4.0, 5.5, 8.0, 11.0, 16.0, 20.0)


def photo(name: str) -> Uint8Array:
    """A photograph that scikit-image carries."""
    return np.asarray(Image.open(packaged("skimage", "data", name)).convert("RGB"))


def checkerboard(width: int, height: int) -> Uint8Array:
    """Black and white pixels in turn: the hardest case for an interpolation."""
    values = (np.indices((height, width)).sum(axis=0) % 2 * 255).astype(np.uint8)
    return np.repeat(values[..., None], 3, axis=2)


def matrix(
    scale: float, centre_xy: tuple[float, float], side: int, *, angle: float = 0, squeeze: float = 1
) -> Float32Array:
    """The matrix of a crop around a point: scaled, turned by radians, squeezed along y."""
    cos, sin = math.cos(angle), math.sin(angle)
    linear = scale * np.array([[cos, -sin], [sin, cos]]) @ np.diag([1, squeeze])
    shift = np.array(centre_xy) - linear @ [side / 2, side / 2]
    return np.column_stack([linear, shift]).astype(np.float32)


def views(size_wh: tuple[int, int], side: int, *, turned: bool) -> Float32Array:
    """Matrices at every scale, within the picture, across its edges and outside, `[n, 2, 3]`."""
    rng = np.random.default_rng(side)
    return np.stack(
        [
            matrix(
                scale,
                (place[0] * size_wh[0], place[1] * size_wh[1]),
                side,
                angle=rng.uniform(-math.pi, math.pi) if turned else 0,
                squeeze=rng.uniform(0.8, 1.2) if turned else 1,
            )
            for scale in SCALES
            for place in ((0.5, 0.5), (0.03, 0.4), (0.97, 1.02), (-0.4, 0.5), (3, 3))
        ]
    )


@pytest.mark.parametrize("turned", [False, True], ids=["upright", "turned"])
@pytest.mark.parametrize("side", [31, 64])
@pytest.mark.parametrize("name", ["astronaut.png", "coffee.png"])
def test_opencv_agrees_with_the_reference_on_photos(name: str, side: int, turned: bool) -> None:
    """At most 4 grey levels apart, 0.1 on average, at any scale and place."""
    image = photo(name)
    matrices = views((image.shape[1], image.shape[0]), side, turned=turned)
    difference = np.abs(
        crop(image, matrices, side).astype(int) - crop_reference(image, matrices, side)
    )
    assert difference.shape == (len(matrices), 3, side, side)
    assert difference.max() <= PHOTO_TOLERANCE
    assert difference.mean() <= PHOTO_MEAN_TOLERANCE


@pytest.mark.parametrize("turned", [False, True], ids=["upright", "turned"])
@pytest.mark.parametrize(
    "image",
    [
        pytest.param(noise(301, 203), id="noise"),
        pytest.param(checkerboard(203, 301), id="checkerboard"),
        pytest.param(noise(1, 1), id="one pixel"),
        pytest.param(noise(1, 57), id="a column"),
        pytest.param(noise(58, 1), id="a row"),
        pytest.param(noise(3, 5), id="15 pixels"),
    ],
)
def test_opencv_agrees_with_the_reference_on_noise(image: Uint8Array, turned: bool) -> None:
    """At most 8 grey levels apart: what a 64th of a pixel is at full contrast."""
    matrices = views((image.shape[1], image.shape[0]), 33, turned=turned)
    difference = np.abs(crop(image, matrices, 33).astype(int) - crop_reference(image, matrices, 33))
    assert difference.max() <= NOISE_TOLERANCE


def test_a_part_far_from_the_origin_is_as_exact() -> None:
    """OpenCV refuses sources beyond 32767 pixels and loses precision with large offsets."""
    image = np.zeros((40, 40_000, 3), np.uint8)
    image[:, 39_000:39_100] = noise(100, 40)
    there = matrix(1.3, (39_050.3, 20.2), 32)[None]
    difference = np.abs(crop(image, there, 32).astype(int) - crop_reference(image, there, 32))
    assert difference.max() <= NOISE_TOLERANCE
    here = matrix(1.3, (50.3, 20.2), 32)[None]
    near = crop(image[:, 39_000:39_100].copy(), here, 32)
    assert np.abs(crop(image, there, 32).astype(int) - near).max() <= NOISE_TOLERANCE


# ---- exact cases --------------------------------------------------------------------------------


Cut = Callable[[Uint8Array, Float32Array, int], Uint8Array]
both = pytest.mark.parametrize("cut", [crop, crop_reference], ids=["opencv", "reference"])


def run(cut: Cut, image: Uint8Array, matrices: Float32Array, side: int) -> Uint8Array:
    """Call one of the two, and check that it left the picture as it was."""
    before = image.copy()
    crops = cut(image, matrices, side)
    np.testing.assert_array_equal(image, before)
    return crops


@both
def test_no_matrices_are_no_crops(cut: Cut) -> None:
    """`[0, 2, 3]` gives `[0, 3, S, S]`."""
    crops = run(cut, noise(9, 9), np.zeros((0, 2, 3), np.float32), 24)
    assert crops.shape == (0, 3, 24, 24)
    assert crops.dtype == np.uint8


@both
def test_identity_gives_the_pixels(cut: Cut) -> None:
    """Also with an offset of whole pixels; what lies outside is filled."""
    image = noise(40, 30)
    matrices = np.array([[[1, 0, 0], [0, 1, 0]], [[1, 0, 25], [0, 1, -7]]], np.float32)
    whole, offset = run(cut, image, matrices, 20)
    np.testing.assert_array_equal(whole, image[:20, :20].transpose(2, 0, 1))
    expected = np.full((20, 20, 3), FILL, np.uint8)
    expected[7:, :15] = image[:13, 25:]
    np.testing.assert_array_equal(offset, expected.transpose(2, 0, 1))


@both
def test_a_quarter_turn_gives_the_pixels(cut: Cut) -> None:
    """Crop (i, j) is picture (j, 19 - i)."""
    image = noise(20, 20)
    turn = np.array([[[0, 1, 0], [-1, 0, 19]]], np.float32)
    np.testing.assert_array_equal(
        run(cut, image, turn, 20)[0], np.rot90(image, -1).transpose(2, 0, 1)
    )


@both
@pytest.mark.parametrize("level", [1, 2, 3])
def test_a_power_of_two_gives_means(cut: Cut, level: int) -> None:
    """A box that shrinks by 2, 4 or 8 is repeated means of four, rounded half up."""
    image = noise(64, 64)
    side = 64 >> level
    expected = image.astype(int)
    for _ in range(level):
        blocks = expected.reshape(len(expected) // 2, 2, len(expected) // 2, 2, 3)
        expected = (blocks.sum(axis=(1, 3)) + 2) // 4
    whole = np.array([[0, 0, 64, 64]], np.float32)
    matrices = square_matrices(whole, np.array([64], np.float32), side)
    np.testing.assert_array_equal(run(cut, image, matrices, side)[0], expected.transpose(2, 0, 1))


@both
def test_halfway_between_two_pixels_is_their_mean(cut: Cut) -> None:
    """Enlarged: (10 + 20) / 2 along a row."""
    image = np.zeros((1, 2, 3), np.uint8)
    image[0] = [(10, 50, 90), (20, 70, 130)]
    matrices = np.array([[[0.5, 0, 0], [0, 0, 0]]], np.float32)
    crops = run(cut, image, matrices, 2)
    assert crops[0, :, 0].tolist() == [[10, 15], [50, 60], [90, 110]]


@both
@pytest.mark.parametrize("scale", [0.1, 1, 1.7, 6])
def test_a_solid_colour_stays(cut: Cut, scale: float) -> None:
    """Red first, whatever the scale; and the fill is grey."""
    image = np.full((200, 300, 3), (200, 30, 90), np.uint8)
    inside, outside = run(
        cut, image, np.stack([matrix(scale, (150, 100), 16), matrix(scale, (900, 900), 16)]), 16
    )
    assert {tuple(p) for p in inside.reshape(3, -1).T.tolist()} == {(200, 30, 90)}
    assert set(outside.ravel().tolist()) == {FILL}


# ---- the parts ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "size_wh",
    [(1, 1), (2, 2), (1, 2), (3, 1), (7, 5), (16, 16), (17, 33), (640, 427), (1001, 3), (65, 999)],
    ids=str,
)
def test_halved_is_means_of_four(size_wh: tuple[int, int]) -> None:
    """Rounded half up; the last row and column count twice where there is no partner."""
    image = noise(*size_wh)
    width, height = size_wh
    x, y = np.arange(width + width % 2).clip(max=width - 1), np.arange(height + height % 2)
    even = image[y.clip(max=height - 1)][:, x].astype(int)
    total = even[0::2, 0::2] + even[1::2, 0::2] + even[0::2, 1::2] + even[1::2, 1::2]
    np.testing.assert_array_equal(halved(image), np.floor(total / 4 + 0.5))


def test_halved_rounds_half_up() -> None:
    """(0 + 0 + 1 + 1) / 4 is 1, (0 + 0 + 0 + 1) / 4 is 0."""
    image = np.zeros((2, 4, 3), np.uint8)
    image[1, 0:2] = 1
    image[1, 3] = 1
    assert halved(image)[0, :, 0].tolist() == [1, 0]


def test_the_reference_halves_as_opencv_does() -> None:
    """On a picture of odd sides, to the bit: through `crop`, which shrinks it by exactly 2."""
    image = noise(101, 77)
    at_half = np.array([[[2, 0, 0.5], [0, 2, 0.5]]], np.float32)
    np.testing.assert_array_equal(crop_reference(image, at_half, 38), crop(image, at_half, 38))
    np.testing.assert_array_equal(
        crop_reference(image, at_half, 38)[0], halved(image)[:38, :38].transpose(2, 0, 1)
    )


@pytest.mark.parametrize(
    ("linear", "level"),
    [
        ([[0, 0], [0, 0]], 0),
        ([[0.05, 0], [0, 0.05]], 0),
        ([[1, 0], [0, 1]], 0),
        ([[1.99, 0], [0, 1.99]], 0),
        ([[2, 0], [0, 2]], 1),
        ([[3.99, 0], [0, 3.99]], 1),
        ([[4, 0], [0, 4]], 2),
        ([[20, 0], [0, 20]], 4),
        ([[0, -5], [5, 0]], 2),  # turned
        ([[-3, 0], [0, 3]], 1),  # mirrored
        ([[8, 0], [0, 2]], 2),  # 4 is the geometric mean
        ([[3, 4], [-4, 3]], 2),  # turned, 5 pixels a pixel
    ],
    ids=str,
)
def test_pyramid_level(linear: list[list[float]], level: int) -> None:
    """The whole part of the shrink's logarithm."""
    full = np.column_stack([linear, [1000, -1000]]).astype(np.float32)
    assert pyramid_level(full) == level


def test_at_level_keeps_pixel_centres() -> None:
    """Pixel 0 of level 1 lies between pixels 0 and 1; pixel 3 of level 2 between 13 and 14."""
    at_half = at_level(np.array([[2, 0, 0.5], [0, 2, 4.5]], np.float32), 1)
    assert at_half.tolist() == [[1, 0, 0], [0, 1, 2]]
    at_quarter = at_level(np.array([[4, 0, 13.5], [0, 4, 1.5]], np.float32), 2)
    assert at_quarter.tolist() == [[1, 0, 3], [0, 1, 0]]
    same = np.array([[1.5, 0.1, 3], [0, 1, 7]], np.float32)
    np.testing.assert_array_equal(at_level(same, 0), same)


def test_crop_boxes_shows_the_box_with_some_context() -> None:
    """A red box of 40 x 20 in white: 40 pixels and a quarter are 50, here pixel by pixel."""
    image = np.full((100, 100, 3), 255, np.uint8)
    image[30:50, 20:60] = (255, 0, 0)
    crops = crop_boxes(image, np.array([[20, 30, 60, 50]], np.float32), 50)
    assert crops.shape == (1, 3, 50, 50)
    np.testing.assert_array_equal(crops[0], image[15:65, 15:65].transpose(2, 0, 1))


def test_crop_boxes_shows_a_small_box_in_its_surroundings() -> None:
    """A thumbnail is not blown up: a box of 4 pixels in a picture of 100 is a crop of 30."""
    image = noise(100, 60)
    crops = crop_boxes(image, np.array([[40, 20, 44, 24]], np.float32), 30)
    np.testing.assert_array_equal(crops[0], image[7:37, 27:57].transpose(2, 0, 1))


def test_crop_boxes_of_the_whole_picture_shows_all_of_it_and_no_more() -> None:
    """Its longer side is the crop's; the rest is filled."""
    image = noise(40, 20)
    crops = crop_boxes(image, np.array([[0, 0, 40, 20]], np.float32), 40)
    np.testing.assert_array_equal(crops[0, :, 10:30], image.transpose(2, 0, 1))
    assert set(crops[0, :, [0, 9, 30, 39]].ravel().tolist()) == {FILL}


def test_every_crop_is_what_it_is_alone() -> None:
    """In any order: they share a pyramid, nothing else."""
    image = photo("coffee.png")
    boxes = np.array(
        [[10, 10, 20, 30], [0, 0, 600, 400], [50, 60, 300, 310], [590, 390, 610, 410]], np.float32
    )
    together = crop_boxes(image, boxes, 32)
    for order in ([0, 1, 2, 3], [3, 2, 1, 0], [1, 1]):
        np.testing.assert_array_equal(crop_boxes(image, boxes[order], 32), together[order])
    for number in range(4):
        alone = crop_boxes(image, boxes[number : number + 1], 32)
        np.testing.assert_array_equal(alone[0], together[number])


def test_a_view_of_a_larger_array_can_be_cropped() -> None:
    """A frame may be a slice with strides of its own."""
    wide = noise(60, 40)
    view = wide[5:35, 10:50]
    boxes = np.array([[3, 3, 30, 25]], np.float32)
    np.testing.assert_array_equal(crop_boxes(view, boxes, 16), crop_boxes(view.copy(), boxes, 16))
