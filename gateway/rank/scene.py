"""A query and its candidates as the features see them: what several of them need, made once.

Words are looked for inside the case-folded text of a chunk without splitting it. Names are short,
so they are split, and a word of the query matches a word of a name by a common beginning
(`routing` finds `routes.py`). Where all candidates are of one repository, its name tells none of
them from another and counts as no word of the query.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain

import numpy as np
import numpy.typing as npt

from codelode.model import Candidate, Chunk
from codelode.names import Names, names_of, spelling
from gateway.rank.paths import Place, place, repository_words
from gateway.state import Analysis

Scores = npt.NDArray[np.float64]  # (candidates,)
Matches = npt.NDArray[np.float64]  # (candidates, words), 1 where it matches

#: Two words are the same to the ranker when they share a beginning of so many characters that is
#: so much of the longer one: `routing` and `routes`, `cache` and `caching`, not `test` and `rest`.
#: 0.5 gave .007 more than 0.6, 0.4 less again.
STEM_CHARS = 4
STEM_SHARE = 0.5

#: Neighbouring words of a query that are looked for as one name: `thread pool`, `threadpool`.
JOINED_WORDS = (2, 3)


@dataclass(frozen=True)
class Scene:
    """A query and its candidates, at least one."""

    analysis: Analysis
    candidates: Sequence[Candidate]

    @cached_property
    def chunks(self) -> list[Chunk]:
        return [candidate.chunk for candidate in self.candidates]

    @cached_property
    def names(self) -> list[Names]:
        """What each chunk defines."""
        return [
            one.names or names_of(one.chunk.symbol, one.chunk.symbols) for one in self.candidates
        ]

    @cached_property
    def places(self) -> list[Place]:
        """Where each chunk stands."""
        return [place(chunk.path) for chunk in self.chunks]

    @cached_property
    def repositories(self) -> list[tuple[str, ...]]:
        """The words of the name of each chunk's repository."""
        return [repository_words(chunk.repository) for chunk in self.chunks]

    @cached_property
    def similarities(self) -> Scores:
        """Cosine, not a number where the vector side did not find it."""
        given = [candidate.similarity for candidate in self.candidates]
        return np.array([np.nan if one is None else one for one in given])

    @cached_property
    def words(self) -> tuple[str, ...]:
        """The words of the query that can tell candidates apart."""
        own, *more = set(self.repositories)
        if more:
            return self.analysis.words
        others = [word for word in self.analysis.words if word not in (*own, "".join(own))]
        return tuple(others) or self.analysis.words

    @cached_property
    def bodies(self) -> Matches:
        """Which words of the query each chunk holds."""
        texts = [chunk.content.casefold() for chunk in self.chunks]
        held = [[word in text for text in texts] for word in self.words]
        return np.array(held, float).reshape(len(self.words), len(texts)).T

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
        files = [(chunk.repository, chunk.path) for chunk in self.chunks]
        return np.array([numbers.setdefault(file, len(numbers)) for file in files])

    @cached_property
    def identifiers(self) -> frozenset[str]:
        """The names that the query writes like code, as `spelling` gives them."""
        return frozenset(map(spelling, self.analysis.identifiers)) - {""}

    @cached_property
    def compounds(self) -> frozenset[str]:
        """Neighbouring words of the query in one: `thread pool` → `threadpool`."""
        words = self.analysis.words
        return frozenset(
            "".join(words[at : at + size])
            for size in JOINED_WORDS
            for at in range(len(words) - size + 1)
        )

    def of_file(self, scores: Scores) -> Scores:
        """The best score of each candidate's file."""
        best = np.full(int(self.files.max()) + 1, -np.inf)
        np.maximum.at(best, self.files, scores)
        return best[self.files]

    def coverage(self, matches: Matches) -> Scores:
        """The share of the query that each row matches, by how telling the words are."""
        total = float(self.idf.sum())
        covered: Scores = matches @ self.idf / total if total else np.zeros(len(matches))
        return covered

    def covered_by(self, terms: Sequence[str]) -> Scores:
        """How much of the query each candidate's terms hold, by how telling the words are.

        `terms`: a list in one text for each.
        """
        telling = (self.idf / (self.idf.sum() or 1.0)).tolist()
        starts = "|".join(map(re.escape, self._by_start))
        starting = re.compile(rf"\n((?:{starts}).*)")  # does not read over a line break
        found = list(map(starting.findall, terms))
        alike = self._alike(set(chain.from_iterable(found)))
        held = ({at for term in own for at in alike.get(term, ())} for own in found)
        return np.array([sum(telling[at] for at in places) for places in held])

    def said(self, names: Sequence[tuple[str, ...]]) -> Scores:
        """How much of each name, given by its words, the query says."""
        alike = self._alike(chain.from_iterable(set(names)))
        shares = {
            name: 1.0 if "".join(name) in self.compounds else _share(name, alike)
            for name in set(names)
        }
        return np.array([shares[name] for name in names])

    def _alike(self, words: Iterable[str]) -> dict[str, list[int]]:
        """The places of the query's words that are the same as each of these; those with any."""
        starts = self._by_start
        found = {}
        for other in words:
            places = [
                at for at in starts.get(other[:STEM_CHARS], ()) if same(self.words[at], other)
            ]
            if places:
                found[other] = places
        return found

    @cached_property
    def _by_start(self) -> dict[str, list[int]]:
        places: defaultdict[str, list[int]] = defaultdict(list)
        for at, word in enumerate(self.words):
            places[word[:STEM_CHARS]].append(at)
        return dict(places)


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


def _share(name: tuple[str, ...], alike: dict[str, list[int]]) -> float:
    return sum(word in alike for word in name) / len(name) if name else 0.0
