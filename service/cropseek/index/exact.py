"""Exact search: every vector is compared.

Why the vectors lie in an array of our own and not in a faiss index: `IndexFlat.remove_ids` moves
every vector behind the removed one, for each picture that is indexed again; here the last one
fills the gap. The array grows by `realloc`, which on Linux moves pages and copies nothing: for
100,000 vectors of dim 1280 a bite of 2,048 takes 6 ms at most, and at no time is there a second
copy; a vector that doubles stops for 0.6 s and needs twice the memory meanwhile.

Why the threshold is set: from 1.15 on faiss compares query by query unless there are 128,000
numbers in the queries, with no regard to threads. On one thread and those 100,000 vectors, 6
queries take 100 ms so and 54 ms as a matrix product, 48 take 800 and 130; a single one 22 and 43.
"""

from __future__ import annotations

import faiss
import numpy as np

from cropseek.types import NO_ITEM, Float32Array, Int64Array, Neighbors

_NEVER, _ALWAYS = 2**31 - 1, 1  # what distance_compute_blas_threshold makes of matrix products


def set_threads(count: int) -> None:
    """Set how many threads a search of this process uses."""
    faiss.omp_set_num_threads(count)


class ExactIndex:
    """L2-normalised float32 vectors of one dimension by int64 id. One thread at a time."""

    def __init__(self, dim: int) -> None:
        self._dim = dim
        self._vectors: Float32Array = np.empty((0, dim), dtype=np.float32)
        self._ids: Int64Array = np.empty(0, dtype=np.int64)
        self._row_of: dict[int, int] = {}

    def __len__(self) -> int:
        return len(self._row_of)

    def add(self, ids: Int64Array, vectors: Float32Array) -> None:
        """Store `vectors` `[n, D]` under `ids` `[n]`, in place of what was stored under them.

        Raises `ValueError` for another shape, an id given twice, NaN or infinity; then nothing
        has changed.
        """
        self._check("vectors", vectors)
        if len(ids) != len(vectors) or len(np.unique(ids)) != len(ids):
            raise ValueError(f"ids: expected {len(vectors)} different ones, got {ids.tolist()}")
        self.remove(ids)
        start = len(self)
        self._resize(start + len(ids))
        self._vectors[start:] = vectors
        self._ids[start:] = ids
        self._row_of.update(zip(ids.tolist(), range(start, len(self._ids)), strict=True))

    def remove(self, ids: Int64Array) -> None:
        """Forget the vectors under `ids`; one that is not there is no error."""
        for item_id in ids.tolist():
            row = self._row_of.pop(item_id, None)
            last = len(self)
            if row is None or row == last:
                continue
            moved = int(self._ids[last])
            self._vectors[row] = self._vectors[last]
            self._ids[row] = moved
            self._row_of[moved] = row
        self._resize(len(self))

    def search(self, queries: Float32Array, k: int, min_similarity: float = -1.0) -> Neighbors:
        """Return the nearest `min(k, len(self))` of each of `queries` `[n, D]`, nearest first.

        Those less similar than `min_similarity` are `NO_ITEM` and -inf instead; -1 means no limit.
        Raises `ValueError` for another shape, NaN or infinity.
        """
        self._check("queries", queries)
        k = min(k, len(self))
        if k == 0 or len(queries) == 0:
            return no_neighbors(len(queries), k)
        faiss.cvar.distance_compute_blas_threshold = _NEVER if len(queries) == 1 else _ALWAYS
        similarities, rows = faiss.knn(queries, self._vectors, k, metric=faiss.METRIC_INNER_PRODUCT)
        ids = self._ids[rows]
        if min_similarity > -1.0:  # rounding may put opposite vectors below -1
            cut = similarities < min_similarity
            ids[cut], similarities[cut] = NO_ITEM, -np.inf
        return Neighbors(ids, similarities)

    def _check(self, name: str, vectors: Float32Array) -> None:
        if vectors.ndim != 2 or vectors.shape[1] != self._dim:
            raise ValueError(f"{name}: expected [n, {self._dim}], got {list(vectors.shape)}")
        if not np.isfinite(vectors).all():
            raise ValueError(f"{name}: expected finite numbers, got NaN or infinity")

    def _resize(self, count: int) -> None:
        # Nobody else has a view of these arrays; numpy's own check is fooled by a debugger.
        self._vectors.resize((count, self._dim), refcheck=False)
        self._ids.resize(count, refcheck=False)


def no_neighbors(rows: int, k: int = 0) -> Neighbors:
    """Return the answer that names nobody: `[rows, k]`, where one of the two is 0."""
    return Neighbors(np.empty((rows, k), dtype=np.int64), np.empty((rows, k), dtype=np.float32))
