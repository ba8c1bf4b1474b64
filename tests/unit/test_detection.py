"""From the detector's rows to the regions of a picture."""

from __future__ import annotations

import numpy as np
import pytest

from cropseek.errors import InvalidInput
from cropseek.types import NO_CLASS, Float32Array, PictureOptions, Regions
from cropseek.vision.detection import select_regions
from cropseek.vision.geometry import Letterbox

# A picture of 640 x 320 in a square of 640: its pixels are the square's, 160 further down.
FITTED = Letterbox.fit((640, 320), 640)
WHOLE = [0, 0, 640, 320]


def rows(*found: tuple[float, ...]) -> Float32Array:
    """The detector's output `[300, 6]`: x1, y1, x2, y2, score, class; padded as it pads."""
    output = np.zeros((300, 6), np.float32)
    output[: len(found)] = np.array(found, np.float32).reshape(-1, 6)
    return output


THREE = rows((10, 170, 60, 260, 0.9, 5), (100, 200, 200, 300, 0.5, 0), (0, 0, 640, 640, 0.25, 5))
THREE_BOXES = [[10, 10, 60, 100], [100, 40, 200, 140], WHOLE]


def test_rows_of_nothing_are_no_detections() -> None:
    """Padding has score 0; it is not an object, even if every score is wanted."""
    found, truncated = select_regions(rows(), FITTED, PictureOptions(min_score=0))
    assert len(found) == 0
    assert found.boxes_xyxy.shape == (0, 4)
    assert found.class_ids.dtype == np.int32
    assert not truncated


def test_junk_in_the_padding_is_no_object() -> None:
    """Only the score counts: a row of score 0 is padding, whatever else is in it."""
    junk = THREE.copy()
    junk[3:, :4] = 77
    junk[3:, 5] = 9
    found, _ = select_regions(junk, FITTED, PictureOptions(min_score=0))
    assert found.class_ids.tolist() == [5, 0, 5]


def test_boxes_go_back_to_the_picture() -> None:
    """The detector's order, scores as they are, boxes without the bars and clipped."""
    found, truncated = select_regions(THREE, FITTED, PictureOptions())
    assert found.boxes_xyxy.tolist() == THREE_BOXES
    assert found.scores.tolist() == pytest.approx([0.9, 0.5, 0.25])
    assert found.class_ids.tolist() == [5, 0, 5]
    assert {found.boxes_xyxy.dtype, found.scores.dtype} == {np.dtype(np.float32)}
    assert not truncated


def test_a_full_output_is_read_to_the_end() -> None:
    """300 objects are 300 regions."""
    full = rows(*[(n, 170, n + 9, 180, 0.9 - n / 1000, n % 80) for n in range(300)])
    found, truncated = select_regions(full, FITTED, PictureOptions())
    assert len(found) == 300
    assert found.class_ids.tolist() == [n % 80 for n in range(300)]
    assert not truncated


@pytest.mark.parametrize(
    ("options", "kept", "truncated"),
    [
        pytest.param(PictureOptions(min_score=1), [], False, id="no score is enough"),
        pytest.param(PictureOptions(min_score=0.5), [0, 1], False, id="a score that is enough"),
        pytest.param(PictureOptions(min_score=0.51), [0], False, id="a little more"),
        pytest.param(PictureOptions(class_ids=(7,)), [], False, id="a class that is not there"),
        pytest.param(PictureOptions(class_ids=(5,)), [0, 2], False, id="one class"),
        pytest.param(PictureOptions(class_ids=(0, 5, 7)), [0, 1, 2], False, id="three classes"),
        pytest.param(PictureOptions(max_detections=3), [0, 1, 2], False, id="just enough room"),
        pytest.param(PictureOptions(max_detections=2), [0, 1], True, id="one too many"),
        pytest.param(
            PictureOptions(max_detections=1, class_ids=(5,)), [0], True, id="the best of a class"
        ),
        pytest.param(
            PictureOptions(max_detections=1, class_ids=(0,)), [1], False, id="the only one"
        ),
    ],
)
def test_what_is_asked_for_is_kept(
    options: PictureOptions, kept: list[int], truncated: bool
) -> None:
    """`truncated` speaks of what was asked for, not of what was filtered away."""
    found, cut = select_regions(THREE, FITTED, options)
    assert found.boxes_xyxy.tolist() == [THREE_BOXES[n] for n in kept]
    assert cut is truncated


