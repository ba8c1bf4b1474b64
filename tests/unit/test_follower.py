from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import chain
from pathlib import Path

import numpy as np
import pytest

from cropseek.catalog import Catalog, Change, ChangeReader
from cropseek.errors import CropseekError, EmbedderMismatch, InvalidInput
from cropseek.index import ExactIndex, Follower, Query
from cropseek.types import Fingerprint, Float32Array, Int64Array, Neighbors
from tests.unit.catalog_builders import DIM, FINGERPRINT, put, regions, unit_rows

ALL = 10**6


class CountingReader(ChangeReader):
    """Counts how often the log is read, and fails as often as told first."""

    reads = 0
    failures = 0

    def changes(self, after: int, limit: int) -> list[Change]:
        self.reads += 1
        if self.reads <= self.failures:
            raise OSError("the disk is away")
        return super().changes(after, limit)


class OneAtATime(ExactIndex):
    """Fails when two threads are in it at once, where faiss ends the process sooner or later."""

    def __init__(self, dim: int) -> None:
        super().__init__(dim)
        self._turn = threading.Lock()

    def add(self, ids: Int64Array, vectors: Float32Array) -> None:
        with self._alone():
            super().add(ids, vectors)

    def search(self, queries: Float32Array, k: int, min_similarity: float = -1.0) -> Neighbors:
        with self._alone():
            return super().search(queries, k, min_similarity)

    @contextmanager
    def _alone(self) -> Iterator[None]:
        assert self._turn.acquire(blocking=False), "two threads in one index"
        try:
            time.sleep(0.0001)
            yield
        finally:
            self._turn.release()


@pytest.fixture
def catalog(tmp_path: Path) -> Iterator[Catalog]:
    with Catalog(tmp_path) as opened:
        yield opened


@pytest.fixture
def collection_id(catalog: Catalog) -> int:
    return catalog.create_collection("pictures", FINGERPRINT).id


@pytest.fixture
def reader(tmp_path: Path) -> Iterator[CountingReader]:
    opened = CountingReader(tmp_path)
    yield opened
    opened.close()


@pytest.fixture
def follower(reader: CountingReader) -> Follower:
    return Follower(reader, ExactIndex)


def seen(follower: Follower, collection_id: int, dim: int = DIM) -> list[int]:
    """Return the ids of all that searches can find."""
    found = follower.search(collection_id, unit_rows(1, 0, dim), ALL, -1.0)
    return sorted(found.item_ids.ravel().tolist())


def test_no_catalog_yet(follower: Follower, tmp_path: Path) -> None:
    assert not follower.catch_up(10)
    assert follower.sequence == 0
    assert follower.search(1, unit_rows(3, 0), 5, -1.0).item_ids.shape == (3, 0)
    with Catalog(tmp_path) as catalog:  # and then there is one
        collection_id = catalog.create_collection("a", FINGERPRINT).id
        assert not follower.catch_up(10)
        assert follower.sequence == 0
        ids, sequence = put(catalog, collection_id, "a", 2, 0)
        assert not follower.catch_up(10)
        assert follower.sequence == sequence
        assert seen(follower, collection_id) == ids


def test_search_sees_each_write(catalog: Catalog, collection_id: int, follower: Follower) -> None:
    live: dict[str, list[int]] = {}
    for seed in range(30):
        source = f"s{seed % 4}"
        live[source], sequence = put(catalog, collection_id, source, seed % 3, seed)
        assert not follower.catch_up(ALL)
        assert follower.sequence == sequence
        assert seen(follower, collection_id) == sorted(chain(*live.values()))


def test_nearest_is_the_item_itself(
    catalog: Catalog, collection_id: int, follower: Follower
) -> None:
    ids, _ = put(catalog, collection_id, "a", 20, 5)
    follower.catch_up(ALL)
    found = follower.search(collection_id, unit_rows(20, 5), 1, 0.9)
    assert found.item_ids.ravel().tolist() == ids
    np.testing.assert_allclose(found.similarities, 1, atol=1e-5)


