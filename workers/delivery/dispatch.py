"""Between stages: what a step of a run hands out becomes messages, one per file.

Messages name the file, for the worker and for whoever watches the jobs; content waits in the
stage outputs. All messages of a step go out in one round trip.
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache

import structlog

from codelode import jobs
from codelode.errors import CodelodeError, NotFound
from codelode.languages import QUERIES_FOLDER
from codelode.ledger import Advance, WorkItem
from codelode.model import BlobId, ParsedFile, RepositoryName, Run, RunId, Vectors
from codelode.ports import DerivationKey, Embedder
from workers import derivations, wire
from workers.delivery.app import app
from workers.delivery.messages import message
from workers.embed import known_vectors
from workers.parse import OwnQueries, own_queries
from workers.services import services, settings

log = structlog.get_logger("workers")

#: Nobody needs an index optimisation that waited longer: the next one is on its way, seconds.
MAINTAIN_EXPIRES_S = 60

#: Longest wait before a job is tried again, seconds.
MAX_BACKOFF_S = 20.0


@dataclass(frozen=True, slots=True)
class Job:
    """One file of a run at a stage; the arguments of every per-file task."""

    run: RunId
    repository: RepositoryName
    path: str
    blob: BlobId  # empty: the file left the ref
    size: int = 0

    @property
    def names(self) -> dict[str, str]:
        """What a log line says of it."""
        return {"run": self.run, "repository": self.repository, "path": self.path}

    @property
    def arguments(self) -> dict[str, object]:
        """Of the tasks that work on it."""
        return {**self.names, "blob": self.blob, "size": self.size}

    @property
    def title(self) -> str:
        """What whoever watches the jobs sees of it."""
        return f"{self.repository} {self.path}"


def send(files: Sequence[Job], queue: str) -> None:
    """Publish one message per file, in one round trip."""
    if files:
        made = [message(app, queue, job.arguments, about=job.title) for job in files]
        services().queues.push(queue, made)


def pass_on(run: RunId, files: Sequence[Job], queue: str) -> None:
    """Send files of a run to another stage; from here on nobody holds them but the queue."""
    services().ledger.pass_on(run, [job.path for job in files], stage=queue)
    send(files, queue)


def publish(run: RunId, advance: Advance) -> None:
    """Send what a step of a run handed out."""
    if advance.items:
        repository = existing(run).repository
        for queue, items in _by_queue(advance.items):
            files = [Job(run, repository, item.path, item.blob, item.size_bytes) for item in items]
            send(_ahead(run, files) if queue == jobs.PARSE else files, queue)
    if advance.is_over:
        log.info("run_complete", run=run)
        app.send_task(jobs.MAINTAIN_TASK, queue=jobs.STORE, expires=MAINTAIN_EXPIRES_S)
    send_pull(advance.next_run)


def _ahead(run: RunId, files: Sequence[Job]) -> list[Job]:
    """Sends files on to the first stage that has something to do; returns those to parse.

    A second copy of what is indexed so costs one message a file instead of three.
    """
    parsed = _parsed_before(files)
    vectors = _embedded_before(parsed)
    parts = {job.path: {"parsed": data} for job, (data, _) in parsed.items()}
    for job, (part, rows) in vectors.items():
        parts[job.path][part] = wire.dump_vectors(rows)
    services().stage_outputs.put(run, parts)
    pass_on(run, list(vectors), jobs.STORE)
    pass_on(run, [job for job in parsed if job not in vectors], after_parse())
    return [job for job in files if job not in parsed]


def _parsed_before(files: Sequence[Job]) -> dict[Job, tuple[bytes, ParsedFile]]:
    try:
        keys = [parse_key(job) for job in files]
    except CodelodeError:  # no mirror here to read queries from: the stage that parses has one
        return {}
    found = zip(files, services().derivations.get(keys), strict=True)
    return {job: (data, wire.load_parsed(data)) for job, data in found if data is not None}


def _embedded_before(
    parsed: Mapping[Job, tuple[bytes, ParsedFile]],
) -> dict[Job, tuple[str, Vectors]]:
    """Those with nothing left to compute: no summaries are wanted, all vectors are known.

    Each with the name of the vectors' part in the stage outputs.
    """
    if not parsed or settings.language_model != "none":
        return {}
    files = [(job.path, file) for job, (_, file) in parsed.items()]
    try:
        embedder = services().index.embedder
        vectors = known_vectors(files, embedder=embedder, known=services().derivations)
        part = vectors_part(embedder)
    except CodelodeError:  # the stage that embeds finds out and tells
        return {}
    found = zip(parsed, vectors, strict=True)
    return {job: (part, rows) for job, rows in found if rows is not None}


def vectors_part(embedder: Embedder) -> str:
    """Where a file's vectors wait to be stored: those of another model are not found there."""
    return f"vectors {embedder.identity}"


@lru_cache(maxsize=64)
def queries_of(run: RunId) -> OwnQueries:
    """The queries that take the place of built-in ones: the repository's, then the operator's."""
    at = planned(run)
    if at.revision is None:
        return operators_queries()
    files = services().blobs.folder(
        at.repository, at.revision, QUERIES_FOLDER, max_bytes=own_queries.MAX_QUERY_BYTES
    )
    return own_queries.of_repository(files, operators=operators_queries())


@cache
def operators_queries() -> OwnQueries:
    """Those of the folder in the settings, as they were when they were first asked for."""
    return own_queries.of_operator(settings.queries)


def parse_key(job: Job) -> DerivationKey:
    """What parsing the file is known by."""
    return derivations.of_parse(job.blob, job.path, version=_parse_version(job.run))


@lru_cache(maxsize=64)
def _parse_version(run: RunId) -> str:
    """What parsing in a run depends on besides the file; for each file it would cost a digest."""
    return wire.parsed_by(queries_of(run))


def after_parse() -> str:
    """The stage that follows parsing."""
    return jobs.ENRICH if settings.language_model != "none" else jobs.EMBED


def send_pull(run: RunId | None, *, countdown: float = 0.0, retries: int = 0) -> None:
    """Start a run that has become active, in so many seconds; it was tried so often before."""
    if run:
        app.send_task(
            jobs.PULL_TASK,
            kwargs={"run": run},
            queue=jobs.PULL,
            argsrepr="",
            kwargsrepr=existing(run).repository,
            countdown=countdown or None,
            retries=retries,
        )


@lru_cache(maxsize=256)
def planned(run: RunId) -> Run:
    """The run as it was planned. Cached: its repository and refs no longer change."""
    return existing(run)


def existing(run: RunId) -> Run:
    """The run as it is now. Raises NotFound when its repository was removed."""
    found = services().ledger.run(run)
    if found is None:
        raise NotFound(f"run {run} was removed")
    return found


def _by_queue(items: Iterable[WorkItem]) -> Iterable[tuple[str, list[WorkItem]]]:
    queues: dict[str, list[WorkItem]] = defaultdict(list)
    for item in items:
        queues[item.queue].append(item)
    return queues.items()


def backoff(retries: int) -> float:
    """Seconds before a job is tried again: 1, 2, 4 …, jittered."""
    return min(MAX_BACKOFF_S, 2.0**retries) * random.uniform(0.5, 1.0)
