"""The catalog: the only truth, and its only writer.

Why two connections: an answer looks up the items it found while pictures are being indexed, and
must not wait for their commits to reach the disk. In WAL mode a reader never does.
"""

from __future__ import annotations

import json
import math
import re
import sqlite3
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import astuple, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from cropseek.catalog.lock import DataDirLock
from cropseek.catalog.schema import BUSY_TIMEOUT_S, DATABASE_NAME, head_of, migrate
from cropseek.errors import (
    CollectionNotFound,
    EmbedderMismatch,
    InvalidInput,
    ModelFailed,
    SetupError,
    StorageFailed,
)
from cropseek.types import Collection, Fingerprint, Float32Array, Item

_NAME = re.compile(r"[A-Za-z0-9_.-]{1,64}")
_NAMES_TOLD = 5
_IDS_A_QUERY = 500  # SQLite takes 999 parameters in its smallest builds
_LENGTH_TOLERANCE = 0.01
_COLLECTION_COLUMNS = "id, name, embedder, dim, source_sha256, crop_recipe"


@dataclass(frozen=True)
class NewItem:
    """A region to store; `box_xyxy` is in the picture's upright pixels."""

    box_xyxy: tuple[float, float, float, float]
    score: float
    label: str


class Catalog:
    """Collections, items and the change log of one data directory; any thread may call it.

    Made with a directory that it creates if need be, and owns until closed. Raises `DataDirInUse`
    if another process owns it, `SetupError` if it cannot be used.
    """

    def __init__(self, data_dir: Path) -> None:
        self._write_lock = threading.Lock()
        self._read_lock = threading.Lock()
        path = data_dir / DATABASE_NAME
        with ExitStack() as opened:
            try:
                data_dir.mkdir(parents=True, exist_ok=True)
                opened.enter_context(closing(DataDirLock(data_dir)))
                self._writer = opened.enter_context(closing(_connect(path)))
                migrate(self._writer, path)
                self._reader = opened.enter_context(closing(_connect(path)))
            except (OSError, sqlite3.Error) as error:
                raise SetupError(f"data directory {data_dir}: {error}") from error
            self._opened = opened.pop_all()

    def __enter__(self) -> Catalog:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Finish what is being written, then let go of the directory."""
        with self._write_lock, self._read_lock:
            self._opened.close()

    def create_collection(self, name: str, fingerprint: Fingerprint) -> Collection:
        """Return the collection of that name, made now unless it exists.

        Raises `InvalidInput` for a name that cannot be one, `EmbedderMismatch` if the collection
        has vectors of another embedder.
        """
        if not _NAME.fullmatch(name):
            raise InvalidInput(
                "collection: expected a name of 1 to 64 letters (a-z, A-Z), digits, '_', '.' "
                f"or '-', got {_shown(name)}"
            )
        if not self._named(name):  # asked for each picture, so the rule is that it exists
            with self._transaction() as database:
                database.execute(
                    "INSERT INTO collections (name, embedder, dim, source_sha256, crop_recipe)"
                    " VALUES (?, ?, ?, ?, ?) ON CONFLICT (name) DO NOTHING",
                    (name, *astuple(fingerprint)),
                )
        (collection,) = self._named(name)
        if collection.fingerprint != fingerprint:
            raise EmbedderMismatch(
                f"collection {name!r} holds vectors of {_told(collection.fingerprint)}; "
                f"this server embeds with {_told(fingerprint)}: use another collection"
            )
        return collection

    def collection(self, name: str) -> Collection:
        """Return the collection of that name; raises `CollectionNotFound`."""
        for collection in self._named(name):
            return collection
        raise CollectionNotFound(
            f"collection: there is none named {_shown(name)}; {self._names_told()}"
        )

    def collections(self) -> list[tuple[Collection, int]]:
        """Return every collection with the number of its items, by name."""
        rows = self._read(
            f"SELECT {_COLLECTION_COLUMNS},"
            " (SELECT count(*) FROM items WHERE collection_id = collections.id)"
            " FROM collections ORDER BY name"
        )
        return [(_as_collection(row[:-1]), row[-1]) for row in rows]

    def put_image(
        self,
        collection_id: int,
        source: str,
        time_s: float | None,
        regions: Sequence[NewItem],
        vectors: Float32Array,
        metadata: Mapping[str, str],
    ) -> tuple[list[int], int]:
        """Store the regions of one picture; return their ids and the sequence number of the last.

        Once it returns, the items survive a loss of power. They replace all that the collection
        holds of this `source` at this `time_s`; with an empty `source` the picture is always new.
        `vectors` is L2-normalised float32 `[n, D]`, one a region. Without regions nothing is
        stored, what there was is still replaced, and the number is the log's last.

        Raises `CollectionNotFound`, `EmbedderMismatch` for another D than the collection's,
        `ModelFailed` for a vector that is not normalised, `InvalidInput` for an infinite `time_s`.
        """
        if time_s is not None and not math.isfinite(time_s):
            raise InvalidInput(f"time_s: expected a finite number of seconds, got {time_s}")
        if len(regions) != len(vectors):
            raise ValueError(f"vectors: expected {len(regions)}, got {len(vectors)}")
        shared = (source, time_s, json.dumps(dict(metadata)))
        with self._transaction() as database:
            _check_vectors(vectors, _dim_of(database, collection_id))
            if source:
                _delete_picture(database, collection_id, source, time_s)
            ids = [
                _insert(database, collection_id, region, vector, *shared)
                for region, vector in zip(regions, vectors, strict=True)
            ]
            sequence = head_of(database)
        return ids, sequence

    def items(self, ids: Iterable[int]) -> dict[int, Item]:
        """Return the items with these ids, without those that are gone."""
        wanted = list({int(item_id) for item_id in ids})
        found: dict[int, Item] = {}
        for start in range(0, len(wanted), _IDS_A_QUERY):
            chunk = wanted[start : start + _IDS_A_QUERY]
            rows = self._read(
                "SELECT id, source, time_s, x1, y1, x2, y2, score, label, metadata FROM items"
                f" WHERE id IN ({', '.join('?' * len(chunk))})",
                chunk,
            )
            found.update((row[0], _as_item(row)) for row in rows)
        return found

    def head(self) -> int:
        """Return the sequence number of the last change, 0 if there is none."""
        with self._read_lock:
            return head_of(self._reader)

    def _named(self, name: str) -> list[Collection]:
        """Return the collection of that name, or nothing."""
        rows = self._read(f"SELECT {_COLLECTION_COLUMNS} FROM collections WHERE name = ?", (name,))
        return [_as_collection(row) for row in rows]

    def _read(self, sql: str, parameters: Sequence[object] = ()) -> list[tuple[Any, ...]]:
        with self._read_lock:
            return self._reader.execute(sql, parameters).fetchall()

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        """Commit what happens inside, or nothing of it; raises `StorageFailed`."""
        try:
            with self._write_lock, self._writer:
                self._writer.execute("BEGIN IMMEDIATE")
                yield self._writer
        except sqlite3.OperationalError as error:  # the disk is full, or gone
            raise StorageFailed(f"the catalog could not write: {error}") from error

    def _names_told(self) -> str:
        names = [name for (name,) in self._read("SELECT name FROM collections ORDER BY name")]
        if not names:
            return "none has been created yet: index something first"
        more = len(names) - _NAMES_TOLD
        return f"there are: {', '.join(names[:_NAMES_TOLD])}" + (f" and {more} more" * (more > 0))


def _connect(path: Path) -> sqlite3.Connection:
    # Autocommit, so that only `_transaction` begins one.
    database = sqlite3.connect(
        path, timeout=BUSY_TIMEOUT_S, isolation_level=None, check_same_thread=False
    )
    try:
        database.execute("PRAGMA journal_mode = WAL")
        database.execute("PRAGMA synchronous = FULL")
        database.execute("PRAGMA foreign_keys = ON")
    except sqlite3.Error:
        database.close()
        raise
    return database


def _dim_of(database: sqlite3.Connection, collection_id: int) -> int:
    row = database.execute("SELECT dim FROM collections WHERE id = ?", (collection_id,)).fetchone()
    if row is None:
        raise CollectionNotFound(f"collection: there is none with id {collection_id}")
    return int(row[0])


def _check_vectors(vectors: Float32Array, dim: int) -> None:
    if not len(vectors):
        return
    if vectors.ndim != 2 or vectors.shape[1] != dim:
        raise EmbedderMismatch(
            f"vectors: expected [n, {dim}] as the collection's, got {list(vectors.shape)}"
        )
    lengths = np.linalg.norm(vectors, axis=1)
    normalised = np.abs(lengths - 1) < _LENGTH_TOLERANCE  # false for NaN as well
    if not normalised.all():
        raise ModelFailed(
            f"the embedder made a vector of length {lengths[~normalised][0]:g}, not 1"
        )


def _delete_picture(
    database: sqlite3.Connection, collection_id: int, source: str, time_s: float | None
) -> None:
    picture = (collection_id, source, time_s)
    where = "WHERE collection_id = ? AND source = ? AND time_s IS ?"
    database.execute(
        "INSERT INTO changes (op, collection_id, item_id)"
        f" SELECT 'delete', collection_id, id FROM items {where} ORDER BY id",
        picture,
    )
    database.execute(f"DELETE FROM items {where}", picture)


def _insert(
    database: sqlite3.Connection,
    collection_id: int,
    region: NewItem,
    vector: Float32Array,
    source: str,
    time_s: float | None,
    metadata: str,
) -> int:
    item_id = database.execute(
        "INSERT INTO items (collection_id, source, time_s, x1, y1, x2, y2, score, label, metadata,"
        " vector) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (
            collection_id,
            source,
            time_s,
            *map(float, region.box_xyxy),
            float(region.score),
            region.label,
            metadata,
            vector.astype("<f4").tobytes(),
        ),
    ).lastrowid
    database.execute(
        "INSERT INTO changes (op, collection_id, item_id) VALUES ('add', ?, ?)",
        (collection_id, item_id),
    )
    assert item_id is not None  # an INSERT that did not raise has one
    return item_id


def _as_collection(row: tuple[Any, ...]) -> Collection:
    number, name, *fingerprint = row
    return Collection(number, name, Fingerprint(*fingerprint))


def _as_item(row: tuple[Any, ...]) -> Item:
    number, source, time_s, x1, y1, x2, y2, score, label, metadata = row
    return Item(number, source, time_s, (x1, y1, x2, y2), score, label, json.loads(metadata))


def _shown(name: str) -> str:
    return repr(name if len(name) <= 80 else name[:80] + "…")


def _told(fingerprint: Fingerprint) -> str:
    return (
        f"{fingerprint.name} (dim {fingerprint.dim}, source {fingerprint.source_sha256[:12]}, "
        f"crops {fingerprint.crop_recipe})"
    )
