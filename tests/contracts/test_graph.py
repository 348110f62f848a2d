"""The contract of the port DependencyGraph, over every implementation."""

from __future__ import annotations

import contextlib
import itertools
import threading

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from redis import ConnectionPool, Redis, UnixDomainSocketConnection

from codelode.backends.memory.graph import MemoryGraph
from codelode.backends.redis.graph import RedisGraph
from codelode.errors import Unavailable
from codelode.graph import in_order
from codelode.model import Edge, EdgeKind

REPO = "acme/app"
MAIN, TOPIC = "main", "topic"


@pytest.fixture(params=["memory", pytest.param("redis", marks=pytest.mark.server)])
def graph(request):
    if request.param == "memory":
        return MemoryGraph()
    return RedisGraph(request.getfixturevalue("redis"))


def imports(source, *targets):
    return [Edge(source, target, EdgeKind.IMPORTS) for target in targets]


def test_edges_are_read_back_in_both_directions(graph):
    graph.replace(REPO, [MAIN], {"a.py": imports("a.py", "b.py", "c.py")})
    graph.replace(REPO, [MAIN], {"b.py": imports("b.py", "c.py")})

    assert graph.outgoing(REPO, MAIN, ["a.py", "b.py"]) == {
        "a.py": tuple(imports("a.py", "b.py", "c.py")),
        "b.py": tuple(imports("b.py", "c.py")),
    }
    assert graph.incoming(REPO, MAIN, ["c.py"]) == {
        "c.py": (*imports("a.py", "c.py"), *imports("b.py", "c.py"))
    }


def test_a_path_without_edges_maps_to_no_edges(graph):
    graph.replace(REPO, [MAIN], {"a.py": imports("a.py", "b.py")})

    assert graph.outgoing(REPO, MAIN, ["b.py", "never-seen"]) == {"b.py": (), "never-seen": ()}
    assert graph.incoming(REPO, MAIN, ["a.py", "never-seen"]) == {"a.py": (), "never-seen": ()}


def test_asking_for_no_paths_returns_nothing(graph):
    graph.replace(REPO, [MAIN], {"a.py": imports("a.py", "b.py")})

    assert graph.outgoing(REPO, MAIN, []) == {}
    assert graph.incoming(REPO, MAIN, []) == {}


def test_replacing_removes_old_edges_in_both_directions(graph):
    graph.replace(REPO, [MAIN], {"a.py": imports("a.py", "b.py", "c.py")})
    graph.replace(REPO, [MAIN], {"a.py": imports("a.py", "c.py", "d.py")})

    assert graph.outgoing(REPO, MAIN, ["a.py"])["a.py"] == tuple(imports("a.py", "c.py", "d.py"))
    assert graph.incoming(REPO, MAIN, ["b.py", "c.py", "d.py"]) == {
        "b.py": (),
        "c.py": tuple(imports("a.py", "c.py")),
        "d.py": tuple(imports("a.py", "d.py")),
    }


def test_replacing_leaves_edges_that_end_at_the_path(graph):
    graph.replace(REPO, [MAIN], {"a.py": imports("a.py", "b.py")})
    graph.replace(REPO, [MAIN], {"b.py": imports("b.py", "c.py")})
    graph.replace(REPO, [MAIN], {"b.py": []})

    assert graph.incoming(REPO, MAIN, ["b.py"])["b.py"] == tuple(imports("a.py", "b.py"))


def test_kinds_between_the_same_files_are_kept_apart(graph):
    both = (Edge("a.py", "b.py", EdgeKind.IMPORTS), Edge("a.py", "b.py", EdgeKind.TESTS))
    graph.replace(REPO, [MAIN], {"a.py": both})
    assert graph.outgoing(REPO, MAIN, ["a.py"])["a.py"] == both

    graph.replace(REPO, [MAIN], {"a.py": both[:1]})
    assert graph.incoming(REPO, MAIN, ["b.py"])["b.py"] == both[:1]


