"""The order of the read side, and the keys under which its answers are cached.

Stages are values in, values out; what a stage may ask of the world comes as `Backends`. Every
stage is timed, so that `explain` shows where a slow search spent its time.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Protocol

from codelode.model import Chunk
from gateway.analyze import analysis, analyze
from gateway.analyze.meaning import literals
from gateway.assemble import assemble
from gateway.assemble.context import Context, context
from gateway.expand import expand
from gateway.expand.explain import Explanation, explain
from gateway.rank import rank
from gateway.rank.fused import by_similarity
from gateway.retrieve import retrieve
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
    "near_key",
    "search",
]


class Stage(Protocol):
    """One step of a search."""

    __name__: str

    async def __call__(self, state: SearchState, backends: Backends, /) -> SearchState:
        """The state with this stage's part added."""


STAGES: tuple[Stage, ...] = (analyze, retrieve, rank, expand, assemble)

#: Part of every cache key: raise it when a stage answers differently, or old answers stay.
VERSION = 8


@dataclass(frozen=True, slots=True)
class Timing:
    stage: str
    took_ms: float


@dataclass(frozen=True, slots=True)
class Shape:
    """What shapes an answer besides its query."""

    store: str
    embedder: str  # identity
    generation: int  # of the index
    explain: bool = False


async def search(query: SearchQuery, backends: Backends) -> tuple[SearchState, tuple[Timing, ...]]:
    """Runs the stages in order; the final state and what each stage took."""
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
    """A search whose hits are put into one text."""
    state, timings = await search(query, backends)
    return context(state, tokeniser=backends.tokeniser), state, timings


async def find_similar(source: Chunk | str, query: SearchQuery, backends: Backends) -> SearchState:
    """What is like a chunk of the index or a snippet, by similarity alone."""
    found = await similar(source, query, backends)
    read = Analysis(QueryKind.CODE, (), (), intent=Intent.FIND_SIMILAR)
    state = SearchState(query, analysis=read, candidates=found)
    return await assemble(replace(state, ranking=by_similarity(found)), backends)


def cache_key(query: SearchQuery, shape: Shape, *, call: str = "search") -> str:
    """SHA-256 over everything that shapes the answer, in hex.

    The order of a filter's alternatives does not matter to the answer nor to the key.
    """
    return _digest({**_shaped(query, shape), "text": query.text, "call": call})


def near_key(query: SearchQuery, shape: Shape) -> str | None:
    """The same without the words, for queries whose answers may be one another's.

    None for a query that must be answered for itself: names and code mean what they say, and a
    later page belongs to its first.
    """
    if query.offset or analysis(query.text).kind is not QueryKind.NATURAL_LANGUAGE:
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
        "visible": query.visible.digest,
        "options": asdict(query.options),
        **asdict(shape),
        "pipeline": VERSION,
    }


def _digest(parts: Mapping[str, object]) -> str:
    canonical = json.dumps(parts, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(canonical.encode()).hexdigest()
