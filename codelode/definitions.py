"""Encode the positions of a chunk's definitions as a text that is stored with the chunk.

The content of a chunk does not show them: a name occurs in comments and calls before its
definition, and a long function begins in an earlier chunk. The parser knows them.

The text has a line for the chunk's `symbol`, then one for each of its `symbols`. A line holds the
row of the definition's name, counted from the first row of the chunk (negative: before the chunk),
a tab, and the signature. The tab and the signature are left out if the row itself reads like the
signature, and a line that would equal the first one is empty. The text is decoded only for the hits
that are shown, because a search reads hundreds of chunks.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from codelode.model import Chunk

#: Marks and words between the head of a definition and its body.
_TAIL_ENDS = ("{", "=>", "=", ":", ";", ",", "do", "where", "begin", "then")


class Definition(NamedTuple):
    """The line of a definition's name, and its signature in one line."""

    line: int
    signature: str


def dump(main: Definition, others: Sequence[Definition], content: str, start_line: int) -> str:
    """Encode the definitions of the symbol and of the symbols of a chunk with this content."""
    rows = content.split("\n")
    written = ("" if one == main else _written(one, rows, start_line) for one in others)
    return "\n".join([_written(main, rows, start_line), *written])


def definition(chunk: Chunk) -> Definition | None:
    """Return the definition of the chunk's symbol; None if it has no symbol."""
    if not chunk.definitions:
        return None
    row, tab, signature = chunk.definitions.partition("\n")[0].partition("\t")
    text = signature if tab else head(chunk.content.split("\n")[int(row)])
    return Definition(chunk.start_line + int(row), text)


def line_of(chunk: Chunk) -> int:
    """Return the line on which the chunk's symbol is defined; 0 if it has no symbol."""
    row = chunk.definitions.partition("\n")[0].partition("\t")[0]
    return chunk.start_line + int(row) if row else 0


def headed(chunk: Chunk, symbol: str, name: str) -> Chunk:
    """Return the chunk with this symbol, defined where `name`, one of its `symbols`, is defined."""
    if not chunk.definitions:
        return chunk._replace(symbol=symbol)
    main, *others = chunk.definitions.split("\n")
    own = others[chunk.symbols.index(name)] or main
    written = [own, *("" if (one or main) == own else one or main for one in others)]
    return chunk._replace(symbol=symbol, definitions="\n".join(written))


def head(text: str) -> str:
    """Return the text in one line, without what opens a body: `class A(B):` → `class A(B)`."""
    text = " ".join(text.split())
    while text.endswith(_TAIL_ENDS):
        tail = next(end for end in _TAIL_ENDS if text.endswith(end))
        rest = text.removesuffix(tail)
        if tail.isalpha() and (rest[-1:].isalnum() or rest[-1:] == "_"):
            break
        text = rest.rstrip()
    return text


def _written(one: Definition, rows: Sequence[str], start_line: int) -> str:
    row = one.line - start_line
    signature = " ".join(one.signature.split())
    is_read = 0 <= row < len(rows) and head(rows[row]) == signature
    return str(row) if is_read else f"{row}\t{signature}"
