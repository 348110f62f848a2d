"""Repositories, runs, files and the status, read from the messages of IndexService."""

from __future__ import annotations

from dataclasses import dataclass, fields

from codelode.access import Label
from codelode.disk_use import DiskPart
from codelode.estimates import Estimate, LanguageEstimate, SkippedFiles
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
    """A registered repository and its indexed refs, default ref first."""

    repository: Repository
    refs: tuple[RefStatus, ...]


@dataclass(frozen=True, slots=True)
class Queue:
    name: str
    messages: int
    workers: int


@dataclass(frozen=True, slots=True)
class Server:
    """The store or a model, and whether it answers."""

    role: str  # store, embedder, or language model
    name: str  # empty: the model has not reported it
    problem: str  # why it does not answer; empty: it answers


@dataclass(frozen=True, slots=True)
class Status:
    """The repositories, recent runs (newest first), queues and workers of a cluster."""

    version: str
    repositories: tuple[IndexedRepository, ...]
    runs: tuple[Run, ...]
    chunks: int  # -1: the store does not answer
    queues: tuple[Queue, ...]
    embedder: str
    store: str
    problems: tuple[str, ...]  # of the gateway's configuration, for admins
    disk: tuple[DiskPart, ...] = ()  # for admins
    servers: tuple[Server, ...] = ()  # the store, the embedder, and the language model


@dataclass(frozen=True, slots=True)
class SourceChange:
    """The action of a listing, or of a plan of one, on a repository, and its reason."""

    action: str
    repository: str
    reason: str


@dataclass(frozen=True, slots=True)
class Source:
    """A connection whose repositories are followed. Times are seconds since the epoch; 0: never."""

    connection: str
    kind: str
    #: What the URLs of its repositories begin with, without the scheme; for a folder, its path.
    prefix: str
    every_s: int  # the present interval of listings
    synced_at: float  # when the last successful listing began
    attempted_at: float
    planned_at: float  # when the last plan was made, which changed nothing
    listed: int  # number of repositories that the host lists
    repositories: int  # number of repositories that are followed
    requests: int  # of the last attempt
    error: str  # of the last attempt
    waiting: str  # why repositories that would be removed wait for a confirmation
    changes: tuple[SourceChange, ...]  # of the last attempt or plan
    is_due: bool  # whether a listing was requested, or is due, and is not done yet
    requests_allowed: int  # in a period, as the host last reported; 0: it does not say
    requests_left: int
    resets_at: float  # when the next period begins; 0: the host does not say


@dataclass(frozen=True, slots=True)
class Sources:
    """The connections whose repositories are followed, by name."""

    sources: tuple[Source, ...]
    problem: str  # why the sources file cannot be used; empty: it can


@dataclass(frozen=True, slots=True)
class FileFailure:
    """A file that is not in the index, or was not parsed completely, and why."""

    repository: str
    ref: str
    path: str
    state: str  # failed or skipped; of an indexed file, its health
    reason: str


def run_of(
    message: index_pb2.StartRunResponse
    | index_pb2.WatchRunResponse
    | index_pb2.CancelRunResponse
    | index_pb2.SetDefaultRefResponse,
) -> Run:
    return run(message.run)


def runs_of(
    message: index_pb2.RetryFailuresResponse | index_pb2.EnrichRepositoryResponse,
) -> tuple[Run, ...]:
    return tuple(map(run, message.runs))


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
        notices=tuple(message.notices),
        summaries=message.summaries,
        summaries_missing=message.summaries_missing,
        started_at=message.started_at,
        finished_at=message.finished_at,
        estimate=_estimate(message.estimate) if message.HasField("estimate") else None,
    )


def _estimate(message: index_pb2.Estimate) -> Estimate:
    languages = (
        LanguageEstimate(one.language, one.files, one.size_bytes, one.chunks, one.tokens)
        for one in message.languages
    )
    return Estimate(
        languages=tuple(languages),
        skipped=tuple(SkippedFiles(one.reason, one.files) for one in message.skipped),
        removals=message.removals,
        summaries=message.summaries,
        summary_tokens=message.summary_tokens,
        sampled=message.sampled,
        seconds=message.seconds,
        pull_s=message.pull_s,
    )


def _revision(text: str) -> Revision | None:
    return Revision(text) if text else None


def repositories(message: index_pb2.ListRepositoriesResponse) -> tuple[IndexedRepository, ...]:
    return tuple(map(indexed, message.repositories))


def indexed(message: index_pb2.Repository) -> IndexedRepository:
    return IndexedRepository(
        repository=Repository(
            name=RepositoryName(message.name),
            url=message.url,
            default_ref=RefName(message.default_ref),
            is_pinned=message.is_pinned,
            follows_default=message.follows_default,
            patterns=FilePatterns(tuple(message.include), tuple(message.exclude)),
            label=Label(message.label) if message.label else None,
        ),
        refs=tuple(map(_ref, message.refs)),
    )


def _ref(message: index_pb2.RefStatus) -> RefStatus:
    return RefStatus(
        ref=RefName(message.ref),
        indexed=_revision(message.revision),
        fingerprint="",  # not part of the API
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
        problems=tuple(message.problems),
        disk=tuple(DiskPart(one.part, one.size_bytes, one.measured_at) for one in message.disk),
        servers=tuple(Server(one.role, one.name, one.problem) for one in message.servers),
    )


def failures(message: index_pb2.ListFailuresResponse) -> tuple[list[FileFailure], str]:
    """Return one page and the token of the next one; empty: this is the last page."""
    return list(map(failure, message.failures)), message.next_page_token


def failure(message: index_pb2.FileFailure) -> FileFailure:
    return FileFailure(
        repository=message.repository,
        ref=message.ref,
        path=message.path,
        state=message.state,
        reason=message.reason,
    )


def sources(message: index_pb2.ListSourcesResponse) -> Sources:
    return Sources(tuple(map(_source, message.sources)), message.problem)


def _source(message: index_pb2.Source) -> Source:
    names = (one.name for one in fields(Source) if one.name != "changes")
    changes = (SourceChange(one.action, one.repository, one.reason) for one in message.changes)
    return Source(**{name: getattr(message, name) for name in names}, changes=tuple(changes))
