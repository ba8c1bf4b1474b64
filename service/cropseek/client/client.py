"""`Client`: the API from Python, one method a call."""

from __future__ import annotations

import re
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, TypeVar

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc

from cropseek.client import convert
from cropseek.client.convert import DetectOptions, RegionOptions, SearchOptions
from cropseek.client.faults import to_cropseek_error
from cropseek.client.pictures import Image, read_picture
from cropseek.client.results import (
    Collection,
    DetectResult,
    EmbedResult,
    IndexItem,
    IndexOutcome,
    SearchOutcome,
    SearchResult,
)
from cropseek.errors import CropseekError, InvalidInput, NotReady
from cropseek.pb import cropseek_pb2 as pb
from cropseek.pb import cropseek_pb2_grpc as pb_grpc

if TYPE_CHECKING:
    from typing_extensions import Self, Unpack

DEFAULT_TARGET = "127.0.0.1:50051"
SERVICE = "cropseek.v1.CropseekService"
_MESSAGE_OVERHEAD_BYTES = 2**16  # what a request holds beside the picture
_READY_POLL_S = 0.1

_Item = TypeVar("_Item")
_Outcome = TypeVar("_Outcome")


class Client:
    """A connection to a cropseek server; use it as a context manager, or call `close`.

    Pictures are encoded bytes or paths. Every failure is one of `cropseek.errors`: `NotReady` when
    the server cannot be reached, `DeadlineExceeded` when a call takes longer than `timeout_s`,
    `InvalidInput` for a `target` that is a URL or has no port. (Text that UTF-8 cannot hold is
    Python's own `UnicodeEncodeError`.)
    Streams have no such limit, but notice a dead peer. `credentials` (as from
    `grpc.ssl_channel_credentials()`) are for a proxy that speaks TLS. The client is thread-safe.
    """

    def __init__(
        self,
        target: str = DEFAULT_TARGET,
        *,
        timeout_s: float = 60.0,
        max_message_bytes: int = 64 * 2**20,
        credentials: grpc.ChannelCredentials | None = None,
    ) -> None:
        _check_target(target, needs_port=credentials is None)
        self.target = target
        self._timeout_s = timeout_s
        self._max_picture_bytes = max_message_bytes - _MESSAGE_OVERHEAD_BYTES
        options = _channel_options(target, max_message_bytes)
        self._channel = (
            grpc.insecure_channel(target, options)
            if credentials is None
            else grpc.secure_channel(target, credentials, options)
        )
        self._stub = pb_grpc.CropseekServiceStub(self._channel)  # type: ignore[no-untyped-call]
        self._health: Any = health_pb2_grpc.HealthStub(self._channel)

    def close(self) -> None:
        """Close the connection; calls under way are cancelled."""
        self._channel.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def detect(self, image: Image, **options: Unpack[DetectOptions]) -> DetectResult:
        """Return the objects of one picture."""
        request = convert.detect_request(self._read(image), **options)
        return convert.detect_result(self._call(self._stub.Detect, request))

    def embed(self, image: Image, **options: Unpack[RegionOptions]) -> EmbedResult:
        """Return the regions of one picture with their vectors."""
        request = convert.embed_request(self._read(image), **options)
        return convert.embed_result(self._call(self._stub.Embed, request))

    def search(self, image: Image, **options: Unpack[SearchOptions]) -> SearchResult:
        """Return the objects of one picture, each with the nearest items of a collection."""
        request = convert.search_request(self._read(image), **options)
        response = self._call(self._stub.Search, request)
        return convert.search_result(response, embeddings=request.include_embeddings)

    def search_stream(
        self, images: Iterable[Image], **options: Unpack[SearchOptions]
    ) -> Iterator[SearchOutcome]:
        """Search by many pictures over one stream: one outcome a picture, in order.

        `images` is consumed as the server takes them, in another thread; an exception it raises is
        raised here after the outcomes before it.
        """
        embeddings = options.get("include_embeddings", False)
        return self._stream(
            self._stub.SearchStream,
            images,
            lambda image: convert.search_request(self._read(image), **options),
            lambda message, at: convert.search_outcome(message, at, embeddings=embeddings),
            lambda _, at, error: SearchOutcome(at, error=error),
        )

    def index_images(
        self,
        items: Iterable[IndexItem],
        *,
        collection: str = "",
        **options: Unpack[RegionOptions],
    ) -> Iterator[IndexOutcome]:
        """Add pictures to a collection, made if need be: one outcome an item, in order.

        An item's outcome comes when it is on disk. Nothing is sent unless the outcomes are read;
        `items` is consumed as in `search_stream`.
        """
        return self._stream(
            self._stub.IndexImages,
            items,
            lambda item: convert.index_request(item, self._read(item.image), collection, **options),
            convert.index_outcome,
            lambda item, at, error: IndexOutcome(at, item.source, error=error),
        )

    def create_collection(self, name: str) -> Collection:
        """Create an empty collection and return it."""
        request = pb.CreateCollectionRequest(name=name)
        return convert.collection(self._call(self._stub.CreateCollection, request))

    def collections(self) -> list[Collection]:
        """Return all collections."""
        response = self._call(self._stub.ListCollections, pb.ListCollectionsRequest())
        return [convert.collection(message) for message in response.collections]

    def health(self, service: str = SERVICE) -> str:
        """Return the health status by name, as "SERVING"; "" asks for the process as a whole."""
        return self._status(service, self._timeout_s)

    def _status(self, service: str, timeout_s: float) -> str:
        request = health_pb2.HealthCheckRequest(service=service)
        response = self._call(self._health.Check, request, timeout_s)
        return str(health_pb2.HealthCheckResponse.ServingStatus.Name(response.status))

    def wait_ready(self, timeout_s: float) -> None:
        """Return when the server serves; raises `NotReady` with the last reason otherwise."""
        deadline = time.monotonic() + timeout_s
        while (reason := self._not_ready(deadline)) is not None:
            if time.monotonic() >= deadline:
                raise NotReady(reason)
            time.sleep(_READY_POLL_S)

    def _not_ready(self, deadline: float) -> str | None:
        left_s = max(_READY_POLL_S, deadline - time.monotonic())
        try:
            status = self._status(SERVICE, min(left_s, self._timeout_s))
        except CropseekError as error:
            if error.code not in ("UNAVAILABLE", "DEADLINE_EXCEEDED", "NOT_FOUND"):
                raise
            return str(error)
        return None if status == "SERVING" else f"the server at {self.target} is {status}"

    def _read(self, image: Image) -> bytes:
        return read_picture(image, self._max_picture_bytes)

    def _call(
        self, method: Callable[..., Any], request: Any, timeout_s: float | None = None
    ) -> Any:
        timeout_s = timeout_s or self._timeout_s
        try:
            return method(request, timeout=timeout_s)
        except grpc.RpcError as error:
            raise to_cropseek_error(error, self.target, timeout_s) from None

    def _stream(
        self,
        method: Callable[..., Any],
        items: Iterable[_Item],
        to_request: Callable[[_Item], Any],
        from_answer: Callable[[Any, int], _Outcome],
        unsent: Callable[[_Item, int, CropseekError], _Outcome],
    ) -> Iterator[_Outcome]:
        """Yield an outcome an item, in order, those of items that could not be sent among them."""
        sending = _Sending(items, to_request)
        answers = method(sending.requests())
        at = 0

        def not_sent() -> Iterator[_Outcome]:
            nonlocal at
            for item, why in sending.unsent_before_next_answer():
                yield unsent(item, at, why)
                at += 1

        try:
            for answer in answers:
                yield from not_sent()
                sending.answered()
                yield from_answer(answer, at)
                at += 1
        except grpc.RpcError as error:
            yield from not_sent()
            raise to_cropseek_error(error, self.target, None) from None
        finally:
            answers.cancel()
        yield from not_sent()
        sending.check_finished(self.target)


