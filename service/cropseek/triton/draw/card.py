"""A model as a card with its ports, and an ensemble's own input or output as a pill."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from cropseek.triton.draw.canvas import (
    LONGEST_NAME,
    LONGEST_TEXT,
    NAME,
    SMALL,
    Anchor,
    Canvas,
    Part,
    classes,
    codes_part,
    number,
    room,
    said,
    whole,
)
from cropseek.triton.draw.colors import COLORS
from cropseek.triton.draw.scene import Box, Link, Port, worst
from cropseek.triton.draw.words import shortened

ENTRY_Y = 20.0  # how far below the top of a card or a frame calls come in
LINK_ROW = 20.0  # between calls
_ROW = 34.0  # between ports
_PAD = 12.0
_NARROWEST = 150.0


class PortText:
    """What is written at a port: its key, below it the codes of its findings, and its tensor."""

    def __init__(self, port: Port, with_tensor: bool) -> None:
        severity = worst(port.findings)
        tensor = shortened(str(port.tensor), LONGEST_TEXT) if port.tensor and with_tensor else ""
        below = [codes_part(port.findings), (tensor, severity or "muted")]
        self._key: list[Part] = [(shortened(port.key, LONGEST_TEXT), severity)]
        self._below = [part for part in below if part[0]]
        self._title = said(port.findings, whole(port.key, LONGEST_TEXT))
        self.width = max(room(self._key), room(self._below, SMALL))

    def draw(self, canvas: Canvas, x: float, y: float, anchor: Anchor = "start") -> None:
        """Write it beside a port at y."""
        key_y = y - 1 if self._below else y + 4
        canvas.text(x, key_y, self._key, anchor=anchor, title=self._title)
        canvas.text(x, y + 11, self._below, SMALL, anchor)


class Card:
    """A model: its name and facts, inputs on the left, outputs and calls on the right.

    `tensors` are the numbers of the inputs whose tensors are shown, where the wires do not say
    them; None shows those of all ports.
    """

    def __init__(
        self, box: Box, links: Sequence[Link] = (), tensors: Collection[int] | None = None
    ) -> None:
        self._box = box
        self._links = links
        self._inputs = [
            PortText(port, tensors is None or index in tensors)
            for index, port in enumerate(box.inputs)
        ]
        self._outputs = [PortText(port, tensors is None) for port in box.outputs]
        self._head = head(box)
        self._facts: list[Part] = [(shortened(box.facts, 48), "error" if box.is_absent else "")]
        used = ", ".join(box.also_in)
        self._note: list[Part] = [(shortened(f"also in {used}", 40), "muted")] if used else []
        self._top = 62.0 if used else 48.0
        ports = max((t.width for t in self._inputs), default=0.0)
        ports += max((t.width for t in self._outputs), default=0.0) + 2 * _PAD
        lines = [room(self._head, NAME), room(self._facts), room(self._note, SMALL)]
        lines += [link_room(link) for link in links]
        self.width = max(ports, *lines, _NARROWEST) + 2 * _PAD
        self._link_top = self._top + _ROW * max(len(box.inputs), len(box.outputs))
        self.height = self._link_top + LINK_ROW * len(links) + 8

    def port_y(self, index: int) -> float:
        """Return how far below the top a port is."""
        return self._top + _ROW * (index + 0.5)

    def link_y(self, index: int) -> float:
        """Return how far below the top a call goes out."""
        return self._link_top + LINK_ROW * (index + 0.5)

    def draw(self, canvas: Canvas, x: float, y: float) -> None:
        """Draw it with its left top there."""
        box = self._box
        group = canvas.group("model", said(box.findings, whole(box.model, LONGEST_NAME)))
        self._draw_outline(group, x, y)
        group.text(x + _PAD, y + 19, self._head, NAME)
        group.text(x + _PAD, y + 36, self._facts, title=whole(box.facts, 48))
        group.text(x + _PAD, y + 51, self._note, SMALL, title=", ".join(box.also_in))
        _draw_ports(group, x, y, self, box.inputs, self._inputs, "start")
        _draw_ports(group, x + self.width, y, self, box.outputs, self._outputs, "end")
        for index, link in enumerate(self._links):
            draw_link_text(group, x + self.width, y + self.link_y(index), link)

    def _draw_outline(self, canvas: Canvas, x: float, y: float) -> None:
        box = self._box
        color = COLORS[box.group]
        kind = classes("box absent" if box.place else "box", box.findings)
        look: dict[str, str | float] = {"x": x, "y": y, "width": self.width, "height": self.height}
        if box.is_absent:
            kind = "box absent error"
        elif not box.findings:
            look["style"] = f"stroke: {color.line}"
        canvas.add("rect", class_=kind, rx=6, **look)
        if not box.place:
            canvas.add("path", d=_cap(x, y, self.width, self._top - 4), fill=color.ground)


def _cap(x: float, y: float, width: float, height: float) -> str:
    """Return the outline of a card's upper part, within its border."""
    left, right, top, bottom = map(number, (x + 1, x + width - 6, y + 6, y + height))
    return f"M{left},{bottom} V{top} q0,-5 5,-5 H{right} q5,0 5,5 V{bottom} Z"


def _draw_ports(
    canvas: Canvas,
    x: float,
    y: float,
    card: Card,
    ports: Sequence[Port],
    texts: Sequence[PortText],
    anchor: Anchor,
) -> None:
    inward = _PAD if anchor == "start" else -_PAD
    for index, (port, text) in enumerate(zip(ports, texts, strict=True)):
        at = y + card.port_y(index)
        text.draw(canvas, x + inward, at, anchor)
        canvas.add("circle", cx=x, cy=at, r=3, class_=classes("port", port.findings))


class Pill:
    """An input or output of an ensemble, within its frame."""

    height = 32.0

    def __init__(self, port: Port, with_tensor: bool) -> None:
        self._port = port
        self._text = PortText(port, with_tensor)
        self.width = self._text.width + 2 * _PAD

    def port_y(self, index: int) -> float:
        """Return how far below the top the one port is."""
        return self.height / 2

    def draw(self, canvas: Canvas, x: float, y: float) -> None:
        """Draw it with its left top there."""
        look = {"x": x, "y": y, "width": self.width, "height": self.height, "rx": 16}
        canvas.add("rect", class_=classes("pill", self._port.findings), **look)
        self._text.draw(canvas, x + _PAD, y + self.height / 2)


def head(box: Box, *more: Part) -> list[Part]:
    """Return the first line of a card or a frame."""
    return [(shortened(box.model, LONGEST_NAME), "strong"), *more, codes_part(box.findings)]


def _link_text(link: Link) -> str:
    who = "" if link.model == link.source else f"{shortened(link.model, LONGEST_NAME)} "
    return f"{who}calls {shortened(link.target, LONGEST_NAME)}"


def link_room(link: Link) -> float:
    """Return the width of what is written at a call."""
    return room([(_link_text(link), "")])


def draw_link_text(canvas: Canvas, x: float, y: float, link: Link) -> None:
    """Write who is called beside where the call goes out."""
    text = [(_link_text(link), worst(link.findings) or "muted")]
    title = said(link.findings, whole(link.target, LONGEST_NAME))
    canvas.text(x - _PAD, y + 4, text, anchor="end", title=title)
    canvas.add("circle", cx=x, cy=y, r=3, class_=classes("port", link.findings))
