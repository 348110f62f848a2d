"""Replace the code of a hit by its signature. Pure."""

from __future__ import annotations

from dataclasses import replace

from codelode.model import Hit
from gateway.assemble.definitions import Definition, first_line


def compacted(hit: Hit, definition: Definition | None) -> Hit:
    """Return the hit with the signature of its symbol as its code, on the line that it has.

    A chunk without a symbol, or whose definition is not found, has its first line instead.
    """
    line, text = definition or first_line(hit.chunk)
    return replace(hit, chunk=hit.chunk._replace(start_line=line, content=text))
