"""Three real nodes on loopback with every chunk on all of them: one may go."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import time
from contextlib import ExitStack
from pathlib import Path
from uuid import uuid4

import httpx
import pytest

from codelode.backends.weaviate import Address, Place, search
from codelode.errors import Unavailable
from codelode.model import FileChunks

DEPLOY = Path(__file__).parents[3] / "deploy"
NODES = 3


class Node:
    """One server of a cluster."""

    def __init__(self, program, folder, number, ports):
        self.name = f"node{number}"
        self.ports = ports[number]
        self._folder = folder / self.name
        self._command = [program, "--host", "127.0.0.1", "--scheme", "http"]
        self._command += ["--port", str(self.ports["http"])]
        raft = ",".join(f"node{other}:{at['raft']}" for other, at in enumerate(ports))
        settings = dict(
            line.split("=", 1)
            for line in (DEPLOY / "weaviate.env").read_text().splitlines()
            if line and not line.startswith("#")
        )
        self._environment = {
            **os.environ,
            **settings,
            "PERSISTENCE_DATA_PATH": str(self._folder),
            "AUTHENTICATION_ANONYMOUS_ACCESS_ENABLED": "true",
            "CLUSTER_IN_LOCALHOST": "true",
            "CLUSTER_HOSTNAME": self.name,
            "CLUSTER_ADVERTISE_ADDR": "127.0.0.1",
            "CLUSTER_BIND_ADDR": "127.0.0.1",
            "CLUSTER_GOSSIP_BIND_PORT": str(self.ports["gossip"]),
            "CLUSTER_DATA_BIND_PORT": str(self.ports["gossip"] + 1),
            "RAFT_PORT": str(self.ports["raft"]),
            "RAFT_INTERNAL_RPC_PORT": str(self.ports["raft"] + 1),
            "RAFT_JOIN": raft,
            "RAFT_BOOTSTRAP_EXPECT": str(NODES),
            "RAFT_TIMEOUTS_MULTIPLIER": "2",  # 1: a busy machine loses its leader
            "GRPC_PORT": str(self.ports["grpc"]),
            **({"CLUSTER_JOIN": f"127.0.0.1:{ports[0]['gossip']}"} if number else {}),
        }
        self._process = None

    @property
    def address(self):
        return Address(f"http://127.0.0.1:{self.ports['http']}", self.ports["grpc"])

    def start(self):
        self._folder.mkdir(parents=True, exist_ok=True)
        with (self._folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                self._command, env=self._environment, stdout=log, stderr=log
            )

    def is_ready(self):
        try:
            ready = httpx.get(f"{self.address.url}/v1/.well-known/ready", trust_env=False)
        except httpx.TransportError:
            return False
        return ready.status_code == 200

    def is_leader(self):
        """Of the three, by what it says itself."""
        said = httpx.get(f"{self.address.url}/v1/cluster/statistics", trust_env=False).json()
        mine = next(one for one in said["statistics"] if one["name"] == self.name)
        return mine.get("raft", {}).get("state") == "Leader"

    def end(self, number=signal.SIGKILL):
        self._process.send_signal(number)
        self._process.wait(30)


@pytest.fixture(scope="module")
def nodes(tmp_path_factory):
    found = subprocess.run(
        [DEPLOY / "services.sh", "binary", "weaviate"],
        env={
            **os.environ,
            "SERVICES_WAYS": "path cache",
            "SERVICES_STATE": str(tmp_path_factory.mktemp("state")),
        },
        capture_output=True,
        text=True,
        check=False,
    )
    if found.returncode:
        (pytest.fail if os.environ.get("CI") else pytest.skip)("no Weaviate: run `make services`")
    folder, ports = tmp_path_factory.mktemp("cluster"), free_ports()
    made = [Node(found.stdout.strip(), folder, number, ports) for number in range(NODES)]
    with ExitStack() as running:
        for node in made:
            node.start()
            running.callback(node.end)
        wait_until(lambda: all(node.is_ready() for node in made))
        yield made


@pytest.mark.timeout(240)
async def test_with_one_of_three_nodes_down_writes_and_reads_go_on(
    nodes, open_weaviate, chunk_of, file_of, monkeypatch
):
    """It is the leader, for which the others have to elect another one."""
    monkeypatch.setattr(search, "FOLLOW_S", 0.0)
    gone = next(node for node in nodes if node.is_leader())
    stays = next(node for node in nodes if node is not gone)
    place = Place(alias=f"Test{uuid4().hex[:8]}", replicas=NODES)
    there, here = (open_weaviate(node.address, place) for node in (gone, stays))
    here.store.replace([file_of(chunk_of("before.py")), file_of(chunk_of("leaves.py"))])
    assert paths(await here.found()) == ["before.py", "leaves.py"]
    assert paths(await there.found()) == ["before.py", "leaves.py"]

    gone.end()
    assert paths(await here.found()) == ["before.py", "leaves.py"]
    left = file_of(chunk_of("leaves.py"))
    insist(lambda: here.store.replace([file_of(chunk_of("during.py"))]))
    here.store.remove_repository("acme/none")
    here.store.replace([FileChunks(left.repository, left.path, left.refs)])
    assert paths(await here.found()) == ["before.py", "during.py"]

    gone.start()
    wait_until(gone.is_ready)
    again = open_weaviate(gone.address, place)
    deadline = time.monotonic() + 120  # replicas compare themselves every 30 s
    while paths(await again.found()) != ["before.py", "during.py"]:
        assert time.monotonic() < deadline
    assert again.ids() == here.ids()


def insist(write, *, timeout_s=120.0):
    """Do as a worker does while the store is away."""
    deadline = time.monotonic() + timeout_s
    while True:
        try:
            return write()
        except Unavailable:
            assert time.monotonic() < deadline


def paths(hits):
    return sorted(hit.chunk.path for hit in hits)


def free_ports():
    """Ports for each node; it wants those after `gossip` and `raft` as well."""
    names = ("http", "grpc", "raft", "gossip")
    with ExitStack() as held:
        return [{name: _free_pair(held) for name in names} for _ in range(NODES)]


def _free_pair(held):
    while True:
        one = held.enter_context(socket.socket())
        one.bind(("127.0.0.1", 0))
        port = one.getsockname()[1]
        with socket.socket() as other:
            try:
                other.bind(("127.0.0.1", port + 1))
            except OSError:
                continue
        return port


def wait_until(is_so, *, timeout_s=120.0):
    deadline = time.monotonic() + timeout_s
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.1)
