"""What of the searched repositories is indexed: in every answer, also in one from the cache.

It is looked up beside the answer and never stored with it, because a run changes it every second.
Each repository costs two round trips, so what was seen is remembered for a moment.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Protocol

from codelode.model import DEFAULT_REF, RefName, RefStatus, RepositoryName, Run, RunState
from codelode.ports import Catalog, Runs

#: Repositories told of in one answer.
MAX_REPOSITORIES = 20

#: How long a repository's state is taken for current, seconds.
FRESH_S = 1.0

_MAX_REMEMBERED = 10_000


class Ledger(Catalog, Runs, Protocol):
    """What is asked here."""


@dataclass(frozen=True, slots=True)
class Covered:
    """What of one repository is in the index at one ref."""

    repository: RepositoryName
    ref: RefName
    revision: str  # the indexed commit; empty while the first run is under way
    pending: int
    failed: int
    is_complete: bool  # a run has completed and none is changing files


@dataclass(frozen=True, slots=True)
class Coverage:
    """Remembers what it saw for FRESH_S; safe to share between threads."""

    ledger: Ledger
    clock: Callable[[], float] = time.monotonic
    _seen: dict[tuple[RepositoryName, RefName], tuple[float, Covered]] = field(default_factory=dict)

    def of(self, names: Iterable[RepositoryName], ref: RefName) -> tuple[Covered, ...]:
        """Of the first MAX_REPOSITORIES names."""
        distinct = list(dict.fromkeys(names))[:MAX_REPOSITORIES]
        return tuple(self._of(name, ref) for name in distinct)

    def _of(self, name: RepositoryName, ref: RefName) -> Covered:
        now = self.clock()
        at, known = self._seen.get((name, ref), (float("-inf"), None))
        if known is not None and now - at < FRESH_S:
            return known
        if len(self._seen) >= _MAX_REMEMBERED:
            self._seen.clear()
        found = self._look(name, ref)
        self._seen[name, ref] = (now, found)
        return found

    def _look(self, name: RepositoryName, ref: RefName) -> Covered:
        refs = self.ledger.refs(name)
        status = _status(refs, ref)
        runs = self.ledger.recent(name, limit=1)
        return Covered(
            repository=name,
            ref=status.ref if status else ref,
            revision=(status.indexed or "") if status else "",
            pending=sum(map(_pending, runs)),
            failed=status.failed if status else 0,
            is_complete=bool(refs) and all(one.indexed and one.is_clean for one in refs),
        )


def _status(refs: Iterable[RefStatus], ref: RefName) -> RefStatus | None:
    """Of the ref; the default one is the first."""
    return next((one for one in refs if ref in (DEFAULT_REF, one.ref)), None)


def _pending(run: Run) -> int:
    """Files that the run still works on."""
    return (
        0
        if run.state.is_over or run.state is RunState.QUEUED
        else run.total - run.done - run.failed
    )
