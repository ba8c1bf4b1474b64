"""Bad input gets one clear error; its neighbours and the server are unharmed."""

from __future__ import annotations

import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import psutil
import pytest
import tritonclient.grpc as triton
from PIL import Image
from tritonclient.utils import InferenceServerException

from cropseek.catalog import Catalog
from cropseek.client import Client
from cropseek.client.results import IndexItem
from cropseek.errors import (
    CollectionNotFound,
    DataDirInUse,
    InvalidInput,
    NotReady,
    SetupError,
)
from cropseek.rpc.server import RunningServer, running_server, serve
from cropseek.settings import Settings
from cropseek.triton.client import image_input
from cropseek.triton.launcher import TritonServer
from cropseek.types import Regions
from tests.builders import encoded, flat, noise

TRUNCATED = encoded(Image.fromarray(noise(64, 64)))[:-400]
BAD = [
    pytest.param(b"", "got 0 bytes", id="empty"),
    pytest.param(b"not a picture at all", "got 20 bytes of another kind", id="text"),
    pytest.param(b"<html>denied</html>", "another kind", id="html"),
    pytest.param(TRUNCATED, "whole JPEG of 64 x 64, got a damaged one", id="truncated"),
    pytest.param(b"\x89PNG\r\n\x1a\n", "whole PNG, got one", id="only the magic bytes"),
]


@pytest.mark.parametrize(("data", "message"), BAD)
def test_bytes_that_are_no_picture(
    client: Client, frames: list[bytes], data: bytes, message: str
) -> None:
    with pytest.raises(InvalidInput, match=message) as caught:
        client.detect(data)
    assert caught.value.code == "INVALID_ARGUMENT"
    client.create_collection("empty")
    stream = list(client.search_stream(iter([frames[0], data, frames[1]]), collection="empty"))
    assert [outcome.error is None for outcome in stream] == [True, False, True]
    assert stream[1].error is not None
    assert stream[1].error.code == "INVALID_ARGUMENT"
    kept = list(client.index_images(IndexItem(b) for b in (frames[0], data, frames[1])))
    assert [outcome.indexed is not None for outcome in kept] == [True, False, True]
    assert client.detect(frames[0]).detections


def test_a_tiny_picture_is_a_picture(client: Client) -> None:
    result = client.embed(flat(1, 1), regions=Regions.WHOLE_PICTURE)
    assert result.size_wh == (1, 1)
    assert result.embeddings.shape == (1, 1280)
    assert client.detect(flat(1, 1)).detections == ()


def test_a_collection_nobody_made(client: Client, frames: list[bytes]) -> None:
    with pytest.raises(CollectionNotFound, match="none named 'nowhere'"):
        client.search(frames[0], collection="nowhere")
    stream = list(client.search_stream(iter(frames[:2]), collection="nowhere"))
    assert [outcome.error.code for outcome in stream if outcome.error] == ["NOT_FOUND"] * 2


def test_a_bad_picture_makes_no_collection(client: Client, frames: list[bytes]) -> None:
    (outcome,) = client.index_images([IndexItem(b"x")], collection="never")
    assert outcome.error is not None
    with pytest.raises(CollectionNotFound):
        client.search(frames[0], collection="never")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"min_score": 1.5}, "min_score: expected a value from 0 to 1, got 1.5"),
        ({"min_score": float("nan")}, "min_score: expected"),
        ({"max_detections": 0}, "max_detections: expected a value from 1 to 300, got 0"),
        ({"classes": ["catt"]}, "classes: expected labels of the detector .* got 'catt'"),
    ],
)
def test_options_out_of_range(
    client: Client, frames: list[bytes], options: dict[str, object], message: str
) -> None:
    with pytest.raises(InvalidInput, match=message):
        client.detect(frames[0], **options)  # type: ignore[arg-type]


@pytest.mark.parametrize("box", [(5.0, 5.0, 5.0, 9.0), (9.0, 0.0, 1.0, 5.0)])
def test_boxes_that_are_none(
    client: Client, frames: list[bytes], box: tuple[float, float, float, float]
) -> None:
    with pytest.raises(InvalidInput, match=r"boxes\[0\]: expected finite x1 < x2 and y1 < y2"):
        client.embed(frames[0], regions=Regions.BOXES, boxes_xyxy=[box])


