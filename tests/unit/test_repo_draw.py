from __future__ import annotations

import json
import random
import re
from collections import Counter
from collections.abc import Callable, Sequence
from itertools import combinations, pairwise
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from cropseek.triton.check import Repository, check_repository, read_repository
from cropseek.triton.config import (
    DataType,
    EnsembleScheduling,
    Input,
    InstanceGroup,
    ModelConfig,
    Output,
    Step,
)
from cropseek.triton.draw import Scene, scene_of, to_lines, to_svg
from cropseek.triton.draw.layout import Edge, Layout, Node, layered, topological
from cropseek.triton.draw.scene import Box, Role, Tensor, edges_of, ends_of, size_text
from cropseek.triton.draw.words import shortened
from tests.unit.test_cli import run

SVG = "{http://www.w3.org/2000/svg}"
OURS = Path(__file__).parents[2] / "model_repository"
Tensors = dict[str, tuple[DataType, tuple[int, ...]]]
Builder = Callable[[Path], None]

ROW: tuple[DataType, tuple[int, ...]] = ("TYPE_FP32", (4,))
TEXT: tuple[DataType, tuple[int, ...]] = ("TYPE_STRING", (1,))


def write(root: Path, config: ModelConfig) -> None:
    """Write a model's folder; its version holds what a Python model needs."""
    assert config.name is not None
    version = root / config.name / "1"
    version.mkdir(parents=True)
    (version / "model.py").touch()
    (version / "model.plan").touch()
    (version.parent / "config.pbtxt").write_text(config.to_pbtxt(), encoding="utf-8")


def inputs(tensors: Tensors) -> tuple[Input, ...]:
    return tuple(Input(name, kind, dims=dims) for name, (kind, dims) in tensors.items())


def outputs(tensors: Tensors) -> tuple[Output, ...]:
    return tuple(Output(name, kind, dims=dims) for name, (kind, dims) in tensors.items())


def model(
    root: Path,
    name: str,
    takes: Tensors,
    gives: Tensors,
    *,
    backend: str = "python",
    batch: int = 8,
    instances: Sequence[InstanceGroup] = (),
    calls: str = "",
) -> None:
    config = ModelConfig(
        name=name,
        backend=backend,
        max_batch_size=batch,
        input=inputs(takes),
        output=outputs(gives),
        instance_group=tuple(instances),
        parameters={"bls_models": calls} if calls else {},
    )
    write(root, config)


def ensemble(
    root: Path, name: str, takes: Tensors, gives: Tensors, *steps: Step, batch: int = 8
) -> None:
    config = ModelConfig(
        name=name,
        platform="ensemble",
        max_batch_size=batch,
        input=inputs(takes),
        output=outputs(gives),
        ensemble_scheduling=EnsembleScheduling(steps),
    )
    write(root, config)


def step(name: str, reads: dict[str, str], writes: dict[str, str]) -> Step:
    return Step(name, -1, reads, writes)


def empty(root: Path) -> None:
    pass


def one(root: Path) -> None:
    model(root, "alone", {"x": ROW}, {"y": ("TYPE_FP16", (-1, 8))})


def text_search(root: Path) -> None:
    """A pipeline as tutorials have it, with the faults that they have."""
    vector: Tensors = {"vector": ("TYPE_FP32", (768,))}
    documents: Tensors = {"documents": ("TYPE_STRING", (5,))}
    gpu, cpus = InstanceGroup(kind="KIND_GPU", count=1), InstanceGroup(kind="KIND_CPU", count=2)
    model(
        root,
        "embedding",
        {"ids": ("TYPE_INT64", (1,))},
        vector,
        backend="tensorrt",
        batch=32,
        instances=[gpu],
    )
    model(root, "retrieval", vector, documents, batch=16, instances=[cpus])
    model(root, "generator", {**documents, "query": TEXT}, {"text": TEXT}, batch=16)
    ensemble(
        root,
        "rag",
        {"query": TEXT},
        {"response": TEXT},
        step("embedding", {"text": "query"}, {"vector": "vector"}),
        step("retrieval", {"vector": "vector"}, {"documents": "documents"}),
        step("generator", {"documents": "documents"}, {"text": "answer"}),
        batch=64,
    )


