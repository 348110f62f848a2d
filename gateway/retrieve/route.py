"""Find the code that declares the URL path that the query is, if no candidate declares all of it.

A path consists of common words and of values that occur nowhere in the code, so the code that
declares it may rank too low to be a candidate. Its words are therefore looked up by their trigrams.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from codelode.grams import NOTHING, Grams, all_of, any_of, of_text
from codelode.model import Candidate, Chunk, FileQuery
from gateway.retrieve.missing import is_source, new_chunks
from gateway.routes import declared, words
from gateway.state import Backends, SearchState

#: Share of a path that a candidate must declare so that nothing is looked up. Chosen by hand.
ENOUGH = 0.9

#: Characters of which one is before each part of a route.
MARKS = "/\"'`:"

#: Maximum number of files that are read for some words of a path, and of chunks that are added.
#: Chosen by hand.
MAX_FILES = 100
MAX_ADDED = 10


async def with_routes(state: SearchState, backends: Backends) -> SearchState:
    """Add the chunks that declare most of the URL path, unless a candidate declares it."""
    path, filters = state.analysis.url_path, state.query.filters
    candidates = (one.chunk for one in state.candidates)
    if not path or any(_share(chunk, state) >= ENOUGH for chunk in candidates):
        return state
    for needed in _needed(words(path)):
        query = FileQuery(needed, filters, visible=state.query.visible)
        places = await backends.chunks.holding(query)
        if not 0 < len(places) <= MAX_FILES:
            continue
        files = await backends.chunks.files(places, filters.ref)
        if added := _added(files.values(), state):
            return replace(state, candidates=(*state.candidates, *added))
    return state


def _needed(said: Sequence[str]) -> Iterator[Grams]:
    """Yield the trigrams to look up, from many words to few: another file may declare the first
    words, and the last one may be a value.
    """
    for kept in dict.fromkeys((said, said[:-1])):
        for start in range(len(kept)):
            needed = all_of(
                any_of(of_text(f"{mark}{word}") for mark in MARKS) for word in kept[start:]
            )
            if needed != NOTHING:
                yield needed


def _added(files: Iterable[Sequence[Chunk]], state: SearchState) -> list[Candidate]:
    """Return the chunks that declare some of the path and are no candidates yet, best first."""
    shares = ((_share(chunk, state), chunk) for chunk in new_chunks(files, state))
    found = sorted(shares, key=lambda pair: -pair[0])
    return [Candidate(chunk, 0.0, None) for share, chunk in found[:MAX_ADDED] if share]


def _share(chunk: Chunk, state: SearchState) -> float:
    """Return the share of the path that the chunk declares; 0 for tests and documents."""
    if not is_source(chunk):
        return 0.0
    analysis = state.analysis
    return declared(analysis.url_path, chunk.content, method=analysis.url_method)
