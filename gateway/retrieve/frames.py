"""Retrieve the chunks that the frames of a stack trace in the query lead to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from codelode.model import Candidate, HybridQuery
from codelode.ports import ChunkSearch
from gateway.state import Frame, SearchQuery

#: Maximum number of files whose lines are read; a name without folders may mean many files.
MAX_FILES = 10


async def of_frames(
    frames: Sequence[Frame], query: SearchQuery, chunks: ChunkSearch
) -> tuple[Candidate, ...]:
    """Return the chunks that the frames lead to, within the query's filters.

    With a filter by path, none are returned: the store cannot combine it with the frames' paths.
    """
    names = {frame.path.rpartition("/")[2] for frame in frames}
    names = {name for name in names if not set(name) & set("*?[]{}!")}
    if not names or query.filters.paths:
        return ()
    globs = tuple(glob for name in sorted(names) for glob in (name, f"**/{name}"))
    asked = HybridQuery(
        text=" ".join(dict.fromkeys(frame.function or frame.path for frame in frames)),
        vector=None,
        filters=replace(query.filters, paths=globs),
        limit=query.options.retrieve.window,
        visible=query.visible,
    )
    found = await chunks.hybrid(asked)
    held = [one for one in found if any(frame.is_in(one.chunk) for frame in frames)]
    lines = [
        frame
        for frame in frames
        if not frame.function and not any(frame.is_in(one.chunk) for one in held)
    ]
    return (*held, *await _at_lines(lines, found, query, chunks))


async def _at_lines(
    frames: Sequence[Frame], found: Sequence[Candidate], query: SearchQuery, chunks: ChunkSearch
) -> tuple[Candidate, ...]:
    """Return the chunks with the lines of the frames, in files that have a found chunk."""
    files = dict.fromkeys(
        (one.chunk.repository, one.chunk.path)
        for one in found
        if any(frame.may_mean(one.chunk.path) for frame in frames)
    )
    if not files:
        return ()
    read = await chunks.files(list(files)[:MAX_FILES], query.filters.ref)
    return tuple(
        Candidate(chunk, None, None)
        for held in read.values()
        for chunk in held
        if any(frame.is_in(chunk) for frame in frames)
    )
