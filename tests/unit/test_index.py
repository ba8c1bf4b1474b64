from __future__ import annotations

import random

import numpy as np
import pytest

from cropseek.index import ExactIndex, set_threads
from cropseek.types import NO_ITEM, Float32Array, Int64Array, Neighbors
from tests.unit.catalog_builders import DIM, unit_rows

TOLERANCE = 1e-5  # sums of products in another order


def ids_of(*numbers: int) -> Int64Array:
    return np.array(numbers, dtype=np.int64)


def filled(ids: Int64Array, vectors: Float32Array) -> ExactIndex:
    index = ExactIndex(vectors.shape[1])
    index.add(ids, vectors)
    return index


def check_nearest(
    found: Neighbors, queries: Float32Array, ids: Int64Array, vectors: Float32Array, k: int
) -> None:
    """Compare with NumPy; among equally similar items any is right."""
    similarities = queries @ vectors.T
    k = min(k, len(ids))
    assert found.item_ids.shape == found.similarities.shape == (len(queries), k)
    assert found.item_ids.dtype == np.int64
    assert found.similarities.dtype == np.float32
    best = -np.sort(-similarities, axis=1)[:, :k]
    np.testing.assert_allclose(found.similarities, best, atol=TOLERANCE)
    column = {int(item_id): number for number, item_id in enumerate(ids)}
    for row, (named, told) in enumerate(zip(found.item_ids, found.similarities, strict=True)):
        assert len(set(named.tolist())) == k
        own = similarities[row, [column[int(item_id)] for item_id in named]]
        np.testing.assert_allclose(told, own, atol=TOLERANCE)


@pytest.mark.parametrize("queries", [0, 1, 19, 20, 1000])
@pytest.mark.parametrize("k", [1, 10])
def test_empty_index_answers_with_nothing(queries: int, k: int) -> None:
    found = ExactIndex(DIM).search(unit_rows(queries, 0), k)
    assert found.item_ids.shape == found.similarities.shape == (queries, 0)


@pytest.mark.parametrize(
    ("count", "queries", "k"),
    [
        (0, 0, 0),
        (1, 1, 1),
        (5, 0, 3),
        (5, 1, 10),  # more asked for than there are
        (5, 20, 10),
        (5, 3, 0),
        (300, 1, 10),  # one query and several go different ways in faiss
        (300, 2, 10),
        (300, 20, 100),
        (300, 40, 1000),
    ],
)
@pytest.mark.parametrize("distinct", [1000, 7, 1])  # few distinct vectors: many ties
def test_search_is_what_numpy_finds(count: int, queries: int, k: int, distinct: int) -> None:
    vectors = unit_rows(distinct, 1)[np.arange(count) % distinct]
    ids = np.random.default_rng(2).permutation(10**6)[:count].astype(np.int64) * 10**9
    rows = unit_rows(queries, 3)
    check_nearest(filled(ids, vectors).search(rows, k), rows, ids, vectors, k)


@pytest.mark.parametrize("dim", [1, 7, 1280])
def test_dimensions(dim: int) -> None:
    vectors, ids, rows = unit_rows(50, 1, dim), np.arange(50), unit_rows(6, 2, dim)
    check_nearest(filled(ids, vectors).search(rows, 5), rows, ids, vectors, 5)


@pytest.mark.parametrize("threads", [1, 2])
def test_threads(threads: int) -> None:
    vectors, ids, rows = unit_rows(500, 1), np.arange(500), unit_rows(30, 2)
    set_threads(threads)
    check_nearest(filled(ids, vectors).search(rows, 5), rows, ids, vectors, 5)


@pytest.mark.parametrize(
    ("limit", "left"), [(-1.0, 4), (-0.5, 3), (0.0, 3), (0.5, 2), (0.9, 1), (1.0, 1)]
)
def test_min_similarity(limit: float, left: int) -> None:
    vectors = np.array([[1, 0], [0.8, 0.6], [0, 1], [-1, 0]], dtype=np.float32)
    found = filled(ids_of(10, 11, 12, 13), vectors).search(vectors[:1], 4, limit)
    assert found.item_ids.tolist() == [[10, 11, 12, 13][:left] + [NO_ITEM] * (4 - left)]
    assert np.isneginf(found.similarities[0, left:]).all()
    assert np.isfinite(found.similarities[0, :left]).all()


