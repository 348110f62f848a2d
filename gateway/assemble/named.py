"""Show a hit under the queried name, if its chunk defines several names. Pure.

A chunk is named after its main definition. If the query names another definition in the chunk,
users would take the hit for a wrong one.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase

from codelode import tokens
from codelode.definitions import headed
from codelode.model import Chunk
from codelode.names import compounds, spelling

#: Maximum number of words of a text that may spell a name; pasted code has more.
MAX_WORDS = 64

#: Separators of a qualified name: `Client.get`, `absl::StrCat`, `a/b`.
_SEPARATOR = re.compile(r"::|->|[.#/\\]")


def asked_names(identifiers: Iterable[str], symbols: Iterable[str]) -> tuple[str, ...]:
    """Return the last parts of the query's identifiers and of the symbol filter."""
    return tuple(dict.fromkeys(_SEPARATOR.split(name)[-1] for name in (*identifiers, *symbols)))


def said_names(text: str, symbols: Iterable[str]) -> tuple[str, ...]:
    """Return the names among the symbols that two or three adjacent words of the text spell.

    `too many redirects` spells `TooManyRedirects`.
    """
    said = compounds(tokens.terms(text)[:MAX_WORDS])
    return tuple(name for name in dict.fromkeys(symbols) if spelling(name) in said)


def under_name(chunk: Chunk, asked: Sequence[str], globs: Sequence[str] = ()) -> Chunk:
    """Return the chunk with the first of the asked names that it defines as its symbol.

    Names that the globs of the symbol filter do not match are not shown.
    """
    allowed = [name for name in chunk.symbols if _is_allowed(name, globs)]
    named = [name for name in asked if name in allowed]
    if not named and not any(_is_allowed(name, globs) for name in (chunk.symbol, *_last(chunk))):
        named = allowed
    symbols = [_within(chunk.symbol, name) for name in named]
    if not named or chunk.symbol in symbols:
        return chunk
    return headed(chunk, symbols[0], named[0])


def _is_allowed(name: str, globs: Sequence[str]) -> bool:
    """Return whether one of the globs matches; in them, `[` is an ordinary character."""
    return not globs or any(fnmatchcase(name, glob.replace("[", "[[]")) for glob in globs)


def _last(chunk: Chunk) -> list[str]:
    """Return the main symbol without its qualifier, if its definition starts in the chunk."""
    return [name for name in [chunk.symbol.rpartition(".")[2]] if name in chunk.symbols]


def _within(symbol: str, name: str) -> str:
    """Return the name with its qualifier: `build` in `job.build.steps` → `job.build`."""
    part = re.search(rf"(?<!\w){re.escape(name)}(?!\w)", symbol)
    return symbol[: part.end()] if part else name
