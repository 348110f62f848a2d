"""Keep the candidates that have the texts and expressions which the query wants or excludes.

A candidate is found by words and meaning, so files that have the trigrams of what is wanted are
read as well: few have them, and the chunk that was asked for may not be among the candidates.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace

from codelode import globs
from codelode.counts import counted
from codelode.grams import NOTHING
from codelode.model import Candidate, ChunkId, FileKey, FileQuery
from gateway.state import Backends, SearchState, TextTest

#: Most files that are read besides those of the candidates. By hand.
MAX_FILES = 200

NO_TEXT = "no searched code has the texts of the query: the hits are only similar"


async def with_texts(state: SearchState, test: TextTest, backends: Backends) -> SearchState:
    """Return the state with the candidates that pass the test; if none does, with a remark."""
    kept = await asyncio.to_thread(_passing, state.candidates, test)
    if test.is_excluding:
        return replace(state, candidates=kept)
    places = await _places(state, test, backends)
    known = {one.chunk.id for one in kept}
    others = await _others(state, test, places[:MAX_FILES], known, backends)
    if len(places) > MAX_FILES:
        left = counted(len(places) - MAX_FILES, "file")
        state = state.remarked(f"{left} that may have the texts were not read; add filters")
    if kept or others:
        return replace(state, candidates=(*kept, *others))
    return replace(state, is_unmatched=True).remarked(NO_TEXT)


def _passing(candidates: Sequence[Candidate], test: TextTest) -> tuple[Candidate, ...]:
    return tuple(one for one in candidates if test.holds(one.chunk.content))


async def _places(state: SearchState, test: TextTest, backends: Backends) -> Sequence[FileKey]:
    if test.needed == NOTHING:
        return ()
    query = FileQuery(test.needed, state.query.filters, visible=state.query.visible)
    return await backends.chunks.holding(query)


async def _others(
    state: SearchState,
    test: TextTest,
    places: Sequence[FileKey],
    known: set[ChunkId],
    backends: Backends,
) -> list[Candidate]:
    """Return the chunks of the files that pass the test and are not known."""
    filters = state.query.filters
    held = await backends.chunks.files(places, filters.ref)

    def passing() -> list[Candidate]:
        return [
            Candidate(chunk, 0.0, None)
            for chunks in held.values()
            for chunk in chunks
            if chunk.id not in known
            and globs.is_inside(chunk, filters)
            and test.holds(chunk.content)
        ]

    return await asyncio.to_thread(passing)
