"""Mirrors on disk: their folder names, and the lock that protects each of them.

A mirror is a bare clone of a repository in the data folder. A process that changes a mirror holds
its lock, a file next to it. The lock file is removed with the mirror, so a process that has waited
for the lock must check that its file is still the one at the path.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from codelode.errors import Busy
from codelode.files import make_private
from codelode.model import RepositoryName

_LOCK_POLL_S = 0.05


def folder_name(name: RepositoryName) -> str:
    """Return a readable and unique folder name: `acme/app` → `acme-app-5c8e52f8a1.git`."""
    slug = re.sub(r"[^A-Za-z0-9._-]+", "-", name).lstrip(".")[:60]
    return f"{slug}-{hashlib.sha256(name.encode()).hexdigest()[:10]}.git"


@contextmanager
def locked(mirror: Path, *, timeout_s: float) -> Iterator[int]:
    """Hold the lock of a mirror; yield its descriptor, through which a child can hold it too.

    Raises Busy if another process holds the lock for longer than `timeout_s`.
    """
    make_private(mirror.parent)
    path = mirror.with_suffix(".lock")
    lock = _taken(path, timeout_s)
    try:
        yield lock
        # Not after an error: a git process that outlived it may still hold the lock and be running.
        if not mirror.exists():
            path.unlink(missing_ok=True)
    finally:
        os.close(lock)


def _taken(path: Path, timeout_s: float) -> int:
    """Lock the file at the path and return its descriptor."""
    deadline = time.monotonic() + timeout_s
    while True:
        lock = os.open(path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
        try:
            _await(lock, deadline, timeout_s)
            if _is_at(path, lock):
                return lock
        except BaseException:
            os.close(lock)
            raise
        os.close(lock)


def _is_at(path: Path, lock: int) -> bool:
    try:
        return os.path.samestat(os.fstat(lock), path.stat())
    except FileNotFoundError:
        return False


def _await(lock: int, deadline: float, timeout_s: float) -> None:
    while True:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > deadline:
                raise Busy(
                    f"another process kept the lock of this mirror for {timeout_s:g} seconds: "
                    "try again"
                ) from None
            time.sleep(_LOCK_POLL_S)
        else:
            return
