"""The engine on a real catalog, with a fake in Triton's place: admission, names, what is kept."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import pytest_asyncio

from cropseek.errors import (
    CollectionNotFound,
    DeadlineExceeded,
    EmbedderMismatch,
    InvalidImage,
    InvalidInput,
    Overloaded,
)
from cropseek.types import NO_CLASS, Detections, PictureOptions, PictureResult
from tests.unit.catalog_builders import FINGERPRINT
from tests.unit.fake_triton import FakeEngine

OPTIONS = PictureOptions(top_k=5)


@pytest_asyncio.fixture
async def engine(tmp_path: Path) -> AsyncIterator[FakeEngine]:
    """An engine that admits two pictures."""
    with FakeEngine(tmp_path, max_in_flight=2) as made:
        yield made


async def picture(engine: FakeEngine, image: bytes, *, wait: bool = False) -> PictureResult:
    """Run a picture without further wishes."""
    return await engine.picture(image, OPTIONS, embeddings=False, timeout_s=None, wait=wait)


async def keep(engine: FakeEngine, image: bytes, source: str = "", **more: Any) -> list[int]:
    """Index a picture; returns its items' ids."""
    result = await engine.picture(image, OPTIONS, embeddings=True, timeout_s=None)
    time_s, metadata = more.pop("time_s", None), more.pop("metadata", {})
    kept = await engine.keep(result, more.pop("collection", "c"), source, time_s, metadata)
    return kept.item_ids


async def until(engine: FakeEngine, in_work: int) -> None:
    """Let the other tasks run until so many pictures have reached Triton."""
    while engine.triton.in_work != in_work:
        await asyncio.sleep(0)


# ---- labels -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("class_id", "label"), [(NO_CLASS, ""), (0, "person"), (1, "dog"), (2, "wine glass")]
)
async def test_label(engine: FakeEngine, class_id: int, label: str) -> None:
    """A region that no detector named has none: -1 is not the last class."""
    assert engine.label(class_id) == label


@pytest.mark.parametrize(
    ("labels", "class_ids"),
    [([], ()), (["dog"], (1,)), (["wine glass", "person"], (2, 0)), (["dog", "dog"], (1, 1))],
    ids=str,
)
async def test_class_ids(engine: FakeEngine, labels: list[str], class_ids: tuple[int, ...]) -> None:
    """By name, in the order asked for."""
    assert engine.class_ids(labels) == class_ids


@pytest.mark.parametrize("label", ["cat", "", "Dog", "dog "])
async def test_a_label_the_detector_lacks_is_refused(engine: FakeEngine, label: str) -> None:
    """It would else find nothing, silently; the message names some that there are."""
    with pytest.raises(InvalidInput, match=f"classes: .*person, dog.* got '{label}'"):
        engine.class_ids(["dog", label])


# ---- pictures and admission ---------------------------------------------------------------------


async def test_a_picture_goes_to_triton_as_it_is(engine: FakeEngine) -> None:
    """Bytes, options, wishes and the time that is left."""
    options = PictureOptions(min_score=0.5)
    result = await engine.picture(b"3", options, embeddings=True, timeout_s=1.5)
    ((image, sent, embeddings),) = engine.triton.calls
    assert (image, replace(sent, alone=False), embeddings) == (b"3", options, True)
    assert len(result.detections) == 3
    assert set(result.timings_ms) == {"detect", "wait", "triton"}
    assert result.timings_ms["detect"] == 1.5
    assert min(result.timings_ms.values()) >= 0


async def test_one_too_many_is_refused_at_once(engine: FakeEngine) -> None:
    """With the limit; and when there is room again, the next is admitted."""
    engine.triton.gate.clear()
    held = [asyncio.create_task(picture(engine, b"1")) for _ in range(2)]
    await until(engine, 2)
    with pytest.raises(Overloaded, match="holds 2 pictures, the most it admits"):
        await picture(engine, b"1")
    assert len(engine.triton.calls) == 2
    engine.triton.gate.set()
    await asyncio.gather(*held)
    assert len((await picture(engine, b"1")).detections) == 1


async def test_a_stream_waits_instead(engine: FakeEngine) -> None:
    """Its pictures queue; they take half of the places at most, so that others find one."""
    engine.triton.gate.clear()
    tasks = [asyncio.create_task(picture(engine, b"1", wait=True)) for _ in range(9)]
    await until(engine, 1)
    other = asyncio.create_task(picture(engine, b"1"))
    await until(engine, 2)
    assert len(engine.triton.calls) == 2
    engine.triton.gate.set()
    assert len(await asyncio.gather(other, *tasks)) == 10
    assert engine.triton.most_at_once == 2


@pytest.mark.parametrize(
    ("image", "error"), [(b"bad", InvalidImage), (b"bug", ZeroDivisionError)], ids=["bad", "bug"]
)
async def test_a_picture_that_fails_leaves_its_place(
    engine: FakeEngine, image: bytes, error: type[Exception]
) -> None:
    """Whatever it fails with: ten of them do not fill two places."""
    for _ in range(10):
        with pytest.raises(error):
            await picture(engine, image)
    assert len((await picture(engine, b"2")).detections) == 2


