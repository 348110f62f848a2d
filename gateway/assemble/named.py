"""Show a hit under the queried name, if its chunk defines several names. Pure.

A chunk is named after the definition that fills most of it. If the query names another definition
in the chunk, the user would mistake the hit for a wrong one.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace

from codelode.model import Hit

#: Separators of a qualified name: `Client.get`, `absl::StrCat`, `a/b`.
_SEPARATOR = re.compile(r"::|->|[.#/\\]")


def asked_names(identifiers: Iterable[str], symbols: Iterable[str]) -> tuple[str, ...]:
    """Return the last parts of the query's identifiers and of the symbol filter.

    Globs in the filter are not expanded and so match no name.
    """
    return tuple(dict.fromkeys(_SEPARATOR.split(name)[-1] for name in (*identifiers, *symbols)))


def under_name(hit: Hit, asked: tuple[str, ...]) -> Hit:
    """Return the hit with the first of the names that its chunk defines as its symbol."""
    chunk = hit.chunk
    named = [_within(chunk.symbol, name) for name in asked if name in chunk.symbols]
    if not named or chunk.symbol in named:
        return hit
    return replace(hit, chunk=chunk._replace(symbol=named[0]))


def _within(symbol: str, name: str) -> str:
    """Return the name with its qualifier: `job.build.steps` and `build` → `job.build`."""
    part = re.search(rf"(?<!\w){re.escape(name)}(?!\w)", symbol)
    return symbol[: part.end()] if part else name
