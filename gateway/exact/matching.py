"""Find the lines of a text that a pattern matches, with the lines around them.

Lines are counted and their ends are found only at matches, because most lines have none.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from codelode import deadline
from gateway.exact.pattern import Pattern

#: Number of characters of a line that are returned.
MAX_LINE_CHARS = 1_000
#: Number of matches in a line after which no more than one is marked.
MAX_SPANS = 100


@dataclass(frozen=True, slots=True)
class Span:
    """A match in a line: characters, 0-based and half-open."""

    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Line:
    """A line of a file that a pattern matches, or one around it."""

    number: int
    text: str
    is_match: bool
    spans: tuple[Span, ...] = ()
    truncated: bool = False  # the end of the line was cut off


class Place(NamedTuple):
    """A line in a text: its bytes without the line break, and those of the matches in it."""

    number: int  # from 1
    start: int
    end: int
    spans: Sequence[tuple[int, int]] | None = None  # None: the pattern does not match the line


def matching(pattern: Pattern, raw: bytes) -> Iterator[Place]:
    """Yield each line of a text in UTF-8 with a match, and its first matches.

    A line break at the end of the text does not begin another line.
    """
    raw = raw.removesuffix(b"\n")
    number, start, end = 1, 0, _end(raw, 0)
    spans = pattern.spans(raw)
    found = next(spans, None)
    while found is not None:
        deadline.check()
        if found[0] > end:
            number += raw.count(b"\n", end, found[0])
            start, end = raw.rfind(b"\n", end, found[0]) + 1, _end(raw, found[0])
        while found[1] - 1 > end:  # the match goes on in the next line
            yield Place(number, start, end, [found])
            number, start, end = number + 1, end + 1, _end(raw, end + 1)
        in_line = [found]
        found = next(spans, None)
        while found is not None and found[1] <= end and len(in_line) <= MAX_SPANS:
            in_line.append(found)
            found = next(spans, None)
        yield Place(number, start, end, in_line)
        if found is not None and found[0] <= end:  # beyond the line, or one too many
            spans = pattern.spans(raw, end + 1) if end < len(raw) else iter(())
            found = next(spans, None)


def lines(raw: bytes, matched: Sequence[Place], *, before: int, after: int) -> tuple[Line, ...]:
    """Return the matched lines of a text and the lines around them, in order."""
    if before or after:
        raw = raw.removesuffix(b"\n")
        near = {one.number: one for place in matched for one in _around(raw, place, before, after)}
        shown = near | {place.number: place for place in matched}
        matched = [shown[number] for number in sorted(shown)]
    return tuple([_line(raw, place) for place in matched])


def _around(raw: bytes, place: Place, before: int, after: int) -> Iterator[Place]:
    """Yield the lines around a line, as far as the text has them."""
    number, start, end, _ = place
    while start > 0 and number > place.number - before:
        number, start, end = number - 1, raw.rfind(b"\n", 0, start - 1) + 1, start - 1
        yield Place(number, start, end)
    number, start, end, _ = place
    while end < len(raw) and number < place.number + after:
        number, start, end = number + 1, end + 1, _end(raw, end + 1)
        yield Place(number, start, end)


def _end(raw: bytes, start: int) -> int:
    """Return the end of the line that contains the byte."""
    end = raw.find(b"\n", start)
    return len(raw) if end < 0 else end


def _line(raw: bytes, place: Place) -> Line:
    number, start, end, spans = place
    line = raw[start:end]
    text = line.decode()
    is_ascii = len(text) == len(line)
    marked = []
    for first, last in spans or ():
        first = first - start if first > start else 0  # a match may extend beyond the line
        last = (last if last < end else end) - start
        if not is_ascii:
            first, last = _characters(line, first), _characters(line, last)
        if first < last <= MAX_LINE_CHARS:
            marked.append(Span(first, last))
    is_long = len(text) > MAX_LINE_CHARS
    shown = text[:MAX_LINE_CHARS] if is_long else text
    return Line(number, shown, spans is not None, tuple(marked), is_long)


def _characters(line: bytes, end: int) -> int:
    """Return the number of characters in the first bytes of a line."""
    return len(line[:end].decode("utf-8", "replace"))
