"""Prepare the lines of a file for the code page: highlighted, safe to show, and marked."""

from __future__ import annotations

from dataclasses import dataclass

from markupsafe import Markup, escape

from codelode.display import plain
from gateway.highlighting import Code, Highlighter
from gateway.service.results import FileLines

#: Maximum number of lines that a page shows. A page of 1,000 lines has about 150 kB.
WINDOW_LINES = 1_000


@dataclass(frozen=True, slots=True)
class SourceLine:
    """A line of a file, as HTML."""

    number: int
    html: Markup
    is_marked: bool


@dataclass(frozen=True, slots=True)
class Source:
    """The lines of a file that a page shows."""

    start: int
    lines: tuple[SourceLine, ...]
    has_colours: bool


async def source(highlighter: Highlighter, found: FileLines, *, marked: tuple[int, int]) -> Source:
    """Return the lines; without colours if they cannot be highlighted in time."""
    text = plain(found.content)
    coloured = await highlighter.lines(Code(text, found.language, found.path))
    shown = map(escape, text.split("\n")) if coloured is None else map(Markup, coloured)
    first, last = marked
    return Source(
        found.start_line,
        tuple(
            SourceLine(number, line, first <= number <= last)
            for number, line in enumerate(shown, found.start_line)
        ),
        coloured is not None,
    )
