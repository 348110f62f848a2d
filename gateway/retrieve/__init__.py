"""Query → candidates, from both sides of the hybrid index in one call.

The window of candidates does not follow `top_k`, except where more hits are asked for than it
holds: a wider window changes how scores compare, so a query would rank differently by how many
hits are wanted. When the query
cannot be embedded the keyword side answers alone and the answer says so. Raises Unavailable
when the index itself does not answer.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace

from codelode.errors import Unavailable
from codelode.model import HybridQuery, Vector
from codelode.ports import Embedder
from gateway.state import Backends, SearchState

#: Candidates wanted from each side; a target is among them in 99.8 % of the annotated queries.
WINDOW = 100

KEYWORDS_ONLY = "the query could not be embedded: ranked by keywords alone"


async def retrieve(state: SearchState, backends: Backends) -> SearchState:
    """Adds the candidates of the hybrid index."""
    vector, notices = await _embed(state.query.text, backends.embedder)
    query = HybridQuery(
        text=state.query.text,
        vector=vector,
        filters=state.query.filters,
        limit=max(WINDOW, state.query.top_k),
    )
    candidates = tuple(await backends.chunks.hybrid(query))
    return replace(state, candidates=candidates, notices=state.notices + notices)


async def _embed(text: str, embedder: Embedder) -> tuple[Vector | None, tuple[str, ...]]:
    """The query's vector; None when it has no words to embed or the embedder is away."""
    try:
        vector = await asyncio.to_thread(embedder.embed_query, text)
    except Unavailable:
        return None, (KEYWORDS_ONLY,)
    return (vector if vector.any() else None), ()
