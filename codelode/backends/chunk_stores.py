"""The common part of all chunk stores: checks of a batch before a write, and chunks by file."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

import numpy as np

from codelode.chunk_map import ChunkVector
from codelode.errors import SchemaMismatch
from codelode.file_text import in_file_order
from codelode.model import Chunk, ChunkId, FileChunks, FileKey
from codelode.vectors import Vector


def require_distinct(files: Sequence[FileChunks]) -> None:
    """Raise ValueError if a file occurs twice: it is unknown which one is right."""
    keys = Counter((file.repository, file.path) for file in files)
    for (repository, path), times in keys.items():
        if times > 1:
            raise ValueError(f"{repository}:{path} occurs {times} times in one call")


def require_vectors(files: Sequence[FileChunks], *, dim: int | None) -> None:
    """Raise ValueError unless each chunk has a finite vector, with `dim` dimensions if given."""
    for file in files:
        shape = (len(file.chunks), dim or file.vectors.shape[-1])
        if file.chunks and file.vectors.shape != shape:
            raise ValueError(f"{file.path}: vectors are {file.vectors.shape}, expected {shape}")
        if not np.isfinite(file.vectors).all():
            raise ValueError(f"{file.path}: a vector is not finite")


def require_dim(vector: Vector | None, dim: int, *, index: object) -> None:
    """Raise SchemaMismatch if the query's vector does not have the dimensions of the index."""
    if vector is not None and vector.shape != (dim,):
        raise SchemaMismatch(
            f"the query's vector is {vector.shape}, {index} has {dim} dimensions: "
            "set CODELODE_EMBEDDER to the one that indexed"
        )


def chunk_vector(of: Chunk, vector: Vector) -> ChunkVector:
    """Return the chunk as a map needs it."""
    lines = (of.start_line, of.end_line)
    return ChunkVector(
        of.id, of.repository, of.path, *lines, of.language, of.category.value, vector
    )


def by_file(keys: Iterable[FileKey], chunks: Iterable[Chunk]) -> dict[FileKey, tuple[Chunk, ...]]:
    """Return the chunks of each file in file order; chunks of other files are left out."""
    found: dict[FileKey, list[Chunk]] = {key: [] for key in keys}
    for chunk in chunks:
        if (key := (chunk.repository, chunk.path)) in found:
            found[key].append(chunk)
    return {key: tuple(sorted(some, key=in_file_order)) for key, some in found.items()}


def by_first(files: Iterable[FileChunks]) -> dict[ChunkId, Sequence[Chunk]]:
    """Return the chunks of each file in file order, by the id of the first one.

    Exact search finds a file by the trigrams that its store keeps with its first chunk. The id of
    that chunk depends on the whole text, so it never stands for a different text.
    """
    ordered = (sorted(file.chunks, key=in_file_order) for file in files)
    return {chunks[0].id: chunks for chunks in ordered if chunks}