def odd_names(root: Path) -> None:
    model(root, 'a<b>&"c"', {"x<&>": ROW}, {"y\x01\n]]>": ROW}, backend="<&\x02>")
    model(root, "画像検索モデル", {"x": ROW}, {"出力": ROW}, calls="a<b, 画像検索モデル")
    model(root, "long_" * 30, {"input_" * 30: ROW}, {"y": ("TYPE_FP32", (10**9,) * 30)})
    ensemble(
        root,
        "all<of>them",
        {"X" * 100: ROW},
        {"Y&": ROW},
        step('a<b>&"c"', {"x<&>": "X" * 100}, {"y\x01\n]]>": "wire\x03" * 30}),
        step("画像検索モデル", {"x": "wire\x03" * 30}, {"出力": "Y&"}),
    )


def cycles(root: Path) -> None:
    model(root, "one", {"x": ROW, "back": ROW}, {"y": ROW}, calls="two")
    model(root, "two", {"x": ROW}, {"y": ROW, "z": ROW}, calls="one, two")
    ensemble(
        root,
        "waits",
        {"X": ROW},
        {"Z": ROW},
        step("one", {"x": "X", "back": "feedback"}, {"y": "forward"}),
        step("two", {"x": "forward"}, {"y": "feedback", "z": "Z"}),
    )
    ensemble(root, "itself", {"X": ROW}, {"Y": ROW}, step("itself", {"X": "Y"}, {"Y": "Y"}))


def used_twice(root: Path) -> None:
    model(root, "twin", {"x": ROW}, {"y": ROW})
    model(root, "join", {"a": ROW, "b": ROW}, {"c": ROW})
    ensemble(
        root,
        "pair",
        {"LEFT": ROW, "RIGHT": ROW, "UNUSED": ROW},
        {"SAME": ROW, "NEVER": ROW},
        step("twin", {"x": "LEFT"}, {"y": "left"}),
        step("twin", {"x": "RIGHT"}, {"y": "right"}),
        step("join", {"a": "left", "b": "right"}, {"c": "SAME"}),
    )
    ensemble(
        root,
        "broken",
        {"X": ROW},
        {"Y": ("TYPE_FP32", (5,)), "Z": ROW},
        step("absent", {"x": "X", "h": "nobody's"}, {"y": "Y", "q": "Z"}),
        step("twin", {"x": "X"}, {"y": "Y"}),
        step("twin", {"wrong": "X", "x": "Z"}, {"nothing": "lost"}),
        Step("twin", 7, {"x": "X"}, {"y": "elsewhere"}, "another.repository"),
        batch=16,
    )


def thirty(root: Path, seed: int = 0, wide: bool = False) -> None:
    """Thirty models: ensembles that share members and hold each other, and calls by BLS."""
    chance = random.Random(seed)
    leaves = [f"leaf_{number}" for number in range(20)]
    for number, name in enumerate(leaves):
        backend = chance.choice(["python", "onnxruntime", "tensorrt", "dali", "pytorch"])
        calls = ", ".join(chance.sample(leaves, 2)) if number % 7 == 0 else ""
        model(root, name, {"a": ROW, "b": ROW}, {"y": ROW, "z": ROW}, backend=backend, calls=calls)
    for number in range(9):
        wires, steps = ["A", "B"], []
        for place in range(chance.randint(1, 9 if wide else 5)):
            made = [f"t{place}", f"u{place}"]
            reads = {"a": chance.choice(wires), "b": chance.choice(wires)}
            writes = dict(zip(("y", "z"), made, strict=True))
            steps.append(step(chance.choice(leaves), reads, writes))
            wires += made
        name = f"pipeline_{number}"
        ensemble(root, name, {"A": ROW, "B": ROW}, {"t0": ROW, wires[-1]: ROW}, *steps)
    ensemble(
        root,
        "outer",
        {"A": ROW, "B": ROW},
        {"T": ROW},
        step("pipeline_0", {"A": "A", "B": "B"}, {"t0": "T"}),
    )


