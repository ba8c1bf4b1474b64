from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

import cv2
import grpc
import numpy as np
import pytest
from typer.testing import CliRunner

from cropseek.cli import app
from cropseek.cli.failures import print_error
from cropseek.cli.inputs import Picture
from cropseek.cli.show import _common_folder, print_detections, print_neighbors
from cropseek.client import Client
from cropseek.client.results import (
    Detection,
    DetectResult,
    IndexOutcome,
    Neighbor,
    SearchResult,
)
from cropseek.triton import machine
from cropseek.vision.decode import decode_image
from tests.unit.fake_server import FakeServer, picture
from tests.unit.test_client import unused_target
from tests.unit.test_video import numbered, write_video

COMMANDS = ("demo", "serve", "index", "search", "detect", "embed", "draw", "doctor")


class Ran:
    """What a command left: its exit code, its output as text, lines, or JSON."""

    def __init__(self, code: int, out: str, err: str) -> None:
        self.code, self.out, self.err = code, out, err

    @property
    def documents(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.out.splitlines()]

    @property
    def errors(self) -> list[str]:
        return self.err.splitlines()


def run(*args: str | Path) -> Ran:
    result = CliRunner().invoke(app, [str(arg) for arg in args])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return Ran(result.exit_code, result.stdout, result.stderr)


@pytest.fixture
def server() -> Iterator[FakeServer]:
    with FakeServer() as running:
        yield running


@pytest.fixture
def there(server: FakeServer) -> Callable[..., Ran]:
    """Runs a command against the fake server."""
    return lambda *args: run(*args, "--server", server.target)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder: good pictures, bad ones, and what is no picture."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "good" / "deeper").mkdir(parents=True)
    (tmp_path / "good" / "b.JPG").write_bytes(picture(40, 30))
    (tmp_path / "good" / "a.png").write_bytes(picture(80, 60))
    (tmp_path / "good" / "deeper" / "c.jpeg").write_bytes(picture(20, 10))
    (tmp_path / "good" / "notes.txt").write_text("not a picture")
    (tmp_path / "good" / "._b.JPG").write_bytes(b"what macOS leaves on other systems' disks")
    (tmp_path / "text.jpg").write_text("text")
    (tmp_path / "empty.jpg").write_bytes(b"")
    (tmp_path / "nothing").mkdir()
    return tmp_path


def test_detect_prints_a_line_a_picture(there: Callable[..., Ran]) -> None:
    ran = there("detect", "good/a.png", "good/b.JPG", "--json")
    assert (ran.code, ran.err) == (0, "")
    assert [d["image"] for d in ran.documents] == ["good/a.png", "good/b.JPG"]
    assert ran.documents[0] == {
        "image": "good/a.png",
        "width": 80,
        "height": 60,
        "detections": [
            {"box": [4.0, 0.0, 76.0, 60.0], "score": 0.9, "label": "person", "class_id": 0},
            {"box": [1.25, 2.0, 40.0, 30.0], "score": 0.4, "label": "dog", "class_id": 16},
        ],
    }


def test_folders_are_walked_in_order_and_other_files_left_out(there: Callable[..., Ran]) -> None:
    ran = there("detect", "good", "--json")
    names = [d["image"] for d in ran.documents]
    assert names == ["good/a.png", "good/b.JPG", "good/deeper/c.jpeg"]
    assert ran.code == 0


def test_a_bad_picture_costs_its_neighbours_nothing(there: Callable[..., Ran]) -> None:
    images = ["good/a.png", "text.jpg", "missing.jpg", "nothing", "empty.jpg", "good/b.JPG"]
    ran = there("detect", *images, "--json")
    assert ran.code == 1
    assert [d["image"] for d in ran.documents] == ["good/a.png", "good/b.JPG"]
    assert [line.split(": ")[:2] for line in ran.errors] == [
        ["cropseek", name] for name in images[1:5]
    ]
    assert ran.errors[1] == "cropseek: missing.jpg: no such file"
    assert ran.errors[2] == "cropseek: nothing: no pictures or videos in this folder"
    assert "expected a picture (JPEG" in ran.errors[0]
    assert "got 0 bytes" in ran.errors[3]


