"""The client of Triton, against a gRPC server that speaks Triton's protocol with canned answers."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import grpc
import grpc.aio
import numpy as np
import pytest
from tritonclient.grpc import service_pb2, service_pb2_grpc
from tritonclient.utils import InferenceServerException, np_to_triton_dtype

from cropseek import errors
from cropseek.triton import wire
from cropseek.triton.client import TritonClient, as_cropseek_error, image_input
from cropseek.types import Detections, Neighbors, PictureOptions, PictureResult, Regions

RESULT = PictureResult(
    size_wh=(810, 1080),
    detections=Detections(
        np.array([[1, 2, 3, 4], [5, 6, 7, 8]], np.float32),
        np.array([0.9, 0.5], np.float32),
        np.array([5, -1], np.int32),
    ),
    embeddings=np.array([[0.6, 0.8], [1, 0]], np.float32),
    neighbors=Neighbors(np.array([[7], [-1]]), np.array([[0.5], [0]], np.float32)),
    index_sequence=12,
    truncated=True,
    timings_ms={"detect": 1.5, "crop": 0.5, "embed": 2.0, "search": 0.25},
)
NOTHING = PictureResult(
    (1, 1),
    Detections(np.zeros((0, 4), np.float32), np.zeros(0, np.float32), np.zeros(0, np.int32)),
)
Abort = tuple[grpc.StatusCode, str]


class FakeTriton(service_pb2_grpc.GRPCInferenceServiceServicer):  # type: ignore[misc]
    """Answers every picture with `result`, or ends the call with `abort`; keeps the requests."""

    def __init__(self, result: PictureResult = RESULT, abort: Abort | None = None) -> None:
        self.result = result
        self.abort = abort
        self.requests: list[Any] = []
        self.answers = asyncio.Event()
        self.answers.set()

    async def ModelInfer(self, request: Any, context: Any) -> Any:
        """Write the outputs asked for."""
        self.requests.append(request)
        await self.answers.wait()
        if self.abort is not None:
            await context.abort(*self.abort)
        tensors = wire.to_tensors(self.result)
        response = service_pb2.ModelInferResponse(model_name=request.model_name)
        for output in request.outputs:
            array = tensors[output.name]
            response.outputs.add(
                name=output.name, datatype=np_to_triton_dtype(array.dtype), shape=array.shape
            )
            response.raw_output_contents.append(array.tobytes())
        return response

    async def ModelReady(self, request: Any, context: Any) -> Any:
        """Say that only `image_search` is ready."""
        if self.abort is not None:
            await context.abort(*self.abort)
        return service_pb2.ModelReadyResponse(ready=request.name == "image_search")


@asynccontextmanager
async def connected(triton: FakeTriton) -> AsyncIterator[TritonClient]:
    """A client of that Triton."""
    server = grpc.aio.server(
        options=[
            ("grpc.max_send_message_length", -1),
            ("grpc.max_receive_message_length", -1),
        ]
    )
    service_pb2_grpc.add_GRPCInferenceServiceServicer_to_server(triton, server)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    try:
        async with TritonClient(f"127.0.0.1:{port}") as client:
            yield client
    finally:
        await server.stop(None)


@pytest.mark.parametrize(
    ("options", "embeddings", "outputs"),
    [
        (PictureOptions(), False, wire.BASE_OUTPUTS),
        (PictureOptions(), True, wire.BASE_OUTPUTS + wire.EMBEDDING_OUTPUTS),
        (PictureOptions(collection_id=0), False, wire.BASE_OUTPUTS + wire.NEIGHBOR_OUTPUTS),
        (
            PictureOptions(Regions.BOXES, ((1, 2, 3, 4.5),), collection_id=3, top_k=9),
            True,
            wire.BASE_OUTPUTS + wire.EMBEDDING_OUTPUTS + wire.NEIGHBOR_OUTPUTS,
        ),
    ],
    ids=["detect", "embed", "search", "all"],
)
async def test_a_picture_and_what_to_do_with_it_are_sent(
    options: PictureOptions, embeddings: bool, outputs: tuple[str, ...]
) -> None:
    """The bytes as `[1, n]`, the options as a parameter, and only the outputs that are wanted."""
    triton = FakeTriton()
    async with connected(triton) as client:
        result = await client.run(b"\0\xffabc", options, embeddings=embeddings)
    (request,) = triton.requests
    assert request.model_name == "image_search"
    assert [(t.name, t.datatype, list(t.shape)) for t in request.inputs] == [
        ("IMAGE", "UINT8", [1, 5])
    ]
    assert list(request.raw_input_contents) == [b"\0\xffabc"]
    assert PictureOptions.from_json(request.parameters["options"].string_param) == options
    assert tuple(output.name for output in request.outputs) == outputs
    assert (result.embeddings is not None) == embeddings
    assert (result.neighbors is not None) == (options.collection_id is not None)


@pytest.mark.parametrize("sent", [RESULT, NOTHING], ids=["two regions", "nothing found"])
async def test_the_answer_is_read(sent: PictureResult) -> None:
    """Every field; tensors without elements too."""
    async with connected(FakeTriton(sent)) as client:
        result = await client.run(b"x", PictureOptions(collection_id=1), embeddings=True)
    assert result.size_wh == sent.size_wh
    assert result.detections.boxes_xyxy.shape == sent.detections.boxes_xyxy.shape
    assert result.detections.boxes_xyxy.tolist() == sent.detections.boxes_xyxy.tolist()
    assert result.detections.scores.tolist() == sent.detections.scores.tolist()
    assert result.detections.class_ids.tolist() == sent.detections.class_ids.tolist()
    assert result.truncated is sent.truncated
    assert result.index_sequence == sent.index_sequence
    assert result.embeddings is not None
    assert result.neighbors is not None
    assert len(result.embeddings) == len(result.neighbors.item_ids) == len(sent.detections)
    if sent is RESULT:
        assert result.embeddings.tolist() == RESULT.embeddings.tolist()  # type: ignore[union-attr]
        assert result.neighbors.item_ids.tolist() == [[7], [-1]]
        assert result.timings_ms == RESULT.timings_ms


async def test_messages_beyond_grpcs_default_pass() -> None:
    """The service has a limit of its own: here 5 MiB in and 6 MiB out."""
    n = 300
    large = PictureResult(
        (1, 1),
        Detections(np.zeros((n, 4), np.float32), np.zeros(n, np.float32), np.zeros(n, np.int32)),
        embeddings=np.ones((n, 5000), np.float32),
    )
    async with connected(FakeTriton(large)) as client:
        result = await client.run(bytes(5 * 2**20), PictureOptions(), embeddings=True)
    assert result.embeddings is not None
    assert result.embeddings.nbytes == 6_000_000


@pytest.mark.parametrize(
    ("abort", "expected", "message"),
    [
        pytest.param(
            (grpc.StatusCode.INTERNAL, "INVALID_ARGUMENT: image: expected a picture"),
            errors.InvalidInput,
            "^image: expected a picture$",
            id="ours, its code lost on the way",
        ),
        pytest.param(
            (grpc.StatusCode.INTERNAL, "in ensemble 'detect', INVALID_ARGUMENT: image: x"),
            errors.InvalidInput,
            "^image: x$",
            id="ours, out of an ensemble",
        ),
        pytest.param(
            (grpc.StatusCode.INTERNAL, "NOT_FOUND: collection: gone"),
            errors.CollectionNotFound,
            "^collection: gone$",
            id="another of ours",
        ),
        pytest.param(
            (grpc.StatusCode.UNAVAILABLE, "shutting down"),
            errors.NotReady,
            "Triton does not answer: shutting down",
            id="not there",
        ),
        pytest.param(
            (grpc.StatusCode.DEADLINE_EXCEEDED, "late"),
            errors.DeadlineExceeded,
            "the time given was over",
            id="late",
        ),
        pytest.param(
            (grpc.StatusCode.CANCELLED, "gone"),
            errors.DeadlineExceeded,
            "the time given was over",
            id="cancelled",
        ),
        pytest.param(
            (grpc.StatusCode.INVALID_ARGUMENT, "unexpected shape for input 'IMAGE'"),
            errors.ModelFailed,
            "unexpected shape",
            id="Triton's own complaint is a fault of ours",
        ),
    ],
)
async def test_a_failure_is_an_error_of_the_tree(
    abort: Abort, expected: type[errors.CropseekError], message: str
) -> None:
    """By the code in the text if it is ours, else by what Triton says."""
    async with connected(FakeTriton(abort=abort)) as client:
        with pytest.raises(errors.CropseekError, match=message) as caught:
            await client.run(b"x", PictureOptions(), embeddings=False)
    assert type(caught.value) is expected


def unused_target() -> str:
    """An address where nothing listens."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{probe.getsockname()[1]}"


