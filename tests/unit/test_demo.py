from __future__ import annotations

import json
import re
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path

import pytest
from typer.testing import CliRunner

from cropseek.cli import app
from cropseek.client import Client, Detection, Neighbor
from cropseek.demo import (
    BIKES,
    CARPHONE,
    QUERY_FRAME,
    Demo,
    FoundObject,
    Frame,
    LookAlike,
    run_demo,
    write_demo,
)
from cropseek.errors import InvalidInput
from cropseek.vision.decode import decode_image
from cropseek.web.page import render_page
from tests.unit.fake_server import FakeServer, picture

HOSTILE = '<script>"&'


@pytest.fixture(scope="module")
def server() -> Iterator[FakeServer]:
    with FakeServer() as running:
        yield running


@pytest.fixture(scope="module")
def demo(server: FakeServer) -> Demo:
    with Client(server.target) as client:
        return run_demo(client)


def made(*verdicts: str, label: str = "cat") -> Demo:
    """Return a demo of one indexed frame with an object of each verdict."""
    image_rgb = decode_image(picture(64, 48))
    stored, query = Frame(BIKES, 100, 4.0, image_rgb), Frame(BIKES, 111, 4.44, image_rgb)
    box = (3.5, 2.5, 40.0, 30.0)
    detection = Detection(box, 0.75, label, 15)
    objects = []
    for verdict in verdicts:
        neighbor = Neighbor(1, 0.5, BIKES, 4.0, box, label, 0.7, {"frame": "100"})
        alike = LookAlike(neighbor, stored, verdict == "right")
        objects.append(FoundObject(detection, (alike,), 0 if verdict == "new" else 3))
    timings = {"total": 12.5, "detect": 10.0, "embed": 2.0}
    return Demo(query, tuple(objects), ((stored, (detection,)),), timings, 2.0, 0.02)


def test_enough_is_indexed_and_the_query_is_not_among_it(demo: Demo) -> None:
    assert len(demo.indexed) >= 30
    assert demo.items >= 100
    numbers = [frame.number for frame, _ in demo.indexed if frame.video == BIKES]
    assert numbers == sorted(numbers)
    assert not set(numbers) & set(range(QUERY_FRAME - 10, QUERY_FRAME + 1))
    assert demo.frames_between == 11
    assert {frame.video for frame, _ in demo.indexed} == {BIKES, CARPHONE}
    assert demo.query.image_rgb.shape == (272, 640, 3)


def test_the_frames_are_told_to_the_server(server: FakeServer, demo: Demo) -> None:
    stored = server.service.items["demo"]
    assert {item.source for item in stored} == {BIKES, CARPHONE}
    assert all(item.HasField("time_s") for item in stored)
    first = next(item for item in stored if item.source == BIKES)
    assert dict(first.metadata) == {"frame": "0"}


def test_right_answers_are_those_in_the_same_place_of_the_shot(demo: Demo) -> None:
    # The fake finds the same two boxes in every frame: in the shot there are 5 of each.
    assert [found.answers for found in demo.objects] == [5, 5]
    # Its neighbours are the newest items, of the other video: all wrong.
    assert [found.verdict for found in demo.objects] == ["wrong", "wrong"]
    assert demo.headline == "0 of 2 objects found again"


def test_verdicts_are_counted() -> None:
    demo = made("right", "wrong", "new", "right")
    assert [found.verdict for found in demo.objects] == ["right", "wrong", "new", "right"]
    assert demo.headline == "2 of 3 objects found again, 1 never indexed"
    assert demo.to_dict()["objects"][0]["neighbors"][0]["right"] is True


class Page(HTMLParser):
    """Collects what a page refers to, and checks that its tags are closed."""

    VOID = ("meta", "link", "img", "br")

    def __init__(self, text: str) -> None:
        super().__init__()
        self.references: list[str] = []
        self._open: list[str] = []
        self.feed(text)
        self.close()
        assert self._open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.references += [value or "" for name, value in attrs if name in ("src", "href")]
        if tag not in self.VOID:
            self._open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag


def test_the_page_needs_nothing_else() -> None:
    text = render_page(made("right", "wrong", "new"))
    page = Page(text)
    assert page.references
    assert all(reference.startswith("data:") for reference in page.references)
    assert not re.search(r"https?://|@import|<script|\$\w", text)
    assert text.count('class="object"') == 3
    assert "2 objects found again" in text
    for words in ("found again", "something else is nearer", "never indexed"):
        assert words in text


def test_labels_are_escaped() -> None:
    assert "<script" not in render_page(made("right", label=HOSTILE))


def test_a_page_without_objects() -> None:
    assert "0 of 0 objects found again" in render_page(made())


def test_the_page_and_the_annotated_pictures_are_written(tmp_path: Path) -> None:
    folder = tmp_path / "a" / "demo"
    page = write_demo(made("right"), folder)
    assert page == folder / "index.html"
    assert decode_image((folder / "query.jpg").read_bytes()).shape == (48, 64, 3)
    assert [path.name for path in (folder / "indexed").iterdir()] == ["bikes-0100.jpg"]
    write_demo(made("wrong"), folder)  # again, over the first


def test_a_folder_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(InvalidInput, match=r"cannot write to .*file"):
        write_demo(made("right"), tmp_path / "file")


def test_the_command_tells_what_it_found(server: FakeServer, tmp_path: Path) -> None:
    args = ["demo", "--server", server.target, "--output", str(tmp_path / "out")]
    told = CliRunner().invoke(app, args, env={"COLUMNS": "80"})
    assert told.exit_code == 0
    assert max(map(len, told.stdout.splitlines())) <= max(80, len(str(tmp_path)) + 40)
    assert "0 of 2 objects found again" in told.stdout
    assert "person 0.90" in told.stdout
    raw = json.loads(CliRunner().invoke(app, [*args, "--json"]).stdout)
    assert raw["indexed"] == {"images": 56, "items": 112}
    assert raw["query"] == {"video": BIKES, "frame": QUERY_FRAME}
    assert (raw["right"], raw["wrong"], raw["new"]) == (0, 2, 0)
    assert Path(raw["page"]).is_file()
