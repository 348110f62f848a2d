"""The data folder of an embedded cluster: who runs on it, where it listens, what it left behind.

    run/up.lock    held by the `codelode up` that runs here; its process id is inside
    run/up.json    where that cluster listens, while it is ready
    run/NAME.pid   each child's process id and start time
    logs/NAME.log  each child's output

A child is recognised by a variable in its environment or by its id and start time together, so a
process that merely got a recycled id is never ended. Both need /proc: where there is none (macOS)
leftovers of a killed cluster have to be ended by hand.
"""

from __future__ import annotations

import fcntl
import json
import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from codelode.errors import Corrupt, InvalidSettings

#: Set in every child of a cluster, and inherited by theirs; its value is the data folder.
MARKER = "CODELODE_CLUSTER"

#: How long ended processes may take to vanish.
VANISH_S = 5.0

_PROC = Path("/proc")
_START_TIME_FIELD = 22 - 3  # of /proc/PID/stat, counted after the command's closing bracket
_STATE_FIELD = 0


@dataclass(frozen=True, slots=True)
class Cluster:
    """The addresses of a running cluster."""

    pid: int  # of `codelode up`
    grpc: str  # HOST:PORT
    flower: str  # URL
    redis: str  # URL
    data: str


def run_dir(data: Path) -> Path:
    return data / "run"


def logs_dir(data: Path) -> Path:
    return data / "logs"


@contextmanager
def locked(data: Path) -> Iterator[None]:
    """Hold the data folder, made when it is missing.

    The lock goes with the process, however it ends. Raises InvalidSettings naming the process
    that holds it, or why the folder cannot be used.
    """
    try:
        for folder in (data, run_dir(data), logs_dir(data)):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
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
                "stop it, or choose another folder with --data"
            ) from exc
        lock.truncate(0)
        lock.write(str(os.getpid()))
        lock.flush()
        yield


def publish(cluster: Cluster) -> None:
    """Let other commands find the cluster."""
    path = _cluster_file(Path(cluster.data))
    draft = path.with_suffix(".tmp")
    draft.write_text(json.dumps(asdict(cluster)))
    draft.replace(path)


def withdraw(data: Path) -> None:
    """The cluster of the folder can no longer be reached."""
    _cluster_file(data).unlink(missing_ok=True)


def running_cluster(data: Path) -> Cluster | None:
    """The cluster that runs on the folder and is ready, if there is one."""
    try:
        cluster = Cluster(**json.loads(_cluster_file(data).read_text()))
        os.kill(cluster.pid, 0)
    except (OSError, ValueError, TypeError):  # none, half a file, of another version, or dead
        return None
    return cluster


def note_pid(data: Path, name: str, pid: int) -> None:
    (run_dir(data) / f"{name}.pid").write_text(f"{pid} {_start_time(pid)}\n")


def forget_pid(data: Path, name: str) -> None:
    (run_dir(data) / f"{name}.pid").unlink(missing_ok=True)


def members(data: Path) -> frozenset[int]:
    """The live processes that a cluster of the folder started, their children included."""
    return frozenset(_marked(data)) | frozenset(_noted(data))


def end_leftovers(data: Path) -> int:
    """Kill what an earlier cluster of the folder left; how many processes that were.

    Call it with the folder locked. Raises Corrupt when one does not go.
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


def _cluster_file(data: Path) -> Path:
    return run_dir(data) / "up.json"


def _marked(data: Path) -> Iterator[int]:
    marker = f"{MARKER}={data}".encode()
    for entry in _PROC.glob("[0-9]*"):
        with suppress(OSError):  # gone meanwhile, or of another user
            if marker in (entry / "environ").read_bytes().split(b"\0"):
                yield int(entry.name)


def _noted(data: Path) -> Iterator[int]:
    # Valkey writes its title over its environment, so its note is all there is to know it by.
    for path in run_dir(data).glob("*.pid"):
        pid, _, started = path.read_text().strip().partition(" ")
        if pid.isdigit() and started and _start_time(int(pid)) == started:
            yield int(pid)


def _start_time(pid: int) -> str:
    """Return the start time of a process, in ticks since boot; empty if it has ended."""
    try:
        stat = (_PROC / str(pid) / "stat").read_text()
    except OSError:
        return ""
    fields = stat.rpartition(")")[2].split()
    return "" if fields[_STATE_FIELD] == "Z" else fields[_START_TIME_FIELD]
