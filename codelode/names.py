"""What the names of a chunk come down to, to be compared with the words of a query.

Rankers do that for 200 chunks a search, and splitting so many names takes longer than all else that
they do. So this is text, which a store can keep beside the chunk; where none does, it is made here.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import NamedTuple

from codelode import tokens

#: Chunks whose names are remembered, about 1 kB each.
REMEMBERED = 1 << 15

#: A longer name is looked at in full: it may be no identifier.
QUICK_CHARS = tokens.MAX_IDENTIFIER_CHARS // 2


class Names(NamedTuple):
    """Lists are one text, with a line break before, between and after the items."""

    symbol: str  # what it is mainly about, as `spelling` gives it
    defined: str  # what starts in it, likewise, a list; empty: nothing does
    terms: str  # index terms of all names it has, a list


@lru_cache(REMEMBERED)
def names_of(symbol: str, symbols: tuple[str, ...]) -> Names:
    """Of a chunk's symbol and the names it defines."""
    text = "\n".join((symbol, *symbols))
    own, *defined = _spellings(text)
    return Names(own, listed(filter(None, defined)), listed(dict.fromkeys(tokens.terms(text))))


def listed(items: Iterable[str]) -> str:
    """One text of the items, none of which holds a line break."""
    joined = "\n".join(items)
    return f"\n{joined}\n" if joined else ""


def spelling(name: str) -> str:
    """One spelling for the last part of a name: `Http.getUser()` and `get_user` → `getuser`."""
    terms = tokens.terms(name)  # of the last identifier the whole comes last
    return terms[-1] if terms else ""


def is_constructor(symbol: str) -> bool:
    """`Client.Client` of C++, C#, Java and their like."""
    *_, outer, name = ("", *symbol.split("."))
    return bool(name) and name == outer


def _spellings(names: str) -> list[str]:
    """The spelling of each line; nearly all need no splitting into words."""
    quick = names.replace("_", "").lower() if names.isascii() else "\n" * names.count("\n")
    return [
        last
        if (last := line.rpartition(".")[2]).isalnum() and len(last) <= QUICK_CHARS
        else spelling(name)
        for line, name in zip(quick.split("\n"), names.split("\n"), strict=True)
    ]