def test_without_a_limit_rounding_hides_nobody() -> None:
    vector = np.full((1, DIM), 1 / np.sqrt(DIM), dtype=np.float32) * np.float32(1.0001)
    found = filled(ids_of(1), -vector).search(vector, 1, -1.0)
    assert found.similarities[0, 0] < -1
    assert found.item_ids.tolist() == [[1]]


def test_add_under_an_id_again_replaces() -> None:
    index = filled(ids_of(1, 2), unit_rows(2, 0))
    index.add(ids_of(2, 3), unit_rows(2, 1))
    vectors = np.concatenate([unit_rows(2, 0)[:1], unit_rows(2, 1)])
    assert len(index) == 3
    check_nearest(index.search(vectors, 9), vectors, ids_of(1, 2, 3), vectors, 9)


@pytest.mark.parametrize(
    ("ids", "vectors", "told"),
    [
        (ids_of(3), unit_rows(1, 0, dim=16), r"vectors: expected \[n, 8\], got \[1, 16\]"),
        (ids_of(3), unit_rows(1, 0)[0], r"vectors: expected \[n, 8\], got \[8\]"),
        (ids_of(3), unit_rows(2, 0), r"ids: expected 2 different ones, got \[3\]"),
        (ids_of(3, 3), unit_rows(2, 0), r"ids: expected 2 different ones, got \[3, 3\]"),
        (ids_of(3), np.full((1, DIM), np.nan, np.float32), "vectors: expected finite numbers"),
        (ids_of(3), np.full((1, DIM), np.inf, np.float32), "vectors: expected finite numbers"),
    ],
)
def test_wrong_vectors_change_nothing(ids: Int64Array, vectors: Float32Array, told: str) -> None:
    kept = unit_rows(2, 9)
    index = filled(ids_of(3, 4), kept)
    with pytest.raises(ValueError, match=told):
        index.add(ids, vectors)
    check_nearest(index.search(kept, 9), kept, ids_of(3, 4), kept, 9)


@pytest.mark.parametrize("count", [0, 3])
@pytest.mark.parametrize(
    ("queries", "told"),
    [
        (unit_rows(1, 0, dim=16), r"queries: expected \[n, 8\], got \[1, 16\]"),
        (unit_rows(1, 0)[0], r"queries: expected \[n, 8\], got \[8\]"),
        (np.full((2, DIM), np.nan, np.float32), "queries: expected finite numbers"),
    ],
)
def test_wrong_queries(count: int, queries: Float32Array, told: str) -> None:
    with pytest.raises(ValueError, match=told):
        filled(np.arange(count), unit_rows(count, 0)).search(queries, 1)


@pytest.mark.parametrize(
    "gone", [[], [0], [4], [2, 2], [0, 1, 2, 3, 4], [4, 3, 2, 1, 0], [99], [3, 99, 4]]
)
def test_remove(gone: list[int]) -> None:
    vectors = unit_rows(5, 0)
    index = filled(np.arange(5), vectors)
    index.remove(np.array(gone, dtype=np.int64))
    left = np.array([number for number in range(5) if number not in gone], dtype=np.int64)
    check_nearest(index.search(vectors, 9), vectors, left, vectors[left], 9)


def test_any_order_of_adding_and_removing() -> None:
    chance = random.Random(0)
    index, truth = ExactIndex(DIM), dict[int, Float32Array]()
    for step in range(300):
        ids = np.array(chance.sample(range(60), chance.randint(0, 8)), dtype=np.int64)
        if chance.random() < 0.5:
            vectors = unit_rows(len(ids), step)
            index.add(ids, vectors)
            truth.update(zip(ids.tolist(), vectors, strict=True))
        else:
            index.remove(ids)
            truth = {item_id: row for item_id, row in truth.items() if item_id not in ids}
        assert len(index) == len(truth)
        rows, k = unit_rows(chance.randint(1, 3), step), chance.randint(1, 70)
        stored = np.array(list(truth.values()), dtype=np.float32).reshape(-1, DIM)
        check_nearest(index.search(rows, k), rows, np.array(list(truth), dtype=np.int64), stored, k)
