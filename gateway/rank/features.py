"""Compute the features of the linear ranker: each function returns one number per candidate.

Most features are relative to the other candidates: a word that all of them contain distinguishes
none. All values lie in [0, 1], so that weights compare.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Set

import numpy as np

from codelode.model import Category, Chunk
from codelode.names import Names, is_constructor
from gateway.rank.scene import Scene, Scores
from gateway.state import QueryKind

Feature = Callable[[Scene], Scores]

#: Words of a query that ask for examples, which then get no penalty.
EXAMPLE_WORDS = frozenset(
    {"example", "examples", "sample", "demo", "benchmark", "benchmarks", "script", "scripts"}
)


# Scores of the index


def keyword(scene: Scene) -> Scores:
    """Return BM25 relative to the best candidate; 0 if the keyword search did not return it."""
    return _by_best(np.array([c.keyword_score or 0.0 for c in scene.candidates]))


def similarity(scene: Scene) -> Scores:
    """Return the cosine relative to the best candidate; the least cosine found stands for none."""
    found = scene.similarities
    least = _least(found)
    return _by_best(np.maximum(np.where(np.isnan(found), least, found), 0.0))


def file_similarity(scene: Scene) -> Scores:
    """Return the cosine of the best candidate of its file, scaled from the least to the best."""
    found = scene.similarities
    above = np.where(np.isnan(found), 0.0, found - _least(found))
    return scene.of_file(_by_best(above))


# Words of the query in the file and in names


def file_body(scene: Scene) -> Scores:
    """Return the share of the query that the candidates of its file contain together."""
    together = np.zeros((int(scene.files.max()) + 1, scene.bodies.shape[1]))
    np.maximum.at(together, scene.files, scene.bodies)
    return scene.coverage(together)[scene.files]


def repository_said(scene: Scene) -> Scores:
    """Return the share of the name of its repository that the query contains."""
    spoken = set(scene.analysis.words)
    shares = {name: _said_literally(name, spoken) for name in set(scene.repositories)}
    return np.array([shares[name] for name in scene.repositories])


def folder_said(scene: Scene) -> Scores:
    """Return the share of the name of its folder that the query contains."""
    return scene.said([path.folder for path in scene.paths])


def stem_said(scene: Scene) -> Scores:
    """Return the share of the name of its file that the query contains."""
    return scene.said([path.stem for path in scene.paths])


def symbol(scene: Scene) -> Scores:
    """Return the share of the query that the names of its definitions contain."""
    return scene.covered_by([names.terms for names in scene.names])


# Definitions


def definition(scene: Scene) -> Scores:
    """Return 1 if the query is a name and the main definition has it and starts in the chunk.

    Return ½ if that definition continues from an earlier chunk or is a constructor, or if the chunk
    defines the name beside others.
    """
    if scene.analysis.kind is not QueryKind.IDENTIFIER:
        return np.zeros(len(scene.candidates))
    return _defining(scene, scene.identifiers)


def mentioned(scene: Scene) -> Scores:
    """Score as `definition` does, for names within a query of several words, also split ones."""
    if scene.analysis.kind is QueryKind.IDENTIFIER:
        return np.zeros(len(scene.candidates))
    return _defining(scene, scene.identifiers | scene.compounds)


def named(scene: Scene) -> Scores:
    """Return 1 if a word of a longer query names the main definition, which starts here."""
    if scene.analysis.kind is QueryKind.IDENTIFIER:
        return np.zeros(len(scene.candidates))
    words = set(scene.words)
    return _flags(names.symbol in words and _starts(names) for names in scene.names)


def starts(scene: Scene) -> Scores:
    """Return 1 if a definition starts in the chunk."""
    return _flags(bool(names.defined) for names in scene.names)


# Kind of file


def first(scene: Scene) -> Scores:
    """Return 1 for the beginning of a file, which holds its licence, imports and description."""
    return _flags(chunk.start_line == 1 for chunk in scene.chunks)


def test(scene: Scene) -> Scores:
    """Return 1 for a test, unless the query asks for tests."""
    return _unasked(scene, Category.TEST)


def docs(scene: Scene) -> Scores:
    """Return 1 for a document, unless the query asks for documents."""
    return _unasked(scene, Category.DOCS)


def example(scene: Scene) -> Scores:
    """Return 1 for an example, benchmark, script or the like, unless the query asks for one."""
    if not EXAMPLE_WORDS.isdisjoint(scene.analysis.words):
        return np.zeros(len(scene.candidates))
    return _flags(path.is_example for path in scene.paths)


def configuration(scene: Scene) -> Scores:
    """Return 1 for a configuration file."""
    return _flags(chunk.category is Category.CONFIGURATION for chunk in scene.chunks)


def foreign(scene: Scene) -> Scores:
    """Return 1 for vendored or generated code."""
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
    """Return for each candidate how well it defines one of the wanted names."""
    pairs = zip(scene.names, scene.chunks, strict=True)
    return np.array([_defines(names, chunk, wanted) for names, chunk in pairs])


def _defines(names: Names, chunk: Chunk, wanted: Set[str]) -> float:
    if names.symbol in wanted:
        return 1.0 if _starts(names) and not is_constructor(chunk.symbol) else 0.5
    return 0.0 if wanted.isdisjoint(names.defined.split("\n")) else 0.5


def _starts(names: Names) -> bool:
    """Whether the main definition starts in the chunk."""
    return f"\n{names.symbol}\n" in names.defined


def _unasked(scene: Scene, *categories: Category) -> Scores:
    """Return 1 for files of these categories, unless the query asks for them."""
    unasked = scene.analysis.unasked.intersection(categories)
    return _flags(chunk.category in unasked for chunk in scene.chunks)
