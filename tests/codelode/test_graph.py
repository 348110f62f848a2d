"""Walking along a dependency graph."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from codelode.backends.memory.graph import MemoryGraph
from codelode.graph import edges_of_files, in_order, levels, walk
from codelode.model import DEFAULT_REF, Edge, EdgeKind, RepositoryName

REPO = "acme/app"


class CountingGraph(MemoryGraph):
    reads = 0

    def outgoing(self, repository, ref, paths, *, limit_per_path=None):
        self.reads += 1
        return super().outgoing(repository, ref, paths, limit_per_path=limit_per_path)


def files(found, *, reverse=False):
    """Return each file that a walk reached, by its distance."""
    ends = {(edge.source if reverse else edge.target): distance for edge, distance in found[0]}
    return tuple(sorted(ends.items(), key=lambda end: (end[1], end[0]))), found[1]


def graph_of(*pairs):
    graph = CountingGraph()
    for source in {source for source, _ in pairs}:
        ends = [end for start, end in pairs if start == source]
        graph.replace(
            REPO, [DEFAULT_REF], {source: [Edge(source, end, EdgeKind.IMPORTS) for end in ends]}
        )
    return graph


CHAIN = [("a", "b"), ("b", "c"), ("c", "d"), ("x", "c")]


@pytest.mark.parametrize(
    ("reverse", "start", "depth", "expected"),
    [
        pytest.param(False, ["a"], 2, (("b", 1), ("c", 2)), id="as far as asked"),
        pytest.param(False, ["a"], 9, (("b", 1), ("c", 2), ("d", 3)), id="to the end"),
        pytest.param(True, ["c"], 2, (("b", 1), ("x", 1), ("a", 2)), id="against the edges"),
        pytest.param(False, ["a", "c"], 1, (("b", 1), ("d", 1)), id="from several files"),
        pytest.param(False, ["a"], 0, (), id="nowhere"),
        pytest.param(False, ["unknown"], 3, (), id="unknown file"),
        pytest.param(False, [], 3, (), id="no start"),
    ],
)
def test_walk_finds_files_with_their_distances(reverse, start, depth, expected):
    found = walk(graph_of(*CHAIN), REPO, DEFAULT_REF, start, depth=depth, reverse=reverse, limit=99)

    assert files(found, reverse=reverse) == (expected, False)


def test_a_cycle_ends_the_walk_and_the_start_is_not_a_result():
    graph = graph_of(("a", "b"), ("b", "a"))

    found = walk(graph, REPO, DEFAULT_REF, ["a"], depth=99, reverse=False, limit=99)
    assert files(found) == ((("b", 1),), False)
    assert graph.reads == 2


def test_the_limit_cuts_off_the_farthest_and_adds_a_notice():
    graph = graph_of(("a", "b"), ("b", "d"), ("b", "c"), ("b", "e"))

    found = walk(graph, REPO, DEFAULT_REF, ["a"], depth=2, reverse=False, limit=2)
    assert files(found) == ((("b", 1), ("c", 2)), True)
    assert walk(graph, REPO, DEFAULT_REF, ["a"], depth=2, reverse=False, limit=4)[1] is False


def test_external_targets_are_listed_only_for_the_start():
    graph = graph_of()
    for path, end in (("a", "b"), ("b", "c")):
        outside = Edge(path, f"lib.{path}", EdgeKind.IMPORTS, is_external=True)
        graph.replace(REPO, [DEFAULT_REF], {path: [outside, Edge(path, end, EdgeKind.IMPORTS)]})

    found, _ = walk(graph, REPO, DEFAULT_REF, ["a"], depth=3, reverse=False, limit=9)
    assert [edge.target for edge, _ in found] == ["b", "lib.a", "c"]


def test_other_kinds_of_edges_are_not_followed():
    graph = graph_of(("a", "b"))
    graph.replace(REPO, [DEFAULT_REF], {"a": [Edge("a", "b", EdgeKind.TESTS)]})

    assert walk(graph, REPO, DEFAULT_REF, ["a"], depth=2, reverse=False, limit=9) == ((), False)
    found, _ = walk(
        graph, REPO, DEFAULT_REF, ["a"], depth=2, reverse=False, limit=9, kind=EdgeKind.TESTS
    )
    assert len(found) == 1


def test_a_level_of_the_walk_is_read_in_one_call_up_to_the_limit():
    graph = graph_of(*(("a", f"b{n}") for n in range(50)), *((f"b{n}", "c") for n in range(50)))

    walk(graph, REPO, DEFAULT_REF, ["a"], depth=2, reverse=False, limit=999)
    assert graph.reads == 2
    walk(graph, REPO, DEFAULT_REF, ["a"], depth=2, reverse=False, limit=60)
    assert graph.reads == 2 + 2  # sixteen files of the second level fill it


def test_only_as_many_edges_of_a_hub_are_read_as_can_be_shown():
    graph = graph_of(*((f"b{n:03}", "hub") for n in range(500)))
    asked = []

    class Watched(MemoryGraph):
        def incoming(self, repository, ref, paths, *, limit_per_path=None):
            asked.append(limit_per_path)
            return graph.incoming(repository, ref, paths, limit_per_path=limit_per_path)

    found, truncated = walk(Watched(), REPO, DEFAULT_REF, ["hub"], depth=3, reverse=True, limit=9)
    assert (len(found), truncated, asked) == (9, True, [10])


@example(pairs=[(0, 0), (1, 0)], depth=1, limit=0)
@given(
    pairs=st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), max_size=30),
    depth=st.integers(0, 5),
    limit=st.integers(0, 10),
)
def test_a_limited_walk_is_the_start_of_the_whole_one(pairs, depth, limit):
    graph = graph_of(*((str(source), str(target)) for source, target in pairs))

    whole, _ = walk(graph, REPO, DEFAULT_REF, ["0"], depth=depth, reverse=True, limit=1000)
    part, truncated = walk(graph, REPO, DEFAULT_REF, ["0"], depth=depth, reverse=True, limit=limit)
    assert part == whole[:limit]
    assert truncated == (len(whole) > limit)


def test_order_is_by_source_target_and_kind():
    edges = [
        Edge("b", "a", EdgeKind.IMPORTS),
        Edge("a", "b", EdgeKind.IMPORTS),
        Edge("a", "b", EdgeKind.TESTS),
        Edge("a", "b", EdgeKind.TESTS),
    ]

    assert in_order(edges) == (edges[1], edges[2], edges[0])


def test_levels_list_each_node_once_at_its_smallest_distance():
    neighbours = {"a": "bc", "b": "ac", "c": "d", "d": "a"}
    reached = {}
    for level in levels("a", depth=3):
        for node in level.nodes:
            level.reach(neighbours[node])
        reached[level.distance] = list(level.reached)

    assert reached == {1: ["b", "c"], 2: ["d"], 3: []}


def test_edges_of_files_are_read_once_per_repository():
    graph = CountingGraph()
    for repository in ("acme/app", "acme/lib"):
        graph.replace(
            repository,
            [DEFAULT_REF],
            {"a.py": [Edge("a.py", f"{repository}.py", EdgeKind.IMPORTS)]},
        )

    files = [(name, path) for name in ("acme/app", "acme/lib") for path in ("a.py", "b.py")]
    found = edges_of_files(graph.outgoing, DEFAULT_REF, files)

    assert graph.reads == 2
    assert [edge.target for edge in found[RepositoryName("acme/lib"), "a.py"]] == ["acme/lib.py"]
    assert found[RepositoryName("acme/app"), "b.py"] == ()
