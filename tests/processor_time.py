"""Time limits that hold on a busy machine."""

from __future__ import annotations

import time
from contextlib import contextmanager


@contextmanager
def processor_time_below(seconds):
    """Fail if the block takes more processor time of its thread; waiting does not count."""
    started = time.thread_time()
    yield
    took_s = time.thread_time() - started
    assert took_s < seconds, f"{took_s:.1f} s of processor time"
