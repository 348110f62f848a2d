"""Compute the features of the linear ranker: each function returns one number per candidate.

Most features are relative to the other candidates: a word that all of them contain distinguishes
none. All values lie in [0, 1], so that weights compare.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Set

import numpy as np

from codelode.model import Category, Chunk, Kind
from codelode.names import Names, is_constructor
from gateway.rank.paths import MAX_DEPTH
from gateway.rank.query_group import Numbers, QueryGroup, Scores
from gateway.routes import declared
from gateway.state import QueryKind

Feature = Callable[[QueryGroup], Scores]

#: Words of a query that ask for examples, which then get no penalty.
EXAMPLE_WORDS = frozenset(
    {"example", "examples", "sample", "demo", "benchmark", "benchmarks", "script", "scripts"}
)


#: Number of characters from which on a chunk counts as long.
LONG = 2_000

#: Number of the best chunks of a file, and of a repository, whose scores are summed.
FILE_CHUNKS = 5
REPOSITORY_CHUNKS = 3

#: Kinds of definitions that are usually inside others, and kinds that contain them.
DETAILS = frozenset({Kind.FUNCTION, Kind.METHOD, Kind.MACRO, Kind.CONSTANT})
TYPES = frozenset({Kind.CLASS, Kind.STRUCT, Kind.INTERFACE, Kind.TRAIT, Kind.ENUM, Kind.TYPE})

#: Share of the penalties of tests and documents that remains if the query may want such files.
HALF = 0.5


# Scores of the index


def keyword(group: QueryGroup) -> Scores:
    """Return BM25 relative to the best candidate; 0 if the keyword search did not find it."""
    return _by_best(np.array([c.keyword_score or 0.0 for c in group.candidates]))


def similarity(group: QueryGroup) -> Scores:
    """Return the cosine relative to the highest one; a missing cosine counts as the lowest one."""
    found = group.similarities
    least = _least(found)
    return _by_best(np.maximum(np.where(np.isnan(found), least, found), 0.0))


def file_similarity(group: QueryGroup) -> Scores:
    """Return the highest cosine in its file; of all candidates, the lowest is 0, the highest 1."""
    found = group.similarities
    above = np.where(np.isnan(found), 0.0, found - _least(found))
    return group.of_file(_by_best(above))


def file_similarities(group: QueryGroup) -> Scores:
    """Return the sum of the file's best cosines, relative to the file with the greatest sum."""
    found = group.similarities
    above = np.where(np.isnan(found), 0.0, found - _least(found))
    return _by_best(_best_sums(above, group.files, FILE_CHUNKS))


def repository_keyword(group: QueryGroup) -> Scores:
    """Return the sum of the repository's best BM25 scores, relative to the greatest sum."""
    numbers: dict[str, int] = {}
    of = np.array([numbers.setdefault(one.repository, len(numbers)) for one in group.chunks])
    found = np.array([one.keyword_score or 0.0 for one in group.candidates])
    return _by_best(_best_sums(found, of, REPOSITORY_CHUNKS))


def agreed(group: QueryGroup) -> Scores:
    """Return 1 for a chunk that both the keyword search and the vector search found."""
    return _flags(
        one.keyword_score is not None and one.similarity is not None for one in group.candidates
    )


# Words of the query in the file and in names


def file_body(group: QueryGroup) -> Scores:
    """Return the share of the query that the candidates of its file contain together."""
    together = np.zeros((int(group.files.max()) + 1, group.bodies.shape[1]))
    np.maximum.at(together, group.files, group.bodies)
    return group.coverage(together)[group.files]


def phrase(group: QueryGroup) -> Scores:
    """Return the share of the query's pairs of adjacent words that are adjacent in the chunk.

    `thread pool` is in `thread pools`, `thread_pool`, and `ThreadPool`.
    """
    return group.adjacent()


def repository_said(group: QueryGroup) -> Scores:
    """Return the share of the name of its repository that the query contains."""
    spoken = set(group.analysis.words)
    shares = {name: _said_literally(name, spoken) for name in set(group.repositories)}
    return np.array([shares[name] for name in group.repositories])


def folder_said(group: QueryGroup) -> Scores:
    """Return the share of the name of its folder that the query contains."""
    return group.said([path.folder for path in group.paths])


def stem_said(group: QueryGroup) -> Scores:
    """Return the share of the name of its file that the query contains."""
    return group.said([path.stem for path in group.paths])


def symbol(group: QueryGroup) -> Scores:
    """Return the share of the query that the names of its definitions contain."""
    return group.covered_by([names.terms for names in group.names])


# Text of the query, as it is written


def verbatim(group: QueryGroup) -> Scores:
    """Return 1 if the chunk contains the whole query as it is written; 0 for a document.

    Also 0 for a test that repeats a message of another file.
    """
    text = group.analysis.verbatim
    if not text:
        return np.zeros(len(group.candidates))
    is_held, found = _holds(text), np.zeros(len(group.candidates))
    may_hold = group.containing(text) & ~group.has_category(Category.DOCS) & ~group.repeated
    for at in np.flatnonzero(may_hold).tolist():
        found[at] = is_held(group.chunks[at])
    return np.where(group.key_uses > 0, 1.0, found)


