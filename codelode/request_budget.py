"""Represent how many requests a code host still accepts from a connection."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

#: Fraction of the requests of a period; if less is left, the budget is low.
LOW = 0.1


@dataclass(frozen=True, slots=True)
class RequestBudget:
    """The limit of requests that a host reported in its last answers."""

    requests_allowed: int = 0  # in a period; 0: the host does not say
    requests_left: int = 0
    resets_at: float = 0.0  # when the next period begins, since the epoch; 0: it does not say

    @property
    def share(self) -> float:
        """Return the fraction of the period's requests that is left; 1 if there is no report."""
        return self.requests_left / self.requests_allowed if self.requests_allowed else 1.0

    def is_low(self, now: float) -> bool:
        """Return whether little is left, and the next period has not begun.

        Never true for a host that does not report when that begins, such as Bitbucket Data Center:
        it allows further requests continuously, so its last report is soon outdated.
        """
        return self.share < LOW and now < self.resets_at


NO_BUDGET = RequestBudget()


def tightest(budgets: Iterable[RequestBudget]) -> RequestBudget:
    """Return the budget with the smallest fraction left."""
    return min(budgets, key=lambda one: one.share, default=NO_BUDGET)
