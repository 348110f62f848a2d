"""A run during which the disk of the index fails and recovers ends like an undisturbed one.

The disk fails while the process that writes to it is paused. Thus some files are still to be
written, and no file appears while a folder is locked file by file.
"""

from __future__ import annotations

import signal
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack, nullcontext
from dataclasses import dataclass
from pathlib import Path

import pytest

from codelode.model import RunState
from tests.disks import full, is_root, read_only, small_disk
from tests.end_to_end.runs import clustered, log_of, state_of, under_way
from tests.end_to_end.stored import assert_same, read
from tests.pausing import paused

#: Files in flight: so many may be stored but not yet counted as done.
WINDOW = 16

#: Number of failed writes after which the fault is certain to have been noticed.
PUT_OFF = 4

#: By default Weaviate refuses writes when a tenth of the disk is free, so that it never gets full.
UP_TO_THE_END = {"DISK_USE_READONLY_PERCENTAGE": "0", "DISK_USE_WARNING_PERCENTAGE": "0"}


@dataclass(frozen=True)
class Fault:
    """A fault of the disk at a folder."""

    disk: Callable[[Path], AbstractContextManager[None]]  # set up before the first file is written
    fails: Callable[[Path], AbstractContextManager[None]]
    reasons: tuple[str, ...]  # messages of the kernel, one of which is in the log
    has_locks: bool = True  # files without content can still be created


READ_ONLY = Fault(nullcontext, read_only, ("operation not permitted", "permission denied"), False)
FULL = Fault(small_disk, full, ("no space left on device", "disk is full"))


class Embedded:
    """The index of `codelode up`, which its store worker writes."""

    def __init__(self, tmp_path):
        self.disk = tmp_path / "data" / "index"
        self.disk.mkdir(parents=True)

    def start(self, running):
        return {"log_level": "debug"}

    def writers(self, cluster):
        return cluster.pids("workers store")

    def assert_searched(self, client, fault):
        """Check that searches work, unless tantivy cannot create the lock that it needs."""
        assert not fault.has_locks or client.search("task", skip_cache=True).hits

    def recover(self):
        """Do nothing: the index recovers by itself."""


class Server:
    """A Weaviate for this test, which stores all its data on the disk."""

    def __init__(self, tmp_path, weaviate_at):
        self.disk = tmp_path / "weaviate"
        self.disk.mkdir()
        self._at = weaviate_at

    def start(self, running):
        self._server = running.enter_context(self._at(self.disk, **UP_TO_THE_END))
        return clustered(self._server.address())

    def writers(self, cluster):
        return [self._server.pid()]

    def assert_searched(self, client, fault):
        assert client.search("task", skip_cache=True).hits

    def recover(self):
        """Restart the server, as an operator must: until then it refuses writes to failed files."""
        self._server.signal(signal.SIGKILL)
        assert self._server.start()


@pytest.fixture
def index(store, tmp_path, weaviate_at):
    if store.name == "local":
        return Embedded(tmp_path)
    if not is_root():
        pytest.skip("only root can lock what a server has open, or mount a disk for it")
    return Server(tmp_path, weaviate_at)


@pytest.mark.parametrize(
    "fault", [pytest.param(READ_ONLY, id="read-only"), pytest.param(FULL, id="full")]
)
def test_a_run_during_which_the_disk_fails_ends_like_an_undisturbed_one(
    index, fault, tmp_path, cluster_at, library, undisturbed, wait_for
):
    def is_felt():
        log = log_of(cluster, "store").lower()
        return log.count("retry in") >= PUT_OFF and any(said in log for said in fault.reasons)

    with ExitStack() as running:
        running.enter_context(fault.disk(index.disk))
        cluster = cluster_at(tmp_path / "data", window=str(WINDOW), **index.start(running))
        cluster.start()
        running.callback(cluster.stop)
        with cluster.client() as client:
            run = client.index(str(library.folder), name="library", wait=False)
            wait_for(lambda: under_way(client, run), "a tenth of the run")
            with ExitStack() as failing:
                with paused(index.writers(cluster)):
                    now = state_of(client, run)
                    assert now.done + WINDOW < now.total, "the run was nearly over"
                    failing.enter_context(fault.fails(index.disk))
                wait_for(is_felt, "writes to be put off for that reason")
                assert not state_of(client, run).state.is_over
                index.assert_searched(client, fault)
            index.recover()
            *_, end = client.watch(run.id)
        assert (end.state, end.failed, end.done) == (RunState.COMPLETE, 0, end.total)
        assert_same(read(cluster, "library"), undisturbed)
