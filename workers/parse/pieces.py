"""Assign definitions to the pieces of a file.

Spans and definitions are processed once in file order, so the time is linear in both.

A piece that begins inside a definition overlaps with the text before it. A cut between two whole
definitions loses nothing; an overlap there would make a search for one definition find the other.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

from codelode import definitions as stored
from codelode.model import Kind, Piece
from workers.parse.definitions import Definition
from workers.parse.encoding import Decoded
from workers.parse.prose import Span

MAX_HEADER_CHARS = 120  # of each parent
HEADER_SEPARATOR = " › "

#: Maximum number of characters before a piece that are indexed with it.
OVERLAP_CHARS = 300

#: Kinds that contain other definitions; a piece of one is about the definitions that start in it.
_CONTAINERS = frozenset(
    {Kind.CLASS, Kind.INTERFACE, Kind.STRUCT, Kind.ENUM, Kind.TRAIT, Kind.MODULE, None}
)

#: Blank lines, comments and attributes, then words on the line itself: `export const`.
_ABOVE = re.compile(
    rb"(?:[ \t\r\f]*(?:(?://|/\*|\*|#|--|;|%|@|\[|template\b)[^\n]*)?\n)*[\w() \t]*"
)


def build(
    spans: Sequence[Span], definitions: Sequence[Definition], decoded: Decoded, *, plain: Kind
) -> tuple[Piece, ...]:
    """Return a piece per span, with offsets in the file.

    A piece's symbol is the definition that fills most of it: one that starts in it, or a function
    that it continues; if there is none, the class around it. Instead of a module with a single
    class, the symbol is that class. The header names the definitions that began earlier and cover
    at least half of the piece. A piece without definitions has the kind `plain`.
    """
    out: list[Piece] = []
    line, offset = 1, 0
    before = ""
    for span, (around, started) in zip(spans, _held(spans, definitions), strict=True):
        start, end, _ = span
        utf8 = decoded.utf8[start:end]
        content = utf8.decode()
        size = decoded.size_bytes(content, utf8) + (0 if out else decoded.bom_bytes)
        main = _main(around, started, start, end)
        named = _named(started)
        out.append(
            Piece(
                start_line=line,
                end_line=line + utf8.count(b"\n", 0, -1),
                start_byte=offset,
                end_byte=offset + size,
                content=content,
                kind=main.kind if main and main.kind else plain,
                symbol=main.qualified_name if main else "",
                symbols=tuple(named),
                header=_header(around, (start + end) // 2),
                block_type=main.block_type if main else "",
                overlap=_overlap(before) if _is_inside(span, around, started, utf8) else 0,
                definitions=_dumped(main, named.values(), content, line) if main else "",
            )
        )
        before = content
        line += utf8.count(b"\n")
        offset += size
    return tuple(out)


def _held(
    spans: Sequence[Span], definitions: Sequence[Definition]
) -> Iterator[tuple[Sequence[Definition], Sequence[Definition]]]:
    """Yield per span the definitions around its start, outer first, and those that start in it."""
    around: list[Definition] = []
    at = 0
    for start, end, _ in spans:
        around = [definition for definition in around if definition.end > start]
        first = at
        while at < len(definitions) and definitions[at].start < end:
            at += 1
        started = definitions[first:at]
        yield around, started
        around = [*around, *started]


def _named(started: Iterable[Definition]) -> Mapping[str, Definition]:
    """Return the first definition of each name."""
    named: dict[str, Definition] = {}
    for definition in started:
        if definition.kind:
            named.setdefault(definition.name, definition)
    return named


def _dumped(main: Definition, others: Iterable[Definition], content: str, line: int) -> str:
    first, *more = (stored.Definition(one.line, one.signature) for one in (main, *others))
    return stored.dump(first, more, content, line)


def _main(
    around: Sequence[Definition], started: Sequence[Definition], start: int, end: int
) -> Definition | None:
    def share(definition: Definition) -> int:
        return min(definition.end, end) - max(definition.start, start)

    if any(definition.kind is Kind.BLOCK for definition in (*around[:1], *started[:1])):
        # For infrastructure: the innermost of the blocks that fill most of the piece.
        return max(reversed([*around, *started]), key=share)
    continued = [definition for definition in around if definition.kind not in _CONTAINERS][:1]
    here = [definition for definition in started if definition.kind]
    if continued or here:
        main = max([*continued, *here], key=share)
        return _innermost(main, here)
    parents = [definition for definition in around if definition.kind]
    return parents[-1] if parents else None


def _innermost(main: Definition, here: Sequence[Definition]) -> Definition:
    """Return the single class of a module, or `main`: `module A; class B` is about B."""
    inside = [inner for inner in here if main.start < inner.start < main.end]
    if main.kind is not Kind.MODULE or not inside or inside[0].kind not in _CONTAINERS:
        return main
    is_alone = all(inner.start < inside[0].end for inner in inside)
    return _innermost(inside[0], inside) if is_alone else main


def _header(around: Sequence[Definition], middle: int) -> str:
    return HEADER_SEPARATOR.join(
        definition.signature[:MAX_HEADER_CHARS]
        for definition in around
        if definition.signature and definition.end >= middle
    )


def _is_inside(
    span: Span, around: Sequence[Definition], started: Sequence[Definition], utf8: bytes
) -> bool:
    """Return whether the piece begins inside a definition, but not with a nested definition."""
    if not span.continues and all(definition.kind in _CONTAINERS for definition in around):
        return False
    return not (started and _ABOVE.fullmatch(utf8, 0, started[0].start - span.start))


def _overlap(before: str) -> int:
    """Return the length of the last lines of a text that fit, or else of its last characters."""
    fitting = before[-OVERLAP_CHARS:]
    if len(before) > OVERLAP_CHARS and before[-OVERLAP_CHARS - 1] != "\n":
        lines = fitting.partition("\n")[2]
        fitting = lines if lines.strip() else fitting
    return len(fitting) if fitting.strip() else 0
