"""Find the lines of a text that a pattern matches, with the lines around them."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from codelode import deadline
from gateway.exact.pattern import Pattern

#: Characters of a line that are returned, and matches in it that are marked.
MAX_LINE_CHARS = 1_000
MAX_SPANS = 100

_LINE_BREAK = ord("\n")


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


class Text:
    """The text of a file in UTF-8, with the places of its lines."""

    def __init__(self, raw: bytes) -> None:
        self.raw = raw.removesuffix(b"\n")

    @cached_property
    def _starts(self) -> list[int]:
        """The first byte of each line and of the one that would follow; few files need them."""
        ends = np.flatnonzero(np.frombuffer(self.raw, np.uint8) == _LINE_BREAK)
        return [0, *(ends + 1).tolist(), len(self.raw) + 1]

    @property
    def count(self) -> int:
        """Return the number of lines."""
        return len(self._starts) - 1

    def line_at(self, byte: int) -> int:
        """Return the number of the line that has the byte, from 1."""
        return min(bisect_right(self._starts, byte), self.count)

    def bounds(self, number: int) -> tuple[int, int]:
        """Return the bytes of a line, without its line break."""
        return self._starts[number - 1], self._starts[number] - 1


def matching(pattern: Pattern, text: Text) -> Iterator[tuple[int, list[tuple[int, int]]]]:
    """Yield the number of each line with a match, and the bytes of its first matches."""
    last, spans = 0, pattern.spans(text.raw)
    found = next(spans, None)
    while found is not None:
        deadline.check()
        first, until = text.line_at(found[0]), text.line_at(max(found[0], found[1] - 1))
        for number in range(max(first, last + 1), until):
            yield number, [found]
        last, end = until, text.bounds(until)[1]
        in_line = [found]
        found = next(spans, None)
        while found is not None and found[1] <= end and len(in_line) <= MAX_SPANS:
            in_line.append(found)
            found = next(spans, None)
        yield until, in_line
        if found is not None and found[0] <= end:  # it leaves the line, or is one too many
            spans = pattern.spans(text.raw, end + 1) if end < len(text.raw) else iter(())
            found = next(spans, None)


def lines(
    text: Text,
    matched: Mapping[int, Iterable[tuple[int, int]]],
    *,
    before: int,
    after: int,
) -> tuple[Line, ...]:
    """Return the matched lines and the lines around them, in order."""
    shown = {
        near
        for number in matched
        for near in range(max(1, number - before), min(text.count, number + after) + 1)
    }
    return tuple(_line(text, number, matched.get(number)) for number in sorted(shown))


def _line(text: Text, number: int, spans: Iterable[tuple[int, int]] | None) -> Line:
    start, end = text.bounds(number)
    raw = text.raw[start:end]
    whole = raw.decode()
    marked = (_span(raw, one[0] - start, one[1] - start) for one in spans or ())
    return Line(
        number,
        whole[:MAX_LINE_CHARS],
        spans is not None,
        tuple(one for one in marked if one.start < one.end <= MAX_LINE_CHARS),
        len(whole) > MAX_LINE_CHARS,
    )


def _span(raw: bytes, start: int, end: int) -> Span:
    """Return the characters of the bytes of a line, of a match that may leave it."""
    inside = max(0, start), max(0, min(end, len(raw)))
    if raw.isascii():
        return Span(*inside)
    return Span(*(len(raw[:at].decode("utf-8", "replace")) for at in inside))
