"""The layered layout: any graph is laid out, without overlaps, edges around nodes."""

from __future__ import annotations

from itertools import combinations, pairwise

from hypothesis import given
from hypothesis import strategies as st

from cropseek.triton.draw.layout import Edge, Layout, Node, layered, topological
from tests.unit.draw_builders import Rectangle, overlap, within

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
