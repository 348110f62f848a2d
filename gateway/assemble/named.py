"""Head a hit with the name that was asked for, if its chunk defines it beside others. Pure.

A chunk is named after the definition that fills most of it. A user who asked for another definition
in it would take the hit for a wrong one under that name.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace

from codelode.model import Hit

#: Separators of a qualified name: `Client.get`, `absl::StrCat`, `a/b`.
_SEPARATOR = re.compile(r"::|->|[.#/\\]")


def asked_names(identifiers: Iterable[str], symbols: Iterable[str]) -> tuple[str, ...]:
    """Return the names that the query writes like code or that the symbol filter names.

    A glob in the filter matches no name here.
    """
    return tuple(dict.fromkeys(_SEPARATOR.split(name)[-1] for name in (*identifiers, *symbols)))


def under_name(hit: Hit, asked: tuple[str, ...]) -> Hit:
    """Return the hit under the first name that its chunk defines; its kind stays the chunk's."""
    chunk = hit.chunk
    named = [_within(chunk.symbol, name) for name in asked if name in chunk.symbols]
    if not named or chunk.symbol in named:
        return hit
    return replace(hit, chunk=chunk._replace(symbol=named[0]))


def _within(symbol: str, name: str) -> str:
    """Return the name with its qualifier: `job.build.steps` and `build` → `job.build`."""
    part = re.search(rf"(?<!\w){re.escape(name)}(?!\w)", symbol)
    return symbol[: part.end()] if part else name
