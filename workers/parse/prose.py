"""Cut text without a grammar into parts: prose, data, a very long line.

The choice of each cut examines one window only, so the time is linear in the size of any text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise
from typing import NamedTuple

#: Size of a chunk of plain text, bytes.
PROSE_BYTES = 1_000

_HEADING = rb"#{1,6} |=+ "
_STARTS_SECTION = re.compile(_HEADING)

#: Expressions for cuts, best first: before a heading, after a blank line, after a line.
_CUTS = (
    re.compile(rb"\n(?=%s)" % _HEADING),
    re.compile(rb"\n[ \t\r\f]*\n"),
    re.compile(rb"\n"),
)
#: Characters after which a very long line is cut.
_LAST_CUTS = b";}>, "


class Span(NamedTuple):
    """The range of a chunk, in offsets of the text's UTF-8."""

    start: int
    end: int
    continues: bool = False  # the cut before it is not at a boundary of a node or section


def spans(data: bytes) -> list[Span]:
    """Return ranges that partition a text without a grammar, in order."""
    bounds = [0, *cuts(data, 0, len(data)), len(data)]
    return [
        Span(start, end, continues=not _STARTS_SECTION.match(data, start))
        for start, end in pairwise(bounds)
        if start < end
    ]


def cuts(data: bytes, start: int, end: int, *, size_bytes: int = PROSE_BYTES) -> Iterator[int]:
    """Yield offsets in (start, end) that divide `data[start:end]`, ascending.

    Parts have half to one and a half times `size_bytes`, except the last one. No character of UTF-8
    and no CRLF is divided.
    """
    while end - start > size_bytes * 3 // 2:
        start = _cut(data, start + size_bytes // 2, start + size_bytes * 3 // 2)
        if start >= end:
            return
        yield start


def _cut(data: bytes, low: int, high: int) -> int:
    """Return the cut of the best kind in (low, high] that is nearest to the middle."""
    middle = (low + high) // 2
    for pattern in _CUTS:
        found = [match.end() for match in pattern.finditer(data, low, high)]
        if found:
            return min(found, key=lambda at: abs(at - middle))
    best = max(data.rfind(bytes([byte]), middle, high) for byte in _LAST_CUTS)
    return best + 1 if best >= 0 else _between_characters(data, middle)


def _between_characters(data: bytes, at: int) -> int:
    while at < len(data) and (data[at] & 0xC0 == 0x80 or data[at - 1 : at + 1] == b"\r\n"):
        at += 1
    return at
