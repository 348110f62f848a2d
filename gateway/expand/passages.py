"""Show more lines around a hit: its whole function or class, or lines before and after it.

Lines come from the stored chunks of the file, which are all of one commit, so line numbers and text
agree. Lines that no chunk has are blank, because only blank lines are outside chunks.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from itertools import takewhile

from codelode.model import Chunk, ChunkId
from codelode.ports import ChunkSearch
from gateway.options import Expand
from gateway.state import Passage, SearchState


async def passages(state: SearchState, chunks: ChunkSearch) -> dict[ChunkId, Passage]:
    """Return a passage for each hit of the page that has more lines to show."""
    page = [entry.candidate.chunk for entry in state.page]
    keys = list(dict.fromkeys((chunk.repository, chunk.path) for chunk in page))
    files = await chunks.files(keys, state.query.filters.ref)
    found = {
        chunk.id: passage(
            chunk, files[chunk.repository, chunk.path], options=state.query.options.expand
        )
        for chunk in page
    }
    return {id: made for id, made in found.items() if made is not None}


def passage(chunk: Chunk, file: Sequence[Chunk], *, options: Expand) -> Passage | None:
    """Return the lines around the chunk, given the chunks of its file.

    Return None if these are the chunk's own lines, or if the file has changed since the search.
    """
    if all(stored.id != chunk.id for stored in file):
        return None
    start, end, is_cut = chunk.start_line, chunk.end_line, False
    if options.enclosing:
        start, end, is_cut = _bounded(chunk, *enclosing(chunk, file), most=options.max_lines)
    if options.before_lines:
        start = max(file[0].start_line, min(start, chunk.start_line - options.before_lines))
    if options.after_lines:
        last = max(stored.end_line for stored in file)
        end = min(last, max(end, chunk.end_line + options.after_lines))
    start, end, is_cut = _around(chunk, start, end, options.max_lines, is_cut=is_cut)
    if (start, end) == (chunk.start_line, chunk.end_line) and not is_cut:
        return None
    text = lines([part for part in file if part.start_line <= end and part.end_line >= start])
    shown = [text.get(number, "") for number in range(start, end + 1)]
    clipped = [_clipped(line, options.max_line_chars) for line in shown]
    return Passage(start, end, "\n".join(clipped), truncated=is_cut or clipped != shown)


def enclosing(chunk: Chunk, file: Sequence[Chunk]) -> tuple[int, int]:
    """Return the first and last line of the definition that the chunk is, or is part of.

    A long definition is stored as several chunks with the same symbol. A chunk that defines nothing
    has the header of the definition around it.
    """
    at = next(number for number, stored in enumerate(file) if stored.id == chunk.id)
    before = list(takewhile(lambda other: _belongs(chunk, other), reversed(file[:at])))
    after = list(takewhile(lambda other: _belongs(chunk, other), file[at + 1 :]))
    parts = [*before, chunk, *after]
    return min(part.start_line for part in parts), max(part.end_line for part in parts)


def lines(chunks: Sequence[Chunk]) -> dict[int, str]:
    """Map line numbers to text, over chunks of one file; chunks that share a line are joined."""
    found: defaultdict[int, list[str]] = defaultdict(list)
    for chunk in chunks:
        text = chunk.content.replace("\r\n", "\n").removesuffix("\n").split("\n")
        for number, line in enumerate(text, chunk.start_line):
            found[number].append(line)
    return {number: "".join(parts) for number, parts in found.items()}


def _belongs(chunk: Chunk, other: Chunk) -> bool:
    """Return whether both are parts of one definition."""
    if chunk.symbol:
        return other.symbol == chunk.symbol or other.symbol.startswith(f"{chunk.symbol}.")
    return bool(chunk.header) and other.header.startswith(chunk.header)


def _bounded(chunk: Chunk, start: int, end: int, *, most: int) -> tuple[int, int, bool]:
    """Cut to at most `most` lines: the first if they contain the chunk, else those around it."""
    if end - start + 1 <= most:
        return start, end, False
    if chunk.end_line - start + 1 > most:
        start = max(start, min(chunk.start_line, chunk.end_line - most + 1))
    return start, start + most - 1, True


def _around(
    chunk: Chunk, start: int, end: int, most: int, *, is_cut: bool
) -> tuple[int, int, bool]:
    """Cut to at most `most` lines, with equally many before and after the chunk if possible."""
    if end - start + 1 <= most:
        return start, end, is_cut
    room = max(0, most - (chunk.end_line - chunk.start_line + 1))
    before = min(chunk.start_line - start, max(room // 2, room - (end - chunk.end_line)))
    return chunk.start_line - before, chunk.start_line - before + most - 1, True


def _clipped(line: str, most: int) -> str:
    return line if len(line) <= most else f"{line[:most]}…"
