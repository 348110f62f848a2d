"""The data folder of an embedded cluster: its lock, its address, its secrets, and its processes.

    run/up.lock      held by the `codelode up` that runs here; contains its process id
    run/up.json      the addresses of that cluster, while it is ready, and the password of its Redis
    run/other.json   the same for a cluster with another folder, so that clients find it here
    run/token        the secret that the gateway requires
    run/flower.conf  the configuration of Flower, with the login that Flower requires
    run/NAME.pid     the process id and start time of each child
    logs/NAME.log    the output of each child
    redis/password   the password that Redis requires

Only the user who runs the cluster can enter these folders. To replace a secret, delete its file
while the cluster is stopped.

A child is identified by a variable in its environment, or by process id and start time together, so
a process that reuses an id is never killed. Both need /proc. Without it (macOS), the user has to
end leftover processes of a killed cluster.
"""

from __future__ import annotations

import fcntl
import json
import os
import secrets
import signal
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict
from pathlib import Path

from codelode.cli import redis_server
from codelode.cluster import (
    Cluster,
    cluster_file,
    other_file,
    read_cluster,
    run_dir,
    token_file,
)
from codelode.environment import MARKER
from codelode.errors import Corrupt, InvalidSettings
from codelode.files import make_private, replace_text

#: Random bytes of a generated secret.
SECRET_BYTES = 32

#: Maximum wait until killed processes have vanished, seconds.
VANISH_S = 5.0

_PROC = Path("/proc")
_START_TIME_FIELD = 22 - 3  # of /proc/PID/stat, counted after the command's closing bracket
_STATE_FIELD = 0


def logs_dir(data: Path) -> Path:
    return data / "logs"


def require_own(data: Path) -> None:
    """Raise InvalidSettings if another user, who could replace the content, owns the folder.

    Such a user could also have made the folders in it before, to read the secrets. Root is trusted.
    """
    for folder in (data, run_dir(data), logs_dir(data), data / redis_server.FOLDER):
        if folder.exists() and folder.stat().st_uid not in (os.geteuid(), 0):
            raise InvalidSettings(
                f"the folder {folder} belongs to another user, who can replace what is in it; "
                "choose another data folder with --data, or become its owner with "
                f"`chown -R {os.geteuid()} {data}`"
            )


def writable_by_others(data: Path) -> str:
    """Return a warning if other users can write to the folder; empty if they cannot."""
    if not data.exists() or not data.stat().st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        return ""
    return (
        f"other users can write to the data folder {data}, and replace the folders in it by their "
        f"own; unless you trust them, stop the cluster and run `chmod 700 {data}`"
    )


@contextmanager
def locked(
    data: Path, *, remedy: str = "stop it, or choose another folder with --data"
) -> Iterator[None]:
    """Lock the data folder, creating it if necessary.

    The lock ends with the process, however that ends. `remedy`: what to do if another process
    holds the lock. Raises InvalidSettings with that process, or with the reason why the folder
    cannot be used.
    """
    try:
        # A folder that the user names may exist and have other uses, so it keeps its mode.
        data.mkdir(mode=0o700, parents=True, exist_ok=True)
        for folder in (run_dir(data), logs_dir(data)):
            make_private(folder)
        lock = (run_dir(data) / "up.lock").open("a+")
    except OSError as exc:
        raise InvalidSettings(f"cannot use the data folder {data}: {exc.strerror}") from exc
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as exc:
            lock.seek(0)
            raise InvalidSettings(
                f"`codelode up` runs on {data} already (process {lock.read().strip() or '?'}); "
                f"{remedy}"
            ) from exc
        lock.truncate(0)
        lock.write(str(os.getpid()))
        lock.flush()
        yield


def publish(cluster: Cluster, *, clients: Path | None = None) -> None:
    """Let other commands find the cluster.

    `clients`: the folder in which commands without --data look, if it is not the cluster's own.
    """
    text = json.dumps(asdict(cluster))
    replace_text(cluster_file(Path(cluster.data)), text)
    if clients is not None:
        make_private(run_dir(clients))
        replace_text(other_file(clients), text)


def withdraw(data: Path, *, clients: Path | None = None) -> None:
    """Remove the addresses of the cluster."""
    cluster_file(data).unlink(missing_ok=True)
    if clients is None:
        return
    other = read_cluster(other_file(clients))
    if other is not None and other.data == str(data):
        other_file(clients).unlink(missing_ok=True)


def keep_secrets(data: Path, *, token: str = "") -> None:
    """Write the token and the login of Flower: those given, else the kept ones, else new ones."""
    file = token_file(data)
    replace_text(file, token or _read(file) or secrets.token_urlsafe(SECRET_BYTES))
    login = flower_file(data)
    password = secrets.token_urlsafe(SECRET_BYTES)
    replace_text(login, _read(login) or f"basic_auth = ['codelode:{password}']")


def flower_file(data: Path) -> Path:
    return run_dir(data) / "flower.conf"


def _read(file: Path) -> str:
    return file.read_text().strip() if file.exists() else ""


def note_pid(data: Path, name: str, pid: int) -> None:
    replace_text(run_dir(data) / f"{name}.pid", f"{pid} {_start_time(pid)}\n")


def forget_pid(data: Path, name: str) -> None:
    (run_dir(data) / f"{name}.pid").unlink(missing_ok=True)


def members(data: Path) -> frozenset[int]:
    """Return the ids of live processes that a cluster of the folder started, with children."""
    return frozenset(_marked(data)) | frozenset(_noted(data))


def end_leftovers(data: Path) -> int:
    """Kill the processes that an earlier cluster of the folder left; return their number.

    Call it with the folder locked. Raises Corrupt if a process does not end.
    """
    ended = members(data)
    deadline = time.monotonic() + VANISH_S
    while left := members(data):
        if time.monotonic() > deadline:
            raise Corrupt(f"processes {sorted(left)} of an earlier cluster on {data} do not end")
        for pid in left:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.02)
    for path in run_dir(data).glob("*.pid"):
        path.unlink()
    withdraw(data)
    return len(ended)


def _marked(data: Path) -> Iterator[int]:
    marker = f"{MARKER}={data}".encode()
    for entry in _PROC.glob("[0-9]*"):
        with suppress(OSError):  # ended meanwhile, or owned by another user
            if marker in (entry / "environ").read_bytes().split(b"\0"):
                yield int(entry.name)


def _noted(data: Path) -> Iterator[int]:
    # Valkey overwrites its environment with its title, so only its pid file identifies it.
    for path in run_dir(data).glob("*.pid"):
        pid, _, started = path.read_text().strip().partition(" ")
        if pid.isdigit() and started and _start_time(int(pid)) == started:
            yield int(pid)


def _start_time(pid: int) -> str:
    """Return when the process started, in ticks since boot; empty if it has ended."""
    try:
        stat = (_PROC / str(pid) / "stat").read_text()
    except OSError:
        return ""
    fields = stat.rpartition(")")[2].split()
    return "" if fields[_STATE_FIELD] == "Z" else fields[_START_TIME_FIELD]
