"""Which chunks a summary is wanted for, and how much: the order in which a budget is spent.

Files arrive as a stream, so the best chunk of all cannot be waited for. Each class of chunks has
a share of the run's budget instead, and the less a class is wanted the earlier its share ends: a
small repository is summarised whole, in a large one the rest is kept for what people search for.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice

from codelode import tokens
from codelode.languages import category
from codelode.model import Category, Chunk, Kind, ParsedFile
from codelode.ports import WorkItem

#: A chunk with fewer words says itself what it does.
MIN_WORDS = 8

#: A file that so many others import is central.
CENTRAL_IMPORTERS = 5

#: Shares of the budget, from most to least wanted.
CENTRAL, INTERNAL, BLOCK, ASIDE = 1.0, 0.75, 0.5, 0.25


def first_wanted(items: Sequence[WorkItem], *, recent: Sequence[str] = ()) -> tuple[WorkItem, ...]:
    """The files of a run in the order in which they should reach the language model.

    Source first, and of it what was changed lately: `recent`, paths, the last changed first. The
    others keep their order.
    """
    ranks = {path: rank for rank, path in enumerate(recent)}

    def order(item: WorkItem) -> tuple[bool, int]:
        return category(item.path) is not Category.SOURCE, ranks.get(item.path, len(ranks))

    return tuple(sorted(items, key=order))


def is_wanted(chunk: Chunk) -> bool:
    """Whether a summary would say more than the chunk."""
    enough = islice(tokens.identifiers(chunk.content), MIN_WORDS - 1, None)
    return next(enough, None) is not None


def exported(parsed: ParsedFile) -> frozenset[str]:
    """Qualified names of what the file shows to others."""
    return frozenset(symbol.qualified_name for symbol in parsed.symbols if symbol.is_exported)


def share(chunk: Chunk, *, is_exported: bool, importers: int) -> float:
    """The part of the run's budget that is open to a chunk, in (0, 1]; more is more wanted.

    Source before tests, documents, configuration and what nobody wrote; definitions before plain
    blocks; what is exported or stands in a file that many import before the rest.
    """
    if chunk.category is not Category.SOURCE:
        return ASIDE
    if chunk.kind in (Kind.BLOCK, Kind.TEXT):
        return BLOCK
    return CENTRAL if is_exported or importers >= CENTRAL_IMPORTERS else INTERNAL
