from __future__ import annotations

import os
import re
import socket
import threading
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

import cv2
import grpc
import numpy as np
import pytest

from cropseek import errors
from cropseek.client import Client, IndexItem
from cropseek.client.faults import to_cropseek_error
from cropseek.pb import cropseek_pb2 as pb
from cropseek.types import Regions
from tests.unit.fake_server import FakeServer, picture


@pytest.fixture
def server() -> Iterator[FakeServer]:
    with FakeServer() as running:
        yield running


@pytest.fixture
def client(server: FakeServer) -> Iterator[Client]:
    with Client(server.target) as connected:
        yield connected


def unused_target() -> str:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return "{}:{}".format(*probe.getsockname())


def test_detect_tells_the_objects_of_a_path_or_bytes(client: Client, tmp_path: Path) -> None:
    path = tmp_path / "a.jpg"
    path.write_bytes(picture(100, 50))
    for image in (path, str(path), path.read_bytes()):
        result = client.detect(image)
        assert result.size_wh == (100, 50)
        assert [d.label for d in result.detections] == ["person", "dog"]
        assert result.detections[0].box_xyxy == (5, 0, 95, 50)
        assert result.detections[0].score == pytest.approx(0.9)
        assert result.timings_ms == {"detect": 1.5}
        assert not result.truncated


def test_embed_returns_an_array_a_row_a_region(client: Client) -> None:
    result = client.embed(picture())
    assert result.embeddings.dtype == np.float32
    assert result.embeddings.shape == (2, 4)
    assert result.embedder == "fake"
    row = result.to_dict()["detections"][0]["embedding"]
    np.testing.assert_array_equal(np.array(row, np.float32), result.embeddings[0])
    assert client.embed(picture(), classes=["dog"]).embeddings.shape == (1, 4)


def test_what_was_indexed_is_found_again(client: Client) -> None:
    items = [
        IndexItem(picture(), "a.jpg", metadata={"shop": "x"}),
        IndexItem(picture(), "b.mp4", time_s=1.5),
    ]
    outcomes = list(client.index_images(items, collection="mine"))
    assert [o.indexed.item_ids for o in outcomes if o.indexed] == [(1, 2), (3, 4)]
    assert [(o.position, o.source) for o in outcomes] == [(0, "a.jpg"), (1, "b.mp4")]

    result = client.search(picture(), collection="mine", top_k=3)
    found = result.detections[0].neighbors
    assert [n.item_id for n in found] == [4, 3, 2]
    assert (found[0].source, found[0].time_s, found[0].metadata) == ("b.mp4", 1.5, {})
    assert (found[2].source, found[2].time_s, found[2].metadata) == ("a.jpg", None, {"shop": "x"})
    assert found[0].similarity == 0.875
    assert result.index_sequence == 7
    assert result.embeddings is None
    assert [(c.name, c.dim, c.items) for c in client.collections()] == [("mine", 4, 4)]


def test_options_reach_the_server(server: FakeServer, client: Client) -> None:
    client.create_collection("c")
    client.search(
        picture(),
        collection="c",
        top_k=2,
        min_similarity=0.5,
        include_embeddings=True,
        regions=Regions.BOXES,
        boxes_xyxy=[(1, 2, 3, 4)],
        min_score=0.125,
        max_detections=9,
        classes=["dog"],
    )
    request = server.service.requests[-1]
    request.ClearField("image")
    assert request == pb.SearchRequest(
        collection="c",
        top_k=2,
        min_similarity=0.5,
        include_embeddings=True,
        options=pb.RegionOptions(
            regions=pb.REGIONS_BOXES,
            boxes=[pb.Box(x1=1, y1=2, x2=3, y2=4)],
            min_score=0.125,
            max_detections=9,
            classes=["dog"],
        ),
    )


def test_what_is_not_given_is_left_to_the_server(server: FakeServer, client: Client) -> None:
    client.detect(picture())
    request = server.service.requests[-1]
    assert not request.HasField("min_score")
    assert not request.HasField("max_detections")


def test_embeddings_of_a_search_are_given_when_asked_for(client: Client) -> None:
    client.create_collection("default")
    result = client.search(picture(), include_embeddings=True)
    assert result.embeddings is not None
    assert result.embeddings.shape == (2, 4)


@pytest.mark.parametrize(
    ("name", "message"),
    [("nope.jpg", "no such file"), (".", "expected a picture, got a folder")],
)
def test_a_path_that_is_no_file(client: Client, tmp_path: Path, name: str, message: str) -> None:
    path = tmp_path / name
    with pytest.raises(errors.InvalidInput, match=re.escape(f"{path}: {message}")):
        client.detect(path)


