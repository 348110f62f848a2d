"""Limit the time for which `watch` waits while no gateway answers."""

from __future__ import annotations

import time
from collections.abc import Callable

from codelode.errors import Unavailable

#: `watch` gives up after this long without an answer: a gateway restarts within seconds.
WATCH_TIMEOUT_S = 60.0
#: `watch` reports the silence after this long without an answer.
WATCH_SILENCE_S = 3.0
#: Pause before `watch` asks again, seconds; doubles from the first value up to the second.
WATCH_BACKOFF_S = (0.1, 2.0)

OnSilence = Callable[[Unavailable], None]


class Silence:
    """The time without an answer, measured from the first call that failed.

    The time before that call does not count: the gateway just had nothing to report.
    """

    def __init__(self, on_silence: OnSilence | None) -> None:
        self._report = on_silence or (lambda _: None)
        self.end()

    def end(self) -> None:
        """Reset the timeout after an answer."""
        self._began_at: float | None = None
        self._is_reported = False
        self._pause_s = WATCH_BACKOFF_S[0]

    def pause_s(self, lost: Unavailable) -> float:
        """Return the pause before the next call. Raises `lost` after WATCH_TIMEOUT_S."""
        now = time.monotonic()
        began_at = self._began_at = now if self._began_at is None else self._began_at
        if now - began_at > WATCH_TIMEOUT_S:
            raise lost
        if not self._is_reported and now - began_at > WATCH_SILENCE_S:
            self._is_reported = True
            self._report(lost)
        pause_s, self._pause_s = self._pause_s, min(self._pause_s * 2, WATCH_BACKOFF_S[1])
        return pause_s


def ended_early(address: str) -> Unavailable:
    """Return the error for a stream that ended before the run was over."""
    return Unavailable(f"the gateway at {address} ended the watch before the run was over")
