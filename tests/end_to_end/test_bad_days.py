"""Whichever process dies, the run completes and the index equals that of an undisturbed run."""

from __future__ import annotations

import os
import signal
import socket
import threading
import time
from contextlib import ExitStack, contextmanager, suppress
from urllib.parse import urlsplit

import pytest

from codelode.backends import registry
from codelode.backends.weaviate import Address, TenantIndex, versions
from codelode.backends.weaviate.connection import connect as connect_weaviate
from codelode.backends.weaviate.schema import VECTOR, Version
from codelode.errors import NotFound
from codelode.model import FileState, RunState
from tests.end_to_end.runs import clustered, state_of, times_put_off, under_way
from tests.end_to_end.stored import assert_same, read

#: Small, so that files are stored early in a run. With the usual window, all files would be in
#: flight at once, and the run would be over before a test disturbs it.
WINDOW = "32"


@pytest.fixture(scope="module")
def server(request, store):
    """Return the Weaviate of this module's cluster, or None with the local store."""
    return request.getfixturevalue("make_weaviate")() if store.name == "weaviate" else None


@pytest.fixture(scope="module")
def wires(server):
    """Return the proxies of Weaviate's HTTP and gRPC ports; none with the local store."""
    if server is None:
        yield ()
        return
    address = server.address()
    host = urlsplit(address.url)
    with ExitStack() as ends:
        made = [Wire(host.hostname, port) for port in (host.port, address.grpc_port)]
        for wire in made:
            ends.callback(wire.close)
        yield made


@pytest.fixture(scope="module")
def shared(tmp_path_factory, cluster_at, server, wires):
    """The cluster that is disturbed, and recovers before the next test.

    It caches no derived values, so indexing the same content again takes as long as the first time.
    """
    own = {}
    if server is not None:
        http, grpc = (wire.port for wire in wires)
        own = clustered(Address(f"http://127.0.0.1:{http}", grpc, server.address().api_key))
    data = tmp_path_factory.mktemp("disturbed") / "data"
    # A parse waits for a Redis that is restarting, and that time counts against its limit.
    limits = {"window": WINDOW, "derivations": "none", "parse_timeout_s": "60"}
    made = cluster_at(data, **own, **limits)
    made.start()
    yield made
    made.kill()


@pytest.fixture(scope="module")
def library(small_library):
    return small_library


@pytest.fixture(scope="module")
def undisturbed(shared, library):
    """Return all that is stored of the library after an undisturbed run."""
    with shared.client() as client:
        run = client.index(str(library.folder), name="library")
    assert (run.state, run.failed, run.done) == (RunState.COMPLETE, 0, run.total)
    return read(shared, "library")


@pytest.fixture
def cluster(shared, undisturbed, wait_for):
    """Return the shared cluster with all of its processes running and without the library."""
    if not shared.is_running():
        shared.start()
    with shared.client() as client:
        remove(shared, client, wait_for)
    for worker in ("pull", "parse", "embed", "store", "beat"):
        wait_for(lambda name=worker: shared.pids(f"workers {name}"), f"{worker} to run")
    return shared


def remove(cluster, client, wait_for):
    """Remove the library, and wait until nothing of it is left."""
    ledger = registry.ledger(cluster.settings())
    with suppress(NotFound):
        client.remove("library")
    wait_for(lambda: not ledger.being_removed(), "the library to leave")
    wait_for(lambda: not any((cluster.data / "mirrors").iterdir()), "its mirror to be deleted")


def test_a_run_in_which_each_worker_is_killed_ends_like_an_undisturbed_one(
    cluster, store, library, undisturbed, wait_for
):
    """The workers are killed one after the other, in the order of the stages."""
    # Only the store worker uses the store; `test_stage_boundaries` has the others with Weaviate.
    workers = ("parse", "embed", "store", "beat") if store.name == "local" else ("store",)
    with cluster.client() as client:
        run = client.index(str(library.folder), name="library", wait=False)
        for tenths, worker in enumerate(workers, 1):
            wait_for(
                lambda tenths=tenths: under_way(client, run, tenths), f"{tenths} tenths of the run"
            )
            pids = cluster.pids(f"workers {worker}")
            assert pids, worker
            for pid in pids:
                os.kill(pid, signal.SIGKILL)
        *_, end = client.watch(run.id)
        assert (end.state, end.failed) == (RunState.COMPLETE, 0)
        assert end.done == end.total
        assert_same(read(cluster, "library"), undisturbed)


