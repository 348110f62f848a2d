"""Search for code, write contexts, and find similar code."""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache, partial

from codelode.access import Principal
from codelode.errors import InvalidQuery
from codelode.model import DEFAULT_REF, Filters, RepositoryName
from codelode.permalinks import permalink
from codelode.query_language import QueryParts, parts_of
from gateway import pipeline
from gateway.options import Options
from gateway.service import paging, queries
from gateway.service.answers import AnswerCache, NewAnswer
from gateway.service.audit import involve, note
from gateway.service.capabilities import permitted
from gateway.service.catalog import VisibleCatalog
from gateway.service.coverage import MAX_REPOSITORIES, Coverage
from gateway.service.dependencies import Dependencies, reads_index, start_in_thread
from gateway.service.facets import facets
from gateway.service.hints import filter_hints
from gateway.service.query_filters import FilterReader, compiled_texts, notices, recognised
from gateway.service.requests import SearchRequest, SimilarRequest
from gateway.service.results import (
    ContextAnswer,
    Copy,
    Hit,
    SearchAnswer,
    context_answer,
    search_answer,
)
from gateway.service.scopes import VisibleScopes
from gateway.state import Backends, SearchQuery, SearchState

NOTHING_INDEXED = "nothing is indexed yet: start with `codelode index URL`"
CHANGED = "the ranking has changed since the previous page: hits may repeat or be missing"

#: Maximum offset of a page. A ranking usually ends earlier, with its candidates.
MAX_OFFSET = 10_000

#: Maximum number of repositories that an answer names as not completely indexed.
MAX_INCOMPLETE = 10


@permitted
@reads_index
async def search(
    dependencies: Dependencies, backends: Backends, principal: Principal, request: SearchRequest
) -> SearchAnswer:
    """Return the chunks that answer a query best, ranked."""
    started = time.perf_counter()
    generation = None if request.skip_cache else start_in_thread(dependencies.ledger.generation)
    _renew_coverage(dependencies)
    query, told = await _query(dependencies, principal, request)
    before = ""
    if request.page_token:
        query, before = _at_page(query, request.page_token)

    async def compute() -> NewAnswer[SearchAnswer]:
        state, timings = await pipeline.search(query, backends)
        answer = search_answer(state, timings, explain=request.explain)
        missing = await _missing(dependencies, principal, answer, query)
        hints = () if missing else await _hints(state, backends)
        answer = replace(
            _paged(answer, state),
            notices=(*answer.notices, *missing, *hints),
            facets=facets(state) if request.facets else None,
        )
        return NewAnswer(answer, not missing and not state.notices)

    if generation is None:
        answer = (await compute()).answer
    else:
        cache = _cache(dependencies, backends)
        answer = await cache.search(
            query,
            await generation,
            explain=request.explain,
            facets=request.facets,
            compute=compute,
        )
    if before and answer.ranking != before:
        told = (*told, CHANGED)
    return await _finished(dependencies, answer, query, started, told)


@permitted
@reads_index
async def context(
    dependencies: Dependencies, backends: Backends, principal: Principal, request: SearchRequest
) -> ContextAnswer:
    """Put the hits of a search into one text, filled up to a budget of tokens."""
    started = time.perf_counter()
    generation = None if request.skip_cache else start_in_thread(dependencies.ledger.generation)
    _renew_coverage(dependencies)
    query, told = await _query(dependencies, principal, request, for_context=True)

    async def compute() -> NewAnswer[ContextAnswer]:
        made, state, timings = await pipeline.search_context(query, backends)
        found = search_answer(state, timings, explain=request.explain)
        missing = await _missing(dependencies, principal, found, query)
        hints = () if missing else await _hints(state, backends)
        answer = context_answer(made, replace(found, notices=(*found.notices, *missing, *hints)))
        return NewAnswer(answer, not missing and not (state.notices or made.notices))

    if generation is None:
        answer = (await compute()).answer
    else:
        cache = _cache(dependencies, backends)
        answer = await cache.context(
            query, await generation, explain=request.explain, compute=compute
        )
    finished = await _finished(dependencies, answer.search, query, started, told)
    return replace(answer, search=finished)


