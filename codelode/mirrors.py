"""Where mirrors are: workers make them, other commands look at the folder they are in.

A mirror is a bare repository below one folder, under a name made of its repository's. Whoever
changes one holds the lock beside it. The file of the lock goes with its mirror, so whoever was
waiting for it looks whether it is still the one that others will find.
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
from codelode.model import RepositoryName

_LOCK_POLL_S = 0.05


def folder_name(name: RepositoryName) -> str:
    """`acme/app` → `acme-app-5c8e52f8a1.git`: readable, and distinct for distinct names."""
    slug = re.sub(r"[^A-Za-z0-9._-]+", "-", name).lstrip(".")[:60]
    return f"{slug}-{hashlib.sha256(name.encode()).hexdigest()[:10]}.git"


@contextmanager
def locked(mirror: Path, *, timeout_s: float) -> Iterator[int]:
    """Hold the mirror's lock; yields its descriptor, by which a child can hold it too.

    Raises Busy when somebody else does not let it go.
    """
    mirror.parent.mkdir(parents=True, exist_ok=True)
    path = mirror.with_suffix(".lock")
    lock = _taken(path, timeout_s)
    try:
        yield lock
        # Not after an error: a git that outlived it may hold the lock and be at work yet.
        if not mirror.exists():
            path.unlink(missing_ok=True)
    finally:
        os.close(lock)


def _taken(path: Path, timeout_s: float) -> int:
    """The descriptor of the locked file that is at the path."""
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
                    f"another sync of this mirror did not end within {timeout_s:g} seconds"
                ) from None
            time.sleep(_LOCK_POLL_S)
        else:
            return