@pytest.mark.parametrize("kind", EdgeKind)
def test_every_kind_of_edge_survives_the_round_trip(graph, kind):
    edge = Edge("a.py", "b.py", kind)
    graph.replace(REPO, [MAIN], {"a.py": [edge]})

    assert graph.outgoing(REPO, MAIN, ["a.py"])["a.py"] == (edge,)
    assert graph.incoming(REPO, MAIN, ["b.py"])["b.py"] == (edge,)


def test_an_edge_given_twice_is_stored_once(graph):
    graph.replace(REPO, [MAIN], {"a.py": imports("a.py", "b.py", "b.py")})

    assert graph.outgoing(REPO, MAIN, ["a.py"])["a.py"] == tuple(imports("a.py", "b.py"))
    assert graph.incoming(REPO, MAIN, ["b.py"])["b.py"] == tuple(imports("a.py", "b.py"))


def test_a_file_may_depend_on_itself(graph):
    graph.replace(REPO, [MAIN], {"a.py": imports("a.py", "a.py")})
    assert graph.incoming(REPO, MAIN, ["a.py"])["a.py"] == tuple(imports("a.py", "a.py"))

    graph.replace(REPO, [MAIN], {"a.py": []})
    assert graph.incoming(REPO, MAIN, ["a.py"])["a.py"] == ()


def test_an_external_name_is_not_confused_with_a_file_of_that_name(graph):
    external = Edge("a.py", "os", EdgeKind.IMPORTS, is_external=True)
    graph.replace(REPO, [MAIN], {"a.py": [external, *imports("a.py", "os")]})

    assert graph.outgoing(REPO, MAIN, ["a.py"])["a.py"] == (*imports("a.py", "os"), external)
    assert graph.incoming(REPO, MAIN, ["os"])["os"] == tuple(imports("a.py", "os"))


def test_edges_that_start_elsewhere_are_refused(graph):
    with pytest.raises(ValueError, match=r"does not start at 'a\.py'"):
        graph.replace(REPO, [MAIN], {"a.py": imports("b.py", "c.py")})


def test_repositories_do_not_see_each_other(graph):
    graph.replace("one", [MAIN], {"a.py": imports("a.py", "b.py")})
    graph.replace("{one}", [MAIN], {"a.py": imports("a.py", "c.py")})

    assert graph.outgoing("one", MAIN, ["a.py"])["a.py"] == tuple(imports("a.py", "b.py"))
    assert graph.outgoing("{one}", MAIN, ["a.py"])["a.py"] == tuple(imports("a.py", "c.py"))


def test_removing_a_repository_leaves_the_others(graph):
    for repository in ("gone", "kept"):
        graph.replace(repository, [MAIN], {"a.py": imports("a.py", "b.py")})
    graph.remove_repository("gone")
    graph.remove_repository("never-seen")

    assert graph.outgoing("gone", MAIN, ["a.py"])["a.py"] == ()
    assert graph.incoming("gone", MAIN, ["b.py"])["b.py"] == ()
    assert graph.outgoing("kept", MAIN, ["a.py"])["a.py"] == tuple(imports("a.py", "b.py"))


def test_a_removed_repository_can_be_filled_again(graph):
    graph.replace(REPO, [MAIN], {"a.py": imports("a.py", "b.py")})
    graph.remove_repository(REPO)
    graph.replace(REPO, [MAIN], {"c.py": imports("c.py", "b.py")})

    assert graph.incoming(REPO, MAIN, ["b.py"])["b.py"] == tuple(imports("c.py", "b.py"))


def test_many_paths_are_read_in_one_call(graph):
    paths = [f"src/{number}.py" for number in range(2500)]
    for path in paths:
        graph.replace(REPO, [MAIN], {path: imports(path, "hub.py")})

    assert all(len(edges) == 1 for edges in graph.outgoing(REPO, MAIN, paths).values())
    importers = graph.incoming(REPO, MAIN, ["hub.py"])["hub.py"]
    assert [edge.source for edge in importers] == sorted(paths)