def test_nobody_listens() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        target = f"127.0.0.1:{unused.getsockname()[1]}"
        with Client(target, timeout_s=5) as client, pytest.raises(NotReady, match=target):
            client.detect(flat(8, 8))


def test_a_data_directory_in_use(tmp_path: Path) -> None:
    settings = Settings(data_dir=tmp_path)
    with running_server(settings), pytest.raises(DataDirInUse):
        with running_server(settings):
            pass


def test_a_port_in_use(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(SetupError, match=f"cannot listen on 127.0.0.1:{port}"):
            serve(Settings(data_dir=tmp_path, port=port))


@pytest.mark.parametrize("profile", ["t4", "a100", "h100"])
def test_a_profile_for_other_backends(tmp_path: Path, profile: str) -> None:
    settings = Settings(data_dir=tmp_path, profile=profile)
    with pytest.raises(SetupError, match=f"'{profile}': .*detector needs tensorrt"):
        with running_server(settings):
            pass


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        ("no.such.host.invalid", "an address"),
        ("\u00fc" * 64, "an address"),
        ("", "an address"),
        ("127.1", "an address"),
        ("0x7f000001", "an address"),
        ("192.0.2.1", "an address of this machine"),  # of nobody's: RFC 5737
        ("fe80::1", "an address of this machine"),  # no scope
    ],
)
def test_a_host_that_is_none(tmp_path: Path, host: str, expected: str) -> None:
    with pytest.raises(SetupError, match=f"host: expected {expected}, got '{host}'"):
        serve(Settings(data_dir=tmp_path, host=host))


def test_what_comes_past_the_service_is_told_what_is_wrong(server: RunningServer) -> None:
    """In the words of an invalid argument, and with no traceback."""
    picture = flat(8, 8)
    rows = triton.InferInput("IMAGE", [3, len(picture)], "UINT8")
    rows.set_data_from_numpy(np.repeat(np.frombuffer(picture, np.uint8)[None], 3, axis=0))
    with triton.InferenceServerClient(server.triton_target) as client:
        for model, wanted, parameters in (
            ("preprocess", rows, {}),
            ("image_search", image_input(picture), {}),
            ("image_search", image_input(picture), {"options": "{}"}),
            ("image_search", image_input(picture), {"options": 7}),
            ("image_search", image_input(picture), {"options": "[" * 100_000}),
        ):
            with pytest.raises(InferenceServerException) as caught:
                client.infer(model, [wanted], parameters=parameters)
            assert caught.value.status() == "StatusCode.INVALID_ARGUMENT"
            assert "expected" in str(caught.value)
            assert "Traceback" not in str(caught.value)


def test_a_data_directory_that_is_no_utf8(tmp_path: Path) -> None:
    """Triton's Python models could not be told of it."""
    settings = Settings(data_dir=Path(os.fsdecode(os.fsencode(tmp_path) + b"/d\xe9")))
    with pytest.raises(SetupError, match=r"data_dir: expected a path in UTF-8.*/d\\xe9/run"):
        with running_server(settings):
            pass


def test_a_tritonserver_that_is_none(tmp_path: Path) -> None:
    settings = Settings(data_dir=tmp_path, tritonserver=Path("/bin/false"))
    with pytest.raises(SetupError, match="TRITONSERVER: expected"), running_server(settings):
        pass


def test_a_model_that_does_not_load_says_why(tmp_path: Path) -> None:
    repository = tmp_path / "models"
    shutil.copytree(Settings().model_repository, repository)
    (repository / "preprocess" / "1" / "model.py").write_text("import nothing_of_that_name\n")
    settings = Settings(data_dir=tmp_path / "data", model_repository=repository)
    with (
        pytest.raises(NotReady, match="No module named 'nothing_of_that_name'"),
        running_server(settings),
    ):
        pass
    _assert_nothing_left(settings.data_dir)


