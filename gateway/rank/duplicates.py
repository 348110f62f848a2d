"""Chunks that are nearly the same as a better one, in this or another repository: shown once.

Equal text is a copy without looking at vectors, so forks collapse over every store; near copies
need the chunks' own vectors.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from codelode.model import Chunk
from gateway.state import Duplicate, Ranked, SearchState

Similarities = npt.NDArray[np.float32]  # (places, places), cosines


def collapsed(state: SearchState) -> SearchState:
    """The ranking without copies, and the map of what was left out for what."""
    least = state.query.options.rank.duplicate_similarity
    similarities = _similarities(state.ranking)
    kept: list[int] = []
    duplicates = []
    for number, place in enumerate(state.ranking):
        near = similarities[number, kept]
        best = int(near.argmax()) if kept else -1
        if kept and near[best] > least:
            of = state.ranking[kept[best]].candidate.chunk.id
            duplicates.append(Duplicate(place.candidate.chunk, of, float(near[best])))
        else:
            kept.append(number)
    ranking = tuple(state.ranking[number] for number in kept)
    return replace(state, ranking=ranking, duplicates=tuple(duplicates))


def _similarities(ranking: Sequence[Ranked]) -> Similarities:
    """The cosine of every two places; 1 for equal texts, 0 where a vector is not known."""
    numbers: dict[str, int] = {}
    texts = np.array([numbers.setdefault(_text(p.candidate.chunk), len(numbers)) for p in ranking])
    vectors = [place.candidate.vector for place in ranking]
    dim = next((len(vector) for vector in vectors if vector is not None), 1)
    rows = np.stack([np.zeros(dim) if v is None else v for v in vectors]) if ranking else None
    if rows is None:
        return np.zeros((0, 0), np.float32)
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    unit = rows / np.where(lengths > 0, lengths, 1)
    near: Similarities = np.maximum(unit @ unit.T, texts[:, None] == texts[None, :])
    return near


def _text(chunk: Chunk) -> str:
    return " ".join(chunk.content.split())
