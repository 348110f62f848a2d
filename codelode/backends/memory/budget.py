"""Keep the summary budget in counters of one process."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable

from codelode.model import RunId
from codelode.ports import FAILED_BATCHES_TO_STOP

DAY_S = 86_400


class MemoryBudget:
    """Implements the port SummaryBudget. `now`: seconds since the epoch."""

    def __init__(self, *, per_run: int, per_day: int, now: Callable[[], float] = time.time) -> None:
        self._per_run = per_run
        self._per_day = per_day
        self._now = now
        self._lock = threading.Lock()
        self._by_run: Counter[RunId] = Counter()
        self._by_day: Counter[int] = Counter()
        self._failed_batches: Counter[RunId] = Counter()

    def take(self, run: RunId, wanted: int, *, share: float = 1.0) -> int:
        with self._lock:
            if self._is_stopped(run):
                return 0
            of_run = int(self._per_run * share) - self._by_run[run]
            of_day = self._per_day - self._by_day[self._day()]
            granted = max(0, min(wanted, of_run, of_day))
            self._by_run[run] += granted
            self._by_day[self._day()] += granted
            return granted

    def settle(self, run: RunId, *, made: int, failed: int) -> bool:
        with self._lock:
            if self._is_stopped(run):
                return True
            if made:
                self._failed_batches[run] = 0
            elif failed:
                self._failed_batches[run] += 1
            return self._is_stopped(run)

    def is_stopped(self, run: RunId) -> bool:
        with self._lock:
            return self._is_stopped(run)

    def _is_stopped(self, run: RunId) -> bool:
        return self._failed_batches[run] >= FAILED_BATCHES_TO_STOP

    def _day(self) -> int:
        return int(self._now()) // DAY_S
