"""Look up declared scopes within a visibility.

A scope is visible if one of its repositories is. The others are reported exactly as scopes that do
not exist: they are neither found, nor listed, nor suggested.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from itertools import islice
from typing import NamedTuple

from codelode import deadline
from codelode.access import Principal
from codelode.counts import counted
from codelode.errors import InvalidQuery
from codelode.globs import signed
from codelode.ledger import Ledger
from codelode.model import DEFAULT_REF, Filters, RefName, RepositoryName
from codelode.scopes import MAX_SCOPES, Scope, Scopes
from gateway.service.capabilities import permitted
from gateway.service.catalog import VisibleCatalog, unknown
from gateway.service.dependencies import Dependencies
from gateway.service.results import ListedScope

#: Maximum number of repositories of a scope that a list of scopes names.
MAX_NAMED = 100
#: Number of names that are compared between two checks of the call's deadline.
_AT_ONCE = 100
#: The scope that is looked up instead of one that does not exist.
_NOTHING = Scope("", repositories=("!**",))


class FoundScope(NamedTuple):
    """A scope and its visible repositories, in order; there is at least one."""

    scope: Scope
    repositories: Sequence[RepositoryName]


class _Known(NamedTuple):
    """The names that were compared with the globs, and those that the globs admit."""

    compared: frozenset[RepositoryName] = frozenset()
    members: frozenset[RepositoryName] = frozenset()


class _Membership:
    """Caches which repositories belong to scopes with the same globs; compares each name once.

    Comparing 10,000 names with 200 scopes takes about a second. A new repository costs one
    comparison, which all callers share. Names that are no longer registered are dropped when a new
    name is compared.
    """

    def __init__(self, globs: tuple[str, ...]) -> None:
        self._admits = Scope("", repositories=globs).admits
        self._known = _Known()
        self._lock = threading.Lock()

    def of(
        self, names: frozenset[RepositoryName], registered: frozenset[RepositoryName]
    ) -> frozenset[RepositoryName]:
        """Return the names that belong to the scopes. Raises TimedOut."""
        known = self._known
        if not names <= known.compared:
            with deadline.holding(self._lock):  # so that callers do not compare the same names
                known = self._known = self._extended(self._known, names, registered)
        return names & known.members

    def _extended(
        self,
        known: _Known,
        names: frozenset[RepositoryName],
        registered: frozenset[RepositoryName],
    ) -> _Known:
        new, compared = _step(known.compared, names, registered)
        return _Known(compared, (known.members & registered).union(self._admitted(new)))

    def _admitted(self, names: Iterable[RepositoryName]) -> Iterator[RepositoryName]:
        left = iter(names)
        while some := tuple(islice(left, _AT_ONCE)):
            deadline.check()
            yield from filter(self._admits, some)


@lru_cache(maxsize=2 * MAX_SCOPES)
def _membership(globs: tuple[str, ...]) -> _Membership:
    """Return the membership for these globs, shared by all versions of the file that have them."""
    return _Membership(globs)


@lru_cache(maxsize=2)  # scopes compared with the same names share one set
def _step(
    compared: frozenset[RepositoryName],
    names: frozenset[RepositoryName],
    registered: frozenset[RepositoryName],
) -> tuple[frozenset[RepositoryName], frozenset[RepositoryName]]:
    """Return the new names, and all names that are compared after this step."""
    return names - compared, names | (compared & registered)


@dataclass(frozen=True)
class VisibleScopes:
    """The scopes that have a repository of the catalog, for one request. The methods block.

    The file and the names of the repositories are read once, when a scope is first requested.
    Whether a scope is visible depends only on visible repositories. A scope that does not exist is
    looked up as one without repositories, so that takes the same time as for a hidden one.
    """

    declared: Callable[[], Scopes]
    catalog: VisibleCatalog

    @cached_property
    def names(self) -> frozenset[str]:
        """The names of the scopes."""
        return frozenset(name for name, scope in self._declared.items() if self._of(scope))

    def find(self, name: str) -> FoundScope | None:
        """Return the scope with this name; None if it has no visible repository."""
        scope = self._declared.get(name, _NOTHING)
        found = self._of(scope)
        return FoundScope(scope, sorted(found)) if found else None

    def get(self, name: str) -> FoundScope:
        """Return the scope with this name. Raises InvalidQuery with similar names."""
        found = self.find(name)
        if found is None:
            raise InvalidQuery("filters.scope", _unknown(name, sorted(self.names)))
        return found

    def listed(self) -> Iterator[FoundScope]:
        """Yield each scope, by name."""
        for name in sorted(self._declared):
            if found := self.find(name):
                yield found

    def _of(self, scope: Scope) -> frozenset[RepositoryName]:
        """Return the visible repositories of the scope."""
        return _membership(scope.repositories).of(self._visible, self._registered)

    @cached_property
    def _declared(self) -> Scopes:
        return self.declared()

    @cached_property
    def _registered(self) -> frozenset[RepositoryName]:
        return frozenset(self.catalog.ledger.names())

    @cached_property
    def _visible(self) -> frozenset[RepositoryName]:
        return frozenset(name for name in self._registered if name in self.catalog.visible)


@permitted
async def scopes(dependencies: Dependencies, principal: Principal) -> tuple[ListedScope, ...]:
    """List the scopes with a visible repository, by name."""
    catalog = VisibleCatalog(dependencies.ledger, principal.visible)
    return await asyncio.to_thread(_listed, VisibleScopes(dependencies.scopes, catalog))


def limited(
    filters: Filters, found: FoundScope, catalog: VisibleCatalog, *, has_ref: bool
) -> tuple[Filters, tuple[str, ...]]:
    """Return the filters with the ref and the paths of the scope, and notices.

    Raises InvalidQuery. `catalog`: the repositories of the scope that match the globs of the query.
    `has_ref`: whether the request or its query names a ref.
    """
    within, not_paths = signed(found.scope.paths)
    ref, notices = _ref(filters, found, catalog, has_ref=has_ref)
    excluded = (*filters.not_paths, *not_paths)
    return replace(filters, ref=ref, within=tuple(within), not_paths=excluded), notices


def _ref(
    filters: Filters, found: FoundScope, catalog: VisibleCatalog, *, has_ref: bool
) -> tuple[RefName, tuple[str, ...]]:
    """Return the ref to search, and notices. Reads refs only if one must be chosen or checked."""
    if not (found.scope.refs or has_ref):
        return filters.ref, ()
    named = filters.repositories or found.repositories
    left_out = frozenset(filters.not_repositories)
    searched = [name for name in named if name in catalog.visible and name not in left_out]
    counts = {**catalog.ref_counts(searched), DEFAULT_REF: len(searched)}
    offered = [RefName(ref) for ref in found.scope.refs if ref in counts]
    if has_ref:
        if filters.ref in found.scope.refs and filters.ref not in counts:
            _check_known(filters.ref, found, catalog.ledger, len(searched))
        _check_ref(filters.ref, found.scope, offered if found.scope.refs else sorted(counts))
        return filters.ref, ()
    if not offered:
        told = f"no ref of the scope {found.scope.name!r} is indexed"
        raise InvalidQuery("filters.scope", _unindexed(told, found, len(searched)))
    return offered[0], tuple(_lacking(offered[0], found.scope, counts[offered[0]], len(searched)))


def _lacking(ref: RefName, scope: Scope, holding: int, searched: int) -> Iterator[str]:
    if holding < searched:
        yield (
            f"the scope {scope.name!r} was searched at its ref {ref!r}, which is not indexed in "
            f"{searched - holding:,} of {searched:,} repositories; give another ref for these"
        )


def _unindexed(told: str, found: FoundScope, searched: int) -> str:
    if searched == len(found.repositories):
        return f"{told}; index one of them"
    left = f"the {searched:,} of its {counted(len(found.repositories), 'repository')}"
    return f"{told} in {left} that the other filters leave; index one there, or leave a filter out"


def outside(field: str, scope: Scope) -> InvalidQuery:
    """Return the error for a filter that leaves nothing of the scope."""
    return InvalidQuery(
        field, f"names no repository of the scope {scope.name!r}; leave one of the two out"
    )


def _check_known(ref: RefName, found: FoundScope, ledger: Ledger, searched: int) -> None:
    """Raise InvalidQuery if a visible repository of the scope has the ref, but none searched."""
    if ref in ledger.ref_counts(found.repositories):
        told = f"the ref {ref!r} of the scope {found.scope.name!r} is not indexed"
        raise InvalidQuery("filters.ref", _unindexed(told, found, searched))


def _check_ref(ref: RefName, scope: Scope, admitted: Sequence[RefName]) -> None:
    if ref not in admitted:
        there = f"; there are: {', '.join(admitted[:MAX_NAMED])}" if admitted else ""
        raise InvalidQuery(
            "filters.ref", f"{ref!r} is not a ref of the scope {scope.name!r}{there}"
        )


def _unknown(name: str, known: Sequence[str]) -> str:
    if known:
        return unknown("scope", name, known)
    return f"there is no scope {name[:100]!r}, nor any other with a repository that you see"


def _listed(visible: VisibleScopes) -> tuple[ListedScope, ...]:
    return tuple(_shown(visible.catalog, one) for one in visible.listed())


def _shown(catalog: VisibleCatalog, found: FoundScope) -> ListedScope:
    """Return the scope without its globs over repositories and refs that the caller cannot see."""
    scope, repositories = found
    refs = scope.refs
    if refs and not catalog.visible.is_everything:
        known = {DEFAULT_REF, *catalog.ref_names(repositories)}
        refs = tuple(ref for ref in refs if ref in known)
    return ListedScope(
        scope.name,
        scope.description,
        tuple(repositories[:MAX_NAMED]),
        len(repositories),
        refs,
        scope.paths,
    )
