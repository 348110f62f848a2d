"""Another user of the machine can read nothing of a cluster, its data folder, or a backup."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from codelode.cli import redis_server
from tests.codelode.cli.test_cluster import Up

NOBODY = 65534

pytestmark = [
    pytest.mark.server,
    pytest.mark.skipif(os.geteuid() != 0, reason="only root can run a program as another user"),
]

#: Does something as another user. It is tried out before, without the data folder, so that Python
#: has imported what it needs: another user may not be able to read where Python is installed.
AS_ANOTHER = f"""
import contextlib, io, os, sys

data = os.environ.pop("CODELODE_DATA")
os.environ["CODELODE_DATA"] = os.devnull
unseen = io.StringIO()
with contextlib.redirect_stdout(unseen), contextlib.redirect_stderr(unseen):
    attempt()
os.environ["CODELODE_DATA"] = data
os.setgroups([])
os.setgid({NOBODY})
os.setuid({NOBODY})
sys.exit(attempt())
"""

COMMAND_LINE = """
from codelode.cli import main

def attempt():
    try:
        main(sys.argv[1:])
    except SystemExit as end:
        return end.code
"""

#: Calls every method of the gateway, and starts runs; prints each distinct answer once.
CALL_EVERYTHING = """
import grpc
from codelode.v1 import access_pb2, graph_pb2, index_pb2, search_pb2

def attempt():
    calls = [
        (f"/{service.full_name}/{method.name}", method.server_streaming, b"")
        for file in (access_pb2, graph_pb2, index_pb2, search_pb2)
        for service in file.DESCRIPTOR.services_by_name.values()
        for method in service.methods
    ]
    for path in sys.argv[2:]:
        request = index_pb2.StartRunRequest(url=path).SerializeToString()
        calls.append(("/codelode.v1.IndexService/StartRun", False, request))
    with grpc.insecure_channel(sys.argv[1]) as channel:
        print(len(calls), *{answer(channel, *call) for call in calls}, sep="\\n")

def answer(channel, name, is_stream, request):
    open_ = channel.unary_stream if is_stream else channel.unary_unary
    try:
        given = open_(name)(request, timeout=60)
        return f"OK {list(given)}"
    except grpc.RpcError as exc:
        return f"{exc.code().name} {exc.details()}"
"""

#: Prints every file that can be read, and every folder below the first ones that can be listed.
READ_EVERYTHING = """
def attempt():
    for top in sys.argv[1:]:
        for folder, _, files in os.walk(top):
            found = [os.path.join(folder, name) for name in files]
            print(*filter(readable, found), *([folder] if folder != top else []))

def readable(path):
    try:
        with open(path, "rb"):
            return True
    except OSError:
        return False
"""

CONNECT = """
import socket

def attempt():
    with socket.socket(socket.AF_UNIX) as client:
        try:
            client.connect(sys.argv[1])
        except OSError as exc:
            print(exc.strerror)
"""


class Neighbour:
    """Another user, who knows everything but has no rights."""

    def __init__(self, data: Path) -> None:
        self._data = data

    def does(self, attempt: str, *args: object) -> subprocess.CompletedProcess[str]:
        script = f"import os, sys\n{attempt}\n{AS_ANOTHER}"
        return subprocess.run(
            [sys.executable, "-P", "-c", script, *map(str, args)],
            cwd="/",
            env={"CODELODE_DATA": str(self._data)},
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )

    def codelode(self, *args: object) -> tuple[int, str, str]:
        done = self.does(COMMAND_LINE, *args)
        return done.returncode, done.stdout, done.stderr


@pytest.fixture(scope="module")
def place():
    """A folder that others can read, unlike those of pytest."""
    made = Path(tempfile.mkdtemp(prefix="codelode-open-"))
    made.chmod(0o755)
    yield made
    shutil.rmtree(made)


@pytest.fixture(scope="module")
def repository(place):
    path = place / "private"
    path.mkdir(mode=0o700)
    (path / "greet.py").write_text("def greet_everybody(names):\n    return list(names)\n")
    identity = ("-c", "user.name=a", "-c", "user.email=a@example.com")
    for command in (("init", "-q"), ("add", "."), (*identity, "commit", "-qm", "first")):
        subprocess.run(["git", "-C", path, *command], check=True)
    return path


@pytest.fixture(scope="module")
def up(place, repository):
    """A cluster in a folder that was open before; it has indexed the repository."""
    data = place / "data"
    data.mkdir()
    data.chmod(0o755)
    for name in ("index", "mirrors", "run", "logs", "redis", "derivations"):
        (data / name).mkdir()
        (data / name).chmod(0o755)
    running = Up(data)
    try:
        answer = running.codelode("index", str(repository), "--wait")
        assert answer.returncode == 0, answer.stderr
        yield running
    finally:
        assert running.stop(signal.SIGTERM) == 0


@pytest.fixture
def neighbour(up):
    return Neighbour(up.data)


@pytest.mark.parametrize(
    "command",
    [
        ["search", "greet_everybody"],
        ["context", "greet_everybody"],
        ["similar", "greet.py:1", "--repo", "private"],
        ["explain", "greet.py"],
        ["graph", "greet.py"],
        ["repos"],
        ["status"],
        ["failures"],
        ["remove", "private", "--yes"],
        ["index", "/etc"],
    ],
    ids=lambda command: command[0],
)
def test_the_command_line_of_another_user_gets_nothing(up, neighbour, command):
    status, out, err = neighbour.codelode(*command, "--server", up.cluster.grpc)

    assert (status, out) == (2, "")
    assert err.startswith("codelode: this gateway requires a token")
    assert err.count("\n") == 1


def test_another_user_cannot_find_the_cluster_through_its_data_folder(up, neighbour):
    status, out, err = neighbour.codelode("status")

    assert (status, out) == (2, "")
    assert up.cluster.grpc not in err


def test_every_call_of_another_user_is_unauthenticated_whether_or_not_a_path_exists(
    up, neighbour, repository, place
):
    paths = [repository, place / "missing", place, "https://example.org/a/b"]

    done = neighbour.does(CALL_EVERYTHING, up.cluster.grpc, *paths)

    assert done.returncode == 0, done.stderr
    calls, answer = done.stdout.splitlines()
    assert int(calls) > len(paths) + 10
    assert answer.startswith("UNAUTHENTICATED this gateway requires a token")
    assert str(place) not in answer


def test_redis_lets_another_user_not_even_connect(up, neighbour):
    socket = up.data / redis_server.FOLDER / redis_server.SOCKET
    assert socket.is_socket()

    assert neighbour.does(CONNECT, socket).stdout == "Permission denied\n"


def test_another_user_reads_nothing_of_the_data_folder_and_of_a_backup(up, neighbour, place):
    saved = place / "saved"
    saved.mkdir()
    saved.chmod(0o755)
    backup = up.codelode("backup", "--mirrors", str(saved), server=False)
    assert backup.returncode == 0, backup.stderr
    assert {path.name for path in saved.iterdir()} == {
        *("backup.json", "redis.dump", "index", "mirrors")
    }

    read = neighbour.does(READ_EVERYTHING, up.data, saved)

    assert read.returncode == 0, read.stderr
    assert read.stdout.split() == []