def test_a_file_that_many_import_loses_and_gains_importers_one_by_one(graph):
    paths = [f"{number}.py" for number in range(600)]
    for path in paths:
        graph.replace(
            REPO, [MAIN], {path: [*imports(path, "hub.py"), Edge(path, "hub.py", EdgeKind.TESTS)]}
        )
    for path in paths[:400]:
        graph.replace(REPO, [MAIN], {path: imports(path, "hub.py")})
    for path in paths[:500]:
        graph.replace(REPO, [MAIN], {path: []})
    graph.replace(REPO, [MAIN], {"0.py": imports("0.py", "hub.py")})

    left = [*imports("0.py", "hub.py")]
    for path in paths[500:]:
        left += [*imports(path, "hub.py"), Edge(path, "hub.py", EdgeKind.TESTS)]
    assert graph.incoming(REPO, MAIN, ["hub.py"])["hub.py"] == in_order(left)

    for path in paths:
        graph.replace(REPO, [MAIN], {path: []})
    assert graph.incoming(REPO, MAIN, ["hub.py"])["hub.py"] == ()
    graph.replace(REPO, [MAIN], {"0.py": imports("0.py", "hub.py")})
    assert graph.incoming(REPO, MAIN, ["hub.py"])["hub.py"] == tuple(imports("0.py", "hub.py"))


def test_an_edge_is_not_mistaken_for_bytes_across_two_others(redis):
    graph = RedisGraph(redis)
    paths = [f"{number}.py" for number in range(1, 513)]
    for path in paths:
        graph.replace(REPO, [MAIN], {path: imports(path, path)})
    # By id: 00 01 00 00 kind, 00 02 00 00 kind; from the second byte on that reads like 1.py.
    assert [redis.hget("codelode:graph:{acme/app}:id", f"f{n}.py") for n in (1, 256, 512)] == [
        b"1",
        b"256",
        b"512",
    ]
    importers = ["256.py", "512.py", "1.py"]
    for path in importers:
        graph.replace(REPO, [MAIN], {path: imports(path, "hub.py")})
    graph.replace(REPO, [MAIN], {"1.py": []})

    left = graph.incoming(REPO, MAIN, ["hub.py"])["hub.py"]
    assert [edge.source for edge in left] == ["256.py", "512.py"]


def test_a_repository_with_hubs_is_removed_whole(redis):
    graph = RedisGraph(redis)
    for number in range(300):
        graph.replace(REPO, [MAIN], {f"{number}.py": imports(f"{number}.py", "hub.py")})
    assert len(list(redis.scan_iter("*:hub:*"))) == 1

    graph.remove_repository(REPO)
    assert list(redis.scan_iter()) == []


def test_another_importer_of_a_hub_costs_little_of_the_append_only_file(redis):
    graph = RedisGraph(redis)
    for number in range(4000):
        graph.replace(REPO, [MAIN], {f"{number}.py": imports(f"{number}.py", "hub.py")})
    before = redis.info("persistence")["aof_current_size"]
    graph.replace(REPO, [MAIN], {"new.py": imports("new.py", "hub.py")})

    # The whole list is 20 kB.
    assert redis.info("persistence")["aof_current_size"] - before < 4000


names = st.sampled_from(["a", "b", "c", "", "ü/ß\n", "x\0y", "{a}"]) | st.text(max_size=4)
changes = st.lists(
    st.tuples(names, st.lists(st.tuples(names, st.sampled_from(EdgeKind), st.booleans()))),
    max_size=12,
)
prefixes = (f"property{number}:" for number in itertools.count())


