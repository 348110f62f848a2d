"""Fill a token budget with pieces of text, hits first. Pure.

A larger budget never loses a hit: hits are taken strictly in order, and their share of the budget
grows with it. Skipping a piece for a smaller one would break that, so the first piece that does not
fit is cut to the lines that do, and ends its list.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass

#: Largest shares that related files, and edges between files, claim before hits. Chosen by hand.
RELATED, GRAPH = 0.3, 0.1

Count = Callable[[str], int]


@dataclass(frozen=True, slots=True)
class Piece:
    """A text that can be cut by lines: `first(n)` is the text with its first n lines."""

    lines: int
    first: Callable[[int], str]


@dataclass(frozen=True, slots=True)
class Filled:
    """The texts that fit, in order."""

    hits: tuple[str, ...]
    related: tuple[str, ...]
    edges: tuple[str, ...]


def fill(
    hits: Sequence[Piece], related: Sequence[Piece], edges: Piece, *, tokens: int, count: Count
) -> Filled:
    """Choose texts whose total is at most `tokens`.

    Related files and edges claim up to their shares, and hits get the rest. A hit that begins
    within the rest is shown to its end, at the cost of related files. What hits do not use goes to
    related files, and then to edges.
    """
    claimed = min(GRAPH * tokens, _size(edges, count))
    for_hits = tokens - claimed - min(RELATED * tokens, sum(_size(one, count) for one in related))
    shown, left = _taken(hits, tokens, count, enough=for_hits)
    near, unused = _taken(related, left - claimed, count)
    links, _ = _taken([edges], unused + claimed, count)
    return Filled(shown, near, links)


def _taken(
    pieces: Sequence[Piece], room: float, count: Count, *, enough: float = float("inf")
) -> tuple[tuple[str, ...], float]:
    """Return the first texts that fit, until they have `enough` tokens, and the room left."""
    texts: list[str] = []
    used = 0
    for piece in pieces:
        lines = _lines_that_fit(piece, room - used, count)
        if used >= enough or not lines:
            break
        texts.append(piece.first(lines))
        used += _tokens(texts[-1], count)
        if lines < piece.lines:
            break
    return tuple(texts), room - used


def _lines_that_fit(piece: Piece, room: float, count: Count) -> int:
    if _size(piece, count) <= room:
        return piece.lines
    lines = range(1, piece.lines)
    return bisect_right(lines, room, key=lambda some: _tokens(piece.first(some), count))


def _size(piece: Piece, count: Count) -> int:
    return _tokens(piece.first(piece.lines), count)


def _tokens(text: str, count: Count) -> int:
    """Return the tokens of the text with the blank line after it; 0 for no text."""
    return count(f"{text}\n\n") if text else 0
