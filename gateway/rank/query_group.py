"""Hold a query and its candidates, and compute once the values that several features need.

A word of the query matches a chunk if the case-folded text contains it; the text is not split into
words. Names are split, and a word of the query matches a word of a name by a common prefix
(`routing` finds `routes.py`). If all candidates are of one repository, the words of its name are
ignored in the query, because they do not distinguish candidates.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate, chain, islice, pairwise
from math import ceil

import numpy as np
import numpy.typing as npt

from codelode.model import Candidate, Category, Chunk
from codelode.names import Names, compounds, names_of, spelling
from gateway.messages import longest_run, message
from gateway.rank import keys
from gateway.rank.paths import PathWords, path_words, repository_words
from gateway.state import Analysis

Scores = npt.NDArray[np.float64]  # (candidates,)
Numbers = npt.NDArray[np.int64]  # (candidates,)
Matches = npt.NDArray[np.float64]  # (candidates, words), 1 where it matches
Flags = npt.NDArray[np.bool_]  # (candidates,)

_NUMBERS = {category: number for number, category in enumerate(Category)}

#: Two words match when they share a prefix of at least STEM_CHARS characters that is at least
#: STEM_SHARE of the longer word: `routing` and `routes`, `cache` and `caching`, not `test` and
#: `rest`. A share of 0.5 gave NDCG@10 .007 more than 0.6; 0.4 gave less.
STEM_CHARS = 4
STEM_SHARE = 0.5

#: Maximum number of pairs of adjacent words that are searched for, and number of the first
#: characters of the second word that must match; its ending may differ.
MAX_PAIRS = 12
PAIR_CHARS = 5

#: Maximum number of occurrences of the second word of a pair that are checked one by one in a text.
#: If there are more, a search for each separator is faster: 5 ms instead of 36 ms in 72 tables of
#: 6 kB of digits. Values of 16 and 32 are not faster.
MAX_LOOKED_AT = 8

#: What the use of a key in a configuration file counts, relative to one in code. Chosen by hand.
CONFIGURED = 0.5

#: Separators of two adjacent words of prose or of a name.
SEPARATORS = ("", " ", "_", "-", ".")

#: Minimum share of a message that a source has, relative to the candidate with the largest share.
#: Chosen by hand.
REPEATED = 0.5


@dataclass(frozen=True)
class QueryGroup:
    """A query and its candidates, at least one."""

    analysis: Analysis
    candidates: Sequence[Candidate]

    @cached_property
    def chunks(self) -> list[Chunk]:
        return [candidate.chunk for candidate in self.candidates]

    @cached_property
    def names(self) -> list[Names]:
        """Return the names that each chunk defines."""
        return [
            one.names or names_of(one.chunk.symbol, one.chunk.symbols) for one in self.candidates
        ]

    @cached_property
    def paths(self) -> list[PathWords]:
        """Return the words of the path of each chunk."""
        return [path_words(chunk.path) for chunk in self.chunks]

    @cached_property
    def repositories(self) -> list[tuple[str, ...]]:
        """Return the words of the name of each chunk's repository."""
        return [repository_words(chunk.repository) for chunk in self.chunks]

    @cached_property
    def similarities(self) -> Scores:
        """Return the cosine of each candidate; NaN if the vector search did not return it."""
        given = [candidate.similarity for candidate in self.candidates]
        return np.array([np.nan if one is None else one for one in given])

    @cached_property
    def words(self) -> tuple[str, ...]:
        """Return the words of the query that can distinguish candidates."""
        own, *more = set(self.repositories)
        if more:
            return self.analysis.words
        others = [word for word in self.analysis.words if word not in (*own, "".join(own))]
        return tuple(others) or self.analysis.words

    @cached_property
    def texts(self) -> list[str]:
        """Return the case-folded text of each chunk."""
        return [chunk.content.casefold() for chunk in self.chunks]

    @cached_property
    def bodies(self) -> Matches:
        """Return the words of the query that each chunk contains."""
        held = [[word in text for text in self.texts] for word in self.words]
        return np.array(held, float).reshape(len(self.words), len(self.texts)).T

    @cached_property
    def idf(self) -> Scores:
        """Return the inverse document frequency of each word in the candidates; 0 if absent."""
        held = self.bodies.sum(axis=0)
        idf: Scores = np.log1p((len(self.candidates) - held + 0.5) / (held + 0.5))
        return np.where(held > 0, idf, 0.0)

    @cached_property
    def files(self) -> Numbers:
        """Return the number of each candidate's file, 0-based."""
        numbers: dict[tuple[str, str], int] = {}
        files = [(chunk.repository, chunk.path) for chunk in self.chunks]
        return np.array([numbers.setdefault(file, len(numbers)) for file in files])

    @cached_property
    def _categories(self) -> Numbers:
        return np.array([_NUMBERS[_category(chunk)] for chunk in self.chunks])

    @cached_property
    def identifiers(self) -> frozenset[str]:
        """Return the names that the query writes like code, normalised by `spelling`."""
        return frozenset(map(spelling, self.analysis.identifiers)) - {""}

    @cached_property
    def compounds(self) -> frozenset[str]:
        """Return adjacent words of the query, joined: `thread pool` → `threadpool`."""
        return compounds(self.analysis.words)

    @cached_property
    def message_shares(self) -> Scores:
        """Return the share of a message that each chunk has as it is written; 0 for a document."""
        words = self.analysis.message
        if not words:
            return np.zeros(len(self.candidates))
        said = message(words)
        runs = (
            0 if chunk.category is Category.DOCS else longest_run(said, chunk.content)
            for chunk in self.chunks
        )
        return np.fromiter(runs, float) / len(words)

    @cached_property
    def key_uses(self) -> Scores:
        """Return how each chunk uses the key that the query is; 0 for a document.

        Also 0 for a test if another file uses the key. If the name is defined outside of tests,
        only code that reads a variable of the environment counts.
        """
        key = self.analysis.key
        if not key:
            return np.zeros(len(self.candidates))
        uses = np.fromiter((keys.use(key, chunk.content) for chunk in self.chunks), float)
        uses[self.has_category(Category.CONFIGURATION)] *= CONFIGURED
        uses = self.outside_tests(uses)
        defines = np.fromiter((names.symbol in self.identifiers for names in self.names), bool)
        if (defines & ~self.has_category(Category.TEST)).any():
            uses = np.where(key.isupper() & (uses == keys.DECLARED), uses, 0.0)
        return uses

    def outside_tests(self, scores: Scores) -> Scores:
        """Return the scores without those of documents, and of tests if another file has one."""
        is_source = ~self.has_category(Category.TEST, Category.DOCS)
        is_kept = is_source if (scores[is_source] > 0).any() else ~self.has_category(Category.DOCS)
        return np.where(is_kept, scores, 0.0)

    @cached_property
    def repeated(self) -> Flags:
        """Return which candidates are tests that repeat a message of another file.

        A test may have it with the same values and therefore more of it than its source, which
        needs at least REPEATED of it.
        """
        shares, is_test = self.message_shares, self.has_category(Category.TEST)
        most = float(shares.max(initial=0.0))
        is_source = ~is_test & (shares >= REPEATED * most)
        return is_test if most and is_source.any() else np.zeros(len(shares), np.bool_)

    def has_category(self, *categories: Category) -> Flags:
        """Return whether each candidate is of one of the categories."""
        wanted = np.zeros(len(_NUMBERS), np.bool_)
        wanted[[_NUMBERS[category] for category in categories]] = True
        return wanted[self._categories]

    def containing(self, text: str) -> Flags:
        """Return which candidates may contain the text: those that have its query words."""
        folded = text.casefold()
        held = self.bodies[:, [word in folded for word in self.words]]
        return np.asarray(held.all(axis=1), np.bool_)

    def of_file(self, scores: Scores) -> Scores:
        """Return for each candidate the best score in its file."""
        best = np.full(int(self.files.max()) + 1, -np.inf)
        np.maximum.at(best, self.files, scores)
        return best[self.files]

    def coverage(self, matches: Matches) -> Scores:
        """Return the share of the query that each row matches, weighted by idf."""
        total = float(self.idf.sum())
        covered: Scores = matches @ self.idf / total if total else np.zeros(len(matches))
        return covered

    def adjacent(self) -> Scores:
        """Return the share of the pairs of adjacent words of the query that each chunk has."""
        pairs = list(islice(pairwise(self.words), MAX_PAIRS))
        held = np.zeros(len(self.candidates))
        for at, (one, other) in enumerate(pairs):
            start = other[:PAIR_CHARS]
            before = tuple(f"{one}{between}" for between in SEPARATORS)
            may_have = self.bodies[:, at]
            if start == other:
                may_have = may_have * self.bodies[:, at + 1]
            for number in np.flatnonzero(may_have).tolist():
                held[number] += _stands_after(before, start, self.texts[number])
        return held / max(len(pairs), 1)

    def covered_by(self, terms: Sequence[str]) -> Scores:
        """Return the share of the query that the terms of each candidate match, weighted by idf.

        `terms`: for each candidate one text, with a term on each line.
        """
        telling = (self.idf / (self.idf.sum() or 1.0)).tolist()
        whole, ends = "".join(terms), list(accumulate(map(len, terms)))
        matching: dict[str, list[int]] = {}
        held: list[set[int]] = [set() for _ in terms]
        for start in self._by_start:
            for at, term in _lines_with(start, whole):
                places = matching.get(term)
                if places is None:
                    places = matching[term] = self._places(term)
                if places:
                    held[bisect_right(ends, at)].update(places)
        return np.array([sum(telling[at] for at in sorted(places)) for places in held])

    def said(self, names: Sequence[tuple[str, ...]]) -> Scores:
        """Return the share of each name, given by its words, that the query contains."""
        distinct, starts = set(names), self._by_start
        words = set(chain.from_iterable(distinct))
        matching = {word for word in words if word[:STEM_CHARS] in starts and self._places(word)}
        shares = {
            name: 1.0 if "".join(name) in self.compounds else _share(name, matching)
            for name in distinct
        }
        return np.array([shares[name] for name in names])

    def _places(self, other: str) -> list[int]:
        """Return the positions of the words of the query that match the word."""
        near = self._by_start.get(other[:STEM_CHARS], ())
        return [at for at in near if same(self.words[at], other)]

    @cached_property
    def _by_start(self) -> dict[str, list[int]]:
        places: defaultdict[str, list[int]] = defaultdict(list)
        for at, word in enumerate(self.words):
            places[word[:STEM_CHARS]].append(at)
        return dict(places)


