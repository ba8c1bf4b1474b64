"""The plain types: what they refuse when made, and how options travel."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
import pytest

from cropseek.errors import InvalidInput
from cropseek.types import MAX_DETECTIONS, Detections, PictureOptions, Regions

BOX = (1.0, 2.0, 3.0, 4.0)
NAN, INF = math.nan, math.inf


def test_the_defaults() -> None:
    """Every detection, embedded, not searched."""
    options = PictureOptions()
    assert options.regions is Regions.DETECTIONS
    assert (options.min_score, options.max_detections) == (0.25, 300)
    assert (options.embed, options.collection_id) == (True, None)
    assert options.class_ids == ()


@pytest.mark.parametrize(
    ("regions", "detections", "whole"),
    [
        (Regions.DETECTIONS, True, False),
        (Regions.WHOLE_PICTURE, False, True),
        (Regions.DETECTIONS_AND_WHOLE_PICTURE, True, True),
        (Regions.BOXES, False, False),
    ],
)
def test_what_regions_want(regions: Regions, detections: bool, whole: bool) -> None:
    """Of the detector and of the picture."""
    assert (regions.wants_detections, regions.wants_whole_picture) == (detections, whole)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"min_score": -0.01}, "min_score: expected a value from 0 to 1, got -0.01"),
        ({"min_score": 1.01}, "min_score: expected a value from 0 to 1, got 1.01"),
        ({"min_score": NAN}, "min_score: .* got nan"),
        ({"max_detections": 0}, "max_detections: expected a value from 1 to 300, got 0"),
        ({"max_detections": 301}, "max_detections: expected a value from 1 to 300, got 301"),
        ({"top_k": -1}, "top_k: expected a value from 0 to 1000, got -1"),
        ({"top_k": 1001}, "top_k: expected a value from 0 to 1000, got 1001"),
        ({"min_similarity": -1.1}, "min_similarity: expected a value from -1 to 1, got -1.1"),
        ({"min_similarity": NAN}, "min_similarity: .* got nan"),
        ({"regions": Regions.BOXES}, "boxes: expected at least one box with regions = boxes"),
        (
            {"regions": Regions.BOXES, "boxes_xyxy": (BOX,) * 301},
            "boxes: expected at most 300, got 301",
        ),
        ({"boxes_xyxy": (BOX, (3, 2, 1, 4))}, r"boxes\[1\]: .* got 3, 2, 1, 4"),
        ({"max_detections": 1.5}, r"max_detections: expected a whole number, got 1.5"),
        ({"top_k": True}, r"top_k: expected a whole number, got True"),
        ({"class_ids": (0, "a")}, r"class_ids: expected a whole number, got 'a'"),
        ({"collection_id": 2**63}, f"collection_id: .* to {2**63 - 1}, got {2**63}$"),
        ({"top_k": 10**400}, "top_k: expected a value from 0 to 1000, got 1000"),
        ({"class_ids": (2**31,)}, f"class_ids: .* got {2**31}$"),
        ({"collection_id": "x"}, r"collection_id: expected a whole number, got 'x'"),
        ({"boxes_xyxy": ((1, 4, 3, 2),)}, r"boxes\[0\]: expected finite x1 < x2 and y1 < y2"),
        ({"boxes_xyxy": ((1, 2, 1, 4),)}, r"boxes\[0\]"),
        ({"boxes_xyxy": ((NAN, 2, 3, 4),)}, r"boxes\[0\]: .* got nan, 2, 3, 4"),
        ({"boxes_xyxy": ((1, 2, 3, NAN),)}, r"boxes\[0\]"),
        ({"boxes_xyxy": ((1, 2, INF, 4),)}, r"boxes\[0\]"),
        ({"boxes_xyxy": ((1, -INF, 2, 4),)}, r"boxes\[0\]"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_wrong_options_are_refused(values: dict[str, Any], message: str) -> None:
    """The message says the field, what was expected and what came."""
    with pytest.raises(InvalidInput, match=f"^{message}"):
        PictureOptions(**values)


@pytest.mark.parametrize(
    "options",
    [
        PictureOptions(),
        PictureOptions(min_score=0, max_detections=1, top_k=0, min_similarity=-1),
        PictureOptions(min_score=1, max_detections=MAX_DETECTIONS, top_k=1000, min_similarity=1),
        PictureOptions(Regions.BOXES, ((-1.5, 0.1, 3, 4e9), BOX)),
        PictureOptions(Regions.WHOLE_PICTURE, class_ids=(0, 79), embed=False, collection_id=2**60),
    ],
    ids=["defaults", "least", "most", "boxes", "the rest"],
)
def test_options_travel_as_json(options: PictureOptions) -> None:
    """And come back equal, in plain JSON."""
    text = options.to_json()
    assert PictureOptions.from_json(text) == options
    assert json.loads(text)["regions"] == options.regions.value


def test_options_are_checked_where_they_arrive() -> None:
    """Triton's port is one that others might find."""
    text = PictureOptions().to_json().replace('"top_k": 0', '"top_k": 5000')
    with pytest.raises(InvalidInput, match="top_k"):
        PictureOptions.from_json(text)


@pytest.mark.parametrize(
    "text",
    ["", "{}", "[]", "7", '{"regions": "x"}', '{"regions": 1}', "[" * 100_000, 7, True],
    ids=lambda text: str(text)[:20],
)
def test_what_are_no_options_is_said(text: Any) -> None:
    """Not by a traceback, and whatever the type of the parameter."""
    with pytest.raises(InvalidInput, match="options: expected the JSON of PictureOptions, got"):
        PictureOptions.from_json(text)


@pytest.mark.parametrize("n", [0, 1, 5])
def test_detections_have_a_length(n: int) -> None:
    """The number of regions."""
    found = Detections(np.zeros((n, 4), np.float32), np.zeros(n, np.float32), np.zeros(n, np.int32))
    assert len(found) == n


@pytest.mark.parametrize(
    ("boxes", "scores", "class_ids", "message"),
    [
        ((2, 5), (2,), (2,), r"boxes_xyxy: expected \[n, 4\], got \[2, 5\]"),
        ((4,), (4,), (4,), r"boxes_xyxy: expected \[n, 4\], got \[4\]"),
        ((2, 4), (3,), (2,), r"scores, class_ids: expected \[2\], got \[3\], \[2\]"),
        ((2, 4), (2,), (2, 1), r"scores, class_ids: expected \[2\], got \[2\], \[2, 1\]"),
        ((0, 4), (1,), (1,), r"scores, class_ids: expected \[0\]"),
    ],
    ids=str,
)
def test_detections_of_unequal_lengths_are_refused(
    boxes: tuple[int, ...], scores: tuple[int, ...], class_ids: tuple[int, ...], message: str
) -> None:
    """Once, when made."""
    with pytest.raises(ValueError, match=message):
        Detections(
            np.zeros(boxes, np.float32),
            np.zeros(scores, np.float32),
            np.zeros(class_ids, np.int32),
        )
