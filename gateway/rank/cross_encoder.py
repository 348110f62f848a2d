"""A model that reads query and code together orders the best candidates.

It can only help, so without it the ranking stays as it is and the answer says so.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace

from codelode.errors import InvalidSettings, Unavailable
from codelode.model import embedding_text
from codelode.ports import CrossEncoder
from gateway.rank.judge import below, reordered
from gateway.state import SearchState

#: Candidates read for each hit that is wanted, and at most.
CANDIDATES_PER_HIT = 2
MAX_READ = 100

NOT_CONFIGURED = (
    "no cross-encoder is configured (CODELODE_CROSS_ENCODER): the order is the ranker's"
)


async def by_cross_encoder(state: SearchState, model: CrossEncoder | None) -> SearchState:
    """The state with its best candidates by how well the model finds that they answer."""
    if model is None:
        return state.noticed(NOT_CONFIGURED)
    count = min(CANDIDATES_PER_HIT * state.query.top_k, MAX_READ)
    head, tail = state.ranking[:count], state.ranking[count:]
    if not head:
        return state
    texts = [embedding_text(place.candidate.chunk) for place in head]
    try:
        scores = await asyncio.to_thread(model.scores, state.query.text, texts)
    except (Unavailable, InvalidSettings) as exc:
        return state.noticed(f"the order is the ranker's: {exc}")
    ranking = (*reordered(head, scores, name="rank.cross_encoder"), *below(tail))
    return replace(state, ranking=ranking)
