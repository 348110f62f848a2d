"""One hostile repository never stops the others, and its run ends with a reason."""

from __future__ import annotations

import os
import signal
import socket
from contextlib import ExitStack, contextmanager

import pytest
from redis.exceptions import OutOfMemoryError

from codelode.backends.redis.connection import connect
from codelode.model import RunState
from tests.end_to_end.runs import state_of
from tests.pausing import paused

#: Long enough for the plan of a small repository on a busy machine: 20 ms of processor time.
PLAN_TIMEOUT_S = 10
TOO_SLOW = f"manifests (CODELODE_PLAN_TIMEOUT_S) took longer than {PLAN_TIMEOUT_S} s"
#: The default, because on a busy machine a query takes longer than its limit of two seconds.
PARSE_TIMEOUT_S = 15

#: Several times what the tests need, and quickly filled.
REDIS_MEMORY_MB = "64"

#: Lines whose keys the TOML parser reads in quadratic time: 10 seconds per file.
SLOW_TOML = "".join("a." * 900 + f"b{number} = 1\n" for number in range(500))

#: Short, so that a dead worker is noticed soon.
SOON = {"heartbeat_s": "0.5", "reap_interval_s": "0.5", "requeue_s": "2"}

SMALL = {"small.py": "def small():\n    return 1\n"}


@pytest.fixture(scope="module")
def hostile(tmp_path_factory, cluster_at):
    """A cluster with the embedded store that indexes hostile repositories."""
    data = tmp_path_factory.mktemp("hostile") / "data"
    limits = {
        "plan_timeout_s": str(PLAN_TIMEOUT_S),
        "parse_timeout_s": str(PARSE_TIMEOUT_S),
        "redis_memory_mb": REDIS_MEMORY_MB,
    }
    made = cluster_at(data, **limits, **SOON)
    made.start()
    yield made
    made.kill()


def index_small(client, make_git, name):
    """Index a new small repository and expect that it completes."""
    small = make_git()
    small.commit(SMALL)
    assert client.index(str(small.folder), name=name).state is RunState.COMPLETE


def slow_to_plan(make_git):
    slow = make_git()
    slow.commit({f"{number}/pyproject.toml": SLOW_TOML for number in range(50)})
    return slow


def children_of(cluster):
    """Return the processes that read repositories for the pull worker."""
    return cluster.pids("workers call")


def stop_plan(cluster, idle, wait_for):
    """Stop the processes that plan a run, except the idle ones, until they are killed."""
    wait_for(lambda: set(children_of(cluster)) - idle, "the plan to be under way")
    for pid in set(children_of(cluster)) - idle:
        os.kill(pid, signal.SIGSTOP)


def test_manifests_that_take_for_ever_fail_their_own_run_only(hostile, make_git, wait_for):
    with hostile.client() as client:
        idle = set(children_of(hostile))
        run = client.index(str(slow_to_plan(make_git).folder), name="slow", wait=False)
        index_small(client, make_git, "beside")
        stop_plan(hostile, idle, wait_for)  # it would take a processor until its time limit
        *_, end = client.watch(run.id)
    assert end.state is RunState.FAILED
    assert TOO_SLOW in end.error


def test_cancelling_and_removing_end_the_work_of_a_run(hostile, make_git, wait_for):
    with hostile.client() as client:
        idle = len(children_of(hostile))
        for name in ("cancelled", "removed"):
            run = client.index(str(slow_to_plan(make_git).folder), name=name, wait=False)
            wait_for(lambda: len(children_of(hostile)) > idle, "the plan to be under way")
            client.cancel(run.id) if name == "cancelled" else client.remove(name)
            wait_for(lambda: len(children_of(hostile)) == idle, "the plan to end", seconds=15)


@contextmanager
def silent_host():
    """Listen on a port, accept everything, and never answer."""
    with socket.create_server(("127.0.0.1", 0), backlog=100) as server:
        yield f"http://127.0.0.1:{server.getsockname()[1]}"


def test_hosts_that_never_answer_delay_nobody_and_git_ends_with_its_run(
    hostile, make_git, wait_for
):
    def gits():
        return len(hostile.pids("git-remote-http"))

    with hostile.client() as client, silent_host() as host, ExitStack() as ends:
        for number in range(10):
            run = client.index(f"{host}/silent/{number}", name=f"silent{number}", wait=False)
            ends.callback(client.cancel, run.id)
        wait_for(lambda: gits() >= 10, "git to wait for all of them")
        index_small(client, make_git, "heard")
        assert gits() >= 10
        ends.close()
        wait_for(lambda: not hostile.pids(host), "git and its transports to be ended", seconds=30)