@given(changes=changes)
@settings(
    max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_any_sequence_of_changes_ends_alike_in_redis_and_in_memory(redis, changes):
    twins = MemoryGraph(), RedisGraph(redis, prefix=next(prefixes))
    paths = {name for source, ends in changes for name in (source, *(end[0] for end in ends))}
    for source, ends in changes:
        for twin in twins:
            twin.replace(REPO, [MAIN], {source: [Edge(source, *end) for end in ends]})

    memory, server = twins
    assert server.outgoing(REPO, MAIN, sorted(paths)) == memory.outgoing(REPO, MAIN, sorted(paths))
    assert server.incoming(REPO, MAIN, sorted(paths)) == memory.incoming(REPO, MAIN, sorted(paths))


@given(changes=changes)
@settings(
    max_examples=50, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_emptying_every_file_leaves_no_edges_and_removing_leaves_no_keys_in_redis(redis, changes):
    prefix = next(prefixes)
    graph = RedisGraph(redis, prefix=prefix)
    for source, ends in changes:
        graph.replace(REPO, [MAIN], {source: [Edge(source, *end) for end in ends]})
    for source, _ in changes:
        graph.replace(REPO, [MAIN], {source: []})

    assert {key.rpartition(b":")[2] for key in redis.scan_iter(f"{prefix}*")} <= {
        b"meta",
        b"id",
        b"name",
        b"ref",
        b"hubs",
    }
    graph.remove_repository(REPO)
    assert list(redis.scan_iter(f"{prefix}*")) == []


def test_a_reader_sees_old_or_new_edges_whole(redis):
    old = in_order(imports("a.py", *(f"old/{number}" for number in range(20))))
    new = in_order(imports("a.py", *(f"new/{number}" for number in range(30))))
    writer, reader = RedisGraph(redis), RedisGraph(redis)
    writer.replace(REPO, [MAIN], {"a.py": old})
    stop = threading.Event()

    def write():
        for edges in itertools.cycle((new, old)):
            writer.replace(REPO, [MAIN], {"a.py": edges})
            if stop.is_set():
                return

    thread = threading.Thread(target=write)
    thread.start()
    try:
        seen = {reader.outgoing(REPO, MAIN, ["a.py"])["a.py"] for _ in range(300)}
    finally:
        stop.set()
        thread.join()
    assert seen == {old, new}


class CountedConnection(UnixDomainSocketConnection):
    """Counts the messages to the server; a pipeline is one message."""

    sent = 0

    def send_packed_command(self, command, check_health=True):
        type(self).sent += 1
        return super().send_packed_command(command, check_health)


def test_a_reader_never_mixes_a_removed_repository_with_its_successor(redis):
    writer, reader = RedisGraph(redis), RedisGraph(redis)
    stop = threading.Event()

    def write():
        while not stop.is_set():
            writer.replace(REPO, [MAIN], {"a.py": imports("a.py", "old")})
            writer.remove_repository(REPO)
            writer.replace(REPO, [MAIN], {"a.py": imports("a.py", "new", "newer")})
            writer.remove_repository(REPO)

    thread = threading.Thread(target=write)
    thread.start()
    whole = {(), tuple(imports("a.py", "old")), tuple(imports("a.py", "new", "newer"))}
    try:
        for _ in range(300):
            with contextlib.suppress(Unavailable):
                assert reader.outgoing(REPO, MAIN, ["a.py"])["a.py"] in whole
    finally:
        stop.set()
        thread.join()


def test_reading_any_number_of_paths_takes_two_round_trips(redis, redis_url):
    paths = [f"{number}.py" for number in range(2500)]
    for path in paths:
        RedisGraph(redis).replace(REPO, [MAIN], {path: imports(path, "a.py", "b.py", path)})

    pool = ConnectionPool.from_url(redis_url, connection_class=CountedConnection)
    with Redis.from_pool(pool) as client:
        client.ping()
        before = CountedConnection.sent
        RedisGraph(client).outgoing(REPO, MAIN, paths)
        assert CountedConnection.sent - before == 2
