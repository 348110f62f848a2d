"""What of the searched repositories is indexed: in every answer, also in one from the cache.

It is looked up beside the answer and never stored with it, because a run changes it every second.
That takes two round trips, so what was seen is remembered for a moment, and what was asked for
lately is looked up again while a search waits for the index.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from codelode.ledger import Catalog
from codelode.model import DEFAULT_REF, RefName, RefStatus, RepositoryName

#: Repositories told of in one answer.
MAX_REPOSITORIES = 20

#: How long a repository's state is taken for current, seconds.
FRESH_S = 1.0

#: How often what was asked for lately is looked up again, seconds, and what counts as lately.
RENEW_S = 0.8
LATELY_S = 10.0
MAX_RENEWED = 64

_MAX_REMEMBERED = 10_000

#: A repository at a ref.
Place: TypeAlias = tuple[RepositoryName, RefName]


@dataclass(frozen=True, slots=True)
class Covered:
    """What of one repository is in the index at one ref."""

    repository: RepositoryName
    ref: RefName
    revision: str  # the indexed commit; empty while the first run is under way
    pending: int  # files to index, as they are now, or to remove
    failed: int
    is_complete: bool  # a run of each ref has completed, and no file is pending since


@dataclass(slots=True)
class Coverage:
    """Remembers what it saw for FRESH_S. `of` and `renew` may be called in any thread, the rest in
    that of the event loop.
    """

    ledger: Catalog
    clock: Callable[[], float] = time.monotonic
    _seen: dict[Place, tuple[float, Covered]] = field(default_factory=dict)
    _asked: dict[Place, float] = field(default_factory=dict)  # when; the latest last
    _renewed_at: float = float("-inf")
    _is_renewing: bool = False

    def of(self, names: Iterable[RepositoryName], ref: RefName) -> tuple[Covered, ...]:
        """Of the first MAX_REPOSITORIES names."""
        distinct, now = _first(names), self.clock()
        known = {name: found for name in distinct if (found := self._fresh(name, ref, now))}
        looked_up = self._look_up([(name, ref) for name in distinct if name not in known])
        return tuple(known.get(name) or looked_up[name, ref] for name in distinct)

    def remembered(
        self, names: Iterable[RepositoryName], ref: RefName
    ) -> tuple[Covered, ...] | None:
        """The same without asking the ledger; None where one of them was not seen lately."""
        distinct, now = _first(names), self.clock()
        self._note([(name, ref) for name in distinct], now)
        found = [self._fresh(name, ref, now) for name in distinct]
        known = tuple(one for one in found if one is not None)
        return known if len(known) == len(found) else None

    def due(self) -> Sequence[Place]:
        """What was asked for lately, to be given to `renew`; nothing while that is done or was done
        within RENEW_S.
        """
        now = self.clock()
        if self._is_renewing or now - self._renewed_at < RENEW_S:
            return ()
        places = [place for place, asked_at in self._asked.items() if now - asked_at < LATELY_S]
        self._is_renewing, self._renewed_at = bool(places), now
        return places

    def renew(self, places: Sequence[Place]) -> None:
        """Looks up again what was due, so that it is remembered when it is asked for."""
        try:
            self._look_up(places)
        finally:
            self._is_renewing = False

    def _note(self, places: Iterable[Place], now: float) -> None:
        for place in places:
            self._asked.pop(place, None)
            self._asked[place] = now
            if len(self._asked) > MAX_RENEWED:
                del self._asked[next(iter(self._asked))]

    def _look_up(self, places: Sequence[Place]) -> Mapping[Place, Covered]:
        names, now = list(dict.fromkeys(name for name, _ in places)), self.clock()
        refs = dict(zip(names, self.ledger.refs_of(names), strict=True)) if names else {}
        found = {(name, ref): _covered(name, ref, refs[name]) for name, ref in places}
        if len(self._seen) + len(found) > _MAX_REMEMBERED:
            self._seen.clear()
        for place, covered in found.items():
            if self._seen.get(place, (now, covered))[0] <= now:  # else another look-up knew better
                self._seen[place] = (now, covered)
        return found

    def _fresh(self, name: RepositoryName, ref: RefName, now: float) -> Covered | None:
        at, found = self._seen.get((name, ref), (now, None))
        return found if now - at < FRESH_S else None


def _first(names: Iterable[RepositoryName]) -> list[RepositoryName]:
    return list(dict.fromkeys(names))[:MAX_REPOSITORIES]


def _covered(name: RepositoryName, ref: RefName, refs: Sequence[RefStatus]) -> Covered:
    status = _status(refs, ref)
    return Covered(
        repository=name,
        ref=status.ref if status else ref,
        revision=(status.indexed or "") if status else "",
        pending=status.pending if status else 0,
        failed=status.failed if status else 0,
        is_complete=bool(refs) and all(one.indexed and not one.pending for one in refs),
    )


def _status(refs: Iterable[RefStatus], ref: RefName) -> RefStatus | None:
    """Of the ref; the default one is the first."""
    return next((one for one in refs if ref in (DEFAULT_REF, one.ref)), None)
