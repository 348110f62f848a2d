"""A ranking → the hits of the answer: the best `top_k`, explained. Pure; empty is an answer."""

from __future__ import annotations

from dataclasses import replace

from codelode.model import Candidate, Hit, Match
from gateway.state import Backends, Ranked, SearchState


async def assemble(state: SearchState, _backends: Backends) -> SearchState:
    """Adds the hits."""
    best = state.ranking[: state.query.top_k]
    return replace(state, hits=tuple(hit(place) for place in best))


def hit(place: Ranked) -> Hit:
    """A place as a hit; the parts that add nothing to its score are left out."""
    parts = tuple(part for part in zip(place.names, place.parts, strict=True) if part[1])
    return Hit(place.candidate.chunk, place.score, match(place.candidate), parts)


def match(candidate: Candidate) -> Match:
    """Which side of the index found it."""
    if candidate.keyword_score is None:
        return Match.SEMANTIC
    return Match.KEYWORD if candidate.similarity is None else Match.BOTH
