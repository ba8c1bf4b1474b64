"""An ensemble as a frame: its steps from left to right between its inputs and its outputs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

from cropseek.triton.draw.canvas import (
    LONGEST_NAME,
    LONGEST_TEXT,
    NAME,
    SMALL,
    Canvas,
    Part,
    classes,
    number,
    room,
    said,
    whole,
)
from cropseek.triton.draw.card import LINK_ROW, Card, Pill, draw_link_text, head, link_room
from cropseek.triton.draw.layout import Edge, Layout, Node, Run, layered
from cropseek.triton.draw.scene import Box, End, Link, Port, edges_of, ends_of, port_at, worst
from cropseek.triton.draw.words import shortened

_PAD, _TOP = 20.0, 48.0
_STUB = 18.0


class _Label:
    """What is written on a tensor's way out of its writer: name above the line, size below.

    The name is left out where it is the port's own, which is written beside it.
    """

    def __init__(self, port: Port) -> None:
        kind = worst(port.findings)
        name = port.wire if port.wire and port.wire != port.key else ""
        tensor = shortened(str(port.tensor), LONGEST_TEXT) if port.tensor else ""
        self._above: list[Part] = [(shortened(name, LONGEST_TEXT), f"{kind} strong")]
        self._below: list[Part] = [(tensor, kind or "muted")]
        self._title = said(port.findings, whole(name, LONGEST_TEXT))
        self.width = max(room(self._above), room(self._below, SMALL)) + 18

    def draw(self, canvas: Canvas, x: float, y: float) -> None:
        """Write it on a line at y that begins at x."""
        canvas.text(x + 8, y - 4, self._above, title=self._title)
        canvas.text(x + 8, y + 12, self._below, SMALL)


@dataclass(frozen=True)
class _Place:
    """Where a port is: in which node, and how far below that node's top."""

    node: str
    y: float


