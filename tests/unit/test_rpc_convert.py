"""Between the API's messages and plain types: defaults, every field, and what is refused."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pytest

from cropseek.engine import Found, Kept
from cropseek.errors import DeadlineExceeded, InvalidImage, InvalidInput
from cropseek.pb import cropseek_pb2 as pb
from cropseek.rpc import convert
from cropseek.types import Detections, Item, PictureOptions, PictureResult, Regions

LABELS = ("person", "dog")
RESULT = PictureResult(
    size_wh=(810, 1080),
    detections=Detections(
        np.array([[1, 2.5, 3, 4], [0, 0, 810, 1080]], np.float32),
        np.array([0.75, 1], np.float32),
        np.array([1, -1], np.int32),
    ),
    embeddings=np.array([[0.5, 0.25, 0], [1, 0, 0]], np.float32),
    index_sequence=2**40,
    truncated=True,
    timings_ms={"detect": 1.5, "total": 80.25},
)
ITEM = Item(7, "b.mp4", 1.5, (1, 2, 3, 4.5), 0.5, "dog", {"shop": "x"})


def label(class_id: int) -> str:
    """A class's name."""
    return LABELS[class_id] if class_id >= 0 else ""


def class_ids(labels: Sequence[str]) -> tuple[int, ...]:
    """The ids of names."""
    return tuple(LABELS.index(name) for name in labels)


# ---- requests -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        pytest.param(pb.RegionOptions(), PictureOptions(), id="nothing set"),
        pytest.param(
            pb.RegionOptions(regions=pb.REGIONS_DETECTIONS), PictureOptions(), id="detections"
        ),
        pytest.param(
            pb.RegionOptions(regions=pb.REGIONS_WHOLE_PICTURE),
            PictureOptions(Regions.WHOLE_PICTURE),
            id="whole picture",
        ),
        pytest.param(
            pb.RegionOptions(regions=pb.REGIONS_DETECTIONS_AND_WHOLE_PICTURE),
            PictureOptions(Regions.DETECTIONS_AND_WHOLE_PICTURE),
            id="both",
        ),
        pytest.param(
            pb.RegionOptions(
                regions=pb.REGIONS_BOXES,
                boxes=[pb.Box(x1=1, y1=2, x2=3, y2=4.5), pb.Box(x1=-1, y1=-2, x2=0, y2=0)],
            ),
            PictureOptions(Regions.BOXES, ((1, 2, 3, 4.5), (-1, -2, 0, 0))),
            id="boxes",
        ),
        pytest.param(
            pb.RegionOptions(min_score=0, max_detections=1),
            PictureOptions(min_score=0, max_detections=1),
            id="a score of 0 is a score",
        ),
        pytest.param(
            pb.RegionOptions(min_score=1, max_detections=300),
            PictureOptions(min_score=1, max_detections=300),
            id="the most",
        ),
        pytest.param(
            pb.RegionOptions(classes=["dog", "person"]),
            PictureOptions(class_ids=(1, 0)),
            id="classes",
        ),
    ],
)
def test_region_options(message: pb.RegionOptions, expected: PictureOptions) -> None:
    """Defaults for what is not set, zero for what is set to zero."""
    assert convert.region_options(message, class_ids) == expected