def key(group: QueryGroup) -> Scores:
    """Return 1 if the chunk declares the key that the query is; less if it only reads it."""
    return group.key_uses


def route(group: QueryGroup) -> Scores:
    """Return the share of the URL path in the query that the chunk declares; 0 for a document.

    Also 0 for a test if another file declares it.
    """
    path, method = group.analysis.url_path, group.analysis.url_method
    if not path:
        return np.zeros(len(group.candidates))
    found = np.fromiter(
        (declared(path, chunk.content, method=method) for chunk in group.chunks), float
    )
    return group.outside_tests(found)


def pasted(group: QueryGroup) -> Scores:
    """Return the share of a message that the chunk has as it is written; 0 for a document."""
    return np.where(group.repeated, 0.0, group.message_shares)


def snippet(group: QueryGroup) -> Scores:
    """Return the share of the lines of a snippet that the chunk has, whatever their indentation.

    A line counts by its length, because short lines occur in many places.
    """
    lines = group.analysis.lines
    if not lines:
        return np.zeros(len(group.candidates))
    total = sum(map(len, lines))
    return np.fromiter(
        (sum(len(one) for one in lines if one in chunk.content) / total for chunk in group.chunks),
        float,
    )


def as_written(group: QueryGroup) -> Scores:
    """Return the share of the query's names that the chunk has; case matters.

    `FromRequest` and `from_request` are two names. A name that the chunk only uses counts half.
    """
    names = [name for name in group.analysis.last_names if not name.islower() or "_" in name]
    if not names:
        return np.zeros(len(group.candidates))
    total = np.zeros(len(group.candidates))
    for name in names:
        is_held = _holds(name)
        total += [_writes(name, chunk, is_held) for chunk in group.chunks]
    return total / len(names)


# Definitions


def definition(group: QueryGroup) -> Scores:
    """Return 1 if the query is a name and the main definition has it and starts in the chunk.

    Return ½ if that definition continues from an earlier chunk, is a constructor, or is not of the
    kind that the query asks for, or if the name is not the main definition of the chunk.
    """
    if group.analysis.kind is not QueryKind.IDENTIFIER:
        return np.zeros(len(group.candidates))
    return _defining(group, group.identifiers)


def mentioned(group: QueryGroup) -> Scores:
    """Score as `definition` does, for names in a longer query, also split ones (`thread pool`)."""
    if group.analysis.kind is QueryKind.IDENTIFIER:
        return np.zeros(len(group.candidates))
    return _defining(group, group.identifiers | group.compounds)


def named(group: QueryGroup) -> Scores:
    """Return 1 if a word of a longer query names the main definition, which starts in the chunk."""
    if group.analysis.kind is QueryKind.IDENTIFIER:
        return np.zeros(len(group.candidates))
    words = set(group.words)
    return _flags(names.symbol in words and _starts(names) for names in group.names)


def starts(group: QueryGroup) -> Scores:
    """Return 1 if a definition starts in the chunk."""
    return _flags(bool(names.defined) for names in group.names)


def length(group: QueryGroup) -> Scores:
    """Return the length of the chunk relative to LONG, at most 1."""
    return np.minimum([len(chunk.content) for chunk in group.chunks], LONG) / LONG


def detail(group: QueryGroup) -> Scores:
    """Return 1 for a function, a method, a macro, or a constant.

    They match the words of many queries that a type, a module, or a whole section answers better.
    """
    return _flags(chunk.kind in DETAILS for chunk in group.chunks)


def type_for_question(group: QueryGroup) -> Scores:
    """Return 1 for a type if the query is a question, as `how are redirects followed` is."""
    if not group.analysis.is_question:
        return np.zeros(len(group.candidates))
    return _flags(chunk.kind in TYPES for chunk in group.chunks)


# Kind of file


def first(group: QueryGroup) -> Scores:
    """Return 1 for the beginning of a file, which has its licence, imports, and description."""
    return _flags(chunk.start_line == 1 for chunk in group.chunks)


def declaration(group: QueryGroup) -> Scores:
    """Return 1 for a header or a file of types, which declares what another file defines."""
    return _flags(path.is_declaration for path in group.paths)


def older(group: QueryGroup) -> Scores:
    """Return 1 for a file below `v1/` if a candidate is below a `v2/` beside it, unless the query
    has the word `v1`.
    """
    places = [
        (chunk.repository, *path.version_folder) if path.version_folder else None
        for chunk, path in zip(group.chunks, group.paths, strict=True)
    ]
    newest: dict[tuple[str, str], int] = {}
    for repository, folder, version in filter(None, places):
        newest[repository, folder] = max(version, newest.get((repository, folder), 0))
    said = group.analysis.words
    return _flags(
        place is not None and place[2] < newest[place[:2]] and f"v{place[2]}" not in said
        for place in places
    )


