"""How SVG is written: elements, lines of text, styles.

Text is in a font of one width, so that what is measured here is what a browser shows.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal
from xml.etree import ElementTree as ET

from rich.cells import cell_len

from cropseek.triton.check.findings import Finding
from cropseek.triton.draw.scene import codes, worst
from cropseek.triton.draw.words import printable, shortened

CHAR = 0.6  # a character's width by the size of the font
NAME, TEXT, SMALL = 13.0, 11.0, 10.0  # sizes of the font
LONGEST_NAME, LONGEST_TEXT = 34, 36  # characters
STYLE = """
text { font-family: "DejaVu Sans Mono", Menlo, Consolas, "Liberation Mono", monospace; }
text { fill: #1d2733; white-space: pre; }
.strong { font-weight: bold; }
.muted { fill: #5b6777; }
tspan.error { fill: #cf1322; }
tspan.warning { fill: #ad6800; }
.wire, .stub, .link { fill: none; stroke: #66758a; stroke-width: 1.5; }
.link { stroke: #3d4b5f; stroke-dasharray: 6 4; }
.box, .frame, .pill { fill: #ffffff; stroke: #98a2b3; stroke-width: 1.25; }
.frame { fill: #f7f8fa; }
.absent { stroke-dasharray: 6 4; }
path.error, rect.error { stroke: #cf1322; stroke-width: 2; }
path.warning, rect.warning { stroke: #d48806; stroke-width: 2; }
.port { fill: #66758a; }
.port.error { fill: #cf1322; }
.port.warning { fill: #d48806; }
"""

Part = tuple[str, str]  # a piece of a line of text, and its class
Anchor = Literal["start", "end"]


class Canvas:
    """Writes elements into an SVG element."""

    def __init__(self, parent: ET.Element) -> None:
        self._parent = parent

    def add(self, tag: str, title: str = "", /, **attributes: str | float) -> ET.Element:
        """Add an element, with a tooltip; attributes as SVG has them, `_` for `-`, `class_`."""
        written = {
            key.rstrip("_").replace("_", "-"): number(value) for key, value in attributes.items()
        }
        element = ET.SubElement(self._parent, tag, written)
        element.tail = "\n"
        if title:
            lines = map(printable, title.split("\n"))
            ET.SubElement(element, "title").text = "\n".join(lines)
        return element

    def text(
        self,
        x: float,
        y: float,
        parts: Sequence[Part],
        size: float = TEXT,
        anchor: Anchor = "start",
        title: str = "",
    ) -> None:
        """Write a line of text, its parts a space apart."""
        parts = [part for part in parts if part[0]]
        if not parts:
            return
        line = self.add("text", title, x=x, y=y, font_size=size, text_anchor=anchor)
        for index, (text, kind) in enumerate(parts):
            part = ET.SubElement(line, "tspan", {"class": kind} if kind else {})
            part.text = (" " if index else "") + text

    def group(self, kind: str, title: str = "") -> Canvas:
        """Return a canvas for what belongs together."""
        return Canvas(self.add("g", title, class_=kind))


def number(value: str | float) -> str:
    """Return a number as it is written."""
    return value if isinstance(value, str) else f"{round(value, 1):g}"


def room(parts: Sequence[Part], size: float = TEXT) -> float:
    """Return the width of a line of text."""
    texts = [text for text, _ in parts if text]
    return size * CHAR * (sum(map(cell_len, texts)) + max(len(texts) - 1, 0))


def classes(kind: str, findings: Iterable[Finding]) -> str:
    """Return a class and, if there are findings, how bad they are."""
    return f"{kind} {worst(findings)}".rstrip()


def codes_part(findings: Sequence[Finding]) -> Part:
    """Return the codes of findings as a part of a line."""
    return codes(findings), f"{worst(findings)} strong"


def whole(text: str, limit: int) -> str:
    """Return the tooltip that a shortened text needs; "" if it is shown whole."""
    return text if shortened(text, limit) != text else ""


def said(findings: Iterable[Finding], *before: str) -> str:
    """Return lines for a tooltip: some text, and what findings say."""
    told = (f"{finding.rule.code} {finding.message}" for finding in findings)
    lines = [*before, *dict.fromkeys(told)]
    return "\n".join(filter(None, lines))
