"""Model → proto. Every field by name, nothing decided here."""

from __future__ import annotations

from collections.abc import Iterable

from codelode import model
from codelode.v1 import index_pb2, search_pb2
from gateway.api.jobs import QueueDepth
from gateway.pipeline import Timing
from gateway.state import SearchState


def search_response(
    state: SearchState, timings: Iterable[Timing], *, explain: bool
) -> search_pb2.SearchResponse:
    """The answer; `took_ms` and `cached` are the caller's to fill."""
    return search_pb2.SearchResponse(
        hits=[hit(item, explain=explain) for item in state.hits],
        stages=[stage_timing(timing) for timing in timings] if explain else [],
        notices=state.notices,
        query_kind=state.analysis.kind,
    )


def hit(item: model.Hit, *, explain: bool) -> search_pb2.Hit:
    chunk = item.chunk
    traces = item.explain if explain else ()
    return search_pb2.Hit(
        repository=chunk.repository,
        path=chunk.path,
        start_line=chunk.start_line,
        end_line=chunk.end_line,
        language=chunk.language,
        symbol=chunk.symbol,
        kind=chunk.kind,
        category=chunk.category,
        score=item.score,
        match=item.match,
        content=chunk.content,
        header=chunk.header,
        explain=[search_pb2.Trace(name=name, value=value) for name, value in traces],
    )


def stage_timing(timing: Timing) -> search_pb2.StageTiming:
    return search_pb2.StageTiming(stage=timing.stage, took_ms=timing.took_ms)


def run(item: model.Run) -> index_pb2.Run:
    return index_pb2.Run(
        id=item.id,
        repository=item.repository,
        ref=item.ref,
        state=item.state,
        revision=item.revision or "",
        total=item.total,
        done=item.done,
        failed=item.failed,
        skipped=item.skipped,
        error=item.error,
        started_at=item.started_at,
        finished_at=item.finished_at,
    )


def repository(item: model.Repository, refs: Iterable[model.RefStatus]) -> index_pb2.Repository:
    return index_pb2.Repository(
        name=item.name,
        url=item.url,
        default_ref=item.default_ref,
        refs=[ref_status(status) for status in refs],
    )


def ref_status(item: model.RefStatus) -> index_pb2.RefStatus:
    return index_pb2.RefStatus(
        ref=item.ref,
        revision=item.indexed or "",
        files=item.files,
        skipped=item.skipped,
        failed=item.failed,
        chunks=item.chunks,
        indexed_at=item.indexed_at,
    )


def file_failure(
    repository: model.RepositoryName, ref: model.RefName, record: model.FileRecord
) -> index_pb2.FileFailure:
    return index_pb2.FileFailure(
        repository=repository,
        ref=ref,
        path=record.path,
        state=record.state,
        reason=record.reason,
    )


def queue(item: QueueDepth) -> index_pb2.Queue:
    return index_pb2.Queue(name=item.name, messages=item.messages, workers=item.workers)
