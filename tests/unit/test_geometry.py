"""The letterbox and its inverse, clipping, and crop matrices, against known numbers."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from cropseek.types import Float32Array, Uint8Array
from cropseek.vision.geometry import (
    LETTERBOX_FILL,
    Letterbox,
    clip_boxes,
    letterbox,
    square_edges,
    square_matrices,
)
from tests.builders import noise

# size_wh, inner_wh, pad_left, pad_top in a square of 640: computed by hand from Ultralytics' rule
# (ratio = 640 / longer side; round(length * ratio); round(half of the rest - 0.1)).
FITTED = [
    pytest.param((1, 1), (640, 640), 0, 0, id="one pixel"),
    pytest.param((640, 640), (640, 640), 0, 0, id="the square itself"),
    pytest.param((810, 1080), (480, 640), 80, 0, id="bus.jpg"),
    pytest.param((1080, 810), (640, 480), 0, 80, id="lying"),
    pytest.param((500, 375), (640, 480), 0, 80, id="enlarged"),
    pytest.param((4000, 3000), (640, 480), 0, 80, id="12 megapixels"),
    pytest.param((641, 640), (640, 639), 0, 0, id="one row left over: below"),
    pytest.param((640, 637), (640, 637), 0, 1, id="three rows left over: two below"),
    pytest.param((637, 640), (637, 640), 1, 0, id="three columns left over: two right"),
    pytest.param((1000, 3), (640, 2), 0, 319, id="a line"),
    pytest.param((1, 10_000), (1, 640), 319, 0, id="a line that would round to nothing"),
]


@pytest.mark.parametrize(("size_wh", "inner_wh", "pad_left", "pad_top"), FITTED)
def test_fit_gives_known_numbers(
    size_wh: tuple[int, int], inner_wh: tuple[int, int], pad_left: int, pad_top: int
) -> None:
    """Centred, aspect kept, and never out of the square."""
    fitted = Letterbox.fit(size_wh, 640)
    assert fitted == Letterbox(size_wh, inner_wh, pad_left, pad_top)
    assert pad_left + inner_wh[0] <= 640
    assert pad_top + inner_wh[1] <= 640


@pytest.mark.parametrize(("size_wh", "inner_wh", "pad_left", "pad_top"), FITTED)
def test_it_travels_as_an_array(
    size_wh: tuple[int, int], inner_wh: tuple[int, int], pad_left: int, pad_top: int
) -> None:
    """Six int32 in the documented order, and back."""
    array = Letterbox.fit(size_wh, 640).to_array()
    assert array.dtype == np.int32
    assert array.tolist() == [*size_wh, *inner_wh, pad_left, pad_top]
    assert Letterbox.from_array(array) == Letterbox.fit(size_wh, 640)


def test_no_boxes_go_back_as_no_boxes() -> None:
    """The picture in which nothing was found."""
    boxes = Letterbox.fit((810, 1080), 640).to_picture(np.zeros((0, 4), np.float32))
    assert boxes.shape == (0, 4)
    assert boxes.dtype == np.float32


def test_known_boxes_go_back() -> None:
    """In bus.jpg's square a pixel is 27/16 pixels of the picture, from 80 pixels on."""
    fitted = Letterbox.fit((810, 1080), 640)
    squares = np.array(
        [
            [80, 0, 560, 640],
            [96, 16, 112, 32],
            [0, -5, 640, 700],  # reaches into the bars
            [0, 0, 79, 640],  # lies in a bar
        ],
        np.float32,
    )
    np.testing.assert_allclose(
        fitted.to_picture(squares),
        [[0, 0, 810, 1080], [27, 27, 54, 54], [0, 0, 810, 1080], [0, 0, 0, 1080]],
        rtol=1e-6,
    )


