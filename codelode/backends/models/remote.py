"""Calls to a model server: a concurrency limit, back-off with jitter, and a circuit breaker.

A server that is busy or restarting is called again after a growing pause. After several failures in
a row the breaker opens for some seconds, and every call fails at once instead of queueing threads.
A call that timed out is not repeated here, because that would add to the load that made the server
slow; the job queue retries jobs.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from itertools import count
from typing import TypeVar

import structlog

from codelode.errors import Busy, CodelodeError, TimedOut, Unavailable

#: Attempts per call, including the first.
ATTEMPTS = 4

#: Longest pause after the first failure, doubled after each further one, seconds. Full jitter: the
#: pause is random between 0 and this, so that many workers do not return at the same moment.
BACKOFF_BASE_S = 0.5
BACKOFF_CAP_S = 8.0

#: Failures in a row that open the breaker, and how long it stays open, seconds.
FAILURES_TO_OPEN = 6
OPEN_S = 10.0

T = TypeVar("T")

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """The timeout of one attempt, and the number of attempts including the first."""

    timeout_s: float
    attempts: int = ATTEMPTS

    @property
    def is_brief(self) -> bool:
        """Return whether the caller prefers no answer to waiting, as a search does."""
        return self.attempts == 1


class Garbled(Unavailable):
    """The server answered with something that cannot be right."""


class LeftAlone(Unavailable):
    """The server was not called, because the circuit breaker is open."""


class Throttled(Busy):
    """The server asks for fewer calls. `retry_after_s`: the pause it asks for; 0: it names none."""

    def __init__(self, message: str, *, retry_after_s: float = 0.0) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s


class Breaker:
    """A circuit breaker: opens after several failures in a row, for `open_s`.

    After that one call is let through, and closes it or keeps it open. It logs when it opens and
    when it closes, not each failure. Safe to share between threads.
    """

    def __init__(
        self,
        name: str,
        *,
        failures_to_open: int = FAILURES_TO_OPEN,
        open_s: float = OPEN_S,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._name = name
        self._failures_to_open = failures_to_open
        self._open_s = open_s
        self._clock = clock
        self._lock = threading.Lock()
        self._failures = 0
        self._open_until = 0.0
        self._last = ""

    def check(self) -> None:
        """Return if a call may be made. Raises LeftAlone, with the last reason, while open."""
        with self._lock:
            if self._failures < self._failures_to_open:
                return
            left = self._open_until - self._clock()
            if left > 0:
                raise LeftAlone(
                    f"{self._name} failed {self._failures} times in a row and is left alone "
                    f"for {left:.0f} s; the last time: {self._last}"
                )
            self._open_until = self._clock() + self._open_s

    def failed(self, error: Exception) -> None:
        with self._lock:
            self._failures += 1
            self._last = str(error)
            self._open_until = self._clock() + self._open_s
            opens = self._failures == self._failures_to_open
        if opens:
            _log.warning("model_server_unavailable", server=self._name, reason=str(error))

    def succeeded(self) -> None:
        with self._lock:
            was_open = self._failures >= self._failures_to_open
            self._failures = 0
        if was_open:
            _log.info("model_server_available", server=self._name)


class Remote:
    """Calls to one server. `concurrency`: calls of this process at once; further ones wait."""

    def __init__(
        self,
        name: str,
        *,
        concurrency: int = 4,
        breaker: Breaker | None = None,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._slots = threading.BoundedSemaphore(concurrency)
        self._breaker = breaker or Breaker(name)
        self._sleep = sleep

    def call(self, work: Callable[[], T], *, attempts: int = ATTEMPTS) -> T:
        """Return what `work` returns; repeat it while it raises Unavailable.

        Raises the last Unavailable; any other error of `work` is raised immediately.
        """
        for attempt in count(1):
            try:
                return self._once(work)
            except Unavailable as exc:
                pause_s = _pause(attempt, exc)
                if attempt >= attempts or pause_s is None:
                    raise
            self._sleep(pause_s)
        raise AssertionError("unreachable")

    def _once(self, work: Callable[[], T]) -> T:
        with self._slots:
            self._breaker.check()
            try:
                result = work()
            except Unavailable as exc:
                if not isinstance(exc, Garbled):  # the input is as likely the cause as the server
                    self._breaker.failed(exc)
                raise
            except CodelodeError:
                self._breaker.succeeded()
                raise
            self._breaker.succeeded()
            return result


def _pause(attempt: int, error: Unavailable) -> float | None:
    """Return the seconds before the next attempt; None: do not try again now."""
    if isinstance(error, (TimedOut, LeftAlone)):
        return None
    if isinstance(error, Throttled) and error.retry_after_s:
        return error.retry_after_s if error.retry_after_s <= BACKOFF_CAP_S else None
    return random.uniform(0, min(BACKOFF_CAP_S, BACKOFF_BASE_S * 2.0 ** (attempt - 1)))
