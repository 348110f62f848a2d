"""Outline a file in a few thousand characters: its beginning and its definitions.

An outline depends only on content and language, so copies of a file have the same outline.
"""

from __future__ import annotations

from itertools import accumulate

from codelode.model import ParsedFile, Symbol

#: A quarter of the prompt's 6,000 characters shows the start of the file: its comment and imports.
MAX_BEGINNING_CHARS = 1_500
MAX_LINES_CHARS = 4_000

#: Maximum length of a line: signatures are shorter, but a line of prose may be a whole paragraph.
MAX_LINE_CHARS = 200

#: Where the beginning ends and the lines of the outline start.
GAP = "…"


def outline(parsed: ParsedFile) -> str:
    """Return the beginning of the file, then a line for each definition.

    For a file without definitions, such as prose or configuration, the lines are the first lines of
    its pieces.
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
    """Return the first lines that fit into MAX_LINES_CHARS together."""
    ends = accumulate(len(line) + 1 for line in lines)
    return [line for line, end in zip(lines, ends, strict=True) if end <= MAX_LINES_CHARS]
