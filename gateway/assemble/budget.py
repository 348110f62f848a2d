"""Fill a token budget: divide it into three shares, and reuse what a share leaves over. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

#: Shares of a context: hits, related files, and the edges between them. By hand.
PRIMARY, RELATED, GRAPH = 0.6, 0.3, 0.1

Count = Callable[[str], int]


@dataclass(frozen=True, slots=True)
class Filled:
    """The pieces that fit, as indexes into the given lists, ascending."""

    primary: tuple[int, ...]
    related: tuple[int, ...]
    graph: tuple[int, ...]


def fill(
    primary: Sequence[int], related: Sequence[int], graph: Sequence[int], *, tokens: int
) -> Filled:
    """Choose pieces, given by their sizes in tokens, whose total is at most `tokens`.

    Pieces are taken greedily in the given order; a piece that does not fit is skipped. Each list
    first fills its share. What is left of the budget goes to hits, then to the other lists.
    """
    sizes = (primary, related, graph)
    shares = (PRIMARY, RELATED, GRAPH)
    taken = [_greedy(of, int(share * tokens)) for of, share in zip(sizes, shares, strict=True)]
    room = tokens - sum(_total(of, has) for of, has in zip(sizes, taken, strict=True))
    for of, has in zip(sizes, taken, strict=True):
        more = _greedy(of, room, but=has)
        room -= _total(of, more)
        has |= more
    return Filled(*(tuple(sorted(has)) for has in taken))


def _greedy(sizes: Sequence[int], room: int, *, but: set[int] | None = None) -> set[int]:
    taken = set()
    for number, size in enumerate(sizes):
        if size <= room and number not in (but or ()):
            taken.add(number)
            room -= size
    return taken


def _total(sizes: Sequence[int], taken: set[int]) -> int:
    return sum(sizes[number] for number in taken)