def test_a_score_is_compared_as_it_is() -> None:
    """0.3 as float32 is a little more than 0.3; asked for 0.3, it is there."""
    found, _ = select_regions(rows((0, 200, 9, 210, 0.3, 0)), FITTED, PictureOptions(min_score=0.3))
    assert len(found) == 1


@pytest.mark.parametrize(
    ("regions", "boxes", "class_ids"),
    [
        (Regions.DETECTIONS, THREE_BOXES, [5, 0, 5]),
        (Regions.WHOLE_PICTURE, [WHOLE], [NO_CLASS]),
        (
            Regions.DETECTIONS_AND_WHOLE_PICTURE,
            [WHOLE, *THREE_BOXES],
            [NO_CLASS, 5, 0, 5],
        ),
    ],
    ids=lambda value: value.value if isinstance(value, Regions) else "",
)
def test_regions(regions: Regions, boxes: list[list[float]], class_ids: list[int]) -> None:
    """The whole picture comes first; it is of no class and has score 1."""
    found, _ = select_regions(THREE, FITTED, PictureOptions(regions))
    assert found.boxes_xyxy.tolist() == boxes
    assert found.class_ids.tolist() == class_ids
    assert [found.scores[n] == 1 for n in range(len(found))] == [c == NO_CLASS for c in class_ids]
    assert found.boxes_xyxy.dtype == np.float32


@pytest.mark.parametrize(
    ("regions", "count"),
    [
        (Regions.DETECTIONS, 0),
        (Regions.WHOLE_PICTURE, 1),
        (Regions.DETECTIONS_AND_WHOLE_PICTURE, 1),
    ],
    ids=lambda value: value.value if isinstance(value, Regions) else "",
)
def test_regions_of_a_picture_without_objects(regions: Regions, count: int) -> None:
    """An empty answer, or the picture as a whole."""
    found, truncated = select_regions(rows(), FITTED, PictureOptions(regions))
    assert len(found) == count
    assert not truncated


@pytest.mark.parametrize(
    ("regions", "truncated"),
    [(Regions.WHOLE_PICTURE, False), (Regions.DETECTIONS_AND_WHOLE_PICTURE, True)],
)
def test_truncated_is_about_detections_that_were_wanted(regions: Regions, truncated: bool) -> None:
    """And the whole picture does not count towards `max_detections`."""
    found, cut = select_regions(THREE, FITTED, PictureOptions(regions, max_detections=1))
    assert len(found) == (2 if truncated else 1)
    assert cut is truncated


def test_the_callers_boxes_are_clipped_and_in_their_order() -> None:
    """The detector's rows play no part."""
    boxes = ((50.0, 60.0, 70.0, 80.0), (-10.0, -10.0, 5.0, 5.0), (600.0, 300.0, 1e300, 1e300))
    found, truncated = select_regions(
        THREE, FITTED, PictureOptions(Regions.BOXES, boxes, max_detections=1)
    )
    assert found.boxes_xyxy.tolist() == [[50, 60, 70, 80], [0, 0, 5, 5], [600, 300, 640, 320]]
    assert found.boxes_xyxy.dtype == np.float32
    assert found.class_ids.tolist() == [NO_CLASS] * 3
    assert found.scores.tolist() == [1, 1, 1]
    assert not truncated


@pytest.mark.parametrize(
    "box",
    [
        (700, 10, 800, 20),
        (10, 320, 20, 330),
        (-20, -20, -10, -10),
        (-5, 10, 0, 20),
        (10, 10, 10 + 1e-9, 20),
    ],
    ids=["to the right", "just below", "above", "touching", "thinner than float32"],
)
def test_a_box_outside_the_picture_is_refused(box: tuple[float, float, float, float]) -> None:
    """Its crop would be nothing but filler; the message says which box, and the picture's size."""
    options = PictureOptions(Regions.BOXES, ((1, 1, 2, 2), box))
    with pytest.raises(InvalidInput, match=r"^boxes\[1\]: expected a box in the picture of 640 x"):
        select_regions(THREE, FITTED, options)
