"""Read what code hosts say about their limits of requests."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from email.utils import parsedate_to_datetime
from typing import NamedTuple

from codelode.request_budget import RequestBudget, tightest


class _Names(NamedTuple):
    """The headers of a host."""

    allowed: str  # requests in a period
    left: str  # of these
    resets_at: str  # when the next period begins, seconds since the epoch
    resource: str  # what the limit is for


#: Bitbucket Data Center has the first ones without a time; Bitbucket Cloud tells no number left.
_HEADERS = (
    _Names(*(f"x-ratelimit-{name}" for name in ("limit", "remaining", "reset", "resource"))),
    _Names(*(f"ratelimit-{name}" for name in ("limit", "remaining", "reset", "name"))),  # GitLab
)


def asked_pause(
    headers: Mapping[str, str], *, now: Callable[[], float] = time.time
) -> float | None:
    """Return for how long the host asks to wait, seconds; None if it does not."""
    after = headers.get("retry-after", "")
    if after.isdecimal():
        return float(after)
    if after:
        try:
            return max(0.0, parsedate_to_datetime(after).timestamp() - now())
        except ValueError:
            return None
    for names in _HEADERS:
        if headers.get(names.left) == "0" and headers.get(names.resets_at, "").isdecimal():
            return max(0.0, float(headers[names.resets_at]) - now())
    return None


class Budgets:
    """Keeps what a host said last about each of its limits."""

    def __init__(self) -> None:
        self._told: dict[str, RequestBudget] = {}

    def hear(self, headers: Mapping[str, str]) -> None:
        """Take in the headers of an answer."""
        for names in _HEADERS:
            allowed, left = headers.get(names.allowed, ""), headers.get(names.left, "")
            if allowed.isdecimal() and left.isdecimal() and int(allowed):
                at = headers.get(names.resets_at, "")
                told = RequestBudget(int(allowed), int(left), float(at) if at.isdecimal() else 0.0)
                self._told[headers.get(names.resource, "")] = told

    def tightest(self) -> RequestBudget:
        """Return the one of which the smallest part is left."""
        return tightest(self._told.values())
