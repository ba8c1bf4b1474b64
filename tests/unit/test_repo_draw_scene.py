"""What is drawn: boxes, ports, calls, and where each finding is shown."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pytest

from cropseek.triton.check import Finding, check_repository, read_repository
from cropseek.triton.config import Input, Reshape, Step
from cropseek.triton.draw import scene_of
from cropseek.triton.draw.scene import Box, Tensor, codes, size_text
from tests.oracle.cases import Files, chain, ensemble, files, leaf, single
from tests.unit.draw_builders import (
    OURS,
    calls,
    drawn,
    each_repository,
    gives,
    places_of,
    takes,
    text_search,
    used_twice,
)


def found(findings: Iterable[Finding]) -> list[str]:
    return sorted(finding.rule.code for finding in findings)


def at_ports(*boxes: Box) -> dict[tuple[str, str], list[str]]:
    """Return the codes at ports that have any, by model and port."""
    return {
        (box.model, port.key): found(port.findings)
        for box in boxes
        for port in (*box.inputs, *box.outputs)
        if port.findings
    }


@each_repository
def test_every_finding_is_shown(made: Files, tmp_path: Path) -> None:
    scene = drawn(tmp_path, made)
    shown = {finding for place in places_of(scene) for finding in place.findings}
    assert shown == {finding for finding in scene.findings if finding.model}


def test_a_broken_pipeline_says_where_it_is_broken(tmp_path: Path) -> None:
    [rag] = drawn(tmp_path, text_search()).boxes
    assert at_ports(rag, *rag.steps) == {
        ("embedding", "text"): ["E002", "E009"],
        ("embedding", "ids"): ["E004"],
        ("generator", "query"): ["E004"],
        ("generator", "text"): ["E013"],
        ("rag", "response"): ["E006"],
    }
    assert not rag.findings
    assert [found(step.findings) for step in rag.steps] == [["D006", "E012"]] * 3
    assert [step.facts for step in rag.steps] == [
        "tensorrt · max batch 32 · 1 x GPU",
        "python · max batch 16 · 2 x CPU",
        "python · max batch 16 · 1 x auto",
    ]


def test_a_mismatch_is_shown_at_the_reader(tmp_path: Path) -> None:
    boxes = {box.model: box for box in drawn(tmp_path, used_twice()).boxes}
    ports = at_ports(boxes["broken"])
    assert ports["broken", "W"] == ["E010"]
    [writer] = [port for step in boxes["broken"].steps for port in step.outputs if port.wire == "W"]
    assert not writer.findings


def test_what_is_found_about_a_model_s_tensor_is_at_its_port(tmp_path: Path) -> None:
    bad = Input("X", "TYPE_FP32", dims=(4,), reshape=Reshape((3,)))
    [alone] = drawn(tmp_path / "alone", single(input=(*takes("W"), bad))).boxes
    assert at_ports(alone) == {("top", "X"): ["T006"]}
    assert not alone.findings
    [top] = drawn(tmp_path / "chain", chain(b={"input": (bad,)})).boxes
    assert at_ports(top, *top.steps) == {("b", "X"): ["T006"]}
    left_out = Input("Z", "TYPE_FP32", dims=(4,), reshape=Reshape((3,)), optional=True)
    [top] = drawn(tmp_path / "left out", chain(b={"input": (*takes("X"), left_out)})).boxes
    assert not at_ports(top, *top.steps)
    assert found(top.steps[1].findings) == ["D006", "T006"]


def test_a_call_of_nothing_is_a_finding_of_the_call(tmp_path: Path) -> None:
    made = files(leaf("caller", parameters=calls("gone", "there")), leaf("there"))
    scene = drawn(tmp_path, made)
    assert {link.target: found(link.findings) for link in scene.links} == {
        "gone": ["B001"],
        "there": [],
    }
    assert scene.models == 2


def test_at_most_three_codes_are_written_errors_first(tmp_path: Path) -> None:
    [rag] = drawn(tmp_path, text_search()).boxes
    every = [finding for step in rag.steps for finding in reversed(step.findings)]
    assert codes(every) == "E012 D006"
    every += [finding for step in rag.steps for port in step.inputs for finding in port.findings]
    assert codes(every) == "E012 E002 E009 +2"


def test_ports_stand_as_they_are_written(tmp_path: Path) -> None:
    made = files(
        leaf("leaf", input=takes("a", "b", "c"), output=gives("x", "y")),
        ensemble(
            Step("leaf", -1, {"b": "B", "a": "A", "c": "C"}, {"x": "X", "y": "Y"}),
            input=takes("C", "A", "B"),
            output=gives("Y", "X"),
        ),
    )
    [box] = drawn(tmp_path, made).boxes
    assert [port.key for port in (*box.inputs, *box.outputs)] == ["C", "A", "B", "Y", "X"]
    [leaf_] = box.steps
    assert [port.key for port in (*leaf_.inputs, *leaf_.outputs)] == ["b", "a", "c", "x", "y"]


def test_a_member_used_twice_is_two_boxes_and_says_where_else_it_is(tmp_path: Path) -> None:
    boxes = {box.model: box for box in drawn(tmp_path, used_twice()).boxes}
    assert set(boxes) == {"pair", "broken"}
    assert [box.model for box in boxes["pair"].steps] == ["twin", "twin", "join"]
    assert boxes["pair"].steps[0].also_in == ("broken",)
    absent, _, _, elsewhere = boxes["broken"].steps
    assert absent.is_absent
    assert absent.facts == "not in the repository"
    assert elsewhere.facts == "in namespace another.repository"
    assert not elsewhere.is_absent


def test_our_own_repository() -> None:
    repository = read_repository(OURS, "cpu")
    scene = scene_of(repository, check_repository(repository))
    boxes = {box.model: box for box in scene.boxes}
    assert set(boxes) == {"detect", "embedder", "image_search", "vector_search"}
    assert [box.model for box in boxes["detect"].steps] == ["preprocess", "detector"]
    assert {link.target for link in scene.links} == {"detect", "embedder", "vector_search"}


@pytest.mark.parametrize(
    ("only", "expected"),
    [
        ("detect", {"detect"}),
        ("preprocess", {"preprocess"}),  # a member by itself
        ("image_search", {"detect", "embedder", "image_search", "vector_search"}),
    ],
)
def test_one_model_and_what_it_uses(only: str, expected: set[str]) -> None:
    repository = read_repository(OURS, "t4")
    scene = scene_of(repository, check_repository(repository), [only])
    assert {box.model for box in scene.boxes} == expected
    members = {step.model for box in scene.boxes for step in box.steps}
    assert {finding.model for finding in scene.findings} <= expected | members


@pytest.mark.parametrize(
    ("tensor", "expected"),
    [
        (Tensor("", (), None), ""),
        (Tensor("FP32", (), 4), "FP32"),
        (Tensor("UINT8", (3, 640, 640), 1228800), "3 x 640 x 640 UINT8, 1.2 MB"),
        (Tensor("FP32", (-1, 4), 16), "-1 x 4 FP32, ? x 16 B"),
        (Tensor("UINT8", (-1, -1, 3), 3), "-1 x -1 x 3 UINT8, ? x 3 B"),
        (Tensor("STRING", (5,), None), "5 STRING, ? B"),
        (Tensor("STRING", (-1,), None), "-1 STRING, ? B"),
    ],
)
def test_a_tensor_in_words(tensor: Tensor, expected: str) -> None:
    assert str(tensor) == expected


@pytest.mark.parametrize(
    ("count", "expected"),
    [
        (0, "0 B"),
        (999, "999 B"),
        (1000, "1.0 kB"),
        (151_000, "151 kB"),
        (999_499, "999 kB"),
        (999_600, "1.0 MB"),
        (2_500_000_000, "2.5 GB"),
        (10**16, "10000 TB"),
    ],
)
def test_sizes(count: int, expected: str) -> None:
    assert size_text(count) == expected


def test_boxes_of_other_backends_are_one_group() -> None:
    assert Box("m", "tensorrt").group == "tensorrt"
    assert Box("m", "vllm").group == Box("m").group == "other"
    assert Box("m").facts == "no backend · max batch ?"
    assert Box("m", "python", 0, version=3).facts == "python · no batching · version 3"
