"""Write a batch of files into every store.

The chunk index is written last, so that graph and symbols are complete when searches see its files.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from codelode.counts import counted
from codelode.covers import Groups
from codelode.model import (
    DEFAULT_REF,
    NO_SUMMARIES,
    BlobId,
    Edge,
    FileChunks,
    FileHealth,
    FileRecord,
    FileState,
    ParsedFile,
    RefName,
    RepositoryName,
    Summaries,
    Symbol,
    locate,
)
from codelode.ports import ChunkStore, DependencyGraph, ReferenceIndex, SymbolTable
from codelode.vectors import Vectors

#: Raise it whenever graph, symbol table, or reference index store something else for the same parse
#: result, or in another format: the next run of each ref then stores all of its files again.
TABLES_VERSION = "2"


@dataclass(frozen=True, slots=True)
class StoredFile:
    """One file to store. `parsed` is None if the file left the ref."""

    repository: RepositoryName
    path: str
    blob: BlobId
    refs: tuple[RefName, ...]
    parsed: ParsedFile | None = None
    vectors: Vectors | None = None  # one row per chunk
    edges: tuple[Edge, ...] = ()
    names: tuple[str, ...] = ()  # of the reference index
    summaries: Summaries = NO_SUMMARIES
    groups: Groups = ()  # of the repository

    @property
    def symbols(self) -> tuple[Symbol, ...]:
        return self.parsed.symbols if self.parsed else ()


def refs_of(ref: RefName, *, default: str) -> tuple[RefName, ...]:
    """Return the refs that mark the chunks of a ref: also DEFAULT_REF if it is the default ref."""
    return tuple({ref, DEFAULT_REF} if ref == default else {ref})


def write(
    files: Sequence[StoredFile],
    *,
    store: ChunkStore,
    graph: DependencyGraph,
    symbols: SymbolTable,
    references: ReferenceIndex,
) -> tuple[FileRecord, ...]:
    """Store the files and return their records, in order."""
    for (repository, refs), group in _by_refs(files):
        graph.replace(repository, refs, {file.path: file.edges for file in group})
        symbols.replace(repository, refs, {file.path: file.symbols for file in group})
        references.replace(repository, refs, {file.path: file.names for file in group})
    placed = [file_chunks(file) for file in files]
    store.replace(placed)
    return tuple(_record(file, len(at.chunks)) for file, at in zip(files, placed, strict=True))


def _by_refs(
    files: Sequence[StoredFile],
) -> Iterable[tuple[tuple[RepositoryName, tuple[RefName, ...]], list[StoredFile]]]:
    groups: dict[tuple[RepositoryName, tuple[RefName, ...]], list[StoredFile]] = defaultdict(list)
    for file in files:
        groups[file.repository, file.refs].append(file)
    return groups.items()


def file_chunks(file: StoredFile) -> FileChunks:
    """Return the chunks of the file for the chunk store; a removed file has none."""
    if file.parsed is None or file.vectors is None:
        return FileChunks(file.repository, file.path, file.refs)
    chunks = locate(
        file.parsed,
        repository=file.repository,
        path=file.path,
        refs=file.refs,
        summaries=file.summaries,
    )
    return FileChunks(file.repository, file.path, file.refs, chunks, file.vectors, file.groups)


def _record(file: StoredFile, chunks: int) -> FileRecord:
    if file.parsed is None:
        return FileRecord(file.path, BlobId(""), FileState.PENDING)
    return FileRecord(
        path=file.path,
        blob=file.blob,
        state=FileState.INDEXED,
        reason=_remark(file.parsed.health),
        language=file.parsed.language,
        health=file.parsed.health.status,
        chunks=chunks,
        summaries=file.summaries.made,
        summaries_missing=file.summaries.missing,
    )


def _remark(health: FileHealth) -> str:
    """Return what is wrong with a file that is indexed nevertheless; empty if nothing is."""
    errors = counted(health.errors, "syntax error") if health.errors else ""
    return "; ".join(part for part in (errors, health.detail) if part)
