"""Clients are made from a Redis URL, and their errors are translated into ours."""

from __future__ import annotations

import inspect
import socket

import pytest
from redis import exceptions

from codelode.access import EVERYTHING, Label, Role
from codelode.api_keys import ApiKey
from codelode.backends.redis.api_keys import RedisApiKeys
from codelode.backends.redis.connection import (
    TRANSLATIONS,
    connect,
    connect_async,
    ping,
    translate,
    translated,
)
from codelode.backends.redis.graph import RedisGraph
from codelode.backends.redis.ledger import RedisLedger
from codelode.backends.redis.permissions import RedisPermissionStates
from codelode.backends.redis.symbols import RedisSymbols
from codelode.errors import (
    Busy,
    CodelodeError,
    Corrupt,
    InvalidSettings,
    TimedOut,
    Unavailable,
)
from codelode.host_permissions import SyncDeclaration
from codelode.model import (
    DEFAULT_REF,
    Edge,
    EdgeKind,
    Kind,
    RefName,
    Repository,
    RepositoryName,
    RunState,
    Symbol,
)

LIBRARY_ERRORS = [
    value
    for _, value in inspect.getmembers(exceptions, inspect.isclass)
    if issubclass(value, Exception)
]


@pytest.mark.parametrize("error", LIBRARY_ERRORS, ids=lambda error: error.__name__)
def test_every_exception_of_the_library_is_mapped(error):
    assert error in TRANSLATIONS


@pytest.mark.parametrize(
    ("raised", "expected"),
    [
        pytest.param(exceptions.ConnectionError("refused"), Unavailable, id="no connection"),
        pytest.param(exceptions.TimeoutError("slow"), TimedOut, id="no reply in time"),
        pytest.param(TimeoutError("slow"), TimedOut, id="no reply in the caller's time"),
        pytest.param(BrokenPipeError("gone"), Unavailable, id="broken socket"),
        pytest.param(exceptions.BusyLoadingError("loading"), Unavailable, id="loading"),
        pytest.param(exceptions.ReadOnlyError("replica"), Unavailable, id="replica"),
        pytest.param(exceptions.OutOfMemoryError("full"), Busy, id="full"),
        pytest.param(
            exceptions.ResponseError("Error running script: -OOM command not allowed when used"),
            Busy,
            id="full inside a script of an old server",
        ),
        pytest.param(exceptions.AuthenticationError("no"), InvalidSettings, id="password"),
        pytest.param(exceptions.ResponseError("WRONGTYPE"), Corrupt, id="wrong type"),
        pytest.param(exceptions.DataError("no bytes"), Corrupt, id="wrong value"),
    ],
)
def test_an_error_becomes_what_the_caller_can_do_about_it(raised, expected):
    with pytest.raises(CodelodeError) as caught, translated():
        raise raised

    assert type(caught.value) is expected
    assert caught.value.__cause__ is raised
    assert str(raised) in str(caught.value)


def test_an_unknown_exception_is_translated_like_its_parent():
    class Later(exceptions.ReadOnlyError):
        pass

    assert type(translate(Later("x"))) is Unavailable


def test_long_details_are_cut():
    assert len(str(translate(exceptions.ResponseError("x" * 10_000)))) < 500


def test_other_errors_pass_unchanged():
    with pytest.raises(KeyError), translated():
        raise KeyError("ours")


def test_values_are_returned_as_bytes(redis):
    redis.set("key", "ü")
    assert redis.get("key") == "ü".encode()


async def test_the_asynchronous_client_speaks_to_the_same_server(redis, redis_url):
    redis.set("key", "value")
    async with connect_async(redis_url) as client:
        assert await client.get("key") == b"value"


@pytest.mark.parametrize("open_", [connect, connect_async])
@pytest.mark.parametrize(
    "url", ["", "localhost:6379", "http://localhost", "redis://:secret@host:port/0"]
)
def test_a_wrong_url_is_refused_with_the_remedy_and_without_its_password(open_, url):
    with pytest.raises(InvalidSettings, match=r"redis://127\.0\.0\.1:6379/0") as caught:
        open_(url)
    assert "secret" not in str(caught.value)


def test_a_missing_socket_file_is_unavailable(tmp_path):
    with pytest.raises(Unavailable):
        ping(f"unix://{tmp_path}/none")


def test_an_address_without_a_listener_raises_unavailable():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        with pytest.raises(Unavailable, match="is it running"):
            ping(f"redis://127.0.0.1:{taken.getsockname()[1]}/0")


def test_a_silent_server_is_timed_out():
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        url = f"redis://127.0.0.1:{silent.getsockname()[1]}/0"
        client = connect(url, timeout_s=0.1, retries=0)
        with client, pytest.raises(TimedOut), translated():
            client.ping()


