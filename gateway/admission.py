"""Limit the calls that run at once, and refuse immediately those that could not finish in time.

Without a limit, calls beyond the capacity slow each other down until all of them miss their
deadline. Here a call waits for its turn, first come, first served. It is refused, with the time
after which to try again, if it is expected to take more than half of the time until its deadline.
The expected time follows from the mean time of recent calls and the number of waiting ones, by
Little's law. Refused calls get different times, so that they come back at the rate at which calls
are answered, and not all at once: refusing thousands of calls again and again would leave no time
to answer any.

A call that the server has not accepted yet cannot be refused, and its deadline approaches
meanwhile. The server accepts one call each time that the event loop and a thread of gRPC have taken
turns, which is slow while the loop works on other calls. Waiting calls therefore get their turns
only after the calls that have arrived are accepted.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import structlog

from codelode.errors import Busy
from gateway.throttle import Throttle

#: Number of calls that run at once. Each thread that computes makes the event loop wait 5 ms for
#: the interpreter, so a higher number would delay health checks without answering more calls. A
#: lower one would leave the cores idle while calls wait for a model server or a store.
RUNNING = 8
#: Number of calls that change something and run at once. They have turns of their own, so that an
#: admin can revoke a key whose calls take all the others.
CHANGING = 4
#: Maximum number of waiting calls; bounds the memory when callers set no deadline. Chosen by hand.
WAITING = 1_000

#: Largest share of the time until its deadline that a call may be expected to take. The rest allows
#: for calls that take longer than usual, and for the way to the caller.
SHARE = 0.5

#: Time without a new call after which waiting calls get the free turns, seconds. An idle server
#: accepts a call in less than 0.5 ms.
QUIET_S = 0.002
#: Minimum and maximum of the longest time for which free turns wait for such a pause, seconds.
#: Between these, it is the time since turns were last given: a burst is accepted at once, and a
#: steady stream of new calls delays waiting calls for about half of the time.
LEAST_PAUSE_S, MOST_PAUSE_S = 0.05, 0.5

#: Weight of the newest call in the mean time of a call.
NEWEST = 0.1
#: Minimum and maximum time after which a refused call may try again, seconds. Without a maximum,
#: callers that ignore the time would make it grow without end.
MIN_RETRY_S = 0.5
MAX_RETRY_S = 30.0
#: Shortest time between two log events about refused calls, seconds.
LOG_INTERVAL_S = 1.0

_log = structlog.get_logger("gateway")


class Admission:
    """Limits the calls that run at once in an event loop, and queues the others."""

    def __init__(
        self,
        *,
        running: int = RUNNING,
        waiting: int = WAITING,
        quiet_s: float = QUIET_S,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._most_running = running
        self._most_waiting = waiting
        self._quiet_s = quiet_s
        self._clock = clock
        self._running = 0
        self._arrived = 0  # number of calls so far
        self._free: list[float] = []  # when each free turn was taken
        self._passing: asyncio.Task[None] | None = None  # gives free turns to waiting calls
        self._passed_at = -math.inf  # when free turns were last given
        self._queue: OrderedDict[asyncio.Future[None], float] = OrderedDict()  # with deadlines
        self._mean_s = 0.0  # mean time for which a call holds its turn
        self._refused = 0  # calls refused since the last log event
        self._logging = Throttle(LOG_INTERVAL_S, clock)
        self._told_until = -math.inf  # when the last refused call may try again

    @asynccontextmanager
    async def admitted(
        self, remaining_s: float | None, *, goes_on: bool = False
    ) -> AsyncIterator[None]:
        """Wait for a turn and hold it. `remaining_s`: time until the deadline; None: there is none.

        Raises Busy immediately if the deadline would probably be missed, or later if it cannot be
        met any more; never if a call `goes_on` that has held a turn before.
        """
        within_s = math.inf if goes_on or remaining_s is None else remaining_s
        await self._enter(within_s, goes_on=goes_on)
        started = self._clock()
        try:
            yield
        finally:
            self._leave(started)

    def require_room(self, remaining_s: float | None) -> None:
        """Raise Busy if a call with this time until its deadline would be refused now.

        This is checked before anything else is done for a call.
        """
        self._arrived += 1
        if self._running >= self._most_running and not self._has_room(remaining_s):
            raise self._refusal()

    def _has_room(self, remaining_s: float | None) -> bool:
        """Return whether a call that starts to wait now can probably be answered in time."""
        if len(self._queue) >= self._most_waiting:
            return False
        return remaining_s is None or self._expected_s() <= SHARE * remaining_s

    async def _enter(self, remaining_s: float, *, goes_on: bool) -> None:
        if self._running < self._most_running:
            self._running += 1
            return
        if not goes_on and not self._has_room(remaining_s):
            raise self._refusal()
        turn = asyncio.get_running_loop().create_future()
        self._queue[turn] = self._clock() + remaining_s
        try:
            await turn
        except asyncio.CancelledError:
            if self._queue.pop(turn, None) is None and _is_taken(turn):
                self._leave(self._clock())  # the turn came together with the cancellation
            raise

    def _expected_s(self) -> float:
        """Return the expected time until a call that arrives now is answered."""
        return self._mean_s * (1 + (len(self._queue) + 1) / self._most_running)

    def _leave(self, started: float) -> None:
        """Release the turn taken at `started`; a waiting call gets it once no new ones arrive."""
        if not self._queue:
            self._end(started)
            self._running -= 1
            return
        self._free.append(started)
        if self._passing is None:
            self._passing = asyncio.create_task(self._pass_on_when_quiet())

    async def _pass_on_when_quiet(self) -> None:
        now, before = self._clock(), -1
        ends_at = now + min(max(LEAST_PAUSE_S, now - self._passed_at), MOST_PAUSE_S)
        while self._arrived != before and self._clock() < ends_at:
            before = self._arrived
            await asyncio.sleep(self._quiet_s)
        self._passing, self._passed_at = None, self._clock()
        while self._free:
            self._end(self._free.pop())
            self._pass_on()
        self._refuse_newest()

    def _end(self, started: float) -> None:
        self._mean_s += NEWEST * (self._clock() - started - self._mean_s)

    def _pass_on(self) -> None:
        """Pass a turn on to the first waiting call that can still be answered in time."""
        now = self._clock()
        while self._queue:
            turn, ends_at = self._queue.popitem(last=False)
            if turn.done():
                continue
            if now + self._mean_s <= ends_at:
                turn.set_result(None)
                return
            turn.set_exception(self._refusal())
        self._running -= 1

    def _refuse_newest(self) -> None:
        """Refuse the newest waiting calls that can no longer be answered in time.

        They were accepted when calls took less time than now.
        """
        now = self._clock()
        while self._queue:
            turn, ends_at = self._queue.popitem()
            if now + self._expected_s() <= ends_at:
                self._queue[turn] = ends_at
                return
            if not turn.done():
                turn.set_exception(self._refusal())

    def _refusal(self) -> Busy:
        self._refused += 1
        if self._logging.passes():
            _log.warning("calls_refused", calls=self._refused, waiting=len(self._queue))
            self._refused = 0
        retry_s = self._retry_s(self._clock())
        return Busy(
            f"the gateway has more calls than it can answer in time; try again in {retry_s:.1f} s, "
            "allow more time, or run more gateways",
            retry_s=retry_s,
        )

    def _retry_s(self, now: float) -> float:
        """Return how long a refused call should wait, seconds: longer than the previous one."""
        least = now + max(MIN_RETRY_S, self._expected_s())
        following = self._told_until + self._mean_s / self._most_running
        self._told_until = min(max(least, following), now + MAX_RETRY_S)
        return self._told_until - now


def _is_taken(turn: asyncio.Future[None]) -> bool:
    """Return whether the waiting call was given the turn, and not refused or cancelled."""
    return turn.done() and not turn.cancelled() and turn.exception() is None
