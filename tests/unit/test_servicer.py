"""The methods of cropseek.v1 over real gRPC, with a real catalog and a fake in Triton's place."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
import pytest
import pytest_asyncio

from cropseek.pb import cropseek_pb2 as pb
from cropseek.pb import cropseek_pb2_grpc as pb_grpc
from cropseek.rpc.interceptors import ErrorInterceptor
from cropseek.rpc.servicer import Servicer, in_order
from cropseek.types import PictureOptions, Regions
from tests.unit.catalog_builders import DIM, FINGERPRINT
from tests.unit.fake_triton import FakeEngine

WINDOW = 3


@pytest_asyncio.fixture
async def engine(tmp_path: Path) -> AsyncIterator[FakeEngine]:
    """The engine behind the service."""
    with FakeEngine(tmp_path) as made:
        yield made


@pytest_asyncio.fixture
async def stub(engine: FakeEngine) -> AsyncIterator[Any]:
    """The service's methods, over a loopback connection."""
    server = grpc.aio.server(interceptors=[ErrorInterceptor()])
    pb_grpc.add_CropseekServiceServicer_to_server(Servicer(engine, WINDOW, 2**20), server)  # type: ignore[no-untyped-call]
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
        yield pb_grpc.CropseekServiceStub(channel)  # type: ignore[no-untyped-call]
    await server.stop(None)


def sent(engine: FakeEngine) -> PictureOptions:
    """The options of the last picture that reached Triton."""
    return replace(engine.triton.calls[-1][1], alone=False)


async def index(stub: Any, *images: bytes, collection: str = "") -> list[pb.IndexImagesResponse]:
    """Index pictures as `0.jpg`, `1.jpg` and so on."""
    requests = [
        pb.IndexImagesRequest(image=image, source=f"{n}.jpg", collection=collection)
        for n, image in enumerate(images)
    ]
    return [answer async for answer in stub.IndexImages(iter(requests))]


async def fails(call: Any, code: grpc.StatusCode, text: str) -> None:
    """Await a call that must end with a code and a message."""
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await call
    assert caught.value.code() is code
    assert re.search(text, caught.value.details() or "")


# ---- one picture --------------------------------------------------------------------------------


async def test_detect(engine: FakeEngine, stub: Any) -> None:
    """Objects and no vectors: nothing is embedded."""
    answer = await stub.Detect(pb.DetectRequest(image=b"2", min_score=0.5, classes=["dog"]))
    assert answer.size == pb.Size(width=640, height=480)
    assert [(d.label, d.class_id, d.box.x1) for d in answer.detections] == [
        ("person", 0, 0),
        ("dog", 1, 1),
    ]
    assert answer.truncated
    assert answer.timings_ms["detect"] == 1.5
    assert sent(engine) == PictureOptions(min_score=0.5, class_ids=(1,), embed=False)
    assert engine.triton.calls[-1][2] is False


async def test_embed(engine: FakeEngine, stub: Any) -> None:
    """A vector each, and whose they are."""
    regions = pb.RegionOptions(regions=pb.REGIONS_WHOLE_PICTURE)
    answer = await stub.Embed(pb.EmbedRequest(image=b"3", options=regions))
    assert [len(detection.embedding) for detection in answer.detections] == [DIM] * 3
    assert answer.embedder == FINGERPRINT.name
    assert sent(engine) == PictureOptions(Regions.WHOLE_PICTURE)
    assert engine.triton.calls[-1][2] is True


async def test_a_picture_without_objects(engine: FakeEngine, stub: Any) -> None:
    """Is an answer without detections, for every method."""
    await engine.create_collection("default")
    assert not (await stub.Detect(pb.DetectRequest(image=b"0"))).detections
    assert not (await stub.Embed(pb.EmbedRequest(image=b"0"))).detections
    answer = await stub.Search(pb.SearchRequest(image=b"0"))
    assert answer.size.width == 640
    assert not answer.detections