def depth(group: QueryGroup) -> Scores:
    """Return the number of folders that contain the file, relative to MAX_DEPTH."""
    return np.array([path.depth / MAX_DEPTH for path in group.paths])


def test(group: QueryGroup) -> Scores:
    """Return 1 for a test; ½ if the query mentions tests, which may mean code for testing.

    Also ½ if it describes a change: its tests are relevant, but less than the changed code.
    """
    is_unasked = Category.TEST in group.analysis.unasked and not group.analysis.is_change
    penalty = 1.0 if is_unasked else HALF
    return penalty * group.has_category(Category.TEST).astype(float)


def docs(group: QueryGroup) -> Scores:
    """Return 1 for a document, unless the query asks for one; ½ if it describes a change."""
    penalty = HALF if group.analysis.is_change else 1.0
    return penalty * _unasked(group, Category.DOCS)


def example(group: QueryGroup) -> Scores:
    """Return 1 for an example, a benchmark, a script, or similar, unless the query asks for one."""
    if not EXAMPLE_WORDS.isdisjoint(group.analysis.words):
        return np.zeros(len(group.candidates))
    return _flags(path.is_example for path in group.paths)


def configuration(group: QueryGroup) -> Scores:
    """Return 1 for a configuration file."""
    return group.has_category(Category.CONFIGURATION).astype(float)


def settings(group: QueryGroup) -> Scores:
    """Return 1 for a file of settings or defaults if the query asks where a value is set."""
    if not group.analysis.asks_where_set:
        return np.zeros(len(group.candidates))
    return _flags(path.is_of_settings for path in group.paths)


def foreign(group: QueryGroup) -> Scores:
    """Return 1 for vendored or generated code."""
    return _unasked(group, Category.VENDORED, Category.GENERATED)


def _holds(text: str) -> Callable[[Chunk], bool]:
    """Return a predicate that tells whether a chunk contains the text outside longer names.

    Compiling a regular expression would take longer than testing all candidates.
    """
    begins_name = text[0].isalnum() or text[0] in "_-"
    ends_name = text[-1].isalnum() or text[-1] == "_"

    def is_held(chunk: Chunk) -> bool:
        content = chunk.content
        at = content.find(text)
        while at >= 0:
            before, after = content[at - 1 : at], content[at + len(text) : at + len(text) + 1]
            if not ((begins_name and _is_in_name(before)) or (ends_name and _is_in_name(after))):
                return True
            at = content.find(text, at + 1)
        return False

    return is_held


def _is_in_name(char: str) -> bool:
    """Return whether the character may be part of a name; it is empty at an end of the text."""
    return char.isalnum() or char in {"_", "-"}


def _writes(name: str, chunk: Chunk, is_held: Callable[[Chunk], bool]) -> float:
    if any(full.rpartition(".")[2] == name for full in (chunk.symbol, *chunk.symbols)):
        return 1.0
    return 0.5 if is_held(chunk) else 0.0


def _by_best(scores: Scores) -> Scores:
    best = float(scores.max())
    return scores / best if best > 0 else np.zeros(len(scores))


def _best_sums(scores: Scores, of: Numbers, count: int) -> Scores:
    """Return for each candidate the sum of the `count` best scores of those with its number."""
    order = np.lexsort((-scores, of))
    grouped = of[order]
    rank = np.arange(len(order)) - np.searchsorted(grouped, grouped)
    best = order[rank < count]
    sums = np.bincount(of[best], weights=scores[best])
    return np.asarray(sums[of], float)


def _flags(values: Iterable[bool]) -> Scores:
    return np.fromiter(values, float)


def _least(found: Scores) -> float:
    known = found[~np.isnan(found)]
    return float(known.min()) if known.size else 0.0


def _said_literally(name: tuple[str, ...], spoken: Set[str]) -> float:
    if "".join(name) in spoken:
        return 1.0
    return sum(word in spoken for word in name) / len(name) if name else 0.0


def _defining(group: QueryGroup, queried: Set[str]) -> Scores:
    """Return for each candidate how well it defines one of the queried names."""
    pairs = zip(group.names, group.chunks, strict=True)
    kinds = group.analysis.kinds
    return np.array([_defines(names, chunk, queried, kinds) for names, chunk in pairs])


def _defines(names: Names, chunk: Chunk, queried: Set[str], kinds: Set[Kind]) -> float:
    if names.symbol in queried:
        is_asked = not kinds or chunk.kind in kinds
        return 1.0 if is_asked and _starts(names) and not is_constructor(chunk.symbol) else 0.5
    return 0.0 if queried.isdisjoint(names.defined.split("\n")) else 0.5


def _starts(names: Names) -> bool:
    """Return whether the main definition starts in the chunk."""
    return f"\n{names.symbol}\n" in names.defined


def _unasked(group: QueryGroup, *categories: Category) -> Scores:
    """Return 1 for files of these categories, unless the query asks for them."""
    unasked = group.analysis.unasked.intersection(categories)
    return group.has_category(*unasked).astype(float)
