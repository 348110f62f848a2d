"""Model → proto. Every field by name, nothing decided here."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from codelode import model
from codelode.v1 import index_pb2, search_pb2
from gateway.api.jobs import QueueDepth
from gateway.pipeline import About, Context, Timing
from gateway.state import (
    Duplicate,
    Entity,
    FoundFile,
    ImportLink,
    Passage,
    Related,
    SearchState,
)


def search_response(
    state: SearchState, timings: Iterable[Timing], *, explain: bool
) -> search_pb2.SearchResponse:
    """The answer; `took_ms`, `cached`, coverage and the next page are the caller's to fill."""
    ranks = {hit.chunk.id: rank for rank, hit in enumerate(state.hits, 1 + state.query.offset)}
    analysis = state.analysis
    return search_pb2.SearchResponse(
        hits=[hit(one, state.passages, explain=explain) for one in state.hits],
        stages=[stage_timing(timing) for timing in timings] if explain else [],
        notices=(*state.notices, *state.remarks),
        query_kind=analysis.kind,
        intent=analysis.intent,
        related=map(related, state.related),
        imports=map(import_link, state.imports),
        duplicates=[
            duplicate(one, rank=ranks[one.of]) for one in state.duplicates if one.of in ranks
        ],
        abstained=state.has_abstained,
        tokens=state.tokens,
        entities=map(entity, analysis.entities) if explain else [],
        synonyms=analysis.synonyms,
        alternates=[alternate.text for alternate in state.alternates],
        files=map(found_file, state.files),
    )


def context_response(
    made: Context, state: SearchState, timings: Iterable[Timing], *, explain: bool
) -> search_pb2.ContextResponse:
    """The text, and what it was made from without its code, which the text has."""
    search = search_response(state, timings, explain=explain)
    search.notices.extend(made.notices)
    for one in search.hits:
        one.ClearField("content")
        one.ClearField("passage")
    return search_pb2.ContextResponse(
        text=made.text, tokens=made.tokens, search=search, left_out=made.left_out
    )


def explain_response(about: About) -> search_pb2.ExplainResponse:
    return search_pb2.ExplainResponse(
        subject_kind=about.kind,
        summary=about.summary,
        definitions=map(definition, about.definitions),
        imports=about.imports,
        imported_by=about.imported_by,
        tests=about.tests,
        notices=about.notices,
    )


def hit(
    item: model.Hit, passages: Mapping[model.ChunkId, Passage], *, explain: bool
) -> search_pb2.Hit:
    chunk = item.chunk
    traces = item.explain if explain else ()
    around = passages.get(chunk.id)
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
        summary=chunk.summary,
        passage=passage(around) if around is not None else None,
        block_type=chunk.block_type,
    )


def passage(item: Passage) -> search_pb2.Passage:
    return search_pb2.Passage(
        start_line=item.start_line,
        end_line=item.end_line,
        content=item.content,
        truncated=item.truncated,
    )


def related(item: Related) -> search_pb2.Related:
    return search_pb2.Related(
        repository=item.repository,
        path=item.path,
        relation=item.relation,
        hops=item.hops,
        of=item.of,
    )


def import_link(item: ImportLink) -> search_pb2.ImportLink:
    return search_pb2.ImportLink(
        repository=item.repository,
        path=item.path,
        target=item.target,
        depth=item.depth,
        mark=item.mark,
    )


def duplicate(item: Duplicate, *, rank: int) -> search_pb2.Duplicate:
    return search_pb2.Duplicate(
        repository=item.chunk.repository,
        path=item.chunk.path,
        start_line=item.chunk.start_line,
        end_line=item.chunk.end_line,
        of_rank=rank,
        similarity=item.similarity,
    )


def entity(item: Entity) -> search_pb2.Entity:
    return search_pb2.Entity(kind=item.kind, text=item.text)


def found_file(item: FoundFile) -> search_pb2.FoundFile:
    return search_pb2.FoundFile(
        repository=item.repository,
        path=item.path,
        similarity=item.similarity,
        summary=item.summary,
        symbols=item.symbols,
        tokens=item.tokens,
    )


def definition(item: model.LocatedSymbol) -> search_pb2.Definition:
    symbol = item.symbol
    return search_pb2.Definition(
        repository=item.repository,
        path=item.path,
        start_line=symbol.start_line,
        end_line=symbol.end_line,
        name=symbol.qualified_name,
        kind=symbol.kind,
        signature=symbol.signature,
        doc=symbol.doc,
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
        waits_for=item.waits_for,
        summaries=item.summaries,
        summaries_missing=item.summaries_missing,
        started_at=item.started_at,
        finished_at=item.finished_at,
    )


def repository(item: model.Repository, refs: Iterable[model.RefStatus]) -> index_pb2.Repository:
    return index_pb2.Repository(
        name=item.name,
        url=item.url,
        default_ref=item.default_ref,
        refs=[ref_status(status) for status in refs],
        include=item.patterns.include,
        exclude=item.patterns.exclude,
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
        health=map(language_health, item.health),
    )


def language_health(item: model.LanguageHealth) -> index_pb2.LanguageHealth:
    return index_pb2.LanguageHealth(
        language=item.language,
        ok=item.ok,
        partial=item.partial,
        error=item.error,
        unsupported=item.unsupported,
    )


def file_failure(
    repository: model.RepositoryName, ref: model.RefName, record: model.FileRecord
) -> index_pb2.FileFailure:
    return index_pb2.FileFailure(
        repository=repository,
        ref=ref,
        path=record.path,
        state=record.health if record.health and not record.state.is_left_out else record.state,
        reason=record.reason,
    )


def queue(item: QueueDepth) -> index_pb2.Queue:
    return index_pb2.Queue(name=item.name, messages=item.messages, workers=item.workers)
