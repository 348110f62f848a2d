"""A hit under the name that was asked for, where its chunk defines that beside others. Pure.

A chunk is called after the definition that fills most of it. Whoever asks for another one in it
takes the hit for a wrong one when it is headed by that.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace

from codelode.model import Hit

#: What stands between the names of a qualified one: `Client.get`, `absl::StrCat`, `a/b`.
_SEPARATOR = re.compile(r"::|->|[.#/\\]")


def asked_names(identifiers: Iterable[str], symbols: Iterable[str]) -> tuple[str, ...]:
    """The names that a query writes like code or that the filter of symbols gives, exactly.

    A glob among them is the name of nothing.
    """
    return tuple(dict.fromkeys(_SEPARATOR.split(name)[-1] for name in (*identifiers, *symbols)))


def under_name(hit: Hit, asked: tuple[str, ...]) -> Hit:
    """The hit under the first of the names that its chunk defines; its kind stays the chunk's."""
    chunk = hit.chunk
    named = [_within(chunk.symbol, name) for name in asked if name in chunk.symbols]
    if not named or chunk.symbol in named:
        return hit
    return replace(hit, chunk=chunk._replace(symbol=named[0]))


def _within(symbol: str, name: str) -> str:
    """The name with what the symbol has before it: `job.build.steps` and `build` → `job.build`."""
    part = re.search(rf"(?<!\w){re.escape(name)}(?!\w)", symbol)
    return symbol[: part.end()] if part else name
