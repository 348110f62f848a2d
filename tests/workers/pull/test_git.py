import base64
import os
import re
import signal
import subprocess
import sys
import threading
import time
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from codelode.errors import Denied, InvalidSettings, NotFound, TimedOut, Unavailable
from codelode.git_access import Header
from codelode.model import Repository, RepositoryName
from tests import git_http
from tests.waiting import wait_until
from workers.pull import git
from workers.pull.mirror import Mirrors

NAME = RepositoryName("owner/repo")


#: The credentials of the user READER with the password TOKEN.
READERS = f"Basic {base64.b64encode(b'READER:TOKEN').decode()}"


class _Host(BaseHTTPRequestHandler):
    """A git host: real repositories by `git http-backend`, and paths that only fail."""

    root: Path
    stop: threading.Event

    def do_GET(self):
        self._answer(b"")

    def do_POST(self):
        self._answer(git_http.body(self))

    def _answer(self, body):
        path = self.path.partition("?")[0]
        kind = path.split("/")[1]
        if kind == "stalls":
            self.stop.wait(60)
        elif kind.isdigit():
            self._refuse(int(kind), path)
        elif kind == "private" and self.headers.get("Authorization") != READERS:
            self._refuse(401, path)
        elif kind == "breaks" and b"command=fetch" in body:
            self._refuse(500, path)
        else:
            self.path = re.sub("^/(private|breaks)/", "/", self.path)
            git_http.answer(self, self.root, body)

    def _refuse(self, status, path):
        self.send_response(status)
        if status == 401:
            self.send_header("WWW-Authenticate", 'Basic realm="x"')
        if status == 301:
            self.send_header("Location", f"/real/{path}")
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *arguments):
        pass


@pytest.fixture
def host(tmp_path):
    stop = threading.Event()
    handler = type("Host", (_Host,), {"root": tmp_path / "sources", "stop": stop})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    stop.set()
    server.shutdown()
    thread.join()
    server.server_close()


def test_a_repository_on_a_host_is_cloned_and_followed(host, mirrors, source):
    repository = Repository(NAME, f"{host}/source")
    first = source.commit({"a.py": "a"})
    lines = []
    mirrors.sync(repository, on_progress=lines.append)
    assert mirrors.resolve(NAME) == ("main", first)
    assert "Receiving objects 100%" in lines
    second = source.commit({"b.py": "b"})
    mirrors.sync(repository)
    assert mirrors.resolve(NAME) == ("main", second)


@pytest.mark.parametrize(
    ("path", "error", "words"),
    [
        ("404/x", NotFound, "not found"),
        ("missing", NotFound, "not found"),
        ("401/x", Denied, "credential helper"),
        ("403/x", Denied, "403"),
        ("301/x", NotFound, "moved"),
        ("500/x", Unavailable, "500"),
        ("503/x", Unavailable, "503"),
        ("429/x", Unavailable, "429"),
    ],
)
def test_the_answer_of_a_host_says_whether_a_retry_may_help(host, mirrors, path, error, words):
    with pytest.raises(error, match=words) as raised:
        mirrors.sync(Repository(NAME, f"{host}/{path}"))
    assert type(raised.value) is error
    assert "owner/repo" not in str(raised.value)  # the report of the run already names it


def test_a_private_repository_is_cloned_with_the_token_of_the_home_folder(
    host, mirrors, source, home
):
    """Set the token up as docs/operations.md says; the folder may be read-only."""
    source.commit({"a.py": "a"})
    private = Repository(NAME, f"{host}/private/source")
    with pytest.raises(Denied):
        mirrors.sync(private)
    (home / ".gitconfig").write_text(
        f'[http "{host}/"]\n\textraHeader = Authorization: {READERS}\n'
    )
    mirrors.sync(private)
    assert mirrors.resolve(NAME)[0] == "main"


