"""Look up the scopes that are declared, within a visibility.

A scope is visible if one of its repositories is. The others are reported exactly as scopes that do
not exist: they are neither found, nor listed, nor suggested.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import NamedTuple

from codelode import deadline
from codelode.access import Principal
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


@dataclass(frozen=True, slots=True)
class VisibleScopes:
    """The scopes that have a repository of the catalog. The methods block."""

    declared: Callable[[], Scopes]
    catalog: VisibleCatalog

    def find(self, name: str) -> FoundScope | None:
        """Return the scope of this name; None: there is none with a visible repository."""
        members = self._members()  # so that an unknown scope takes as long as a hidden one
        scope = self.declared().get(name)
        found = members(scope) if scope is not None else ()
        return FoundScope(scope, found) if scope is not None and found else None

    def get(self, name: str) -> FoundScope:
        """Return the scope of this name. Raises InvalidQuery with similar names."""
        found = self.find(name)
        if found is None:
            known = [one.scope.name for one in self.listed()]
            raise InvalidQuery("filters.scope", _unknown(name, known))
        return found

    def listed(self) -> Iterator[FoundScope]:
        """Yield each scope, by name. Raises TimedOut."""
        members = self._members()
        for _, scope in sorted(self.declared().items()):
            deadline.check()
            if found := members(scope):
                yield FoundScope(scope, found)

    def _members(self) -> Callable[[Scope], Sequence[RepositoryName]]:
        """Return a function that returns the visible repositories of a scope, in order.

        It is known to which scope a repository belongs before it is known who sees it, because
        10,000 names take 6 ms for each scope.
        """
        names, visible = tuple(self.catalog.ledger.names()), self.catalog.visible
        known = _known_members(names)

        def members(scope: Scope) -> Sequence[RepositoryName]:
            found = known.get(scope.repositories)
            if found is None:
                found = known[scope.repositories] = tuple(filter(scope.admits, names))
            return [name for name in found if name in visible]

        return members


@lru_cache(maxsize=4)
def _known_members(
    names: tuple[RepositoryName, ...],
) -> dict[tuple[str, ...], tuple[RepositoryName, ...]]:
    """Return where the repositories of a scope are kept by its globs, for these names of all."""
    return {}


@permitted
async def scopes(dependencies: Dependencies, principal: Principal) -> tuple[ListedScope, ...]:
    """List the scopes with a visible repository, by name."""
    catalog = VisibleCatalog(dependencies.ledger, principal.visible)
    return await asyncio.to_thread(_listed, VisibleScopes(dependencies.scopes, catalog))


def limited(filters: Filters, scope: Scope, catalog: VisibleCatalog, *, has_ref: bool) -> Filters:
    """Return the filters with the ref and the paths of the scope. Raises InvalidQuery.

    `catalog` has the repositories of the scope. `has_ref`: the request names the ref.
    """
    known = {DEFAULT_REF, *catalog.ref_names(filters.repositories)}
    offered = [RefName(ref) for ref in scope.refs if ref in known]
    if has_ref:
        _check_ref(filters.ref, scope, offered if scope.refs else sorted(known))
    elif scope.refs and not offered:
        raise InvalidQuery(
            "filters.scope", f"no ref of the scope {scope.name!r} is indexed; index one of them"
        )
    within, not_paths = signed(scope.paths)
    return replace(
        filters,
        ref=offered[0] if offered and not has_ref else filters.ref,
        within=tuple(within),
        not_paths=(*filters.not_paths, *not_paths),
    )


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
