"""The retry policy for servers that are away, for jobs and for a rebuild of the index."""

from __future__ import annotations

import random

#: Tries after the first one: with the pauses below, about two minutes in all.
MAX_RETRIES = 8

#: Longest pause before the next try, seconds.
MAX_BACKOFF_S = 20.0


def backoff(retries: int) -> float:
    """Return the pause before the next try, seconds: 1, 2, 4 …, jittered."""
    return min(MAX_BACKOFF_S, 2.0**retries) * random.uniform(0.5, 1.0)
