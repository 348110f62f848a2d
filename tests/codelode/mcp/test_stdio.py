"""The shipped command over pipes: the protocol, its end, and gateways that come and go."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys

import pytest

from codelode.cli import data_folder
from codelode.cluster import Cluster
from tests.agents import Agent, Refused
from tests.guardian import GUARDIAN
from tests.waiting import wait_until

pytestmark = pytest.mark.slow

END_S = 60


class Pipes:
    """`codelode mcp` with pipes, to which a test writes what it likes."""

    def __init__(self, **environment):
        self.process = GUARDIAN.popen(
            [sys.executable, "-m", "codelode", "mcp"],
            env={**os.environ, **environment},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )

    def send(self, message):
        line = message if isinstance(message, bytes) else json.dumps(message).encode()
        self.process.stdin.write(line + b"\n")
        self.process.stdin.flush()

    def ask(self, method, number=1, **params):
        self.send({"jsonrpc": "2.0", "id": number, "method": method, "params": params})

    def tell(self, method, **params):
        self.send({"jsonrpc": "2.0", "method": method, "params": params})

    def read(self):
        """Return the next message."""
        return json.loads(self.process.stdout.readline())

    def begin(self, version="2025-06-18"):
        """Do the handshake, and return the server's description of itself."""
        client = {"name": "test", "version": "1"}
        self.ask("initialize", protocolVersion=version, capabilities={}, clientInfo=client)
        answer = self.read()
        self.tell("notifications/initialized")
        return answer["result"]


@pytest.fixture
def start(tmp_path, gateway):
    """Start the command with the canned gateway as its server."""
    started = []

    def begin(**environment):
        folder = {"CODELODE_DATA": str(tmp_path / "data")}
        started.append(Pipes(**folder, **(environment or {"CODELODE_SERVER": gateway.address})))
        return started[-1]

    yield begin
    for one in started:
        one.process.kill()
        one.process.communicate()


@pytest.mark.parametrize("version", ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"])
def test_every_published_version_of_the_handshake_is_spoken(start, version):
    pipes = start()

    assert pipes.begin(version)["protocolVersion"] == version

    pipes.ask("tools/call", 2, name="search", arguments={"query": "retry"})
    assert "src/retry.py:9-11" in pipes.read()["result"]["content"][0]["text"]


def test_the_process_ends_with_its_input_and_has_printed_nothing_but_the_protocol(start, gateway):
    gateway.hits[0].content = "print('\x1b[2J')\n"
    pipes = start()
    assert pipes.begin()["serverInfo"]["name"] == "codelode"
    pipes.ask("tools/list", 2)
    pipes.ask("tools/call", 3, name="search", arguments={"query": "retry"})

    answered = {pipes.read()["id"] for _ in range(2)}
    out, err = pipes.process.communicate(timeout=END_S)

    assert answered == {2, 3}
    assert (pipes.process.returncode, out, err) == (0, b"", b"")


def test_the_process_ends_with_its_input_while_a_call_is_at_work(start, gateway, make_run):
    gateway.watches = [[make_run("indexing"), 5.0]]
    pipes = start()
    pipes.begin()
    pipes.ask("tools/call", 2, name="index", arguments={"url": "https://x/y.git"})
    wait_until(lambda: len(gateway.requests) > 1, "the watch of the run")

    out, _ = pipes.process.communicate(timeout=END_S)

    assert pipes.process.returncode == 0
    assert b'"result"' not in out


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_the_process_at_once(start, number):
    pipes = start()
    pipes.begin()

    pipes.process.send_signal(number)

    assert pipes.process.wait(END_S) == -number


def test_a_call_that_is_cancelled_gets_no_answer_and_leaves_the_session_as_it_was(
    start, gateway, make_run
):
    gateway.watches = [[make_run("indexing"), 5.0, make_run("complete")]]
    pipes = start()
    pipes.begin()
    pipes.ask("tools/call", 2, name="index", arguments={"url": "https://x/y.git"})
    wait_until(lambda: len(gateway.requests) > 1, "the watch of the run")

    pipes.tell("notifications/cancelled", requestId=2)
    pipes.ask("tools/call", 3, name="search", arguments={"query": "retry"})

    answer = pipes.read()
    while answer["id"] != 3:  # the library may confirm that the call ended
        assert "error" in answer
        answer = pipes.read()
    assert not answer["result"]["isError"]


@pytest.mark.parametrize(
    ("line", "code"),
    [
        (b'{"jsonrpc": "2.0", "id": 2, "method": "tools/destroy"}', -32601),
        (
            b'{"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": "serch"}}',
            -32602,
        ),
        (b'{"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {}}', -32602),
    ],
    ids=["an unknown method", "an unknown tool", "no tool"],
)
def test_a_wrong_request_is_an_error_of_the_protocol(start, line, code):
    pipes = start()
    pipes.begin()

    pipes.send(line)

    assert pipes.read()["error"]["code"] == code


def test_a_line_that_is_not_a_message_does_not_end_the_session(start):
    pipes = start()
    pipes.begin()

    pipes.send(b"{broken")
    pipes.send(b"\xff\xfe")
    pipes.ask("ping", 7)

    answer = pipes.read()
    while answer.get("id") != 7:
        answer = pipes.read()
    assert "result" in answer


def test_an_agent_finds_a_cluster_that_starts_later_and_elsewhere(gateway, tmp_path, free_address):
    here = {
        "pid": os.getpid(),
        "flower": "",
        "redis": "redis://x",
        "data": str(tmp_path),
    }
    environment = {"CODELODE_DATA": str(tmp_path)}
    with Agent(environment) as agent, data_folder.locked(tmp_path):
        data_folder.publish(Cluster(grpc=free_address, **here))
        with pytest.raises(Refused, match=f"no gateway at {free_address}; start one with"):
            agent.call("search", query="retry")

        data_folder.publish(Cluster(grpc=gateway.address, **here))
        assert "src/retry.py:9-11" in agent.call("search", query="retry")


def test_a_wrong_address_is_one_line_and_status_two(tmp_path):
    ended = subprocess.run(
        [sys.executable, "-m", "codelode", "mcp", "--server", "nowhere"],
        env={**os.environ, "CODELODE_DATA": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
        timeout=END_S,
    )

    assert (ended.returncode, ended.stdout) == (2, "")
    assert "HOST:PORT" in ended.stderr
    assert ended.stderr.count("\n") == 1
