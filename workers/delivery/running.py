"""Detect repeated messages, and list all concurrency hazards of the write side.

Each hazard has one mechanism against it, and a test that fails without the mechanism.

1. The broker delivers the message of a long job again while the job still runs in this process:
   the copy would count as a failed attempt and do the work twice. → `Running`, in each process.
   Tests: `test_files.py`, a message that is repeated while its file is being processed.
2. Two workers get messages about one file, or a file kills one worker after another.
   → claims in the ledger: `Feeder.begin` admits one live worker per file and stage and counts
   attempts; `Feeder.done` counts each file once. Tests: `test_ledger.py`,
   `test_stage_boundaries.py`.
3. Another index is published, or a backup begins, between the write of a batch and its record in
   the ledger. → the swap lock in Redis: writers share it (`Services.writing`), a swap holds it
   exclusively. Tests: `test_index_swap.py`; `test_build.py`, a file written just before the swap.
4. A replaced index is closed during a write. → `Index.in_use` counts users; the last one closes it.
   Test: `test_files.py`, an index that is replaced.
5. Two threads or processes write to the embedded store at once. → the store's own file lock.
   Tests: `test_services.py`, a store maintained under writes; `test_local.py`, two processes.
6. A worker writes a file of a ref after the ref was removed. → the removal ends the runs of the ref
   and then takes the swap lock once; a writer checks, under that lock, whether its run is over.
   Test: `test_files.py`, a run that ends before its file is written.
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
        """Yield whether this is the only job with the key in this process.

        If not, the message is a copy and must be dropped: the other job finishes the work or is
        retried.
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
        """Accept further messages about the keys; called before such a message is sent.

        A stage that repeats a file would otherwise drop its own message as a copy.
        """
        with self._lock:
            for key in keys:
                self._holders.pop(key, None)