def _category(chunk: Chunk) -> Category:
    """Return the category of the file; for the tests within a source file of Rust, that of tests.

    They are in a module `tests`, which `symbol` names: `tests.retries`.
    """
    is_rust_test = chunk.language == "rust" and "tests" in chunk.symbol.split(".")
    return Category.TEST if is_rust_test else chunk.category


def _stands_after(before: tuple[str, ...], word: str, text: str) -> bool:
    """Return whether the word occurs in the text right after one of `before`.

    Searching for each of these with the word reads the text five times, so this is done only for
    texts with many occurrences of the word.
    """
    at = text.find(word)
    for _ in range(MAX_LOOKED_AT):
        if at < 0 or text.endswith(before, 0, at):
            return at >= 0
        at = text.find(word, at + 1)
    return any(f"{one}{word}" in text for one in before)


def _lines_with(start: str, whole: str) -> Iterator[tuple[int, str]]:
    """Yield the lines that begin with `start`, each with its position.

    The text is empty, or has a line break before and after each line.
    """
    start = f"\n{start}"
    at = whole.find(start)
    while at >= 0:
        end = whole.find("\n", at + 1)
        yield at, whole[at + 1 : end]
        at = whole.find(start, end)


def same(word: str, other: str) -> bool:
    """Return whether two words match."""
    if word == other:
        return True
    least = max(STEM_CHARS, ceil(STEM_SHARE * max(len(word), len(other))))
    return min(len(word), len(other)) >= least and word.startswith(other[:least])


def _share(name: tuple[str, ...], matching: Set[str]) -> float:
    return 0.0 if matching.isdisjoint(name) else sum(map(matching.__contains__, name)) / len(name)