@pytest.mark.parametrize(
    ("request_", "expected"),
    [
        pytest.param(
            pb.SearchRequest(image=b"1"), PictureOptions(top_k=5), id="the defaults: five"
        ),
        pytest.param(
            pb.SearchRequest(image=b"1", top_k=0, min_similarity=0),
            PictureOptions(top_k=0, min_similarity=0),
            id="zeros are zeros",
        ),
        pytest.param(
            pb.SearchRequest(
                image=b"1",
                top_k=9,
                min_similarity=0.5,
                options=pb.RegionOptions(regions=pb.REGIONS_WHOLE_PICTURE, min_score=0.75),
            ),
            PictureOptions(Regions.WHOLE_PICTURE, min_score=0.75, top_k=9, min_similarity=0.5),
            id="all set",
        ),
    ],
)
async def test_search_options(
    engine: FakeEngine, stub: Any, request_: pb.SearchRequest, expected: PictureOptions
) -> None:
    """An empty name is the collection `default`."""
    made = await engine.create_collection("default")
    await stub.Search(request_)
    assert sent(engine) == replace(expected, collection_id=made.id)


@pytest.mark.parametrize("include", [False, True], ids=["without vectors", "with vectors"])
async def test_search(engine: FakeEngine, stub: Any, include: bool) -> None:
    """Neighbours by name, vectors if asked for."""
    (indexed,) = await index(stub, b"2", collection="mine")
    engine.triton.item_ids = list(indexed.indexed.item_ids)
    engine.triton.sequence = 2
    request = pb.SearchRequest(image=b"1", collection="mine", include_embeddings=include)
    answer = await stub.Search(request)
    (detection,) = answer.detections
    assert [(n.source, n.label) for n in detection.neighbors] == [
        ("0.jpg", "person"),
        ("0.jpg", "dog"),
    ]
    assert len(detection.embedding) == (DIM if include else 0)
    assert answer.index_sequence == 2
    assert set(answer.timings_ms) == {"detect", "wait", "triton", "catalog", "total"}


@pytest.mark.parametrize(
    ("method", "request_", "code", "text"),
    [
        pytest.param(
            "Detect",
            pb.DetectRequest(image=b"bad"),
            grpc.StatusCode.INVALID_ARGUMENT,
            "image: expected a picture",
            id="a bad picture",
        ),
        pytest.param(
            "Detect",
            pb.DetectRequest(image=b"1", classes=["cat"]),
            grpc.StatusCode.INVALID_ARGUMENT,
            "classes: .* got 'cat'",
            id="a class there is not",
        ),
        pytest.param(
            "Embed",
            pb.EmbedRequest(image=b"1", options=pb.RegionOptions(regions=pb.REGIONS_BOXES)),
            grpc.StatusCode.INVALID_ARGUMENT,
            "boxes: expected at least one",
            id="no boxes",
        ),
        pytest.param(
            "Search",
            pb.SearchRequest(image=b"1", top_k=1001),
            grpc.StatusCode.INVALID_ARGUMENT,
            "top_k: .* got 1001",
            id="too many neighbours",
        ),
        pytest.param(
            "Search",
            pb.SearchRequest(image=b"1"),
            grpc.StatusCode.NOT_FOUND,
            "none named 'default'",
            id="nothing indexed yet",
        ),
        pytest.param(
            "CreateCollection",
            pb.CreateCollectionRequest(name="a/b"),
            grpc.StatusCode.INVALID_ARGUMENT,
            "collection: .*'a/b'",
            id="a name that cannot be one",
        ),
        pytest.param(
            "Detect",
            pb.DetectRequest(image=b"model"),
            grpc.StatusCode.INTERNAL,
            "^internal error [0-9a-f]{12}; the server's log says more$",
            id="a model's fault",
        ),
    ],
)
async def test_what_fails(
    stub: Any, method: str, request_: Any, code: grpc.StatusCode, text: str
) -> None:
    """Says the field, and never what is ours to know."""
    await fails(getattr(stub, method)(request_), code, text)


