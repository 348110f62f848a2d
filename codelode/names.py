"""Normalise the symbol names of a chunk, which rankers compare with the words of a query.

Rankers compare the names of up to 200 chunks per search, and normalising them takes longer than all
other work of a ranker. The result is therefore plain text that a store can keep with the chunk; it
is computed at query time only if the store does not keep it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import NamedTuple

from codelode import tokens

#: Number of chunks whose names are cached, about 1 kB each.
CACHED_CHUNKS = 1 << 15

#: Longer names take the slow path, because they may be too long for an identifier.
QUICK_CHARS = tokens.MAX_IDENTIFIER_CHARS // 2


#: Numbers of adjacent words that may be written as one name.
JOINED_WORDS = (2, 3)


class Names(NamedTuple):
    """The normalised names of a chunk. A list is a text with a line break around each item."""

    symbol: str  # main definition, normalised by `spelling`
    defined: str  # list of the definitions that start in the chunk, normalised likewise
    terms: str  # list of the index terms of all its names


@lru_cache(CACHED_CHUNKS)
def names_of(symbol: str, symbols: tuple[str, ...]) -> Names:
    """Normalise the main symbol of a chunk and the names that it defines."""
    names = (symbol, *symbols)
    own, *defined = map(spelling, names)
    terms = dict.fromkeys(tokens.terms("\n".join(names)))
    return Names(own, listed(filter(None, defined)), listed(terms))


def listed(items: Iterable[str]) -> str:
    """Join items without line breaks to one text with a line break around each of them."""
    joined = "\n".join(items)
    return f"\n{joined}\n" if joined else ""


def spelling(name: str) -> str:
    """Normalise the last part of a name: `Http.getUser()` and `get_user` → `getuser`."""
    quick = name.rpartition(".")[2].replace("_", "").lower()
    if quick.isascii() and quick.isalnum() and len(quick) <= QUICK_CHARS:
        return quick  # true of nearly all names, and ten times as fast
    terms = tokens.terms(name)  # the last term is the whole of the last identifier
    return terms[-1] if terms else ""


def compounds(words: Sequence[str]) -> frozenset[str]:
    """Join adjacent words as `spelling` normalises names: `thread pool` → `threadpool`."""
    return frozenset(
        "".join(words[at : at + size])
        for size in JOINED_WORDS
        for at in range(len(words) - size + 1)
    )


def is_constructor(symbol: str) -> bool:
    """Return whether a symbol is a constructor named as its class: `Client.Client` in C++, Java."""
    *_, outer, name = ("", *symbol.split("."))
    return bool(name) and name == outer
