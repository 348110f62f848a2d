"""The contract of refs in graph, symbol table, reference index, and package index.

Each ref has its own view of a repository, as if no other ref were indexed.
"""

from __future__ import annotations

import itertools

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from codelode.backends.memory.graph import MemoryGraph
from codelode.backends.memory.packages import MemoryPackageIndex
from codelode.backends.memory.references import MemoryReferences
from codelode.backends.memory.symbols import MemorySymbols
from codelode.backends.redis.graph import RedisGraph
from codelode.backends.redis.packages import RedisPackageIndex
from codelode.backends.redis.references import RedisReferences
from codelode.backends.redis.symbols import RedisSymbols
from codelode.model import DEFAULT_REF, Edge, EdgeKind, Kind, Symbol
from codelode.ports import PublishedPackages

REPO = "acme/app"
MAIN, TOPIC = "main", "topic"
PATHS = ["a.py", "b.py", "c/d.py"]
NAMES = ["load", "run", "Client"]
ON_MAIN = (DEFAULT_REF, MAIN)  # the labels of the default ref


class Tables:
    """The three tables with entries of each file, filled alike."""

    def __init__(self, graph, symbols, references):
        self.all = graph, symbols, references

    def store(self, refs, path, names):
        """Make a file define, use, and import these names; no names: delete it from the refs."""
        for table, value in zip(self.all, contents(path, names), strict=True):
            table.replace(REPO, refs, {path: value})

    def view(self, ref):
        graph, symbols, references = self.all
        every = [f"{name}.py" for name in NAMES] + PATHS
        return {
            "outgoing": graph.outgoing(REPO, ref, PATHS),
            "incoming": graph.incoming(REPO, ref, every),
            "some": {
                path: len(edges)
                for path, edges in graph.incoming(REPO, ref, every, limit_per_path=1).items()
            },
            "definitions": symbols.lookup_all(NAMES, repository=REPO, ref=ref),
            "found": [symbols.lookup(name, repositories=[REPO], ref=ref) for name in NAMES],
            "defined": symbols.defined_in(REPO, ref, PATHS),
            "using": references.files(REPO, ref, [f"c {name}" for name in NAMES]),
            "used": references.names(REPO, ref, PATHS),
        }


def contents(path, names):
    """Return edges, symbols, and references; the lines of the symbols vary with the names."""
    edges = [Edge(path, f"{name}.py", EdgeKind.IMPORTS) for name in names]
    line = len(names)
    symbols = [Symbol(n, f"A.{n}", Kind.METHOD, f"def {n}()", line, line, True) for n in names]
    return edges, symbols, [f"c {name}" for name in names]


def in_memory():
    return Tables(MemoryGraph(), MemorySymbols(), MemoryReferences())


def in_redis(client, prefix="codelode:"):
    return Tables(
        *(made(client, prefix=prefix) for made in (RedisGraph, RedisSymbols, RedisReferences))
    )


@pytest.fixture(params=["memory", pytest.param("redis", marks=pytest.mark.server)])
def tables(request):
    if request.param == "memory":
        return in_memory()
    return in_redis(request.getfixturevalue("redis"))


def test_a_file_deleted_on_one_ref_stays_whole_on_the_other(tables):
    tables.store(ON_MAIN, "a.py", ["load"])
    tables.store([TOPIC], "a.py", ["load"])
    before = tables.view(MAIN)
    tables.store([TOPIC], "a.py", [])

    assert tables.view(MAIN) == tables.view(DEFAULT_REF) == before
    assert tables.view(TOPIC) == in_memory().view(TOPIC)


def test_a_file_changed_on_one_ref_keeps_its_old_version_on_the_other(tables):
    tables.store([*ON_MAIN, TOPIC], "a.py", ["load", "run"])
    tables.store([TOPIC], "a.py", ["run", "Client"])

    graph, symbols, references = tables.all
    assert [e.target for e in graph.outgoing(REPO, MAIN, ["a.py"])["a.py"]] == ["load.py", "run.py"]
    assert graph.incoming(REPO, TOPIC, ["load.py"]) == {"load.py": ()}
    assert symbols.lookup("Client", repositories=[REPO], ref=MAIN) == ()
    assert len(symbols.lookup("Client", repositories=[REPO], ref=TOPIC)) == 1
    assert references.files(REPO, MAIN, ["c load"]) == {"c load": ("a.py",)}
    assert references.files(REPO, TOPIC, ["c load", "c run"]) == {"c load": (), "c run": ("a.py",)}


def test_a_removed_ref_leaves_the_others_and_can_be_filled_again(tables):
    for path in PATHS:
        tables.store(ON_MAIN, path, ["load"])
        tables.store([TOPIC], path, ["load", "run"])
    main = tables.view(MAIN)
    for table in tables.all:
        table.remove_ref(REPO, TOPIC)
        table.remove_ref(REPO, "never-seen")

    assert tables.view(MAIN) == tables.view(DEFAULT_REF) == main
    assert tables.view(TOPIC) == in_memory().view(TOPIC)
    tables.store(["other"], "a.py", ["run"])
    assert tables.view(TOPIC) == in_memory().view(TOPIC)


