"""Outlines a file in a few thousand characters: its beginning and its definitions.

It depends on content and language only, so a copy of the file elsewhere has the same.
"""

from __future__ import annotations

from itertools import accumulate

from codelode.model import ParsedFile, Symbol

#: A quarter of the prompt's 6,000 characters shows the start of the file: its comment and imports.
MAX_BEGINNING_CHARS = 1_500
MAX_LINES_CHARS = 4_000

#: A line of prose may be a whole paragraph; a signature ends before.
MAX_LINE_CHARS = 200

#: Where the beginning ends and the lines of the outline start.
GAP = "…"


def outline(parsed: ParsedFile) -> str:
    """Return the beginning of the file, then a line for each definition.

    Of a file without definitions, as prose or configuration, the first line of each piece instead.
    """
    text = "".join(piece.content for piece in parsed.pieces)
    if len(text) <= MAX_BEGINNING_CHARS:
        return text
    beginning = text[:MAX_BEGINNING_CHARS].rpartition("\n")[0] or text[:MAX_BEGINNING_CHARS]
    lines = [_line(symbol) for symbol in parsed.symbols] or [
        piece.content.strip().partition("\n")[0] for piece in parsed.pieces
    ]
    return "\n".join((beginning, GAP, *_fitting([line[:MAX_LINE_CHARS] for line in lines])))


def _line(symbol: Symbol) -> str:
    return f"{symbol.signature}  {symbol.doc}".rstrip()


def _fitting(lines: list[str]) -> list[str]:
    """Return the first lines, as many as fit."""
    ends = accumulate(len(line) + 1 for line in lines)
    return [line for line, end in zip(lines, ends, strict=True) if end <= MAX_LINES_CHARS]