@pytest.mark.parametrize(
    "size_wh", [(810, 1080), (641, 427), (33, 1999), (1000, 3), (7, 5), (640, 637)], ids=str
)
def test_to_picture_undoes_the_letterbox(size_wh: tuple[int, int]) -> None:
    """Each axis by its own scale, as the inner size is rounded."""
    rng = np.random.default_rng(0)
    corners = np.sort(rng.random((20, 2, 2)), axis=1).reshape(20, 4)
    boxes = corners * [*size_wh, *size_wh]
    fitted = Letterbox.fit(size_wh, 640)
    into_x = fitted.inner_wh[0] / size_wh[0]
    into_y = fitted.inner_wh[1] / size_wh[1]
    square = np.empty_like(boxes)
    square[:, 0::2] = boxes[:, 0::2] * into_x + fitted.pad_left
    square[:, 1::2] = boxes[:, 1::2] * into_y + fitted.pad_top
    back = fitted.to_picture(square.astype(np.float32))
    assert back.dtype == np.float32
    np.testing.assert_allclose(back, boxes, atol=2e-4 * max(size_wh))


def resized(image: Uint8Array, width: int, height: int) -> NDArray[np.float64]:
    """Bilinear without antialiasing, pixel centres at .5, one pixel after the other."""
    rows, columns = image.shape[:2]
    out = np.zeros((height, width, 3))
    for y in range(height):
        for x in range(width):
            u = min(max((x + 0.5) * columns / width - 0.5, 0), columns - 1)
            v = min(max((y + 0.5) * rows / height - 0.5, 0), rows - 1)
            left, top = int(u), int(v)
            right, below = min(left + 1, columns - 1), min(top + 1, rows - 1)
            upper = image[top, left] * (1 - (u - left)) + image[top, right] * (u - left)
            lower = image[below, left] * (1 - (u - left)) + image[below, right] * (u - left)
            out[y, x] = upper * (1 - (v - top)) + lower * (v - top)
    return out


@pytest.mark.parametrize(
    "size_wh", [(1, 1), (32, 32), (20, 9), (9, 20), (64, 48), (71, 35), (500, 3)], ids=str
)
def test_letterbox_places_the_resized_picture(size_wh: tuple[int, int]) -> None:
    """Planes of R, G, B; within one grey level of a slow bilinear; grey 114 around it."""
    image = noise(*size_wh)
    square, fitted = letterbox(image, 32)
    assert square.shape == (3, 32, 32)
    assert square.dtype == np.uint8
    assert fitted == Letterbox.fit(size_wh, 32)
    expected = np.full((32, 32, 3), float(LETTERBOX_FILL))
    left, top, (width, height) = fitted.pad_left, fitted.pad_top, fitted.inner_wh
    expected[top : top + height, left : left + width] = resized(image, width, height)
    assert np.abs(square - expected.transpose(2, 0, 1)).max() <= 1


def test_letterbox_keeps_the_channels_apart() -> None:
    """Red is the first plane."""
    square, _ = letterbox(np.full((10, 20, 3), (200, 30, 90), np.uint8), 16)
    assert square[:, 8, 8].tolist() == [200, 30, 90]
    assert square[:, 0, 0].tolist() == [114, 114, 114]


def test_letterbox_does_not_touch_a_picture_of_the_right_size() -> None:
    """Nor one that needs bars only."""
    image = noise(32, 20)
    square, fitted = letterbox(image, 32)
    assert fitted.pad_top == 6
    np.testing.assert_array_equal(square[:, 6:26], image.transpose(2, 0, 1))


@pytest.mark.parametrize(
    ("box", "expected"),
    [
        ((1, 2, 3, 4), (1, 2, 3, 4)),
        ((-5, -5, 200, 100), (0, 0, 100, 50)),
        ((-9, -9, -1, -1), (0, 0, 0, 0)),
        ((150, 60, 160, 70), (100, 50, 100, 50)),
    ],
    ids=["inside", "around", "above", "below"],
)
def test_clip_boxes(box: tuple[float, ...], expected: tuple[float, ...]) -> None:
    """To the edges of the picture, x by its width and y by its height."""
    clipped = clip_boxes(np.array([box], np.float32), (100, 50))
    assert clipped.dtype == np.float32
    assert clipped.tolist() == [list(expected)]


