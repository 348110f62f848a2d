"""Look at chunks of files that were looked up because a candidate is missing."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from codelode import globs
from codelode.model import Category, Chunk
from gateway.state import SearchState


def new_chunks(files: Iterable[Sequence[Chunk]], state: SearchState) -> Iterator[Chunk]:
    """Yield the chunks inside the filters that are no candidates yet."""
    known = {one.chunk.id for one in state.candidates}
    for chunks in files:
        for chunk in chunks:
            if chunk.id not in known and globs.is_inside(chunk, state.query.filters):
                yield chunk


def is_source(chunk: Chunk) -> bool:
    """Return whether a chunk is neither of a test nor of a document."""
    return chunk.category not in (Category.TEST, Category.DOCS)
