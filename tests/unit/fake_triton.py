"""What the engine needs in place of Triton: canned results, and a gate to hold pictures back."""

from __future__ import annotations

import asyncio
from pathlib import Path

import numpy as np

from cropseek.catalog import Catalog
from cropseek.engine import Engine
from cropseek.errors import InvalidImage, ModelFailed
from cropseek.settings import Settings
from cropseek.triton.client import TritonClient
from cropseek.triton.manifest import DetectorManifest, EmbedderManifest, Manifest
from cropseek.types import NO_ITEM, Detections, Neighbors, PictureOptions, PictureResult
from tests.unit.catalog_builders import FINGERPRINT, unit_rows

LABELS = ("person", "dog", "wine glass")
MANIFEST = Manifest(
    DetectorManifest("fake detector", 640, LABELS),
    EmbedderManifest(FINGERPRINT.name, 224, FINGERPRINT),
)


class FakeTriton(TritonClient):
    """A picture is its number of regions: `b"3"` has three. `b"bad"` and others fail.

    Region n is of class n (modulo 3) with box (n, 0, n + 10, 20). `item_ids` are every region's
    neighbours. While `gate` is not set nothing is answered. What came is in `calls`, how many were
    in work at once in `most_at_once`.
    """

    def __init__(self) -> None:
        self.gate = asyncio.Event()
        self.gate.set()
        self.item_ids: list[int] = []
        self.sequence = 0
        self.calls: list[tuple[bytes, PictureOptions, bool]] = []
        self.in_work = 0
        self.most_at_once = 0

    async def run(
        self, image: bytes, options: PictureOptions, *, embeddings: bool
    ) -> PictureResult:
        """Answer once the gate is open."""
        self.calls.append((image, options, embeddings))
        self.in_work += 1
        self.most_at_once = max(self.most_at_once, self.in_work)
        try:
            await self.gate.wait()
            await asyncio.sleep(0)
        finally:
            self.in_work -= 1
        if image == b"bad":
            raise InvalidImage("image: expected a picture")
        if image == b"model":
            raise ModelFailed("embedder: /secret/path is broken")
        if image == b"bug":
            raise ZeroDivisionError("a secret")
        return self._result(int(image), options, embeddings)

    def _result(self, n: int, options: PictureOptions, embeddings: bool) -> PictureResult:
        numbers = np.arange(n, dtype=np.float32)
        boxes = np.stack([numbers, numbers * 0, numbers + 10, numbers * 0 + 20], axis=1)
        neighbors = None
        if options.collection_id is not None and n:
            row = (self.item_ids + [NO_ITEM] * options.top_k)[: options.top_k]
            similarities = np.linspace(1, 0.5, len(row), dtype=np.float32)
            neighbors = Neighbors(np.array([row] * n), np.tile(similarities, (n, 1)))
        return PictureResult(
            size_wh=(640, 480),
            detections=Detections(
                boxes, 1 - numbers / 512, (np.arange(n) % len(LABELS)).astype(np.int32)
            ),
            embeddings=unit_rows(n, seed=n) if embeddings and n else None,
            neighbors=neighbors,
            index_sequence=self.sequence if neighbors else 0,
            truncated=n == 2,
            timings_ms={"detect": 1.5},
        )


class FakeEngine(Engine):
    """An engine on a real catalog and a fake Triton; a context manager that closes the catalog."""

    def __init__(self, data_dir: Path, max_in_flight: int = 64) -> None:
        self.catalog = Catalog(data_dir)
        self.triton = FakeTriton()
        settings = Settings(max_in_flight=max_in_flight)
        super().__init__(self.catalog, self.triton, MANIFEST, settings)

    def __enter__(self) -> FakeEngine:
        return self

    def __exit__(self, *_: object) -> None:
        self.catalog.close()
