"""Plan which rows a replacement of files adds, changes, and deletes, before anything is written."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from codelode.backends.local.tables import digest
from codelode.model import Chunk, ChunkId, FileChunks, RefName, RepositoryName
from codelode.vectors import Vector


@dataclass(frozen=True, slots=True)
class Stored:
    """A stored chunk, without its content."""

    row: int
    repository: RepositoryName
    path: str
    refs: frozenset[RefName]
    digest: bytes


@dataclass(frozen=True, slots=True)
class Change:
    """The writes of one `replace` call."""

    chunks: list[Chunk] = field(default_factory=list)  # new rows, under the refs they will have
    vectors: list[Vector] = field(default_factory=list)
    digests: list[bytes] = field(default_factory=list)
    refs: dict[int, frozenset[RefName]] = field(default_factory=dict)  # new refs of stored rows
    deleted: list[int] = field(default_factory=list)

    def __bool__(self) -> bool:
        return bool(self.chunks or self.refs or self.deleted)

    def add(self, chunk: Chunk, vector: Vector, digest: bytes) -> None:
        self.chunks.append(chunk)
        self.vectors.append(vector)
        self.digests.append(digest)


def plan(files: Sequence[FileChunks], stored: Mapping[ChunkId, Stored]) -> Change:
    """Return the change that turns `stored`, the chunks of these files at all refs, into them."""
    change = Change()
    given: set[ChunkId] = set()
    for file in files:
        given.update(chunk.id for chunk in file.chunks)
        _plan_given(change, file, stored)
    refs = {(file.repository, file.path): frozenset(file.refs) for file in files}
    for id, chunk in stored.items():
        if id not in given:
            _plan_absent(change, chunk, refs[chunk.repository, chunk.path])
    return change


def _plan_given(change: Change, file: FileChunks, stored: Mapping[ChunkId, Stored]) -> None:
    own = tuple(sorted(frozenset(file.refs)))
    for chunk, vector in zip(file.chunks, file.vectors, strict=True):
        before, made = stored.get(chunk.id), digest(chunk, vector)
        if before is None:
            change.add(chunk if chunk.refs == own else chunk._replace(refs=own), vector, made)
            continue
        refs = before.refs.union(own)
        if made != before.digest:
            change.add(chunk._replace(refs=tuple(sorted(refs))), vector, made)
            change.deleted.append(before.row)
        elif refs != before.refs:
            change.refs[before.row] = refs


def _plan_absent(change: Change, chunk: Stored, refs: frozenset[RefName]) -> None:
    remaining = chunk.refs - refs
    if not remaining:
        change.deleted.append(chunk.row)
    elif remaining != chunk.refs:
        change.refs[chunk.row] = remaining
