"""Look up the scopes that are declared, within a visibility.

A scope is visible if one of its repositories is. The others are reported exactly as scopes that do
not exist: they are neither found, nor listed, nor suggested.
"""

from __future__ import annotations

import asyncio
import threading
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import NamedTuple

from codelode import deadline
from codelode.access import Principal
from codelode.counts import counted
from codelode.errors import InvalidQuery
from codelode.globs import signed
from codelode.model import DEFAULT_REF, Filters, RefName, RepositoryName
from codelode.scopes import Scope, Scopes
from gateway.service.capabilities import permitted
from gateway.service.catalog import VisibleCatalog, unknown
from gateway.service.dependencies import Dependencies
from gateway.service.results import ListedScope

#: Repositories of a scope that a list of scopes names.
MAX_NAMED = 100


class FoundScope(NamedTuple):
    """A scope and its visible repositories, in order; there is at least one."""

    scope: Scope
    repositories: Sequence[RepositoryName]


class _Membership:
    """Knows to which of some scopes a repository belongs, and compares each name with them once.

    200 scopes and 10,000 names take about a second. What is known of a name does not depend on
    other names, so that a new repository costs one comparison, whoever sees it.
    """

    def __init__(self, scopes: Iterable[Scope]) -> None:
        self._tests = [(scope.name, scope.admits) for scope in scopes]
        self._of: dict[RepositoryName, frozenset[str]] = {}
        self._lock = threading.Lock()

    def of(self, names: Iterable[RepositoryName]) -> dict[RepositoryName, frozenset[str]]:
        """Return the names of the scopes of each repository. Raises TimedOut."""
        with self._lock:  # two callers do not compare the same names
            return {name: self._known(name) for name in names}

    def _known(self, name: RepositoryName) -> frozenset[str]:
        found = self._of.get(name)
        if found is None:
            deadline.check()
            found = frozenset(scope for scope, admits in self._tests if admits(name))
            self._of[name] = found
        return found


@lru_cache(maxsize=4)
def _membership(scopes: tuple[Scope, ...]) -> _Membership:
    """Return what is known of these scopes; it begins anew with another version of the file."""
    return _Membership(scopes)


@dataclass(frozen=True)
class VisibleScopes:
    """The scopes that have a repository of the catalog, for one request. The methods block.

    The file and the names of the repositories are read once, when a scope is first asked for.
    Which scopes there are is found from the visible repositories alone, so that a hidden scope
    makes the same work as one that does not exist.
    """

    declared: Callable[[], Scopes]
    catalog: VisibleCatalog

    @cached_property
    def names(self) -> frozenset[str]:
        """The names of the scopes."""
        return frozenset[str]().union(*set(self._of.values()))

    def find(self, name: str) -> FoundScope | None:
        """Return the scope of this name; None: there is none with a visible repository."""
        if name not in self.names:
            return None
        found = [repository for repository, scopes in self._of.items() if name in scopes]
        return FoundScope(self._declared[name], found)

    def get(self, name: str) -> FoundScope:
        """Return the scope of this name. Raises InvalidQuery with similar names."""
        found = self.find(name)
        if found is None:
            raise InvalidQuery("filters.scope", _unknown(name, sorted(self.names)))
        return found

    def listed(self) -> Iterator[FoundScope]:
        """Yield each scope, by name."""
        members = defaultdict[str, list[RepositoryName]](list)
        for repository, scopes in self._of.items():
            for name in scopes:
                members[name].append(repository)
        return (FoundScope(self._declared[name], found) for name, found in sorted(members.items()))

    @cached_property
    def _declared(self) -> Scopes:
        return self.declared()

    @cached_property
    def _of(self) -> Mapping[RepositoryName, frozenset[str]]:
        """The names of the scopes of each visible repository, in order."""
        return _membership(tuple(self._declared.values())).of(self.catalog.names())


@permitted
async def scopes(dependencies: Dependencies, principal: Principal) -> tuple[ListedScope, ...]:
    """List the scopes with a visible repository, by name."""
    catalog = VisibleCatalog(dependencies.ledger, principal.visible)
    return await asyncio.to_thread(_listed, VisibleScopes(dependencies.scopes, catalog))


def limited(
    filters: Filters, found: FoundScope, catalog: VisibleCatalog, *, has_ref: bool
) -> tuple[Filters, tuple[str, ...]]:
    """Return the filters with the ref and the paths of the scope, and notices.

    Raises InvalidQuery. `catalog` has the repositories of the scope that globs of the query leave.
    `has_ref`: the request names the ref.
    """
    within, not_paths = signed(found.scope.paths)
    ref, notices = _ref(filters, found, catalog, has_ref=has_ref)
    excluded = (*filters.not_paths, *not_paths)
    return replace(filters, ref=ref, within=tuple(within), not_paths=excluded), notices


def _ref(
    filters: Filters, found: FoundScope, catalog: VisibleCatalog, *, has_ref: bool
) -> tuple[RefName, tuple[str, ...]]:
    """Return the ref to search. Refs are read only if there is something to choose or to check."""
    if not (found.scope.refs or has_ref):
        return filters.ref, ()
    named = filters.repositories or found.repositories
    searched = [
        name for name in named if name in catalog.visible and name not in filters.not_repositories
    ]
    counts = {**catalog.ref_counts(searched), DEFAULT_REF: len(searched)}
    offered = [RefName(ref) for ref in found.scope.refs if ref in counts]
    if has_ref:
        _check_ref(filters.ref, found.scope, offered if found.scope.refs else sorted(counts))
        return filters.ref, ()
    if not offered:
        raise InvalidQuery("filters.scope", _unindexed(found, len(searched)))
    return offered[0], tuple(_lacking(offered[0], found.scope, counts[offered[0]], len(searched)))


def _lacking(ref: RefName, scope: Scope, holding: int, searched: int) -> Iterator[str]:
    if holding < searched:
        yield (
            f"the scope {scope.name!r} was searched at its ref {ref!r}, which is not indexed in "
            f"{searched - holding:,} of {searched:,} repositories; give another ref for these"
        )


def _unindexed(found: FoundScope, searched: int) -> str:
    told = f"no ref of the scope {found.scope.name!r} is indexed"
    if searched == len(found.repositories):
        return f"{told}; index one of them"
    left = f"{searched:,} of its {counted(len(found.repositories), 'repository')}"
    return f"{told} in what the other filters leave, {left}; index one, or leave a filter out"


def outside(field: str, scope: Scope) -> InvalidQuery:
    """Return the error for a filter that leaves nothing of the scope."""
    return InvalidQuery(
        field, f"names no repository of the scope {scope.name!r}; leave one of the two out"
    )


def _check_ref(ref: RefName, scope: Scope, admitted: Sequence[RefName]) -> None:
    if ref not in admitted:
        there = f"; there are: {', '.join(admitted[:MAX_NAMED])}" if admitted else ""
        raise InvalidQuery("filters.ref", f"{ref!r} is no ref of the scope {scope.name!r}{there}")


def _unknown(name: str, known: Sequence[str]) -> str:
    if known:
        return unknown("scope", name, known)
    return f"there is no scope {name[:100]!r}, nor any other with a repository that you see"


def _listed(visible: VisibleScopes) -> tuple[ListedScope, ...]:
    return tuple(_shown(visible.catalog, one) for one in visible.listed())


def _shown(catalog: VisibleCatalog, found: FoundScope) -> ListedScope:
    """Return the scope without its globs and refs that the caller could not know."""
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
