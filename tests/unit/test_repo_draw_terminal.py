"""The drawing in a terminal: rails, their ends, and lines that fit."""

from __future__ import annotations

import re
from pathlib import Path

from rich.cells import cell_len

from cropseek.triton.draw import to_lines
from tests.oracle.cases import Files, ensemble, files, leaf, step
from tests.unit.draw_builders import drawn, each_repository, gives, takes, text_search


def test_a_broken_pipeline_in_a_terminal(tmp_path: Path) -> None:
    lines = [line.plain for line in to_lines(drawn(tmp_path, text_search()), width=64)]
    assert lines[: lines.index("")] == [
        "rag  ensemble · max batch 64",
        "╭──○ query  1 STRING, ? B",
        "│  ┌ embedding  tensorrt · max batch 32 · 1 x GPU  E012 D006 ──┐",
        "╰─▶│ text ← query  1 INT64, 8 B  E002 E009                     │",
        " \N{BOX DRAWINGS LIGHT DIAGONAL CROSS}▶│ ids  1 INT64, 8 B  E004"
        "                                   │",
        "╭──│ vector  768 FP32, 3.1 kB                                  │",
        "│  └───────────────────────────────────────────────────────────┘",
        "│  ┌ retrieval  python · max batch 16 · 2 x CPU  E012 D006 ────┐",
        "╰─▶│ vector                                                    │",
        "╭──│ documents  5 STRING, ? B                                  │",
        "│  └───────────────────────────────────────────────────────────┘",
        "│  ┌ generator  python · max batch 16 · 1 x auto  E012 D006 ───┐",
        "╰─▶│ documents                                                 │",
        " \N{BOX DRAWINGS LIGHT DIAGONAL CROSS}▶│ query  1 STRING, ? B  E004"
        "                                │",
        " \N{BOX DRAWINGS LIGHT DIAGONAL CROSS}─│ text → answer  1 STRING, ? B  E013"
        "                        │",
        "   └───────────────────────────────────────────────────────────┘",
        " \N{BOX DRAWINGS LIGHT DIAGONAL CROSS}▶○ response  1 STRING, ? B  E006",
    ]
    told = lines.index("E012  rag: the ensemble takes batches of 64, its member")
    assert lines[told + 1] == "      'embedding' of 32"


@each_repository
def test_lines_fit_a_terminal(made: Files, tmp_path: Path) -> None:
    scene = drawn(tmp_path, made)
    for width in (60, 80, 120):
        for ascii_only in (False, True):
            lines = to_lines(scene, width, ascii_only)
            assert all(line.cell_len <= width for line in lines)
    plain = "\n".join(line.plain for line in to_lines(scene, 80, ascii_only=True))
    assert not re.search("[─-╿○▶◀]", plain)
    said = "\n".join(line.plain for line in to_lines(scene))
    assert all(finding.rule.code in said for finding in scene.findings)


@each_repository
def test_lines_are_the_same_each_time(made: Files, tmp_path: Path) -> None:
    first, second = (to_lines(drawn(tmp_path / name / "r", made)) for name in ("one", "other"))
    assert first == second


def test_more_tensors_than_rails(tmp_path: Path) -> None:
    wires = [f"t{number}" for number in range(40)]
    steps = [step("leaf", "X", wire) for wire in wires]
    scene = drawn(tmp_path, files(leaf("leaf"), ensemble(*steps, output=gives(*wires))))
    lines = [line.plain for line in to_lines(scene)]
    assert all(cell_len(line) <= 80 for line in lines)
    assert sum("↓─" in line for line in lines) == sum("↑▶" in line for line in lines) > 0


def test_an_ensemble_of_hundreds_of_steps(tmp_path: Path) -> None:
    steps = [step("leaf", f"t{n}", f"t{n + 1}") for n in range(1200)]
    chain = ensemble(*steps, input=takes("t0"), output=gives("t1200"))
    lines = to_lines(drawn(tmp_path, files(leaf("leaf"), chain)))
    assert sum("╰" in line.plain for line in lines) == 1201