async def test_a_deadline_is_kept(engine: FakeEngine, stub: Any) -> None:
    """And once Triton has answered nothing is left in work."""
    engine.triton.gate.clear()
    call = stub.Detect(pb.DetectRequest(image=b"1"), timeout=0.05)
    await fails(call, grpc.StatusCode.DEADLINE_EXCEEDED, "")
    engine.triton.gate.set()
    while engine.triton.in_work:
        await asyncio.sleep(0.001)


async def test_collections(stub: Any) -> None:
    """Made once, listed with what they hold."""
    assert not (await stub.ListCollections(pb.ListCollectionsRequest())).collections
    empty = pb.Collection(name="b", embedder=FINGERPRINT.name, dim=DIM, items=0)
    for _ in range(2):
        assert await stub.CreateCollection(pb.CreateCollectionRequest(name="b")) == empty
    await index(stub, b"3", collection="a")
    full = pb.Collection(name="a", embedder=FINGERPRINT.name, dim=DIM, items=3)
    listed = await stub.ListCollections(pb.ListCollectionsRequest())
    assert list(listed.collections) == [full, empty]
    assert await stub.CreateCollection(pb.CreateCollectionRequest(name="a")) == full


# ---- streams ------------------------------------------------------------------------------------


async def test_an_empty_stream(stub: Any) -> None:
    """Has no answers."""
    assert await index(stub) == []
    assert [answer async for answer in stub.SearchStream(iter([]))] == []


async def test_index_images(engine: FakeEngine, stub: Any) -> None:
    """One answer a picture, in order; a bad one is an error and hurts no other."""
    answers = await index(stub, b"2", b"bad", b"0", b"bug", b"1")
    assert [(answer.position, answer.source) for answer in answers] == [
        (n, f"{n}.jpg") for n in range(5)
    ]
    assert [answer.WhichOneof("outcome") for answer in answers] == [
        "indexed",
        "error",
        "indexed",
        "error",
        "indexed",
    ]
    assert [len(answer.indexed.item_ids) for answer in answers] == [2, 0, 0, 0, 1]
    assert answers[0].indexed.sequence == 2
    assert answers[4].indexed.sequence == 3
    assert [d.label for d in answers[0].indexed.detections] == ["person", "dog"]
    assert answers[1].error == pb.Error(
        code="INVALID_ARGUMENT", message="image: expected a picture", reason="InvalidImage"
    )
    assert answers[3].error.code == "INTERNAL"
    assert "secret" not in answers[3].error.message
    assert [items for _, items in await engine.collections()] == [3]


async def test_index_images_keeps_what_came_with_the_picture(engine: FakeEngine, stub: Any) -> None:
    """Source, metadata and time; a time of 0 is one, none is none."""
    requests = [
        pb.IndexImagesRequest(image=b"1", source="f", time_s=0, metadata={"a": "b"}),
        pb.IndexImagesRequest(image=b"1", source="f"),
    ]
    answers = [answer async for answer in stub.IndexImages(iter(requests))]
    ids = [answer.indexed.item_ids[0] for answer in answers]
    items = engine.catalog.items(ids)
    assert [(items[n].source, items[n].time_s, items[n].metadata) for n in ids] == [
        ("f", 0.0, {"a": "b"}),
        ("f", None, {}),
    ]


async def test_search_stream(engine: FakeEngine, stub: Any) -> None:
    """As many searches, in order; one that is wrong in itself is an error among the answers."""
    await engine.create_collection("default")
    requests = [
        pb.SearchRequest(image=b"2"),
        pb.SearchRequest(image=b"bad"),
        pb.SearchRequest(image=b"1", top_k=5000),
        pb.SearchRequest(image=b"1", collection="nope"),
        pb.SearchRequest(image=b"1", include_embeddings=True),
    ]
    answers = [answer async for answer in stub.SearchStream(iter(requests))]
    assert [answer.position for answer in answers] == [0, 1, 2, 3, 4]
    assert [answer.error.code for answer in answers] == [
        "",
        "INVALID_ARGUMENT",
        "INVALID_ARGUMENT",
        "NOT_FOUND",
        "",
    ]
    assert [len(answer.result.detections) for answer in answers] == [2, 0, 0, 0, 1]
    assert len(answers[4].result.detections[0].embedding) == DIM


