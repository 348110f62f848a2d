"""Replace the code of a hit by its signature. Pure."""

from __future__ import annotations

from dataclasses import replace

from codelode.model import Hit

MAX_LINE_CHARS = 200


def compacted(hit: Hit) -> Hit:
    """Return the hit with only its signature, the first line that names what it defines."""
    signature = signature_of(hit.chunk.content, hit.chunk.symbol)
    return replace(hit, chunk=hit.chunk._replace(content=signature))


def signature_of(content: str, symbol: str) -> str:
    """Return the first line with the last part of the symbol, or else the first filled line."""
    name = symbol.rpartition(".")[2]
    filled = [line.strip() for line in content.splitlines() if line.strip()]
    naming = (line for line in filled if name and name in line)
    return next(naming, filled[0] if filled else "")[:MAX_LINE_CHARS]
