"""Implement the stages: the functions that the rows of `codelode.stages.STAGES` name.

A function gets a run, some of its files with the outputs of earlier stages (parts), and the
services of the process. It returns one outcome per file, in order, and never accesses the ledger or
a queue: `workers.delivery` claims the files, loads and stores the parts, and acts on the outcomes.
It raises Unavailable if a server is unreachable; any other error fails the files.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

import structlog

from codelode.errors import CodelodeError, Unavailable
from codelode.model import (
    NO_SUMMARIES,
    BlobId,
    FileRecord,
    FileState,
    ParsedFile,
    RepositoryName,
    Run,
    Summaries,
)
from codelode.vectors import Vectors
from workers import derivations, layouts, wire
from workers.embed import embed, known_vectors
from workers.enrich import Enriched, unasked
from workers.parse import guard, imports, parse
from workers.services import Index, Services
from workers.store import StoredFile, write

Parts: TypeAlias = Mapping[str, bytes]

#: Parts of the stage outputs.
PARSED, SUMMARIES, VECTORS = "parsed", "summaries", "vectors"

#: Time after which a call of the store stage resolves no more imports, seconds of processor time,
#: because files of other runs wait meanwhile. Batches of real repositories take a second.
LINKING_S = 10.0

log = structlog.get_logger("workers")


@dataclass(frozen=True, slots=True)
class File:
    """A file of a run at a stage; if `blob` is empty, the file is removed from the index."""

    repository: RepositoryName
    path: str
    blob: BlobId
    parts: Parts = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Onward:
    """The file goes on to the next stage, with these parts added."""

    parts: Parts = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Again:
    """The file repeats the stage, because the time limit of a call was reached."""

    parts: Parts = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Afresh:
    """The file starts over at the first stage, because a part of it cannot be used."""


@dataclass(frozen=True, slots=True)
class LeftOut:
    """The file is recorded with this state instead of being indexed."""

    state: FileState
    reason: str


@dataclass(frozen=True, slots=True)
class Stored:
    """The file was written to the stores, or removed from them, and gets this record."""

    record: FileRecord


Outcome: TypeAlias = Onward | Again | Afresh | LeftOut | Stored


def parse_file(run: Run, files: Sequence[File], services: Services) -> list[Outcome]:
    """Parse each file, or return the reason to leave it out."""
    return [_parsed(run, file, services) for file in files]


def parsed_before(run: Run, files: Sequence[File], services: Services) -> list[Parts | None]:
    """Look up cached parse results of the same content; None if there is none."""
    try:
        version = services.parse_version(run)
    except CodelodeError:  # queries are in the mirror, which only the parse worker may have
        return [None] * len(files)
    keys = [derivations.of_parse(file.blob, file.path, version=version) for file in files]
    found = services.derivations.get(keys)
    return [{PARSED: data} if data is not None else None for data in found]


def _parsed(run: Run, file: File, services: Services) -> Outcome:
    key = derivations.of_parse(file.blob, file.path, version=services.parse_version(run))
    (known,) = services.derivations.get([key])
    if known is None:
        data = services.blobs.read(file.repository, file.blob)
        most = services.settings.max_file_bytes
        reason = guard(data, path=file.path, max_bytes=most)
        if reason:
            return LeftOut(FileState.SKIPPED, reason)
        parsed = parse(data, path=file.path, own=services.queries(run))
        known = wire.dump_parsed(parsed, max_file_bytes=most)
        services.derivations.put({key: known})
    return Onward({PARSED: known})


def enrich_files(run: Run, files: Sequence[File], services: Services) -> list[Outcome]:
    """Summarise parsed files and their chunks, those of highest priority first."""
    made = _summaries(run, [(file.path, _load_parsed(file)) for file in files], services)
    parts = [{SUMMARIES: wire.dump_summaries(one.summaries)} for one in made]
    return [
        Onward(part) if one.is_finished else Again(part)
        for one, part in zip(made, parts, strict=True)
    ]


def _summaries(
    run: Run, files: Sequence[tuple[str, ParsedFile]], services: Services
) -> Sequence[Enriched]:
    """Return the summaries; if the enricher fails, none, so that indexing goes on."""
    if services.enricher is None:
        return [Enriched(NO_SUMMARIES)] * len(files)
    importers = services.importers(run.repository, run.resolved, [path for path, _ in files])
    try:
        return services.enricher(run.id, files, importers=importers)
    except Unavailable:
        raise
    except Exception:
        log.exception("enrich_failed", run=run.id)
        return [unasked(path, file) for path, file in files]


def embed_files(run: Run, files: Sequence[File], services: Services) -> list[Outcome]:
    """Embed parsed files and their summaries in one call of the model."""
    index = services.index
    vectors = embed(
        [(file.path, _load_parsed(file), _load_summaries(file)) for file in files],
        embedder=index.embedder,
        known=services.derivations,
    )
    return [Onward(_vectors_part(rows, index)) for rows in vectors]


def embedded_before(run: Run, files: Sequence[File], services: Services) -> list[Parts | None]:
    """Look up the cached vectors of files; None unless every chunk of the file has one."""
    try:
        index = services.index
        vectors = known_vectors(
            [(file.path, _load_parsed(file)) for file in files],
            embedder=index.embedder,
            known=services.derivations,
        )
        return [None if rows is None else _vectors_part(rows, index) for rows in vectors]
    except CodelodeError:  # the embed stage meets the same error and reports it
        return [None] * len(files)


def store_files(run: Run, files: Sequence[File], services: Services) -> list[Outcome]:
    """Write everything about the files into the stores, in one commit of the chunk store.

    If the vectors of a file are of another embedder than the index, the index was replaced since
    and the file starts over. Raises Unavailable if such vectors were made for this same index,
    because then the workers have different models.
    """
    ends_at = time.thread_time() + LINKING_S
    index = services.index
    vectors = {file.path: _load_vectors(file, index, services) for file in files if file.blob}
    stored = [
        _stored_file(run, file, vectors.get(file.path), services, ends_at)
        for file in files
        if not file.blob or vectors[file.path] is not None
    ]
    records = write(
        stored,
        store=index.store,
        graph=services.graph,
        symbols=services.symbols,
        references=services.references,
    )
    counted = {record.path: Stored(record) for record in records}
    return [counted.get(file.path, Afresh()) for file in files]


def _stored_file(
    run: Run, file: File, vectors: Vectors | None, services: Services, ends_at: float
) -> StoredFile:
    """Return what to store of a file. Imports are resolved until `ends_at`, in thread time."""
    removed = StoredFile(file.repository, file.path, file.blob, services.refs(run))
    if vectors is None:
        return removed
    assert run.revision, "a run with files has a revision"
    parsed = _load_parsed(file)
    layout = layouts.of_commit(run.repository, run.revision, services)
    left_s = ends_at - time.thread_time()
    links = imports.links(file.path, parsed, layout=layout, time_s=left_s)
    return replace(
        removed,
        groups=services.groups(run),
        parsed=parsed,
        vectors=vectors,
        edges=links.edges,
        names=links.names,
        summaries=_load_summaries(file),
    )


def _load_parsed(file: File) -> ParsedFile:
    return wire.load_parsed(file.parts[PARSED])


def _load_summaries(file: File) -> Summaries:
    data = file.parts.get(SUMMARIES)
    return wire.load_summaries(data) if data is not None else NO_SUMMARIES


def _vectors_part(rows: Vectors, index: Index) -> Parts:
    origin = wire.Origin(index.embedder.identity, made_for=index.published.name)
    return {VECTORS: wire.dump_vectors_of(origin, rows)}


def _load_vectors(file: File, index: Index, services: Services) -> Vectors | None:
    """Return the vectors, or None if they are of another embedder than the index."""
    origin, rows = wire.split_vectors(file.parts[VECTORS])
    if origin.embedder == index.embedder.identity:
        return wire.load_vectors(rows, dim=index.embedder.dim)
    if origin.made_for == index.published.name:
        services.invalidate(index)
        raise Unavailable(
            "the embed workers use another embedding model than the store worker, which uses "
            f"{index.embedder.identity}: restart all workers, then run `codelode retry`"
        )
    return None
