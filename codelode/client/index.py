"""Repositories, runs, files and the status, read from the messages of IndexService."""

from __future__ import annotations

from dataclasses import dataclass

from codelode.access import Label
from codelode.client.reading import value, values
from codelode.disk_use import DiskPart
from codelode.model import (
    FilePatterns,
    RefStatus,
    Repository,
    Revision,
    Run,
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
    #: The beginning of the URLs of its repositories, without the scheme; for a folder, its path.
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
    return value(Run, message.run)


def runs_of(
    message: index_pb2.RetryFailuresResponse | index_pb2.EnrichRepositoryResponse,
) -> tuple[Run, ...]:
    return values(Run, message.runs)


def indexed(message: index_pb2.Repository) -> IndexedRepository:
    patterns = FilePatterns(tuple(message.include), tuple(message.exclude))
    label = Label(message.label) if message.label else None
    return IndexedRepository(
        repository=value(Repository, message, patterns=patterns, label=label),
        refs=tuple(map(_ref, message.refs)),
    )


def _ref(message: index_pb2.RefStatus) -> RefStatus:
    indexed = Revision(message.revision) if message.revision else None
    return value(RefStatus, message, indexed=indexed, fingerprint="")  # it is not part of the API


def status(message: index_pb2.GetStatusResponse) -> Status:
    return value(Status, message, repositories=tuple(map(indexed, message.repositories)))


def failures(message: index_pb2.ListFailuresResponse) -> tuple[tuple[FileFailure, ...], str]:
    """Return one page and the token of the next one; empty: this is the last page."""
    return values(FileFailure, message.failures), message.next_page_token
