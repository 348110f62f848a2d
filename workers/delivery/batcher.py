"""Batch the jobs of single files: many task threads submit, few threads call the model or store.

Each file stays a separate job, which is acknowledged, retried, and shown individually, while the
expensive call gets many files at once. For a model with a fixed cost per call this gives 132
files/s instead of 24. If a batch fails, each half is tried again, so that a bad item fails alone
and the others are still processed in large calls.
"""

from __future__ import annotations

import heapq
import itertools
import queue
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from functools import wraps
from typing import Generic, Protocol, TypeVar

from codelode.jobs import Priority

T = TypeVar("T")
Judged = TypeVar("Judged", contravariant=True)


class Admit(Protocol[Judged]):
    """Decides which items are processed: see `Batcher`."""

    def __call__(
        self, items: Sequence[Judged], /, *, priority: Priority
    ) -> Sequence[bool | Exception]: ...


#: Maximum number of later items that may overtake an item, per step between their priorities.
OVERTAKING = 64


@dataclass(frozen=True, slots=True, order=True)
class _Waiting(Generic[T]):
    """A waiting item; those with a lower place go first."""

    place: int
    priority: Priority
    item: T = field(compare=False)
    future: Future[None] = field(default_factory=Future, compare=False)


def _items(batch: Sequence[_Waiting[T]]) -> list[T]:
    return [one.item for one in batch]


class _Line(Generic[T]):
    """The waiting items, in the order of their places."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._heap: list[_Waiting[T]] = []

    def put(self, *items: _Waiting[T]) -> None:
        with self._changed:
            for one in items:
                heapq.heappush(self._heap, one)
            self._changed.notify()

    def get(self, *, up_to: Priority | None = None, timeout: float | None = None) -> _Waiting[T]:
        """Return the first item, once any has the priority `up_to` or a higher one.

        Raises queue.Empty at the timeout.
        """

        def is_there() -> bool:
            return any(up_to is None or one.priority <= up_to for one in self._heap)

        with self._changed:
            if not self._changed.wait_for(is_there, timeout):
                raise queue.Empty
            return heapq.heappop(self._heap)


class Batcher(Generic[T]):
    """Calls `work` with items of one group.

    A batch is complete with `max_items` items or a total of `max_size`, when no item arrived for
    `lull_s`, or `max_wait_s` after its first item. So a lone item is processed soon, and a stream
    in large calls. After a lull, `expects_more` may return true to keep the batch open. Items of
    higher priority go before others, unless those have been overtaken by many (OVERTAKING). When an
    item arrives that goes before those of the batch, these are put back, so that the new item does
    not wait for their lull. A batch holds items of all groups, so that many small groups do not
    each wait for a lull; `work` is called for each group in it.

    Right before `work`, `admit` gets the items of the call and the highest priority among them. For
    each item, it returns true to admit it, false to drop it, or an error to fail it. Both functions
    run in `at_once` threads; while one works, another collects the next batch.
    """

    def __init__(
        self,
        work: Callable[[Sequence[T]], None],
        *,
        admit: Admit[T],
        max_items: int,
        lull_s: float,
        max_wait_s: float,
        expects_more: Callable[[Sequence[T]], bool] = lambda _: False,
        group: Callable[[T], Hashable] = lambda _: None,
        size: Callable[[T], int] = lambda _: 0,
        max_size: int = 1,
        at_once: int = 1,
    ) -> None:
        self._work = work
        self._admit = admit
        self._expects_more = expects_more
        self._max_items = max_items
        self._lull_s = lull_s
        self._max_wait_s = max_wait_s
        self._group = group
        self._size = size
        self._max_size = max_size
        self._line = _Line[T]()
        self._number = itertools.count()
        self._gathering = threading.Lock()
        for _ in range(at_once):
            threading.Thread(target=self._loop, name="batcher", daemon=True).start()

    def submit(self, item: T, *, priority: Priority = Priority.FIRST) -> Future[None]:
        """Return a future that resolves when the item's batch is done, or raises its error."""
        waiting = _Waiting(next(self._number) + OVERTAKING * priority, priority, item)
        self._line.put(waiting)
        return waiting.future

    def _loop(self) -> None:
        while True:
            with self._gathering:
                batch = self._collect()
            for part in self._parts(batch):
                self._run(self._admitted(part))

    def _parts(self, batch: list[_Waiting[T]]) -> Iterable[list[_Waiting[T]]]:
        """Divide a batch into the items of each call."""
        parts: dict[Hashable, list[_Waiting[T]]] = defaultdict(list)
        for one in batch:
            parts[self._group(one.item)].append(one)
        return parts.values()

    def _collect(self) -> list[_Waiting[T]]:
        batch = [self._line.get()]
        deadline = time.monotonic() + self._max_wait_s
        while len(batch) < self._max_items and self._total(batch) < self._max_size:
            left_s, own = max(0.0, deadline - time.monotonic()), batch[0].priority
            try:
                found = self._line.get(up_to=own, timeout=min(self._lull_s, left_s))
            except queue.Empty:
                if not left_s or not self._expects_more(_items(batch)):
                    break
                continue
            if found < batch[0]:
                self._line.put(*batch)
                batch, deadline = [], time.monotonic() + self._max_wait_s
            batch.append(found)
        return batch

    def _total(self, batch: list[_Waiting[T]]) -> int:
        return sum(map(self._size, _items(batch)))

    def _admitted(self, batch: list[_Waiting[T]]) -> list[_Waiting[T]]:
        try:
            priority = min(one.priority for one in batch)
            verdicts = self._admit(_items(batch), priority=priority)
        except Exception as exc:  # noqa: BLE001 - the waiting tasks get any error
            verdicts = [exc] * len(batch)
        for one, verdict in zip(batch, verdicts, strict=True):
            if isinstance(verdict, Exception):
                one.future.set_exception(verdict)
            elif not verdict:
                one.future.set_result(None)
        return [one for one, verdict in zip(batch, verdicts, strict=True) if verdict is True]

    def _run(self, batch: list[_Waiting[T]]) -> None:
        if not batch:
            return
        try:
            self._work(_items(batch))
        except Exception as exc:  # noqa: BLE001 - the waiting tasks get any error
            self._fail(batch, exc)
        else:
            for one in batch:
                one.future.set_result(None)

    def _fail(self, batch: list[_Waiting[T]], exc: Exception) -> None:
        if len(batch) == 1:
            batch[0].future.set_exception(exc)
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
