"""The guard against repeated messages, and the list of all exclusion mechanisms of the write side.

Each hazard has one mechanism, and a test that fails without it.

1. The broker delivers the message of a long job again while the job still runs in this process:
   the copy would count as a failed attempt and do the work twice. → `Running`, in each process.
   Tests: `test_files.py`, a message that comes again while its file is at work.
2. Two workers get messages about one file, or a file kills one worker after another.
   → claims in the ledger: `Feeder.begin` lets one live worker in per file and stage and counts
   attempts; `Feeder.done` counts each file once. Tests: `test_ledger.py`,
   `test_stage_boundaries.py`.
3. Another index is published, or a backup begins, between the write of a batch and its record in
   the ledger. → the swap lock in Redis: writers share it (`Services.writing`), a swap holds it
   alone. Tests: `test_index_swap.py`; `test_build.py`, a file written just before the swap.
4. A replaced index is closed under a write. → `Index.in_use` counts users, the last one closes it.
   Test: `test_files.py`, an index that is replaced.
5. Two threads or processes write to the embedded store at once. → the store's own file lock.
   Tests: `test_services.py`, a store maintained under writes; `test_local.py`, two processes.
"""

from __future__ import annotations

import threading
from collections.abc import Hashable, Iterable, Iterator
from contextlib import contextmanager


class Running:
    """The jobs that this process is working on. Safe to share between threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._holders: dict[Hashable, object] = {}

    @contextmanager
    def once(self, key: Hashable) -> Iterator[bool]:
        """Yield whether nobody else in this process is inside with the key.

        A false answer means that the message is a copy: drop it. The holder, or whatever reports
        its death, takes care of the job.
        """
        mine = object()
        with self._lock:
            is_first = self._holders.setdefault(key, mine) is mine
        try:
            yield is_first
        finally:
            with self._lock:
                if self._holders.get(key) is mine:
                    del self._holders[key]

    def release(self, keys: Iterable[Hashable]) -> None:
        """Let the next message about each key in, before that message is sent.

        A stage that sends a file to itself would otherwise drop the message as a copy.
        """
        with self._lock:
            for key in keys:
                self._holders.pop(key, None)
