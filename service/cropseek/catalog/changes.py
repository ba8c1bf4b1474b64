"""The change log as another process reads it."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np

from cropseek.catalog.schema import (
    BUSY_TIMEOUT_S,
    DATABASE_NAME,
    MIGRATIONS,
    check_not_newer,
    head_of,
    schema_version,
)
from cropseek.types import Float32Array


class Change(NamedTuple):
    """One entry of the log.

    `vector` is float32 `[D]` for an added item; None for a deleted one, and for an added one that
    was deleted later.
    """

    seq: int
    op: Literal["add", "delete"]
    collection_id: int
    item_id: int
    vector: Float32Array | None


class ChangeReader:
    """Reads the change log of a data directory, and nothing of it before a catalog is there.

    Never writes and never makes the writer wait. One thread at a time.
    """

    def __init__(self, data_dir: Path) -> None:
        self._path = data_dir / DATABASE_NAME
        self._database: sqlite3.Connection | None = None

    def close(self) -> None:
        """Close the database; the last call."""
        if self._database is not None:
            self._database.close()
            self._database = None

    def data_version(self) -> int | None:
        """Return a number that differs after any commit, in microseconds; None: no catalog yet."""
        if (database := self._open()) is None:
            return None
        return int(database.execute("PRAGMA data_version").fetchone()[0])

    def head(self) -> int:
        """Return the sequence number of the last change, 0 if there is none."""
        database = self._open()
        return 0 if database is None else head_of(database)

    def changes(self, after: int, limit: int) -> list[Change]:
        """Return the first `limit` changes after sequence number `after`, in order.

        All are of one moment: an added item without a vector is gone at the moment of the call.
        """
        if (database := self._open()) is None:
            return []
        rows = database.execute(
            "SELECT seq, op, changes.collection_id, item_id, vector FROM changes"
            " LEFT JOIN items ON op = 'add' AND items.id = item_id"
            " WHERE seq > ? ORDER BY seq LIMIT ?",
            (after, limit),
        ).fetchall()
        return [
            Change(seq, op, collection_id, item_id, _as_vector(blob))
            for seq, op, collection_id, item_id, blob in rows
        ]

    def _open(self) -> sqlite3.Connection | None:
        """Return the database once a catalog of this version is in it."""
        if self._database is None and self._path.exists():
            database = sqlite3.connect(
                f"{self._path.resolve().as_uri()}?mode=ro",
                uri=True,
                timeout=BUSY_TIMEOUT_S,
                isolation_level=None,
                check_same_thread=False,
            )
            try:
                check_not_newer(database, self._path)
                if schema_version(database) == len(MIGRATIONS):
                    self._database = database
            finally:
                if self._database is None:
                    database.close()
        return self._database


def _as_vector(blob: bytes | None) -> Float32Array | None:
    return None if blob is None else np.frombuffer(blob, dtype="<f4")
