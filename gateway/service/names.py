"""List the definitions of names, and the uses of a name, in all indexed repositories.

Instead of a name, a request may have a position at which the name is written.

Both read the tables that the parser fills, so names in comments and strings do not match. The chunk
index returns the files inside the filters and the visibility that may have a match.
"""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from codelode import globs, grams
from codelode.access import Principal, Visibility
from codelode.counts import counted
from codelode.errors import InvalidQuery
from codelode.model import (
    FileKey,
    FileQuery,
    Filters,
    HybridQuery,
    LocatedSymbol,
    RefName,
    RepositoryName,
    Symbol,
)
from codelode.name_resolution import dotted
from gateway import pipeline
from gateway.exact.names import NamePattern, name_pattern
from gateway.expand.graph import NO_REFERENCES
from gateway.expand.subject import NO_SYMBOLS
from gateway.expand.uses import Uses, UsesQuery, uses
from gateway.service import queries
from gateway.service.audit import involve, note
from gateway.service.capabilities import permitted
from gateway.service.catalog import VisibleCatalog
from gateway.service.dependencies import Dependencies, reads_index
from gateway.service.hints import filter_hints
from gateway.service.positions import name_at, position
from gateway.service.query_filters import FilterReader
from gateway.service.requests import ReferencesRequest, SymbolsRequest
from gateway.service.results import ReferencesAnswer, SymbolsAnswer, definition_of
from gateway.service.scopes import VisibleScopes
from gateway.state import Backends

#: Default and maximum limit of the definitions, or uses, in an answer.
DEFAULT_LIMIT = 200
MAX_LIMIT = 10_000

#: The notice if a name has a definition but no uses.
NO_USE = (
    "only calls, instantiations, decorators, and inherited bases count as uses; an exact search "
    "for the whole word finds every line that has the name"
)

#: Number of files whose definitions are read together.
BATCH = 200


@dataclass(frozen=True, slots=True)
class _Listing:
    """A checked request."""

    pattern: NamePattern
    filters: Filters
    visible: Visibility
    limit: int
    notices: tuple[str, ...]  # about the filters


@permitted
@reads_index
async def symbols(
    dependencies: Dependencies, backends: Backends, principal: Principal, request: SymbolsRequest
) -> SymbolsAnswer:
    """List the definitions whose name matches a glob. Raises InvalidQuery."""
    started = time.perf_counter()
    involve(query=request.name)
    reader = _reader(dependencies, principal)
    listing = await asyncio.to_thread(_checked, request, reader)
    name, said = request.name.strip(), tuple[str, ...]()
    if request.literal:
        name, said = await _meant(name, listing.filters.ref, principal, backends)
        listing = replace(listing, pattern=name_pattern(name, is_literal=True))
    query = FileQuery(
        listing.pattern.needed,
        listing.filters,
        listing.pattern.defines,
        visible=listing.visible,
    )
    places = await backends.chunks.holding(query)
    if listing.pattern.is_wild:
        why = "matches any name, so"
        queries.check_narrowed("name", len(places), why, remedy="letters to it, or filters")
    found, read = await _definitions(listing, places, backends)
    notices = [*_notices(listing, found, len(places) - read, backends), *listing.notices]
    notices += said
    notices += await _hints(query.filters, query.visible, backends, is_found=bool(found))
    if not found and (not request.literal or listing.pattern.last.isidentifier()):
        notices.append(await _undefined(name, query.filters, query.visible, backends))
    found = found[: listing.limit]
    holding = tuple(dict.fromkeys(at.repository for at in found))
    involve(holding)
    note(definitions=len(found), read=read)
    return SymbolsAnswer(
        symbols=tuple(map(definition_of, found)),
        notices=tuple(notices),
        took_ms=1000 * (time.perf_counter() - started),
        coverage=await dependencies.coverage.searched(
            replace(reader.catalog, visible=query.visible), query.filters, holding
        ),
    )


@permitted
@reads_index
async def references(
    dependencies: Dependencies,
    backends: Backends,
    principal: Principal,
    request: ReferencesRequest,
) -> ReferencesAnswer:
    """List the uses of a name, the most certain ones first. Raises InvalidQuery."""
    started = time.perf_counter()
    involve(query=request.name)
    reader = _reader(dependencies, principal)
    query, told = await asyncio.to_thread(_uses_query, request, reader)
    name, said = await _meant(query.name, query.filters.ref, principal, backends)
    query = replace(query, name=name)
    is_possible = backends.symbols is not None and backends.references is not None
    files = await _using(query, backends) if is_possible else ()
    listed = await uses(query, files, backends) if is_possible else Uses((), True, False)
    notices = [*([] if is_possible else [NO_REFERENCES]), *_about_uses(query, listed), *told, *said]
    notices += await _hints(query.filters, query.visible, backends, is_found=bool(listed.found))
    if not listed.is_defined:
        notices.append(await _undefined(query.name, query.filters, query.visible, backends))
    elif not listed.found:
        notices.append(NO_USE)
    holding = tuple(dict.fromkeys(one.repository for one in listed.found))
    defining = (one.definition.repository for one in listed.found if one.definition)
    involve(dict.fromkeys((*holding, *defining)))
    note(references=len(listed.found))
    return ReferencesAnswer(
        references=listed.found,
        notices=tuple(notices),
        took_ms=1000 * (time.perf_counter() - started),
        coverage=await dependencies.coverage.searched(
            replace(reader.catalog, visible=query.visible), query.filters, holding
        ),
    )