@permitted
@reads_index
async def similar(
    dependencies: Dependencies, backends: Backends, principal: Principal, request: SimilarRequest
) -> SearchAnswer:
    """Find code that is like the code at a line or like a snippet."""
    started = time.perf_counter()
    _renew_coverage(dependencies)
    catalog = VisibleCatalog(dependencies.ledger, principal.visible)
    at = await asyncio.to_thread(queries.similar_location, request, catalog)
    reader = FilterReader(VisibleScopes(dependencies.scopes, catalog))
    narrowed = await asyncio.to_thread(reader.narrowed, request.filters)
    query = queries.similar_query(request, narrowed)
    source = (
        request.snippet
        if at is None
        else await pipeline.chunk_at(at.repository, at.path, at.line, ref=at.ref, backends=backends)
    )
    state = await pipeline.find_similar(source, query, backends)
    hints = await _hints(state, backends)
    answer = search_answer(state)
    answer = replace(answer, notices=(*answer.notices, *hints))
    return await _finished(dependencies, answer, query, started, narrowed.notices)


async def _hints(state: SearchState, backends: Backends) -> tuple[str, ...]:
    """Return a notice for each filter that matches nothing; none on a later page."""
    query = state.query
    if query.offset:
        return ()
    return await filter_hints(
        query.filters,
        query.visible,
        backends,
        is_found=bool(state.candidates),
        scope=query.narrowing.scope if query.narrowing else None,
    )


def _cache(dependencies: Dependencies, backends: Backends) -> AnswerCache:
    settings = dependencies.settings
    return AnswerCache(
        cache=dependencies.cache,
        semantic_cache=dependencies.semantic_cache,
        store=settings.store,
        embedder=backends.embedder,
        ttl_s=settings.cache_ttl_s,
        min_similarity=settings.cache_similarity,
    )


def _renew_coverage(dependencies: Dependencies) -> None:
    """Refresh the coverage of recently searched repositories while the index is searched.

    An error is ignored here: a search whose coverage is not cached reads it and reports the error.
    """
    if due := dependencies.coverage.due():
        start_in_thread(partial(dependencies.coverage.renew, due))


async def _query(
    dependencies: Dependencies,
    principal: Principal,
    request: SearchRequest,
    *,
    for_context: bool = False,
) -> tuple[SearchQuery, tuple[str, ...]]:
    """Return the checked query, and notices about the filters that are written in it.

    Names in filters are looked up in the ledger, in a thread.
    """
    involve(query=request.query)
    queries.query_text(request.query)  # before it is read on the event loop
    scopes = VisibleScopes(
        dependencies.scopes, VisibleCatalog(dependencies.ledger, principal.visible)
    )
    parts = parts_of(request.query)
    read = partial(_with_written, request, parts, scopes, for_context=for_context)
    is_plain = request.filters.is_empty and not (parts.filters or parts.texts)
    return read() if is_plain else await asyncio.to_thread(read)


def _with_written(
    request: SearchRequest, parts: QueryParts, scopes: VisibleScopes, *, for_context: bool
) -> tuple[SearchQuery, tuple[str, ...]]:
    """Return the checked query with what is written in it, and notices about its filters."""
    written = parts.filters
    if written:
        parts = recognised(request.query, parts, scopes, request.filters.repositories)
    if not parts.words:
        raise InvalidQuery(
            "query", "has only filters and exclusions; say in words or code what to look for"
        )
    asked = replace(request, query=parts.words)
    narrowed = FilterReader(scopes).narrowed(request.filters, parts.filters)
    query = queries.search_query(asked, narrowed, for_context=for_context)
    query = replace(query, texts=compiled_texts(parts.texts))
    return query, (*notices(written, parts.filters), *narrowed.notices)


def _paged(answer: SearchAnswer, state: SearchState) -> SearchAnswer:
    """Return the answer with the token of the next page, if there is one."""
    query, end = state.query, state.query.offset + len(state.hits)
    has_next = end < min(len(state.ranking), MAX_OFFSET)
    if not has_next and not query.offset:
        return answer
    ids = "".join(ranked.candidate.chunk.id for ranked in state.ranking)
    ranking = hashlib.sha256(ids.encode()).hexdigest()[:16]
    token = paging.token((str(end), ranking, _search_digest(query))) if has_next else ""
    return replace(answer, ranking=ranking, next_page_token=token)


