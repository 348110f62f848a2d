"""Read the rate limits in the headers of code hosts."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping
from email.utils import parsedate_to_datetime
from typing import NamedTuple

from codelode.request_budget import RequestBudget, tightest


class _Names(NamedTuple):
    """The names of the headers with a rate limit."""

    allowed: str  # requests in a period
    left: str  # how many of these are left
    resets_at: str  # when the next period begins, seconds since the epoch
    resource: str  # what the limit is for


#: Bitbucket Data Center sends the first kind without `reset`; Bitbucket Cloud, without `remaining`.
_HEADERS = (
    _Names(*(f"x-ratelimit-{name}" for name in ("limit", "remaining", "reset", "resource"))),
    _Names(*(f"ratelimit-{name}" for name in ("limit", "remaining", "reset", "name"))),  # GitLab
)

#: Numbers below 10^12 are accepted: no limit is larger, and a larger time is not in seconds.
_NUMBER = re.compile(r"[0-9]{1,12}")


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
        except (ValueError, OverflowError):
            return None
    for names in _HEADERS:
        at = _number(headers.get(names.resets_at, ""))
        if headers.get(names.left) == "0" and at is not None:
            return max(0.0, at - now())
    return None


class Budgets:
    """Keeps the last reported state of each limit of a host."""

    def __init__(self) -> None:
        self._told: dict[str, RequestBudget] = {}

    def hear(self, headers: Mapping[str, str]) -> None:
        """Record the limits in the headers of an answer."""
        for names in _HEADERS:
            allowed, left, at = (_number(headers.get(name, "")) for name in names[:3])
            if allowed and left is not None:
                told = RequestBudget(allowed, left, float(at or 0))
                self._told[headers.get(names.resource, "")] = told

    def tightest(self) -> RequestBudget:
        """Return the budget of which the smallest share is left."""
        return tightest(self._told.values())


def _number(text: str) -> int | None:
    return int(text) if _NUMBER.fullmatch(text) else None