@pytest.mark.parametrize("bite", [1, 2, 3, 7, 1000])
def test_bites_lead_to_the_same(
    catalog: Catalog, collection_id: int, follower: Follower, bite: int
) -> None:
    put(catalog, collection_id, "a", 3, 0)
    kept, _ = put(catalog, collection_id, "b", 4, 1)
    again, sequence = put(catalog, collection_id, "a", 2, 2)
    steps = [follower.sequence]
    while follower.catch_up(bite):
        steps.append(follower.sequence)
        assert set(seen(follower, collection_id)) <= set(kept + again)  # never a deleted one
    assert follower.sequence == sequence
    assert steps == list(range(0, sequence + 1, bite))
    assert seen(follower, collection_id) == kept + again


def test_deleted_between_two_bites(
    catalog: Catalog, collection_id: int, follower: Follower
) -> None:
    first, _ = put(catalog, collection_id, "a", 4, 0)
    assert follower.catch_up(2)
    assert seen(follower, collection_id) == first[:2]
    second, sequence = put(catalog, collection_id, "a", 1, 1)
    while follower.catch_up(2):
        pass
    assert seen(follower, collection_id) == second
    assert follower.sequence == sequence


def test_idle_reads_nothing(
    catalog: Catalog, collection_id: int, follower: Follower, reader: CountingReader
) -> None:
    put(catalog, collection_id, "a", 1, 0)
    for _ in range(100):
        follower.catch_up(ALL)
    assert reader.reads == 1
    put(catalog, collection_id, "a", 0, 0)
    for _ in range(100):
        follower.catch_up(ALL)
    assert reader.reads == 2


def test_collections_are_apart(catalog: Catalog, follower: Follower) -> None:
    small = catalog.create_collection("small", FINGERPRINT).id
    large = catalog.create_collection("large", Fingerprint("large", 64, "cd" * 32, "c")).id
    of_small, _ = put(catalog, small, "a", 2, 0)
    of_large, _ = catalog.put_image(large, "a", None, regions(3), unit_rows(3, 0, 64), {})
    follower.catch_up(ALL)
    assert seen(follower, small) == of_small
    assert seen(follower, large, dim=64) == of_large
    assert seen(follower, large + 1) == []
    with pytest.raises(ValueError, match=r"expected \[n, 64\], got \[1, 8\]"):
        follower.search(large, unit_rows(1, 0), 1, -1.0)


def test_a_failed_read_is_made_good(
    catalog: Catalog, collection_id: int, follower: Follower, reader: CountingReader
) -> None:
    ids, sequence = put(catalog, collection_id, "a", 2, 0)
    reader.failures = 1
    with pytest.raises(OSError, match="away"):
        follower.catch_up(ALL)
    assert follower.sequence == 0
    follower.catch_up(ALL)
    assert (follower.sequence, seen(follower, collection_id)) == (sequence, ids)


