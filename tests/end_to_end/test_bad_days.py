"""Whatever dies, the run completes and the index is the undisturbed one."""

from __future__ import annotations

import os
import signal
import socket
import threading
import time
from contextlib import ExitStack, contextmanager, suppress
from urllib.parse import urlsplit

import pytest

from codelode.backends import connect
from codelode.backends.weaviate import Address, TenantIndex, versions
from codelode.backends.weaviate.connection import connect as connect_weaviate
from codelode.backends.weaviate.schema import VECTOR, Version
from codelode.model import FileState, RunState
from tests.end_to_end.runs import clustered, puts_off, state_of, under_way
from tests.end_to_end.stored import assert_same, read


@pytest.fixture(autouse=True)
def few_in_flight(monkeypatch):
    """Files are counted as stored from early on. With the usual window all of them are in the last
    0.3 of 4 s, and a run is over before a test disturbs it.
    """
    monkeypatch.setenv("CODELODE_WINDOW", "32")


@pytest.mark.parametrize("worker", ["parse", "embed", "store", "beat"])
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
        assert_same(read(own_cluster, "library"), undisturbed)


@pytest.mark.parametrize(
    "sign",
    [
        pytest.param("run", id="asked"),  # is there always
        pytest.param("mirrors/*.part", id="cloning"),
        pytest.param("mirrors/*.git", id="planning"),
    ],
)
def test_a_pull_worker_killed_at_work_costs_nothing(own_cluster, library, undisturbed, sign):
    pids = own_cluster.pids("workers pull")
    assert pids
    with own_cluster.client() as client:
        run = client.index(str(library.folder), name="library", wait=False)
        look_for(own_cluster.data, sign)
        for pid in pids:
            os.kill(pid, signal.SIGKILL)
        assert state_of(client, run).state is RunState.PULLING
        *_, end = client.watch(run.id)
        assert (end.state, end.failed) == (RunState.COMPLETE, 0)
        assert end.done == end.total
        assert_same(read(own_cluster, "library"), undisturbed)


def look_for(folder, pattern):
    """Returns when there is such a path; without a pause, for some are there for milliseconds."""
    deadline = time.monotonic() + 60
    while not any(folder.glob(pattern)):
        assert time.monotonic() < deadline, f"no {pattern} within a minute"


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
    assert_same(read(own_cluster, "library"), undisturbed)


@pytest.mark.parametrize("end", [signal.SIGKILL, signal.SIGTERM], ids=["killed", "shut-down"])
def test_redis_that_ends_in_a_run_and_starts_again_costs_nothing(
    own_cluster, library, undisturbed, wait_for, end
):
    with own_cluster.client() as client:
        run = client.index(str(library.folder), name="library", wait=False)
        wait_for(lambda: under_way(client, run), "a tenth of the run")
        before = redis_pid(own_cluster)
        os.kill(int(before), end)
        wait_for(lambda: redis_pid(own_cluster) not in ("", before), "Redis to start again")
        *_, last = client.watch(run.id)
    assert (last.state, last.failed, last.done) == (RunState.COMPLETE, 0, last.total)
    assert_same(read(own_cluster, "library"), undisturbed)


def redis_pid(cluster):
    """As noted: its title takes the place of the environment that marks the other processes."""
    return (cluster.data / "run" / "redis.pid").read_text().partition(" ")[0]


class Wire:
    """A cable between the workers and a server's port, which can be cut."""

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
        """Connections break, and so do new ones at once."""
        self._is_refusing = True
        self._hang_up()

    def swallow(self):
        """Nobody answers: what is sent is never heard of again."""
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
                far = socket.create_connection(self._server)
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


