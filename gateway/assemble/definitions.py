"""Find where the symbol of a hit is defined.

The text of a chunk does not say: a name occurs in comments and calls before its definition, and
the definition of a long function begins in an earlier chunk. The symbol table knows the line and
the signature. It may describe another version of the file, so each definition is compared with the
chunk; if none agrees, the first line of the chunk with the name of a definition in it is used.
"""

from __future__ import annotations

import asyncio
import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from codelode.model import (
    Chunk,
    FileKey,
    Hit,
    Kind,
    LocatedSymbol,
    RefName,
    RepositoryName,
    Symbol,
)
from codelode.ports import SymbolTable

MAX_LINE_CHARS = 200

#: The part of a signature that the header of a chunk has (`workers.parse.pieces`).
_HEADER_CHARS = 120


class Definition(NamedTuple):
    """The line on which a symbol is defined, and its signature in one line."""

    line: int
    signature: str


Defined = Mapping[FileKey, Sequence[LocatedSymbol]]


async def defined_in_files(
    hits: Iterable[Hit], ref: RefName, symbols: SymbolTable | None
) -> Defined:
    """Read the definitions of the files of all hits that have a symbol."""
    paths: defaultdict[RepositoryName, dict[str, None]] = defaultdict(dict)
    chunks = [hit.chunk for hit in hits if hit.chunk.symbol]
    for chunk in chunks:
        paths[chunk.repository][chunk.path] = None
    if symbols is None or not paths:
        return {}
    names = {name for chunk in chunks for name in _names(chunk)}
    return await asyncio.to_thread(_read, symbols, ref, paths, names)


def definition(chunk: Chunk, defined: Defined) -> Definition | None:
    """Return the definition of the chunk's symbol; None if it has none or its line is unknown."""
    name = chunk.symbol.rpartition(".")[2]
    symbols = [at.symbol for at in defined.get((chunk.repository, chunk.path), ())]
    # Python's sort is stable: of equals, the first in the file wins.
    symbols.sort(key=lambda symbol: symbol.qualified_name != chunk.symbol)
    for symbol in symbols:
        if chunk.symbol in (symbol.name, symbol.qualified_name):
            found = (
                _in_chunk(chunk, symbol) if symbol.name in chunk.symbols else _before(chunk, symbol)
            )
            if found:
                return found
    return _first_with(name, chunk, chunk.start_line) if name in chunk.symbols else None


def first_line(chunk: Chunk) -> Definition:
    """Return the first line of the chunk that is not blank."""
    lines = enumerate(chunk.content.split("\n"), chunk.start_line)
    filled = ((number, line.strip()) for number, line in lines if line.strip())
    number, line = next(filled, (chunk.start_line, ""))
    return Definition(number, line[:MAX_LINE_CHARS])


def _names(chunk: Chunk) -> Iterator[str]:
    """Yield the unqualified names that the symbol can have: `web` of `Deployment/web`."""
    yield chunk.symbol.rpartition(".")[2]
    yield from (name for name in chunk.symbols if chunk.symbol.endswith(name))


def _read(
    symbols: SymbolTable,
    ref: RefName,
    paths: Mapping[RepositoryName, Iterable[str]],
    names: Collection[str],
) -> dict[FileKey, Sequence[LocatedSymbol]]:
    return {
        (repository, path): found
        for repository, some in paths.items()
        for path, found in symbols.defined_in(repository, ref, tuple(some), names=names).items()
    }


def _in_chunk(chunk: Chunk, symbol: Symbol) -> Definition | None:
    """Return the definition if the symbol begins in the chunk.

    The line is that of the name, because the node of a definition may begin with annotations.
    """
    if not chunk.start_line <= symbol.start_line <= chunk.end_line:
        return None
    if symbol.kind is Kind.BLOCK:
        return Definition(symbol.start_line, symbol.signature)
    found = _first_with(symbol.name, chunk, symbol.start_line, of=symbol.signature)
    return found and Definition(found.line, symbol.signature)


def _before(chunk: Chunk, symbol: Symbol) -> Definition | None:
    """Return the definition if the symbol begins before the chunk and continues in it."""
    is_around = symbol.start_line < chunk.start_line <= symbol.end_line
    if not is_around or symbol.signature[:_HEADER_CHARS] not in chunk.header:
        return None
    return Definition(symbol.start_line, symbol.signature)


def _first_with(name: str, chunk: Chunk, start: int, *, of: str = "") -> Definition | None:
    """Return the first line from `start` on that has the name, as the signature `of` has it."""
    word = re.compile(rf"(?<!\w){re.escape(name)}(?!\w)")
    lines = chunk.content.split("\n")[start - chunk.start_line :]
    for number, line in enumerate(lines, start):
        if word.search(line) and (not of or _agree(" ".join(line.split()), of, word)):
            return Definition(number, line.strip()[:MAX_LINE_CHARS])
    return None


def _agree(line: str, signature: str, word: re.Pattern[str]) -> bool:
    """Return whether the line has the signature up to the name; either may begin earlier."""
    return _up_to(word, line) in signature or _up_to(word, signature) in line


def _up_to(word: re.Pattern[str], text: str) -> str:
    found = word.search(text)
    return text[: found.end()] if found else text
