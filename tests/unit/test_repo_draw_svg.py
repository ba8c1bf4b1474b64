"""The drawing as SVG: nothing overlaps, every wire and every finding is there, names are whole."""

from __future__ import annotations

import re
from collections import Counter
from itertools import combinations
from pathlib import Path
from xml.etree import ElementTree as ET

from rich.cells import cell_len

from cropseek.triton.check import check_repository, read_repository
from cropseek.triton.draw import scene_of, to_svg
from cropseek.triton.draw.scene import Role, codes, edges_of, ends_of, worst
from cropseek.triton.draw.words import printable
from tests.oracle.cases import Files, ensemble, files, leaf, single, step
from tests.unit.draw_builders import (
    OURS,
    Rectangle,
    calls,
    drawn,
    each_repository,
    gives,
    odd_names,
    overlap,
    places_of,
    takes,
    text_search,
    within,
)

SVG = "{http://www.w3.org/2000/svg}"


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


@each_repository
def test_boxes_do_not_overlap(made: Files, tmp_path: Path) -> None:
    scene = drawn(tmp_path, made)
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


@each_repository
def test_texts_do_not_overlap_and_lie_in_the_picture(made: Files, tmp_path: Path) -> None:
    scene = drawn(tmp_path, made)
    root = ET.fromstring(to_svg(scene))
    picture = (0.0, 0.0, float(root.attrib["width"]), float(root.attrib["height"]))
    found = texts(root)
    assert found
    assert all(within(place, picture) for place, _ in found)
    clashes = [(a[1], b[1]) for a, b in combinations(found, 2) if overlap(a[0], b[0])]
    assert not clashes


@each_repository
def test_every_wire_is_drawn(made: Files, tmp_path: Path) -> None:
    scene = drawn(tmp_path, made)
    root = ET.fromstring(to_svg(scene))
    wires = [p for p in root.iter(f"{SVG}path") if p.get("class", "").split()[:1] == ["wire"]]
    edges = [edge for box in scene.boxes for edge in edges_of(box)]
    assert len(wires) == len(edges)
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


@each_repository
def test_every_finding_is_written_where_the_scene_has_it(made: Files, tmp_path: Path) -> None:
    scene = drawn(tmp_path, made)
    root = ET.fromstring(to_svg(scene))
    places = [place.findings for place in places_of(scene) if place.findings]
    expected = Counter((codes(findings), worst(findings)) for findings in places)
    groups = [g for g in root.iter(f"{SVG}g") if g.get("class") in ("model", "ensemble")]
    parts = {part for group in groups for part in group.iter(f"{SVG}tspan")}
    written: Counter[tuple[str, str]] = Counter()
    for part in parts:
        text, kind = (part.text or "").strip(), part.get("class", "")
        if re.fullmatch(r"([A-Z]\d{3} ?)+(\+\d+)?", text):
            written[text, kind.removesuffix(" strong")] += 1
    assert written == expected
    tooltips = {line for t in root.iter(f"{SVG}title") for line in (t.text or "").split("\n")}
    for finding in scene.findings:
        if finding.model:
            assert printable(f"{finding.rule.code} {finding.message}") in tooltips


@each_repository
def test_drawings_are_the_same_each_time(made: Files, tmp_path: Path) -> None:
    first, second = (to_svg(drawn(tmp_path / name / "r", made)) for name in ("one", "other"))
    assert first == second


def test_names_are_escaped_and_shortened_ones_keep_their_whole_in_a_tooltip(
    tmp_path: Path,
) -> None:
    svg = to_svg(drawn(tmp_path, odd_names()))
    root = ET.fromstring(svg)
    written = {shown(element).split(" ")[0] for element in root.iter(f"{SVG}text")}
    assert {'a<b>&"c"', "x<&>", "画像検索モデル", "出力", "all<of>them", "Y&"} <= written
    assert "a&lt;b&gt;&amp;" in svg
    tooltips = " ".join(title.text or "" for title in root.iter(f"{SVG}title"))
    for whole in ("long_" * 30, "input_" * 30, "X" * 100):
        assert whole not in written
        assert whole in tooltips


def test_a_broken_pipeline_is_red_where_it_is_broken(tmp_path: Path) -> None:
    root = ET.fromstring(to_svg(drawn(tmp_path, text_search())))
    stubs = [p.get("class") for p in root.iter(f"{SVG}path") if "stub" in p.get("class", "")]
    assert stubs == ["stub error"] * 4  # answer; ids, query; response
    wires = [p.get("class") for p in root.iter(f"{SVG}path") if "wire" in p.get("class", "")]
    assert sorted(map(str, wires)) == ["wire", "wire", "wire error"]
    [frame] = [r for r in root.iter(f"{SVG}rect") if "frame" in r.get("class", "")]
    assert frame.get("class") == "frame"
    cards = [r.get("class") for r in root.iter(f"{SVG}rect") if "box" in r.get("class", "")]
    assert cards == ["box error"] * 3  # E012
    tensors = Counter(text for _, text in texts(root))
    assert tensors["768 FP32, 3.1 kB"] == 1  # on the wire, not again where it is read
    assert tensors["E002 E009 1 INT64, 8 B"] == 1  # what is read is not what is written


def test_the_absent_are_red_and_dashed(tmp_path: Path) -> None:
    scene = drawn(tmp_path, single(parameters=calls("gone")))
    root = ET.fromstring(to_svg(scene))
    kinds = [rect.get("class") for rect in root.iter(f"{SVG}rect")]
    assert "box absent error" in kinds
    assert [path.get("class") for path in root.iter(f"{SVG}path")].count("link error") == 1


def test_our_own_repository() -> None:
    repository = read_repository(OURS, "cpu")
    svg = to_svg(scene_of(repository, check_repository(repository)))
    assert "3 x 640 x 640 UINT8, 1.2 MB" in svg
    assert svg.count('class="link"') == 4  # three calls, and the legend


def test_an_ensemble_of_hundreds_of_steps(tmp_path: Path) -> None:
    steps = [step("leaf", f"t{n}", f"t{n + 1}") for n in range(1200)]
    chain = ensemble(*steps, input=takes("t0"), output=gives("t1200"))
    assert to_svg(drawn(tmp_path, files(leaf("leaf"), chain))).count('class="wire"') == 1201
