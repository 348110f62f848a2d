"""Keep the candidates that have all texts that the query requires and none that it excludes.

A text is written literally or as an expression. Candidates are found by words and meaning, so the
wanted chunk may not be among them. The few files that have the trigrams of the required texts are
therefore read as well.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from codelode import deadline, globs
from codelode.counts import counted
from codelode.grams import NOTHING
from codelode.model import Candidate, Chunk, FileKey, FileQuery
from gateway.state import Backends, SearchState, TextTest

#: Maximum number of files that are read in addition to the candidates, and of files read together.
#: Chosen by hand.
MAX_FILES = 200
BATCH = 50

NO_TEXT = "no searched code has the texts of the query: the hits are only similar"
NO_TEXT_READ = "no code that was read has the texts of the query: the hits are only similar"
UNREAD = (
    "the expressions of the query have no three characters in a row, so only the likeliest code "
    "was compared with them; `grep` reads all files"
)


async def with_texts(state: SearchState, test: TextTest, backends: Backends) -> SearchState:
    """Return the state with the candidates that pass the test.

    If none has the required texts, return all that have no excluded text, with a remark.
    """
    admitted = await asyncio.to_thread(_kept, state, test.admits)
    if test.is_excluding:
        return admitted
    kept = await asyncio.to_thread(_kept, admitted, test.holds)
    places = await _places(state, test, backends)
    others = await _others(kept, test, places[:MAX_FILES], backends)
    unread = _unread(test, places)
    if others or kept.candidates or any(one.candidates for one in kept.alternates):
        found = replace(kept, candidates=(*kept.candidates, *others))
    else:
        remark = NO_TEXT_READ if unread else NO_TEXT
        found = replace(admitted, is_unmatched=True).remarked(remark)
    return found.remarked(unread) if unread else found


def _kept(state: SearchState, is_wanted: Callable[[str], bool]) -> SearchState:
    """Return the state with the candidates, also of alternate queries, that pass the test."""

    def kept(candidates: Sequence[Candidate]) -> tuple[Candidate, ...]:
        return tuple(one for one in candidates if is_wanted(one.chunk.content))

    alternates = tuple(replace(one, candidates=kept(one.candidates)) for one in state.alternates)
    return replace(state, candidates=kept(state.candidates), alternates=alternates)


def _unread(test: TextTest, places: Sequence[FileKey]) -> str:
    """Return a remark if files that may have the texts were not read, else an empty text."""
    if test.needed == NOTHING:
        return UNREAD
    if (left := len(places) - MAX_FILES) <= 0:
        return ""
    return f"{counted(left, 'file')} that may have the texts were not read; add filters"


async def _places(state: SearchState, test: TextTest, backends: Backends) -> Sequence[FileKey]:
    if test.needed == NOTHING:
        return ()
    query = FileQuery(test.needed, state.query.filters, visible=state.query.visible)
    return await backends.chunks.holding(query)


async def _others(
    state: SearchState, test: TextTest, places: Sequence[FileKey], backends: Backends
) -> list[Candidate]:
    """Return the chunks of the files that pass the test and are not candidates yet."""
    filters = state.query.filters
    known = {one.chunk.id for one in state.candidates}
    found: list[Candidate] = []

    def passing(files: Iterable[Sequence[Chunk]]) -> list[Candidate]:
        some = []
        for chunks in files:
            deadline.check()
            some += [
                Candidate(chunk, 0.0, None)
                for chunk in chunks
                if chunk.id not in known
                and globs.is_inside(chunk, filters)
                and test.holds(chunk.content)
                and test.admits(chunk.content)
            ]
        return some

    for start in range(0, len(places), BATCH):
        held = await backends.chunks.files(places[start : start + BATCH], filters.ref)
        found += await asyncio.to_thread(passing, held.values())
    return found