class Frame:
    """An ensemble, laid out."""

    def __init__(self, box: Box, links: Sequence[Link]) -> None:
        self._box = box
        self._links = links
        self._edges = list(edges_of(box))
        self._nodes = dict(self._make_nodes())
        self._writers = {end: _Label(port) for end, port in ends_of(box, "writers")}
        self._layout = self._arranged()
        self._head = head(box, (shortened(box.facts, 48), "muted"))
        lines = [room(self._head, NAME), *map(link_room, links)]
        self.width = max(self._layout.width, *lines) + 2 * _PAD
        self._link_top = _TOP + self._layout.height + _PAD
        self.height = self._link_top + LINK_ROW * len(links) + (6 if links else 0)

    def link_y(self, index: int) -> float:
        """Return how far below the top a call goes out."""
        return self._link_top + LINK_ROW * (index + 0.5)

    def _make_nodes(self) -> Iterator[tuple[str, Card | Pill]]:
        box = self._box
        writer_of = {reader: writer for writer, reader in self._edges}

        def is_shown(reader: End) -> bool:
            """Whether the reader's own tensor is shown, as it is not what the wire says."""
            port = port_at(box, reader, "readers")
            writer = writer_of.get(reader)
            if writer is None or port.findings:
                return True
            return port.tensor != port_at(box, writer, "writers").tensor

        for index, port in enumerate(box.inputs):
            yield f"in {index}", Pill(port, with_tensor=False)
        for step, member in enumerate(box.steps):
            shown = {i for i in range(len(member.inputs)) if is_shown((step, i))}
            yield f"step {step}", Card(member, tensors=shown)
        for index, port in enumerate(box.outputs):
            yield f"out {index}", Pill(port, with_tensor=is_shown((None, index)))

    def _place(self, end: End, side: Literal["in", "out"]) -> _Place:
        step, index = end
        node = f"{side} {index}" if step is None else f"step {step}"
        return _Place(node, self._nodes[node].port_y(index))

    def _arranged(self) -> Layout:
        labels: dict[str, float] = {}
        for end, label in self._writers.items():
            node = self._place(end, "in").node
            labels[node] = max(labels.get(node, 0.0), label.width)
        pins: dict[str, Literal["first", "last"]] = {"in": "first", "out": "last"}
        nodes = {
            name: Node(item.width, item.height, labels.get(name, 0.0), pins.get(name.split()[0]))
            for name, item in self._nodes.items()
        }
        edges = []
        for writer, reader in self._edges:
            source, target = self._place(writer, "in"), self._place(reader, "out")
            edges.append(Edge(source.node, source.y, target.node, target.y))
        return layered(nodes, edges)

    def draw(self, canvas: Canvas, x: float, y: float) -> None:
        """Draw it with its left top there."""
        box = self._box
        group = canvas.group("ensemble", said(box.findings, whole(box.model, LONGEST_NAME)))
        look = {"x": x, "y": y, "width": self.width, "height": self.height, "rx": 10}
        group.add("rect", class_=classes("frame", box.findings), **look)
        group.text(x + _PAD, y + 25, self._head, NAME)
        left, top = x + _PAD, y + _TOP
        self._draw_wires(group, left, top)
        self._draw_writers(group, left, top)
        self._draw_unfed(group, left, top)
        for name, item in self._nodes.items():
            at_x, at_y = self._layout.places[name]
            item.draw(group, left + at_x, top + at_y)
        for index, link in enumerate(self._links):
            draw_link_text(group, x + self.width, y + self.link_y(index), link)

    def _draw_wires(self, canvas: Canvas, left: float, top: float) -> None:
        drawn = zip(self._edges, self._layout.routes, strict=True)
        for index, ((writer, reader), route) in enumerate(drawn):
            source = port_at(self._box, writer, "writers")
            findings = (*source.findings, *port_at(self._box, reader, "readers").findings)
            is_back = index in self._layout.backward
            kind = "wire error" if is_back else classes("wire", findings)
            title = said(findings, source.wire or "", str(source.tensor or ""))
            draw_route(canvas, route, left, top, kind, title)

    def _draw_writers(self, canvas: Canvas, left: float, top: float) -> None:
        """Draw the labels of tensors, and a stub where nobody reads one."""
        read = {writer for writer, _ in self._edges}
        for end, label in self._writers.items():
            place = self._place(end, "in")
            x, y = self._layout.places[place.node]
            x, y = left + x + self._nodes[place.node].width, top + y + place.y
            if end not in read:
                findings = port_at(self._box, end, "writers").findings
                path = _stub(x, x + label.width, y)
                canvas.add("path", said(findings), d=path, class_=classes("stub", findings))
            label.draw(canvas, x, y)

    def _draw_unfed(self, canvas: Canvas, left: float, top: float) -> None:
        """Draw a stub where nobody writes what is read."""
        fed = {reader for _, reader in self._edges}
        for end, port in ends_of(self._box, "readers"):
            if end not in fed:
                place = self._place(end, "out")
                x, y = self._layout.places[place.node]
                path = _stub(left + x, left + x - _STUB, top + y + place.y)
                canvas.add(
                    "path", said(port.findings), d=path, class_=classes("stub", port.findings)
                )


def _stub(x0: float, x1: float, y: float) -> str:
    """Return a line that ends in a cross."""
    return f"M{number(x0)},{number(y)} H{number(x1)} m-4,-4 l8,8 m0,-8 l-8,8"


def draw_route(
    canvas: Canvas, route: Sequence[Run], left: float, top: float, kind: str, title: str
) -> None:
    """Draw an edge of a layout whose left top is there, with an arrow."""
    runs = [Run(run.x0 + left, run.x1 + left, run.y + top) for run in route]
    path = [f"M{number(runs[0].x0)},{number(runs[0].y)} H{number(runs[0].x1)}"]
    for last, run in pairwise(runs):
        path += [_curve(last, run), f"H{number(run.x1)}"]
    canvas.add("path", title, d=" ".join([*path, "m-7,-4 l6,4 l-6,4"]), class_=kind)


def _curve(last: Run, run: Run) -> str:
    """Return the piece between two runs, level at both ends."""
    if last.y == run.y and last.x1 <= run.x0:
        return f"H{number(run.x0)}"
    bend = max((run.x0 - last.x1) / 2, 20)
    out = bend if last.x1 >= last.x0 else -bend
    into = bend if run.x1 >= run.x0 else -bend
    points = [(last.x1 + out, last.y), (run.x0 - into, run.y), (run.x0, run.y)]
    return "C" + " ".join(f"{number(x)},{number(y)}" for x, y in points)
