"""The methods of cropseek.v1, each a few lines: message to plain types, engine, and back."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import aclosing
from dataclasses import replace
from typing import Any, TypeVar

import grpc.aio

from cropseek.engine import DEFAULT_COLLECTION, Engine, Found
from cropseek.errors import InvalidInput, NotReady
from cropseek.pb import cropseek_pb2 as pb
from cropseek.pb.cropseek_pb2_grpc import CropseekServiceServicer
from cropseek.rpc import convert
from cropseek.rpc.interceptors import public_error
from cropseek.types import PictureResult

Context = grpc.aio.ServicerContext[Any, Any]
Request = TypeVar("Request")
Result = TypeVar("Result")


class Servicer(CropseekServiceServicer):
    """Serves pictures with an engine.

    `window` is how many of one stream are in flight, `max_message_bytes` what an answer may take.
    """

    def __init__(self, engine: Engine, window: int, max_message_bytes: int) -> None:
        self._engine = engine
        self._window = window
        self._max_message_bytes = max_message_bytes
        self._stopping = asyncio.Event()

    def stop(self) -> None:
        """Take no more requests of open streams; what is in work is answered."""
        self._stopping.set()

    async def Search(self, request: pb.SearchRequest, context: Context) -> pb.SearchResponse:
        """Answer with a picture's objects and their neighbours."""
        found = await self._search(request, context, wait=False)
        return self._search_response(request, found)

    async def SearchStream(
        self, requests: AsyncIterator[pb.SearchRequest], context: Context
    ) -> AsyncIterator[pb.SearchStreamResponse]:
        """Answer one request after another, in order, several in flight."""

        async def search(request: pb.SearchRequest) -> Found:
            return await self._search(request, context, wait=True)

        position = 0
        async with aclosing(in_order(requests, search, self._window, self._stopping)) as outcomes:
            async for request, outcome in outcomes:
                answer = pb.SearchStreamResponse(position=position)
                if isinstance(outcome, Exception):
                    answer.error.CopyFrom(convert.error(public_error(outcome)))
                else:
                    answer.result.CopyFrom(self._search_response(request, outcome))
                    if answer.ByteSize() > self._max_message_bytes:
                        answer.error.CopyFrom(convert.error(self._too_large(answer)))
                yield answer
                position += 1

    async def Detect(self, request: pb.DetectRequest, context: Context) -> pb.DetectResponse:
        """Answer with a picture's objects."""
        options = convert.region_options(convert.detect_regions(request), self._engine.class_ids)
        result = await self._engine.picture(
            request.image,
            replace(options, embed=False),
            embeddings=False,
            timeout_s=context.time_remaining(),
        )
        return pb.DetectResponse(
            size=convert.size(result),
            detections=convert.detections(result, self._engine.label),
            timings_ms=result.timings_ms,
            truncated=result.truncated,
        )

    async def Embed(self, request: pb.EmbedRequest, context: Context) -> pb.EmbedResponse:
        """Answer with the vectors of a picture's regions."""
        options = convert.region_options(request.options, self._engine.class_ids)
        result = await self._engine.picture(
            request.image, options, embeddings=True, timeout_s=context.time_remaining()
        )
        return pb.EmbedResponse(
            size=convert.size(result),
            detections=convert.detections(result, self._engine.label, embeddings=True),
            timings_ms=result.timings_ms,
            truncated=result.truncated,
            embedder=self._engine.fingerprint.name,
        )

    async def IndexImages(
        self, requests: AsyncIterator[pb.IndexImagesRequest], context: Context
    ) -> AsyncIterator[pb.IndexImagesResponse]:
        """Store one picture after another, in order, several being embedded ahead."""

        async def embed(request: pb.IndexImagesRequest) -> PictureResult:
            options = convert.region_options(request.options, self._engine.class_ids)
            return await self._engine.picture(
                request.image,
                options,
                embeddings=True,
                timeout_s=context.time_remaining(),
                wait=True,
            )

        position = 0
        async with aclosing(in_order(requests, embed, self._window, self._stopping)) as outcomes:
            async for request, outcome in outcomes:
                answer = pb.IndexImagesResponse(position=position, source=request.source)
                try:
                    if isinstance(outcome, Exception):
                        raise outcome
                    answer.indexed.CopyFrom(await self._keep(request, outcome))
                except Exception as error:  # one picture's fault, told in its own answer
                    answer.error.CopyFrom(convert.error(public_error(error)))
                yield answer
                position += 1

    async def CreateCollection(
        self, request: pb.CreateCollectionRequest, context: Context
    ) -> pb.Collection:
        """Make a collection, or find it made."""
        made = await self._engine.create_collection(request.name)
        items = {collection.id: count for collection, count in await self._engine.collections()}
        return _collection(made.name, made.fingerprint.name, made.fingerprint.dim, items[made.id])

    async def ListCollections(
        self, request: pb.ListCollectionsRequest, context: Context
    ) -> pb.ListCollectionsResponse:
        """List every collection."""
        return pb.ListCollectionsResponse(
            collections=[
                _collection(found.name, found.fingerprint.name, found.fingerprint.dim, items)
                for found, items in await self._engine.collections()
            ]
        )

    async def _search(self, request: pb.SearchRequest, context: Context, *, wait: bool) -> Found:
        options = replace(
            convert.region_options(request.options, self._engine.class_ids),
            top_k=request.top_k if request.HasField("top_k") else convert.DEFAULT_TOP_K,
            min_similarity=request.min_similarity if request.HasField("min_similarity") else -1.0,
        )
        return await self._engine.search(
            request.image,
            request.collection or DEFAULT_COLLECTION,
            options,
            embeddings=request.include_embeddings,
            timeout_s=context.time_remaining(),
            wait=wait,
        )

    def _search_response(self, request: pb.SearchRequest, found: Found) -> pb.SearchResponse:
        return convert.search_response(
            found, self._engine.label, embeddings=request.include_embeddings
        )

    def _too_large(self, answer: pb.SearchStreamResponse) -> InvalidInput:
        return InvalidInput(
            f"top_k: expected an answer of at most {self._max_message_bytes} bytes, "
            f"got one of {answer.ByteSize()}: ask for fewer neighbours"
        )

    async def _keep(self, request: pb.IndexImagesRequest, result: PictureResult) -> pb.Indexed:
        kept = await self._engine.keep(
            result,
            request.collection or DEFAULT_COLLECTION,
            request.source,
            request.time_s if request.HasField("time_s") else None,
            dict(request.metadata),
        )
        return convert.indexed(kept, self._engine.label)


