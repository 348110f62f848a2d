"""Represent the followed repositories of a connection, and the state of following them.

The write side lists the repositories of code hosts and stores what it found; the read side shows
it, and asks for another listing.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import NamedTuple

from codelode.request_budget import NO_BUDGET, RequestBudget

#: Longest time after a failed attempt until the next one, seconds.
RETRY_S = 300

#: Maximum number of changes of one attempt that are kept to be shown.
MAX_CHANGES = 1_000

#: Maximum fraction of the interval by which a listing is early, which spreads the listings.
JITTER = 0.1


def fraction(*of: object) -> float:
    """Return a pseudo-random number in [0, 1) that depends only on the values."""
    return zlib.crc32(" ".join(map(str, of)).encode()) / 2**32


class Mode(StrEnum):
    """The modes of a requested listing; each includes the ones before it."""

    PLAN = "plan"  # list, and show what a sync would do
    SYNC = "sync"  # also do it
    CONFIRM = "confirm"  # also remove the repositories that wait for a confirmation

    @property
    def rank(self) -> str:
        """Return the digit with which requests of this mode begin; a greater one includes more.

        Of a pending request and a new one, the stores keep the greater digit.
        """
        return str(tuple(Mode).index(self))

    @classmethod
    def of(cls, request: str) -> Mode:
        """Return the mode of a request, as `SourceStates.want` stores it."""
        return tuple(cls)[int(request[:1] or Mode.SYNC.rank)]


class Action(StrEnum):
    """The actions that a listing takes on a repository."""

    REGISTER = "register"  # it is new
    ADOPT = "adopt"  # it was registered by hand, and is followed from now on
    RENAME = "rename"  # it is registered under its new name; the old one is removed afterwards
    MOVE = "move"  # it has another URL, and keeps its name
    UPDATE = "update"  # it is indexed again
    REMOVE = "remove"
    MISS = "miss"  # the host does not list it; it stays for the grace period
    KEEP = "keep"  # there is nothing to do
    PAUSE = "pause"  # a rule pauses it, so it stays as it is
    WAIT = "wait"  # so many would be removed that the removals need a confirmation
    CONFLICT = "conflict"  # its name belongs to another repository, or it is not accepted


@dataclass(frozen=True, slots=True)
class Change:
    """The action on one repository, and the reason for it."""

    action: Action
    repository: str  # its name here
    reason: str = ""


class FormerName(NamedTuple):
    """A name that a renamed repository had here before, and the URL that it had then."""

    name: str
    url: str  # empty: stored by a version that did not keep it


@dataclass(frozen=True, slots=True)
class FollowedRepository:
    """A followed repository: its identity at the host and here, and what was last done with it."""

    id: str  # of the host
    listed: str  # its name at the host
    name: str  # its name here
    url: str
    pushed: str = ""  # `ListedRepository.pushed` when runs of it were last started
    run_at: float = 0.0  # when runs of it were last started, seconds since the epoch
    missing_since: float = 0.0  # seconds since the epoch; 0: the host lists it
    replaces: tuple[FormerName, ...] = ()  # removed from the index when this one is indexed
    seen: str = ""  # digest of the indexed commits at its last check, if the host reports no pushes
    unchanged: int = 0  # consecutive checks without news, if the host reports no pushes
    default_branch: str = ""  # at the host when runs were last started; empty: the host did not say


def packed(known: Iterable[FollowedRepository]) -> bytes:
    """Return the bytes to store."""
    rows = [asdict(one) for one in known]
    return zlib.compress(json.dumps(rows, separators=(",", ":")).encode())


def unpacked(stored: bytes) -> tuple[FollowedRepository, ...]:
    """Return the repositories that `packed` encoded."""
    rows = json.loads(zlib.decompress(stored))
    return tuple(
        FollowedRepository(**{**row, "replaces": tuple(map(_former, row["replaces"]))})
        for row in rows
    )


def _former(stored: str | list[str]) -> FormerName:
    return FormerName(stored, "") if isinstance(stored, str) else FormerName(*stored)


@dataclass(frozen=True, slots=True)
class SourceDeclaration:
    """A connection whose repositories are followed, as the sources file declares it."""

    name: str
    kind: str
    prefix: str  # addresses of its repositories begin with it; for a folder, its path
    every_s: int
    rules: str  # digest of its rules
    at_least_every_s: int = 0  # longest interval of listings; 0: stored by an earlier version


@dataclass(frozen=True, slots=True)
class SourceOutcome:
    """The results of the last attempts to list the repositories of a connection.

    Times are seconds since the epoch. `changes` are those of the last attempt or plan.
    """

    synced_at: float = 0.0  # when the last successful attempt began
    attempted_at: float = 0.0
    planned_at: float = 0.0  # when the last attempt in mode PLAN was made
    error: str = ""  # of the last attempt
    waiting: str = ""  # why repositories that would be removed wait for a confirmation
    listed: int = 0  # repositories that the host lists
    repositories: int = 0  # that are followed
    replaced: int = 0  # former names that are still indexed
    requests: int = 0  # of the last attempt
    changes: tuple[Change, ...] = ()  # at most MAX_CHANGES
    rules: str = ""  # digest of the rules of the last attempt
    wanted: str = ""  # the request that the last attempt answered
    budget: RequestBudget = NO_BUDGET  # as the host last reported it
    unchanged: int = 0  # consecutive listings in which the host had no news


@dataclass(frozen=True, slots=True)
class SourceState:
    """A connection whose repositories are followed, as all processes know it."""

    declared: SourceDeclaration
    outcome: SourceOutcome = SourceOutcome()
    wanted: str = ""  # the last request

    @property
    def mode(self) -> Mode:
        """Return what the next attempt is to do."""
        return Mode.of(self.wanted) if self.is_asked else Mode.SYNC

    @property
    def is_asked(self) -> bool:
        """Return whether a listing was requested that has not been made yet."""
        return self.wanted != self.outcome.wanted

    @property
    def interval_s(self) -> int:
        """Return the interval of listings, which doubles with each one without news, up to a bound.

        What counts as news is decided by `reconcile.has_news`.
        """
        every_s = self.declared.every_s
        longest_s = max(every_s, self.declared.at_least_every_s)
        # More doublings than the bound has bits change nothing, but would make huge numbers.
        doublings = min(self.outcome.unchanged, longest_s.bit_length())
        return min(every_s << doublings, longest_s)

    def is_due(self, now: float) -> bool:
        """Return whether it is time to list the repositories."""
        if self.is_asked or self.declared.rules != self.outcome.rules:
            return True
        interval_s = min(self.interval_s, RETRY_S) if self.outcome.error else self.interval_s
        early = JITTER * fraction(self.declared.name, self.outcome.attempted_at)
        return now - self.outcome.attempted_at >= interval_s * (1 - early)