def many(root: Path) -> None:
    thirty(root, seed=1, wide=True)


BUILDERS: list[Builder] = [
    empty, one, text_search, odd_names, cycles, used_twice, thirty, many,
]  # fmt: skip


@pytest.fixture(params=BUILDERS, ids=lambda builder: builder.__name__)
def repository(request: pytest.FixtureRequest, tmp_path: Path) -> Repository:
    request.param(tmp_path)
    return read_repository(tmp_path)


@pytest.fixture
def scene(repository: Repository) -> Scene:
    return scene_of(repository, check_repository(repository))


def scene_in(root: Path, build: Builder) -> Scene:
    build(root)
    repository = read_repository(root)
    return scene_of(repository, check_repository(repository))


Rectangle = tuple[float, float, float, float]  # left, top, right, bottom


def rectangles(root: ET.Element, *kinds: str) -> list[Rectangle]:
    found = []
    for element in root.iter(f"{SVG}rect"):
        if element.get("class", "").split(" ")[0] in kinds:
            x, y, width, height = (float(element.attrib[k]) for k in ("x", "y", "width", "height"))
            found.append((x, y, x + width, y + height))
    return found


def shown(element: ET.Element) -> str:
    return "".join(part.text or "" for part in element.iter(f"{SVG}tspan"))


def texts(root: ET.Element) -> list[tuple[Rectangle, str]]:
    """Return where texts are; a character is 0.6 of its height wide."""
    found = []
    for element in root.iter(f"{SVG}text"):
        text = shown(element)
        size, x, y = (float(element.attrib[key]) for key in ("font-size", "x", "y"))
        width = 0.6 * size * cell_len(text)
        left = x - width if element.get("text-anchor") == "end" else x
        found.append(((left, y - 0.75 * size, left + width, y + 0.2 * size), text))
    return found


def overlap(one: Rectangle, other: Rectangle) -> bool:
    return one[0] < other[2] and other[0] < one[2] and one[1] < other[3] and other[1] < one[3]


def within(inner: Rectangle, outer: Rectangle) -> bool:
    return (
        inner[0] >= outer[0] - 0.2
        and inner[1] >= outer[1] - 0.2
        and inner[2] <= outer[2] + 0.2
        and inner[3] <= outer[3] + 0.2
    )


def coloured(root: ET.Element, severity: str) -> str:
    """Return what is written in the colour of a severity in the picture, without the list below."""
    groups = [g for g in root.iter(f"{SVG}g") if g.get("class") in ("model", "ensemble")]
    parts = [part for group in groups for part in group.iter(f"{SVG}tspan")]
    return " ".join(p.text or "" for p in parts if severity in p.get("class", "").split())


def test_boxes_do_not_overlap(scene: Scene) -> None:
    root = ET.fromstring(to_svg(scene))
    cards, frames = rectangles(root, "box"), rectangles(root, "frame")
    assert len(cards) + len(frames) == sum(
        max(1, len(box.steps) + (box.backend == "ensemble")) for box in scene.boxes
    )
    items = [*cards, *rectangles(root, "pill")]
    assert not [pair for pair in combinations(items, 2) if overlap(*pair)]
    assert not [pair for pair in combinations(frames, 2) if overlap(*pair)]
    inside = [card for card in cards if any(within(card, frame) for frame in frames)]
    assert len(inside) == sum(len(box.steps) for box in scene.boxes)
    outside = [card for card in cards if card not in inside]
    assert not [1 for card in outside for frame in frames if overlap(card, frame)]


