"""A pool of connections.

Connections are opened when first asked for and closed by age. The pool is safe for threads: one
lock guards the free list, and opening happens outside of it.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

MAX_AGE_S = 300.0


class PoolError(Exception):
    """The pool cannot serve."""


@dataclass
class Connection:
    """One open connection."""

    handle: object
    opened_at: float = field(default_factory=time.monotonic)

    @property
    def age_s(self) -> float:
        return time.monotonic() - self.opened_at


class Pool:
    """Keeps connections for reuse, at most `size` of them at a time."""

    def __init__(self, connect: Callable[[], object], *, size: int = 10) -> None:
        self._connect = connect
        self._size = size
        self._free: deque[Connection] = deque()
        self._in_use = 0
        self._lock = threading.Lock()
        self._is_closed = False

    # Taking and giving back

    @contextmanager
    def connection(self, *, timeout_s: float = 5.0) -> Iterator[object]:
        """A connection for the length of a block; given back even when the block raises."""
        taken = self._take(timeout_s)
        try:
            yield taken.handle
        finally:
            self._give_back(taken)

    def _take(self, timeout_s: float) -> Connection:
        deadline = time.monotonic() + timeout_s
        while True:
            with self._lock:
                if self._is_closed:
                    raise PoolError("the pool is closed")
                while self._free:
                    candidate = self._free.popleft()
                    if candidate.age_s < MAX_AGE_S:
                        self._in_use += 1
                        return candidate
                    self._discard(candidate)
                if self._in_use < self._size:
                    self._in_use += 1
                    break
            if time.monotonic() > deadline:
                raise PoolError(f"no connection within {timeout_s} s")
            time.sleep(0.01)
        return self._open()

    def _open(self) -> Connection:
        try:
            return Connection(self._connect())
        except OSError as exc:
            with self._lock:
                self._in_use -= 1
            raise PoolError("could not connect") from exc

    def _give_back(self, connection: Connection) -> None:
        with self._lock:
            self._in_use -= 1
            if self._is_closed or connection.age_s >= MAX_AGE_S:
                self._discard(connection)
            else:
                self._free.append(connection)

    # Ending

    def close(self) -> None:
        """Close what is free now and what is given back later. Idempotent."""
        with self._lock:
            self._is_closed = True
            while self._free:
                self._discard(self._free.popleft())

    def _discard(self, connection: Connection) -> None:
        close = getattr(connection.handle, "close", None)
        if close is not None:
            close()

    def __enter__(self) -> Pool:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


def fill(pool: Pool, count: int) -> None:
    """Open `count` connections ahead of use."""
    with contextmanager(lambda: iter([None]))():
        taken = [pool._take(1.0) for _ in range(count)]
    for connection in taken:
        pool._give_back(connection)