@pytest.fixture
def wired_cluster(tmp_path, store, cluster_at):
    """A cluster whose Weaviate is at the other end of two wires, and these."""
    settings = store()
    host = urlsplit(settings["weaviate_url"])
    with ExitStack() as ends:
        wires = [
            Wire(host.hostname, port) for port in (host.port, int(settings["weaviate_grpc_port"]))
        ]
        for wire in wires:
            ends.callback(wire.close)
        settings["weaviate_url"] = f"http://127.0.0.1:{wires[0].port}"
        settings["weaviate_grpc_port"] = str(wires[1].port)
        cluster = cluster_at(tmp_path / "data", **settings)
        cluster.start()
        ends.callback(cluster.stop)
        yield cluster, wires


@pytest.mark.parametrize("store", ["weaviate"], indirect=True)
@pytest.mark.parametrize("way", ["refuse", "swallow"])
def test_a_network_that_is_cut_in_a_run_and_mended_costs_nothing(
    wired_cluster, library, undisturbed, wait_for, way
):
    cluster, wires = wired_cluster
    with cluster.client() as client:
        run = client.index(str(library.folder), name="library", wait=False)
        wait_for(lambda: under_way(client, run), "a tenth of the run")
        for wire in wires:
            getattr(wire, way)()
        wait_for(lambda: sum(wire.lost for wire in wires) >= 3, "the cut to be felt")
        assert not state_of(client, run).state.is_over
        for wire in wires:
            wire.mend()
        *_, end = client.watch(run.id)
    assert (end.state, end.failed, end.done) == (RunState.COMPLETE, 0, end.total)
    assert_same(read(cluster, "library"), undisturbed)


@pytest.mark.parametrize("store", ["weaviate"], indirect=True)
def test_a_weaviate_killed_in_a_run_and_started_again_costs_nothing(
    tmp_path, make_weaviate, cluster_at, library, undisturbed, wait_for
):
    server = make_weaviate()
    own = cluster_at(tmp_path / "data", **clustered(server.address()))
    own.start()
    try:
        with own.client() as client:
            run = client.index(str(library.folder), name="library", wait=False)
            wait_for(lambda: under_way(client, run), "a tenth of the run")
            server.signal(signal.SIGKILL)
            wait_for(lambda: puts_off(own, "store"), "a write to be put off")
            assert not state_of(client, run).state.is_over
            server.start()
            *_, end = client.watch(run.id)
        assert (end.state, end.failed, end.done) == (RunState.COMPLETE, 0, end.total)
        assert_same(read(own, "library"), undisturbed)
    finally:
        own.stop()


@pytest.mark.parametrize("store", ["weaviate"], indirect=True)
def test_one_of_three_nodes_that_goes_down_in_a_run_costs_nothing(
    tmp_path, weaviate_nodes, cluster_at, library, undisturbed, wait_for
):
    """It is the leader, and it stays away: the other two take what is left, and searches."""
    gone = next(node for node in weaviate_nodes if node.is_leader())
    stays = next(node for node in weaviate_nodes if node is not gone)
    own = cluster_at(tmp_path / "data", **clustered(stays.address, replicas=len(weaviate_nodes)))
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
        own.stop()


def test_an_ollama_killed_in_a_run_and_started_again_costs_nothing(
    tmp_path, ollama, cluster_at, git, wait_for
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
        "log_level": "debug",
    }

    def indexed(name, disturb):
        own = cluster_at(tmp_path / name / "data", **settings)
        (tmp_path / name).mkdir()
        own.start()
        try:
            with own.client() as client:
                run = client.index(str(git.folder), name="app", wait=False)
                disturb(own, client, run)
                *_, end = client.watch(run.id)
                assert (end.state, end.failed, end.done) == (RunState.COMPLETE, 0, files)
                answer = client.search("open a path", repositories=["app"])
                assert answer.hits
                assert not answer.notices
            return read(own, "app")
        finally:
            own.stop()

    before = ollama.answered()
    undisturbed = indexed("peace", lambda *_: None)
    calls = ollama.answered() - before

    def kill(own, client, run):
        wait_for(lambda: ollama.answered() - before > 1.5 * calls, "half of the calls")
        ollama.kill()
        wait_for(lambda: puts_off(own, "embed"), "a call to be put off")
        assert not state_of(client, run).state.is_over
        ollama.start()

    assert_same(indexed("trouble", kill), undisturbed)


