"""Retrieve candidates from the hybrid index: keyword and vector results in one call.

The number of candidates (the window) is independent of `top_k`, unless `top_k` is greater: scores
are relative to the other candidates, so otherwise the number of hits would change the ranking. If
the query cannot be embedded, only keyword results are ranked and the answer has a notice. Raises
Unavailable if the index does not answer.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace

from codelode.model import Candidate
from codelode.vectors import Vector
from gateway.options import Mode
from gateway.retrieve.frames import of_frames
from gateway.retrieve.hybrid import KEYWORDS_ONLY, candidates, embed
from gateway.retrieve.occurrence import checked
from gateway.retrieve.route import with_routes
from gateway.retrieve.source import with_source
from gateway.retrieve.staged import staged
from gateway.retrieve.texts import with_texts
from gateway.state import AlternateQuery, Backends, SearchState

__all__ = ["KEYWORDS_ONLY", "embed", "retrieve"]


async def retrieve(state: SearchState, backends: Backends) -> SearchState:
    """Add the candidates of the hybrid index, and remarks on what the query does not find."""
    vector, notices = await embed(state.query.text, backends.embedder)
    state = await _retrieved(state.noticed(*notices), vector, backends)
    if state.query.texts is not None:
        return await with_texts(state, state.query.texts, backends)
    state = await with_source(state, backends)
    state = await with_routes(state, backends)
    return await checked(state, vector, backends)


async def _retrieved(state: SearchState, vector: Vector | None, backends: Backends) -> SearchState:
    if state.query.options.retrieve.mode is Mode.STAGED:
        return await staged(state, vector, backends)
    own = _own(state, vector, backends)
    if not state.alternates:
        return replace(state, candidates=await own)
    others = (_alternate(found, state, backends) for found in state.alternates)
    found, *alternates = await asyncio.gather(own, *others)
    pairs = zip(state.alternates, alternates, strict=True)
    queries = tuple(replace(other, candidates=retrieved) for other, retrieved in pairs)
    return replace(state, candidates=found, alternates=queries)


async def _own(
    state: SearchState, vector: Vector | None, backends: Backends
) -> tuple[Candidate, ...]:
    """Return the candidates of the query, with those of its stack trace."""
    query, analysis = state.query, state.analysis
    found = await candidates(
        query.text, vector, query=query, analysis=analysis, chunks=backends.chunks
    )
    if not analysis.frames:
        return found
    framed = await of_frames(analysis.frames, query, backends.chunks)
    known = {one.chunk.id for one in found}
    return (*found, *(one for one in framed if one.chunk.id not in known))


async def _alternate(
    found: AlternateQuery, state: SearchState, backends: Backends
) -> tuple[Candidate, ...]:
    vector, _ = await embed(found.text, backends.embedder)
    return await candidates(
        found.text, vector, query=state.query, analysis=found.analysis, chunks=backends.chunks
    )