def test_a_private_repository_is_cloned_with_the_header_of_its_connection(
    host, mirrors, source, home
):
    """It replaces what the configuration of the user has for the same host."""
    source.commit({"a.py": "a"})
    private = Repository(NAME, f"{host}/private/source")
    (home / ".gitconfig").write_text(f'[http "{host}/"]\n\textraHeader = Authorization: Basic x\n')
    header = f"Authorization: {READERS}"

    replace(mirrors, credentials=lambda *_: Header(f"{host}/", header)).sync(private)
    assert mirrors.resolve(NAME)[0] == "main"
    with pytest.raises(Denied):  # the header is of another address
        replace(mirrors, credentials=lambda *_: Header(f"{host}0/", header)).sync(private)
    assert READERS not in repr(Header(host, header))


def test_a_clone_that_fails_leaves_no_mirror(host, mirrors, source):
    source.commit({"a.py": "a"})
    with pytest.raises(Unavailable):
        mirrors.sync(Repository(NAME, f"{host}/breaks/source"))
    assert not mirrors.git_dir(NAME).exists()


def test_a_host_that_does_not_answer_is_unavailable(mirrors):
    with pytest.raises(Unavailable):
        mirrors.sync(Repository(NAME, "http://127.0.0.1:1/x"))


def test_a_host_that_stalls_is_given_up_with_all_that_git_started(host, tmp_path):
    with pytest.raises(TimedOut, match=r"0\.5 seconds"):
        Mirrors(tmp_path / "mirrors", timeout_s=0.5).sync(Repository(NAME, f"{host}/stalls"))
    assert _children(host) == []


def _children(host):
    """Return the processes that connect to the host, by command."""
    command = ["ps", "-eww", "-o", "pid=,args="]
    listed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return [line for line in listed.splitlines() if f"{host}/stalls" in line]


def test_a_process_tree_that_ignores_the_polite_signal_is_killed(tmp_path, monkeypatch):
    monkeypatch.setattr(git, "_GRACE_S", 0.2)
    stubborn = tmp_path / "git"
    stubborn.write_text(f"#!/bin/sh\ntrap '' TERM\nsleep 50 &\necho $! > {tmp_path}/pid\nwait\n")
    stubborn.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    with pytest.raises(TimedOut):
        git.run("fetch", timeout_s=0.5)
    pid = int((tmp_path / "pid").read_text())
    deadline = time.monotonic() + 10
    while _is_alive(pid):
        assert time.monotonic() < deadline
        time.sleep(0.01)


