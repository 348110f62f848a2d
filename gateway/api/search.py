"""SearchService: the pipeline over gRPC, with the query cache around it."""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections.abc import Awaitable, Callable, Hashable, Sequence
from dataclasses import dataclass, fields, replace
from functools import lru_cache, partial
from operator import attrgetter
from typing import TypeVar

from codelode.errors import InvalidQuery
from codelode.ledger import Catalog
from codelode.model import RefName, RepositoryName
from codelode.v1 import search_pb2, search_pb2_grpc
from gateway import pipeline
from gateway.api import convert, paging, validate
from gateway.api.answers import Answers, Made
from gateway.api.coverage import Coverage, Covered
from gateway.api.doubts import doubts
from gateway.api.interceptors import Context as CallContext
from gateway.api.interceptors import note
from gateway.state import Backends, SearchQuery

NOTHING_INDEXED = "nothing is indexed yet: start with `codelode index URL`"
CHANGED = "the index has changed since the page before: hits may repeat or be missing"

#: Hits that pages may reach; the ranking behind them ends with the candidates.
MAX_OFFSET = 10_000

T = TypeVar("T")

_but_its_page = attrgetter(*(part.name for part in fields(SearchQuery) if part.name != "offset"))


@dataclass(frozen=True, slots=True)
class SearchService(search_pb2_grpc.SearchServiceServicer):
    """Finds code across all indexed repositories."""

    backends: Backends
    ledger: Catalog
    answers: Answers
    coverage: Coverage

    async def Search(  # noqa: N802 - gRPC's name
        self, request: search_pb2.SearchRequest, context: CallContext
    ) -> search_pb2.SearchResponse:
        """The chunks that answer a query best, ranked."""
        started = time.perf_counter()
        generation = self._generation()
        self._renew_coverage()
        query = await self._query(request)
        notices: tuple[str, ...] = ()
        if request.page_token:
            query, notices = _at_page(query, request.page_token, now=await generation)

        async def answer() -> Made[search_pb2.SearchResponse]:
            return await self._answer(query, generation, explain=request.explain)

        response = (
            (await answer()).response
            if request.skip_cache
            else await self.answers.search(
                query, await generation, explain=request.explain, answer=answer
            )
        )
        response.notices.extend(notices)
        await self._finish(response, query, started)
        return response

    async def Context(  # noqa: N802 - gRPC's name
        self, request: search_pb2.ContextRequest, context: CallContext
    ) -> search_pb2.ContextResponse:
        """The hits of a search as one text, filled up to a budget of tokens."""
        started = time.perf_counter()
        self._renew_coverage()
        asked = request.search
        query = await self._query(asked, for_context=True)

        async def answer() -> Made[search_pb2.ContextResponse]:
            made, state, timings = await pipeline.search_context(query, self.backends)
            response = convert.context_response(made, state, timings, explain=asked.explain)
            is_complete = await self._is_complete(response.search, query)
            return Made(response, is_complete and not (state.notices or made.notices))

        response = (
            (await answer()).response
            if asked.skip_cache
            else await self.answers.context(
                query, await self._generation(), explain=asked.explain, answer=answer
            )
        )
        await self._finish(response.search, query, started)
        return response

    async def Similar(  # noqa: N802 - gRPC's name
        self, request: search_pb2.SimilarRequest, context: CallContext
    ) -> search_pb2.SearchResponse:
        """Code like the code at a place or like a snippet."""
        started = time.perf_counter()
        self._renew_coverage()
        place = await asyncio.to_thread(validate.similar_place, request, self.ledger)
        query = await asyncio.to_thread(validate.similar_query, request, self.ledger)
        if place is None:
            state = await pipeline.find_similar(request.snippet, query, self.backends)
        else:
            repository, path, line, ref = place
            chunk = await pipeline.chunk_at(repository, path, line, ref=ref, backends=self.backends)
            state = await pipeline.find_similar(chunk, query, self.backends)
        response = convert.search_response(state, (), explain=False)
        await self._finish(response, query, started)
        return response

    async def Explain(  # noqa: N802 - gRPC's name
        self, request: search_pb2.ExplainRequest, context: CallContext
    ) -> search_pb2.ExplainResponse:
        """What is known about a file or a symbol."""
        subject = validate.subject(request)
        names = await asyncio.to_thread(self._named, request.repository)
        ref = await asyncio.to_thread(validate.known_ref, request.ref, names, self.ledger)
        found = await pipeline.about(subject, repositories=names, ref=ref, backends=self.backends)
        note(subject_kind=found.kind, definitions=len(found.definitions))
        return convert.explain_response(found)

    def _generation(self) -> asyncio.Future[int]:
        """The generation that an answer is of, on its way.

        An answer that is to be kept awaits it before the index is asked: what changes later makes
        it newer than its key says, never older. One that is not awaits it for the next page alone;
        where it came later than the hits, that page does not tell of what changed between.
        """
        # A request that is refused does not await it, and then nobody is to hear of its failure.
        return _aside(self.ledger.generation)

    def _renew_coverage(self) -> None:
        """Has what was asked for lately looked up again while the index is asked.

        Whoever needs what could not be looked up asks again, and hears of it then.
        """
        if due := self.coverage.due():
            _aside(partial(self.coverage.renew, due))

    async def _query(
        self, request: search_pb2.SearchRequest, *, for_context: bool = False
    ) -> SearchQuery:
        """The request, checked; in a thread where there are filters, whose names are looked up."""
        check = partial(validate.search_query, request, self.ledger, for_context=for_context)
        return await asyncio.to_thread(check) if request.filters.ByteSize() else check()

    async def _answer(
        self, query: SearchQuery, generation: Awaitable[int], *, explain: bool
    ) -> Made[search_pb2.SearchResponse]:
        state, timings = await pipeline.search(query, self.backends)
        response = convert.search_response(state, timings, explain=explain)
        end = query.offset + len(state.hits)
        if end < min(len(state.ranking), MAX_OFFSET):
            response.next_page_token = _token(query, end, await generation)
        is_complete = await self._is_complete(response, query)
        return Made(response, is_complete and not state.notices)

    async def _is_complete(self, response: search_pb2.SearchResponse, query: SearchQuery) -> bool:
        """Whether the index holds all that was asked for; the response says what is missing.

        Only named repositories are looked at: an organisation always has some run under way.
        """
        named = query.filters.repositories
        missing: list[str] = []
        if named:
            covered = await self._covered(named, query.filters.ref)
            incomplete = (one.repository for one in covered if not one.is_complete)
            missing = [f"{name} is not completely indexed yet" for name in incomplete]
        elif not response.hits and not await asyncio.to_thread(self.ledger.repositories):
            missing = [NOTHING_INDEXED]
        response.notices.extend(missing)
        return not missing

    async def _finish(
        self, response: search_pb2.SearchResponse, query: SearchQuery, started: float
    ) -> None:
        """Adds what is never stored with an answer, and the facts of the log line."""
        if not response.hits:
            response.notices.extend(doubts(query.filters))
        found = (RepositoryName(hit.repository) for hit in response.hits)
        names = query.filters.repositories or tuple(dict.fromkeys(found))
        if names:
            covered = await self._covered(names, query.filters.ref)
            response.coverage.extend(map(_coverage, covered))
        response.took_ms = 1000 * (time.perf_counter() - started)
        note(kind=response.query_kind, hits=len(response.hits), cached=response.cached)

    async def _covered(self, names: Sequence[RepositoryName], ref: RefName) -> tuple[Covered, ...]:
        """Without a thread where all of them were seen lately."""
        covered = self.coverage.remembered(names, ref)
        if covered is None:
            covered = await asyncio.to_thread(self.coverage.of, names, ref)
        return covered

    def _named(self, name: str) -> Sequence[RepositoryName]:
        if name:
            return validate.known_repositories([name], self.ledger, field="repository")
        return [repository.name for repository in self.ledger.repositories()]