def _collection(name: str, embedder: str, dim: int, items: int) -> pb.Collection:
    return pb.Collection(name=name, embedder=embedder, dim=dim, items=items)


async def in_order(
    requests: AsyncIterator[Request],
    work: Callable[[Request], Awaitable[Result]],
    window: int,
    stopping: asyncio.Event,
) -> AsyncGenerator[tuple[Request, Result | Exception], None]:
    """Work on up to `window` requests at once; yield each with its outcome, in their order.

    A request is read only when there is room, so a sender is slowed down rather than stored.
    Raises `NotReady` after what is in work when `stopping` is set.
    """
    tasks: asyncio.Queue[tuple[Request, asyncio.Future[Result]] | None] = asyncio.Queue()
    room = asyncio.Semaphore(window)

    async def read() -> None:
        try:
            await room.acquire()
            async for request in requests:
                tasks.put_nowait((request, asyncio.ensure_future(work(request))))
                await room.acquire()
                if stopping.is_set():
                    raise NotReady("the server is stopping")
        finally:
            tasks.put_nowait(None)

    reader = asyncio.ensure_future(read())
    try:
        while (entry := await tasks.get()) is not None:
            request, task = entry
            try:
                outcome: Result | Exception = await task
            except Exception as error:  # the outcome, for whoever reads it
                outcome = error
            yield request, outcome
            room.release()
        await reader
    finally:
        reader.cancel()
        while not tasks.empty():
            entry = tasks.get_nowait()
            if entry is not None:
                entry[1].cancel()
