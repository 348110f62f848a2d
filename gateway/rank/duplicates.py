"""Collapse near-duplicate chunks: show only the best-ranked of them.

Chunks with equal texts are always duplicates, even in a store that returns no vectors.
Near-duplicates are found by the cosine of the chunks' vectors. Chunks of different repositories are
compared only if `copies` does not fold them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from codelode.model import Chunk
from gateway.state import Duplicate, Ranked, SearchState

Vectors = npt.NDArray[np.float32]  # (entries, dim), unit length; zeros where there is no vector

#: Number of words that are compared before the whole texts.
FIRST_WORDS = 3


def collapsed(state: SearchState) -> SearchState:
    """Drop each entry that is a duplicate of a better one, and record what it duplicates."""
    least = state.query.options.rank.duplicate_similarity
    homes = _homes(state)
    texts = zip(homes, _texts([entry.candidate.chunk for entry in state.ranking]), strict=True)
    vectors = _unit_vectors(state.ranking)
    kept: list[Ranked] = []
    kept_texts: dict[Hashable, int] = {}  # home and text → their index in `kept`
    kept_vectors, kept_homes = np.zeros_like(vectors), np.zeros(len(homes), np.int64)
    duplicates = []
    for entry, home, text, vector in zip(state.ranking, homes, texts, vectors, strict=True):
        # Not `@`: for products this small, BLAS takes longer to start its threads.
        cosines = np.einsum("ij,j->i", kept_vectors[: len(kept)], vector)
        cosines[kept_homes[: len(kept)] != home] = -1.0
        best = kept_texts.get(text, int(cosines.argmax()) if kept else -1)
        similarity = 1.0 if text in kept_texts else float(cosines[best]) if kept else -1.0
        if similarity > least:
            of = kept[best].candidate.chunk.id
            duplicates.append(Duplicate(entry.candidate.chunk, of, similarity))
            continue
        kept_vectors[len(kept)], kept_homes[len(kept)] = vector, home
        kept_texts[text] = len(kept)
        kept.append(entry)
    return replace(state, ranking=tuple(kept), duplicates=tuple(duplicates))


def _homes(state: SearchState) -> list[int]:
    """Return a number for each entry; only entries with equal numbers are compared."""
    if not state.query.options.rank.collapse_copies:
        return [0] * len(state.ranking)
    numbers: dict[str, int] = {}
    repositories = (entry.candidate.chunk.repository for entry in state.ranking)
    return [numbers.setdefault(name, len(numbers)) for name in repositories]


def _texts(chunks: Sequence[Chunk]) -> list[Hashable]:
    """Return a key for each chunk; keys are equal if the texts are equal except for white space.

    Whole texts are compared only if their first words are equal, which is rare.
    """
    same_start: defaultdict[tuple[str, ...], list[int]] = defaultdict(list)
    for number, chunk in enumerate(chunks):
        same_start[tuple(chunk.content.split(None, FIRST_WORDS)[:FIRST_WORDS])].append(number)
    keys: list[Hashable] = list(range(len(chunks)))
    for numbers in same_start.values():
        if len(numbers) > 1:
            for number in numbers:
                keys[number] = " ".join(chunks[number].content.split())
    return keys


def _unit_vectors(ranking: Sequence[Ranked]) -> Vectors:
    given = [entry.candidate.vector for entry in ranking]
    dim = next((len(vector) for vector in given if vector is not None), 1)
    rows = np.zeros((len(given), dim), np.float32)
    for number, vector in enumerate(given):
        if vector is not None:
            rows[number] = vector
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    lengths[lengths == 0] = 1
    unit: Vectors = rows / lengths
    return unit
