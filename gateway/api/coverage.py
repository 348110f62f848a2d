"""What of the searched repositories is indexed: in every answer, also in one from the cache.

It is looked up beside the answer and never stored with it, because a run changes it every second.
That takes two round trips, so what was seen is remembered for a moment.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from codelode.model import (
    DEFAULT_REF,
    RefName,
    RefStatus,
    RepositoryName,
)
from codelode.ports import Catalog

#: Repositories told of in one answer.
MAX_REPOSITORIES = 20

#: How long a repository's state is taken for current, seconds.
FRESH_S = 1.0

_MAX_REMEMBERED = 10_000


@dataclass(frozen=True, slots=True)
class Covered:
    """What of one repository is in the index at one ref."""

    repository: RepositoryName
    ref: RefName
    revision: str  # the indexed commit; empty while the first run is under way
    pending: int  # files to index, as they are now, or to remove
    failed: int
    is_complete: bool  # a run of each ref has completed, and no file is pending since


@dataclass(frozen=True, slots=True)
class Coverage:
    """Remembers what it saw for FRESH_S; safe to share between threads."""

    ledger: Catalog
    clock: Callable[[], float] = time.monotonic
    _seen: dict[tuple[RepositoryName, RefName], tuple[float, Covered]] = field(default_factory=dict)

    def of(self, names: Iterable[RepositoryName], ref: RefName) -> tuple[Covered, ...]:
        """Of the first MAX_REPOSITORIES names."""
        distinct, now = _first(names), self.clock()
        known = {name: found for name in distinct if (found := self._fresh(name, ref, now))}
        asked = [name for name in distinct if name not in known]
        if len(self._seen) + len(asked) > _MAX_REMEMBERED:
            self._seen.clear()
        for name, refs in zip(asked, self.ledger.refs_of(asked), strict=True):
            known[name] = _covered(name, ref, refs)
            self._seen[name, ref] = (now, known[name])
        return tuple(known[name] for name in distinct)

    def remembered(
        self, names: Iterable[RepositoryName], ref: RefName
    ) -> tuple[Covered, ...] | None:
        """The same without asking the ledger; None where one of them was not seen lately."""
        now = self.clock()
        found = [self._fresh(name, ref, now) for name in _first(names)]
        known = tuple(one for one in found if one is not None)
        return known if len(known) == len(found) else None

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
