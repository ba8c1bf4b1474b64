"""What the service does with a picture: Triton finds, the catalog names and keeps.

Plain types in and out, no gRPC: `rpc/` translates. Admission is decided here, before Triton: a
picture that would have to wait behind too many others is refused at once, since Triton's own
refusal would arrive as an internal error through BLS. Streams wait instead; their senders are
slowed down by flow control.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from time import perf_counter

import numpy as np

from cropseek.catalog import Catalog, NewItem
from cropseek.errors import DeadlineExceeded, InvalidInput, Overloaded
from cropseek.settings import Settings
from cropseek.triton.client import TritonClient
from cropseek.triton.manifest import Manifest
from cropseek.types import NO_ITEM, Collection, Item, PictureOptions, PictureResult

DEFAULT_COLLECTION = "default"
MAX_SOURCE_LENGTH = 4096  # characters, as of a path
MAX_METADATA_LENGTH = 16_384  # characters, names and values together
_FEW_ITEMS = 200  # a millisecond's lookup: cheaper on the event loop than in a thread


@dataclass(frozen=True)
class Found:
    """A search's answer: what is in the picture, and per region its items with similarity."""

    result: PictureResult
    neighbors: list[list[tuple[Item, float]]]


@dataclass(frozen=True)
class Kept:
    """What indexing a picture did: its regions, their item ids, the catalog's sequence."""

    result: PictureResult
    item_ids: list[int]
    sequence: int


