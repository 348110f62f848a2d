"""Define the retry policy for unavailable servers, of jobs and of an index rebuild."""

from __future__ import annotations

import random

#: Number of retries after the first attempt; with the pauses below, about two minutes in all.
MAX_RETRIES = 8

#: Maximum pause before the next attempt, seconds.
MAX_BACKOFF_S = 20.0


def backoff(retries: int) -> float:
    """Return the pause before the next attempt, seconds: 1, 2, 4 …, jittered."""
    return min(MAX_BACKOFF_S, 2.0 ** min(retries, 10)) * random.uniform(0.5, 1.0)
