"""The truth on disk, in SQLite: collections, items with vectors, the log of every change."""

from cropseek.catalog.catalog import Catalog, NewItem
from cropseek.catalog.changes import Change, ChangeReader

__all__ = ["Catalog", "Change", "ChangeReader", "NewItem"]
