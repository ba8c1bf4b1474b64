"""A layered layout: nodes in columns from left to right, edges through the gaps between them.

Sugiyama's way: cycles are opened, each node stands one column after the last that it reads from,
edges over several columns get dummies that keep room for them, columns are ordered by barycentres
so that fewer edges cross, and nodes move up and down so that edges are straight.
"""

from __future__ import annotations

from bisect import bisect, insort
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from graphlib import CycleError, TopologicalSorter
from itertools import pairwise
from statistics import mean, median_low
from typing import Literal, NamedTuple

_STRAIGHT = 10.0  # before a node, and after the labels
_LANE = 14.0  # between edges that run back
_ORDER_SWEEPS, _HEIGHT_SWEEPS = 12, 10


@dataclass(frozen=True)
class Node:
    """A rectangle to place; `label` is the room that its edges' labels take on its right."""

    width: float
    height: float
    label: float = 0.0
    pin: Literal["first", "last"] | None = None


@dataclass(frozen=True)
class Edge:
    """From the right side of a node to the left of another, so far below their tops."""

    source: str
    source_y: float
    target: str
    target_y: float


class Run(NamedTuple):
    """A straight piece of an edge; to be joined to the next by a curve."""

    x0: float
    x1: float
    y: float


@dataclass(frozen=True)
class Layout:
    """Where nodes are (left, top) and how edges run; `backward` are edges that close a cycle."""

    places: dict[str, tuple[float, float]]
    routes: Sequence[tuple[Run, ...]]
    backward: frozenset[int]
    width: float
    height: float


def topological(
    nodes: Sequence[str], pairs: Iterable[tuple[str, str]]
) -> tuple[list[str], set[tuple[str, str]]]:
    """Return the nodes in an order that follows all pairs but those returned with it.

    Those close cycles; of each cycle it is the pair that leads back furthest in the given order.
    """
    rank = {node: number for number, node in enumerate(nodes)}
    left = dict.fromkeys(pairs)
    backward: set[tuple[str, str]] = set()
    while True:
        sorter = TopologicalSorter[str](dict.fromkeys(nodes, ()))
        for source, target in left:
            sorter.add(target, source)
        try:
            return list(sorter.static_order()), backward
        except CycleError as error:
            cycle: list[str] = error.args[1]
            worst = max(pairwise(cycle), key=lambda pair: rank[pair[0]] - rank[pair[1]])
            backward.add(worst)
            del left[worst]


class _Segment(NamedTuple):
    """A piece of an edge between neighbouring columns."""

    source: str
    source_y: float
    target: str
    target_y: float


@dataclass
class _Graph:
    """The nodes with dummies, in columns, and the segments between neighbouring ones."""

    nodes: dict[str, Node]
    columns: list[list[str]] = field(default_factory=list)
    before: dict[str, list[_Segment]] = field(default_factory=dict)
    after: dict[str, list[_Segment]] = field(default_factory=dict)

    def add_segment(self, segment: _Segment) -> None:
        self.after.setdefault(segment.source, []).append(segment)
        self.before.setdefault(segment.target, []).append(segment)


def layered(nodes: Mapping[str, Node], edges: Sequence[Edge], gap: float = 24.0) -> Layout:
    """Return a layout of nodes, at least `gap` apart in each column."""
    pairs = [(edge.source, edge.target) for edge in edges]
    order, cut = topological(list(nodes), pairs)
    backward = frozenset(index for index, pair in enumerate(pairs) if pair in cut)
    forward = [edge for index, edge in enumerate(edges) if index not in backward]
    depths = _depths(nodes, forward, order)
    graph = _Graph(dict(nodes), [[] for _ in range(max(depths.values(), default=-1) + 1)])
    for name in nodes:
        graph.columns[depths[name]].append(name)
    chains = [
        [] if index in backward else _chain(graph, edge, depths) for index, edge in enumerate(edges)
    ]
    _order(graph)
    tops = _tops(graph, gap)
    lefts, ends, width = _sides(graph, margin=4 * _STRAIGHT if backward else 0.0)
    height = max((tops[name] + node.height for name, node in graph.nodes.items()), default=0.0)
    routes = []
    for index, (edge, chain) in enumerate(zip(edges, chains, strict=True)):
        first, last = depths[edge.source], depths[edge.target]
        right = lefts[first] + nodes[edge.source].width
        start = Run(right, ends[first], tops[edge.source] + edge.source_y)
        end = Run(lefts[last] - _STRAIGHT, lefts[last], tops[edge.target] + edge.target_y)
        between = [
            Run(lefts[column] - _STRAIGHT, ends[column], tops[dummy])
            for column, dummy in enumerate(chain, first + 1)
        ]
        if index in backward:
            height += _LANE
            between = [Run(start.x1, end.x0, height)]
        routes.append((start, *between, end))
    places = {name: (lefts[depths[name]], tops[name]) for name in nodes}
    return Layout(places, routes, backward, width, height)


def _depths(
    nodes: Mapping[str, Node], edges: Iterable[Edge], order: Sequence[str]
) -> dict[str, int]:
    """Return each node's column: the longest way to it."""
    targets: dict[str, list[str]] = {}
    for edge in edges:
        targets.setdefault(edge.source, []).append(edge.target)
    has_first = any(node.pin == "first" for node in nodes.values())
    depth = {name: int(has_first and node.pin != "first") for name, node in nodes.items()}
    for name in order:
        for target in targets.get(name, ()):
            depth[target] = max(depth[target], depth[name] + 1)
    inner = [depth[name] for name, node in nodes.items() if node.pin != "last"]
    last = max([*(d + 1 for d in inner), *depth.values()], default=0)
    return depth | {name: last for name, node in nodes.items() if node.pin == "last"}


