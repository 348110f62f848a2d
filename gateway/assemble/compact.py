"""A hit without its code: the place and one line that says what is there. Pure."""

from __future__ import annotations

from dataclasses import replace

from codelode.model import Hit

MAX_LINE_CHARS = 200


def compacted(hit: Hit) -> Hit:
    """The hit with its signature for content: the first line that names what it defines."""
    signature = signature_of(hit.chunk.content, hit.chunk.symbol)
    return replace(hit, chunk=hit.chunk._replace(content=signature))


def signature_of(content: str, symbol: str) -> str:
    """The first line that holds the last part of the symbol, else the first that is not blank."""
    name = symbol.rpartition(".")[2]
    filled = [line.strip() for line in content.splitlines() if line.strip()]
    naming = (line for line in filled if name and name in line)
    return next(naming, filled[0] if filled else "")[:MAX_LINE_CHARS]
