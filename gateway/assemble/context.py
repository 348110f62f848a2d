"""Write the result of a search as one Markdown text for an agent, within a token budget. Pure.

Every piece has a heading with its location, `path:start-end`, and is fenced with more backticks
than it contains in a row, so that code cannot close its fence and be read as other text.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from codelode import tokens
from codelode.counts import counted
from codelode.display import markdown
from codelode.model import Chunk, Hit
from codelode.ports import Tokeniser
from gateway.assemble.budget import Count, Piece, fill
from gateway.state import Passage, Related, SearchState, estimated_tokens

ESTIMATED = "the embedder has no tokeniser: tokens are estimated from characters"

#: Minimum number of words of a chunk that is more informative than its location and signature.
#: Chosen by hand.
MIN_WORDS = 20

#: Shares of letters and of distinct words above which a text has the full score. Chosen by hand.
LETTERS, DISTINCT = 0.5, 0.4

_FENCES = re.compile(r"`{3,}")


@dataclass(frozen=True, slots=True)
class Context:
    """A text for an agent."""

    text: str
    tokens: int
    left_out: int  # hits that did not fit or were not good enough
    notices: tuple[str, ...] = ()


def context(state: SearchState, *, tokeniser: Tokeniser | None = None) -> Context:
    """Write as many hits, related files, and edges as fit the budget; empty without hits."""
    options = state.query.options.assemble
    count, notices = _counting(tokeniser, is_exact=options.exact_tokens)
    filled = fill(
        [_hit(hit, state) for hit in _good(state)],
        [_related(found, state) for found in state.related],
        _edges(state),
        tokens=options.budget_tokens - options.reserved_tokens,
        count=count,
    )
    text = "\n\n".join((*filled.hits, *filled.related, *filled.edges))
    return Context(text, count(text), len(state.hits) - len(filled.hits), notices)


def _counting(tokeniser: Tokeniser | None, *, is_exact: bool) -> tuple[Count, tuple[str, ...]]:
    if not is_exact:
        return estimated_tokens, ()
    if tokeniser is None:
        return estimated_tokens, (ESTIMATED,)
    return tokeniser.count_tokens, ()


def _good(state: SearchState) -> list[Hit]:
    """Return the hits of sufficient quality; the first hit is always kept."""
    least = state.query.options.assemble.min_quality
    pairs = zip(state.hits, state.page, strict=True)
    return [
        hit
        for rank, (hit, entry) in enumerate(pairs)
        if not rank or not least or quality(entry.candidate.chunk.content) >= least
    ]


def quality(content: str) -> float:
    """Return how informative a text is, from 0 to 1; 0 for fewer than MIN_WORDS words.

    Tables of numbers, minified code, rows of brackets, and repetitive text score low. The score is
    the mean of the share of letters and the share of distinct words, each relative to the share
    that gives the full score.
    """
    words = [word for run in tokens.identifiers(content) for word in tokens.words(run)]
    if len(words) < MIN_WORDS:
        return 0.0
    visible = "".join(content.split())
    letters = sum(map(str.isalpha, visible)) / len(visible)
    distinct = len(set(words)) / len(words)
    return (min(1.0, letters / LETTERS) + min(1.0, distinct / DISTINCT)) / 2


def _hit(hit: Hit, state: SearchState) -> Piece:
    is_compact = state.query.options.assemble.compact
    passage = None if is_compact else state.passages.get(hit.chunk.id)
    copies = len(state.copies.get(hit.chunk.id, ()))
    note = f"also in {counted(copies, 'repository')}" if copies else ""
    return _piece(hit.chunk, passage, note=note)


def _related(found: Related, state: SearchState) -> Piece:
    """Write the chunk of a related file that contains the most words of the query."""
    words = set(state.analysis.words)
    best = max(found.chunks, key=lambda chunk: _shared(chunk, words))
    relation = found.relation.replace("_", " ")
    return _piece(best, note=f"{relation} {markdown(found.of)}")


def _shared(chunk: Chunk, words: Iterable[str]) -> int:
    text = chunk.content.casefold()
    return sum(word in text for word in words)


def _piece(chunk: Chunk, passage: Passage | None = None, *, note: str = "") -> Piece:
    """Write a heading with the location of the shown lines, then the code."""
    at = passage or Passage(chunk.start_line, chunk.end_line, chunk.content)
    code = at.content.rstrip("\n").split("\n")
    fence = "`" * max([3, *(len(run) + 1 for run in _FENCES.findall(at.content))])

    def first(lines: int) -> str:
        is_cut = lines < len(code)
        end = at.start_line + lines - 1 if is_cut else at.end_line
        cut = f"first {lines} of {len(code)} lines" if is_cut else ""
        location = f"{markdown(chunk.path)}:{at.start_line}-{end}"
        about = ", ".join(filter(None, (chunk.repository, markdown(chunk.symbol), note, cut)))
        shown = "\n".join(code[:lines])
        return f"### {location} ({about})\n{fence}{chunk.language}\n{shown}\n{fence}"

    return Piece(len(code), first)


def _edges(state: SearchState) -> Piece:
    """Write one line for each edge: those of related files, then imports."""
    near = [
        f"- {markdown(found.path)} ({found.relation}) {markdown(found.of)}"
        for found in state.related
    ]
    links = [f"- {markdown(link.path)} imports {markdown(link.target)}" for link in state.imports]
    edges = list(dict.fromkeys((*near, *links)))
    return Piece(len(edges), lambda lines: "\n".join(edges[:lines]))
