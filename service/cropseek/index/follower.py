"""The view: one index a collection, kept up with the catalog's change log.

Why the log and no call from the writer: the log is on disk before a write is acknowledged, so a
view that reads it after a request has come in has read every write acknowledged before; and
whatever is killed, reading on from the last sequence number makes the view right again.
"""

from __future__ import annotations

import logging
import threading
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from cropseek.catalog import Change, ChangeReader
from cropseek.errors import CropseekError, EmbedderMismatch, InvalidInput
from cropseek.index.exact import ExactIndex, no_neighbors
from cropseek.types import MAX_TOP_K, Float32Array, Neighbors

_YIELD_S = 0.001  # between two bites, so that a waiting search gets the lock
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Query:
    """What one request wants: the `k` nearest of each of `vectors` float32 `[n, D]`."""

    collection_id: int
    vectors: Float32Array
    k: int
    min_similarity: float


class Follower:
    """Searches what the catalog holds, up to `sequence` of its log; any thread may call it."""

    def __init__(self, reader: ChangeReader, new_index: Callable[[int], ExactIndex]) -> None:
        self._reader = reader
        self._new_index = new_index
        self._indexes: dict[int, ExactIndex] = {}
        self._sequence = 0
        self._version: int | None = None  # the catalog's when its log had been read to the end
        self._lock = threading.Lock()

    @property
    def sequence(self) -> int:
        """The sequence number of the last change that searches see."""
        return self._sequence

    def catch_up(self, limit: int) -> bool:
        """Read the next `limit` changes of the log; return whether there may be more.

        Costs microseconds when nothing was written.
        """
        with self._lock:
            version = self._reader.data_version()
            if version is None or version == self._version:
                return False
            changes = self._reader.changes(self._sequence, limit)
            self._apply(changes)
            if len(changes) == limit:
                return True
            self._version = version  # asked for before reading, so a later commit differs from it
            return False

    def follow(self, stop: threading.Event, bite: int, poll_s: float) -> None:
        """Catch up, `bite` changes at a time, until `stop` is set: the body of a thread.

        So a search after a quiet time finds little left to read. A failure is logged and tried
        again; searches meet it in their own `catch_up`.
        """
        wait_s = 0.0
        while not stop.wait(wait_s):
            try:
                wait_s = _YIELD_S if self.catch_up(bite) else poll_s
            except Exception:  # a thread must outlive a bad moment of the disk
                _log.exception("could not read the catalog's change log")
                wait_s = 10 * poll_s

    def search(
        self, collection_id: int, queries: Float32Array, k: int, min_similarity: float
    ) -> Neighbors:
        """Return the nearest items of each of `queries` float32 `[n, D]`, as the index does.

        A collection with no item yet answers with no neighbours. Raises `ValueError` for queries
        of another dimension.
        """
        with self._lock:
            index = self._indexes.get(collection_id)
            if index is None:
                return no_neighbors(len(queries))
            return index.search(queries, k, min_similarity)

    def search_all(self, queries: Sequence[Query]) -> list[Neighbors | CropseekError]:
        """Answer each query; a wrong one gets its error and hurts no other.

        Those alike share one pass over the vectors: it costs little more for ten rows than for
        one, since memory is what it waits for.
        """
        answers: list[Neighbors | CropseekError] = [no_neighbors(0)] * len(queries)
        alike: dict[tuple[int, int, int, float], list[int]] = defaultdict(list)
        for position, query in enumerate(queries):
            try:
                _check(query)
            except InvalidInput as error:
                answers[position] = error
            else:
                key = (query.collection_id, query.vectors.shape[1], query.k, query.min_similarity)
                alike[key].append(position)
        for positions in alike.values():
            found = self._search_alike([queries[position] for position in positions])
            for position, answer in zip(positions, found, strict=True):
                answers[position] = answer
        return answers

    def _search_alike(self, queries: Sequence[Query]) -> Sequence[Neighbors | CropseekError]:
        first = queries[0]
        rows = np.concatenate([query.vectors for query in queries])
        try:
            found = self.search(first.collection_id, rows, first.k, first.min_similarity)
        except ValueError as error:  # the dimension, which is that of each
            return [EmbedderMismatch(str(error))] * len(queries)
        ends = np.cumsum([len(query.vectors) for query in queries])[:-1]
        parts = zip(np.split(found.item_ids, ends), np.split(found.similarities, ends), strict=True)
        return [Neighbors(ids, similarities) for ids, similarities in parts]

    def _apply(self, changes: Sequence[Change]) -> None:
        """Bring the indexes to the end of `changes`; doing it twice is doing it once.

        The order within does not matter: an item that is both added and deleted has no vector.
        """
        added: dict[int, dict[int, Float32Array]] = defaultdict(dict)
        deleted: dict[int, list[int]] = defaultdict(list)
        for change in changes:
            if change.op == "delete":
                deleted[change.collection_id].append(change.item_id)
            elif change.vector is not None:
                added[change.collection_id][change.item_id] = change.vector
        for collection_id, vectors in added.items():
            if collection_id not in self._indexes:
                dim = len(next(iter(vectors.values())))
                self._indexes[collection_id] = self._new_index(dim)
            ids = np.fromiter(vectors, dtype=np.int64)
            self._indexes[collection_id].add(ids, np.stack(list(vectors.values())))
        for collection_id, gone in deleted.items():
            if collection_id in self._indexes:
                self._indexes[collection_id].remove(np.array(gone, dtype=np.int64))
        if changes:
            self._sequence = changes[-1].seq


def _check(query: Query) -> None:
    if query.vectors.ndim != 2 or not np.isfinite(query.vectors).all():
        raise InvalidInput("queries: expected finite numbers [n, D], got NaN or infinity")
    if not 0 <= query.k <= MAX_TOP_K:
        raise InvalidInput(f"top_k: expected 0 to {MAX_TOP_K}, got {query.k}")
    if not -1 <= query.min_similarity <= 1:  # false for NaN as well
        raise InvalidInput(f"min_similarity: expected -1 to 1, got {query.min_similarity:g}")
