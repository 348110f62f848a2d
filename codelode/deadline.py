"""End blocking work when the call that asked for it is over.

A thread cannot be interrupted from outside, so long-running work calls `check` between its steps.
Faces run each call inside `calling`, which threads started by `asyncio.to_thread` inherit; the
store stage resolves the imports of each file inside it. Outside of `calling`, `check` does nothing.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass

from codelode.errors import TimedOut


@dataclass(slots=True)
class _Call:
    ends_at: float  # on its clock
    clock: Callable[[], float]
    is_over: bool = False


_call: ContextVar[_Call | None] = ContextVar("call", default=None)


@contextmanager
def calling(
    remaining_s: float | None, clock: Callable[[], float] = time.monotonic
) -> Iterator[None]:
    """Run the block as a call that ends in this many seconds of the clock; None: no deadline.

    The call is over when its deadline has passed or when the block is left, whatever the reason.
    """
    call = _Call(math.inf if remaining_s is None else clock() + remaining_s, clock)
    before = _call.set(call)
    try:
        yield
    finally:
        call.is_over = True
        with suppress(ValueError):  # a stream may be closed in another context
            _call.reset(before)


def check() -> None:
    """Raise TimedOut if the current call is over."""
    call = _call.get()
    if call is not None and (call.is_over or call.clock() >= call.ends_at):
        raise _late()


@contextmanager
def holding(lock: threading.Lock) -> Iterator[None]:
    """Hold the lock; raise TimedOut if it is not free before the current call's deadline."""
    call = _call.get()
    left_s = math.inf if call is None else call.ends_at - call.clock()
    if not lock.acquire(timeout=min(max(left_s, 0.0), threading.TIMEOUT_MAX)):
        raise _late()
    try:
        yield
    finally:
        lock.release()


def _late() -> TimedOut:
    return TimedOut("the deadline passed before the answer was complete; allow more time")
