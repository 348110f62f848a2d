"""Retrieve chunks that are similar to a chunk or to a snippet, by vectors alone.

A chunk is embedded as in the index, as a document with its path and header. Keywords are not used:
they would find code with the same variable names.
"""

from __future__ import annotations

import asyncio

from codelode.display import quoted
from codelode.errors import NotFound
from codelode.model import (
    Candidate,
    Chunk,
    HybridQuery,
    RefName,
    RepositoryName,
    embedding_text,
)
from gateway.state import Backends, SearchQuery


async def chunk_at(
    repository: RepositoryName, path: str, line: int, *, ref: RefName, backends: Backends
) -> Chunk:
    """Return the chunk at the line, or the next one if the line is in none. Raises NotFound."""
    file = (repository, path)
    chunks = (await backends.chunks.files([file], ref))[file]
    if not chunks:
        raise NotFound(f"{repository} holds no indexed file {path!r} at this ref")
    found = next((chunk for chunk in chunks if line <= chunk.end_line), None)
    if found is None:
        raise NotFound(f"{quoted(path)} ends at line {chunks[-1].end_line}, before line {line}")
    return found


async def similar(
    source: Chunk | str, query: SearchQuery, backends: Backends
) -> tuple[Candidate, ...]:
    """Return the chunks most similar to the source, without the source itself, best first.

    Raises Unavailable if the embedder does not answer.
    """
    text = source if isinstance(source, str) else embedding_text(source)
    vectors = await asyncio.to_thread(backends.embedder.embed_documents, [text])
    own = None if isinstance(source, str) else source.id
    asked = HybridQuery("", vectors[0], query.filters, query.top_k + 1, visible=query.visible)
    found = [one for one in await backends.chunks.hybrid(asked) if one.chunk.id != own]
    found.sort(key=lambda one: (-(one.similarity or 0.0), one.chunk.path, one.chunk.start_line))
    return tuple(found[: query.top_k])