@pytest.mark.parametrize(
    "target", ["127.0.0.1", "http://127.0.0.1:1", "h:", "", "[::1]", "::1", ":1", "h:1\n"]
)
def test_an_address_that_is_none(target: str) -> None:
    wanted = re.escape(f"expected host:port, as 127.0.0.1:50051, got {target!r}")
    with pytest.raises(errors.InvalidInput, match=wanted):
        Client(target)


@pytest.mark.parametrize(
    "target", ["localhost:1", "[::1]:1", "h:https", "dns:///host", "unix:/x", "unix-abstract:x"]
)
def test_addresses(target: str) -> None:
    Client(target).close()


def test_an_address_with_tls_needs_no_port() -> None:
    Client("search.example.com", credentials=grpc.ssl_channel_credentials()).close()


def test_a_device_without_end_and_a_pipe(server: FakeServer, tmp_path: Path) -> None:
    with Client(server.target, max_message_bytes=2**21) as client:
        with pytest.raises(errors.InvalidInput, match=r"/dev/zero: expected at most \d+ bytes"):
            client.detect("/dev/zero")
        os.mkfifo(tmp_path / "pipe")
        threading.Thread(target=(tmp_path / "pipe").write_bytes, args=[picture()]).start()
        assert client.detect(tmp_path / "pipe").detections


def test_a_picture_larger_than_a_message_is_not_sent(server: FakeServer) -> None:
    limit = 2**20
    with Client(server.target, max_message_bytes=limit) as client:
        with pytest.raises(errors.InvalidInput, match=rf"at most \d+ bytes.*got {limit}"):
            client.detect(bytes(limit))
        assert server.service.requests == []


def test_an_answer_larger_than_a_message_says_what_to_do(server: FakeServer) -> None:
    server.service.items["default"] = [pb.Neighbor(source="x" * 2**20)]
    with (
        Client(server.target, max_message_bytes=2**20) as client,
        pytest.raises(errors.InvalidInput, match=r"larger than max.*raise max_message_bytes"),
    ):
        client.search(picture())


def test_a_picture_above_grpcs_own_limit_of_4_mib_passes(client: Client) -> None:
    noise = np.random.default_rng(0).integers(0, 256, (1400, 1400, 3), np.uint8)
    _, bmp = cv2.imencode(".bmp", noise)
    assert len(bmp) > 4 * 2**20
    assert client.detect(bmp.tobytes()).size_wh == (1400, 1400)


@pytest.mark.parametrize("target", [unused_target(), "no-such-host.invalid:50051"])
def test_no_server_says_how_to_start_one(target: str) -> None:
    with (
        Client(target) as client,
        pytest.raises(errors.NotReady, match=f"no cropseek server at {target}.*cropseek serve"),
    ):
        client.detect(picture())


def test_another_servers_error_says_so(server: FakeServer, client: Client) -> None:
    server.service.fail_with = (grpc.StatusCode.UNIMPLEMENTED, "Method not found!")
    with pytest.raises(errors.CropseekError, match="not this version's cropseek") as caught:
        client.detect(picture())
    assert caught.value.code == "UNIMPLEMENTED"


@pytest.mark.parametrize(
    ("code", "cls"),
    [
        ("INVALID_ARGUMENT", errors.InvalidInput),
        ("NOT_FOUND", errors.CollectionNotFound),
        ("FAILED_PRECONDITION", errors.EmbedderMismatch),
        ("RESOURCE_EXHAUSTED", errors.Overloaded),
        ("UNAVAILABLE", errors.NotReady),
        ("DEADLINE_EXCEEDED", errors.DeadlineExceeded),
        ("INTERNAL", errors.ModelFailed),
        ("UNKNOWN", errors.CropseekError),  # a code of no class
    ],
)
def test_a_status_becomes_an_error(
    server: FakeServer, client: Client, code: str, cls: type[errors.CropseekError]
) -> None:
    server.service.fail_with = (grpc.StatusCode[code], "what the server says")
    with pytest.raises(errors.CropseekError) as caught:
        client.detect(picture())
    assert type(caught.value) is cls
    assert caught.value.code == code
    assert str(caught.value) == "what the server says"


class _Entry(NamedTuple):
    key: str
    value: str


class _Failed(grpc.RpcError):
    def __init__(self, details: str, reason: str) -> None:
        self._details, self._reason = details, reason

    def code(self) -> grpc.StatusCode:
        return grpc.StatusCode.UNAVAILABLE

    def details(self) -> str:
        return self._details

    def trailing_metadata(self) -> Any:
        return (_Entry("cropseek-reason", self._reason),) if self._reason else ()