def test_texts_do_not_overlap_and_lie_in_the_picture(scene: Scene) -> None:
    root = ET.fromstring(to_svg(scene))
    picture = (0.0, 0.0, float(root.attrib["width"]), float(root.attrib["height"]))
    found = texts(root)
    assert found
    assert all(within(place, picture) for place, _ in found)
    clashes = [(a[1], b[1]) for a, b in combinations(found, 2) if overlap(a[0], b[0])]
    assert not clashes


def test_every_wire_is_drawn(scene: Scene) -> None:
    root = ET.fromstring(to_svg(scene))
    drawn = [p for p in root.iter(f"{SVG}path") if p.get("class", "").split()[:1] == ["wire"]]
    edges = [edge for box in scene.boxes for edge in edges_of(box)]
    assert len(drawn) == len(edges)
    links = [p for p in root.iter(f"{SVG}path") if p.get("class", "").split()[:1] == ["link"]]
    assert len(links) == len(scene.links) + bool(scene.links)  # the legend has one too
    stubs = [p for p in root.iter(f"{SVG}path") if p.get("class", "").split()[:1] == ["stub"]]
    loose = 0
    for box in scene.boxes:
        ends = {("writers", writer) for writer, _ in edges_of(box)}
        ends |= {("readers", reader) for _, reader in edges_of(box)}
        roles: tuple[Role, Role] = ("writers", "readers")
        for role in roles if box.backend == "ensemble" else ():
            loose += sum((role, end) not in ends for end, _ in ends_of(box, role))
    assert len(stubs) == loose


def test_every_finding_is_where_it_belongs_in_its_colour(
    repository: Repository, scene: Scene
) -> None:
    root = ET.fromstring(to_svg(scene))
    boxes = [box for top in scene.boxes for box in (top, *top.steps)]
    for finding in check_repository(repository):
        severity = finding.rule.severity.value
        if finding.tensor is not None:
            [top] = [box for box in scene.boxes if box.model == finding.model]
            ports = [port for box in (top, *top.steps) for port in (*box.inputs, *box.outputs)]
            at = [port for port in ports if port.wire == finding.tensor]
            assert any(f.code == finding.rule.code for port in at for f in port.faults)
        elif finding.model:
            ports = [port for box in boxes for port in (*box.inputs, *box.outputs)]
            faults = [fault for box in boxes for fault in box.faults]
            faults += [fault for port in ports for fault in port.faults]
            assert any(fault.message == finding.message for fault in faults)
        if finding.model:
            written = coloured(root, severity) + (
                coloured(root, "error") if severity == "warning" else ""
            )
            assert finding.rule.code in written or "+" in written


@pytest.mark.parametrize("build", BUILDERS, ids=lambda builder: builder.__name__)
def test_drawings_are_the_same_each_time(build: Builder, tmp_path: Path) -> None:
    one, other = tmp_path / "one" / "r", tmp_path / "other" / "r"
    for root in (one, other):
        root.mkdir(parents=True)
    first, second = scene_in(one, build), scene_in(other, build)
    assert to_svg(first) == to_svg(second)
    assert [line.plain for line in to_lines(first)] == [line.plain for line in to_lines(second)]


def test_names_are_escaped_and_shortened_ones_keep_their_whole_in_a_tooltip(
    tmp_path: Path,
) -> None:
    svg = to_svg(scene_in(tmp_path, odd_names))
    root = ET.fromstring(svg)
    written = {shown(element).split(" ")[0] for element in root.iter(f"{SVG}text")}
    assert {'a<b>&"c"', "x<&>", "画像検索モデル", "出力", "all<of>them", "Y&"} <= written
    assert "a&lt;b&gt;&amp;" in svg
    tooltips = " ".join(title.text or "" for title in root.iter(f"{SVG}title"))
    for whole in ("long_" * 30, "input_" * 30, "X" * 100):
        assert whole not in written
        assert whole in tooltips


