"""The tables, and how a catalog of an older cropseek becomes one of this.

Why ids are AUTOINCREMENT: an id or a sequence number that once was acknowledged is never given
again, so whoever remembers one (a follower, a client) cannot mistake a later row for it. A sequence
number is given inside the transaction of its change and there is one writer, so readers see the
log grow without gaps and in order.

Why vectors lie in the item's row: the log only names items, so an added item that is deleted again
costs a follower nothing, and a vector is on disk once.
"""

from __future__ import annotations

import sqlite3
from pathlib import Path

from cropseek.errors import SetupError

DATABASE_NAME = "catalog.sqlite3"
BUSY_TIMEOUT_S = 30.0

# Each script leads from the version before it to its position, counted from 1. Only ever append.
MIGRATIONS: tuple[str, ...] = (
    """
    CREATE TABLE collections (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        name TEXT NOT NULL UNIQUE,
        embedder TEXT NOT NULL,
        dim INTEGER NOT NULL CHECK (dim > 0),
        source_sha256 TEXT NOT NULL,
        crop_recipe TEXT NOT NULL
    ) STRICT;

    CREATE TABLE items (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        collection_id INTEGER NOT NULL REFERENCES collections (id),
        source TEXT NOT NULL,
        time_s REAL,
        x1 REAL NOT NULL, y1 REAL NOT NULL, x2 REAL NOT NULL, y2 REAL NOT NULL,
        score REAL NOT NULL,
        label TEXT NOT NULL,
        metadata TEXT NOT NULL,  -- a JSON object of strings
        vector BLOB NOT NULL     -- float32, little-endian
    ) STRICT;
    CREATE INDEX items_by_picture ON items (collection_id, source, time_s);

    CREATE TABLE changes (
        seq INTEGER PRIMARY KEY AUTOINCREMENT,
        op TEXT NOT NULL CHECK (op IN ('add', 'delete')),
        collection_id INTEGER NOT NULL REFERENCES collections (id),
        item_id INTEGER NOT NULL
    ) STRICT;
    """,
)


def schema_version(database: sqlite3.Connection) -> int:
    """Return how many of the migrations a database has seen; 0 for an empty file."""
    return int(database.execute("PRAGMA user_version").fetchone()[0])


def check_not_newer(database: sqlite3.Connection, path: Path) -> None:
    """Raise `SetupError` for a database that a newer cropseek has migrated."""
    if (version := schema_version(database)) > len(MIGRATIONS):
        raise SetupError(
            f"{path}: made by a newer cropseek (schema {version}, this one knows "
            f"{len(MIGRATIONS)}): install that version, or use another data directory"
        )


def migrate(database: sqlite3.Connection, path: Path) -> None:
    """Bring a database to this version, each step in a transaction of its own."""
    check_not_newer(database, path)
    for version in range(schema_version(database), len(MIGRATIONS)):
        database.executescript(
            f"BEGIN IMMEDIATE; {MIGRATIONS[version]} PRAGMA user_version = {version + 1}; COMMIT;"
        )


def head_of(database: sqlite3.Connection) -> int:
    """Return the sequence number of the last change, 0 if there is none."""
    return int(database.execute("SELECT ifnull(max(seq), 0) FROM changes").fetchone()[0])