@pytest.mark.parametrize(
    ("reason", "message"),
    [
        ("NotReady", "Triton does not answer: recvmsg: Connection reset"),
        ("", "lost the connection to the server at here: "),
    ],
)
def test_a_connection_that_the_server_lost_is_not_ours(reason: str, message: str) -> None:
    error = _Failed("Triton does not answer: recvmsg: Connection reset", reason)
    assert str(to_cropseek_error(error, "here", None)).startswith(message)


def test_a_call_without_an_answer_ends(server: FakeServer) -> None:
    release = threading.Event()
    server.service.before_answer = release.wait  # type: ignore[assignment, method-assign]
    try:
        with (
            Client(server.target, timeout_s=0.1) as client,
            pytest.raises(errors.DeadlineExceeded, match=r"within 0\.1 s"),
        ):
            client.detect(picture())
    finally:
        release.set()


def test_a_stream_keeps_the_order_around_pictures_that_fail(
    server: FakeServer, client: Client, tmp_path: Path
) -> None:
    client.create_collection("default")
    missing = tmp_path / "missing.jpg"
    images: list[bytes | Path] = [
        missing,
        picture(10, 10),
        b"no picture",
        missing,
        picture(20, 20),
        missing,
    ]
    outcomes = list(client.search_stream(images))
    assert [o.position for o in outcomes] == [0, 1, 2, 3, 4, 5]
    assert [o.result and o.result.size_wh for o in outcomes] == [
        None, (10, 10), None, None, (20, 20), None,
    ]  # fmt: skip
    assert [o.error and o.error.code for o in outcomes] == [
        "INVALID_ARGUMENT", None, "INVALID_ARGUMENT", "INVALID_ARGUMENT", None, "INVALID_ARGUMENT",
    ]  # fmt: skip
    assert "no such file" in str(outcomes[3].error)


@pytest.mark.parametrize("images", [[], ["missing.jpg"]])
def test_a_stream_of_nothing_to_send(client: Client, images: list[str]) -> None:
    assert [o.error is None for o in client.search_stream(images)] == [False] * len(images)


def test_a_stream_raises_what_its_input_raises_after_the_answers(client: Client) -> None:
    def items() -> Iterator[IndexItem]:
        yield IndexItem(picture(), "a")
        yield IndexItem(picture(), "b")
        raise ZeroDivisionError("the caller's")

    sources = []
    with pytest.raises(ZeroDivisionError, match="the caller's"):  # noqa: PT012
        for outcome in client.index_images(items()):
            sources.append(outcome.source)
    assert sources == ["a", "b"]


def test_a_stream_that_the_server_refuses(server: FakeServer, client: Client) -> None:
    server.service.fail_with = (grpc.StatusCode.UNAVAILABLE, "stopping")
    with pytest.raises(errors.NotReady, match="stopping"):
        list(client.search_stream([picture()]))


def test_a_stream_reads_no_further_ahead_than_the_server(
    server: FakeServer, client: Client
) -> None:
    client.create_collection("default")
    release = threading.Event()
    server.service.before_answer = release.wait  # type: ignore[assignment, method-assign]
    taken = count()
    stuck = threading.Event()
    large = bytes(2**20)

    def images() -> Iterator[bytes]:
        for number in taken:
            if number == 3:
                stuck.set()
            if number == 200:
                return
            yield large

    outcomes = client.search_stream(images())
    reader = threading.Thread(target=lambda: list(outcomes))
    reader.start()
    try:
        assert stuck.wait(30)  # it reads ahead a little ...
        reader.join(0.5)
        assert next(taken) < 50  # ... and then waits for the server, 1 MiB a picture
    finally:
        release.set()
        reader.join(60)
    assert not reader.is_alive()


def test_leaving_a_stream_early_ends_it(client: Client) -> None:
    client.create_collection("default")
    outcomes = client.search_stream(picture() for _ in count())
    assert next(outcomes).position == 0
    assert next(outcomes).position == 1
    outcomes.close()  # type: ignore[attr-defined]
    assert client.detect(picture()).detections


def test_ready_and_not_ready(server: FakeServer, client: Client) -> None:
    client.wait_ready(0)
    assert client.health() == client.health("") == "SERVING"
    server.set_health("NOT_SERVING")
    with pytest.raises(errors.NotReady, match=f"the server at {server.target} is NOT_SERVING"):
        client.wait_ready(0)


def test_waiting_ends_when_the_server_gets_ready(server: FakeServer, client: Client) -> None:
    server.set_health("NOT_SERVING")
    threading.Timer(0.2, server.set_health, ["SERVING"]).start()
    client.wait_ready(60)


def test_waiting_for_nobody_says_so() -> None:
    with Client(unused_target()) as client, pytest.raises(errors.NotReady, match="no cropseek"):
        client.wait_ready(0)