def test_a_broken_pipeline_says_where_it_is_broken(tmp_path: Path) -> None:
    scene = scene_in(tmp_path, text_search)
    [rag] = scene.boxes
    embedding, retrieval, generator = rag.steps
    codes = {
        (box.model, port.key): {fault.code for fault in port.faults}
        for box in (rag, *rag.steps)
        for port in (*box.inputs, *box.outputs)
        if port.faults
    }
    assert codes == {
        ("embedding", "text"): {"E002", "E009"},
        ("embedding", "ids"): {"E004"},
        ("generator", "query"): {"E004"},
        ("generator", "text"): {"E013"},
        ("rag", "response"): {"E006"},
    }
    assert Counter(fault.code for fault in rag.faults) == {"E012": 3}
    assert embedding.facts == "tensorrt · max batch 32 · 1 x GPU"
    assert retrieval.facts == "python · max batch 16 · 2 x CPU"
    assert generator.facts == "python · max batch 16 · 1 x auto"
    root = ET.fromstring(to_svg(scene))
    stubs = [p.get("class") for p in root.iter(f"{SVG}path") if "stub" in p.get("class", "")]
    assert stubs == ["stub error"] * 4  # answer; ids, query; response
    wires = [p.get("class") for p in root.iter(f"{SVG}path") if "wire" in p.get("class", "")]
    assert sorted(map(str, wires)) == ["wire", "wire", "wire error"]
    tensors = Counter(text for _, text in texts(root))
    assert tensors["768 FP32, 3.1 kB"] == 1  # on the wire, not again where it is read
    assert tensors["E002 E009 1 INT64, 8 B"] == 1  # what is read is not what is written


def test_a_broken_pipeline_in_a_terminal(tmp_path: Path) -> None:
    lines = [line.plain for line in to_lines(scene_in(tmp_path, text_search), width=64)]
    assert lines[: lines.index("")] == [
        "rag  ensemble · max batch 64  E012",
        "╭──○ query  1 STRING, ? B",
        "│  ┌ embedding  tensorrt · max batch 32 · 1 x GPU  D006 ───────┐",
        "╰─▶│ text ← query  1 INT64, 8 B  E002 E009                     │",
        " \N{BOX DRAWINGS LIGHT DIAGONAL CROSS}▶│ ids  1 INT64, 8 B  E004"
        "                                   │",
        "╭──│ vector  768 FP32, 3.1 kB                                  │",
        "│  └───────────────────────────────────────────────────────────┘",
        "│  ┌ retrieval  python · max batch 16 · 2 x CPU  D006 ─────────┐",
        "╰─▶│ vector                                                    │",
        "╭──│ documents  5 STRING, ? B                                  │",
        "│  └───────────────────────────────────────────────────────────┘",
        "│  ┌ generator  python · max batch 16 · 1 x auto  D006 ────────┐",
        "╰─▶│ documents                                                 │",
        " \N{BOX DRAWINGS LIGHT DIAGONAL CROSS}▶│ query  1 STRING, ? B  E004"
        "                                │",
        " \N{BOX DRAWINGS LIGHT DIAGONAL CROSS}─│ text → answer  1 STRING, ? B  E013"
        "                        │",
        "   └───────────────────────────────────────────────────────────┘",
        " \N{BOX DRAWINGS LIGHT DIAGONAL CROSS}▶○ response  1 STRING, ? B  E006",
    ]
    assert lines[lines.index("") + 1] == ("E012  rag: the ensemble takes batches of 64, its member")


def test_lines_fit_a_terminal(scene: Scene) -> None:
    for width in (60, 80, 120):
        for ascii_only in (False, True):
            lines = to_lines(scene, width, ascii_only)
            assert all(line.cell_len <= width for line in lines)
    plain = "\n".join(line.plain for line in to_lines(scene, 80, ascii_only=True))
    assert not re.search("[─-╿○▶◀]", plain)
    said = "\n".join(line.plain for line in to_lines(scene))
    assert all(fault.code in said for fault in scene.faults)


