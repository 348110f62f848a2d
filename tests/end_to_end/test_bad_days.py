"""Whatever dies, the run completes and the index is the undisturbed one."""

from __future__ import annotations

import os
import signal

import pytest

from codelode.model import RunState


@pytest.fixture(scope="session")
def undisturbed(cluster, library):
    """Chunk ids and edges of the library, indexed in peace."""
    with cluster.client() as client:
        run = client.index(str(library.folder), name="library")
    assert run.state is RunState.COMPLETE
    return cluster.index_of("library")


def differences(found, expected):
    """Chunk ids and edges that only one of two indexes has."""
    return [one ^ other for one, other in zip(found, expected, strict=True)]


NONE = [frozenset(), frozenset()]


def under_way(client, run):
    """A tenth of the files are through, and not yet nine tenths."""
    state = next(iter(client.watch(run.id)))
    assert not state.state.is_over, "the run was over before anything could be killed"
    return state.total and state.done > state.total // 10


@pytest.mark.parametrize("worker", ["pull", "parse", "embed", "store", "beat"])
def test_a_worker_killed_in_a_run_costs_nothing(
    own_cluster, library, undisturbed, wait_for, worker
):
    with own_cluster.client() as client:
        run = client.index(str(library.folder), name="library", wait=False)
        wait_for(lambda: under_way(client, run), "a tenth of the run")
        for pid in own_cluster.pids(f"workers {worker}"):
            os.kill(pid, signal.SIGKILL)
        *_, end = client.watch(run.id)
        assert (end.state, end.failed) == (RunState.COMPLETE, 0)
        assert end.done == end.total
        assert differences(own_cluster.index_of("library"), undisturbed) == NONE


def test_the_cluster_killed_in_a_run_goes_on_where_it_was(
    own_cluster, library, undisturbed, wait_for
):
    with own_cluster.client() as client:
        run = client.index(str(library.folder), name="library", wait=False)
        wait_for(lambda: under_way(client, run), "a tenth of the run")
    own_cluster.kill()
    wait_for(lambda: not own_cluster.pids(), "all processes to end with the first")
    own_cluster.start()
    with own_cluster.client() as client:
        *_, end = client.watch(run.id)
    assert (end.state, end.failed) == (RunState.COMPLETE, 0)
    assert differences(own_cluster.index_of("library"), undisturbed) == NONE


def test_redis_killed_in_a_run_costs_nothing(own_cluster, library, undisturbed, wait_for):
    with own_cluster.client() as client:
        run = client.index(str(library.folder), name="library", wait=False)
        wait_for(lambda: under_way(client, run), "a tenth of the run")
        for pid in own_cluster.pids("valkey-server") + own_cluster.pids("redis-server"):
            os.kill(pid, signal.SIGKILL)
        *_, end = client.watch(run.id)
    assert end.state is RunState.COMPLETE
    assert differences(own_cluster.index_of("library"), undisturbed) == NONE


def test_stopping_leaves_no_process_behind(own_cluster):
    pids = own_cluster.pids()
    assert len(pids) >= 7
    assert own_cluster.stop() == 0
    assert own_cluster.pids() == []