def _aside(call: Callable[[], T]) -> asyncio.Future[T]:
    """The call in a thread, under way; its failure is told to those alone who await it."""
    under_way = asyncio.get_running_loop().run_in_executor(None, call)
    under_way.add_done_callback(lambda done: done.cancelled() or done.exception())
    return under_way


def _coverage(item: Covered) -> search_pb2.Coverage:
    return search_pb2.Coverage(
        repository=item.repository,
        ref=item.ref,
        revision=item.revision,
        pending=item.pending,
        failed=item.failed,
    )


def _token(query: SearchQuery, offset: int, generation: int) -> str:
    return paging.token((str(offset), str(generation), _search(query)))


def _at_page(query: SearchQuery, token: str, *, now: int) -> tuple[SearchQuery, tuple[str, ...]]:
    """The query at the token's page, and what is to be said of it. `now`: the generation."""
    offset, was = _page(query, token)
    return replace(query, offset=offset), () if was == now else (CHANGED,)


def _page(query: SearchQuery, token: str) -> tuple[int, int]:
    """Offset and generation of a token. InvalidQuery: it is of another search, or none of ours."""
    place = paging.read(token)
    if len(place) != 3 or not (place[0].isdecimal() and place[1].isdecimal()):
        raise InvalidQuery("page_token", "is not a token of a search; start without one")
    if place[2] != _search(query):
        raise InvalidQuery("page_token", "belongs to another search; repeat that one unchanged")
    return min(int(place[0]), MAX_OFFSET), int(place[1])


def _search(query: SearchQuery) -> str:
    """What a token is bound to: the search as written, without its page, short."""
    written = " ".join(map(_written, (pipeline.VERSION, *_but_its_page(query))))
    return hashlib.sha256(written.encode("utf-8", "surrogatepass")).hexdigest()[:16]


@lru_cache(maxsize=256)
def _written(part: Hashable) -> str:
    """Most filters and options are the same, and writing them takes ten times as long."""
    return repr(part)