async def _missing(
    dependencies: Dependencies, principal: Principal, answer: SearchAnswer, query: SearchQuery
) -> tuple[str, ...]:
    """Return notices about searched repositories that are not completely indexed.

    Only repositories that the query names are checked, and not those that a glob matches: in an
    organisation, there is always a run in progress.
    """
    named = query.filters.repositories or query.named
    if named:
        covered = await dependencies.coverage.of(named, query.filters.ref)
        incomplete = [one.repository for one in covered if not one.is_complete]
        told = [f"{name} is not completely indexed yet" for name in incomplete[:MAX_INCOMPLETE]]
        if more := incomplete[MAX_INCOMPLETE:]:
            told.append(f"nor are {len(more)} more repositories that the filter names")
        return tuple(told)
    if answer.hits:
        return ()
    catalog = VisibleCatalog(dependencies.ledger, principal.visible)
    return () if await asyncio.to_thread(catalog.repositories) else (NOTHING_INDEXED,)


async def _finished(
    dependencies: Dependencies,
    answer: SearchAnswer,
    query: SearchQuery,
    started: float,
    told: tuple[str, ...] = (),
) -> SearchAnswer:
    """Add the fields that are never cached with an answer, and the fields of the log line."""
    holding = tuple(dict.fromkeys(hit.repository for hit in answer.hits))
    copying = tuple(copy.repository for hit in answer.hits for copy in hit.copies)
    searched = query.filters.repositories or holding or await _visible(dependencies, query)
    left_out = frozenset(query.filters.not_repositories)
    searched = tuple(name for name in searched if name not in left_out)
    described = searched[:MAX_REPOSITORIES]
    known = (*described, *holding, *copying)
    read = await dependencies.coverage.of(known, query.filters.ref)
    covered = {one.repository: one for one in read}
    involve(dict.fromkeys((*holding, *copying)))
    note(kind=answer.query_kind, hits=len(answer.hits), cached=answer.cached)
    return replace(
        answer,
        notices=(*answer.notices, *told),
        hits=tuple(_at_commit(hit, covered) for hit in answer.hits),
        coverage=tuple(covered[name] for name in described),
        ref="" if query.filters.ref == DEFAULT_REF else query.filters.ref,
        took_ms=1000 * (time.perf_counter() - started),
    )


async def _visible(dependencies: Dependencies, query: SearchQuery) -> tuple[RepositoryName, ...]:
    catalog = VisibleCatalog(dependencies.ledger, query.visible)
    return tuple(await asyncio.to_thread(catalog.names))


def _at_commit(hit: Hit, covered: Mapping[RepositoryName, Coverage]) -> Hit:
    """Add the indexed commits, and the links to the lines of the hit and its copies."""
    at = covered[hit.repository]
    place = (at.revision, hit.path, hit.start_line, hit.end_line)
    copies = tuple(_copy_at_commit(copy, covered.get(copy.repository)) for copy in hit.copies)
    return replace(hit, revision=at.revision, url=permalink(at.url, *place), copies=copies)


def _copy_at_commit(copy: Copy, at: Coverage | None) -> Copy:
    """Add ref, commit, and link; `at` is None for a repository beyond MAX_READ."""
    if at is None:
        return copy
    place = (at.revision, copy.path, copy.start_line, copy.end_line)
    return replace(copy, ref=at.ref, revision=at.revision, url=permalink(at.url, *place))


def _at_page(query: SearchQuery, token: str) -> tuple[SearchQuery, str]:
    """Return the query at the token's page, and the digest of the previous page's ranking.

    Raises InvalidQuery for a token of another search or of another visibility.
    """
    cursor = paging.read(token)
    if len(cursor) != 3 or not cursor[0].isdecimal():
        raise InvalidQuery("page_token", "is not a token of a search; start without one")
    if cursor[2] != _search_digest(query):
        raise InvalidQuery(
            "page_token", "belongs to another search; send it only with the search that returned it"
        )
    return replace(query, offset=min(int(cursor[0]), MAX_OFFSET)), cursor[1]


def _search_digest(query: SearchQuery) -> str:
    """Return a digest of the search and its visibility, which binds page tokens to both."""
    written = (
        f"{pipeline.VERSION} {query.text!r} {query.top_k} {_written(query.filters)} "
        f"{_written(query.options)} {query.texts.key if query.texts else ''} {query.visible_key}"
    )
    return hashlib.sha256(written.encode("utf-8", "surrogatepass")).hexdigest()[:16]


@lru_cache(maxsize=256)
def _written(part: Filters | Options) -> str:
    """Return the text form; cached, because most filters and options are the same."""
    return repr(part)