@pytest.mark.parametrize("store", ["local"], indirect=True)  # files do not reach the store
@pytest.mark.parametrize(
    "sign",
    [
        pytest.param("run", id="asked"),  # is there always
        pytest.param("mirrors/*.part", id="cloning"),
        pytest.param("mirrors/*.git", id="planning"),
    ],
)
def test_a_run_whose_pull_worker_is_killed_ends_like_an_undisturbed_one(
    cluster, library, undisturbed, wait_for, sign
):
    with cluster.client() as client:
        run = run_without_its_pull_worker(cluster, client, library, wait_for, sign)
        *_, end = client.watch(run.id)
        assert (end.state, end.failed) == (RunState.COMPLETE, 0)
        assert end.done == end.total
        assert_same(read(cluster, "library"), undisturbed)


def run_without_its_pull_worker(cluster, client, library, wait_for, sign, attempts=5):
    """Start a run and kill the pull worker on a sign, before it has planned the run.

    On a busy machine the sign may be seen when the run is already planned; then this ends the
    run and starts another one.
    """
    for _ in range(attempts):
        wait_for(lambda: cluster.pids("workers pull"), "the pull worker to run")
        pids = cluster.pids("workers pull")
        run = client.index(str(library.folder), name="library", wait=False)
        if look_for(cluster.data, sign, while_=lambda run=run: is_pulling(client, run)):
            for pid in pids:
                os.kill(pid, signal.SIGKILL)
            if is_pulling(client, run):
                return run
        remove(cluster, client, wait_for)
    raise AssertionError(f"the pull worker was killed too late in {attempts} runs")


def is_pulling(client, run):
    return state_of(client, run).state is RunState.PULLING


def look_for(folder, pattern, *, while_):
    """Return whether a path matches. Looks without pauses: some paths exist for milliseconds."""
    for _ in range(60):
        until = time.monotonic() + 1
        while time.monotonic() < until:
            if any(folder.glob(pattern)):
                return True
        if not while_():
            return False
    raise AssertionError(f"no {pattern} within a minute")


@pytest.mark.parametrize("store", ["local"], indirect=True)  # a server would survive
def test_a_cluster_killed_during_a_run_continues_it_after_a_restart(
    cluster, library, undisturbed, wait_for
):
    with cluster.client() as client:
        run = client.index(str(library.folder), name="library", wait=False)
        wait_for(lambda: under_way(client, run), "a tenth of the run")
    cluster.kill()
    cluster.start()
    with cluster.client() as client:
        *_, end = client.watch(run.id)
    assert (end.state, end.failed) == (RunState.COMPLETE, 0)
    assert_same(read(cluster, "library"), undisturbed)


@pytest.mark.parametrize("store", ["local"], indirect=True)  # independent of the store
@pytest.mark.parametrize(
    "end", [pytest.param(signal.SIGKILL, id="killed"), pytest.param(signal.SIGTERM, id="shut-down")]
)
def test_a_run_during_which_redis_restarts_ends_like_an_undisturbed_one(
    cluster, library, undisturbed, wait_for, end
):
    with cluster.client() as client:
        run = client.index(str(library.folder), name="library", wait=False)
        wait_for(lambda: under_way(client, run), "a tenth of the run")
        before = redis_pid(cluster)
        os.kill(int(before), end)
        wait_for(lambda: redis_pid(cluster) not in ("", before), "Redis to start again")
        *_, last = client.watch(run.id)
    assert (last.state, last.failed, last.done) == (RunState.COMPLETE, 0, last.total)
    assert_same(read(cluster, "library"), undisturbed)


def redis_pid(cluster):
    """Return the recorded id, because Redis overwrites the environment that marks processes."""
    return (cluster.data / "run" / "redis.pid").read_text().partition(" ")[0]


class Wire:
    """A proxy between the workers and a server's port that can break or stall connections."""

    def __init__(self, host, port):
        self.lost = 0  # connections and messages
        self._server = (host, port)
        self._ends = []
        self._is_refusing = False
        self._flows = threading.Event()
        self._flows.set()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def refuse(self):
        """Break all connections, and every new one at once."""
        self._is_refusing = True
        self._hang_up()

    def swallow(self):
        """Keep connections open, but deliver nothing."""
        self._flows.clear()

    def mend(self):
        self._hang_up()
        self._is_refusing = False
        self._flows.set()

    def close(self):
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.mend()

    def _accept(self):
        with suppress(OSError):
            while True:
                near, _ = self._listener.accept()
                if self._is_refusing:
                    self.lost += 1
                    near.close()
                    continue
                try:
                    far = socket.create_connection(self._server)
                except OSError:  # the proxy is down
                    near.close()
                    continue
                self._ends += near, far
                for ends in ((near, far), (far, near)):
                    threading.Thread(target=self._pump, args=ends, daemon=True).start()

    def _pump(self, source, target):
        with suppress(OSError), source, target:
            while data := source.recv(65_536):
                self.lost += not self._flows.is_set()
                self._flows.wait()
                target.sendall(data)

    def _hang_up(self):
        while self._ends:
            with suppress(OSError):
                self._ends.pop().shutdown(socket.SHUT_RDWR)


