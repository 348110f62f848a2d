"""What replacing files means for the stored chunks, decided before anything is written."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from codelode.backends.lance.table import digest
from codelode.model import Chunk, ChunkId, FileChunks, RefName, RepositoryName, Vector, Vectors


@dataclass(frozen=True, slots=True)
class Stored:
    """What is known of a stored chunk without reading it whole."""

    repository: RepositoryName
    path: str
    refs: frozenset[RefName]
    digest: int


@dataclass(frozen=True, slots=True)
class Rows:
    """Chunks to write, under the refs they will have."""

    chunks: list[Chunk] = field(default_factory=list)
    vectors: list[Vector] = field(default_factory=list)
    digests: list[int] = field(default_factory=list)

    def append(self, chunk: Chunk, vector: Vector, digest: int) -> None:
        self.chunks.append(chunk)
        self.vectors.append(vector)
        self.digests.append(digest)

    def matrix(self, dim: int) -> Vectors:
        return np.stack(self.vectors) if self.vectors else np.zeros((0, dim), np.float32)


@dataclass(frozen=True, slots=True)
class Change:
    """What one `replace` call writes."""

    fresh: Rows = field(default_factory=Rows)
    rewritten: Rows = field(default_factory=Rows)  # stored, but under other refs or otherwise made
    reduced: dict[ChunkId, list[RefName]] = field(default_factory=dict)  # stay, under fewer refs
    leaving: list[ChunkId] = field(default_factory=list)

    @property
    def keeps(self) -> bool:
        """Whether stored chunks change and stay."""
        return bool(self.rewritten.chunks or self.reduced)


def plan(files: Sequence[FileChunks], stored: Mapping[ChunkId, Stored]) -> Change:
    """The change from `stored`, all chunks of these files at any ref, to what the files say."""
    change = Change()
    given: set[ChunkId] = set()
    for file in files:
        given.update(chunk.id for chunk in file.chunks)
        _plan_given(change, file, stored)
    refs = {(file.repository, file.path): frozenset(file.refs) for file in files}
    for id, chunk in stored.items():
        if id not in given:
            _plan_absent(change, id, chunk, refs[chunk.repository, chunk.path])
    return change


def _plan_given(change: Change, file: FileChunks, stored: Mapping[ChunkId, Stored]) -> None:
    for chunk, vector in zip(file.chunks, file.vectors, strict=True):
        before, made = stored.get(chunk.id), digest(chunk, vector)
        refs = frozenset(file.refs).union(before.refs if before else ())
        placed = replace(chunk, refs=tuple(sorted(refs)))
        if before is None:
            change.fresh.append(placed, vector, made)
        elif (refs, made) != (before.refs, before.digest):
            change.rewritten.append(placed, vector, made)


def _plan_absent(change: Change, id: ChunkId, chunk: Stored, refs: frozenset[RefName]) -> None:
    remaining = chunk.refs - refs
    if remaining and remaining != chunk.refs:
        change.reduced[id] = sorted(remaining)
    elif not remaining:
        change.leaving.append(id)
