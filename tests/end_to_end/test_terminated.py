"""A test run that is terminated leaves no server behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from codelode.backends.redis.connection import ping
from codelode.errors import Unavailable

UNENDING = Path(__file__).with_name("unending.py")

#: The processes of a run: the cluster's command and its workers, Weaviate, Ollama, the guardian.
SERVERS = ("codelode up", "-m workers", "-m gateway", "weaviate-server", "ollama serve", "guardian")

#: With xdist, as in `make test`, the process that is killed has started none of them.
RUNS = [
    pytest.param(signal.SIGINT, (), id="interrupted"),
    pytest.param(signal.SIGTERM, (), id="terminated"),
    pytest.param(signal.SIGKILL, ("--numprocesses", "1"), id="killed"),
]


@pytest.fixture
def environment(tmp_path):
    """The environment of a test run that starts all servers itself; it marks the processes."""
    inherited = {k: v for k, v in os.environ.items() if not k.startswith(("CODELODE", "PYTEST"))}
    return {**inherited, "UNENDING": str(tmp_path / "running")}


@pytest.mark.parametrize(("number", "options"), RUNS)
def test_a_terminated_run_leaves_no_server_behind(
    program_of, environment, tmp_path, wait_for, number, options
):
    program_of("weaviate"), program_of("ollama")  # else this test would check nothing
    started, said = Path(environment["UNENDING"]), tmp_path / "said"
    command = [sys.executable, "-m", "pytest", UNENDING, *options, "--basetemp", tmp_path / "base"]
    with said.open("wb") as output:
        # A run in the background of a script ignores SIGINT, and its children would inherit that.
        run = subprocess.Popen(
            command,
            env=environment,
            stdout=output,
            stderr=output,
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        )
    try:
        wait_for(started.exists, "servers to run", give_up=lambda: ended(run, said), seconds=180)
        commands = [command_of(pid) for pid in processes(environment)]
        for server in SERVERS:
            assert any(server in one for one in commands), f"no {server} among {commands}"
        assert answers(started.read_text())

        run.send_signal(number)
        run.wait(60)

        wait_for(lambda: not processes(environment), "all of its processes to end")
        wait_for(lambda: not answers(started.read_text()), "Redis to end")
    finally:
        run.kill()
        run.wait()
        for pid in processes(environment):
            os.kill(pid, signal.SIGKILL)


def answers(redis_url):
    try:
        ping(redis_url)
    except Unavailable:
        return False
    return True


def ended(run, said):
    return "" if run.poll() is None else said.read_text()


def processes(environment):
    """Return the processes with the environment, except Redis, which overwrites it by its title."""
    mark = f"UNENDING={environment['UNENDING']}".encode()
    found = [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()]
    return [pid for pid in found if mark in read(pid, "environ").split(b"\0")]


def command_of(pid):
    return read(pid, "cmdline").replace(b"\0", b" ").decode()


def read(pid, name):
    try:
        return Path("/proc", str(pid), name).read_bytes()
    except OSError:
        return b""
