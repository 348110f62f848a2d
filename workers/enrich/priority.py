"""The priority of summaries: how chunks and files share the budget of a run.

Files arrive as a stream, so the best chunk of all cannot be waited for. Each class of chunks has
a share of the run's budget instead, and the less a class is wanted the earlier its share ends: a
small repository is summarised whole, in a large one the rest is kept for what people search for.
The last part is kept for definitions in central files, whenever these arrive.

Importers are known once they are stored. A first run is planned before any is, so no file of it
comes first for being central; the graph fills as its files are stored, and later batches profit.
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

#: A file that so many others import is central.
CENTRAL_IMPORTERS = 5

#: Shares of the budget, from most to least wanted.
CENTRAL, EXPORTED, INTERNAL, BLOCK, ASIDE = 1.0, 0.9, 0.75, 0.5, 0.25


def by_priority(
    items: Sequence[WorkItem],
    *,
    recent: Sequence[str] = (),
    importers: Mapping[str, int] = MappingProxyType({}),
) -> tuple[WorkItem, ...]:
    """Order the files of a run as they should reach the language model.

    Source first, of it central files, and then what was changed lately. `recent`: paths, the last
    changed first; `importers`: files that import the path. The others keep their order.
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
    """Return whether a file with so many importers counts as central."""
    return importers >= CENTRAL_IMPORTERS


def needs_summary(chunk: Chunk) -> bool:
    """Return whether a summary would say more than the chunk."""
    enough = islice(tokens.identifiers(chunk.content), MIN_WORDS - 1, None)
    return next(enough, None) is not None


def exported(parsed: ParsedFile) -> frozenset[str]:
    """Return the qualified names of the file's exported symbols."""
    return frozenset(symbol.qualified_name for symbol in parsed.symbols if symbol.is_exported)


def share(chunk: Chunk, *, is_exported: bool, importers: int) -> float:
    """Return the share of the run's budget that is open to a chunk, in (0, 1].

    Source before tests, documents, configuration and what nobody wrote; definitions before plain
    blocks; of these first what stands in a central file, then what is exported.
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