def test_a_lost_connection_is_reopened_without_an_error(redis, redis_admin):
    redis.ping()
    assert redis_admin.client_kill_filter(_type="normal", skipme=True) >= 1

    assert redis.ping()


@pytest.fixture
def full_redis(redis, redis_admin):
    redis_admin.config_set("maxmemory", 1)
    yield redis
    redis_admin.config_set("maxmemory", 0)


def test_a_full_server_raises_busy_and_keeps_its_data(full_redis, redis_admin):
    edge = Edge("a.py", "b.py", EdgeKind.IMPORTS)
    graph = RedisGraph(full_redis)
    with pytest.raises(Busy, match="maxmemory"):
        graph.replace("acme/app", [DEFAULT_REF], {"a.py": [edge]})
    with pytest.raises(Busy, match="maxmemory"), translated():
        full_redis.set("key", "value")

    assert graph.outgoing("acme/app", DEFAULT_REF, ["a.py"]) == {"a.py": ()}
    redis_admin.config_set("maxmemory", 0)
    graph.replace("acme/app", [DEFAULT_REF], {"a.py": [edge]})
    assert graph.outgoing("acme/app", DEFAULT_REF, ["a.py"]) == {"a.py": (edge,)}


def test_at_the_memory_limit_runs_end_and_repositories_leave(full_redis, redis_admin):
    redis_admin.config_set("maxmemory", 0)
    ledger, name = RedisLedger(full_redis, worker_ttl_s=60), RepositoryName("acme/app")
    ledger.register(Repository(name, "https://host.example/app", RefName("main")))
    run, queued = ledger.create(name, RefName("main")), ledger.create(name, RefName("other"))
    redis_admin.config_set("maxmemory", 1)

    assert ledger.end(run.id, RunState.CANCELLED, "cancelled by request") == queued.id
    assert ledger.run(run.id).state is RunState.CANCELLED
    ledger.heartbeat("worker")
    assert ledger.recent(EVERYTHING, limit=1) == (ledger.run(queued.id),)
    ledger.unregister(name)
    assert ledger.get(name) is None
    assert ledger.being_removed() == {name}
    ledger.removal_finished(name)
    assert not ledger.being_removed()


def test_unreadable_values_are_corrupt(redis):
    graph, symbols = RedisGraph(redis), RedisSymbols(redis)
    graph.replace("r", [DEFAULT_REF], {"a": [Edge("a", "b", EdgeKind.IMPORTS)]})
    for damaged in (b"\2\0", b"\2\0\0\0\xff", b"\7\0\0\0\0"):
        redis.hset("codelode:graph:{r}:o:0", "1", damaged)
        with pytest.raises(Corrupt):
            graph.outgoing("r", DEFAULT_REF, ["a"])

    symbols.replace("r", [DEFAULT_REF], {"a": [Symbol("f", "f", Kind.FUNCTION, "f()", 1, 1, True)]})
    (file,) = redis.scan_iter("codelode:symbols:{r}:file:*")
    redis.hset(file, "=f", "{")
    with pytest.raises(Corrupt):
        symbols.lookup("f", repositories=["r"], ref=DEFAULT_REF)


def test_a_server_that_lost_its_scripts_is_given_them_again(redis, redis_admin):
    edge = Edge("a.py", "b.py", EdgeKind.IMPORTS)
    graph = RedisGraph(redis)
    redis_admin.script_flush()
    graph.replace("acme/app", [DEFAULT_REF], {"a.py": [edge]})
    redis_admin.script_flush()

    assert graph.outgoing("acme/app", DEFAULT_REF, ["a.py"]) == {"a.py": (edge,)}


def test_at_the_memory_limit_everything_can_be_read(full_redis, redis_admin):
    redis_admin.config_set("maxmemory", 0)
    ledger, keys = RedisLedger(full_redis), RedisApiKeys(full_redis)
    name = RepositoryName("acme/app")
    repository = Repository(name, "https://host.example/app", RefName("main"), label=Label.PRIVATE)
    ledger.register(repository)
    ledger.set_label(name, Label.PRIVATE)
    key = ApiKey("a1b2", "ci", "digest", Role.READER, (("acme/*",),), 1.0, "admin")
    keys.add(key)
    sync = SyncDeclaration("host", "github", "https://host.example/", 60, 600, False, "")
    RedisPermissionStates(full_redis).declare([sync])
    redis_admin.config_set("maxmemory", 1)

    assert ledger.get(name) == repository
    assert ledger.repositories() == (repository,)
    assert ledger.labels() == {name: Label.PRIVATE}
    assert keys.get("a1b2") == key
    assert keys.all() == (key,)
    assert [one.declared for one in RedisPermissionStates(full_redis).states()] == [sync]