def test_a_limit_counts_the_edges_of_the_ref_only(tables):
    graph, *_ = tables.all
    for number in range(50):
        path = f"{number:02}.py"
        ref = MAIN if number >= 40 else TOPIC
        graph.replace(REPO, [ref], {path: [Edge(path, "hub.py", EdgeKind.IMPORTS)]})

    found = graph.incoming(REPO, MAIN, ["hub.py"], limit_per_path=5)["hub.py"]
    assert len(found) == 5
    assert all(edge.source >= "40.py" for edge in found)


def test_the_last_ref_of_a_repository_leaves_nothing_of_its_files(redis):
    tables = in_redis(redis)
    for path in PATHS:
        tables.store([MAIN, TOPIC], path, ["load"])
    for ref, table in itertools.product((MAIN, TOPIC), tables.all):
        table.remove_ref(REPO, ref)

    left = {
        key.rpartition(b":")[2]
        for key in [*redis.scan_iter("*references*"), *redis.scan_iter("*symbols*")]
    }
    assert left == {b"meta"}


def test_another_ref_with_equal_files_stores_no_second_copy(redis):
    tables = in_redis(redis)
    for number in range(200):
        tables.store(ON_MAIN, f"{number}.py", NAMES)
    before = (
        len(list(redis.scan_iter())),
        [redis.hlen(key) for key in sorted(redis.scan_iter("*:name"))],
    )
    for number in range(200):
        tables.store([TOPIC], f"{number}.py", NAMES)

    assert (
        len(list(redis.scan_iter())),
        [redis.hlen(key) for key in sorted(redis.scan_iter("*:name"))],
    ) == before


@pytest.mark.parametrize("table", ["graph", "symbols", "references"])
def test_a_table_of_an_older_version_reads_as_empty_until_it_is_written(redis, table):
    tables = in_redis(redis)
    base = f"codelode:{table}:{{acme/app}}"
    # What versions without refs stored for one file.
    redis.hset(f"{base}:meta", mapping={"next": 1, "born": "1.2"})
    redis.hset(f"{base}:id", "fa.py" if table == "graph" else "a.py", 1)
    redis.hset(f"{base}:name", "load", b"\1\0\0\0")
    if table != "graph":
        redis.hset(f"{base}:file:1" if table == "symbols" else f"{base}:file", "/", "a.py")
    assert tables.view(MAIN) == in_memory().view(MAIN)

    tables.store([MAIN], "b.py", ["run"])
    alone = in_memory()
    alone.store([MAIN], "b.py", ["run"])
    assert tables.view(MAIN) == alone.view(MAIN)
    for one in tables.all:
        one.remove_repository(REPO)
    assert list(redis.scan_iter()) == []


refs = st.sampled_from([ON_MAIN, (TOPIC,), (TOPIC, *ON_MAIN)])
contained = st.lists(st.sampled_from(NAMES), unique=True).map(sorted)
changes = st.lists(st.tuples(refs, st.sampled_from(PATHS), contained), max_size=20)
prefixes = (f"refs{number}:" for number in itertools.count())


@given(changes=changes)
@settings(
    max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_each_ref_looks_as_if_it_were_indexed_alone(redis, changes):
    server, memory = in_redis(redis, prefix=next(prefixes)), in_memory()
    alone = {ref: in_memory() for ref in (DEFAULT_REF, MAIN, TOPIC)}
    for some, path, names in changes:
        for tables in (server, memory):
            tables.store(some, path, names)
        for ref in some:
            alone[ref].store([ref], path, names)

    for ref, tables in alone.items():
        assert server.view(ref) == memory.view(ref) == tables.view(ref)
    for table in server.all:
        table.remove_ref(REPO, TOPIC)
    assert server.view(MAIN) == alone[MAIN].view(MAIN)
    assert server.view(TOPIC) == in_memory().view(TOPIC)


@pytest.fixture(params=["memory", pytest.param("redis", marks=pytest.mark.server)])
def packages(request):
    if request.param == "memory":
        return MemoryPackageIndex()
    return RedisPackageIndex(request.getfixturevalue("redis"))


def test_only_packages_of_the_default_ref_are_found_by_others(packages):
    packages.publish(REPO, ON_MAIN, PublishedPackages({"npm:ui": "ui"}, {"npm": "1"}))
    packages.publish(REPO, [TOPIC], PublishedPackages({"npm:new": "new"}, {"npm": "2"}))

    assert packages.publishers(["npm:ui", "npm:new"]) == {"npm:ui": ((REPO, "ui"),)}
    assert packages.published_by(REPO, MAIN).fingerprints == {"npm": "1"}
    assert packages.published_by(REPO, TOPIC).keys == {"npm:new": "new"}

    packages.remove_ref(REPO, TOPIC)
    assert packages.published_by(REPO, TOPIC).keys == {}
    assert packages.publishers(["npm:ui"]) == {"npm:ui": ((REPO, "ui"),)}
    packages.remove_repository(REPO)
    assert packages.publishers(["npm:ui"]) == {}
    assert packages.published_by(REPO, MAIN).keys == {}