async def test_nobody_there_is_not_ready() -> None:
    """And says so."""
    async with TritonClient(unused_target()) as client:
        with pytest.raises(errors.NotReady, match="Triton does not answer"):
            await client.run(b"x", PictureOptions(), embeddings=False)


async def test_a_dead_model_process_breaks_the_client_for_good() -> None:
    """Triton goes on saying READY: only the message tells."""
    message = "INTERNAL: detector: Stub process 'detector_0_0' is not healthy."
    abort = (grpc.StatusCode.INTERNAL, message)
    async with connected(FakeTriton(abort=abort)) as client:
        assert not client.broken
        with pytest.raises(errors.NotReady, match="a model's process has died"):
            await client.run(b"x", PictureOptions(), embeddings=False)
        assert client.broken


@pytest.mark.parametrize("image", [b"", b"x", bytes(range(256))], ids=len)
def test_image_input(image: bytes) -> None:
    """Any bytes, one row."""
    tensor = image_input(image)
    assert (tensor.name(), tensor.datatype(), tensor.shape()) == ("IMAGE", "UINT8", [1, len(image)])
    assert tensor._get_content() == image


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        ("StatusCode.UNAVAILABLE", errors.NotReady),
        ("StatusCode.DEADLINE_EXCEEDED", errors.DeadlineExceeded),
        ("StatusCode.CANCELLED", errors.DeadlineExceeded),
        ("StatusCode.UNKNOWN", errors.ModelFailed),
        (None, errors.ModelFailed),
    ],
)
def test_every_failure_has_its_error(
    status: str | None, expected: Callable[[str], errors.CropseekError]
) -> None:
    """Also one without a status: a fault in the client's own code."""
    error = as_cropseek_error(InferenceServerException("why", status=status))
    assert type(error) is expected


@pytest.mark.parametrize("way", ["", "detect: ", "INTERNAL: detect: "])
def test_full_shared_memory_is_told_as_what_passes(
    way: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Triton's own words, from its port, through BLS, and in the code that BLS sends along."""
    message = (
        f"{way}Failed to increase the shared memory pool size for key 'cropseek_63d21077_f389' to "
        "34603008 bytes. If you are running Triton inside docker, use '--shm-size' flag to "
        "control the shared memory region size. Error: No space left on device"
    )
    error = as_cropseek_error(InferenceServerException(message, status="StatusCode.INTERNAL"))
    assert type(error) is errors.Overloaded
    assert "/dev/shm" in str(error)
    assert caplog.messages == [message]