async def _meant(
    text: str, ref: RefName, principal: Principal, backends: Backends
) -> tuple[str, tuple[str, ...]]:
    """Return the name at a position, with a notice that says it, or the name that the text is."""
    at = position(text)
    if at is None:
        return text, ()
    name = await name_at(at, ref, principal.visible, backends)
    return name, (f"the name at {text.strip()[:200]} is {name!r}",)


async def _using(query: UsesQuery, backends: Backends) -> Sequence[FileKey]:
    """Return the files that contain the last part of the name. Raises InvalidQuery for too many."""
    asked = FileQuery(grams.of_text(query.last), query.filters, visible=query.visible)
    files = await backends.chunks.holding(asked)
    if asked.grams == grams.NOTHING:
        why = "is so short that the uses in"
        queries.check_narrowed("name", len(files), why, remedy="filters")
    return files


def _reader(dependencies: Dependencies, principal: Principal) -> FilterReader:
    catalog = VisibleCatalog(dependencies.ledger, principal.visible)
    return FilterReader(VisibleScopes(dependencies.scopes, catalog))


def _uses_query(
    request: ReferencesRequest, reader: FilterReader
) -> tuple[UsesQuery, tuple[str, ...]]:
    """Return the checked request, and notices about its filters. Raises InvalidQuery."""
    name = queries.query_text(request.name, field="name")
    queries.check_size("name", [name])
    filters, visible, _, notices = reader.narrowed(request.filters)
    for field in ("kinds", "symbols", "block_types"):
        if getattr(filters, field):
            raise InvalidQuery(f"filters.{field}", "does not apply to uses; leave it out")
    limit = queries.bounded("limit", request.limit, default=DEFAULT_LIMIT, most=MAX_LIMIT)
    known = tuple(reader.catalog.names())
    return UsesQuery(name, filters, visible, known, limit), notices


def _about_uses(query: UsesQuery, listed: Uses) -> Iterator[str]:
    if listed.has_more:
        yield (
            f"only the first {counted(query.limit, 'use')} are shown; raise `limit`, or add filters"
        )


def _checked(request: SymbolsRequest, reader: FilterReader) -> _Listing:
    text = queries.query_text(request.name, field="name")
    queries.check_size("name", [text])
    filters, visible, _, told = reader.narrowed(request.filters)
    if filters.block_types:
        raise InvalidQuery("filters.block_types", "does not apply to names; use the kind `block`")
    limit = queries.bounded("limit", request.limit, default=DEFAULT_LIMIT, most=MAX_LIMIT)
    return _Listing(name_pattern(text, is_literal=request.literal), filters, visible, limit, told)


async def _definitions(
    listing: _Listing, places: Sequence[FileKey], backends: Backends
) -> tuple[list[LocatedSymbol], int]:
    """Return definitions and the number of files that were read.

    There are more definitions than the limit if not all of them can be shown.
    """
    found: list[LocatedSymbol] = []
    read = 0
    while read < len(places) and len(found) <= listing.limit and backends.symbols is not None:
        batch = places[read : read + BATCH]
        found += await asyncio.to_thread(_defined_in, batch, listing, backends)
        read += len(batch)
    return found, read


def _defined_in(
    places: Iterable[FileKey], listing: _Listing, backends: Backends
) -> list[LocatedSymbol]:
    assert backends.symbols is not None
    paths: defaultdict[RepositoryName, list[str]] = defaultdict(list)
    for repository, path in places:
        paths[repository].append(path)
    return [
        at
        for repository, some in paths.items()
        for found in backends.symbols.defined_in(repository, listing.filters.ref, some).values()
        for at in found
        if _is_wanted(at.symbol, listing)
    ]


def _is_wanted(symbol: Symbol, listing: _Listing) -> bool:
    kinds, globs = listing.filters.kinds, listing.filters.symbols
    return (
        listing.pattern.matches(symbol)
        and (not kinds or symbol.kind in kinds)
        and (not globs or any(name_pattern(g, is_literal=False).matches(symbol) for g in globs))
    )


def _notices(
    listing: _Listing, found: Sequence[LocatedSymbol], left: int, backends: Backends
) -> Iterator[str]:
    if backends.symbols is None:
        yield NO_SYMBOLS
    if len(found) > listing.limit:
        unread = f", and {counted(left, 'file')} that may have more were not read" if left else ""
        yield (
            f"only the first {counted(listing.limit, 'definition')} are shown{unread}; raise "
            "`limit`, or add filters"
        )


async def _hints(
    filters: Filters, visible: Visibility, backends: Backends, *, is_found: bool
) -> tuple[str, ...]:
    """Return a notice for each filter that matches nothing, except filters of definitions."""
    of_files = replace(filters, kinds=(), symbols=())
    return await filter_hints(of_files, visible, backends, is_found=is_found)


async def _undefined(name: str, filters: Filters, visible: Visibility, backends: Backends) -> str:
    """Return a notice that no definition has the name or matches the glob, with similar names."""
    last = dotted(name).rpartition(".")[2]
    asked = HybridQuery(globs.longest_literal(last), None, filters, 1, visible=visible)
    near = await pipeline.similar_names(last, asked, backends)
    if globs.is_literal(last):
        near, how = near[:1], "is named"
    else:
        how = "matches"
    told = f"no definition {how} {name[:100]!r}"
    return f"{told}; did you mean {' or '.join(map(repr, near))}?" if near else told