@pytest.mark.parametrize("given_up", ["cancelled", "late"])
async def test_a_picture_given_up_keeps_its_place_until_it_is_done(
    engine: FakeEngine, given_up: str
) -> None:
    """Triton works on it all the same: more at once than the limit would pile up there."""
    engine.triton.gate.clear()
    timeout_s = None if given_up == "cancelled" else 0.01
    tasks = [
        asyncio.create_task(engine.picture(b"1", OPTIONS, embeddings=False, timeout_s=timeout_s))
        for _ in range(2)
    ]
    await until(engine, 2)
    if given_up == "cancelled":
        for task in tasks:
            task.cancel()
    outcomes = await asyncio.gather(*tasks, return_exceptions=True)
    kind = asyncio.CancelledError if given_up == "cancelled" else DeadlineExceeded
    assert [type(outcome) for outcome in outcomes] == [kind, kind]
    with pytest.raises(Overloaded):
        await picture(engine, b"1")
    engine.triton.gate.set()
    while engine.triton.in_work:
        await asyncio.sleep(0)
    await asyncio.gather(*(picture(engine, b"1") for _ in range(2)))


@pytest.mark.parametrize(
    ("source", "metadata", "message"),
    [
        ("x" * 4097, {}, "source: expected at most 4096 characters, got 4097"),
        ("a", {"k": "v" * 16_384}, "metadata: expected at most 16384 characters, got 16385"),
    ],
    ids=["source", "metadata"],
)
async def test_what_is_told_back_with_every_hit_is_limited(
    engine: FakeEngine, source: str, metadata: dict[str, str], message: str
) -> None:
    """Or one item could make a collection unsearchable."""
    result = await engine.picture(b"1", OPTIONS, embeddings=True, timeout_s=None)
    with pytest.raises(InvalidInput, match=message):
        await engine.keep(result, "c", source, None, metadata)


async def test_a_lone_picture_is_told_that_it_is_alone(engine: FakeEngine) -> None:
    """One among others is not; when they are done, the next is alone again."""
    await picture(engine, b"1")
    engine.triton.gate.clear()
    tasks = [asyncio.create_task(picture(engine, b"1")) for _ in range(2)]
    await until(engine, 2)
    engine.triton.gate.set()
    await asyncio.gather(*tasks)
    with pytest.raises(InvalidImage):
        await picture(engine, b"bad")
    await picture(engine, b"1")
    alone = [options.alone for _, options, _ in engine.triton.calls]
    assert alone == [True, True, False, True, True]


# ---- collections --------------------------------------------------------------------------------


async def test_collections(engine: FakeEngine) -> None:
    """Made once, with this embedder's fingerprint; counted."""
    assert await engine.collections() == []
    made = await engine.create_collection("c")
    assert made.fingerprint == FINGERPRINT
    assert await engine.create_collection("c") == made == engine.collection("c")
    await keep(engine, b"3", "a.jpg")
    assert await engine.collections() == [(made, 3)]


async def test_a_collection_nobody_made(engine: FakeEngine) -> None:
    """Is not made by searching it, and Triton is not asked."""
    with pytest.raises(CollectionNotFound, match="'nope'"):
        await engine.search(b"1", "nope", OPTIONS, embeddings=False, timeout_s=None)
    assert engine.triton.calls == []
    assert await engine.collections() == []


async def test_a_collection_of_another_embedder(engine: FakeEngine) -> None:
    """Is neither searched nor added to."""
    other = replace(FINGERPRINT, source_sha256="cd" * 32)
    engine.catalog.create_collection("c", other)
    with pytest.raises(EmbedderMismatch, match="collection 'c'"):
        engine.collection("c")
    with pytest.raises(EmbedderMismatch):
        await engine.search(b"1", "c", OPTIONS, embeddings=False, timeout_s=None)
    with pytest.raises(EmbedderMismatch):
        await keep(engine, b"1")
    assert engine.catalog.collections()[0][1] == 0


# ---- keep and search ----------------------------------------------------------------------------


async def test_what_is_kept_is_what_was_seen(engine: FakeEngine) -> None:
    """Box, score, label, source, time and metadata of each region; the sequence is the log's."""
    result = await engine.picture(b"4", OPTIONS, embeddings=True, timeout_s=None)
    kept = await engine.keep(result, "c", "film.mp4", 2.5, {"shop": "x"})
    assert kept.result is result
    assert kept.sequence == engine.catalog.head() == 4
    items = engine.catalog.items(kept.item_ids)
    assert [items[n].label for n in kept.item_ids] == ["person", "dog", "wine glass", "person"]
    assert [items[n].box_xyxy for n in kept.item_ids] == [(n, 0, n + 10, 20) for n in range(4)]
    assert [items[n].score for n in kept.item_ids] == [1 - n / 512 for n in range(4)]
    for item in items.values():
        assert (item.source, item.time_s, item.metadata) == ("film.mp4", 2.5, {"shop": "x"})


