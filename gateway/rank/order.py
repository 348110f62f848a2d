"""The steps of ranking, in order: gate, ranker, centrality, near copies, model.

The ranker alone is the default; every other step is switched on by its option and costs nothing
while it is off.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

from codelode.model import Candidate
from gateway.options import Centrality, Ranker, Reranker
from gateway.rank import fused
from gateway.rank.centrality import by_centrality
from gateway.rank.cross_encoder import by_cross_encoder
from gateway.rank.duplicates import collapsed
from gateway.rank.gate import gate
from gateway.rank.judge import by_judge
from gateway.rank.queries import merged
from gateway.state import Analysis, Backends, Ranked, SearchState

Order = Callable[[Analysis, Sequence[Candidate]], tuple[Ranked, ...]]


async def order(state: SearchState, backends: Backends, *, linear: Order) -> SearchState:
    """Adds the ranking of the candidates. Raises Unavailable when the judge does not answer."""
    options = state.query.options.rank
    state = gate(state)
    if state.has_abstained:
        return state
    state = replace(state, ranking=first(state, linear=linear))
    if options.centrality is not Centrality.OFF:
        state = await by_centrality(state, backends.graph)
    if options.duplicate_similarity < 1:
        state = collapsed(state)
    if options.reranker is Reranker.CROSS_ENCODER:
        state = await by_cross_encoder(state, backends.cross_encoder)
    if options.reranker is Reranker.JUDGE:
        state = await by_judge(state, backends.language_model)
    return state


def first(state: SearchState, *, linear: Order) -> tuple[Ranked, ...]:
    """What the ranker makes of the candidates, of all wordings of the query together."""
    options = state.query.options
    ranker = linear
    if options.rank.ranker is Ranker.FUSED:
        ranker = partial(
            fused.ranked,
            fusion=options.retrieve.fusion,
            alpha=options.retrieve.alpha,
            boost=options.rank.definition_boost,
        )
    ranking = ranker(state.analysis, state.candidates)
    if not state.alternates:
        return ranking
    others = [ranker(other.analysis, other.candidates) for other in state.alternates]
    return merged([ranking, *others])
