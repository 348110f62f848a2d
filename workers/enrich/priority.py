"""Decide how chunks and files share the summary budget of a run.

Files arrive as a stream, so chunks cannot be sorted by priority first. Instead, each class of
chunks may use the budget up to a limit, which is lower for a class of lower priority. A small
repository is summarised completely; in a large one, the rest of the budget is reserved for the code
that people search for, and the last part for definitions in central files, whenever they arrive.

Importers are counted in the stored graph. A first run is planned while the graph is empty, so its
central files do not come first; but the graph fills as files are stored, and later batches of the
run use it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import islice
from types import MappingProxyType

from codelode import tokens
from codelode.languages import category
from codelode.ledger import WorkItem
from codelode.model import Category, Chunk, Kind, ParsedFile

#: A chunk with fewer words needs no summary.
MIN_WORDS = 8

#: A file with at least this many importers is central.
CENTRAL_IMPORTERS = 5

#: Share of the budget up to which each class may use it, from highest to lowest priority.
CENTRAL, EXPORTED, INTERNAL, BLOCK, ASIDE = 1.0, 0.9, 0.75, 0.5, 0.25


def by_priority(
    items: Sequence[WorkItem],
    *,
    recent: Sequence[str] = (),
    importers: Mapping[str, int] = MappingProxyType({}),
) -> tuple[WorkItem, ...]:
    """Order the files of a run as they should reach the language model.

    Source files come first, among them central files, and then recently changed ones. Otherwise the
    order is kept. `recent`: paths, the last changed first; `importers`: number of importers by
    path.
    """
    ranks = {path: rank for rank, path in enumerate(recent)}

    def order(item: WorkItem) -> tuple[bool, bool, int]:
        return (
            category(item.path) is not Category.SOURCE,
            not is_central(importers.get(item.path, 0)),
            ranks.get(item.path, len(ranks)),
        )

    return tuple(sorted(items, key=order))


def is_central(importers: int) -> bool:
    """Return whether a file with this number of importers is central."""
    return importers >= CENTRAL_IMPORTERS


def needs_summary(chunk: Chunk) -> bool:
    """Return whether the chunk has enough words to be worth a summary."""
    enough = islice(tokens.identifiers(chunk.content), MIN_WORDS - 1, None)
    return next(enough, None) is not None


def exported(parsed: ParsedFile) -> frozenset[str]:
    """Return the qualified names of the file's exported symbols."""
    return frozenset(symbol.qualified_name for symbol in parsed.symbols if symbol.is_exported)


def share(chunk: Chunk, *, is_exported: bool, importers: int) -> float:
    """Return the share of the run's budget up to which a chunk may use it, in (0, 1].

    Source files have a greater share than tests, documents, configuration and generated code, and
    definitions a greater share than other blocks. Among definitions, those in central files come
    first, then exported ones.
    """
    if chunk.category is not Category.SOURCE:
        return ASIDE
    if chunk.kind in (Kind.BLOCK, Kind.TEXT):
        return BLOCK
    if is_central(importers):
        return CENTRAL
    return EXPORTED if is_exported else INTERNAL


def file_share(parsed: ParsedFile, *, importers: int) -> float:
    """Return the share of a file: that of an exported definition, or of a block."""
    if parsed.category is not Category.SOURCE:
        return ASIDE
    if is_central(importers):
        return CENTRAL
    return EXPORTED if exported(parsed) else BLOCK