@pytest.mark.parametrize("store", ["weaviate"], indirect=True)
@pytest.mark.parametrize("way", ["refuse", "swallow"])
def test_a_run_during_which_the_network_fails_ends_like_an_undisturbed_one(
    cluster, wires, library, undisturbed, wait_for, way
):
    def lost():
        return sum(wire.lost for wire in wires)

    with cluster.client() as client:
        run = client.index(str(library.folder), name="library", wait=False)
        wait_for(lambda: under_way(client, run), "a tenth of the run")
        before = lost()
        for wire in wires:
            getattr(wire, way)()
        wait_for(lambda: lost() >= before + 3, "the cut to be felt")
        assert not state_of(client, run).state.is_over
        for wire in wires:
            wire.mend()
        *_, end = client.watch(run.id)
    assert (end.state, end.failed, end.done) == (RunState.COMPLETE, 0, end.total)
    assert_same(read(cluster, "library"), undisturbed)


@pytest.mark.parametrize("store", ["weaviate"], indirect=True)
def test_a_run_during_which_weaviate_restarts_ends_like_an_undisturbed_one(
    cluster, server, library, undisturbed, wait_for
):
    with cluster.client() as client:
        run = client.index(str(library.folder), name="library", wait=False)
        wait_for(lambda: under_way(client, run), "a tenth of the run")
        before = times_put_off(cluster, "store")
        server.signal(signal.SIGKILL)
        wait_for(lambda: times_put_off(cluster, "store") > before, "a write to be put off")
        assert not state_of(client, run).state.is_over
        server.start()
        *_, end = client.watch(run.id)
    assert (end.state, end.failed, end.done) == (RunState.COMPLETE, 0, end.total)
    assert_same(read(cluster, "library"), undisturbed)


@pytest.mark.parametrize("store", ["weaviate"], indirect=True)
def test_a_run_during_which_one_of_three_nodes_fails_ends_like_an_undisturbed_one(
    tmp_path, weaviate_nodes, cluster_at, library, undisturbed, wait_for
):
    """The leader fails and stays down: the other two nodes serve the rest of the run."""
    gone = next(node for node in weaviate_nodes if node.is_leader())
    stays = next(node for node in weaviate_nodes if node is not gone)
    settings = clustered(stays.address, replicas=len(weaviate_nodes))
    own = cluster_at(tmp_path / "data", window=WINDOW, **settings)
    own.start()
    try:
        with own.client() as client:
            run = client.index(str(library.folder), name="library", wait=False)
            wait_for(lambda: under_way(client, run), "a tenth of the run")
            assert client.search("task", skip_cache=True).hits
            gone.end()
            assert client.search("task", skip_cache=True).hits
            *_, end = client.watch(run.id)
            assert client.search("task", skip_cache=True).hits
        assert (end.state, end.failed, end.done) == (RunState.COMPLETE, 0, end.total)
        assert_same(read(own, "library"), undisturbed)
    finally:
        own.kill()


