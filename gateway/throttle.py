"""Throttle log events that may recur thousands of times."""

from __future__ import annotations

import math
import time
from collections.abc import Callable


class Throttle:
    """Lets the first of the events in each interval pass."""

    def __init__(self, interval_s: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._interval_s = interval_s
        self._clock = clock
        self._passed_at = -math.inf

    def passes(self) -> bool:
        """Return whether the present event passes; if so, a new interval begins."""
        now = self._clock()
        is_due = now - self._passed_at >= self._interval_s
        if is_due:
            self._passed_at = now
        return is_due

    def reset(self) -> None:
        """Let the next event pass."""
        self._passed_at = -math.inf