@pytest.mark.parametrize("store", ["weaviate"], indirect=True)
def test_a_file_that_the_store_refuses_fails_alone_with_its_reason(
    tmp_path, store, cluster_at, git
):
    """The index holds a vector of other dimensions; files without a word have none."""
    given = store()
    own = cluster_at(tmp_path / "data", **given)
    git.commit({"§": "§§\n", "¶": "¶¶\n"})
    own.start()
    try:
        with own.client() as client:
            assert client.index(str(git.folder), name="app").done == 2
        with connect_weaviate(weaviate_of(given)) as client:
            embedder = connect.embedder(own.settings())
            place = TenantIndex(given["weaviate_collection"], own.settings().organisation)
            name = versions.require(client, place, Version(embedder.identity, embedder.dim))
            objects = client.collections.use(name).with_tenant(place.tenant)
            objects.data.insert({}, vector={VECTOR: [1.0] * 5})
        git.commit({"§": "def load(): pass\n", "§§": "§§§\n"})
        with own.client() as client:
            run = client.index(str(git.folder), name="app")
        assert (run.state, run.done, run.failed) == (RunState.COMPLETE, 1, 1)
        ledger = connect.ledger(own.settings())
        (status,) = ledger.refs("app")
        records = {record.path: record for record in ledger.all("app", status.ref)}
        assert {path: record.state for path, record in records.items()} == {
            "§": FileState.FAILED,
            "¶": FileState.INDEXED,
            "§§": FileState.INDEXED,
        }
        assert "app:§: the index has other dimensions" in records["§"].reason
        chunks, _ = own.index_of("app")
        assert len(chunks) == 2  # nothing of what the refused file was before
    finally:
        own.stop()


def weaviate_of(settings):
    return Address(
        settings["weaviate_url"],
        int(settings["weaviate_grpc_port"]),
        settings["weaviate_api_key"],
    )


@contextmanager
def refusing_shard(settings):
    """As when its disk is nearly full (`test_disks`: when it is full), Weaviate takes nothing."""
    with connect_weaviate(weaviate_of(settings)) as client:
        target = client.alias.get(alias_name=settings["weaviate_collection"]).collection
        config = client.collections.use(target).config
        shards = [shard.name for shard in config.get_shards()]
        config.update_shards(status="READONLY", shard_names=shards)
        try:
            yield
        finally:
            config.update_shards(status="READY", shard_names=shards)


@pytest.mark.parametrize("store", ["weaviate"], indirect=True)
def test_a_weaviate_that_takes_nothing_for_a_while_costs_nothing(
    tmp_path, store, cluster_at, library, undisturbed, wait_for
):
    settings = store()
    cluster = cluster_at(tmp_path / "data", log_level="debug", **settings)
    cluster.start()
    try:
        with cluster.client() as client:
            run = client.index(str(library.folder), name="library", wait=False)
            wait_for(lambda: under_way(client, run), "a tenth of the run")
            with refusing_shard(settings):
                wait_for(lambda: puts_off(cluster, "store"), "a write to be put off")
                assert not state_of(client, run).state.is_over
                assert client.search("task", skip_cache=True).hits
            *_, end = client.watch(run.id)
        assert (end.state, end.failed, end.done) == (RunState.COMPLETE, 0, end.total)
        assert_same(read(cluster, "library"), undisturbed)
    finally:
        cluster.stop()


def test_stopping_leaves_no_process_behind(own_cluster):
    pids = own_cluster.pids()
    assert len(pids) >= 7
    assert own_cluster.stop() == 0
    assert own_cluster.pids() == []
