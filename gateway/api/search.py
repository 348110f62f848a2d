"""SearchService: the pipeline over gRPC, with the query cache around it."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass

from codelode.model import RepositoryName
from codelode.ports import Catalog, QueryCache
from codelode.v1 import search_pb2, search_pb2_grpc
from gateway import pipeline
from gateway.api import convert, validate
from gateway.api.interceptors import Context, note
from gateway.state import Backends, SearchQuery

#: Repositories that are looked at for notices: each costs a round trip.
MAX_NOTICES = 20

NOTHING_INDEXED = "nothing is indexed yet: start with `codelode index URL`"


@dataclass(frozen=True, slots=True)
class SearchService(search_pb2_grpc.SearchServiceServicer):
    """Finds code across all indexed repositories."""

    backends: Backends
    catalog: Catalog
    cache: QueryCache
    cache_ttl_s: int

    async def Search(  # noqa: N802 - gRPC's name
        self, request: search_pb2.SearchRequest, context: Context
    ) -> search_pb2.SearchResponse:
        """The chunks that answer a query best, ranked."""
        started = time.perf_counter()
        query, generation = await asyncio.to_thread(self._read, request)
        if request.skip_cache:
            response = await self._answer(query, explain=request.explain)
        else:
            response = await self._cached(query, generation, explain=request.explain)
        response.took_ms = 1000 * (time.perf_counter() - started)
        note(kind=response.query_kind, hits=len(response.hits), cached=response.cached)
        return response

    def _read(self, request: search_pb2.SearchRequest) -> tuple[SearchQuery, int]:
        """The checked query, and the generation that a cached answer must be of.

        The generation is read first: what changes later makes the stored answer newer than its
        key says, never older.
        """
        generation = self.catalog.generation()
        return validate.search_query(request, self.catalog), generation

    async def _cached(
        self, query: SearchQuery, generation: int, *, explain: bool
    ) -> search_pb2.SearchResponse:
        key = pipeline.cache_key(
            query,
            embedder=self.backends.embedder.identity,
            generation=generation,
            explain=explain,
        )
        stored = await self.cache.get(key)
        if stored is not None:
            response = search_pb2.SearchResponse.FromString(stored)
            response.cached = True
            return response
        response = await self._answer(query, explain=explain)
        if not response.notices:
            await self.cache.put(key, response.SerializeToString(), ttl_s=self.cache_ttl_s)
        return response

    async def _answer(self, query: SearchQuery, *, explain: bool) -> search_pb2.SearchResponse:
        state, timings = await pipeline.search(query, self.backends)
        response = convert.search_response(state, timings, explain=explain)
        missing = await asyncio.to_thread(self._missing, query, found=bool(state.hits))
        response.notices.extend(missing)
        return response

    def _missing(self, query: SearchQuery, *, found: bool) -> list[str]:
        """What the index does not hold yet of what was asked for.

        Only named repositories are looked at: an organisation always has some run under way.
        """
        named = query.filters.repositories[:MAX_NOTICES]
        if not named and not found and not self.catalog.repositories():
            return [NOTHING_INDEXED]
        return [f"{name} is not completely indexed yet" for name in named if self._is_partial(name)]

    def _is_partial(self, name: RepositoryName) -> bool:
        """True while no run of the repository has completed, or one is changing files."""
        refs = self.catalog.refs(name)
        return not refs or any(not ref.indexed or not ref.is_clean for ref in refs)
