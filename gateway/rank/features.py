"""What the ranker looks at: one function per feature, a scene in, one number per candidate out.

Most of what tells a good place is relative to the other candidates: a word that all of them hold
says nothing. All values lie in [0, 1], so that weights compare.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Set

import numpy as np

from codelode.model import Category, Chunk, Kind
from gateway.rank.fuse import Scores
from gateway.rank.scene import Scene, joined, last

Feature = Callable[[Scene], Scores]

#: Words that ask for tests or documents, which are then not held against a candidate.
TEST_WORDS = frozenset({"test", "tests", "testing", "spec", "mock", "fixture", "fixtures"})
DOCS_WORDS = frozenset({"doc", "docs", "documentation", "readme", "changelog", "tutorial", "guide"})


# How the two sides of the index found it


def hybrid(scene: Scene) -> Scores:
    """Reciprocal rank fusion of both sides, the best candidate at 1."""
    return _by_best(scene.hybrid)


def keyword(scene: Scene) -> Scores:
    """BM25, the best candidate at 1; 0 where the keyword side did not find it."""
    return _by_best(np.array([c.keyword_score or 0.0 for c in scene.candidates]))


def similarity(scene: Scene) -> Scores:
    """Cosine, the best candidate at 1; 0 where the vector side did not find it."""
    return _by_best(np.array([max(0.0, c.similarity or 0.0) for c in scene.candidates]))


# Where the words of the query stand


def body(scene: Scene) -> Scores:
    """How much of the query the chunk holds."""
    return scene.coverage(scene.bodies)


def file_body(scene: Scene) -> Scores:
    """How much of the query the candidates of the file hold together."""
    together = np.zeros((int(scene.files.max()) + 1, scene.bodies.shape[1]))
    np.maximum.at(together, scene.files, scene.bodies)
    return scene.coverage(together)[scene.files]


def folder_said(scene: Scene) -> Scores:
    """How much of the name of its folder the query says."""
    return scene.said(folder_of(c.chunk.path) for c in scene.candidates)


def stem_said(scene: Scene) -> Scores:
    """How much of the name of its file the query says."""
    return scene.said(stem_of(c.chunk.path) for c in scene.candidates)


def symbol(scene: Scene) -> Scores:
    """How much of the query the names of what it defines hold."""
    return scene.covered_by(" ".join((c.chunk.symbol, *c.chunk.symbols)) for c in scene.candidates)


def definition(scene: Scene) -> Scores:
    """1 where it mainly defines a name that the query writes, ½ where it does beside others."""
    return np.array([_defines(c.chunk, scene.names) for c in scene.candidates])


# What it is


def defines(scene: Scene) -> Scores:
    """1 where it defines a symbol."""
    return _flags(c.chunk.kind not in (Kind.BLOCK, Kind.TEXT) for c in scene.candidates)


def length(scene: Scene) -> Scores:
    """The logarithm of its length, the longest candidate at 1."""
    return _by_best(np.log1p([len(c.chunk.content) for c in scene.candidates]))


def test(scene: Scene) -> Scores:
    """1 for a test that the query does not ask for."""
    return _unasked(scene, TEST_WORDS, {Category.TEST})


def docs(scene: Scene) -> Scores:
    """1 for a document that the query does not ask for."""
    return _unasked(scene, DOCS_WORDS, {Category.DOCS})


def configuration(scene: Scene) -> Scores:
    """1 for a configuration file."""
    return _unasked(scene, frozenset(), {Category.CONFIGURATION})


def foreign(scene: Scene) -> Scores:
    """1 for code that nobody here wrote."""
    return _unasked(scene, frozenset(), {Category.VENDORED, Category.GENERATED})


def stem_of(path: str) -> str:
    """`src/http/client.test.ts` → `client`."""
    return path.rpartition("/")[2].lstrip(".").partition(".")[0]


def folder_of(path: str) -> str:
    """`src/http/client.ts` → `http`; empty at the root."""
    return path.rpartition("/")[0].rpartition("/")[2]


def _by_best(scores: Scores) -> Scores:
    best = float(scores.max())
    return scores / best if best > 0 else np.zeros(len(scores))


def _flags(values: Iterable[bool]) -> Scores:
    return np.fromiter(values, float)


def _defines(chunk: Chunk, names: Set[str]) -> float:
    if not names:
        return 0.0
    if joined(last(chunk.symbol)) in names:
        return 1.0
    return 0.5 if any(joined(last(name)) in names for name in chunk.symbols) else 0.0


def _unasked(scene: Scene, words: Set[str], categories: Set[Category]) -> Scores:
    if not words.isdisjoint(scene.analysis.words):
        return np.zeros(len(scene.candidates))
    return _flags(c.chunk.category in categories for c in scene.candidates)