def test_a_run_goes_on_when_its_worker_was_stopped_and_continues(hostile, make_git, wait_for):
    """A worker that is paused with all its children counts as dead meanwhile."""
    slow = make_git()
    slow.commit({"pyproject.toml": SLOW_TOML[: len(SLOW_TOML) // 3], **SMALL})

    with hostile.client() as client:

        def is_sent_again():
            (pull,) = [one for one in client.status().queues if one.name == "pull"]
            return pull.messages

        idle = set(children_of(hostile))
        run = client.index(str(slow.folder), name="stopped", wait=False)
        wait_for(lambda: set(children_of(hostile)) - idle, "the plan to be under way")
        with paused([*hostile.pids("workers pull"), *children_of(hostile)]):
            wait_for(is_sent_again, "the pull to be sent again")
            assert state_of(client, run).state is RunState.PULLING
        *_, end = client.watch(run.id)
        index_small(client, make_git, "continued")
    assert end.state is RunState.COMPLETE or TOO_SLOW in end.error
    assert len(hostile.pids("workers pull")) == 1


def test_a_run_that_kills_its_worker_again_and_again_fails(hostile, make_git, wait_for):
    """A crash of git or of a library can kill the worker, and a restart does not help.

    The same holds for a run that stalls: its stopped process would never answer.
    """
    with hostile.client() as client, silent_host() as host:
        idle = set(children_of(hostile))
        stalled = client.index(str(slow_to_plan(make_git).folder), name="stalled", wait=False)
        stop_plan(hostile, idle, wait_for)
        *_, stalled = client.watch(stalled.id)
        assert (stalled.state, TOO_SLOW in stalled.error) == (RunState.FAILED, True)
        run = client.index(f"{host}/deadly", name="deadly", wait=False)
        for _ in range(hostile.settings().max_attempts):
            wait_for(lambda: hostile.pids("git-remote-http"), "git to start", seconds=120)
            for pid in hostile.pids("workers pull"):
                os.kill(pid, signal.SIGKILL)
            wait_for(lambda: not hostile.pids(host), "git to end with its worker", seconds=20)
        *_, end = client.watch(run.id)
        assert (end.state, end.error) == (RunState.FAILED, "its worker died 3 times at stage pull")
        hostile.kill()
        hostile.start()
    with hostile.client() as client:
        index_small(client, make_git, "after")
        assert [state_of(client, one) for one in (run, stalled)] == [end, stalled]
        assert not hostile.pids("ls-remote")


#: A query that takes longer than its time limit for each file, in several languages.
SLOW_QUERY = (
    "(({root} (_)* @a (_)* @b (_)* @c (_)* @d (_)* @e (_)* @f (_)* @name) @definition.class)"
)
ROOTS = {"python": ("module", "py"), "ruby": ("program", "rb"), "lua": ("chunk", "lua")}


def test_slow_files_of_one_repository_delay_another_one_by_seconds_only(
    hostile, make_git, wait_for
):
    slow = make_git()
    queries = {
        f".codelode/queries/{language}.scm": SLOW_QUERY.format(root=root)
        for language, (root, _) in ROOTS.items()
    }
    files = {
        f"{number}.{extension}": f"x = {number}\n" * 3_000
        for number in range(30)
        for _, extension in ROOTS.values()
    }
    slow.commit(queries | files)
    with hostile.client() as client:
        run = client.index(str(slow.folder), name="slowly", wait=False)
        wait_for(lambda: state_of(client, run).done, "the first slow file")
        index_small(client, make_git, "quick")
        assert not state_of(client, run).state.is_over
        *_, end = client.watch(run.id)
        assert (end.state, end.failed) == (RunState.COMPLETE, 0)
        notes = [one.reason for one in client.failures("slowly", include_partial=True)]
        assert any("switched off" in note for note in notes)


def test_at_the_memory_limit_of_redis_runs_can_be_cancelled_and_repositories_removed(
    hostile, make_git, wait_for
):
    with hostile.client() as client, connect(hostile.facts["redis"]) as redis:

        def names():
            return {one.repository.name for one in client.repositories()}

        index_small(client, make_git, "kept")
        with silent_host() as host:
            run = client.index(f"{host}/silent", name="silent", wait=False)
            fill(redis)
            assert client.cancel(run.id).state is RunState.CANCELLED
            client.remove("silent")
            assert names() & {"kept", "silent"} == {"kept"}
            assert client.status().queues
            assert client.search("small", skip_cache=True).hits
        redis.delete(FILLER)
        wait_for(lambda: not hostile.pids("ls-remote"), "git to end")
        index_small(client, make_git, "new")


FILLER = "filler"


def fill(redis):
    """Take all memory that the server may use."""
    size = 1 << 20
    while size:
        try:
            redis.append(FILLER, bytes(size))
        except OutOfMemoryError:
            size //= 2
