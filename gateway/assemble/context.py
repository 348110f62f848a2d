"""Write the result of a search as one Markdown text for an agent, within a token budget. Pure.

Every piece has a heading with its location, `path:start-end`, and is fenced with more backticks
than it contains in a row, so that code cannot close its fence and pose as the text around it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from codelode.model import Chunk, Hit
from codelode.ports import Tokeniser
from gateway.assemble.budget import Count, fill
from gateway.assemble.quality import quality
from gateway.state import Related, SearchState, estimated_tokens

ESTIMATED = "the embedder has no tokeniser: tokens are estimated from characters"

_FENCES = re.compile(r"`{3,}")


@dataclass(frozen=True, slots=True)
class Context:
    """A text for an agent."""

    text: str
    tokens: int
    left_out: int  # hits that did not fit or were not good enough
    notices: tuple[str, ...] = ()


def context(state: SearchState, *, tokeniser: Tokeniser | None = None) -> Context:
    """Write as many hits, related files and edges as fit the budget; empty without hits."""
    options = state.query.options.assemble
    count, notices = _counting(tokeniser, is_exact=options.exact_tokens)
    good = _good(state)
    primary = [_hit(hit, state) for hit in good]
    related = [_related(found, state) for found in state.related]
    edges = _edges(state)
    taken = fill(
        *([_size(piece, count) for piece in pieces] for pieces in (primary, related, edges)),
        tokens=options.budget_tokens - options.reserved_tokens,
    )
    text = "\n\n".join(
        part
        for part in (
            *(primary[at] for at in taken.primary),
            *(related[at] for at in taken.related),
            "\n".join(edges[at] for at in taken.graph),
        )
        if part
    )
    return Context(text, count(text), len(state.hits) - len(taken.primary), notices)


def _counting(tokeniser: Tokeniser | None, *, is_exact: bool) -> tuple[Count, tuple[str, ...]]:
    if not is_exact:
        return estimated_tokens, ()
    if tokeniser is None:
        return estimated_tokens, (ESTIMATED,)
    return tokeniser.count_tokens, ()


def _size(piece: str, count: Count) -> int:
    """Return the tokens of the piece with the blank line after it."""
    return count(f"{piece}\n\n")


def _good(state: SearchState) -> list[Hit]:
    """Return the hits of sufficient quality; the first hit is always kept."""
    least = state.query.options.assemble.min_quality
    pairs = zip(state.hits, state.page, strict=True)
    return [
        hit
        for rank, (hit, entry) in enumerate(pairs)
        if not rank or not least or quality(entry.candidate.chunk.content) >= least
    ]


def _hit(hit: Hit, state: SearchState) -> str:
    passage = state.passages.get(hit.chunk.id)
    if passage is None or state.query.options.assemble.compact:
        return _piece(hit.chunk)
    return _piece(
        hit.chunk, content=passage.content, start=passage.start_line, end=passage.end_line
    )


def _related(found: Related, state: SearchState) -> str:
    """Write the chunk of a related file that contains most words of the query."""
    words = set(state.analysis.words)
    best = max(found.chunks, key=lambda chunk: _shared(chunk, words))
    relation = found.relation.replace("_", " ")
    return _piece(best, note=f"{relation} {found.of}")


def _shared(chunk: Chunk, words: Iterable[str]) -> int:
    text = chunk.content.casefold()
    return sum(word in text for word in words)


def _piece(chunk: Chunk, *, content: str = "", start: int = 0, end: int = 0, note: str = "") -> str:
    """Write a heading with the location, then the code."""
    location = f"{chunk.path}:{start or chunk.start_line}-{end or chunk.end_line}"
    about = ", ".join(part for part in (chunk.repository, chunk.symbol, note) if part)
    code = (content or chunk.content).rstrip("\n")
    fence = "`" * max([3, *(len(run) + 1 for run in _FENCES.findall(code))])
    return (
        f"### {_one_line(location)} ({_one_line(about)})\n{fence}{chunk.language}\n{code}\n{fence}"
    )


def _edges(state: SearchState) -> list[str]:
    """Write one line for each edge between the files, related files first."""
    near = [f"- {found.path} ({found.relation}) {found.of}" for found in state.related]
    links = [f"- {link.path} imports {link.target}" for link in state.imports]
    return [_one_line(edge) for edge in dict.fromkeys((*near, *links))]


def _one_line(text: str) -> str:
    return " ".join(text.split())
