"""Who may use what several threads share, when."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager


class Turns:
    """Up to `at_once` threads together, or one that is alone. Who wants to be alone waits for the
    others, and those who come after it wait for it.
    """

    def __init__(self, at_once: int) -> None:
        self._at_once = at_once
        self._free = threading.Semaphore(at_once)
        self._entering = threading.Lock()

    @contextmanager
    def one(self) -> Iterator[None]:
        """As one of those who may be there together."""
        with self._entering:
            self._free.acquire()
        try:
            yield
        finally:
            self._free.release()

    @contextmanager
    def alone(self) -> Iterator[None]:
        """With nobody else."""
        with self._entering:
            for _ in range(self._at_once):
                self._free.acquire()
            try:
                yield
            finally:
                self._free.release(self._at_once)