async def test_a_picture_without_regions_keeps_nothing(engine: FakeEngine) -> None:
    """But makes the collection, and replaces what its source had."""
    assert await keep(engine, b"0", "a.jpg") == []
    assert [items for _, items in await engine.collections()] == [0]
    assert len(await keep(engine, b"2", "a.jpg")) == 2
    assert await keep(engine, b"0", "a.jpg") == []
    assert [items for _, items in await engine.collections()] == [0]


async def test_a_region_that_no_detector_named_has_no_label(engine: FakeEngine) -> None:
    """The whole picture, or the caller's box."""
    seen = await engine.picture(b"1", OPTIONS, embeddings=True, timeout_s=None)
    found = seen.detections
    whole = Detections(found.boxes_xyxy, found.scores, np.array([NO_CLASS], np.int32))
    kept = await engine.keep(replace(seen, detections=whole), "c", "", None, {})
    assert engine.catalog.items(kept.item_ids)[kept.item_ids[0]].label == ""


async def test_a_search_names_the_neighbours(engine: FakeEngine) -> None:
    """Each region's, nearest first; padding is no item."""
    first = await keep(engine, b"2", "a.jpg", metadata={"n": "1"})
    second = await keep(engine, b"1", "b.jpg")
    engine.triton.item_ids = [second[0], first[1]]
    engine.triton.sequence = 3
    found = await engine.search(b"2", "c", OPTIONS, embeddings=False, timeout_s=None)
    assert len(found.neighbors) == 2
    for row in found.neighbors:
        assert [(item.id, item.source) for item, _ in row] == [
            (second[0], "b.jpg"),
            (first[1], "a.jpg"),
        ]
        assert [similarity for _, similarity in row] == pytest.approx([1, 0.875])
        assert row[1][0].metadata == {"n": "1"}
    assert found.result.index_sequence == 3
    assert set(found.result.timings_ms) == {"detect", "wait", "triton", "catalog", "total"}


async def test_a_search_is_of_the_collection_that_was_named(engine: FakeEngine) -> None:
    """By its id; everything else that was asked for stays."""
    await engine.create_collection("other")
    made = await engine.create_collection("c")
    options = PictureOptions(top_k=7, min_similarity=0.5, class_ids=(1,))
    await engine.search(b"1", "c", options, embeddings=True, timeout_s=9.5)
    ((_, sent, embeddings),) = engine.triton.calls
    assert replace(sent, alone=False) == replace(options, collection_id=made.id)
    assert embeddings


async def test_an_item_deleted_meanwhile_is_left_out(engine: FakeEngine) -> None:
    """The index knew it still, the catalog does not."""
    (gone,) = await keep(engine, b"1", "a.jpg")
    (stays,) = await keep(engine, b"1", "b.jpg")
    await keep(engine, b"0", "a.jpg")
    engine.triton.item_ids = [gone, stays]
    found = await engine.search(b"1", "c", OPTIONS, embeddings=False, timeout_s=None)
    assert [[(item.id, score) for item, score in row] for row in found.neighbors] == [
        [(stays, 0.875)]
    ]


async def test_a_picture_without_regions_has_no_neighbours(engine: FakeEngine) -> None:
    """An answer all the same, right up to the log's last change."""
    await keep(engine, b"3", "a.jpg")
    found = await engine.search(b"0", "c", OPTIONS, embeddings=False, timeout_s=None)
    assert found.neighbors == []
    assert found.result.index_sequence == engine.catalog.head() == 3


async def test_many_neighbours_are_all_named(engine: FakeEngine) -> None:
    """Those that are looked up in a thread as those that are not."""
    ids = [number for n in range(5) for number in await keep(engine, b"90", f"{n}.jpg")]
    engine.triton.item_ids = ids
    options = PictureOptions(top_k=1000)
    found = await engine.search(b"2", "c", options, embeddings=False, timeout_s=None)
    for row in found.neighbors:
        assert [item.id for item, _ in row] == ids


async def test_searches_and_writes_at_once(engine: FakeEngine) -> None:
    """Neither hurts the other: every write is there afterwards, every search answered."""
    await keep(engine, b"1", "first.jpg")

    async def write(number: int) -> list[int]:
        result = await engine.picture(b"2", OPTIONS, embeddings=True, timeout_s=None, wait=True)
        return (await engine.keep(result, "c", f"{number}.jpg", None, {})).item_ids

    async def search() -> int:
        found = await engine.search(b"1", "c", OPTIONS, embeddings=False, timeout_s=None, wait=True)
        return len(found.neighbors)

    written, answered = await asyncio.gather(
        asyncio.gather(*(write(n) for n in range(20))),
        asyncio.gather(*(search() for _ in range(20))),
    )
    assert len({number for ids in written for number in ids}) == 40
    assert answered == [1] * 20
    assert (await engine.collections())[0][1] == 41