def _is_alive(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.mark.parametrize(
    ("lines", "error", "reason"),
    [
        (["fatal: repository 'https://h/x/' not found"], NotFound, "not found"),
        (["remote: Not Found", "fatal: repository 'https://h/x/' not found"], NotFound, "https://h"),
        (
            ["ERROR: Repository not found.", "fatal: Could not read from remote repository."],
            NotFound,
            "^Repository not found",
        ),
        (
            ["git@h: Permission denied (publickey).", "fatal: Could not read from remote."],
            Denied,
            "Could not read",
        ),
        (["fatal: Authentication failed for 'https://h/x'"], Denied, "Authentication failed"),
        (["Host key verification failed.", "fatal: Could not read"], Denied, "known_hosts"),
        (["fatal: unable to access 'https://h/': Could not resolve host: h"], Unavailable, "host"),
        (["ssh: connect to host h port 22: Connection refused"], Unavailable, "refused"),
        (["fatal: early EOF", "fatal: index-pack failed"], Unavailable, "index-pack"),
        (["error: object 1: odd", "fatal: index-pack failed"], Unavailable, "object 1"),
        (
            ["error: Unable to find 0b5888 under http://h/a", "x", "error: fetch failed."],
            Unavailable,
            "Unable to find 0b5888",
        ),
        ([], Unavailable, "status 128"),
    ],
)  # fmt: skip
def test_the_last_informative_line_of_git_is_the_reason(
    lines, error, reason, tmp_path, monkeypatch
):
    _fake_git(tmp_path, monkeypatch, "".join(f"echo {line!r} >&2\n" for line in lines) + "exit 128")
    with pytest.raises(error, match=reason) as raised:
        git.run("fetch")
    assert type(raised.value) is error


def test_no_message_holds_credentials(tmp_path, monkeypatch):
    script = "echo \"fatal: unable to access 'https://me:hunter2@h/x/': nope\" >&2; exit 128"
    _fake_git(tmp_path, monkeypatch, script)
    with pytest.raises(Unavailable, match="https://h/x/") as raised:
        git.run("fetch")
    assert "hunter2" not in str(raised.value)


def _fake_git(tmp_path, monkeypatch, script):
    fake = tmp_path / "git"
    fake.write_text(f"#!/bin/sh\n{script}\n")
    fake.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")


def test_without_git_the_remedy_is_named(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(InvalidSettings, match="install git"):
        git.run("version")


def test_much_output_on_both_sides_does_not_block(tmp_path, monkeypatch):
    _fake_git(
        tmp_path, monkeypatch, "cat >/dev/null; head -c 3000000 /dev/zero; seq 200000 >&2; exit 0"
    )
    assert len(git.run("x", stdin=b"y" * 1_000_000)) == 3_000_000


def test_an_operator_s_own_configuration_stays_in_force(home):
    (home / ".gitconfig").write_text("[http]\n\tproxy = http://proxy.example\n[gc]\n\tauto = 7\n")
    assert git.run("config", "http.proxy") == b"http://proxy.example\n"
    assert git.run("config", "gc.auto") == b"0\n"


ORPHAN = """
import os, sys
from workers.pull import git
held, os.environ["PATH"] = int(sys.argv[1]), sys.argv[2]
git.run("x", hold=(held,), on_line=lambda line: os.kill(os.getpid(), 9))
"""


def test_the_lock_outlives_a_killed_worker_as_long_as_its_git(tmp_path, monkeypatch):
    import fcntl

    usual, pid = os.environ["PATH"], tmp_path / "pid"
    _fake_git(tmp_path, monkeypatch, f"echo $$ > {pid}; echo started >&2; exec sleep 300")
    faked = os.environ["PATH"]
    monkeypatch.setenv("PATH", usual)
    with (tmp_path / "lock").open("w") as held, (tmp_path / "lock").open("w") as wanted:
        fcntl.flock(held, fcntl.LOCK_EX)
        command = [sys.executable, "-c", ORPHAN, str(held.fileno()), faked]
        worker = subprocess.run(command, pass_fds=[held.fileno()], check=False)
        assert worker.returncode == -9
        held.close()
        fcntl.flock(wanted, fcntl.LOCK_EX)
        # A process that ends closes its files a moment before it is gone.
        wait_until(lambda: not _is_alive(int(pid.read_text())), "git to end", seconds=5)


WORKER = """
import sys
from workers.pull import git
with open(sys.argv[1], "w") as lock:
    git.run("ls-remote", sys.argv[2], variables=git.environment(protocols="http"),
            hold=(lock.fileno(),))
"""


def test_git_ends_with_its_worker_and_so_does_the_transport_that_it_started(
    host, tmp_path, wait_for
):
    command = [sys.executable, "-c", WORKER, str(tmp_path / "lock"), f"{host}/stalls"]
    with subprocess.Popen(command) as worker:
        wait_for(lambda: _transports(host), "git to ask the host")
        worker.kill()
    wait_for(lambda: not _transports(host), "git to end", seconds=20)
    wait_for(lambda: not _children(host), "all that git started to end", seconds=20)


def _transports(host):
    return [line for line in _children(host) if "remote-http" in line]


def test_the_watcher_of_a_git_process_ends_with_it(tmp_path, monkeypatch, wait_for):
    """Checks that what git leaves on purpose, such as a cache of credentials, stays."""
    left = tmp_path / "left"
    _fake_git(tmp_path, monkeypatch, f"sleep 300 >/dev/null 2>&1 & echo $! $$ > {left}; echo ran")
    with (tmp_path / "lock").open("w") as lock:
        assert git.run("x", hold=(lock.fileno(),)) == b"ran\n"
    daemon, group = map(int, left.read_text().split())
    try:
        wait_for(lambda: _group(group) == [daemon], "the watcher to end")
    finally:
        os.kill(daemon, signal.SIGKILL)


def _group(leader):
    """Return the live processes of a group."""
    command = ["ps", "-e", "-o", "pid=,pgid=,stat="]
    listed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    rows = map(str.split, listed.splitlines())
    return [int(pid) for pid, group, state in rows if int(group) == leader and state[0] != "Z"]