class _Sending:
    """Turns a caller's items into requests, in gRPC's thread, and keeps book of it for the reader.

    gRPC takes the next request when the transport has room for it, so a slow server is what bounds
    how far ahead of the answers this reads.
    """

    def __init__(self, items: Iterable[Any], to_request: Callable[[Any], Any]) -> None:
        self._items = items
        self._to_request = to_request
        self._book: deque[tuple[Any, CropseekError] | None] = deque()  # None: it was sent
        self._failure: Exception | None = None

    def requests(self) -> Iterator[Any]:
        """Yield the requests; an item that cannot be read is noted, not sent."""
        try:
            for item in self._items:
                try:
                    request = self._to_request(item)
                except CropseekError as error:
                    self._book.append((item, error))
                    continue
                self._book.append(None)
                yield request
        except Exception as error:  # the caller's own, raised again by check_finished
            self._failure = error

    def unsent_before_next_answer(self) -> Iterator[tuple[Any, CropseekError]]:
        """Yield the items that were not sent up to the next one that was, or the end."""
        while self._book and (unsent := self._book[0]) is not None:
            self._book.popleft()
            yield unsent

    def answered(self) -> None:
        """Strike off the item that has just been answered."""
        self._book.popleft()

    def check_finished(self, target: str) -> None:
        """Raise what the caller's iterable raised, or `NotReady` if answers are missing."""
        if self._failure is not None:
            raise self._failure
        if self._book:
            raise NotReady(f"the server at {target} ended the stream before its last answer")


def _check_target(target: str, *, needs_port: bool) -> None:
    """Raise `InvalidInput` for what gRPC would take for a host's name, or for port 443 of one."""
    no_port = needs_port and re.fullmatch(r"[^:/]*:?|\[[^\]]*\]:?", target)
    if no_port or re.match(r"https?://|:|$|.*\s", target, re.IGNORECASE | re.DOTALL):
        raise InvalidInput(f"server: expected host:port, as {DEFAULT_TARGET}, got {target!r}")


def _channel_options(target: str, max_message_bytes: int) -> list[tuple[str, int]]:
    options = [
        ("grpc.max_send_message_length", max_message_bytes),
        ("grpc.max_receive_message_length", max_message_bytes),
        ("grpc.initial_reconnect_backoff_ms", 100),
        ("grpc.max_reconnect_backoff_ms", 2000),
        ("grpc.keepalive_time_ms", 300_000),  # the shortest that servers tolerate by default
    ]
    if target.startswith(("127.", "localhost", "[::1]")):
        options.append(("grpc.enable_http_proxy", 0))  # no proxy reaches this machine's loopback
    return options