@pytest.mark.parametrize(
    ("message", "text"),
    [
        (pb.RegionOptions(min_score=1.5), "min_score: .* got 1.5"),
        (pb.RegionOptions(min_score=math.nan), "min_score: .* got nan"),
        (pb.RegionOptions(max_detections=0), "max_detections: .* got 0"),
        (pb.RegionOptions(max_detections=2**32 - 1), "max_detections: .* got 4294967295"),
        (pb.RegionOptions(regions=pb.REGIONS_BOXES), "boxes: expected at least one box"),
        (
            pb.RegionOptions(regions=pb.REGIONS_BOXES, boxes=[pb.Box(x1=3, y1=0, x2=1, y2=9)]),
            r"boxes\[0\]: .* got 3, 0, 1, 9",
        ),
        (
            pb.RegionOptions(regions=pb.REGIONS_BOXES, boxes=[pb.Box()]),
            r"boxes\[0\]: .* got 0, 0, 0, 0",
        ),
        (
            pb.RegionOptions(regions=99),  # type: ignore[arg-type]
            "regions: expected one of REGIONS_UNSPECIFIED, .*REGIONS_BOXES, got 99",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_wrong_region_options_are_refused(message: pb.RegionOptions, text: str) -> None:
    """Regions of a newer client too: the default would answer another question."""
    with pytest.raises(InvalidInput, match=text):
        convert.region_options(message, class_ids)


def test_every_region_of_the_api_has_its_meaning() -> None:
    """A value added to the proto must be added here."""
    box = pb.Box(x1=0, y1=0, x2=1, y2=1)
    for name in pb.Regions.keys():
        convert.region_options(pb.RegionOptions(regions=name, boxes=[box]), class_ids)


@pytest.mark.parametrize(
    ("request_", "expected"),
    [
        (pb.DetectRequest(image=b"x"), pb.RegionOptions()),
        (
            pb.DetectRequest(min_score=0, max_detections=5, classes=["dog"]),
            pb.RegionOptions(min_score=0, max_detections=5, classes=["dog"]),
        ),
    ],
    ids=["nothing set", "all set"],
)
def test_detect_regions(request_: pb.DetectRequest, expected: pb.RegionOptions) -> None:
    """What is not set stays so."""
    assert convert.detect_regions(request_) == expected


# ---- answers ------------------------------------------------------------------------------------


def test_no_regions_are_no_detections() -> None:
    """The picture in which nothing was found."""
    nothing = PictureResult(
        (5, 4),
        Detections(np.zeros((0, 4), np.float32), np.zeros(0, np.float32), np.zeros(0, np.int32)),
    )
    assert convert.detections(nothing, label) == []
    assert convert.search_response(Found(nothing, []), label, embeddings=True) == pb.SearchResponse(
        size=pb.Size(width=5, height=4)
    )


@pytest.mark.parametrize("embeddings", [False, True])
def test_detections(embeddings: bool) -> None:
    """Box, score, label and class of each; its vector only if asked for."""
    expected = [
        pb.Detection(box=pb.Box(x1=1, y1=2.5, x2=3, y2=4), score=0.75, label="dog", class_id=1),
        pb.Detection(box=pb.Box(x1=0, y1=0, x2=810, y2=1080), score=1, label="", class_id=-1),
    ]
    if embeddings:
        expected[0].embedding.extend([0.5, 0.25, 0])
        expected[1].embedding.extend([1, 0, 0])
    assert convert.detections(RESULT, label, embeddings=embeddings) == expected


def test_search_response() -> None:
    """Each region with its own neighbours, in their order; a picture's item has no time."""
    still = Item(9, "a.jpg", None, (0, 0, 1, 1), 0.25, "", {})
    found = Found(RESULT, [[(ITEM, 0.75), (still, 0.5)], []])
    response = convert.search_response(found, label, embeddings=False)
    assert response.size == pb.Size(width=810, height=1080)
    assert response.index_sequence == 2**40
    assert response.truncated
    assert dict(response.timings_ms) == {"detect": 1.5, "total": 80.25}
    first, second = response.detections
    assert list(second.neighbors) == []
    assert list(first.neighbors) == [
        pb.Neighbor(
            item_id=7,
            similarity=0.75,
            source="b.mp4",
            time_s=1.5,
            box=pb.Box(x1=1, y1=2, x2=3, y2=4.5),
            label="dog",
            score=0.5,
            metadata={"shop": "x"},
        ),
        pb.Neighbor(item_id=9, similarity=0.5, source="a.jpg", box=pb.Box(x2=1, y2=1), score=0.25),
    ]
    assert [neighbor.HasField("time_s") for neighbor in first.neighbors] == [True, False]
    assert not first.embedding


def test_time_0_is_a_time() -> None:
    """The first frame of a film."""
    start = Item(1, "b.mp4", 0.0, (0, 0, 1, 1), 0.5, "dog", {})
    response = convert.search_response(Found(RESULT, [[(start, 1.0)], []]), label, embeddings=False)
    (neighbor,) = response.detections[0].neighbors
    assert neighbor.HasField("time_s")
    assert neighbor.time_s == 0


def test_neighbours_of_another_number_of_regions_are_a_bug() -> None:
    """Never given to the wrong region."""
    with pytest.raises(ValueError, match="zip"):
        convert.search_response(Found(RESULT, [[]]), label, embeddings=False)


def test_indexed() -> None:
    """Ids in the regions' order."""
    message = convert.indexed(Kept(RESULT, [2**40, 3], 12), label)
    assert list(message.item_ids) == [2**40, 3]
    assert message.sequence == 12
    assert [detection.label for detection in message.detections] == ["dog", ""]
    assert not any(detection.embedding for detection in message.detections)


@pytest.mark.parametrize(
    ("fault", "code"),
    [
        (InvalidImage("image: expected"), "INVALID_ARGUMENT"),
        (DeadlineExceeded("image: expected"), "DEADLINE_EXCEEDED"),
    ],
    ids=["invalid", "late"],
)
def test_error(fault: InvalidImage | DeadlineExceeded, code: str) -> None:
    """The code by name, the message, and which error it is."""
    reason = type(fault).__name__
    assert convert.error(fault) == pb.Error(code=code, message="image: expected", reason=reason)