async def test_a_stream_is_worked_on_several_at_a_time(engine: FakeEngine, stub: Any) -> None:
    """As many as the window, and no more, however many are sent."""
    engine.triton.gate.clear()
    call = asyncio.create_task(index(stub, *[b"1"] * 20))
    while engine.triton.in_work < WINDOW:
        await asyncio.sleep(0.001)
    await asyncio.sleep(0.02)
    assert len(engine.triton.calls) == WINDOW
    engine.triton.gate.set()
    assert [answer.position for answer in await call] == list(range(20))
    assert engine.triton.most_at_once == WINDOW


async def test_a_stream_given_up_stops_its_work(engine: FakeEngine, stub: Any) -> None:
    """The pictures in work end, those behind them are never begun; the server goes on."""
    engine.triton.gate.clear()
    requests = (pb.IndexImagesRequest(image=b"1") for _ in range(1000))
    call = stub.IndexImages(requests)
    while engine.triton.in_work < WINDOW:
        await asyncio.sleep(0.001)
    call.cancel()
    await asyncio.sleep(0.05)
    engine.triton.gate.set()
    while engine.triton.in_work:
        await asyncio.sleep(0.001)
    assert len(engine.triton.calls) == WINDOW
    assert len(await index(stub, b"1")) == 1
    assert [items for _, items in await engine.collections()] == [1]


# ---- in_order -----------------------------------------------------------------------------------


async def numbers(values: Iterable[int]) -> AsyncIterator[int]:
    """An asynchronous stream."""
    for value in values:
        yield value
        await asyncio.sleep(0)


@pytest.mark.parametrize("window", [1, 2, 7, 100])
@pytest.mark.parametrize("count", [0, 1, 2, 20])
async def test_outcomes_come_in_the_order_of_requests(count: int, window: int) -> None:
    """Also if the later ones are done earlier."""

    async def work(n: int) -> int:
        for _ in range(3 * (count - n)):
            await asyncio.sleep(0)
        if n % 5 == 4:
            raise ValueError(f"{n}")
        return n * n

    outcomes = [
        pair async for pair in in_order(numbers(range(count)), work, window, asyncio.Event())
    ]
    assert [n for n, _ in outcomes] == list(range(count))
    for n, outcome in outcomes:
        if n % 5 == 4:
            assert isinstance(outcome, ValueError)
            assert str(outcome) == str(n)
        else:
            assert outcome == n * n


@pytest.mark.parametrize("window", [1, 3])
async def test_no_more_than_the_window_is_read(window: int) -> None:
    """A slow reader of answers slows the sender down; one that stops leaves no work behind."""
    begun: list[int] = []

    async def work(n: int) -> int:
        begun.append(n)
        return n

    outcomes = in_order(numbers(range(100)), work, window, asyncio.Event())
    async for n, _ in outcomes:
        for _ in range(20):
            await asyncio.sleep(0)
        assert len(begun) <= n + window
        if n == 10:
            break
    await outcomes.aclose()
    for _ in range(20):
        await asyncio.sleep(0)
    assert len(begun) <= 10 + window
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def test_a_sender_that_fails_ends_the_stream() -> None:
    """After the answers to what it had sent."""

    async def broken() -> AsyncIterator[int]:
        yield 1
        yield 2
        raise ConnectionError("gone")

    async def work(n: int) -> int:
        return n

    outcomes = in_order(broken(), work, 2, asyncio.Event())
    assert [await anext(outcomes) for _ in range(2)] == [(1, 1), (2, 2)]
    with pytest.raises(ConnectionError, match="gone"):
        await anext(outcomes)
