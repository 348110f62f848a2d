"""Choose the lines of a hit that match the query, and mark the matches in them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain
from typing import TYPE_CHECKING

from codelode.counts import counted
from codelode.display import plain
from codelode.query_language import words_of
from codelode.stopwords import stopwords
from codelode.text.columns import cells, prefix
from codelode.tokens import identifiers, may_have, terms, words

if TYPE_CHECKING:
    from codelode.client import Hit

#: Maximum number of lines of a hit that is shown whole; a chunk has up to about a hundred. The
#: excerpt of a longer hit takes as many lines, with the two notes on what was left out.
MAX_LINES = 12
EXCERPT_LINES = 10
#: Number of lines of an excerpt before the first line that matches the query.
LEAD_LINES = 2

#: Number of columns of output that does not go to a terminal. Longer lines are cut, because one
#: line of a minified file would fill a page.
MAX_COLUMNS = 200


#: A line of a file in a query: `src/server.c:1840`.
_PLACE = re.compile(r"(?<![\w@+./\\-])(?P<path>[\w@+./\\-]++):(?P<line>\d{1,7})\b")


@dataclass(frozen=True, slots=True)
class Look:
    """The width of lines, and the functions that emphasise their parts."""

    columns: int = MAX_COLUMNS
    tab_columns: int = 0  # 0: tabs stay as they are
    faint: Callable[[str], str] = str  # for numbers, and for notes on what was left out
    match: Callable[[str], str] = str


PLAIN = Look()


def excerpt(hit: Hit, query: str, *, context: int | None = None, look: Look = PLAIN) -> list[str]:
    """Return the lines of a hit with their numbers; of a long hit, those that match best.

    `context`: show this many lines before and after the line that matches best.
    """
    shown, first = hit.content, hit.start_line
    if hit.passage is not None:
        shown, first = hit.passage.content, hit.passage.start_line
    code = shown.replace("\r\n", "\n").rstrip("\n").split("\n")
    wanted = wanted_terms(query)
    asked = asked_index(query, hit.path, first, len(code))
    start, end = window(code, wanted, asked=asked, otherwise=hit.line - first, context=context)
    width = len(str(first + end - 1))
    room = max(1, look.columns - width - 2)
    numbers = (look.faint(f"{first + index:>{width}}") for index in range(start, end))
    shown_code = (_fitted(line, wanted, room, look) for line in code[start:end])
    lines = [f"{number}  {line}" for number, line in zip(numbers, shown_code, strict=True)]
    if context is not None:
        return lines
    above, below = _elided(start, "above", width), _elided(len(code) - end, "below", width)
    return [*map(look.faint, above), *lines, *map(look.faint, below)]


@lru_cache(maxsize=16)  # all hits of an answer ask for those of one query
def wanted_terms(query: str) -> frozenset[str]:
    """Return the terms of the query without words such as `how` and `the`, if others are left.

    Filters in the query do not count as words.
    """
    found = frozenset(terms(words_of(query)))
    return found - stopwords(found) or found


def asked_index(query: str, path: str, first: int, count: int) -> int | None:
    """Return the index of the line that the query names, as in `src/a.py:42`, if it is shown.

    `count` lines of the file are shown, from the line `first` on. The query may leave out folders,
    or name more of them than the repository has.
    """
    for place in _PLACE.finditer(query):
        inner, outer = sorted((place["path"].removeprefix("./"), path), key=len)
        index = int(place["line"]) - first
        if 0 <= index < count and f"/{outer}".endswith(f"/{inner}"):
            return index
    return None


def window(
    code: Sequence[str],
    wanted: frozenset[str],
    *,
    asked: int | None,
    otherwise: int,
    context: int | None = None,
) -> tuple[int, int]:
    """Return the index of the first line of a hit to show, and the index after the last one.

    A short hit is shown whole. Of a long one, the lines around `asked` are shown, or if that is
    None the lines with most of the wanted terms, or without any those around the line `otherwise`.
    `context`: see `excerpt`.
    """
    size, lead = (EXCERPT_LINES, LEAD_LINES) if context is None else (2 * context + 1, context)
    if len(code) <= (MAX_LINES if context is None else size):
        return 0, len(code)
    if asked is not None:
        start = min(max(asked - lead, 0), len(code) - size)
    else:
        start = _best_start(code, wanted, size=size, lead=lead, otherwise=otherwise)
    return start, start + size


def _best_start(
    code: Sequence[str], wanted: frozenset[str], *, size: int, lead: int, otherwise: int
) -> int:
    """Return the index of the line where the excerpt with most of the wanted terms begins.

    A term that occurs in many lines counts less. Of equal excerpts, the one with the best line
    below its lead wins. If no line has a term, the excerpt is about the line `otherwise`.
    """
    found = [_found(line, wanted) for line in code]
    lines_with = Counter(chain.from_iterable(found))
    last = len(code) - size
    marked = [index for index, each in enumerate(found) if each] or [max(0, otherwise)]
    starts = {min(max(index - lead, 0), last) for index in marked}

    def worth(of: Iterable[str]) -> float:
        return round(sum(1 / lines_with[term] for term in of), 9)

    def rank(start: int) -> tuple[float, float]:
        return worth(set(chain(*found[start : start + size]))), worth(found[start + lead])

    return max(sorted(starts if not lines_with else {0, *starts}), key=rank)


def _found(line: str, wanted: frozenset[str]) -> frozenset[str]:
    return wanted.intersection(terms(line)) if may_have(line, wanted) else frozenset()


def _elided(count: int, where: str, width: int) -> list[str]:
    if not count:
        return []
    return [f"{'':>{width}}  … {counted(count, 'line')} {where}"]


def _fitted(line: str, wanted: frozenset[str], room: int, look: Look) -> str:
    """Return the line with its matches marked, cut to the part with the first if too wide."""
    text = plain(line.rstrip())
    if look.tab_columns:
        text = text.expandtabs(look.tab_columns)
    if cells(text) <= room:
        return _marked(text, wanted, look)
    found, end = next(matches(text, wanted), (0, 0))
    start = max(0, found - room // 4) if cells(text[:end]) >= room else 0
    before = "…" if start else ""
    part = prefix(text[start:], room - 1 - len(before))
    after = "…" if start + len(part) < len(text) else ""
    return f"{before}{_marked(part, wanted, look)}{after}"


def _marked(text: str, wanted: frozenset[str], look: Look) -> str:
    shown, done = [], 0
    for start, end in matches(text, wanted):
        shown += [text[done:start], look.match(text[start:end])]
        done = end
    return "".join((*shown, text[done:]))


def matches(text: str, wanted: frozenset[str]) -> Iterator[tuple[int, int]]:
    """Yield the spans of the wanted terms, in order: whole identifiers, or words inside them."""
    if not may_have(text, wanted):  # true of most lines, and fast
        return
    at = 0
    for identifier in identifiers(text):
        start = text.index(identifier, at)
        at = start + len(identifier)
        if not wanted.isdisjoint(terms(identifier)[-1:]):
            yield start, at
            continue
        folded, position = identifier.lower(), 0
        for word in words(identifier):
            found = folded.find(word, position)
            if found >= 0:
                position = found + len(word)
                if word in wanted:
                    yield start + found, start + position
