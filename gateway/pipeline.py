"""The order of the read side, and the key under which its answers are cached.

Stages are values in, values out; what a stage may ask of the world comes as `Backends`. Every
stage is timed, so that `explain` shows where a slow search spent its time.
"""

from __future__ import annotations

import hashlib
import json
import time
from dataclasses import asdict, dataclass
from typing import Protocol

from gateway.analyze import analyze
from gateway.assemble import assemble
from gateway.rank import rank
from gateway.retrieve import retrieve
from gateway.state import Backends, SearchQuery, SearchState


class Stage(Protocol):
    """One step of a search."""

    __name__: str

    async def __call__(self, state: SearchState, backends: Backends, /) -> SearchState:
        """The state with this stage's part added."""


STAGES: tuple[Stage, ...] = (analyze, retrieve, rank, assemble)

#: Part of every cache key: raise it when a stage answers differently, or old answers stay.
VERSION = 1


@dataclass(frozen=True, slots=True)
class Timing:
    stage: str
    took_ms: float


async def search(query: SearchQuery, backends: Backends) -> tuple[SearchState, tuple[Timing, ...]]:
    """Runs the stages in order; the final state and what each stage took."""
    state = SearchState(query)
    timings = []
    for stage in STAGES:
        started = time.perf_counter()
        state = await stage(state, backends)
        timings.append(Timing(stage.__name__, 1000 * (time.perf_counter() - started)))
    return state, tuple(timings)


def cache_key(query: SearchQuery, *, embedder: str, generation: int, explain: bool) -> str:
    """SHA-256 over everything that shapes the answer, in hex.

    The order of a filter's alternatives does not matter to the answer nor to the key.
    """
    filters = {
        name: sorted(value) if isinstance(value, tuple) else value
        for name, value in asdict(query.filters).items()
    }
    parts = {
        "text": query.text,
        "top_k": query.top_k,
        "filters": filters,
        "explain": explain,
        "embedder": embedder,
        "generation": generation,
        "pipeline": VERSION,
    }
    canonical = json.dumps(parts, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(canonical.encode()).hexdigest()
