"""Repositories, runs and files as the client shows them, from the messages of IndexService."""

from __future__ import annotations

from dataclasses import dataclass

from codelode.model import (
    FilePatterns,
    LanguageHealth,
    RefName,
    RefStatus,
    Repository,
    RepositoryName,
    Revision,
    Run,
    RunId,
    RunState,
)
from codelode.v1 import index_pb2


@dataclass(frozen=True, slots=True)
class IndexedRepository:
    """A registered repository and what of it is indexed, default ref first."""

    repository: Repository
    refs: tuple[RefStatus, ...]


@dataclass(frozen=True, slots=True)
class Queue:
    name: str
    messages: int
    workers: int


@dataclass(frozen=True, slots=True)
class Status:
    """Repositories, recent runs (newest first), queues and workers in one picture."""

    version: str
    repositories: tuple[IndexedRepository, ...]
    runs: tuple[Run, ...]
    chunks: int
    queues: tuple[Queue, ...]
    embedder: str
    store: str


@dataclass(frozen=True, slots=True)
class FileFailure:
    """A file that is not in the index, and why."""

    repository: str
    ref: str
    path: str
    state: str  # failed or skipped; of an indexed file its health
    reason: str


def run(message: index_pb2.Run) -> Run:
    return Run(
        id=RunId(message.id),
        repository=RepositoryName(message.repository),
        ref=RefName(message.ref),
        state=RunState(message.state),
        revision=_revision(message.revision),
        total=message.total,
        done=message.done,
        failed=message.failed,
        skipped=message.skipped,
        error=message.error,
        waits_for=message.waits_for,
        summaries=message.summaries,
        summaries_missing=message.summaries_missing,
        started_at=message.started_at,
        finished_at=message.finished_at,
    )


def _revision(text: str) -> Revision | None:
    return Revision(text) if text else None


def indexed(message: index_pb2.Repository) -> IndexedRepository:
    return IndexedRepository(
        repository=Repository(
            name=RepositoryName(message.name),
            url=message.url,
            default_ref=RefName(message.default_ref),
            patterns=FilePatterns(tuple(message.include), tuple(message.exclude)),
        ),
        refs=tuple(map(_ref, message.refs)),
    )


def _ref(message: index_pb2.RefStatus) -> RefStatus:
    return RefStatus(
        ref=RefName(message.ref),
        indexed=_revision(message.revision),
        fingerprint="",  # the gateway keeps it to itself
        files=message.files,
        skipped=message.skipped,
        failed=message.failed,
        chunks=message.chunks,
        indexed_at=message.indexed_at,
        health=tuple(map(_language, message.health)),
    )


def _language(message: index_pb2.LanguageHealth) -> LanguageHealth:
    return LanguageHealth(
        language=message.language,
        ok=message.ok,
        partial=message.partial,
        error=message.error,
        unsupported=message.unsupported,
    )


def status(message: index_pb2.GetStatusResponse) -> Status:
    return Status(
        version=message.version,
        repositories=tuple(map(indexed, message.repositories)),
        runs=tuple(map(run, message.runs)),
        chunks=message.chunks,
        queues=tuple(Queue(q.name, q.messages, q.workers) for q in message.queues),
        embedder=message.embedder,
        store=message.store,
    )


def failure(message: index_pb2.FileFailure) -> FileFailure:
    return FileFailure(
        repository=message.repository,
        ref=message.ref,
        path=message.path,
        state=message.state,
        reason=message.reason,
    )
