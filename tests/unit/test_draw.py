from __future__ import annotations

import cv2
import numpy as np
import pytest

from cropseek.types import Float32Array, Uint8Array
from cropseek.vision.decode import decode_image
from cropseek.vision.draw import class_color, draw_detections
from cropseek.vision.encode import encode_jpeg

GREY = 128
NO_BOXES = np.empty((0, 4), np.float32)


def canvas(width: int, height: int) -> Uint8Array:
    return np.full((height, width, 3), GREY, np.uint8)


def boxes(*rows: tuple[float, float, float, float]) -> Float32Array:
    return np.array(rows, np.float32)


def pixels_of(image: Uint8Array, label: str) -> Uint8Array:
    """Return bool `[h, w]`: where the label's colour is."""
    found: Uint8Array = (image == class_color(label)).all(axis=2)
    return found


def test_the_picture_given_is_left_alone() -> None:
    image = canvas(200, 100)
    drawn = draw_detections(image, boxes((20, 30, 120, 90)), ["dog"], [0.5])
    assert drawn.shape == image.shape
    assert drawn.dtype == np.uint8
    assert (image == GREY).all()
    assert (draw_detections(image, NO_BOXES, [], []) == image).all()


def test_lines_lie_on_the_boxs_border() -> None:
    drawn = draw_detections(canvas(400, 300), boxes((50, 60, 350, 280)), ["dog"], [0.5])
    is_line = pixels_of(drawn, "dog")
    assert is_line[60, 50:350].all()  # the first row and column, and the last within
    assert is_line[279, 50:350].all()
    assert is_line[60:280, 50].all()
    assert is_line[60:280, 349].all()
    assert not is_line[280:].any()
    assert not is_line[:, 350:].any()
    assert (drawn[70:270, 60:340] == GREY).all()


@pytest.mark.parametrize(("side", "line_px"), [(100, 1), (400, 2), (2000, 10)])
def test_lines_follow_the_pictures_size(side: int, line_px: int) -> None:
    box = boxes((0.2 * side, 0.5 * side, 0.8 * side, 0.9 * side))
    drawn = draw_detections(canvas(side, side), box, ["dog"], [0.5])
    column = pixels_of(drawn, "dog")[side // 2 + line_px :, side // 2]
    assert column.sum() == line_px


@pytest.mark.parametrize(
    "box",
    [
        (0, 0, 200, 150),  # the whole picture: no room above
        (150, 0, 200, 20),  # at the right border: no room beside
        (0, 140, 10, 150),  # at the bottom
        (-50, -40, 30, 20),  # partly outside
        (190, 145, 400, 400),
        (500, 500, 600, 600),  # wholly outside
        (50, 50, 50, 50),  # without area
    ],
)
def test_tags_stay_inside_the_picture_and_are_whole(
    box: tuple[float, float, float, float],
) -> None:
    drawn = draw_detections(canvas(200, 150), boxes(box), ["dog"], [0.75])
    text = (drawn != GREY).any(axis=2) & ~pixels_of(drawn, "dog")
    reference = draw_detections(canvas(200, 150), boxes((80, 60, 140, 110)), ["dog"], [0.75])
    whole = (reference != GREY).any(axis=2) & ~pixels_of(reference, "dog")
    assert text.sum() == pytest.approx(whole.sum(), rel=0.1)


def test_tags_of_boxes_in_the_same_place_do_not_cover_each_other() -> None:
    same = (100, 100, 300, 250)
    drawn = draw_detections(
        canvas(400, 300), boxes(same, same, same), ["car", "bus", "dog"], [0.9, 0.8, 0.7]
    )
    for label in ("car", "bus", "dog"):
        alone = draw_detections(canvas(400, 300), boxes(same), [label], [0.9])
        tag_area = pixels_of(alone, label)[:100].sum()  # above the box
        assert pixels_of(drawn, label).sum() > 0.8 * tag_area


@pytest.mark.parametrize("size_wh", [(1, 1), (1, 500), (500, 1), (7, 9), (20, 12), (4000, 30)])
def test_tiny_and_narrow_pictures(size_wh: tuple[int, int]) -> None:
    drawn = draw_detections(
        canvas(*size_wh), boxes((0, 0, *size_wh)), ["a rather long label"], [0.5]
    )
    assert drawn.shape == (size_wh[1], size_wh[0], 3)
    assert pixels_of(drawn, "a rather long label").any()


def test_any_label_can_be_written() -> None:
    labels = ["", "日本語", "two\nlines", "<b>&"]
    rows = [(10, 20 * n + 20, 150, 20 * n + 38) for n in range(len(labels))]
    drawn = draw_detections(canvas(300, 200), boxes(*rows), labels, [0.1] * len(labels))
    assert (drawn != GREY).any()


def test_a_label_has_one_colour_and_common_ones_differ() -> None:
    common = ["person", "car", "bus", "bicycle", "motorcycle", "dog", "cat", "chair", "bottle"]
    assert len({class_color(label) for label in common}) == len(common)
    assert class_color("person") == (155, 93, 229)  # the same in every process


def test_a_jpeg_keeps_size_colour_order_and_almost_all_detail() -> None:
    noise = np.random.default_rng(0).integers(0, 256, (5, 7, 3), np.uint8)
    image = cv2.resize(noise, (70, 50)).astype(np.uint8)
    image[:20, :20] = (200, 30, 30)
    back = decode_image(encode_jpeg(image, 95))
    assert back.shape == image.shape
    assert np.abs(back.astype(int) - image).mean() < 3
    assert np.abs(back[4:16, 4:16].astype(int) - (200, 30, 30)).max() < 8
    assert len(encode_jpeg(image, 50)) < len(encode_jpeg(image, 95))


def test_a_view_can_be_encoded_too() -> None:
    image = np.random.default_rng(0).integers(0, 256, (40, 60, 3), np.uint8)
    assert encode_jpeg(image[5:30, 7:50]) == encode_jpeg(image[5:30, 7:50].copy())


def test_a_picture_too_large_for_jpeg() -> None:
    with pytest.raises(ValueError, match="65500 pixels a side, got 70000 x 1"):
        encode_jpeg(np.zeros((1, 70_000, 3), np.uint8))
