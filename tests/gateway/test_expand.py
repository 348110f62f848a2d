"""Hits are expanded by related files, import chains, and surrounding lines."""

import pytest

from codelode.access import EVERYTHING
from codelode.model import (
    DEFAULT_REF,
    Candidate,
    Category,
    Edge,
    EdgeKind,
    Filters,
    Kind,
    RefName,
    RepositoryName,
)
from gateway.expand import NO_GRAPH, expand
from gateway.expand.imports import MAX_LINKS, chains
from gateway.expand.passages import enclosing, lines, passage
from gateway.options import Expand, Options
from gateway.rank.fused import by_similarity
from gateway.state import Backends, FileRelation, Mark, SearchQuery, SearchState
from tests.worlds import World

HTTP = RepositoryName("acme/http")
IMPORTS, TESTS = EdgeKind.IMPORTS, EdgeKind.TESTS


def edges(*ends):
    found = {}
    for source, kind, target in ends:
        is_external = target.startswith("ext:")
        found.setdefault(source, []).append(Edge(source, target, kind, is_external))
    return found


async def expanded(backends, *chunks, filters=None, text="retry", **options):
    query = SearchQuery(
        text,
        filters=filters or Filters(),
        options=Options(expand=Expand(**options)),
        visible=EVERYTHING,
    )
    ranking = by_similarity([Candidate(chunk, None, 1 - n / 10) for n, chunk in enumerate(chunks)])
    return await expand(SearchState(query, ranking=ranking), backends)


# Related files


@pytest.fixture
def project(index, graph, make_chunk):
    hit = make_chunk("src/retry.py", "def retry(): ...")
    index(
        hit,
        *(
            make_chunk(path, "def other(): ...")
            for path in ("src/clock.py", "src/client.py", "lib/log.py", "far.py")
        ),
        make_chunk("src/backoff.py", "def retry_later(): ..."),
        make_chunk("tests/test_retry.py", "def test(): ...", category=Category.TEST),
        make_chunk("tests/test_named.py", "def test(): ...", category=Category.TEST),
    )
    graph.replace(
        HTTP,
        [DEFAULT_REF],
        edges(
            ("src/retry.py", IMPORTS, "src/clock.py"),
            ("src/retry.py", IMPORTS, "ext:time"),
            ("src/retry.py", IMPORTS, "lib/log.py"),
            ("src/client.py", IMPORTS, "src/retry.py"),
            ("tests/test_retry.py", IMPORTS, "src/retry.py"),
            ("tests/test_named.py", TESTS, "src/retry.py"),
            ("src/clock.py", IMPORTS, "far.py"),
            ("src/clock.py", IMPORTS, "gone.py"),
        ),
    )
    return hit


async def test_files_near_a_hit_have_one_of_the_relations(project, backends):
    state = await expanded(backends, project, related=20, hops=1)

    assert {found.path: found.relation for found in state.related} == {
        "src/clock.py": FileRelation.IMPORTS,
        "src/client.py": FileRelation.IMPORTED_BY,
        "lib/log.py": FileRelation.IMPORTS,
        "tests/test_named.py": FileRelation.TEST_FOR,
        "tests/test_retry.py": FileRelation.TEST_FOR,
        "src/backoff.py": FileRelation.SIBLING,
    }
    assert {(found.of, found.hops) for found in state.related} == {("src/retry.py", 1)}


USED = {
    "src/main/java/app/Pool.java": (
        "package app;\nimport app.base.Closing;\n\npublic class Pool implements Closing {\n"
        "  // Gauge.show() is not called\n"
        "  public void retry() { new Clock().tick(); }\n}\n"
    ),
    "src/main/java/app/base/Closing.java": "package app.base;\n\npublic interface Closing {}\n",
    "src/main/java/app/Clock.java": "package app;\n\npublic class Clock { void tick() {} }\n",
    "src/main/java/app/Gauge.java": "package app;\n\npublic class Gauge { void show() {} }\n",
    "src/main/java/app/Server.java": (
        "package app;\n\npublic class Server { void run() { new Pool().retry(); } }\n"
    ),
    "src/main/java/app/fast/Fast.java": (
        "package app.fast;\nimport app.Pool;\n\npublic class Fast extends Pool {}\n"
    ),
    "src/main/java/far/Clock.java": "package far;\n\npublic class Clock { void tick() {} }\n",
}


async def test_calls_and_inheritance_relate_the_files_of_a_real_index(settings):
    world = World(settings)
    world.index(HTTP, USED)
    path = "src/main/java/app/Pool.java"
    [hit, *_] = (await world.chunks.files([(HTTP, path)], DEFAULT_REF))[HTTP, path]

    state = await expanded(world.dependencies.published.backends, hit, related=20, hops=1)

    found = {at.path.removeprefix("src/main/java/"): at.relation for at in state.related}
    assert found == {
        "app/base/Closing.java": FileRelation.INTERFACE_OF,
        "app/fast/Fast.java": FileRelation.INTERFACE_OF,
        "app/Clock.java": FileRelation.CALLS,
        "app/Server.java": FileRelation.CALLS,
    }


