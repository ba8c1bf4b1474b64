"""How SVG is written: elements, lines of text, colours.

Text is in a font of one width, so that what is measured here is what a browser shows.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal
from xml.etree import ElementTree as ET

from rich.cells import cell_len

from cropseek.triton.draw.scene import Fault, codes, worst
from cropseek.triton.draw.words import printable, shortened

CHAR = 0.6  # a character's width by the size of the font
NAME, TEXT, SMALL = 13.0, 11.0, 10.0  # sizes of the font
LONGEST_NAME, LONGEST_TEXT = 34, 36  # characters
COLORS = {  # of backends: text and line, ground
    "python": ("#2f62a8", "#e6eefa"),
    "onnxruntime": ("#7a4fa3", "#f1e9f8"),
    "tensorrt": ("#4b7a12", "#eaf3dc"),
    "dali": ("#0b7a7a", "#def2f1"),
    "ensemble": ("#4a5568", "#e6e9ee"),
    "other": ("#6d5f4b", "#f0ebe3"),
}
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
            ET.SubElement(element, "title").text = printable(title)
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


def classes(kind: str, faults: Iterable[Fault]) -> str:
    """Return a class and, if there are faults, how bad they are."""
    return f"{kind} {worst(faults)}".rstrip()


def codes_part(faults: Sequence[Fault]) -> Part:
    """Return the codes of faults as a part of a line."""
    return codes(faults), f"{worst(faults)} strong"


def whole(text: str, limit: int) -> str:
    """Return the tooltip that a shortened text needs; "" if it is shown whole."""
    return text if shortened(text, limit) != text else ""


def said(faults: Iterable[Fault], *before: str) -> str:
    """Return lines for a tooltip: some text, and what faults say."""
    lines = [*before, *dict.fromkeys(f"{fault.code} {fault.message}" for fault in faults)]
    return "\n".join(filter(None, lines))
