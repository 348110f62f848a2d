"""What many tests need: one real Redis-protocol server per test process."""

from __future__ import annotations

import socket
import subprocess

import pytest
from hypothesis import settings

# How long an example takes depends on what else the machine does; time is measured in tests/bench.
settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")


@pytest.fixture(scope="session")
def redis_url(tmp_path_factory):
    """The address of a server that is started for this test process and stopped after it."""
    from codelode.cli import redis_server

    folder = tmp_path_factory.mktemp("redis")
    port = _free_port()
    command = redis_server.command(folder, port, binary=redis_server.locate())
    with (folder / "log").open("wb") as log, subprocess.Popen(command, stdout=log) as server:
        try:
            redis_server.wait_ready(redis_server.url(port), is_alive=lambda: server.poll() is None)
            yield redis_server.url(port)
        finally:
            server.terminate()


@pytest.fixture
def redis(redis_url):
    """A client of an empty server. Tests that open more clients do so on `redis_url`."""
    from codelode.backends.redis.connection import connect

    with connect(redis_url) as client:
        client.flushall()
        yield client


def _free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]