async def test_the_nearest_come_first_and_their_number_is_bounded(project, backends):
    state = await expanded(backends, project, related=20, hops=2)
    few = await expanded(backends, project, related=2, hops=2)

    hops = [found.hops for found in state.related]
    assert hops == sorted(hops)
    assert [(found.path, found.hops) for found in state.related][-1] == ("far.py", 2)
    assert [found.relation for found in few.related] == [
        FileRelation.TEST_FOR,
        FileRelation.IMPORTS,
    ]


async def test_the_graph_is_read_by_repository_and_path(project, backends):
    """A read by chunk ids or bare paths would find nothing, without an error."""
    state = await expanded(backends, project, related=10)

    assert state.related
    assert {found.repository for found in state.related} == {HTTP}


async def test_a_related_file_has_its_nearest_relation(project, backends, graph):
    """`src/backoff.py` shares the folder of the hit, and two edges lead to it."""
    graph.replace(HTTP, [DEFAULT_REF], edges(("lib/log.py", IMPORTS, "src/backoff.py")))

    state = await expanded(backends, project, related=20, hops=2)

    [found] = [found for found in state.related if found.path == "src/backoff.py"]
    assert (found.relation, found.hops) == (FileRelation.SIBLING, 1)


async def test_files_that_the_ref_does_not_hold_are_left_out(project, backends):
    state = await expanded(backends, project, related=50)
    elsewhere = await expanded(
        backends, project, related=50, filters=Filters(ref=RefName("release"))
    )

    assert "gone.py" not in {found.path for found in state.related}
    assert elsewhere.related == ()


async def test_an_excluded_file_is_not_a_related_file(project, backends):
    everything = await expanded(backends, project, related=50)
    some = await expanded(
        backends, project, related=50, filters=Filters(not_paths=("tests/**", "far.py"))
    )

    left_out = {one.path for one in everything.related} - {one.path for one in some.related}
    assert left_out == {"tests/test_retry.py", "tests/test_named.py", "far.py"}


async def test_related_files_stay_in_the_repository_of_the_hit(
    project, backends, index, graph, make_chunk
):
    other = RepositoryName("acme/secret")
    index(make_chunk("src/clock.py", "secret", repository=other))
    graph.replace(other, [DEFAULT_REF], edges(("src/clock.py", IMPORTS, "src/retry.py")))

    state = await expanded(backends, project, related=50)

    assert {found.repository for found in state.related} == {HTTP}


async def test_without_a_graph_expansion_is_noticed(chunks, embedder, make_chunk):
    state = await expanded(Backends(chunks, embedder), make_chunk("a.py", "x"), related=10)

    assert state.notices == (NO_GRAPH,)


async def test_options_that_are_off_read_nothing(make_chunk):
    """There are no backends, so that any read would fail."""
    state = await expanded(Backends(None, None), make_chunk("a.py", "x"))

    assert (state.related, state.imports, state.passages, state.notices) == ((), (), {}, ())


# Import chains


async def chain(graph, *starts, depth=3):
    links, notices = await chains(
        [(HTTP, path) for path in starts], DEFAULT_REF, graph, depth=depth
    )
    return [(link.path, link.target, link.depth, link.mark.value) for link in links], notices


async def test_an_import_chain_says_where_it_ends(graph):
    graph.replace(
        HTTP,
        [DEFAULT_REF],
        edges(
            ("a", IMPORTS, "b"),
            ("a", IMPORTS, "ext:os"),
            ("a", TESTS, "z"),
            ("b", IMPORTS, "a"),
            ("b", IMPORTS, "c"),
            ("c", IMPORTS, "d"),
            ("c", IMPORTS, "leaf"),
            ("d", IMPORTS, "e"),
        ),
    )

    links, notices = await chain(graph, "a")

    assert links == [
        ("a", "b", 1, "internal"),
        ("b", "a", 2, "circular"),
        ("b", "c", 2, "internal"),
        ("c", "d", 3, "truncated"),
        ("c", "leaf", 3, "internal"),
        ("a", "ext:os", 1, "external"),
    ]
    assert notices == ()


async def test_a_file_reached_by_two_chains_is_followed_once(graph):
    graph.replace(
        HTTP, [DEFAULT_REF], edges(("a", IMPORTS, "c"), ("b", IMPORTS, "c"), ("c", IMPORTS, "d"))
    )

    links, _ = await chain(graph, "a", "b")

    assert [link[:2] for link in links] == [("a", "c"), ("c", "d"), ("b", "c")]


@pytest.mark.parametrize("depth", [1, 2, 5])
async def test_no_chain_is_longer_than_asked(graph, depth):
    graph.replace(HTTP, [DEFAULT_REF], edges(*((f"{n}", IMPORTS, f"{n + 1}") for n in range(9))))

    links, _ = await chain(graph, "0", depth=depth)

    assert len(links) == depth
    assert links[-1][3] == Mark.TRUNCATED