class Engine:
    """Detects, embeds, searches and indexes pictures, each call one picture."""

    def __init__(
        self, catalog: Catalog, triton: TritonClient, manifest: Manifest, settings: Settings
    ) -> None:
        self._catalog = catalog
        self._triton = triton
        self._labels = manifest.detector.labels
        self._class_ids = {label: number for number, label in enumerate(self._labels)}
        self.fingerprint = manifest.embedder.fingerprint
        self._slots = asyncio.Semaphore(settings.max_in_flight)
        # Streams together leave room for the others.
        self._stream_slots = asyncio.Semaphore(max(1, settings.max_in_flight // 2))
        self._most = settings.max_in_flight
        self._in_work = 0

    def label(self, class_id: int) -> str:
        """Return a class's name; empty for a region that no detector named."""
        return self._labels[class_id] if class_id >= 0 else ""

    def class_ids(self, labels: Sequence[str]) -> tuple[int, ...]:
        """Return the ids of class names; raises `InvalidInput` for one the detector lacks."""
        for label in labels:
            if label not in self._class_ids:
                raise InvalidInput(
                    f"classes: expected labels of the detector ({', '.join(self._labels[:4])}, "
                    f"... {len(self._labels)} in all), got {label!r}"
                )
        return tuple(self._class_ids[label] for label in labels)

    async def picture(
        self,
        image: bytes,
        options: PictureOptions,
        *,
        embeddings: bool,
        timeout_s: float | None,
        wait: bool = False,
    ) -> PictureResult:
        """Return what Triton makes of a picture; `wait` queues where others are refused."""
        start = admitted = perf_counter()
        begun = False

        async def run() -> PictureResult:
            nonlocal admitted, begun
            async with self._admitted(wait):
                admitted, begun = perf_counter(), True
                alone = replace(options, alone=self._in_work == 1)
                return await self._triton.run(image, alone, embeddings=embeddings)

        # A caller that gives up does not stop Triton: the picture keeps its place until it is done.
        # (Nor may it: requests that are cancelled at its port were seen to kill Triton 2.51.)
        task = asyncio.ensure_future(run())
        task.add_done_callback(_forget)
        try:
            result = await asyncio.wait_for(asyncio.shield(task), timeout_s)
        except asyncio.TimeoutError:
            raise DeadlineExceeded("the time given was over before the answer was there") from None
        finally:
            if not begun:
                task.cancel()
        done = perf_counter()
        timings_ms = result.timings_ms | {
            "wait": (admitted - start) * 1e3,
            "triton": (done - admitted) * 1e3,
        }
        return replace(result, timings_ms=timings_ms)

    async def search(
        self,
        image: bytes,
        collection: str,
        options: PictureOptions,
        *,
        embeddings: bool,
        timeout_s: float | None,
        wait: bool = False,
    ) -> Found:
        """Return the regions of a picture and their nearest items; raises `CollectionNotFound`."""
        start = perf_counter()
        searched = self.collection(collection)
        options = replace(options, collection_id=searched.id)
        result = await self.picture(
            image, options, embeddings=embeddings, timeout_s=timeout_s, wait=wait
        )
        if not len(result.detections):  # nothing was searched: right up to the last change
            result = replace(result, index_sequence=self._catalog.head())
        named = perf_counter()
        neighbors = await self._named(result)
        done = perf_counter()
        timings_ms = result.timings_ms | {
            "catalog": (done - named) * 1e3,
            "total": (done - start) * 1e3,
        }
        return Found(replace(result, timings_ms=timings_ms), neighbors)

    async def keep(
        self,
        result: PictureResult,
        collection: str,
        source: str,
        time_s: float | None,
        metadata: Mapping[str, str],
    ) -> Kept:
        """Store the regions of a picture that was run with embeddings; durable on return.

        Raises `InvalidInput` for a source or metadata too long to be told back with every hit.
        """
        _check_length("source", len(source), MAX_SOURCE_LENGTH)
        _check_length(
            "metadata", sum(len(k) + len(v) for k, v in metadata.items()), MAX_METADATA_LENGTH
        )
        return await asyncio.to_thread(self._keep, result, collection, source, time_s, metadata)

    def collection(self, name: str) -> Collection:
        """Return a collection that holds this embedder's vectors, by name: a quick look."""
        found = self._catalog.collection(name)
        if found.fingerprint != self.fingerprint:
            self._catalog.create_collection(name, self.fingerprint)  # raises, naming both
        return found

    async def create_collection(self, name: str) -> Collection:
        """Return the collection of that name, made if there is none; durable on return."""
        return await asyncio.to_thread(self._catalog.create_collection, name, self.fingerprint)

    async def collections(self) -> list[tuple[Collection, int]]:
        """Return every collection with the number of its items."""
        return await asyncio.to_thread(self._catalog.collections)

    def _keep(
        self,
        result: PictureResult,
        collection: str,
        source: str,
        time_s: float | None,
        metadata: Mapping[str, str],
    ) -> Kept:
        kept_in = self._catalog.create_collection(collection, self.fingerprint)
        found = result.detections
        items = [
            NewItem((x1, y1, x2, y2), score, self.label(class_id))
            for (x1, y1, x2, y2), score, class_id in zip(
                found.boxes_xyxy.tolist(),
                found.scores.tolist(),
                found.class_ids.tolist(),
                strict=True,
            )
        ]
        vectors = result.embeddings
        if vectors is None or not items:
            vectors = np.zeros((0, self.fingerprint.dim), np.float32)
        ids, sequence = self._catalog.put_image(
            kept_in.id, source, time_s, items, vectors, metadata
        )
        return Kept(result, ids, sequence)

    async def _named(self, result: PictureResult) -> list[list[tuple[Item, float]]]:
        """Look up the items of each region's neighbours; those deleted meanwhile are left out."""
        if result.neighbors is None:
            return [[] for _ in range(len(result.detections))]
        rows = result.neighbors.item_ids.tolist()
        ids = {item_id for row in rows for item_id in row} - {NO_ITEM}
        if len(ids) <= _FEW_ITEMS:
            items = self._catalog.items(ids)
        else:
            items = await asyncio.to_thread(self._catalog.items, ids)
        return [
            [
                (items[item_id], similarity)
                for item_id, similarity in zip(row, similarities, strict=True)
                if item_id in items
            ]
            for row, similarities in zip(rows, result.neighbors.similarities.tolist(), strict=True)
        ]

    @asynccontextmanager
    async def _admitted(self, wait: bool) -> AsyncIterator[None]:
        async with AsyncExitStack() as held:
            if wait:
                await held.enter_async_context(self._stream_slots)
            elif self._slots.locked():
                raise Overloaded(
                    f"the server holds {self._most} pictures, the most it admits; try again later"
                )
            await held.enter_async_context(self._slots)
            self._in_work += 1
            try:
                yield
            finally:
                self._in_work -= 1


def _forget(task: asyncio.Future[PictureResult]) -> None:
    """Take note of how a picture ended that nobody may be waiting for any more."""
    if not task.cancelled():
        task.exception()


def _check_length(name: str, length: int, most: int) -> None:
    if length > most:
        raise InvalidInput(f"{name}: expected at most {most} characters, got {length}")
