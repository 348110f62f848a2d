"""Count the values of the candidates of a search, to offer filters that would narrow it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from gateway.state import SearchState

#: Maximum number of values of a field in an answer: the most frequent ones.
MAX_VALUES = 50


@dataclass(frozen=True, slots=True)
class Facet:
    """The values of one field, each with the number of candidates that have it."""

    field: str  # repository, language, kind, or folder
    counts: tuple[tuple[str, int], ...]  # most frequent first


@dataclass(frozen=True, slots=True)
class Facets:
    """The values of all fields, and the number of candidates."""

    candidates: int
    fields: tuple[Facet, ...]


def facets(state: SearchState) -> Facets:
    """Count the ranked candidates, which are the hits of all pages of the search.

    A candidate counts for its repository and for those that have copies of it.
    """
    ranked = [entry.candidate.chunk for entry in state.ranking]
    copies = [one.chunk for some in state.copies.values() for one in some]
    return Facets(
        len(ranked),
        (
            _facet("repository", (chunk.repository for chunk in (*ranked, *copies))),
            _facet("language", (chunk.language for chunk in ranked)),
            _facet("kind", (chunk.kind for chunk in ranked)),
            _facet("folder", (_folder(chunk.path) for chunk in ranked)),
        ),
    )


def _facet(field: str, values: Iterable[str]) -> Facet:
    counted = Counter(filter(None, map(str, values)))
    return Facet(field, tuple(counted.most_common(MAX_VALUES)))


def _folder(path: str) -> str:
    """Return a glob of the top folder of a path; empty for a file at the root."""
    folder, slash, _ = path.partition("/")
    return f"{folder}/**" if slash else ""