@pytest.mark.parametrize("store", ["local"], indirect=True)  # files do not reach the store
def test_a_run_during_which_ollama_restarts_ends_like_an_undisturbed_one(
    tmp_path, store, ollama, cluster_at, git, wait_for
):
    files = 8
    git.commit(
        {
            f"part_{n}.py": f"import part_{(n + 1) % files}\n\n\n"
            f"def read_{n}(path):\n    return open(path)\n"
            for n in range(files)
        }
    )
    settings = {
        "embedder": "ollama",
        "ollama_url": ollama.url,
        "ollama_threads": "1",
        "embedding_model": "all-minilm",
        "embed_batch_tokens": "64",
        "model_concurrency": "1",
        "derivations": "none",
        "log_level": "debug",
        "window": "1",  # the second half is embedded after the first
    }
    own = cluster_at(tmp_path / "data", **settings)

    def indexed(client, disturb):
        run = client.index(str(git.folder), name="app", wait=False)
        disturb(client, run)
        *_, end = client.watch(run.id)
        assert (end.state, end.failed, end.done) == (RunState.COMPLETE, 0, files)
        answer = client.search("open a path", repositories=["app"], skip_cache=True)
        assert answer.hits
        assert not answer.notices
        return read(own, "app")

    def kill(client, run):
        wait_for(lambda: ollama.answered() >= before + files // 2, "half of the calls")
        ollama.kill()
        wait_for(lambda: times_put_off(own, "embed"), "a call to be put off")
        assert not state_of(client, run).state.is_over
        ollama.start()

    own.start()
    try:
        with own.client() as client:
            undisturbed = indexed(client, lambda *_: None)
            client.remove("app")
            before = ollama.answered()
            assert_same(indexed(client, kill), undisturbed)
    finally:
        own.kill()


@pytest.mark.parametrize("store", ["weaviate"], indirect=True)
def test_a_file_that_the_store_refuses_fails_alone_with_its_reason(
    tmp_path, store, cluster_at, git
):
    """The index has vectors of another dimension; files without words have no vector."""
    given = store()
    own = cluster_at(tmp_path / "data", **given)
    git.commit({"§": "§§\n", "¶": "¶¶\n"})
    own.start()
    try:
        with own.client() as client:
            assert client.index(str(git.folder), name="app").done == 2
        with connect_weaviate(weaviate_of(given)) as client:
            embedder = registry.embedder(own.settings())
            place = TenantIndex(given["weaviate_collection"], own.settings().organisation)
            name = versions.require(client, place, Version(embedder.identity, embedder.dim))
            objects = client.collections.use(name).with_tenant(place.tenant)
            objects.data.insert({}, vector={VECTOR: [1.0] * 5})
        git.commit({"§": "def load(): pass\n", "§§": "§§§\n"})
        with own.client() as client:
            run = client.index(str(git.folder), name="app")
        assert (run.state, run.done, run.failed) == (RunState.COMPLETE, 1, 1)
        ledger = registry.ledger(own.settings())
        (status,) = ledger.refs("app")
        records = {record.path: record for record in ledger.all("app", status.ref)}
        assert {path: record.state for path, record in records.items()} == {
            "§": FileState.FAILED,
            "¶": FileState.INDEXED,
            "§§": FileState.INDEXED,
        }
        assert "app:§: the index has other dimensions" in records["§"].reason
        chunks, _ = own.index_of("app")
        assert len(chunks) == 2  # nothing is left of the refused file's former content
    finally:
        own.kill()


def weaviate_of(settings):
    return Address(
        settings["weaviate_url"],
        int(settings["weaviate_grpc_port"]),
        settings["weaviate_api_key"],
    )


@contextmanager
def refusing_shard(cluster, address):
    """Make Weaviate refuse writes, as if its disk were nearly full (for full, see `test_disks`)."""
    with connect_weaviate(address) as client:
        alias = cluster.settings().weaviate_collection
        config = client.collections.use(client.alias.get(alias_name=alias).collection).config
        shards = [shard.name for shard in config.get_shards()]
        config.update_shards(status="READONLY", shard_names=shards)
        try:
            yield
        finally:
            config.update_shards(status="READY", shard_names=shards)


@pytest.mark.parametrize("store", ["weaviate"], indirect=True)
def test_a_run_during_which_weaviate_refuses_writes_ends_like_an_undisturbed_one(
    cluster, server, library, undisturbed, wait_for
):
    with cluster.client() as client:
        run = client.index(str(library.folder), name="library", wait=False)
        wait_for(lambda: under_way(client, run), "a tenth of the run")
        before = times_put_off(cluster, "store")
        with refusing_shard(cluster, server.address()):
            wait_for(lambda: times_put_off(cluster, "store") > before, "a write to be put off")
            assert not state_of(client, run).state.is_over
            assert client.search("task", skip_cache=True).hits
        *_, end = client.watch(run.id)
    assert (end.state, end.failed, end.done) == (RunState.COMPLETE, 0, end.total)
    assert_same(read(cluster, "library"), undisturbed)


@pytest.mark.parametrize("store", ["local"], indirect=True)  # the same processes
def test_stopping_leaves_no_process_behind(cluster):
    pids = cluster.pids()
    assert len(pids) >= 7
    assert cluster.pids("workers.flower") == []  # it was started without it
    assert cluster.stop() == 0
    assert cluster.pids() == []