def test_a_file_named_explicitly_is_tried_whatever_its_name(there: Callable[..., Ran]) -> None:
    Path("photo").write_bytes(picture())
    assert there("detect", "photo").code == 0
    assert there("detect", "good/notes.txt").errors[0].startswith("cropseek: good/notes.txt: ")


def test_many_pictures_come_in_order_with_few_at_once(
    server: FakeServer, there: Callable[..., Ran], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cropseek.triton.cores.usable_cores", lambda: 2)
    for number in range(20):
        Path(f"{number:02}.jpg").write_bytes(picture(10 + number, 10))
    lock, active, most = threading.Lock(), 0, 0
    two = threading.Event()

    def count_active() -> None:
        nonlocal active, most
        with lock:
            active += 1
            most = max(most, active)
            if active == 2:
                two.set()
        assert two.wait(30)  # a client that sends one at a time fails here
        with lock:
            active -= 1

    server.service.before_answer = count_active  # type: ignore[method-assign]
    ran = there("detect", *(f"{n:02}.jpg" for n in range(20)), "--json")
    assert [d["width"] for d in ran.documents] == list(range(10, 30))
    assert 2 <= most <= 4


def test_detect_passes_its_options_on(server: FakeServer, there: Callable[..., Ran]) -> None:
    there("detect", "good/a.png", "--min-score", "0.5", "--max-detections", "7",
          "--classes", "dog, person")  # fmt: skip
    request = server.service.requests[-1]
    assert request.min_score == 0.5
    assert request.max_detections == 7
    assert list(request.classes) == ["dog", "person"]


def test_index_then_search(there: Callable[..., Ran], folder: Path) -> None:
    ran = there("index", "good", "--metadata", "shop=x", "--metadata", "note=a=b", "--json")
    assert (ran.code, ran.err) == (0, "")
    assert ran.documents == [{"images": 3, "items": 6, "failed": []}]

    ran = there("search", "good/a.png", "good/b.JPG", "--top-k", "1", "--json")
    assert ran.code == 0
    assert [d["image"] for d in ran.documents] == ["good/a.png", "good/b.JPG"]
    assert ran.documents[0] == {
        "image": "good/a.png",
        "detections": [
            {
                "box": box,
                "score": score,
                "label": label,
                "neighbors": [
                    {
                        "id": 6,
                        "score": 0.875,
                        "source": str(folder / "good" / "deeper" / "c.jpeg"),
                        "box": [1.25, 2.0, 10.0, 5.0],
                        "label": "dog",
                        "metadata": {"shop": "x", "note": "a=b"},
                    }
                ],
            }
            for box, score, label in [
                ([4.0, 0.0, 76.0, 60.0], 0.9, "person"),
                ([1.25, 2.0, 40.0, 30.0], 0.4, "dog"),
            ]
        ],
        "index_sequence": 7,
        "timings_ms": {"total": 2.25},
    }


def test_index_tells_what_failed(there: Callable[..., Ran]) -> None:
    ran = there("index", "text.jpg", "good", "missing.jpg", "nothing", "--json")
    assert ran.code == 1
    document = ran.documents[-1]
    assert (document["images"], document["items"]) == (3, 6)
    assert {row["image"]: row["code"] for row in document["failed"]} == {
        "text.jpg": "INVALID_ARGUMENT",
        "missing.jpg": "INVALID_ARGUMENT",
        "nothing": "INVALID_ARGUMENT",
    }
    assert len(ran.errors) == 3
    assert {row["message"] for row in document["failed"]} >= {"no such file"}


@pytest.mark.parametrize("as_json", [True, False])
def test_index_tells_what_was_kept_before_the_server_went(
    server: FakeServer, there: Callable[..., Ran], as_json: bool
) -> None:
    asked = 0

    def go_at_the_third() -> None:
        nonlocal asked
        asked += 1
        if asked == 3:
            server.service.fail_with = (grpc.StatusCode.UNAVAILABLE, "stopping")

    server.service.before_answer = go_at_the_third  # type: ignore[method-assign]
    ran = there("index", "missing.jpg", "good", *(["--json"] if as_json else []))
    assert ran.code == 1
    assert ran.errors == [
        "cropseek: missing.jpg: no such file",
        "cropseek: stopped before the end; what was indexed so far is kept",
        "cropseek: stopping",
    ]
    if as_json:
        (document,) = ran.documents
        assert (document["images"], document["items"]) == (2, 4)
        assert [row["image"] for row in document["failed"]] == ["missing.jpg"]
    else:
        assert "4 objects of 2 pictures" in ran.out


def test_index_names_a_source_by_its_absolute_path(
    server: FakeServer, there: Callable[..., Ran], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    there("index", "good/a.png")
    monkeypatch.chdir("good")
    there("index", "../good/a.png", "--collection", "other", "--regions", "both")
    sources = {request.source for request in server.service.requests}
    assert sources == {str(folder / "good" / "a.png")}
    assert server.service.requests[-1].collection == "other"
    assert server.service.requests[-1].options.regions == 3


def test_videos_are_sampled_and_tell_the_time(there: Callable[..., Ran]) -> None:
    write_video(Path("v.mp4"), numbered(30))
    ran = there("index", "v.mp4", "--fps", "2", "--json")
    assert ran.documents == [{"images": 6, "items": 12, "failed": []}]
    ran = there("search", "v.mp4", "--top-k", "1", "--json")
    assert [(d["image"], d["time_s"]) for d in ran.documents] == [
        ("v.mp4", 0.0), ("v.mp4", 1.0), ("v.mp4", 2.0),
    ]  # fmt: skip
    assert ran.documents[0]["detections"][0]["neighbors"][0]["time_s"] == 2.5


def test_a_video_that_cannot_be_read(there: Callable[..., Ran]) -> None:
    Path("v.mp4").write_text("not a video")
    ran = there("index", "v.mp4", "good", "--json")
    assert ran.code == 1
    assert ran.documents[0]["images"] == 3
    assert len(ran.errors) == 1
    assert ran.errors[0].startswith("cropseek: v.mp4: cannot be read as a video")


def test_a_collection_that_is_not_there_is_said_once(there: Callable[..., Ran]) -> None:
    ran = there("search", "good", "--collection", "none")
    assert ran.code == 1
    assert ran.errors == ["cropseek: collection: there is none named 'none'"]


def test_embed_prints_vectors(there: Callable[..., Ran]) -> None:
    ran = there("embed", "good/a.png")
    assert ran.code == 0
    row = ran.documents[0]["detections"][1]
    assert row["label"] == "dog"
    np.testing.assert_array_equal(
        np.array(row["embedding"], np.float32), np.array([0.0, 0.6, 0.8, 0.1], np.float32)
    )


def test_embed_writes_arrays_of_what_could_be_read(there: Callable[..., Ran]) -> None:
    ran = there("embed", "good/a.png", "text.jpg", "good/b.JPG", "-o", "v.npz", "--json")
    assert ran.code == 1
    assert ran.documents == [{"output": "v.npz", "vectors": 4, "dim": 4}]
    with np.load("v.npz") as arrays:
        assert arrays["embeddings"].shape == (4, 4)
        assert arrays["boxes_xyxy"].shape == (4, 4)
        assert arrays["images"].tolist() == ["good/a.png"] * 2 + ["good/b.JPG"] * 2
        assert arrays["labels"].tolist() == ["person", "dog"] * 2
        assert arrays["scores"].dtype == np.float32
        assert np.isnan(arrays["times_s"]).all()


def test_embed_of_nothing_is_an_empty_file(there: Callable[..., Ran]) -> None:
    assert there("embed", "text.jpg", "-o", "v.npz").code == 1
    with np.load("v.npz") as arrays:
        assert arrays["embeddings"].shape == (0, 0)


@pytest.mark.parametrize("name", ["out.jpg", "out.png"])
def test_draw_writes_an_annotated_picture(there: Callable[..., Ran], name: str) -> None:
    ran = there("draw", "good/a.png", "-o", name, "--json")
    assert ran.code == 0
    assert ran.documents[0]["output"] == name
    assert len(ran.documents[0]["detections"]) == 2
    drawn, plain = (decode_image(Path(p).read_bytes()) for p in (name, "good/a.png"))
    assert drawn.shape == plain.shape
    assert cv2.absdiff(drawn, plain).max() > 50


def test_draw_has_a_name_for_its_output(there: Callable[..., Ran]) -> None:
    assert there("draw", "good/a.png").out == "a-detections.jpg: 2 objects\n"
    assert Path("a-detections.jpg").is_file()


@pytest.mark.parametrize("output", ["nowhere/out.jpg", "out.unknown"])
def test_draw_says_where_it_cannot_write(there: Callable[..., Ran], output: str) -> None:
    ran = there("draw", "good/a.png", "-o", output)
    assert ran.code == 1
    assert len(ran.errors) == 1
    assert ran.errors[0].startswith(f"cropseek: cannot write {output}: ")


@pytest.mark.parametrize("command", ["detect", "search", "index", "embed", "draw"])
def test_a_wrong_address_is_one_line(command: str) -> None:
    target = unused_target()
    ran = run(command, "good/a.png", "--server", target)
    assert ran.code == 1
    assert ran.out == ""
    assert ran.errors == [
        f"cropseek: no cropseek server at {target}; start one with `cropseek serve`, or use --local"
    ]


def test_a_server_that_is_not_ready_is_one_line(
    server: FakeServer, there: Callable[..., Ran]
) -> None:
    server.set_health("NOT_SERVING")
    ran = there("detect", "good/a.png")
    assert ran.code == 1
    assert ran.errors == [f"cropseek: the server at {server.target} is not ready: NOT_SERVING"]


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["detect"], "Missing argument"),
        (["detect", "a.jpg", "--min-score", "2"], "--min-score"),
        (["detect", "a.jpg", "--max-detections", "0"], "--max-detections"),
        (["detect", "a.jpg", "--fps", "0"], "above 0"),
        (["detect", "a.jpg", "--fps", "nan"], "above 0"),
        (["search", "a.jpg", "--top-k", "0"], "--top-k"),
        (["search", "a.jpg", "--regions", "some"], "--regions"),
        (["index", "a.jpg", "--metadata", "novalue"], "KEY=VALUE"),
        (["index", "a.jpg", "--metadata", "=value"], "KEY=VALUE"),
        (["detect", "a.jpg", "--local", "--server", "x:1"], "not both"),
        (["detect", "a.jpg", "--data-dir", "d"], "--local"),
        (["draw", "good"], "directory"),
        (["unknown"], "unknown"),
        (["detect", "a.jpg", "--unknown"], "--unknown"),
    ],
)
def test_wrong_usage_is_exit_code_2(args: list[str], words: str) -> None:
    ran = run(*args)
    assert ran.code == 2
    assert ran.out == ""
    assert words in re.sub(r"\W*\n\W*", " ", ran.err)


