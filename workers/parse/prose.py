"""Cuts in text that has no grammar, or none any more: prose, data, a very long line.

Each cut looks at one window only, so that the time is linear in the size of the text whatever it
holds.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise
from typing import NamedTuple

#: Size of a chunk of plain text, bytes (feature list P2).
PROSE_BYTES = 1_000

_HEADING = rb"#{1,6} |=+ "
_STARTS_SECTION = re.compile(_HEADING)

#: Places to cut, best first: before a heading, after a blank line, after a line.
_PLACES = (
    re.compile(rb"\n(?=%s)" % _HEADING),
    re.compile(rb"\n[ \t\r\f]*\n"),
    re.compile(rb"\n"),
)
#: On a line without end: after what usually ends something.
_LAST_PLACES = b";}>, "


class Span(NamedTuple):
    """Where a chunk stands: offsets in the text's UTF-8."""

    start: int
    end: int
    continues: bool = False  # the cut before it divides what no grammar or heading does


def spans(data: bytes) -> list[Span]:
    """Ranges that partition a text without a grammar, in order."""
    bounds = [0, *cuts(data, 0, len(data)), len(data)]
    return [
        Span(start, end, continues=not _STARTS_SECTION.match(data, start))
        for start, end in pairwise(bounds)
        if start < end
    ]


def cuts(data: bytes, start: int, end: int, *, size_bytes: int = PROSE_BYTES) -> Iterator[int]:
    """Offsets in (start, end) that divide `data[start:end]`, ascending.

    Parts have half to one and a half times `size_bytes`, except where the text ends; no character
    of UTF-8 and no CRLF is divided.
    """
    while end - start > size_bytes * 3 // 2:
        start = _cut(data, start + size_bytes // 2, start + size_bytes * 3 // 2)
        if start >= end:
            return
        yield start


def _cut(data: bytes, low: int, high: int) -> int:
    """The best place in (low, high]: of the best kind there, the one nearest to the middle."""
    middle = (low + high) // 2
    for place in _PLACES:
        found = [match.end() for match in place.finditer(data, low, high)]
        if found:
            return min(found, key=lambda at: abs(at - middle))
    best = max(data.rfind(bytes([byte]), middle, high) for byte in _LAST_PLACES)
    return best + 1 if best >= 0 else _between_characters(data, middle)


def _between_characters(data: bytes, at: int) -> int:
    while at < len(data) and (data[at] & 0xC0 == 0x80 or data[at - 1 : at + 1] == b"\r\n"):
        at += 1
    return at
