"""A query and its candidates as the features see them: what several of them need, made once.

Words are looked for inside the case-folded text of a chunk without splitting it: splitting 200
chunks takes longer than the rest of a search. Names are short, so they are split, and a word of
the query matches a word of a name by a common beginning (`routing` finds `routes.py`).
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
import numpy.typing as npt

from codelode import tokens
from codelode.model import Candidate
from gateway.rank.fuse import Scores, fuse, ranks
from gateway.state import Analysis

Matches = npt.NDArray[np.float64]  # (candidates, words), 1 where it matches

#: Two words are the same to the ranker when they share a beginning of so many characters that is
#: so much of the longer one: `routing` and `routes`, `cache` and `caching`, not `test` and `rest`.
#: 0.5 gave .007 more than 0.6, 0.4 less again.
STEM_CHARS = 4
STEM_SHARE = 0.5

#: Names whose split is remembered: those of the candidates come back with every similar query.
REMEMBERED = 1 << 13

_SEPARATORS = re.compile(r"[^\w]+")


@dataclass(frozen=True)
class Scene:
    """A query and its candidates, at least one."""

    analysis: Analysis
    candidates: Sequence[Candidate]

    @cached_property
    def bodies(self) -> Matches:
        """Which words of the query each chunk holds."""
        words = self.analysis.words
        texts = [candidate.chunk.content.casefold() for candidate in self.candidates]
        held = [[word in text for word in words] for text in texts]
        return np.array(held, float).reshape(len(texts), len(words))

    @cached_property
    def idf(self) -> Scores:
        """How telling each word is among these candidates; 0 for one that none of them holds."""
        held = self.bodies.sum(axis=0)
        idf: Scores = np.log1p((len(self.candidates) - held + 0.5) / (held + 0.5))
        return np.where(held > 0, idf, 0.0)

    @cached_property
    def files(self) -> npt.NDArray[np.int64]:
        """The number of each candidate's file, from 0."""
        numbers: dict[tuple[str, str], int] = {}
        places = [(c.chunk.repository, c.chunk.path) for c in self.candidates]
        return np.array([numbers.setdefault(place, len(numbers)) for place in places])

    @cached_property
    def hybrid(self) -> Scores:
        """Reciprocal rank fusion of both sides of the index."""
        by_keyword = ranks([candidate.keyword_score for candidate in self.candidates])
        by_vector = ranks([candidate.similarity for candidate in self.candidates])
        return fuse([by_keyword, by_vector])

    @cached_property
    def names(self) -> frozenset[str]:
        """The names that the query writes, as `joined` gives them."""
        return frozenset(map(joined, map(last, self.analysis.identifiers))) - {""}

    def coverage(self, matches: Matches) -> Scores:
        """The share of the query that each row matches, by how telling the words are."""
        total = float(self.idf.sum())
        covered: Scores = matches @ self.idf / total if total else np.zeros(len(matches))
        return covered

    def covered_by(self, names: Iterable[str]) -> Scores:
        """How much of the query each name holds; one name (or text of names) per candidate."""
        texts = list(names)
        matches = np.zeros((len(texts), len(self.analysis.words)))
        for row, text in enumerate(texts):
            matches[row, self._places_in(text)] = 1
        return self.coverage(matches)

    def said(self, names: Iterable[str]) -> Scores:
        """How much of each name the query says."""
        given = list(names)
        shares = {name: self._said(words_of(name)) for name in set(given)}
        return np.array([shares[name] for name in given])

    def _said(self, parts: Sequence[str]) -> float:
        return sum(bool(self._like(part)) for part in parts) / len(parts) if parts else 0.0

    def _places_in(self, text: str) -> list[int]:
        """The places of the query's words that the text holds."""
        starts = self._by_start
        return [
            place
            for part in terms_of(text)
            if part[:STEM_CHARS] in starts
            for place in self._like(part)
        ]

    def _like(self, part: str) -> tuple[int, ...]:
        """The places of the query's words that are the same as `part`."""
        found = self._alike.get(part)
        if found is None:
            near = self._by_start.get(part[:STEM_CHARS], ())
            found = tuple(place for place in near if same(self.analysis.words[place], part))
            self._alike[part] = found
        return found

    @cached_property
    def _by_start(self) -> dict[str, list[int]]:
        places: defaultdict[str, list[int]] = defaultdict(list)
        for place, word in enumerate(self.analysis.words):
            places[word[:STEM_CHARS]].append(place)
        return dict(places)

    @cached_property
    def _alike(self) -> dict[str, tuple[int, ...]]:
        return {}


def same(word: str, other: str) -> bool:
    """Whether two words are one to the ranker."""
    if word == other:
        return True
    common = 0
    for one, two in zip(word, other, strict=False):
        if one != two:
            break
        common += 1
    return common >= STEM_CHARS and common >= STEM_SHARE * max(len(word), len(other))


@lru_cache(REMEMBERED)
def words_of(name: str) -> tuple[str, ...]:
    """The words of all identifiers in a name."""
    return tuple(word for part in tokens.identifiers(name) for word in tokens.words(part))


@lru_cache(REMEMBERED)
def terms_of(text: str) -> frozenset[str]:
    """The distinct index terms of a text of names."""
    return frozenset(tokens.terms(text))


@lru_cache(REMEMBERED)
def last(qualified_name: str) -> str:
    """`Outer.Inner.method` → `method`."""
    return _SEPARATORS.split(qualified_name.rstrip("()!?"))[-1]


@lru_cache(REMEMBERED)
def joined(name: str) -> str:
    """One spelling for `getUser`, `get_user` and `GetUser`."""
    return "".join(tokens.words(name))
