"""What a search finds, through the real server."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from cropseek.client import Client
from cropseek.client.results import Detection, IndexItem, SearchResult
from cropseek.errors import CollectionNotFound
from cropseek.rpc.server import running_server
from cropseek.settings import Settings
from cropseek.types import Regions
from tests.builders import encoded, flat, iou, scenes

COLLECTION = "search"


@pytest.fixture(scope="module")
def indexed(client: Client, photos: dict[str, bytes]) -> dict[str, bytes]:
    """Photos and scenes, indexed into a collection of their own; returns them by source."""
    pictures = photos | scenes()
    items = (
        IndexItem(picture, source=source, metadata={"kind": "photo"})
        for source, picture in pictures.items()
    )
    for outcome in client.index_images(items, collection=COLLECTION):
        assert outcome.error is None
    return pictures


def test_the_same_bytes_find_themselves(client: Client, indexed: dict[str, bytes]) -> None:
    for source, picture in indexed.items():
        found = client.search(picture, collection=COLLECTION)
        assert found.detections, source
        for detection in found.detections:
            first = detection.neighbors[0]
            assert first.source == source
            assert first.similarity > 0.999
            assert iou(first.box_xyxy, detection.box_xyxy) > 0.99
            assert first.label == detection.label
            assert first.metadata == {"kind": "photo"}


def _recompressed(picture: Image.Image) -> bytes:
    return encoded(picture, quality=70)


def _halved(picture: Image.Image) -> bytes:
    half = (picture.width // 2, picture.height // 2)
    return encoded(picture.resize(half, Image.Resampling.BOX), quality=95)


def _stored_rotated(picture: Image.Image) -> bytes:
    exif = Image.Exif()
    exif[0x0112] = 6  # to be turned clockwise for viewing
    return encoded(picture.transpose(Image.Transpose.ROTATE_90), quality=95, exif=exif)


@pytest.mark.parametrize(
    ("change", "scale"), [(_recompressed, 1.0), (_halved, 0.5), (_stored_rotated, 1.0)]
)
def test_a_changed_picture_finds_its_original(
    client: Client,
    indexed: dict[str, bytes],
    change: Callable[[Image.Image], bytes],
    scale: float,
) -> None:
    right = wrong = 0
    for picture in indexed.values():
        originals = client.search(picture, collection=COLLECTION).detections
        changed = change(Image.open(io.BytesIO(picture)).convert("RGB"))
        for detection in client.search(changed, collection=COLLECTION).detections:
            own = _same_object(detection, originals, scale)
            if own is not None:
                hit = detection.neighbors[0].item_id == own.neighbors[0].item_id
                right, wrong = right + hit, wrong + (not hit)
    assert right + wrong > 20
    assert right / (right + wrong) >= 0.95


def _same_object(
    detection: Detection, originals: tuple[Detection, ...], scale: float
) -> Detection | None:
    box = tuple(value / scale for value in detection.box_xyxy)
    best = max(originals, key=lambda original: iou(box, original.box_xyxy), default=None)
    return best if best is not None and iou(box, best.box_xyxy) >= 0.7 else None


def test_every_entry_point_sees_the_same(
    client: Client, frames: list[bytes], photos: dict[str, bytes], tmp_path: Path
) -> None:
    pictures = [*photos.values(), *frames[:4]]
    alone = [_search(client, picture) for picture in pictures]
    streamed = list(
        client.search_stream(iter(pictures), collection=_ready(client), include_embeddings=True)
    )
    stored = list(client.index_images(IndexItem(p) for p in pictures))
    with running_server(Settings(data_dir=tmp_path)) as local, Client(local.target) as other:
        _ready(other)
        elsewhere = [_search(other, picture) for picture in pictures]
    for number, expected in enumerate(alone):
        outcome = streamed[number]
        assert outcome.result is not None
        _assert_same(outcome.result, expected)
        _assert_same(elsewhere[number], expected)
        indexed = stored[number].indexed
        assert indexed is not None
        _assert_same_regions(indexed.detections, expected.detections)


def test_many_at_once_are_as_each_alone(
    client: Client, frames: list[bytes], photos: dict[str, bytes]
) -> None:
    pictures = [*photos.values(), *frames]
    assert len(pictures) == 16
    alone = [_search(client, picture) for picture in pictures]
    together = list(
        client.search_stream(iter(pictures), collection=_ready(client), include_embeddings=True)
    )
    for outcome, expected in zip(together, alone, strict=True):
        assert outcome.result is not None
        _assert_same(outcome.result, expected)


def _ready(client: Client) -> str:
    client.create_collection("empty")
    return "empty"


def _search(client: Client, picture: bytes) -> SearchResult:
    return client.search(picture, collection=_ready(client), include_embeddings=True)


def _assert_same(found: SearchResult, expected: SearchResult) -> None:
    _assert_same_regions(found.detections, expected.detections)
    assert found.embeddings is not None
    assert expected.embeddings is not None
    cosines = (found.embeddings * expected.embeddings).sum(axis=1)
    assert (cosines > 0.9999).all()


def _assert_same_regions(found: tuple[Detection, ...], expected: tuple[Detection, ...]) -> None:
    assert [d.label for d in found] == [d.label for d in expected]
    for one, other in zip(found, expected, strict=True):
        assert iou(one.box_xyxy, other.box_xyxy) >= 0.99
        assert one.score == pytest.approx(other.score, abs=0.005)


def test_a_picture_without_objects_is_an_answer(client: Client) -> None:
    found = client.search(flat(640, 480), collection=_ready(client))
    assert found.detections == ()
    assert found.size_wh == (640, 480)


def test_regions_that_the_caller_chooses(client: Client, photos: dict[str, bytes]) -> None:
    picture = photos["astronaut.png"]
    whole = client.embed(picture, regions=Regions.WHOLE_PICTURE)
    assert [d.box_xyxy for d in whole.detections] == [(0, 0, 512, 512)]
    both = client.embed(picture, regions=Regions.DETECTIONS_AND_WHOLE_PICTURE)
    assert len(both.detections) > 1
    boxes = [(10.0, 20.0, 200.0, 300.0), (0.0, 0.0, 512.0, 512.0)]
    chosen = client.embed(picture, regions=Regions.BOXES, boxes_xyxy=boxes)
    assert [d.box_xyxy for d in chosen.detections] == boxes
    assert float(chosen.embeddings[1] @ whole.embeddings[0]) > 0.9999


def test_more_regions_than_a_batch_holds(client: Client, photos: dict[str, bytes]) -> None:
    boxes = [(float(x), 0.0, x + 50.0, 60.0) for x in range(100)]
    picture = photos["astronaut.png"]
    many = client.embed(picture, regions=Regions.BOXES, boxes_xyxy=boxes)
    assert many.embeddings.shape == (100, 1280)
    one = client.embed(picture, regions=Regions.BOXES, boxes_xyxy=boxes[77:78])
    assert float(many.embeddings[77] @ one.embeddings[0]) > 0.9999


def test_classes_scores_and_counts_are_limited(client: Client, frames: list[bytes]) -> None:
    everything = client.detect(frames[0], min_score=0.01)
    assert len(everything.detections) > 3
    people = client.detect(frames[0], min_score=0.01, classes=["person"])
    assert {d.label for d in people.detections} == {"person"}
    two = client.detect(frames[0], min_score=0.01, max_detections=2)
    assert two.detections == everything.detections[:2]
    assert two.truncated


def test_top_k_and_min_similarity(
    client: Client, indexed: dict[str, bytes], frames: list[bytes]
) -> None:
    found = client.search(frames[0], collection=COLLECTION, top_k=3)
    assert all(len(d.neighbors) == 3 for d in found.detections)
    found = client.search(frames[0], collection=COLLECTION, top_k=100, min_similarity=0.999)
    for detection in found.detections:
        assert 1 <= len(detection.neighbors) < 100
        assert all(n.similarity >= 0.999 for n in detection.neighbors)


def test_vectors_are_normalised(client: Client, frames: list[bytes]) -> None:
    vectors = client.embed(frames[0]).embeddings
    assert np.linalg.norm(vectors, axis=1) == pytest.approx(1.0, abs=1e-5)


def test_a_restart_keeps_what_was_indexed(frames: list[bytes], tmp_path: Path) -> None:
    settings = Settings(data_dir=tmp_path)
    with running_server(settings) as first, Client(first.target) as client:
        (outcome,) = client.index_images([IndexItem(frames[0], source="a")])
        assert outcome.indexed is not None
        with pytest.raises(CollectionNotFound, match="none named 'other'"):
            client.search(frames[0], collection="other")
    with running_server(settings) as second, Client(second.target) as client:
        found = client.search(frames[0])
        assert [d.neighbors[0].item_id for d in found.detections] == list(outcome.indexed.item_ids)
        assert found.index_sequence == outcome.indexed.sequence


def test_indexing_a_source_again_replaces_it(client: Client, frames: list[bytes]) -> None:
    before = list(client.index_images([IndexItem(frames[0], "a")], collection="again"))
    after = list(client.index_images([IndexItem(frames[0], "a")], collection="again"))
    assert before[0].indexed is not None
    assert after[0].indexed is not None
    count = len(after[0].indexed.item_ids)
    assert {c.name: c.items for c in client.collections()}["again"] == count
    found = client.search(frames[0], collection="again", top_k=50)
    ids = {n.item_id for d in found.detections for n in d.neighbors}
    assert ids == set(after[0].indexed.item_ids)