def test_more_tensors_than_rails(tmp_path: Path) -> None:
    model(tmp_path, "leaf", {"x": ROW}, {"y": ROW})
    wires = [f"t{number}" for number in range(40)]
    steps = [step("leaf", {"x": "X"}, {"y": wire}) for wire in wires]
    ensemble(tmp_path, "fan", {"X": ROW}, dict.fromkeys(wires, ROW), *steps)
    scene = scene_of(repository := read_repository(tmp_path), check_repository(repository))
    lines = [line.plain for line in to_lines(scene)]
    assert all(cell_len(line) <= 80 for line in lines)
    assert sum("↓─" in line for line in lines) == sum("↑▶" in line for line in lines) > 0


def test_ports_stand_as_they_are_written(tmp_path: Path) -> None:
    model(tmp_path, "leaf", {"a": ROW, "b": ROW, "c": ROW}, {"x": ROW, "y": ROW})
    ensemble(
        tmp_path,
        "all",
        {"C": ROW, "A": ROW, "B": ROW},
        {"Y": ROW, "X": ROW},
        step("leaf", {"b": "B", "a": "A", "c": "C"}, {"x": "X", "y": "Y"}),
    )
    [box] = scene_of(read_repository(tmp_path), []).boxes
    assert [port.key for port in (*box.inputs, *box.outputs)] == ["C", "A", "B", "Y", "X"]
    [leaf] = box.steps
    assert [port.key for port in (*leaf.inputs, *leaf.outputs)] == ["b", "a", "c", "x", "y"]


def test_a_member_used_twice_is_two_boxes_and_says_where_else_it_is(tmp_path: Path) -> None:
    boxes = {box.model: box for box in scene_in(tmp_path, used_twice).boxes}
    assert set(boxes) == {"pair", "broken"}
    assert [box.model for box in boxes["pair"].steps] == ["twin", "twin", "join"]
    assert boxes["pair"].steps[0].also_in == ("broken",)
    absent, _, _, elsewhere = boxes["broken"].steps
    assert absent.is_absent
    assert absent.facts == "not in the repository"
    assert elsewhere.facts == "in namespace another.repository"
    assert not elsewhere.is_absent


def test_the_absent_are_red_and_dashed(tmp_path: Path) -> None:
    model(tmp_path, "caller", {"x": ROW}, {"y": ROW}, calls="gone")
    scene = scene_of(repository := read_repository(tmp_path), check_repository(repository))
    root = ET.fromstring(to_svg(scene))
    kinds = [rect.get("class") for rect in root.iter(f"{SVG}rect")]
    assert "box absent error" in kinds
    assert [path.get("class") for path in root.iter(f"{SVG}path")].count("link error") == 1
    assert scene.models == 1


def test_our_own_repository() -> None:
    repository = read_repository(OURS, "cpu")
    scene = scene_of(repository, check_repository(repository))
    boxes = {box.model: box for box in scene.boxes}
    assert set(boxes) == {"detect", "embedder", "image_search", "vector_search"}
    assert [box.model for box in boxes["detect"].steps] == ["preprocess", "detector"]
    assert {link.target for link in scene.links} == {"detect", "embedder", "vector_search"}
    assert "3 x 640 x 640 UINT8, 1.2 MB" in to_svg(scene)


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
    assert {fault.model for fault in scene.faults} <= expected | members


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


@given(st.text(), st.integers(-3, 40))
def test_a_shortened_text_fits_and_is_printable(text: str, limit: int) -> None:
    short = shortened(text, limit)
    assert cell_len(short) <= max(limit, 1)
    assert not re.search(r"[\x00-\x1f\x7f-\x9f]", short)


def test_the_middle_is_what_is_left_out() -> None:
    assert shortened("abcdefghij", 10) == "abcdefghij"
    assert shortened("abcdefghij", 7) == "abc…hij"
    assert shortened("abcdefghij", 1) == "…"


NODES = st.builds(
    Node,
    st.floats(1, 300),
    st.floats(1, 300),
    st.floats(0, 100),
    st.sampled_from([None, None, None, "first", "last"]),
)


