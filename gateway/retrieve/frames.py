"""Retrieve the chunks that a stack trace in the query leads to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from codelode.model import Candidate, HybridQuery
from codelode.ports import ChunkSearch
from gateway.state import Frame, SearchQuery


async def of_frames(
    frames: Sequence[Frame], query: SearchQuery, chunks: ChunkSearch
) -> tuple[Candidate, ...]:
    """Return the chunks that define the functions of the frames, within the query's filters.

    A filter by path leaves the ordinary candidates only: the two cannot be combined in one query.
    """
    names = {frame.path.rpartition("/")[2] for frame in frames}
    names = {name for name in names if not set(name) & set("*?[]{}!")}
    if not names or query.filters.paths:
        return ()
    globs = tuple(glob for name in sorted(names) for glob in (name, f"**/{name}"))
    asked = HybridQuery(
        text=" ".join(dict.fromkeys(frame.function for frame in frames)),
        vector=None,
        filters=replace(query.filters, paths=globs),
        limit=query.options.retrieve.window,
        visible=query.visible,
    )
    found = await chunks.hybrid(asked)
    return tuple(one for one in found if any(frame.is_in(one.chunk) for frame in frames))
