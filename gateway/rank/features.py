"""What the ranker looks at: one function per feature, a scene in, one number per candidate out.

Most of what tells a good place is relative to the other candidates: a word that all of them hold
says nothing. All values lie in [0, 1], so that weights compare.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Set

import numpy as np

from codelode.model import Category, Chunk
from codelode.names import Names, is_constructor
from gateway.rank.scene import Scene, Scores
from gateway.state import QueryKind

Feature = Callable[[Scene], Scores]

#: Words that ask for examples, which are then not held against a candidate.
EXAMPLE_WORDS = frozenset(
    {"example", "examples", "sample", "demo", "benchmark", "benchmarks", "script", "scripts"}
)


# How the two sides of the index found it


def keyword(scene: Scene) -> Scores:
    """BM25, the best candidate at 1; 0 where the keyword side did not find it."""
    return _by_best(np.array([c.keyword_score or 0.0 for c in scene.candidates]))


def similarity(scene: Scene) -> Scores:
    """Cosine, the best candidate at 1; the least one found where the vector side did not."""
    found = scene.similarities
    least = _least(found)
    return _by_best(np.maximum(np.where(np.isnan(found), least, found), 0.0))


def file_similarity(scene: Scene) -> Scores:
    """Cosine of the best candidate of its file, stretched from the least found to the best."""
    found = scene.similarities
    above = np.where(np.isnan(found), 0.0, found - _least(found))
    return scene.of_file(_by_best(above))


# Where the words of the query stand


def file_body(scene: Scene) -> Scores:
    """How much of the query the candidates of the file hold together."""
    together = np.zeros((int(scene.files.max()) + 1, scene.bodies.shape[1]))
    np.maximum.at(together, scene.files, scene.bodies)
    return scene.coverage(together)[scene.files]


def repository_said(scene: Scene) -> Scores:
    """How much of the name of its repository the query says."""
    spoken = set(scene.analysis.words)
    shares = {name: _said_literally(name, spoken) for name in set(scene.repositories)}
    return np.array([shares[name] for name in scene.repositories])


def folder_said(scene: Scene) -> Scores:
    """How much of the name of its folder the query says."""
    return scene.said([place.folder for place in scene.places])


def stem_said(scene: Scene) -> Scores:
    """How much of the name of its file the query says."""
    return scene.said([place.stem for place in scene.places])


def symbol(scene: Scene) -> Scores:
    """How much of the query the names of what it defines hold."""
    return scene.covered_by([names.terms for names in scene.names])


# What it defines


def definition(scene: Scene) -> Scores:
    """Of a query that is a name: 1 where what it is mainly about starts there and has this name,
    ½ where that is continued or a constructor, or has the name beside others.
    """
    if scene.analysis.kind is not QueryKind.IDENTIFIER:
        return np.zeros(len(scene.candidates))
    return _defining(scene, scene.identifiers)


def mentioned(scene: Scene) -> Scores:
    """The same for the names in a query of several words, also those with their parts apart."""
    if scene.analysis.kind is QueryKind.IDENTIFIER:
        return np.zeros(len(scene.candidates))
    return _defining(scene, scene.identifiers | scene.compounds)


def named(scene: Scene) -> Scores:
    """1 where what starts there is called by one word of a query of several words."""
    if scene.analysis.kind is QueryKind.IDENTIFIER:
        return np.zeros(len(scene.candidates))
    words = set(scene.words)
    return _flags(names.symbol in words and _starts(names) for names in scene.names)


def starts(scene: Scene) -> Scores:
    """1 where a definition starts."""
    return _flags(bool(names.defined) for names in scene.names)


# What it is


def first(scene: Scene) -> Scores:
    """1 for the beginning of a file: licence, imports, what a file says of itself."""
    return _flags(chunk.start_line == 1 for chunk in scene.chunks)


def test(scene: Scene) -> Scores:
    """1 for a test that the query does not ask for."""
    return _unasked(scene, Category.TEST)


def docs(scene: Scene) -> Scores:
    """1 for a document that the query does not ask for."""
    return _unasked(scene, Category.DOCS)


def example(scene: Scene) -> Scores:
    """1 for an example, a benchmark, a script or the like that the query does not ask for."""
    if not EXAMPLE_WORDS.isdisjoint(scene.analysis.words):
        return np.zeros(len(scene.candidates))
    return _flags(place.is_example for place in scene.places)


def configuration(scene: Scene) -> Scores:
    """1 for a configuration file."""
    return _flags(chunk.category is Category.CONFIGURATION for chunk in scene.chunks)


def foreign(scene: Scene) -> Scores:
    """1 for code that nobody here wrote."""
    return _unasked(scene, Category.VENDORED, Category.GENERATED)


def _by_best(scores: Scores) -> Scores:
    best = float(scores.max())
    return scores / best if best > 0 else np.zeros(len(scores))


def _flags(values: Iterable[bool]) -> Scores:
    return np.fromiter(values, float)


def _least(found: Scores) -> float:
    return 0.0 if np.isnan(found).all() else float(np.nanmin(found))


def _said_literally(name: tuple[str, ...], spoken: Set[str]) -> float:
    if "".join(name) in spoken:
        return 1.0
    return sum(word in spoken for word in name) / len(name) if name else 0.0


def _defining(scene: Scene, wanted: Set[str]) -> Scores:
    """How far each candidate is what one of the wanted names stands for."""
    pairs = zip(scene.names, scene.chunks, strict=True)
    return np.array([_defines(names, chunk, wanted) for names, chunk in pairs])


def _defines(names: Names, chunk: Chunk, wanted: Set[str]) -> float:
    if names.symbol in wanted:
        return 1.0 if _starts(names) and not is_constructor(chunk.symbol) else 0.5
    return 0.0 if wanted.isdisjoint(names.defined.split("\n")) else 0.5


def _starts(names: Names) -> bool:
    """Whether what it is mainly about starts there."""
    return f"\n{names.symbol}\n" in names.defined


def _unasked(scene: Scene, *categories: Category) -> Scores:
    """1 for files of these categories that the query does not ask for."""
    unasked = scene.analysis.unasked.intersection(categories)
    return _flags(chunk.category in unasked for chunk in scene.chunks)