@st.composite
def graphs(draw: st.DrawFn) -> tuple[dict[str, Node], list[Edge]]:
    """Nodes with any edges between them: cycles, loops and doubles too."""
    nodes = {str(number): node for number, node in enumerate(draw(st.lists(NODES, max_size=12)))}
    edges = []
    if nodes:
        sources = st.sampled_from([name for name in nodes if nodes[name].pin != "last"] or [""])
        targets = st.sampled_from([name for name in nodes if nodes[name].pin != "first"] or [""])
        for source, target in draw(st.lists(st.tuples(sources, targets), max_size=30)):
            if source and target:
                y, other_y = draw(st.floats(0, 1)), draw(st.floats(0, 1))
                edges.append(
                    Edge(source, y * nodes[source].height, target, other_y * nodes[target].height)
                )
    return nodes, edges


def placed(layout: Layout, nodes: dict[str, Node]) -> list[Rectangle]:
    """Return nodes with the room of their labels."""
    return [
        (x, y, x + nodes[name].width + nodes[name].label, y + nodes[name].height)
        for name, (x, y) in layout.places.items()
    ]


@given(graphs())
def test_any_graph_is_laid_out(graph: tuple[dict[str, Node], list[Edge]]) -> None:
    nodes, edges = graph
    layout = layered(nodes, edges, gap=10)
    found = placed(layout, nodes)
    assert len(found) == len(nodes)
    assert not [pair for pair in combinations(found, 2) if overlap(*pair)]
    picture = (0.0, 0.0, layout.width, layout.height)
    assert all(within(rectangle, picture) for rectangle in found)
    for index, (edge, route) in enumerate(zip(edges, layout.routes, strict=True)):
        left, top = layout.places[edge.source]
        assert route[0].x0 == left + nodes[edge.source].width
        assert route[0].y == top + edge.source_y
        left, top = layout.places[edge.target]
        assert (route[-1].x1, route[-1].y) == (left, top + edge.target_y)
        assert all(0 <= y <= layout.height for _, _, y in route)
        if index not in layout.backward:
            assert all(x0 <= x1 for x0, x1, _ in route)
            assert all(last.x1 <= after.x0 for last, after in pairwise(route))


@given(graphs())
def test_no_edge_runs_through_a_node(graph: tuple[dict[str, Node], list[Edge]]) -> None:
    nodes, edges = graph
    layout = layered(nodes, edges, gap=10)
    for route in layout.routes:
        for x0, x1, y in route[1:-1]:
            line = (min(x0, x1), y, max(x0, x1), y)
            for left, top, right, bottom in placed(layout, nodes):
                assert not overlap(line, (left, top, right, bottom))


@given(graphs())
def test_only_edges_of_cycles_run_back(graph: tuple[dict[str, Node], list[Edge]]) -> None:
    nodes, edges = graph
    order, cut = topological(list(nodes), [(edge.source, edge.target) for edge in edges])
    assert sorted(order) == sorted(nodes)
    rank = {name: place for place, name in enumerate(order)}
    assert all(
        rank[edge.source] < rank[edge.target]
        for edge in edges
        if (edge.source, edge.target) not in cut
    )
    written = {name: place for place, name in enumerate(nodes)}
    assert all(written[source] >= written[target] for source, target in cut)
    back = layered(nodes, edges).backward
    forward = [(e.source, e.target) for i, e in enumerate(edges) if i not in back]
    assert topological(list(nodes), forward)[1] == set()


def test_a_chain_is_straight_and_two_crossed_edges_are_uncrossed() -> None:
    square = Node(10, 10)
    chain = layered(
        {"a": square, "b": square, "c": square}, [Edge("a", 5, "b", 5), Edge("b", 5, "c", 5)]
    )
    assert len({y for _, y in chain.places.values()}) == 1
    nodes = {"a": square, "b": square, "c": square, "d": square}
    crossed = layered(nodes, [Edge("a", 5, "d", 5), Edge("b", 5, "c", 5)])
    assert crossed.places["d"][1] == crossed.places["a"][1]
    assert crossed.places["c"][1] == crossed.places["b"][1]


