"""Run the stages of a search in order, and compute the keys under which answers are cached.

A stage takes values and returns values; it reads stores and models through `Backends`. Every stage
is timed, so that `explain` shows where a slow search spent its time.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Protocol

from codelode.model import Chunk, HybridQuery
from gateway.analyze import analyze
from gateway.analyze.meaning import literals
from gateway.analyze.query import kind
from gateway.assemble import assemble
from gateway.assemble.context import Context, context
from gateway.expand import expand
from gateway.expand.explain import Explanation, explain
from gateway.rank import rank
from gateway.rank.fused import by_similarity
from gateway.retrieve import embed, occurrence, retrieve
from gateway.retrieve.similar import chunk_at, similar
from gateway.state import (
    Analysis,
    Backends,
    Intent,
    QueryKind,
    SearchQuery,
    SearchState,
)

__all__ = [
    "Context",
    "Explanation",
    "cache_key",
    "chunk_at",
    "explain",
    "find_similar",
    "search",
    "semantic_key",
    "similar_names",
]


class Stage(Protocol):
    """One step of a search."""

    __name__: str

    async def __call__(self, state: SearchState, backends: Backends, /) -> SearchState:
        """Return the state with the result of this stage added."""


STAGES: tuple[Stage, ...] = (analyze, retrieve, rank, expand, assemble)

#: Part of every cache key. Raise it when a stage changes its results, so that old answers expire.
VERSION = 34


@dataclass(frozen=True, slots=True)
class Timing:
    stage: str
    took_ms: float


@dataclass(frozen=True, slots=True)
class Shape:
    """The inputs of an answer in addition to its query."""

    store: str
    embedder: str  # identity
    generation: int  # of the index
    explain: bool = False
    facets: bool = False


async def search(query: SearchQuery, backends: Backends) -> tuple[SearchState, tuple[Timing, ...]]:
    """Run the stages in order; return the final state and the time of each stage."""
    state = SearchState(query)
    timings = []
    for stage in STAGES:
        started = time.perf_counter()
        state = await stage(state, backends)
        timings.append(Timing(stage.__name__, 1000 * (time.perf_counter() - started)))
    return state, tuple(timings)


async def search_context(
    query: SearchQuery, backends: Backends
) -> tuple[Context, SearchState, tuple[Timing, ...]]:
    """Search, and put the hits into one text within the token budget."""
    state, timings = await search(query, backends)
    made = await asyncio.to_thread(context, state, tokeniser=backends.tokeniser)
    return made, state, timings


async def find_similar(source: Chunk | str, query: SearchQuery, backends: Backends) -> SearchState:
    """Find code that is similar to a chunk of the index or to a snippet, by vectors alone."""
    found = await similar(source, query, backends)
    read = Analysis(QueryKind.CODE, (), (), intent=Intent.FIND_SIMILAR)
    state = SearchState(query, analysis=read, candidates=found)
    return await assemble(replace(state, ranking=by_similarity(found)), backends)


async def similar_names(glob: str, asked: HybridQuery, backends: Backends) -> Sequence[str]:
    """Return the defined names inside the filters that nearly match the glob, most similar first.

    `asked`: the glob as a query without a vector.
    """
    vector, _ = await embed(asked.text, backends.embedder)
    return await occurrence.similar_names(glob, replace(asked, vector=vector), backends.chunks)


def cache_key(query: SearchQuery, shape: Shape, *, call: str = "search") -> str:
    """Return the SHA-256 of everything that the answer depends on, in hex.

    The order of the values of a filter changes neither the answer nor the key.
    """
    return _digest({**_shaped(query, shape), "text": query.text, "call": call})


def semantic_key(query: SearchQuery, shape: Shape) -> str | None:
    """Return the bucket of the semantic query cache; only queries in one bucket share answers.

    It is a hash like that of `cache_key`, but without function words. None for a query that must
    not share an answer: a name, code, one with texts that hits must contain or exclude, or a later
    page, which belongs to the search that it continues.
    """
    if query.offset or query.texts or kind(query.text) is not QueryKind.NATURAL_LANGUAGE:
        return None
    return _digest({**_shaped(query, shape), "literals": literals(query.text)})


def _shaped(query: SearchQuery, shape: Shape) -> dict[str, object]:
    filters = {
        name: sorted(value) if isinstance(value, tuple) else value
        for name, value in asdict(query.filters).items()
    }
    return {
        "top_k": query.top_k,
        "offset": query.offset,
        "filters": filters,
        "texts": query.texts.key if query.texts else "",
        "visible": query.visible_key,
        "options": asdict(query.options),
        **asdict(shape),
        "pipeline": VERSION,
    }


def _digest(parts: Mapping[str, object]) -> str:
    canonical = json.dumps(parts, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(canonical.encode()).hexdigest()
