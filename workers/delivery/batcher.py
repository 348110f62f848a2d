"""Batch the jobs of single files: many task threads submit, few threads call the model or store.

Each file stays a job of its own, which is acknowledged, retried, and shown by itself, while the
expensive call gets many files at once. For a model with a fixed cost per call this gives 132
files/s instead of 24. If a batch fails, each half is tried again, so that a bad item fails alone
and the others are still processed in large calls.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from functools import wraps
from typing import Generic, TypeVar

T = TypeVar("T")


class Batcher(Generic[T]):
    """Calls `work` with up to `max_items` items.

    A batch is complete when no item arrived for `lull_s`, or `max_wait_s` after its first item. A
    lone item is so processed soon, and a stream in large calls. After a lull, `expects_more` may
    return true to keep the batch open.

    Before `work`, `admit` checks the items of a batch: true admits an item, false drops it, and an
    error fails it. Both functions run in `at_once` threads; while one works, another collects the
    next batch.
    """

    def __init__(
        self,
        work: Callable[[Sequence[T]], None],
        *,
        admit: Callable[[Sequence[T]], Sequence[bool | Exception | None]],
        max_items: int,
        lull_s: float,
        max_wait_s: float,
        expects_more: Callable[[Sequence[T]], bool] = lambda _: False,
        at_once: int = 1,
    ) -> None:
        self._work = work
        self._admit = admit
        self._expects_more = expects_more
        self._max_items = max_items
        self._lull_s = lull_s
        self._max_wait_s = max_wait_s
        self._queue: queue.Queue[tuple[T, Future[None]]] = queue.Queue()
        self._gathering = threading.Lock()
        for _ in range(at_once):
            threading.Thread(target=self._loop, name="batcher", daemon=True).start()

    def submit(self, item: T) -> Future[None]:
        """Return a future that resolves when the item's batch is done, or raises its error."""
        future: Future[None] = Future()
        self._queue.put((item, future))
        return future

    def _loop(self) -> None:
        while True:
            with self._gathering:
                batch = self._collect()
            self._run(self._admitted(batch))

    def _collect(self) -> list[tuple[T, Future[None]]]:
        batch = [self._queue.get()]
        deadline = time.monotonic() + self._max_wait_s
        while len(batch) < self._max_items:
            left_s = max(0.0, deadline - time.monotonic())
            try:
                batch.append(self._queue.get(timeout=min(self._lull_s, left_s)))
            except queue.Empty:
                if not left_s or not self._expects_more([item for item, _ in batch]):
                    break
        return batch

    def _admitted(self, batch: list[tuple[T, Future[None]]]) -> list[tuple[T, Future[None]]]:
        try:
            verdicts: Sequence[bool | Exception | None] = self._admit([item for item, _ in batch])
        except Exception as exc:  # noqa: BLE001 - whatever it is belongs to the waiting tasks
            verdicts = [exc] * len(batch)
        for (_, future), verdict in zip(batch, verdicts, strict=True):
            if isinstance(verdict, Exception):
                future.set_exception(verdict)
            elif not verdict:
                future.set_result(None)
        return [pair for pair, verdict in zip(batch, verdicts, strict=True) if verdict is True]

    def _run(self, batch: list[tuple[T, Future[None]]]) -> None:
        if not batch:
            return
        try:
            self._work([item for item, _ in batch])
        except Exception as exc:  # noqa: BLE001 - whatever it is belongs to the waiting tasks
            self._fail(batch, exc)
        else:
            for _, future in batch:
                future.set_result(None)

    def _fail(self, batch: list[tuple[T, Future[None]]], exc: Exception) -> None:
        if len(batch) == 1:
            batch[0][1].set_exception(exc)
            return
        half = len(batch) // 2
        self._run(batch[:half])
        self._run(batch[half:])


def made_once(make: Callable[[], T]) -> Callable[[], T]:
    """Call `make` once and return the same value to every caller.

    `functools.cache` would call it once for each thread that asks before the first call ends.
    """
    lock = threading.Lock()
    made: list[T] = []

    @wraps(make)
    def found() -> T:
        with lock:
            if not made:
                made.append(make())
            return made[0]

    return found