def test_an_edge_past_a_node_has_room_in_the_picture() -> None:
    square = Node(10, 10)
    edges = [Edge("a", 2, "b", 5), Edge("b", 5, "c", 2), Edge("a", 8, "c", 8)]
    layout = layered({"a": square, "b": square, "c": square}, edges, gap=30)
    past = layout.routes[2][1]
    assert abs(past.y - layout.places["b"][1]) >= 30
    assert 0 <= past.y <= layout.height


def test_an_ensemble_of_hundreds_of_steps(tmp_path: Path) -> None:
    model(tmp_path, "leaf", {"x": ROW}, {"y": ROW})
    steps = [step("leaf", {"x": f"t{n}"}, {"y": f"t{n + 1}"}) for n in range(1200)]
    ensemble(tmp_path, "chain", {"t0": ROW}, {"t1200": ROW}, *steps)
    scene = scene_of(repository := read_repository(tmp_path), check_repository(repository))
    assert to_svg(scene).count('class="wire"') == 1201
    assert to_lines(scene)


def test_draw_prints_in_the_terminal(tmp_path: Path) -> None:
    text_search(tmp_path)
    ran = run("repo", "draw", tmp_path)
    assert ran.code == 0
    assert ran.out.startswith("rag  ensemble · max batch 64  E012\n")
    assert ran.out.splitlines()[-1] == "9 errors, 3 warnings in 4 models"
    assert max(map(cell_len, ran.out.splitlines())) <= 80


def test_draw_writes_svg(tmp_path: Path) -> None:
    one(tmp_path / "models")
    target = tmp_path / "out.svg"
    ran = run("repo", "draw", tmp_path / "models", "-o", target)
    assert (ran.code, ran.out) == (0, f"{target}: nothing found in 1 model\n")
    assert ET.fromstring(target.read_text(encoding="utf-8")).tag == f"{SVG}svg"


def test_draw_chooses_a_profile_and_says_so() -> None:
    first = run("repo", "draw", OURS).out.splitlines()
    assert first[-2].endswith("in 6 models, profile a100")
    assert first[-1] == "other profiles: cpu, h100, t4 (--profile)"
    named = run("repo", "draw", OURS / "detect", "--profile", "cpu").out.splitlines()
    assert named[-1] == "nothing found in 3 models, profile cpu"


def test_draw_prints_the_scene_as_json(tmp_path: Path) -> None:
    text_search(tmp_path)
    [document] = run("repo", "draw", tmp_path, "--json").documents
    assert json.loads(json.dumps(document)) == document
    [rag] = document["boxes"]
    assert rag["steps"][0]["outputs"][0]["tensor"] == {
        "data_type": "FP32",
        "dims": [768],
        "row_bytes": 3072,
    }


def test_draw_of_an_empty_folder_says_that_it_is_empty(tmp_path: Path) -> None:
    ran = run("repo", "draw", tmp_path)
    assert ran.out.splitlines() == ["R001  no models in this folder", "1 error in 0 models"]


def test_draw_refuses_what_it_cannot_do(tmp_path: Path) -> None:
    one(tmp_path)
    assert run("repo", "draw", tmp_path / "nowhere").errors[0].startswith("cropseek: ")
    assert run("repo", "draw", tmp_path, "-o", tmp_path / "picture.png").code == 2
    ran = run("repo", "draw", tmp_path, "-o", tmp_path / "no" / "folder.svg")
    assert ran.code == 1
    assert ran.errors[0].startswith("cropseek: cannot write ")


def test_boxes_of_other_backends_are_one_group() -> None:
    assert Box("m", "tensorrt").group == "tensorrt"
    assert Box("m", "vllm").group == Box("m").group == "other"
    assert Box("m").facts == "no backend · max batch ?"
    assert Box("m", "python", 0, version=3).facts == "python · no batching · version 3"
