"""Find the source of a message that the query is, if no candidate contains it.

The words of a message may be common, and its values occur nowhere in the code, so its source may
rank too low to be a candidate. Its fixed parts are therefore looked up by their trigrams.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from codelode.grams import of_text
from codelode.model import Candidate, Category, Chunk, FileKey, FileQuery
from gateway.messages import RUN, Message, fixed_parts, longest_run, message
from gateway.retrieve.missing import is_source, new_chunks
from gateway.state import Backends, SearchState

#: Share of the words of a message that a candidate must have to be its source. Chosen by hand.
ENOUGH = 0.5

#: Maximum numbers of parts of a message that are looked up, of files whose texts are compared with
#: a part, and of files that are read as chunks. Chosen by hand.
MAX_PARTS = 2
MAX_TEXTS = 400
MAX_FILES = 20

#: Maximum number of chunks that are added. Chosen by hand.
MAX_ADDED = 10


async def with_source(state: SearchState, backends: Backends) -> SearchState:
    """Add the chunks that have most of a message, unless a candidate has enough of it."""
    said = message(state.analysis.message)
    for part in _missing(state, said):
        places = await _places(part, state, backends)
        files = await backends.chunks.files(places, state.query.filters.ref) if places else {}
        if added := _added(part, said, files.values(), state):
            return replace(state, candidates=(*state.candidates, *added))
    return state


def _missing(state: SearchState, said: Message) -> Sequence[str]:
    """Return the parts to look up: none if a candidate is the source, or for a stack trace."""
    parts = fixed_parts(said)[:MAX_PARTS]
    if not parts or state.analysis.frames or not state.candidates:
        return ()
    enough = max(RUN, ENOUGH * len(said.words))
    sources = (one.chunk.content for one in state.candidates if is_source(one.chunk))
    return () if any(longest_run(said, one) >= enough for one in sources) else parts


async def _places(part: str, state: SearchState, backends: Backends) -> Sequence[FileKey]:
    """Return the files that contain the part; none if too many have to be read for it."""
    needed, filters = of_text(part), state.query.filters
    query = FileQuery(needed, filters, visible=state.query.visible)
    places = await backends.chunks.holding(query)
    if len(places) > MAX_TEXTS:
        return ()
    texts = await backends.chunks.texts(places, filters.ref, needed)
    written = part.encode()
    return [place for place, text in texts.items() if written in text.raw][:MAX_FILES]


def _added(
    part: str, said: Message, files: Iterable[Sequence[Chunk]], state: SearchState
) -> list[Candidate]:
    """Return the chunks with the part that are no candidates yet, those with most words first."""
    found = [
        chunk
        for chunk in new_chunks(files, state)
        if part in chunk.content and chunk.category is not Category.DOCS
    ]
    found.sort(key=lambda one: longest_run(said, one.content), reverse=True)
    return [Candidate(chunk, 0.0, None) for chunk in found[:MAX_ADDED]]
