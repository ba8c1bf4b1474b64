"""A scene as lines for a terminal: an ensemble's tensors run down beside its steps, as rails.

    ╭───○ query  1 STRING, ? B
    │  ┌ embedding  tensorrt · max batch 32 · 1 x GPU ─┐
    ╰─▶│ ids ← query                                   │
    ╭──│ vector  768 FP32, 3.1 kB                      │
    │  └───────────────────────────────────────────────┘

A cross is where a tensor is not fed, or not read. `↑` and `↓` join what no rail can: steps that
wait for each other, and tensors beyond the rails that there is room for.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush

from rich.cells import cell_len
from rich.text import Text

from cropseek.triton.draw.colors import COLORS
from cropseek.triton.draw.layout import topological
from cropseek.triton.draw.scene import (
    Box,
    End,
    Link,
    Port,
    Role,
    Scene,
    codes,
    edges_of,
    ends_of,
    sentence,
    worst,
)
from cropseek.triton.draw.words import printable, shortened

_CROSS = "\N{BOX DRAWINGS LIGHT DIAGONAL CROSS}"
_ASCII = str.maketrans(f"╭╰├│─┼▶◀┌┐└┘○{_CROSS}·…→←↑↓", "+++|-+><++++ox-~><^v")
_STYLES = {"error": "bold red", "warning": "yellow", "": ""}
_MOST_RAILS = 12
Calls = dict[tuple[str, str], list[Link]]  # by the box at the top, and the model within it


def to_lines(scene: Scene, width: int = 80, ascii_only: bool = False) -> list[Text]:
    """Return a scene as lines no wider than `width`, at least 60."""
    calls: Calls = {}
    for link in scene.links:
        calls.setdefault((link.source, link.model), []).append(link)
    lines = []
    for box in scene.boxes:
        lines += [*_top(box, calls, width), Text()]
    lines += _findings(scene, width)
    if ascii_only:
        for line in lines:
            line.plain = line.plain.translate(_ASCII)
    return lines


def _top(box: Box, calls: Calls, width: int) -> Iterator[Text]:
    if box.backend == "ensemble":
        yield from _Rails(box, calls, width).lines()
        return
    card = _Card(box, calls.get((box.model, box.model), []), width - 3)
    yield Text("   ") + card.top()
    for port in box.inputs:
        yield _styled("──▶", port) + card.row(_port(port, card.inner, "", str(port.tensor or "")))
    for port in box.outputs:
        yield _styled("◀──", port) + card.row(_port(port, card.inner, "", str(port.tensor or "")))
    for line in card.bottom():
        yield Text("   ") + line


def _styled(text: str, port: Port) -> Text:
    return Text(text, _STYLES[worst(port.findings)])


class _Card:
    """The box around a model."""

    def __init__(self, box: Box, links: Sequence[Link], width: int) -> None:
        self._box = box
        self._links = links
        self._style = _STYLES["error" if box.is_absent else worst(box.findings)]
        self.inner = width - 4

    def top(self) -> Text:
        """Return the border that holds the name."""
        head = _head(self._box, self.inner)
        rest = self.inner + 1 - cell_len(head.plain)
        return Text("┌ ", self._style) + head + Text(f" {'─' * (rest - 1)}┐", self._style)

    def row(self, text: Text) -> Text:
        """Return a line between the borders."""
        text = text + " " * (self.inner - cell_len(text.plain))
        return Text("│ ", self._style) + text + Text(" │", self._style)

    def bottom(self) -> Iterator[Text]:
        """Yield where else the model is used, who is called, and the border below."""
        if self._box.also_in:
            used = f"also in {', '.join(self._box.also_in)}"
            yield self.row(Text(shortened(used, self.inner), "dim"))
        for link in self._links:
            target = shortened(link.target, self.inner - 16)
            text = f"calls {target}  {codes(link.findings)}".rstrip()
            yield self.row(Text(text, _STYLES[worst(link.findings)]))
        yield Text(f"└{'─' * (self.inner + 2)}┘", self._style)


def _head(box: Box, room: int) -> Text:
    """Return a box's name, facts and codes."""
    marks = codes(box.findings)
    name = shortened(box.model, room // 2)
    facts = shortened(box.facts, room - cell_len(name) - cell_len(marks) - 4)
    parts = [Text(name, f"bold {COLORS[box.group].style}"), Text(facts)]
    if marks:
        parts.append(Text(marks, _STYLES[worst(box.findings)]))
    return Text("  ").join(parts)


def _port(port: Port, room: int, arrow: str, tensor: str) -> Text:
    """Return a port's key, the wire if it is called otherwise, its tensor and codes."""
    style, marks = _STYLES[worst(port.findings)], codes(port.findings)
    room -= cell_len(marks) + 2 if marks else 0
    tensor = shortened(tensor, room - 24)
    room -= cell_len(tensor) + 2 if tensor else 0
    names = port.key
    if arrow and port.wire and port.wire != port.key:
        half = (room - 3) // 2
        names = f"{shortened(port.key, half)} {arrow} {shortened(port.wire, half)}"
    parts = [Text(shortened(names, room), style), Text(tensor, "dim"), Text(marks, style)]
    return Text("  ").join(part for part in parts if part.plain)


@dataclass(frozen=True)
class _Track:
    """How a port meets the rails: which one, or none, and the sign at its turn."""

    rail: int | None
    sign: str


def _in_order(box: Box) -> Sequence[int]:
    """Return the steps as they are written, or so that each reads from those before it."""
    pairs = [(w[0], r[0]) for w, r in edges_of(box) if w[0] is not None and r[0] is not None]
    steps = range(len(box.steps))
    if all(writer < reader for writer, reader in pairs):
        return steps
    names = [(str(writer), str(reader)) for writer, reader in pairs]
    return [int(name) for name in topological([str(step) for step in steps], names)[0]]


def _ports_in_order(box: Box, order: Sequence[int]) -> list[tuple[Role, End, Port]]:
    rank: dict[int | None, int] = {step: place for place, step in enumerate(order)}
    roles: tuple[Role, Role] = ("readers", "writers")
    ports = [(role, end, port) for role in roles for end, port in ends_of(box, role)]

    def place(item: tuple[Role, End, Port]) -> int:
        role, (step, _), _ = item
        own = -1 if role == "writers" else len(rank)
        return own if step is None else rank[step]

    return sorted(ports, key=place)


def _tracks(ports: Sequence[tuple[Role, End, Port]]) -> dict[tuple[Role, End], _Track]:
    """Return how each port meets the rails; a rail is free again after its last reader."""
    readers: dict[str | None, list[int]] = {}
    writers: dict[str | None, list[int]] = {}
    for place, (role, _, port) in enumerate(ports):
        (readers if role == "readers" else writers).setdefault(port.wire, []).append(place)
    free = list(range(_MOST_RAILS))
    rails: dict[str | None, int] = {}
    found = {}
    for place, (role, end, port) in enumerate(ports):
        wire = port.wire
        others = (writers if role == "readers" else readers).get(wire, [])
        is_last = role == "readers" and place == readers[wire][-1]
        if wire in rails:
            track = _Track(rails[wire], "╰" if is_last else "├")
            if is_last:
                heappush(free, rails.pop(wire))
        elif role == "writers" and free and any(other > place for other in others):
            rails[wire] = heappop(free)
            track = _Track(rails[wire], "╭")
        else:
            track = _Track(None, _sign(role, place, others))
        found[role, end] = track
    return found


def _sign(role: Role, place: int, others: Sequence[int]) -> str:
    """Return where the other end of a tensor without a rail is: a cross if there is none."""
    if not others:
        return _CROSS
    if role == "writers":
        return "↓" if any(other > place for other in others) else "↑"
    return "↑" if any(other < place for other in others) else "↓"


class _Rails:
    """An ensemble: rails on the left, its inputs, steps and outputs from top to bottom."""

    def __init__(self, box: Box, calls: Calls, width: int) -> None:
        self._box = box
        self._calls = calls
        self._width = width
        self._order = _in_order(box)
        self._ports = _ports_in_order(box, self._order)
        self._tracks = _tracks(self._ports)
        rails = [track.rail for track in self._tracks.values() if track.rail is not None]
        self._across = 2 * max([1, *(rail + 1 for rail in rails)])
        self._room = width - self._across - 1
        self._tensors = {
            port.wire: port.tensor for role, _, port in self._ports if role == "writers"
        }
        self._live: set[int] = set()

    def lines(self) -> Iterator[Text]:
        """Yield the ensemble's lines."""
        yield _head(self._box, self._width)
        yield from self._own("writers")
        for step in self._order:
            box = self._box.steps[step]
            links = self._calls.get((self._box.model, box.model), [])
            card = _Card(box, [] if box.place else links, self._room)
            yield self._passing() + card.top()
            for role, end, port in self._ports:
                if end[0] == step:
                    text = self._described(role, port, card.inner)
                    yield self._joined(role, end, port) + card.row(text)
            for line in card.bottom():
                yield self._passing() + line
        yield from self._own("readers")

    def _own(self, role: Role) -> Iterator[Text]:
        for its, end, port in self._ports:
            if its == role and end[0] is None:
                text = self._described(role, port, self._room - 2)
                yield self._joined(role, end, port) + _styled("○ ", port) + text

    def _described(self, role: Role, port: Port, room: int) -> Text:
        """Return a port's text, with the tensor where no writer above says the same."""
        known = role == "readers" and self._tensors.get(port.wire) == port.tensor
        tensor = "" if known and not port.findings else str(port.tensor or "")
        return _port(port, room, "←" if role == "readers" else "→", tensor)

    def _passing(self) -> Text:
        rails = [" "] * (self._across + 1)
        for rail in self._live:
            rails[2 * rail] = "│"
        return Text("".join(rails), "dim")

    def _joined(self, role: Role, end: End, port: Port) -> Text:
        """Return the rails where a port meets one, and change which are live."""
        track = self._tracks[role, end]
        line = self._passing()
        turn = self._across - 1 if track.rail is None else 2 * track.rail
        rest = line.plain[turn + 1 : self._across].replace(" ", "─").replace("│", "┼")
        tip = "▶" if role == "readers" else "─"
        if track.rail is not None and track.sign == "╭":
            self._live.add(track.rail)
        elif track.rail is not None and track.sign == "╰":
            self._live.remove(track.rail)
        return line[:turn] + Text(
            f"{track.sign}{rest}{tip}", _STYLES[worst(port.findings)] or "dim"
        )


def _findings(scene: Scene, width: int) -> Iterator[Text]:
    for finding in scene.findings:
        said = printable(sentence(finding))
        letters = (width - 6) // (1 if cell_len(said) <= len(said) else 2)
        lines = textwrap.wrap(said, letters, break_on_hyphens=False)
        yield Text.assemble(
            (f"{finding.rule.code}  ", _STYLES[finding.rule.severity.value]), lines[0]
        )
        yield from (Text(f"      {line}") for line in lines[1:])
