"""Query → candidates, from both sides of the hybrid index in one call.

The window of candidates does not follow `top_k`, except where more hits are asked for than it
holds: a wider window changes how scores compare, so a query would rank differently by how many
hits are wanted. When the query cannot be embedded the keyword side answers alone and the answer
says so. Raises Unavailable when the index itself does not answer.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace

from codelode.model import Candidate
from gateway.options import Mode
from gateway.retrieve.hybrid import KEYWORDS_ONLY, candidates, embed
from gateway.retrieve.staged import staged
from gateway.state import Backends, Found, SearchState

__all__ = ["KEYWORDS_ONLY", "embed", "retrieve"]


async def retrieve(state: SearchState, backends: Backends) -> SearchState:
    """Adds the candidates of the hybrid index."""
    vector, notices = await embed(state.query.text, backends.embedder)
    state = state.noticed(*notices)
    if state.query.options.retrieve.mode is Mode.STAGED:
        return await staged(state, vector, backends)
    own = candidates(
        state.query.text,
        vector,
        query=state.query,
        analysis=state.analysis,
        chunks=backends.chunks,
    )
    if not state.alternates:
        return replace(state, candidates=await own)
    others = (_alternate(found, state, backends) for found in state.alternates)
    found, *alternates = await asyncio.gather(own, *others)
    pairs = zip(state.alternates, alternates, strict=True)
    wordings = tuple(replace(wording, candidates=brought) for wording, brought in pairs)
    return replace(state, candidates=found, alternates=wordings)


async def _alternate(found: Found, state: SearchState, backends: Backends) -> tuple[Candidate, ...]:
    vector, _ = await embed(found.text, backends.embedder)
    return await candidates(
        found.text, vector, query=state.query, analysis=found.analysis, chunks=backends.chunks
    )
