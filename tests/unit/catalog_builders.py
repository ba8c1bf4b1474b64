"""Small catalogs for tests."""

from __future__ import annotations

import numpy as np

from cropseek.catalog import Catalog, NewItem
from cropseek.types import Fingerprint, Float32Array

DIM = 8
FINGERPRINT = Fingerprint("tiny", DIM, "ab" * 32, "square-v1")


def unit_rows(count: int, seed: int, dim: int = DIM) -> Float32Array:
    """Return `[count, dim]` random vectors of length 1."""
    rows = np.random.default_rng(seed).standard_normal((count, dim))
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    return rows.astype(np.float32)


def regions(count: int) -> list[NewItem]:
    """Return `count` regions that differ."""
    return [NewItem((n, 1.5, n + 10, 20), 0.5, f"label {n}") for n in range(count)]


def put(
    catalog: Catalog, collection_id: int, source: str, count: int, seed: int
) -> tuple[list[int], int]:
    """Store a picture with `count` regions, `unit_rows(count, seed)` and the seed as metadata."""
    return catalog.put_image(
        collection_id, source, None, regions(count), unit_rows(count, seed), {"seed": str(seed)}
    )
