"""The stages of a file: parse → enrich → embed → store, one job per file and stage.

What pulling found (`planning`) waits in the ledger; a window of it is in flight as messages, and
every file that is counted hands out the next. No chord, no result backend: the ledger knows what
is missing. A job may run twice or die at any point, so each stage claims its file first, leaves
its result under the file's name, and publishes the next stage before its own message is
acknowledged.

Files that will not be in the index (skipped, failed, removed) pass the store stage too, because an
earlier content of theirs may be in it. The enrich stage is passed only when there is a language
model. What parsing, a summary or a vector gave for a content before is used again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache, partial

import structlog

from codelode import jobs
from codelode.errors import CodelodeError, Unavailable
from codelode.model import (
    DEFAULT_REF,
    NO_SUMMARIES,
    FileRecord,
    FileState,
    ParsedFile,
    RefName,
    RunId,
    Summaries,
)
from workers import wire
from workers.delivery.batcher import Batcher, made_once
from workers.delivery.dispatch import (
    Job,
    after_parse,
    existing,
    parse_key,
    pass_on,
    planned,
    publish,
    queries_of,
    vectors_part,
)
from workers.delivery.planning import importers, layout_at
from workers.delivery.stages import by_run, claim, leave_out, left_out, stage
from workers.embed import embed
from workers.enrich import Enriched, unasked
from workers.parse import guard, imports, parse
from workers.services import Index, services, settings, store_writers
from workers.store import StoredFile, write

log = structlog.get_logger("workers")

#: Files whose chunks compete for summaries, the lull that ends their gathering, and its end.
ENRICH_FILES = 8
ENRICH_LULL_S = ENRICH_WAIT_S = 0.05

#: Files per call of the model. Each call costs a few round trips besides: with a lull of 0.03 s
#: they come in sixes.
EMBED_FILES = 64
EMBED_LULL_S = 0.1
EMBED_WAIT_S = 0.5

#: The same for the store, where every call is a commit: 3.4 ms of processor time a file for 16
#: files, 1.5 ms for 128. At a lull it is asked whether more are coming: a run's last files do not
#: wait for any.
STORE_FILES = 128
STORE_LULL_S = 0.03
STORE_WAIT_S = 1.5

#: The stage output that holds the summaries; it was `summaries` when files had none of their own.
SENTENCES = "sentences"

#: The part that names the index whose embedder made the vectors.
MADE_FOR = "made for"


@stage(jobs.PARSE, time_limit=settings.parse_timeout_s)
def parse_file(job: Job) -> None:
    """Blob → parsed file, or a reason to leave it out."""
    (verdict,) = claim([job], queue=jobs.PARSE)
    if isinstance(verdict, Exception):
        raise verdict
    if not verdict:
        return
    key = parse_key(job)
    (known,) = services().derivations.get([key])
    if known is None:
        data = services().blobs.read(job.repository, job.blob)
        reason = guard(data, path=job.path, max_bytes=settings.max_file_bytes)
        if reason:
            leave_out(job, FileState.SKIPPED, reason)
            return
        known = wire.dump_parsed(parse(data, path=job.path, own=queries_of(job.run)))
        services().derivations.put({key: known})
    services().stage_outputs.put(job.run, {job.path: {"parsed": known}})
    pass_on(job.run, [job], after_parse())


@stage(jobs.ENRICH)
def enrich_file(job: Job) -> None:
    """Parsed file → summaries of it and its chunks, the most wanted of many files first."""
    _enrich_batcher().submit(job).result()


@stage(jobs.EMBED)
def embed_file(job: Job) -> None:
    """Parsed file → vectors, many files per call of the model."""
    _embed_batcher().submit(job).result()


@stage(jobs.STORE)
def store_file(job: Job) -> None:
    """Everything of the file into the stores, many files per commit; then the next files."""
    _store_batcher().submit(job).result()


@made_once
def _enrich_batcher() -> Batcher[Job]:
    return Batcher(
        _enrich_batch,
        admit=partial(claim, queue=jobs.ENRICH),
        max_items=ENRICH_FILES,
        lull_s=ENRICH_LULL_S,
        max_wait_s=ENRICH_WAIT_S,
    )


@made_once
def _embed_batcher() -> Batcher[Job]:
    return Batcher(
        _embed_batch,
        admit=partial(claim, queue=jobs.EMBED),
        max_items=EMBED_FILES,
        lull_s=EMBED_LULL_S,
        max_wait_s=EMBED_WAIT_S,
    )


@made_once
def _store_batcher() -> Batcher[Job]:
    return Batcher(
        _store_batch,
        admit=partial(claim, queue=jobs.STORE),
        max_items=STORE_FILES,
        lull_s=STORE_LULL_S,
        max_wait_s=STORE_WAIT_S,
        expects_more=_more_are_coming,
        at_once=store_writers(settings),
    )


def _more_are_coming(batch: Sequence[Job]) -> bool:
    """Whether a run of these has more files in flight, for which waiting is worth a commit.

    Half of the window is enough: the rest keeps the stages before this one busy meanwhile.
    """
    try:
        return any(
            len(group) < min(_left(run), settings.window // 2) for run, group in by_run(batch)
        )
    except CodelodeError:  # who stores them finds out and tells
        return False


def _left(run: RunId) -> int:
    """Files that are not counted yet."""
    now = existing(run)
    return now.total - now.done - now.failed


def _enrich_batch(batch: Sequence[Job]) -> None:
    for run, group in by_run(batch):
        ready, lost = _split(group, _load_parsed(run, group))
        found = dict(zip(ready, _summaries(run, ready), strict=True))
        parts = {
            job.path: {SENTENCES: wire.dump_summaries(one.summaries)} for job, one in found.items()
        }
        services().stage_outputs.put(run, parts)
        pass_on(run, [job for job in ready if found[job].is_finished], jobs.EMBED)
        pass_on(run, [job for job in ready if not found[job].is_finished], jobs.ENRICH)
        pass_on(run, lost, jobs.PARSE)


def _summaries(run: RunId, files: Mapping[Job, ParsedFile]) -> Sequence[Enriched]:
    """Of each file. Whatever goes wrong with the model, the files go on."""
    enricher = services().enricher
    pairs = [(job.path, file) for job, file in files.items()]
    if enricher is None or not pairs:
        return [Enriched(NO_SUMMARIES)] * len(pairs)
    into = importers(planned(run).repository, [path for path, _ in pairs])
    try:
        return enricher(run, pairs, importers=into)
    except Unavailable:
        raise
    except Exception:
        log.exception("enrich_failed", run=run)
        return [unasked(path, file) for path, file in pairs]


def _embed_batch(batch: Sequence[Job]) -> None:
    for run, group in by_run(batch):
        ready, lost = _split(group, _load_parsed(run, group))
        summaries = _load_summaries(run, list(ready))
        index = services().index
        vectors = embed(
            [(job.path, file, summaries[job.path]) for job, file in ready.items()],
            embedder=index.embedder,
            known=services().derivations,
        )
        part, made_for = vectors_part(index.embedder), index.published.name.encode()
        services().stage_outputs.put(
            run,
            {
                job.path: {part: wire.dump_vectors(rows), MADE_FOR: made_for}
                for job, rows in zip(ready, vectors, strict=True)
            },
        )
        pass_on(run, list(ready), jobs.STORE)
        pass_on(run, lost, jobs.PARSE)


def _store_batch(batch: Sequence[Job]) -> None:
    for run, group in by_run(batch):
        outcomes = left_out(run, group)
        with services().writing() as index:
            files = _stored_files(run, group, outcomes, index=index)
            with services().store_turns.one():
                records = write(
                    files,
                    store=index.store,
                    graph=services().graph,
                    symbols=services().symbols,
                    references=services().references,
                )
            advance = services().ledger.done(
                run, [outcomes.get(record.path, record) for record in records]
            )
        stored = {file.path for file in files}
        pass_on(run, [job for job in group if job.path not in stored], jobs.PARSE)
        publish(run, advance)
        services().stage_outputs.drop(run, sorted(stored))


def _stored_files(
    run: RunId, group: Sequence[Job], outcomes: Mapping[str, FileRecord], *, index: Index
) -> list[StoredFile]:
    """The files whose stage outputs are complete; the others have to be parsed again.

    One whose vectors are another embedder's is among the others: the index was swapped. Raises
    Unavailable when it was not.
    """
    refs = _refs(run)
    parsed = _load_parsed(run, group)
    embedder = index.embedder
    vectors = services().stage_outputs.get(run, [job.path for job in group], vectors_part(embedder))
    found = zip(group, vectors, strict=True)
    without = [job for job, rows in found if rows is None and job.path not in outcomes]
    _require_one_model(run, without, index)
    summaries = _load_summaries(run, group)
    layout = _layout_of(run)
    files = []
    for job, file, rows in zip(group, parsed, vectors, strict=True):
        place = partial(StoredFile, job.repository, job.path, job.blob, refs)
        if not job.blob or job.path in outcomes:
            files.append(place())
        elif file and rows is not None:
            links = imports.links(job.path, file, layout=layout)
            files.append(
                place(
                    parsed=file,
                    vectors=wire.load_vectors(rows, dim=embedder.dim),
                    edges=links.edges,
                    names=links.names,
                    summaries=summaries[job.path],
                )
            )
    return files


def _require_one_model(run: RunId, group: Sequence[Job], index: Index) -> None:
    """Raises Unavailable when vectors of these were made for this very index: then they are of
    another model than the one here, which is asked anew what it is; making them again would not
    help.
    """
    made_for = services().stage_outputs.get(run, [job.path for job in group], MADE_FOR)
    if index.published.name.encode() in made_for:
        services().invalidate(index)
        raise Unavailable(
            "the workers that embed have another model than the one that stores, "
            f"{index.embedder.identity}: restart all workers, then `codelode retry`"
        )


def _layout_of(run: RunId) -> imports.Layout:
    at = planned(run)
    assert at.revision, "a run with files has a revision"
    return layout_at(at.repository, at.revision)


@lru_cache(maxsize=256)
def _refs(run: RunId) -> tuple[RefName, ...]:
    """The ref a run indexes, and DEFAULT_REF beside it when it is the repository's default."""
    found = planned(run)
    repository = services().ledger.get(found.repository)
    is_default = repository is not None and repository.default_ref == found.resolved
    return tuple({found.resolved, DEFAULT_REF} if is_default else {found.resolved})


def _load_parsed(run: RunId, group: Sequence[Job]) -> list[ParsedFile | None]:
    values = services().stage_outputs.get(run, [job.path for job in group], "parsed")
    return [wire.load_parsed(value) if value else None for value in values]


def _load_summaries(run: RunId, group: Sequence[Job]) -> dict[str, Summaries]:
    paths = [job.path for job in group]
    is_enriched = settings.language_model != "none"
    values = services().stage_outputs.get(run, paths, SENTENCES) if is_enriched else ()
    loaded = {
        path: wire.load_summaries(value)
        for path, value in zip(paths, values, strict=False)
        if value is not None
    }
    return {path: loaded.get(path, NO_SUMMARIES) for path in paths}


def _split(
    group: Sequence[Job], parsed: Sequence[ParsedFile | None]
) -> tuple[dict[Job, ParsedFile], list[Job]]:
    """Jobs with their parsed file, and those that have lost it."""
    pairs = list(zip(group, parsed, strict=True))
    return {job: file for job, file in pairs if file}, [job for job, file in pairs if not file]