def test_a_model_without_its_file_is_told_at_once(tmp_path: Path) -> None:
    """Triton itself would wait for that model's processes for ever."""
    repository = tmp_path / "models"
    shutil.copytree(Settings().model_repository, repository)
    (repository / "image_search" / "1" / "model.py").rename(repository / "model.py")
    settings = Settings(data_dir=tmp_path / "data", model_repository=repository)
    with (
        pytest.raises(NotReady, match=r"did not start:\n.* file not found in .*/image_search/1/"),
        running_server(settings),
    ):
        pass
    _assert_nothing_left(settings.data_dir)


def test_a_model_process_that_dies_ends_the_server(frames: list[bytes], tmp_path: Path) -> None:
    server = subprocess.Popen(
        [sys.executable, "-m", "cropseek", "serve", "--port", "0", "--data-dir", str(tmp_path)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert server.stdout is not None
    target = re.search(r"127\.0\.0\.1:\d+", server.stdout.readline())
    assert target is not None
    with Client(target[0]) as client:
        assert client.detect(frames[0]).detections
        for process in psutil.Process(server.pid).children(recursive=True):
            if any("/models/detector/" in argument for argument in process.cmdline()):
                process.kill()
        with pytest.raises(NotReady, match="a model's process has died"):
            client.detect(frames[0])
    _, errors = server.communicate(timeout=60)
    assert server.returncode == 1
    assert "a model's process has died" in errors
    _assert_nothing_left(tmp_path)


def test_a_stream_ends_in_order_when_the_server_stops(frames: list[bytes], tmp_path: Path) -> None:
    server = subprocess.Popen(
        [sys.executable, "-m", "cropseek", "serve", "--port", "0", "--data-dir", str(tmp_path)],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert server.stdout is not None
    target = re.search(r"127\.0\.0\.1:\d+", server.stdout.readline())
    assert target is not None
    told: list[int] = []
    with Client(target[0]) as client:
        stream = client.index_images(IndexItem(frames[0]) for _ in range(5000))
        first = next(stream)
        assert first.indexed is not None
        told += first.indexed.item_ids
        server.send_signal(signal.SIGTERM)
        with pytest.raises(NotReady, match="the server is stopping"):
            told.extend(i for kept in stream if kept.indexed for i in kept.indexed.item_ids)
    assert server.wait(30) == 0
    server.stdout.close()
    with Catalog(tmp_path) as catalog:
        assert list(catalog.items(told)) == told


def test_nothing_is_left_when_the_server_is_killed_at_work(
    frames: list[bytes], tmp_path: Path
) -> None:
    code = (
        "import time; from pathlib import Path\n"
        "from cropseek.rpc.server import running_server\n"
        "from cropseek.settings import Settings\n"
        f"with running_server(Settings(data_dir=Path({str(tmp_path)!r}))) as server:\n"
        "    print(server.target, flush=True); time.sleep(600)\n"
    )
    parent = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    with Client(parent.stdout.readline().strip()) as client:
        endless = (IndexItem(frame) for _ in range(1000) for frame in frames)
        stream = client.index_images(endless)
        next(stream)
        assert _processes(tmp_path)
        os.kill(parent.pid, signal.SIGKILL)
        with pytest.raises(NotReady):
            list(stream)
    parent.wait()
    parent.stdout.close()
    _assert_nothing_left(tmp_path)


def _assert_nothing_left(data_dir: Path) -> None:
    """Wait for the models' processes to notice, then look for them and their shared memory."""
    prefix = TritonServer(Settings(data_dir=data_dir)).shm_prefix
    deadline = time.monotonic() + 60
    while (_processes(data_dir) or _regions(prefix)) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert _processes(data_dir) == []
    assert _regions(prefix) == []


def _regions(prefix: str) -> list[str]:
    return [path.name for path in Path("/dev/shm").iterdir() if prefix in path.name]


def _processes(data_dir: Path) -> list[int]:
    """Return the live processes whose command line names the directory."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                command = (entry / "cmdline").read_bytes()
            except OSError:
                continue
            if str(data_dir / "run").encode() in command:
                found.append(int(entry.name))
    return found
