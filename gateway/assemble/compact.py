"""Replace the code of a hit by its signature. Pure."""

from __future__ import annotations

from dataclasses import replace

from codelode.definitions import Definition, definition
from codelode.model import Chunk, Hit

MAX_LINE_CHARS = 200


def compacted(hit: Hit) -> Hit:
    """Return the hit with the signature of its symbol as its code, on the line that it has.

    A chunk without a symbol has its first line instead.
    """
    line, text = definition(hit.chunk) or first_line(hit.chunk)
    # A chunk of annotations ends before the name that they belong to.
    end = max(line, hit.chunk.end_line)
    return replace(hit, chunk=hit.chunk._replace(start_line=line, end_line=end, content=text))


def first_line(chunk: Chunk) -> Definition:
    """Return the first line of the chunk that is not blank."""
    lines = enumerate(chunk.content.split("\n"), chunk.start_line)
    filled = ((number, line.strip()) for number, line in lines if line.strip())
    number, line = next(filled, (chunk.start_line, ""))
    return Definition(number, line[:MAX_LINE_CHARS])
