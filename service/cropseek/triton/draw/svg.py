"""A scene as SVG: one file that needs nothing else, on its own light ground."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from xml.etree import ElementTree as ET

from cropseek.triton.check.findings import Severity
from cropseek.triton.draw.canvas import (
    CHAR,
    STYLE,
    TEXT,
    Canvas,
    classes,
    number,
    room,
    said,
    whole,
)
from cropseek.triton.draw.card import ENTRY_Y, Card
from cropseek.triton.draw.colors import COLORS
from cropseek.triton.draw.frame import Frame, draw_route
from cropseek.triton.draw.layout import Edge, Layout, Node, layered
from cropseek.triton.draw.scene import Box, Link, Scene, sentence
from cropseek.triton.draw.words import counted, printable, shortened

_MARGIN, _GAP = 24.0, 32.0
_WIDEST = 1500.0  # unless one thing alone is wider
_NARROWEST = 760.0
_MOST_FINDINGS = 30  # listed below the picture


@dataclass(frozen=True)
class _Block:
    """Models and ensembles that call each other, laid out together."""

    items: dict[str, Card | Frame]
    links: list[Link]
    layout: Layout

    @property
    def rank(self) -> tuple[bool, bool]:
        """What comes first: those with calls, then ensembles."""
        return not self.links, all(isinstance(item, Card) for item in self.items.values())

    def draw(self, canvas: Canvas, x: float, y: float) -> None:
        """Draw it with its left top there."""
        for index, (link, route) in enumerate(zip(self.links, self.layout.routes, strict=True)):
            is_back = index in self.layout.backward
            kind = "link error" if is_back else classes("link", link.findings)
            title = said(link.findings, f"{link.model} calls {link.target}")
            draw_route(canvas, route, x, y, kind, title)
        for name, item in self.items.items():
            at_x, at_y = self.layout.places[name]
            item.draw(canvas, x + at_x, y + at_y)


def to_svg(scene: Scene) -> str:
    """Return a scene as the text of an SVG file."""
    root = ET.Element("svg", {"xmlns": "http://www.w3.org/2000/svg"})
    canvas = Canvas(root)
    canvas.add("title").text = printable(scene.title)
    canvas.add("style").text = STYLE
    canvas.add("rect", width="100%", height="100%", fill="#ffffff", rx=8, class_="ground")
    y = _draw_head(canvas, scene)
    width = _NARROWEST
    blocks = sorted(_blocks(scene), key=lambda block: block.rank)
    for shelf in _shelves(blocks):
        x = _MARGIN
        for block in shelf:
            block.draw(canvas, x, y)
            x += block.layout.width + _GAP
        width = max(width, x - _GAP + _MARGIN)
        y += max(block.layout.height for block in shelf) + _GAP
    y = _draw_findings(canvas, scene, y, width)
    root.attrib |= {"width": number(width), "height": number(y)}
    root.attrib |= {"viewBox": f"0 0 {number(width)} {number(y)}"}
    return ET.tostring(root, encoding="unicode") + "\n"


def _blocks(scene: Scene) -> Iterator[_Block]:
    outgoing: dict[str, list[Link]] = {box.model: [] for box in scene.boxes}
    for link in scene.links:
        outgoing[link.source].append(link)
    for boxes in _components(scene):
        items = {box.model: _item(box, outgoing[box.model]) for box in boxes}
        links, edges = [], []
        for box in boxes:
            for index, link in enumerate(outgoing[box.model]):
                links.append(link)
                link_y = items[link.source].link_y(index)
                edges.append(Edge(link.source, link_y, link.target, ENTRY_Y))
        nodes = {name: Node(item.width, item.height) for name, item in items.items()}
        yield _Block(items, links, layered(nodes, edges, _GAP))


def _item(box: Box, links: Sequence[Link]) -> Card | Frame:
    return Frame(box, links) if box.backend == "ensemble" else Card(box, links)


def _components(scene: Scene) -> Iterator[list[Box]]:
    """Yield the boxes at the top that calls connect."""
    near: dict[str, list[str]] = {box.model: [] for box in scene.boxes}
    for link in scene.links:
        near[link.source].append(link.target)
        near[link.target].append(link.source)
    seen: set[str] = set()
    for name in near:
        found: set[str] = set()
        waiting = [name] if name not in seen else []
        while waiting:
            last = waiting.pop()
            if last not in found:
                found.add(last)
                waiting += near[last]
        seen |= found
        if found:
            yield [box for box in scene.boxes if box.model in found]


def _shelves(blocks: Sequence[_Block]) -> Iterator[list[_Block]]:
    """Yield rows of blocks that fit the width."""
    across = max([_WIDEST, *(block.layout.width for block in blocks)])
    shelf: list[_Block] = []
    x = 0.0
    for block in blocks:
        if shelf and x + block.layout.width > across:
            yield shelf
            shelf, x = [], 0.0
        shelf.append(block)
        x += block.layout.width + _GAP
    if shelf:
        yield shelf


def _draw_head(canvas: Canvas, scene: Scene) -> float:
    """Draw the title and the legend, and return where the picture begins."""
    models = counted(scene.models, "model")
    parts = [(shortened(scene.title, 60), "strong"), (f"· {models}", "muted")]
    counts = Counter(finding.rule.severity for finding in scene.findings)
    for name, count in ((severity.value, counts[severity]) for severity in Severity):
        if count:
            parts += [("·", "muted"), (counted(count, name), name)]
    canvas.text(_MARGIN, 36, parts, 16, title=whole(scene.title, 60))
    shown = {box.group for top in scene.boxes for box in (top, *top.steps) if not box.place}
    x = _MARGIN
    for group, color in COLORS.items():
        if group in shown:
            look = {"fill": color.ground, "stroke": color.line}
            canvas.add("rect", x=x, y=55, width=14, height=14, rx=3, **look)
            canvas.text(x + 20, 66, [(group, "")])
            x += 40 + room([(group, "")])
    if scene.links:
        canvas.add("path", d=f"M{number(x)},62 h28", class_="link")
        canvas.text(x + 36, 66, [("BLS call", "")])
    return 92.0


def _draw_findings(canvas: Canvas, scene: Scene, y: float, width: float) -> float:
    """List the findings below the picture, and return where it ends."""
    limit = int((width - 2 * _MARGIN) / (TEXT * CHAR)) - 6
    lines = [
        ((finding.rule.code, f"{finding.rule.severity.value} strong"), sentence(finding))
        for finding in scene.findings[:_MOST_FINDINGS]
    ]
    if len(scene.findings) > _MOST_FINDINGS:
        more = f"and {len(scene.findings) - _MOST_FINDINGS} more: cropseek repo check"
        lines.append((("", ""), more))
    for code, text in lines:
        canvas.text(_MARGIN, y + 6, [code, (shortened(text, limit), "")], title=whole(text, limit))
        y += 18
    return y + 8 if lines else y
