"""Candidates of a place or a snippet → a ranking, by their cosine alone. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from codelode.model import Candidate
from gateway.state import Ranked

NAMES = ("rank.similarity",)


def by_similarity(candidates: Sequence[Candidate]) -> tuple[Ranked, ...]:
    """The candidates that were compared, most similar first."""
    places = [
        Ranked(candidate, candidate.similarity, NAMES, (candidate.similarity,))
        for candidate in candidates
        if candidate.similarity is not None
    ]
    return tuple(sorted(places, key=lambda place: -place.score))
