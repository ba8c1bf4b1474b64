"""A gRPC server of cropseek.v1 whose answers are canned: the client and the CLI without Triton.

Every picture it can decode holds one person of 90 % of its width and a dog; collections are kept
in memory, and a search returns the newest items. What it was asked is in `requests`.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import cv2
import grpc
import numpy as np
from grpc_health.v1 import health, health_pb2, health_pb2_grpc

from cropseek.client.client import SERVICE
from cropseek.errors import CollectionNotFound, CropseekError, InvalidInput
from cropseek.pb import cropseek_pb2 as pb
from cropseek.pb import cropseek_pb2_grpc as pb_grpc
from cropseek.vision.decode import decode_image
from cropseek.vision.encode import encode_jpeg

DIM = 4
PEOPLE = ("person", "dog")


def picture(width: int = 64, height: int = 48, seed: int = 0) -> bytes:
    """Return a JPEG of soft noise."""
    noise = np.random.default_rng(seed).integers(0, 256, (4, 4, 3), np.uint8)
    return encode_jpeg(cv2.resize(noise, (width, height)).astype(np.uint8))


class FakeService(pb_grpc.CropseekServiceServicer):
    """Answers as the real one does, after `before_answer` was called."""

    def __init__(self) -> None:
        self.requests: list[Any] = []
        self.items: dict[str, list[pb.Neighbor]] = {}
        self.fail_with: tuple[grpc.StatusCode, str] | None = None

    def before_answer(self) -> None:
        """A place for tests to wait."""

    def Detect(self, request: pb.DetectRequest, context: Any) -> pb.DetectResponse:
        self._take(request, context)
        with _aborting(context):
            size, found = _detect(request.image, request.min_score, request.classes)
        return pb.DetectResponse(size=size, detections=found, timings_ms={"detect": 1.5})

    def Embed(self, request: pb.EmbedRequest, context: Any) -> pb.EmbedResponse:
        self._take(request, context)
        with _aborting(context):
            size, found = _detect(request.image, 0.0, request.options.classes)
        for detection in found:
            detection.embedding.extend([0.0, 0.6, 0.8, 0.1])
        return pb.EmbedResponse(size=size, detections=found, embedder="fake")

    def Search(self, request: pb.SearchRequest, context: Any) -> pb.SearchResponse:
        self._take(request, context)
        with _aborting(context):
            return self._search(request)

    def SearchStream(
        self, requests: Iterator[pb.SearchRequest], context: Any
    ) -> Iterator[pb.SearchStreamResponse]:
        for position, request in enumerate(requests):
            self._take(request, context)
            answer = pb.SearchStreamResponse(position=position)
            try:
                answer.result.CopyFrom(self._search(request))
            except CropseekError as error:
                answer.error.CopyFrom(pb.Error(code=error.code, message=str(error)))
            yield answer

    def IndexImages(
        self, requests: Iterator[pb.IndexImagesRequest], context: Any
    ) -> Iterator[pb.IndexImagesResponse]:
        for position, request in enumerate(requests):
            self._take(request, context)
            answer = pb.IndexImagesResponse(position=position, source=request.source)
            try:
                answer.indexed.CopyFrom(self._keep(request))
            except CropseekError as error:
                answer.error.CopyFrom(pb.Error(code=error.code, message=str(error)))
            yield answer

    def CreateCollection(self, request: pb.CreateCollectionRequest, context: Any) -> pb.Collection:
        self._take(request, context)
        self.items.setdefault(request.name, [])
        return self._collection(request.name)

    def ListCollections(
        self, request: pb.ListCollectionsRequest, context: Any
    ) -> pb.ListCollectionsResponse:
        self._take(request, context)
        return pb.ListCollectionsResponse(collections=map(self._collection, self.items))

    def _take(self, request: Any, context: Any) -> None:
        self.requests.append(request)
        self.before_answer()
        if self.fail_with is not None:
            context.abort(*self.fail_with)

    def _search(self, request: pb.SearchRequest) -> pb.SearchResponse:
        name = request.collection or "default"
        if name not in self.items:
            raise CollectionNotFound(f"collection: there is none named {name!r}")
        size, found = _detect(request.image, 0.0, request.options.classes)
        top_k = request.top_k if request.HasField("top_k") else 5
        for detection in found:
            detection.neighbors.extend(self.items[name][::-1][:top_k])
            if request.include_embeddings:
                detection.embedding.extend([0.0, 0.6, 0.8, 0.1])
        return pb.SearchResponse(
            size=size, detections=found, index_sequence=7, timings_ms={"total": 2.25}
        )

    def _keep(self, request: pb.IndexImagesRequest) -> pb.Indexed:
        _, found = _detect(request.image, 0.0, request.options.classes)
        kept = self.items.setdefault(request.collection or "default", [])
        first = len(kept) + 1
        for detection in found:
            neighbor = pb.Neighbor(
                item_id=len(kept) + 1, similarity=0.875, source=request.source, box=detection.box,
                label=detection.label, score=detection.score, metadata=request.metadata,
            )  # fmt: skip
            if request.HasField("time_s"):
                neighbor.time_s = request.time_s
            kept.append(neighbor)
        ids = range(first, len(kept) + 1)
        return pb.Indexed(item_ids=ids, sequence=len(kept), detections=found)

    def _collection(self, name: str) -> pb.Collection:
        return pb.Collection(name=name, embedder="fake", dim=DIM, items=len(self.items[name]))


def _detect(image: bytes, min_score: float, classes: Any) -> tuple[pb.Size, list[pb.Detection]]:
    height, width = decode_image(image).shape[:2]
    unknown = set(classes) - set(PEOPLE)
    if unknown:
        raise InvalidInput(f"classes: expected labels of the detector, got {unknown}")
    found = [
        pb.Detection(
            box=pb.Box(x1=0.05 * width, y1=0, x2=0.95 * width, y2=height),
            score=0.9, label="person", class_id=0,
        ),
        pb.Detection(
            box=pb.Box(x1=1.25, y1=2, x2=0.5 * width, y2=0.5 * height),
            score=0.4, label="dog", class_id=16,
        ),
    ]  # fmt: skip
    wanted = classes or PEOPLE
    return pb.Size(width=width, height=height), [
        d for d in found if d.score >= min_score and d.label in wanted
    ]


@contextmanager
def _aborting(context: Any) -> Iterator[None]:
    try:
        yield
    except CropseekError as error:
        context.abort(grpc.StatusCode[error.code], str(error))


class FakeServer:
    """A `FakeService` that listens on `target`; `health` is its health service."""

    def __init__(self) -> None:
        self.service = FakeService()
        self.health: Any = health.HealthServicer()
        self._server = grpc.server(
            ThreadPoolExecutor(16),
            options=[
                ("grpc.max_send_message_length", -1),
                ("grpc.max_receive_message_length", -1),
            ],
        )
        pb_grpc.add_CropseekServiceServicer_to_server(self.service, self._server)  # type: ignore[no-untyped-call]
        health_pb2_grpc.add_HealthServicer_to_server(self.health, self._server)
        port = self._server.add_insecure_port("127.0.0.1:0")
        self.target = f"127.0.0.1:{port}"
        self.set_health("SERVING")

    def set_health(self, status: str) -> None:
        """Say of the service and the process that they are `status`."""
        number = health_pb2.HealthCheckResponse.ServingStatus.Value(status)
        for name in ("", SERVICE):
            self.health.set(name, number)

    def __enter__(self) -> FakeServer:
        self._server.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.stop(None).wait()
