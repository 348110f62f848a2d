"""Arrange the status of the index for the repositories page: one row for each ref and run."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime

from codelode.disk_use import readable
from codelode.model import LanguageHealth, Run, by_language
from codelode.text.runs import run_note, run_state
from codelode.text.servers import server_state, summary
from gateway.api.web.links import link
from gateway.service.dependencies import UNKNOWN
from gateway.service.results import RefStatus, Repository, Status

#: Number of characters of a commit that are shown.
COMMIT_CHARS = 12


@dataclass(frozen=True, slots=True)
class RefRow:
    """The state of a ref; a repository without refs has one row with an empty ref."""

    repository: Repository
    ref: str
    commit: str  # empty: none is indexed
    wanted: str  # the commit that a run is indexing; empty: there is no such run
    files: int
    chunks: int
    failed: int
    skipped: int
    indexed_at: str
    code_url: str  # empty: nothing is indexed
    graph_url: str
    failures_url: str


@dataclass(frozen=True, slots=True)
class RunRow:
    """The progress of a run."""

    run: Run
    state: str
    through: int  # files that are done or have failed
    started_at: str
    note: str
    events_url: str  # empty: the run is over


@dataclass(frozen=True, slots=True)
class ServerRow:
    """The store or a model, and whether it answers."""

    role: str
    name: str
    state: str
    problem: str


@dataclass(frozen=True, slots=True)
class QueueRow:
    """The jobs that wait at a stage."""

    name: str
    messages: int
    workers: str


@dataclass(frozen=True, slots=True)
class DiskRow:
    """A part of the cluster that takes space."""

    part: str
    size: str
    measured_at: str


@dataclass(frozen=True, slots=True)
class Overview:
    """Everything that the page shows of a status."""

    status: Status
    summary: str
    servers: tuple[ServerRow, ...]
    refs: tuple[RefRow, ...]
    runs: tuple[RunRow, ...]
    health: tuple[LanguageHealth, ...]
    queues: tuple[QueueRow, ...]
    disk: tuple[DiskRow, ...]
    has_failed: bool

    @property
    def live(self) -> int:
        return sum(bool(one.events_url) for one in self.runs)


def overview(status: Status) -> Overview:
    refs = tuple(row for one in status.repositories for row in _refs(one, status))
    parts = (part for one in status.repositories for ref in one.refs[:1] for part in ref.health)
    return Overview(
        status=status,
        summary=summary(status.version, status.chunks, status.store, status.embedder),
        servers=tuple(
            ServerRow(one.role, one.name, server_state(one.problem), one.problem)
            for one in status.servers
        ),
        refs=refs,
        runs=tuple(map(_run, status.runs)),
        health=tuple(by_language(parts)),
        queues=tuple(
            QueueRow(one.name, one.messages, "?" if one.workers == UNKNOWN else str(one.workers))
            for one in status.queues
        ),
        disk=tuple(
            DiskRow(one.part, readable(one.size_bytes), moment(one.measured_at))
            for one in status.disk
        ),
        has_failed=any(row.failed for row in refs),
    )


def _refs(one: Repository, status: Status) -> Iterator[RefRow]:
    wanted: dict[str, str] = {
        run.resolved or run.ref: run.revision[:COMMIT_CHARS]
        for run in reversed(status.runs)
        if run.repository == one.name and run.revision and not run.state.is_over
    }
    for ref in one.refs:
        yield _ref(one, ref, wanted.get(ref.ref, ""))
    if not one.refs:
        yield RefRow(one, "", "", "", 0, 0, 0, 0, "", "", "", "")


def _ref(one: Repository, ref: RefStatus, wanted: str) -> RefRow:
    commit = ref.revision[:COMMIT_CHARS]
    at = "" if ref.ref == one.default_ref else ref.ref
    return RefRow(
        repository=one,
        ref=ref.ref,
        commit=commit,
        wanted=wanted if wanted != commit else "",
        files=ref.files,
        chunks=ref.chunks,
        failed=ref.failed,
        skipped=ref.skipped,
        indexed_at=moment(ref.indexed_at),
        code_url=link("/code", repository=one.name, ref=at) if commit else "",
        graph_url=link("/graph", repository=one.name, ref=at),
        failures_url=link("/repositories/failures", repository=one.name),
    )


def _run(run: Run) -> RunRow:
    return RunRow(
        run,
        run_state(run),
        min(run.done + run.failed, run.total),
        moment(run.started_at),
        run_note(run),
        "" if run.state.is_over else f"/api/v1/runs/{run.id}/events",
    )


def moment(seconds: float) -> str:
    """Return date and time in UTC, which the page's script shows as local time; "" for never."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%SZ") if seconds else ""