async def test_the_chains_of_a_hub_are_cut_with_a_notice(graph):
    graph.replace(
        HTTP, [DEFAULT_REF], edges(*(("hub", IMPORTS, f"{n}") for n in range(MAX_LINKS + 1)))
    )

    links, notices = await chain(graph, "hub")

    assert len(links) == MAX_LINKS
    assert str(MAX_LINKS) in notices[0]


# Passages


@pytest.fixture
def file(make_chunk):
    """Return a file of 12 lines; 4 and 8 are blank, and a blank part has no chunk."""
    return (
        make_chunk("a.py", "import os\nimport sys\n\n", kind=Kind.BLOCK, end_line=3),
        make_chunk("a.py", "class A:\n    x = 1\n", start_line=5, symbol="A", end_line=6),
        make_chunk(
            "a.py",
            "    def get(self):\n",
            start_line=7,
            symbol="A.get",
            end_line=7,
            header="class A",
        ),
        make_chunk(
            "a.py",
            "        return 1\n    # end\n",
            start_line=9,
            symbol="A.get",
            end_line=10,
            header="class A",
        ),
        make_chunk("a.py", "def b():\n    pass\n", start_line=11, symbol="b", end_line=12),
    )


def test_a_passage_is_the_whole_definition_that_a_chunk_is_part_of(file):
    found = passage(file[3], file, options=Expand(enclosing=True))

    assert (found.start_line, found.end_line, found.truncated) == (7, 10, False)
    assert found.content == "    def get(self):\n\n        return 1\n    # end"


def test_a_class_encloses_its_methods(file):
    assert enclosing(file[1], file) == (5, 10)


def test_the_requested_lines_before_and_after_are_shown_within_the_file(file):
    found = passage(file[4], file, options=Expand(before_lines=2, after_lines=9))

    assert (found.start_line, found.end_line) == (9, 12)
    assert found.content.splitlines() == ["        return 1", "    # end", "def b():", "    pass"]


def test_a_chunk_that_is_whole_has_no_passage(file):
    assert passage(file[4], file, options=Expand(enclosing=True)) is None


def test_a_passage_keeps_to_its_lines_and_columns(make_chunk):
    parts = tuple(
        make_chunk("a.py", "y" * 300 + "\n", start_line=n, end_line=n, symbol="f")
        for n in range(1, 101)
    )

    found = passage(parts[60], parts, options=Expand(enclosing=True))

    assert found.end_line - found.start_line + 1 == 50
    assert found.start_line <= 61 <= found.end_line
    assert found.truncated
    assert {len(line) for line in found.content.splitlines()} == {201}


@pytest.mark.parametrize("enclosing", [False, True])
@pytest.mark.parametrize("at", [30, 250, 470])
@pytest.mark.parametrize(("before", "after"), [(200, 200), (200, 0), (0, 200), (30, 10)])
def test_no_passage_has_more_lines_than_allowed(make_chunk, enclosing, at, before, after):
    parts = tuple(
        make_chunk("a.py", f"x = {n}\n", start_line=n, end_line=n, symbol=f"f{n // 100}")
        for n in range(1, 501)
    )
    options = Expand(enclosing=enclosing, before_lines=before, after_lines=after, max_lines=20)

    found = passage(parts[at], parts, options=options)

    assert found.end_line - found.start_line + 1 == found.content.count("\n") + 1 <= 20
    assert 1 <= found.start_line <= at + 1 <= found.end_line <= 500
    assert found.truncated
    if not enclosing and at == 250 and before == after:  # the hit is in the middle
        assert (found.start_line, found.end_line) == (242, 261)


def test_chunks_that_share_a_line_are_joined(make_chunk):
    parts = (
        make_chunk("a.js", "var a=1;", end_line=1),
        make_chunk("a.js", "var b=2;\nc()", end_line=2),
    )

    assert lines(parts) == {1: "var a=1;var b=2;", 2: "c()"}


async def test_passages_come_from_the_index_of_the_searched_ref(index, backends, make_chunk):
    """A work tree, which could hold other lines by now, is not there."""
    held = [
        make_chunk("a.py", f"line {n}\n", start_line=n, end_line=n, refs=(DEFAULT_REF,))
        for n in (1, 2, 3)
    ]
    index(*held)

    state = await expanded(backends, held[1], before_lines=1, after_lines=1)
    changed = held[1]._replace(id=make_chunk("a.py", "older").id)
    stale = await expanded(backends, changed, before_lines=1)

    assert state.passages[held[1].id].content == "line 1\nline 2\nline 3"
    assert stale.passages == {}


async def test_lines_are_never_0(project, backends):
    state = await expanded(backends, project, before_lines=200, after_lines=200, related=10)

    for found in state.passages.values():
        assert 1 <= found.start_line <= found.end_line
    for found in state.related:
        assert all(1 <= chunk.start_line <= chunk.end_line for chunk in found.chunks)
