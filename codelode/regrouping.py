"""Represent how far the regrouping of repositories has come (see `workers.regrouping`)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from codelode.covers import Groups
from codelode.model import RepositoryName, RunId

#: Time for which the long filter of a caller is kept, seconds.
KEPT_S = 86_400

#: Number of long filters that are kept, up to about 60 kB each for 5,000 repositories.
MAX_FILTERS = 16

#: Minimum time between two checks whether other groups would shorten long filters, seconds. A check
#: finds teams and the groups of all repositories again: 10 to 17 s for 10,000 repositories.
CHECK_EVERY_S = 900


@dataclass(frozen=True, slots=True)
class RegroupingState:
    """The regrouping that is under way, or the last one. Times are of the store's clock.

    `answers`: the latest request when it began. `left`: repositories whose groups are still
    suspended, because a run has failed. `batch`: repositories that are processed now, and their new
    groups. `runs`: the runs that write these; None: the groups are not set yet.
    """

    answers: str = ""
    checked_at: float = 0.0
    is_active: bool = False
    total: int = 0  # repositories
    done: int = 0
    left: tuple[RepositoryName, ...] = ()
    batch: Mapping[RepositoryName, Groups] = field(default_factory=dict)
    suspended_at: float = 0.0
    runs: tuple[RunId, ...] | None = None
