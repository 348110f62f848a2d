"""Represent how many requests a code host still takes from a connection."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

#: Share of the requests of a period below which what is left is a problem.
LOW = 0.1


@dataclass(frozen=True, slots=True)
class RequestBudget:
    """Holds what a host said about its limit of requests in its last answers."""

    requests_allowed: int = 0  # in a period; 0: the host does not say
    requests_left: int = 0
    resets_at: float = 0.0  # when the next period begins, since the epoch; 0: it does not say

    @property
    def share(self) -> float:
        """Return what part of the requests of the period is left."""
        return self.requests_left / self.requests_allowed if self.requests_allowed else 1.0

    def is_low(self, now: float) -> bool:
        """Return whether little is left, and the next period has not begun.

        A host that does not say when it begins, as Bitbucket Data Center, adds requests all the
        time: what it said at the end of a listing is soon no longer true, and never low.
        """
        return self.share < LOW and now < self.resets_at


NO_BUDGET = RequestBudget()


def tightest(budgets: Iterable[RequestBudget]) -> RequestBudget:
    """Return the budget of which the smallest part is left."""
    return min(budgets, key=lambda one: one.share, default=NO_BUDGET)