# ---- the squares that crops are cut from --------------------------------------------------------


def test_no_boxes_are_no_squares() -> None:
    """`[0, 4]` gives `[0]` and `[0, 2, 3]`."""
    nothing = np.zeros((0, 4), np.float32)
    edges = square_edges(nothing, (640, 480))
    matrices = square_matrices(nothing, edges, 224)
    assert (edges.shape, matrices.shape) == ((0,), (0, 2, 3))
    assert {edges.dtype, matrices.dtype} == {np.dtype(np.float32)}


@pytest.mark.parametrize(
    ("box", "size_wh", "edge"),
    [
        pytest.param((100, 100, 500, 200), (1000, 600), 500, id="a quarter of context"),
        pytest.param((100, 100, 200, 500), (1000, 600), 500, id="the longer edge, standing"),
        pytest.param((0, 0, 1000, 600), (1000, 600), 1000, id="the whole picture"),
        pytest.param((50, 0, 900, 10), (1000, 600), 1000, id="no more than the picture"),
        pytest.param((10, 10, 20, 20), (1000, 600), 192, id="at least 192"),
        pytest.param((10, 10, 20, 20), (600, 1000), 192, id="at least 192, standing"),
        pytest.param((10, 10, 20, 20), (100, 50), 30, id="in a small picture 0.3 of it"),
        pytest.param((10, 10, 10, 10), (10, 10), 3, id="no area"),
        pytest.param((0, 0, 1, 1), (1, 1), 1, id="one pixel"),
    ],
)
def test_square_edges(box: tuple[float, ...], size_wh: tuple[int, int], edge: float) -> None:
    """One for each box, whatever the others are."""
    boxes = np.array([(0, 0, 9, 9), box], np.float32)
    edges = square_edges(boxes, size_wh)
    assert edges.dtype == np.float32
    assert edges.shape == (2,)
    assert edges[1] == pytest.approx(edge)


@pytest.mark.parametrize(
    ("box", "edge", "side", "expected"),
    [
        pytest.param((0, 0, 10, 10), 10, 10, [[1, 0, 0], [0, 1, 0]], id="pixel by pixel"),
        pytest.param((3, 4, 13, 14), 10, 10, [[1, 0, 3], [0, 1, 4]], id="the same elsewhere"),
        # Two pixels a crop pixel: the first crop pixel's centre lies between 0 and 1.
        pytest.param((0, 0, 20, 20), 20, 10, [[2, 0, 0.5], [0, 2, 0.5]], id="half the size"),
        # Its centre lies a quarter before pixel 0's.
        pytest.param((0, 0, 5, 5), 5, 10, [[0.5, 0, -0.25], [0, 0.5, -0.25]], id="twice the size"),
        # The centre is (60, 45): from 5 and from -10 on.
        pytest.param(
            (10, 20, 110, 70), 110, 110, [[1, 0, 5], [0, 1, -10]], id="aspect kept, lying"
        ),
        pytest.param(
            (20, 10, 70, 110), 110, 110, [[1, 0, -10], [0, 1, 5]], id="aspect kept, standing"
        ),
        pytest.param((5, 5, 5, 5), 2, 2, [[1, 0, 4], [0, 1, 4]], id="a box without area"),
    ],
)
def test_square_matrices(
    box: tuple[float, ...], edge: float, side: int, expected: list[list[float]]
) -> None:
    """From a crop pixel's centre to the picture, integers being pixel centres."""
    boxes: Float32Array = np.array([box, (0, 0, 7, 7), box], np.float32)
    matrices = square_matrices(boxes, np.array([edge, 7, edge], np.float32), side)
    assert matrices.shape == (3, 2, 3)
    np.testing.assert_allclose(matrices[0], expected, atol=1e-5)
    np.testing.assert_array_equal(matrices[2], matrices[0])
