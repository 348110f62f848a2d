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
from codelode.reports import FileFailure, Queue, Server
from codelode.v1 import index_pb2


@dataclass(frozen=True, slots=True)
class IndexedRepository:
    """A registered repository and its indexed refs, default ref first."""

    repository: Repository
    refs: tuple[RefStatus, ...]


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