def test_draw_takes_no_video() -> None:
    write_video(Path("v.mp4"), numbered(2))
    assert run("draw", "v.mp4").code == 2


def test_tables_fit_80_columns(
    there: Callable[..., Ran], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    write_video(folder / "v.mp4", numbered(30))
    long = folder / ("a-long-folder-name" * 6)
    long.mkdir()
    (long / "picture.jpg").write_bytes(picture())
    there("index", folder / "v.mp4", long)
    for args in (["detect", "good"], ["search", "good/a.png"]):
        ran = there(*args)
        assert ran.code == 0
        assert max(map(len, ran.out.splitlines())) <= 80
    assert "person 0.90" in ran.out
    assert "v.mp4 at 2.00 s" in ran.out
    assert "0.875" in ran.out


def test_the_folder_that_all_sources_are_in_is_said_once(there: Callable[..., Ran]) -> None:
    there("index", "good")
    _, told, header, *rows = there("search", "good/a.png").out.splitlines()
    assert told == "look-alikes are in good/"
    assert header.split() == ["object", "similarity", "found", "in", "as"]
    assert {row.split("0.875")[1].split()[0] for row in rows} == {"a.png", "b.JPG", "deeper/c.jpeg"}


@pytest.mark.parametrize(
    ("sources", "folder"),
    [
        (["/a/b/x.jpg", "/a/b/c/y.jpg"], "/a/b/"),
        (["/a/x.jpg"], "/a/"),
        (["/a/x.jpg", "/b/y.jpg"], ""),
        (["http://one/x.jpg", "http://two/y.jpg"], ""),
        (["shop/", "shop/x.jpg"], ""),
        (["x.jpg", "y.jpg"], ""),
        ([], ""),
    ],
)
def test_the_common_folder(sources: list[str], folder: str) -> None:
    assert _common_folder(sources) == folder


def test_a_folder_is_no_markup(folder: Path, there: Callable[..., Ran]) -> None:
    odd = folder / "x [red] y" / "[" / "red]"
    odd.mkdir(parents=True)
    (odd / "a.png").write_bytes(picture())
    there("index", odd)
    assert "are in x [red] y/[/red]/\n" in there("search", "good/a.png").out


def test_where_nothing_is_found_it_says_what_might(
    there: Callable[..., Ran], capsys: pytest.CaptureFixture[str]
) -> None:
    assert "--min-score" in there("detect", "good/a.png", "--min-score", "1").out
    print_neighbors(Picture("a.png"), SearchResult((80, 60), (), {}, False, 7))
    assert "--regions whole-picture" in capsys.readouterr().out


def test_a_search_without_neighbours(server: FakeServer, there: Callable[..., Ran]) -> None:
    server.service.items["default"] = []
    ran = there("search", "good/a.png")
    assert ran.code == 0
    assert ran.out.count("nothing like it") == 2


def test_names_that_are_not_utf8(there: Callable[..., Ran]) -> None:
    """They are told apart."""
    for name in (b"caf\xe9.jpg", b"caf\xe8.jpg"):
        Path(os.fsdecode(name)).write_bytes(picture())
    ran = there("index", ".", "--json")
    assert ran.documents[0]["images"] == 5
    names = [document["image"] for document in there("detect", ".", "--json").documents]
    assert {r"caf\xe8.jpg", r"caf\xe9.jpg"} <= {*names}
    video = Path(os.fsdecode(b"v\xe9.mp4"))
    write_video(Path("v.mp4"), numbered(2))
    Path("v.mp4").rename(video)
    assert there("detect", video, "--json").documents[0]["image"] == r"v\xe9.mp4"


def test_a_current_folder_whose_name_is_no_utf8(
    folder: Path, there: Callable[..., Ran], monkeypatch: pytest.MonkeyPatch
) -> None:
    here = Path(os.fsdecode(os.fsencode(folder) + b"/caf\xe9"))
    here.mkdir()
    (here / "a.png").write_bytes(picture())
    monkeypatch.chdir(here)
    assert there("index", "a.png").code == 0
    ran = there("search", "a.png", "--json")
    assert ran.documents[0]["detections"][0]["neighbors"][0]["source"] == rf"{folder}/caf\xe9/a.png"
    assert str(folder) not in there("search", "a.png").out  # short, as of any current folder


def test_names_are_no_orders_to_the_terminal(folder: Path, there: Callable[..., Ran]) -> None:
    odd = folder / "x\x1b[31m\ny"
    odd.mkdir()
    (odd / "a\x1b]0;b\u202e.png").write_bytes(picture())
    (odd / "bad\x1b[2J.png").write_bytes(b"")
    ran = there("index", odd)
    assert len(ran.errors) == 1
    assert r"x\x1b[31m\ny/bad\x1b[2J.png: image" in ran.err
    out = there("search", odd / "a\x1b]0;b\u202e.png").out
    assert "\x1b" not in out
    assert r"look-alikes are in x\x1b[31m\ny/" in out
    assert r"a\x1b]0;b\u202e.png" in out
    drawn = there("draw", odd / "a\x1b]0;b\u202e.png").out
    assert drawn == "a\\x1b]0;b\\u202e-detections.jpg: 2 objects\n"
    assert there("embed", "good", "-o", "v\x1b[31m.npz").out == "6 vectors in v\\x1b[31m.npz\n"


def test_labels_are_no_orders_to_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    box = (0.0, 0.0, 1.0, 1.0)
    alike = Neighbor(1, 0.5, "s.png", None, box, "cat\x1b[2J[bold]", 0.9, {})
    for neighbors in ((), (alike,)):
        found = Detection(box, 0.9, "dog\x1b[2J[bold]", 0, neighbors)
        print_detections(Picture("a.png"), DetectResult((1, 1), (found,), {}, False))
        print_neighbors(Picture("a.png"), SearchResult((1, 1), (found,), {}, False, 7))
    out = capsys.readouterr().out
    assert out.count(r"dog\x1b[2J[bold]") == 4
    assert r"cat\x1b[2J[bold] 0.90" in out


def test_names_that_people_use_are_shown_as_they_are(
    folder: Path, there: Callable[..., Ran]
) -> None:
    """As macOS names its screenshots, and joined emoji."""
    name = "Screenshot at 1.00\u202fPM \U0001f468\u200d\U0001f469.png"
    (folder / name).write_bytes(picture())
    assert there("detect", name).out.startswith(name)


@pytest.mark.parametrize(
    "arguments",
    [
        ("index", "good", "--collection", "n\udce9"),
        ("index", "good", "--metadata", "a\udce9=b"),
        ("detect", "good", "--classes", "a\udce9"),
        ("detect", "good", "--server", "h\udce9:1"),
        ("draw", "good/a.png", "-o", "no\n\udce9/x.jpg"),
    ],
    ids=lambda arguments: arguments[2],
)
def test_arguments_that_are_no_text_are_one_line(
    server: FakeServer, arguments: tuple[str, ...]
) -> None:
    there = () if "--server" in arguments else ("--server", server.target)
    ran = run(*arguments, *there)
    assert ran.code == 1
    assert len(ran.errors) == 1
    assert ran.errors[0].startswith("cropseek: ")
    assert r"\udce9" in ran.err or r"\xe9" in ran.err


def test_a_collection_is_no_order_to_the_terminal(there: Callable[..., Ran]) -> None:
    ran = there("index", "good", "--collection", "n\n\x1b[31m")
    assert r"in collection n\n\x1b[31m, " in ran.out


def test_a_current_folder_that_is_gone(
    there: Callable[..., Ran], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    there("index", folder / "good")
    gone = folder / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    assert there("search", folder / "good" / "a.png").code == 0
    ran = there("index", "a.png")
    assert ran.errors == ["cropseek: the current folder has been deleted"]
    ran = run("repo", "check", ".")
    assert ran.errors == ["cropseek: the current folder has been deleted"]


def test_index_stopped_by_ctrl_c_tells_what_it_kept(
    there: Callable[..., Ran], monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = Client.index_images

    def stopped_after_two(*arguments: Any, **options: Any) -> Iterator[IndexOutcome]:
        yield from islice(whole(*arguments, **options), 2)
        raise KeyboardInterrupt

    monkeypatch.setattr(Client, "index_images", stopped_after_two)
    ran = there("index", "good", "--json")
    assert ran.code == 130
    assert ran.documents == [{"images": 2, "items": 4, "failed": []}]
    assert ran.errors == ["cropseek: stopped before the end; what was indexed so far is kept"]


def test_what_failed_is_told_also_when_the_server_goes(
    server: FakeServer, there: Callable[..., Ran]
) -> None:
    server.service.fail_with = (grpc.StatusCode.UNAVAILABLE, "stopping")
    ran = there("index", "missing.jpg", "good", "--json")
    assert [row["image"] for row in ran.documents[0]["failed"]] == ["missing.jpg"]


def test_blanks_in_a_name_are_kept(there: Callable[..., Ran]) -> None:
    ran = there("index", "a  b.jpg", "--json")
    assert ran.errors == ["cropseek: a  b.jpg: no such file"]
    assert ran.documents[0]["failed"][0]["message"] == "no such file"


def test_an_error_of_several_lines_keeps_them(capsys: pytest.CaptureFixture[str]) -> None:
    print_error("the end\nof its log:", "E one\x1b[2J\nE two")
    assert capsys.readouterr().err == "cropseek: the end\\nof its log:\nE one\\x1b[2J\nE two\n"


@pytest.mark.parametrize("columns", [40, 46, 54])
def test_where_a_look_alike_is_has_room(
    there: Callable[..., Ran], monkeypatch: pytest.MonkeyPatch, columns: int
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    there("index", "good", "--regions", "whole-picture")
    out = there("search", "good/a.png", "--regions", "whole-picture").out
    assert "a.png" in "".join(out.splitlines()[3:])


def test_an_error_of_the_whole_command_is_told_once_while_many_are_sent(
    server: FakeServer, there: Callable[..., Ran]
) -> None:
    import grpc

    server.service.fail_with = (grpc.StatusCode.UNAVAILABLE, "the server is stopping")
    for command in ("detect", "search", "index", "embed"):
        ran = there(command, "good")
        assert ran.code == 1
        assert ran.errors == ["cropseek: the server is stopping"]
        assert ran.out == ""


def test_doctor_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    good = machine.Check("numpy", True, "1.26.4")
    bad = replace(good, name="python", ok=False, detail="3.14", remedy="use Python 3.12")
    monkeypatch.setattr(machine, "check_machine", lambda settings: [good])
    ran = run("doctor", "--json")
    assert ran.code == 0
    assert ran.documents[0]["ok"] is True
    assert ran.documents[0]["checks"][0]["name"] == "numpy"
    monkeypatch.setattr(machine, "check_machine", lambda settings: [good, bad])
    ran = run("doctor")
    assert ran.code == 1
    assert "use Python 3.12" in ran.out
    assert run("doctor", "--json").documents[0]["ok"] is False


def test_a_wrong_setting_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CROPSEEK_PORT", "many")
    ran = run("serve")
    assert ran.code == 1
    assert len(ran.errors) == 1
    assert "setting port" in ran.errors[0]


def test_help_lists_every_command_and_is_quick() -> None:
    ran = run("--help")
    assert ran.code == 0
    for command in COMMANDS:
        assert re.search(rf"^\W*{command} ", ran.out, re.MULTILINE)
        assert run(command, "--help").code == 0
        assert "--json" in run(command, "--help").out
    assert run("--version").out.startswith("cropseek 0")
    heavy = "numpy cv2 av grpc PIL google.protobuf pydantic".split()
    code = f"import sys, cropseek.cli; print([m for m in {heavy} if m in sys.modules])"
    assert subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout == "[]\n"  # fmt: skip


def start(*args: str | Path, **options: Any) -> subprocess.Popen[str]:
    # A parent in a shell's background hands down that SIGINT is ignored.
    code = (
        "import signal; signal.signal(signal.SIGINT, signal.default_int_handler);"
        "from cropseek.cli import main; main()"
    )
    return subprocess.Popen(
        [sys.executable, "-c", code, *map(str, args)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        **options,
    )


def test_what_a_terminal_cannot_show_is_no_error(server: FakeServer) -> None:
    name = os.fsdecode(b"caf\xe9.jpg")
    Path(name).write_bytes(picture())
    with start("draw", name, "--server", server.target) as process:
        out, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (0, "")
    assert out == "caf\\xe9-detections.jpg: 2 objects\n"
    ascii_only = {**os.environ, "PYTHONIOENCODING": "ascii"}
    with start("detect", "日本.jpg", "--server", server.target, env=ascii_only) as process:
        out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (1, "")
    assert err == "cropseek: \\u65e5\\u672c.jpg: no such file\n"


def test_a_reader_that_leaves_is_no_error(server: FakeServer) -> None:
    for number in range(200):
        Path(f"{number:03}.jpg").write_bytes(picture(10, 10))
    names = [f"{number:03}.jpg" for number in range(200)]
    process = start("detect", *names, "--json", "--server", server.target)
    assert process.stdout is not None
    assert process.stderr is not None
    with process:
        assert json.loads(process.stdout.readline())["image"] == "000.jpg"
        process.stdout.close()
        assert process.stderr.read() == ""
    assert process.returncode == 141


@pytest.mark.parametrize("command", ["detect", "search", "index"])
def test_ctrl_c_is_quiet(server: FakeServer, command: str) -> None:
    working, release = threading.Event(), threading.Event()

    def wait() -> None:
        working.set()
        release.wait()

    server.service.before_answer = wait  # type: ignore[method-assign]
    with start(command, "good", "--server", server.target) as process:
        try:
            assert working.wait(60)
            process.send_signal(signal.SIGINT)
            out, err = process.communicate(timeout=60)
        finally:
            release.set()
            process.kill()
    assert (process.returncode, out, err) == (130, "", "")
