"""Three real Weaviate nodes on loopback, each of which a test may stop.

Each request needs a key, because gRPC and the port on which nodes exchange data listen on all
interfaces (`deploy/services.sh`).
"""

from __future__ import annotations

import os
import secrets
import signal
import socket
from contextlib import ExitStack
from pathlib import Path

import httpx
import pytest

from tests.guardian import GUARDIAN
from tests.waiting import wait_until

DEPLOY = Path(__file__).parents[1] / "deploy"
NODES = 3
READY_S = 120.0


class Node:
    """One server of a cluster."""

    def __init__(self, program, folder, number, *, ports, key):
        self.name = f"node{number}"
        self._ports, self._key = ports[number], key
        self._folder = folder / self.name
        self._command = [program, "--host", "127.0.0.1", "--scheme", "http"]
        self._command += ["--port", str(self._ports["http"])]
        raft = ",".join(f"node{other}:{at['raft']}" for other, at in enumerate(ports))
        self._environment = {
            **os.environ,
            **_settings(),
            "PERSISTENCE_DATA_PATH": str(self._folder),
            "AUTHENTICATION_ANONYMOUS_ACCESS_ENABLED": "false",
            "AUTHENTICATION_APIKEY_ENABLED": "true",
            "AUTHENTICATION_APIKEY_ALLOWED_KEYS": key,
            "AUTHENTICATION_APIKEY_USERS": "codelode",
            "CLUSTER_BASIC_AUTH_USERNAME": "codelode",
            "CLUSTER_BASIC_AUTH_PASSWORD": key,
            "CLUSTER_IN_LOCALHOST": "true",
            "CLUSTER_HOSTNAME": self.name,
            "CLUSTER_ADVERTISE_ADDR": "127.0.0.1",
            "CLUSTER_BIND_ADDR": "127.0.0.1",
            "CLUSTER_GOSSIP_BIND_PORT": str(self._ports["gossip"]),
            "CLUSTER_DATA_BIND_PORT": str(self._ports["gossip"] + 1),
            "RAFT_PORT": str(self._ports["raft"]),
            "RAFT_INTERNAL_RPC_PORT": str(self._ports["raft"] + 1),
            "RAFT_JOIN": raft,
            "RAFT_BOOTSTRAP_EXPECT": str(NODES),
            "RAFT_TIMEOUTS_MULTIPLIER": "2",  # with 1, a busy machine loses the leader
            # Interval between two comparisons of the replicas, and the age from which a missing
            # object is copied to a replica; 30 s each by default.
            "ASYNC_REPLICATION_FREQUENCY": "1s",
            "ASYNC_REPLICATION_PROPAGATION_DELAY": "1s",
            "GRPC_PORT": str(self._ports["grpc"]),
            **({"CLUSTER_JOIN": f"127.0.0.1:{ports[0]['gossip']}"} if number else {}),
        }
        self._process = None

    @property
    def address(self):
        from codelode.backends.weaviate import Address

        return Address(self._url(), self._ports["grpc"], self._key)

    @property
    def data_url(self):
        """The URL at which the other nodes read and write."""
        return f"http://127.0.0.1:{self._ports['gossip'] + 1}"

    def start(self):
        self._folder.mkdir(parents=True, exist_ok=True)
        with (self._folder / "log").open("ab") as log:
            self._process = GUARDIAN.popen(
                self._command, env=self._environment, stdout=log, stderr=log
            )

    def wait_ready(self):
        wait_until(self._is_ready, f"{self._folder} to be ready", seconds=READY_S)

    def is_leader(self):
        """Return whether this node reports that it is the leader."""
        reported = self._get("/v1/cluster/statistics").json()
        mine = next(one for one in reported["statistics"] if one["name"] == self.name)
        return mine.get("raft", {}).get("state") == "Leader"

    def end(self, number=signal.SIGKILL):
        self._process.send_signal(number)
        self._process.wait(30)

    def _is_ready(self):
        try:
            return self._get("/v1/.well-known/ready").status_code == 200
        except httpx.TransportError:
            return False

    def _url(self):
        return f"http://127.0.0.1:{self._ports['http']}"

    def _get(self, path):
        headers = {"Authorization": f"Bearer {self._key}"}
        return httpx.get(self._url() + path, headers=headers, trust_env=False)


@pytest.fixture
def weaviate_nodes(tmp_path_factory, program_of):
    """The nodes, all of them ready. Without Weaviate, tests are skipped; in CI they fail."""
    program = program_of("weaviate")
    folder, ports = tmp_path_factory.mktemp("nodes"), _free_ports()
    key = secrets.token_hex(24)
    nodes = [Node(program, folder, number, ports=ports, key=key) for number in range(NODES)]
    with ExitStack() as running:
        for node in nodes:
            node.start()
            running.callback(node.end)
        for node in nodes:
            node.wait_ready()
        yield nodes


def _settings():
    """Return the settings that all our Weaviate servers have."""
    lines = (DEPLOY / "weaviate.env").read_text().splitlines()
    return dict(line.split("=", 1) for line in lines if line and not line.startswith("#"))


def _free_ports():
    """Return the ports of each node, which also uses the ports after `gossip` and `raft`."""
    names = ("http", "grpc", "raft", "gossip")
    with ExitStack() as held:
        return [{name: _free_pair(held) for name in names} for _ in range(NODES)]


def _free_pair(held):
    while True:
        one = held.enter_context(socket.socket())
        one.bind(("127.0.0.1", 0))
        port = one.getsockname()[1]
        other = held.enter_context(socket.socket())
        try:
            other.bind(("127.0.0.1", port + 1))
        except (OSError, OverflowError):
            continue
        return port