@pytest.mark.parametrize("failures", [0, 2])
def test_follow(
    catalog: Catalog,
    collection_id: int,
    follower: Follower,
    reader: CountingReader,
    failures: int,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The thread reads what is written with no search asking, and outlives failures."""
    reader.failures = failures
    stop, idle = threading.Event(), threading.Event()
    thread = threading.Thread(target=follower.follow, args=(stop, 2, 0.001))
    thread.start()
    try:
        for seed in range(3):
            _, sequence = put(catalog, collection_id, "a", 5, seed)
            while follower.sequence < sequence:
                idle.wait(0.001)
    finally:
        stop.set()
        thread.join()
    assert len(seen(follower, collection_id)) == 5
    assert len(caplog.records) == failures


def test_one_adds_while_others_search(
    catalog: Catalog, collection_id: int, reader: CountingReader
) -> None:
    follower = Follower(reader, OneAtATime)
    stop, failures = threading.Event(), list[BaseException]()
    acknowledged = 0

    def search(number: int) -> None:
        try:
            while not stop.is_set():
                before = acknowledged
                follower.catch_up(ALL)
                assert follower.sequence >= before
                found = follower.search(collection_id, unit_rows(1 + number * 4, number), 50, -1)
                assert (found.item_ids > 0).all()
                assert (np.abs(found.similarities) < 1.001).all()
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=search, args=(number,)) for number in range(3)]
    threads.append(threading.Thread(target=follower.follow, args=(stop, 16, 0.001)))
    for thread in threads:
        thread.start()
    live: dict[str, list[int]] = {}
    for seed in range(300):
        source = f"s{seed % 50}"
        live[source], acknowledged = put(catalog, collection_id, source, 5, seed)
    stop.set()
    for thread in threads:
        thread.join()
    assert failures == []
    follower.catch_up(ALL)
    assert seen(follower, collection_id) == sorted(chain(*live.values()))


# Many queries at once


def neighbors(answer: Neighbors | CropseekError) -> Neighbors:
    assert isinstance(answer, Neighbors), answer
    return answer


def test_search_all_of_nothing(follower: Follower) -> None:
    assert follower.search_all([]) == []


def test_search_all_is_each_search(
    catalog: Catalog, collection_id: int, follower: Follower
) -> None:
    other = catalog.create_collection("other", FINGERPRINT).id
    put(catalog, collection_id, "a", 40, 0)
    put(catalog, other, "a", 3, 1)
    follower.catch_up(ALL)
    queries = [
        Query(where, unit_rows(rows, seed), k, limit)
        for seed, (where, rows, k, limit) in enumerate(
            [
                (collection_id, 1, 5, -1.0),
                (other, 2, 5, -1.0),
                (collection_id, 3, 5, -1.0),  # alike with the first
                (collection_id, 6, 2, -1.0),
                (collection_id, 2, 5, 0.3),
                (other + 1, 2, 5, -1.0),  # no such collection
                (collection_id, 2, 0, -1.0),
                (collection_id, 1, 5, -1.0),
            ]
        )
    ]
    for query, answer in zip(queries, follower.search_all(queries), strict=True):
        alone = follower.search(query.collection_id, query.vectors, query.k, query.min_similarity)
        np.testing.assert_array_equal(neighbors(answer).item_ids, alone.item_ids)
        np.testing.assert_allclose(neighbors(answer).similarities, alone.similarities, atol=1e-5)


@pytest.mark.parametrize(
    ("vectors", "k", "limit", "error", "told"),
    [
        (np.full((2, DIM), np.nan, np.float32), 3, -1.0, InvalidInput, "finite numbers"),
        (unit_rows(2, 0)[0], 3, -1.0, InvalidInput, "queries"),
        (unit_rows(2, 0, 16), 3, -1.0, EmbedderMismatch, r"expected \[n, 8\], got \[2, 16\]"),
        (unit_rows(2, 0), -1, -1.0, InvalidInput, "top_k: expected 0 to 1000, got -1"),
        (unit_rows(2, 0), 1001, -1.0, InvalidInput, "top_k: expected 0 to 1000, got 1001"),
        (
            unit_rows(2, 0),
            3,
            float("nan"),
            InvalidInput,
            "min_similarity: expected -1 to 1, got nan",
        ),
        (unit_rows(2, 0), 3, 1.5, InvalidInput, "min_similarity: expected -1 to 1, got 1.5"),
    ],
)
def test_a_wrong_query_hurts_no_other(
    catalog: Catalog,
    collection_id: int,
    follower: Follower,
    vectors: Float32Array,
    k: int,
    limit: float,
    error: type[CropseekError],
    told: str,
) -> None:
    ids, _ = put(catalog, collection_id, "a", 3, 0)
    follower.catch_up(ALL)
    good = Query(collection_id, unit_rows(3, 0), 3, -1.0)
    first, wrong, last = follower.search_all([good, Query(collection_id, vectors, k, limit), good])
    with pytest.raises(error, match=told):
        raise wrong if isinstance(wrong, CropseekError) else AssertionError(wrong)
    for answer in (first, last):
        assert neighbors(answer).item_ids[:, 0].tolist() == ids
