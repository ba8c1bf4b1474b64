"""How an error reaches the client, through a real gRPC server: its code and nothing it hides."""

from __future__ import annotations

import logging
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import grpc
import grpc.aio
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from cropseek import errors
from cropseek.pb import cropseek_pb2 as pb
from cropseek.pb import cropseek_pb2_grpc as pb_grpc
from cropseek.rpc.interceptors import ErrorInterceptor, public_error

SECRET = "/home/somebody/models: the secret"
HIDDEN = re.compile(r"^internal error (?P<id>[0-9a-f]{12}); the server's log says more$")
SHOWN_ERRORS = [
    cls
    for cls in errors.all_errors()
    if cls.__module__ == errors.__name__ and cls.code != "INTERNAL"
]


class Failing(pb_grpc.CropseekServiceServicer):
    """Raises `error`, a stream after its first answer."""

    def __init__(self, error: BaseException) -> None:
        self.error = error

    async def Detect(self, request: pb.DetectRequest, context: Any) -> pb.DetectResponse:
        """Fail, unless there is a picture."""
        if request.image:
            return pb.DetectResponse(size=pb.Size(width=7))
        raise self.error

    async def SearchStream(
        self, requests: AsyncIterator[pb.SearchRequest], context: Any
    ) -> AsyncIterator[pb.SearchStreamResponse]:
        """Answer, then fail."""
        async for _ in requests:
            yield pb.SearchStreamResponse(position=3)
            raise self.error


class AlsoFailing(health_pb2_grpc.HealthServicer):
    """A service that is not ours."""

    async def Check(self, request: Any, context: Any) -> Any:
        """Fail with an error of the tree."""
        raise errors.InvalidInput("of the health service")


@asynccontextmanager
async def connected(error: BaseException) -> AsyncIterator[grpc.aio.Channel]:
    """A channel to a server that fails so."""
    server = grpc.aio.server(interceptors=[ErrorInterceptor()])
    pb_grpc.add_CropseekServiceServicer_to_server(Failing(error), server)  # type: ignore[no-untyped-call]
    health_pb2_grpc.add_HealthServicer_to_server(AlsoFailing(), server)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    try:
        async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
            yield channel
    finally:
        await server.stop(None)


async def detect(channel: grpc.aio.Channel, image: bytes = b"") -> pb.DetectResponse:
    """Call a method that answers once."""
    stub = pb_grpc.CropseekServiceStub(channel)  # type: ignore[no-untyped-call]
    answer: pb.DetectResponse = await stub.Detect(pb.DetectRequest(image=image))
    return answer


async def search_stream(channel: grpc.aio.Channel) -> list[pb.SearchStreamResponse]:
    """Call a method that streams; returns its answers."""
    stub = pb_grpc.CropseekServiceStub(channel)  # type: ignore[no-untyped-call]
    call = stub.SearchStream(iter([pb.SearchRequest()]))
    answers = []
    async for answer in call:
        answers.append(answer)
    return answers


@pytest.mark.parametrize("method", [detect, search_stream], ids=["unary", "stream"])
@pytest.mark.parametrize("cls", SHOWN_ERRORS, ids=lambda cls: cls.__name__)
async def test_an_error_of_the_tree_has_its_code_and_text(
    cls: type[errors.CropseekError], method: Any
) -> None:
    """So that a client can do something about it."""
    async with connected(cls("boxes[0]: expected é, got ü")) as channel:
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await method(channel)
    assert caught.value.code() is grpc.StatusCode[cls.code]
    assert caught.value.details() == "boxes[0]: expected é, got ü"


@pytest.mark.parametrize("method", [detect, search_stream], ids=["unary", "stream"])
@pytest.mark.parametrize(
    "error",
    [
        errors.ModelFailed(SECRET),
        errors.CropseekError(SECRET),
        ZeroDivisionError(SECRET),
        OSError(2, SECRET),
        StopAsyncIteration(SECRET),
        TimeoutError(SECRET),
    ],
    ids=lambda error: type(error).__name__,
)
async def test_a_fault_of_ours_is_an_id_that_is_in_the_log(
    error: Exception, method: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """The client sees INTERNAL and the id; the log has the id, the text and the traceback."""
    async with connected(error) as channel:
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await method(channel)
    assert caught.value.code() is grpc.StatusCode.INTERNAL
    shown = HIDDEN.match(caught.value.details() or "")
    assert shown is not None, caught.value.details()
    assert "secret" not in str(caught.value)
    (record,) = caplog.records
    assert record.levelno == logging.ERROR
    assert shown["id"] in record.getMessage()
    assert SECRET in caplog.text
    assert "Traceback" in caplog.text


async def test_what_a_stream_answered_before_arrives() -> None:
    """Then it ends."""
    async with connected(errors.NotReady("stopping")) as channel:
        stub = pb_grpc.CropseekServiceStub(channel)  # type: ignore[no-untyped-call]
        call = stub.SearchStream(iter([pb.SearchRequest()]))
        assert (await call.read()).position == 3
        with pytest.raises(grpc.aio.AioRpcError, match="stopping"):
            await call.read()


async def test_an_answer_is_not_touched() -> None:
    """Nor the next call after a failure."""
    async with connected(ValueError("x")) as channel:
        with pytest.raises(grpc.aio.AioRpcError):
            await detect(channel)
        assert (await detect(channel, b"a picture")).size.width == 7


async def test_a_method_that_is_not_there() -> None:
    """Is UNIMPLEMENTED, not an error of ours."""
    async with connected(ValueError("x")) as channel:
        call: Any = channel.unary_unary("/cropseek.v1.CropseekService/NoSuchMethod")
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await call(b"")
    assert caught.value.code() is grpc.StatusCode.UNIMPLEMENTED


async def test_a_service_that_is_not_ours_is_left_alone() -> None:
    """Health and reflection have handlers of their own."""
    async with connected(ValueError("x")) as channel:
        stub: Any = health_pb2_grpc.HealthStub(channel)
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await stub.Check(health_pb2.HealthCheckRequest())
    assert caught.value.code() is grpc.StatusCode.UNKNOWN


def test_every_fault_has_an_id_of_its_own(caplog: pytest.LogCaptureFixture) -> None:
    """Two failures are two entries in the log."""
    shown = {str(public_error(ValueError("x"))) for _ in range(20)}
    assert len(shown) == 20
    assert len(caplog.records) == 20


def test_an_error_with_another_code_than_its_class() -> None:
    """One that came over the wire keeps it: INTERNAL is hidden, whatever the class."""
    error = errors.InvalidInput(SECRET)
    error.code = "INTERNAL"
    assert HIDDEN.match(str(public_error(error)))
    plain = errors.from_code("UNIMPLEMENTED", "not yet")
    assert public_error(plain) is plain