def _chain(graph: _Graph, edge: Edge, depth: Mapping[str, int]) -> list[str]:
    """Return the dummies of an edge; edges from one port share them."""
    chain: list[str] = []
    last, last_y = edge.source, edge.source_y
    for column in range(depth[edge.source] + 1, depth[edge.target]):
        dummy = f"\0{edge.source}\0{edge.source_y}\0{column}"
        if dummy not in graph.nodes:
            graph.nodes[dummy] = Node(0.0, 0.0)
            graph.columns[column].append(dummy)
            graph.add_segment(_Segment(last, last_y, dummy, 0.0))
        chain.append(dummy)
        last, last_y = dummy, 0.0
    graph.add_segment(_Segment(last, last_y, edge.target, edge.target_y))
    return chain


def _order(graph: _Graph) -> None:
    best, fewest = graph.columns, _crossings(graph, graph.columns)
    columns = [list(column) for column in best]
    for sweep in range(_ORDER_SWEEPS):
        if not fewest:
            break
        _sweep(graph, columns, rightward=sweep % 2 == 0)
        crossings = _crossings(graph, columns)
        if crossings < fewest:
            best, fewest = [list(column) for column in columns], crossings
    linked = {*graph.before, *graph.after}
    graph.columns = [sorted(column, key=lambda name: name not in linked) for column in best]


def _sweep(graph: _Graph, columns: list[list[str]], rightward: bool) -> None:
    numbers = range(1, len(columns)) if rightward else range(len(columns) - 2, -1, -1)
    for number in numbers:
        neighbour = columns[number - 1 if rightward else number + 1]
        rank = {name: place for place, name in enumerate(neighbour)}
        wish = {}
        for place, name in enumerate(columns[number]):
            if rightward:
                ends = [(s.source, s.source_y) for s in graph.before.get(name, ())]
            else:
                ends = [(s.target, s.target_y) for s in graph.after.get(name, ())]
            wish[name] = mean([rank[n] + _share(graph, n, y) for n, y in ends] or [place])
        columns[number].sort(key=wish.__getitem__)


def _share(graph: _Graph, name: str, y: float) -> float:
    """Return how far down a node a port is, from 0 to less than 1."""
    return y / (graph.nodes[name].height + 1)


def _crossings(graph: _Graph, columns: Sequence[Sequence[str]]) -> int:
    count = 0
    rank = {name: place for column in columns for place, name in enumerate(column)}
    for column in columns:
        segments = sorted(
            (
                rank[s.source] + _share(graph, s.source, s.source_y),
                rank[s.target] + _share(graph, s.target, s.target_y),
            )
            for name in column
            for s in graph.after.get(name, ())
        )
        seen: list[float] = []
        for _, end in segments:
            count += len(seen) - bisect(seen, end)
            insort(seen, end)
    return count


def _tops(graph: _Graph, gap: float) -> dict[str, float]:
    tops: dict[str, float] = {}
    for column in graph.columns:
        y = 0.0
        for name in column:
            tops[name] = y
            y += graph.nodes[name].height + gap
    for sweep in range(_HEIGHT_SWEEPS):
        rightward = sweep % 2 == 0
        for column in graph.columns if rightward else reversed(graph.columns):
            wishes: list[float] = []
            below = median_low(tops.values())  # for those without an edge, which are last
            for name in column:
                wishes.append(_wish(graph, tops, name, rightward, below))
                below = wishes[-1] + graph.nodes[name].height + gap
            tops.update(_spread(graph, column, wishes, gap))
    highest = min(tops.values(), default=0.0)
    return {name: top - highest for name, top in tops.items()}


def _wish(
    graph: _Graph, tops: Mapping[str, float], name: str, rightward: bool, below: float
) -> float:
    before, after = graph.before.get(name, []), graph.after.get(name, [])
    if rightward:
        wishes = [tops[s.source] + s.source_y - s.target_y for s in before]
    else:
        wishes = [tops[s.target] + s.target_y - s.source_y for s in after]
    if wishes:
        return median_low(wishes)
    return tops[name] if before or after else below


def _spread(
    graph: _Graph, column: Sequence[str], wishes: Sequence[float], gap: float
) -> dict[str, float]:
    """Return tops as near to the wishes as the order allows: an isotonic regression."""
    offsets, offset = [], 0.0
    for name in column:
        offsets.append(offset)
        offset += graph.nodes[name].height + gap
    blocks: list[tuple[float, int]] = []  # mean, number of nodes
    for wish, offset in zip(wishes, offsets, strict=True):
        value, size = wish - offset, 1
        while blocks and blocks[-1][0] > value:
            other, others = blocks.pop()
            value, size = (value * size + other * others) / (size + others), size + others
        blocks.append((value, size))
    values = [value for value, size in blocks for _ in range(size)]
    return {n: v + o for n, v, o in zip(column, values, offsets, strict=True)}


def _sides(graph: _Graph, margin: float) -> tuple[list[float], list[float], float]:
    """Return each column's left, where its labels end, and the width of all."""
    lefts, ends = [], []
    x = margin
    for column in graph.columns:
        lefts.append(x)
        x += max((graph.nodes[name].width for name in column), default=0.0)
        x += max((graph.nodes[name].label for name in column), default=0.0)
        ends.append(x)
        segments = sum(len(graph.after.get(name, ())) for name in column)
        x += 2 * _STRAIGHT + 20 + 5 * min(segments, 12)
    return lefts, ends, (ends[-1] if ends else 0.0) + margin
