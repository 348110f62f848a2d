"""Report which filters of a call match nothing that is indexed.

An unknown repository or language is rejected. A glob, a kind, or a type of block is valid whether
or not it matches anything: HCL and Kubernetes let authors define their own types of blocks, and no
store can list its values. The index is therefore searched for one chunk with each filter alone,
within the searched repositories. This happens if a call has found nothing, and for every excluded
path, because the results do not show whether an exclusion matches any file.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import PurePosixPath
from typing import Any, NamedTuple

import numpy as np

from codelode.access import Visibility
from codelode.errors import Unavailable
from codelode.infrastructure import BLOCK_TYPES
from codelode.model import Filters, HybridQuery
from codelode.scopes import Scope
from codelode.vectors import Vector
from gateway.service.catalog import nearest
from gateway.state import Backends

#: Maximum number of excluded paths, and of other filter values, that are looked up for an answer.
MAX_LOOKUPS = 8

#: The filters whose values are looked up if a call found nothing.
_FIELDS = ("paths", "symbols", "languages", "kinds", "categories", "block_types")


class _Lookup(NamedTuple):
    """A value of a filter, and filters with only this value."""

    field: str
    value: str
    filters: Filters


async def filter_hints(
    filters: Filters,
    visible: Visibility,
    backends: Backends,
    *,
    is_found: bool,
    scope: Scope | None = None,
) -> tuple[str, ...]:
    """Return a notice for each filter that matches nothing.

    `is_found`: whether the call has found something. `scope`: the scope that is in the filters.
    """
    exclusions = tuple(_exclusions(filters, scope))
    if filters == Filters() or (is_found and not exclusions):
        return ()
    try:
        dim = await asyncio.to_thread(lambda: backends.embedder.dim)
    except Unavailable:
        return ()
    asking = _Asking(visible, backends, np.ones(dim, np.float32))
    idle = [_idle(one) for one in await asking.unmatched(exclusions)]
    return (*idle, *([] if is_found else await _why_nothing(filters, asking)))


class _Asking(NamedTuple):
    """The chunks that a caller sees, and a vector that retrieves any of them."""

    visible: Visibility
    backends: Backends
    vector: Vector

    async def is_empty(self, filters: Filters) -> bool:
        asked = HybridQuery("", self.vector, filters, 1, visible=self.visible)
        return not await self.backends.chunks.hybrid(asked)

    async def unmatched(self, lookups: Iterable[_Lookup]) -> list[_Lookup]:
        some = list(islice(lookups, MAX_LOOKUPS))
        empty = await asyncio.gather(*(self.is_empty(one.filters) for one in some))
        return [one for one, is_empty in zip(some, empty, strict=True) if is_empty]


async def _why_nothing(filters: Filters, asking: _Asking) -> Sequence[str]:
    """Return notices why the filters match nothing, for a call that found nothing."""
    if not await asking.is_empty(filters):
        return ()
    base = _base(filters)
    if filters.repositories and set(filters.repositories) <= set(filters.not_repositories):
        return ["the filters contradict each other: each repository to search is also left out"]
    if await asking.is_empty(base):
        is_narrowed = base != Filters()
        where = "searched scope" if filters.within else "searched repositories"
        return [f"no code is indexed in the {where} at this ref"] * is_narrowed
    alone = [_wrong(one) for one in await asking.unmatched(_values(filters))]
    return alone or ["no indexed code matches all of these filters together"]


def _base(filters: Filters) -> Filters:
    """Return the filters that say where to search: repositories, paths of the scope, and ref."""
    return Filters(
        within=filters.within,
        repositories=filters.repositories,
        not_repositories=filters.not_repositories,
        ref=filters.ref,
    )


def _values(filters: Filters) -> Iterator[_Lookup]:
    for name in _FIELDS:
        for value in getattr(filters, name):
            only: dict[str, Any] = {name: (value,)}
            yield _Lookup(f"filters.{name}", str(value), replace(_base(filters), **only))


def _exclusions(filters: Filters, scope: Scope | None) -> Iterator[_Lookup]:
    """Yield the paths that the request excludes, but not those that its scope excludes."""
    for glob in filters.not_paths:
        if scope is None or f"!{glob}" not in scope.paths:
            only = replace(_base(filters), paths=(glob,))
            yield _Lookup("filters.not_paths", glob, only)


def _wrong(found: _Lookup) -> str:
    told = f"{found.field}: {found.value[:100]!r} matches no indexed code"
    remedy = _remedy(found)
    return f"{told}; {remedy}" if remedy else told


def _idle(found: _Lookup) -> str:
    told = f"{found.field}: {found.value[:100]!r} matches no indexed file and leaves nothing out"
    remedy = _of_path(found.value)
    return f"{told}; {remedy}" if remedy else told


def _remedy(found: _Lookup) -> str:
    if found.field == "filters.paths":
        return _of_path(found.value)
    if found.field == "filters.block_types":
        return _of_block_type(found.value)
    if found.field == "filters.symbols" and found.value.startswith("!"):
        return "only repositories, languages, and paths can be excluded"
    return ""


def _of_path(glob: str) -> str:
    if "[" in glob:
        return "brackets match themselves, as in pages/[id].tsx; give one glob for each alternative"
    if "/" not in glob and ("*" in glob or PurePosixPath(glob).suffix):
        return f"a path is compared as a whole; files of any folder are '**/{glob[:100]}'"
    return "" if glob.endswith("*") else f"everything in a folder is '{glob[:100]}/**'"


def _of_block_type(name: str) -> str:
    if name in BLOCK_TYPES:
        return ""
    close = " or ".join(map(repr, nearest(name, BLOCK_TYPES)))
    return f"did you mean {close}?" if close else "write it as in the file: resource, Deployment"
