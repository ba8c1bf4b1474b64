"""`cropseek repo draw`: in the terminal, as SVG and as JSON."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
from rich.cells import cell_len

from tests.oracle.cases import files, leaf, single
from tests.oracle.server import write
from tests.unit.draw_builders import OURS, text_search
from tests.unit.test_cli import run


def test_draw_prints_in_the_terminal(tmp_path: Path) -> None:
    write(text_search(), tmp_path)
    ran = run("repo", "draw", tmp_path)
    assert ran.code == 0
    assert ran.out.startswith("rag  ensemble · max batch 64\n")
    assert ran.out.splitlines()[-1] == "9 errors, 3 warnings in 4 models"
    assert max(map(cell_len, ran.out.splitlines())) <= 80


@pytest.mark.parametrize(("columns", "width"), [(200, 200), (80, 80), (20, 60)])
def test_draw_is_as_wide_as_the_terminal(
    columns: int, width: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = "a_long_name_" * 5
    write(files(leaf(name)), tmp_path)
    monkeypatch.setenv("COLUMNS", str(columns))
    lines = run("repo", "draw", tmp_path).out.splitlines()
    assert max(map(cell_len, lines)) == width
    assert (name in lines[0]) == (columns == 200)


def test_draw_writes_svg(tmp_path: Path) -> None:
    write(single(), tmp_path / "models")
    target = tmp_path / "out.svg"
    ran = run("repo", "draw", tmp_path / "models", "-o", target)
    assert (ran.code, ran.out) == (0, f"{target}: no faults in 1 model\n")
    assert (
        ET.fromstring(target.read_text(encoding="utf-8")).tag == "{http://www.w3.org/2000/svg}svg"
    )


def test_draw_chooses_a_profile_and_says_so() -> None:
    first = run("repo", "draw", OURS).out.splitlines()
    assert first[-2].endswith("in 6 models, profile cpu")
    assert first[-1] == "other profiles: a100, h100, t4 (--profile)"
    named = run("repo", "draw", OURS / "detect", "--profile", "cpu").out.splitlines()
    assert named[-1] == "no faults in 3 models, profile cpu"


def test_draw_prints_the_scene_as_json(tmp_path: Path) -> None:
    write(text_search(), tmp_path)
    [document] = run("repo", "draw", tmp_path, "--json").documents
    [checked] = run("repo", "check", tmp_path, "--json").documents
    assert document["findings"] == sorted(checked["findings"], key=lambda f: f["severity"])
    [rag] = document["boxes"]
    assert rag["steps"][0]["outputs"][0]["tensor"] == {
        "data_type": "FP32",
        "dims": [768],
        "row_bytes": 3072,
    }
    [unread] = rag["steps"][2]["outputs"][0]["findings"]
    assert unread in checked["findings"]
    assert unread["code"] == "E013"


def test_draw_of_an_empty_folder_says_that_it_is_empty(tmp_path: Path) -> None:
    ran = run("repo", "draw", tmp_path)
    assert (ran.code, ran.out) == (1, "")
    assert ran.errors == [f"cropseek: {tmp_path}: no models in this folder"]


def test_draw_refuses_a_profile_that_no_model_has() -> None:
    ran = run("repo", "draw", OURS, "--profile", "t5")
    assert ran.code == 1
    assert ran.errors[0].endswith("has (a100, cpu, h100, t4), got 't5'")


def test_draw_refuses_what_it_cannot_do(tmp_path: Path) -> None:
    write(single(), tmp_path)
    assert run("repo", "draw", tmp_path / "nowhere").errors[0].startswith("cropseek: ")
    assert run("repo", "draw", tmp_path, "-o", tmp_path / "picture.png").code == 2
    ran = run("repo", "draw", tmp_path, "-o", tmp_path / "no" / "folder.svg")
    assert ran.code == 1
    assert ran.errors[0].startswith("cropseek: cannot write ")
