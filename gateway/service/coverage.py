"""Read the coverage of repositories: how much of each is indexed.

Coverage is part of every answer. It changes every second during a run, so it is never stored with a
cached answer. Reading it takes two round trips to the ledger, so it is cached for FRESH_S, and that
of recently searched repositories is refreshed while a search waits for the index.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from codelode.ledger import Catalog
from codelode.model import (
    DEFAULT_REF,
    Filters,
    RefName,
    RefStatus,
    RepositoryName,
    RepositoryRef,
)
from gateway.service.catalog import VisibleCatalog

#: Maximum number of repositories whose coverage is in one answer.
MAX_REPOSITORIES = 20

#: Maximum number of repositories read together: those in the answer, and those of at most 200 hits.
MAX_READ = 220

#: How long cached coverage counts as current, seconds.
FRESH_S = 1.0

#: Shortest time between two refreshes, and the time after a request during which its repositories
#: are refreshed, seconds.
RENEW_S = 0.8
RECENT_S = 10.0
MAX_RENEWED = 64

_MAX_CACHED = 10_000


@dataclass(frozen=True, slots=True)
class Coverage:
    """The state of the index of one repository at one ref."""

    repository: RepositoryName
    ref: RefName
    revision: str  # the indexed commit; empty while the first run is under way
    pending: int  # files that are still to be indexed or removed
    failed: int
    is_complete: bool  # every ref is indexed, and no file of any is pending
    url: str = ""  # of the repository; internal
    committed_at: float = 0.0  # time of the indexed commit, 0: not recorded; internal


@dataclass(slots=True)
class CoverageReader:
    """Reads coverage from the ledger and caches it for FRESH_S.

    Callers pass only repositories that their principal may see. `read` and `renew` may be called in
    any thread, the other methods only in the thread of the event loop.
    """

    ledger: Catalog
    clock: Callable[[], float] = time.monotonic
    _seen: dict[RepositoryRef, tuple[float, Coverage]] = field(default_factory=dict)
    _asked: dict[RepositoryRef, float] = field(default_factory=dict)  # when; latest last
    _renewed_at: float = float("-inf")
    _is_renewing: bool = False

    def read(self, names: Iterable[RepositoryName], ref: RefName) -> tuple[Coverage, ...]:
        """Return the coverage of the first MAX_READ names."""
        distinct, now = _first(names), self.clock()
        known = {name: found for name in distinct if (found := self._fresh(name, ref, now))}
        looked_up = self._look_up([(name, ref) for name in distinct if name not in known])
        return tuple(known.get(name) or looked_up[name, ref] for name in distinct)

    def cached(self, names: Iterable[RepositoryName], ref: RefName) -> tuple[Coverage, ...] | None:
        """Return the coverage from the cache, or None if part of it is not cached."""
        distinct, now = _first(names), self.clock()
        self._note([(name, ref) for name in distinct], now)
        found = [self._fresh(name, ref, now) for name in distinct]
        known = tuple(one for one in found if one is not None)
        return known if len(known) == len(found) else None

    async def of(self, names: Collection[RepositoryName], ref: RefName) -> tuple[Coverage, ...]:
        """Return the same as `read`; use a thread only if part of it is not cached."""
        covered = self.cached(names, ref)
        return await asyncio.to_thread(self.read, names, ref) if covered is None else covered

    async def searched(
        self, catalog: VisibleCatalog, filters: Filters, holding: Sequence[RepositoryName]
    ) -> tuple[Coverage, ...]:
        """Return the coverage of the first repositories that a search with the filters reads.

        `holding`: the repositories in its answer.
        """
        names = await asyncio.to_thread(catalog.searched, filters, holding)
        return await self.of(names[:MAX_REPOSITORIES], filters.ref)

    async def commit_times(
        self, names: Collection[RepositoryName], ref: RefName
    ) -> Mapping[RepositoryName, float]:
        """Return the time of the indexed commit of each repository; 0: not recorded."""
        return {one.repository: one.committed_at for one in await self.of(names, ref)}

    def due(self) -> Sequence[RepositoryRef]:
        """Return the recently requested refs, to be passed to `renew`.

        Empty while a refresh is under way, and for RENEW_S after its start.
        """
        now = self.clock()
        if self._is_renewing or now - self._renewed_at < RENEW_S:
            return ()
        refs = [ref for ref, asked_at in self._asked.items() if now - asked_at < RECENT_S]
        self._is_renewing, self._renewed_at = bool(refs), now
        return refs

    def renew(self, refs: Sequence[RepositoryRef]) -> None:
        """Read the coverage of the refs, which `due` returned, into the cache."""
        try:
            self._look_up(refs)
        finally:
            self._is_renewing = False

    def _note(self, refs: Iterable[RepositoryRef], now: float) -> None:
        for ref in refs:
            self._asked.pop(ref, None)
            self._asked[ref] = now
            if len(self._asked) > MAX_RENEWED:
                del self._asked[next(iter(self._asked))]

    def _look_up(self, refs: Sequence[RepositoryRef]) -> Mapping[RepositoryRef, Coverage]:
        names, now = list(dict.fromkeys(name for name, _ in refs)), self.clock()
        if not names:
            return {}
        known = dict(zip(names, self.ledger.refs_of(names), strict=True))
        registered = {one.name: one.url for one in self.ledger.get_all(names) if one}
        found = {
            (name, ref): _coverage(name, ref, known[name], url=registered.get(name, ""))
            for name, ref in refs
        }
        if len(self._seen) + len(found) > _MAX_CACHED:
            self._seen.clear()
        for at, coverage in found.items():
            if self._seen.get(at, (now, coverage))[0] <= now:  # otherwise the entry is newer
                self._seen[at] = (now, coverage)
        return found

    def _fresh(self, name: RepositoryName, ref: RefName, now: float) -> Coverage | None:
        at, found = self._seen.get((name, ref), (now, None))
        return found if now - at < FRESH_S else None


def _first(names: Iterable[RepositoryName]) -> list[RepositoryName]:
    return list(dict.fromkeys(names))[:MAX_READ]


def _coverage(
    name: RepositoryName, ref: RefName, refs: Sequence[RefStatus], *, url: str
) -> Coverage:
    status = _status(refs, ref)
    return Coverage(
        repository=name,
        ref=status.ref if status else ref,
        revision=(status.indexed or "") if status else "",
        pending=status.pending if status else 0,
        failed=status.failed if status else 0,
        is_complete=bool(refs) and all(one.indexed and not one.pending for one in refs),
        url=url,
        committed_at=status.committed_at if status else 0.0,
    )


def _status(refs: Iterable[RefStatus], ref: RefName) -> RefStatus | None:
    """Return the status of the ref; the default ref comes first in `refs`."""
    return next((one for one in refs if ref in (DEFAULT_REF, one.ref)), None)
