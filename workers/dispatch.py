"""Between stages: what a step of a run hands out becomes messages, one per file.

Messages name the file, for the worker and for whoever watches the jobs; content waits in the
hand-over. All messages of a step go out in one round trip.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache

import structlog

from codelode import derivations, jobs
from codelode.errors import CodelodeError, NotFound
from codelode.model import BlobId, ParsedFile, RepositoryName, Run, RunId, Vectors
from codelode.ports import Advance, DerivationKey, WorkItem
from workers import wire
from workers.app import app, services, settings
from workers.embed import known_vectors
from workers.parse import PARSER_VERSION

log = structlog.get_logger("workers")

#: Nobody needs an index optimisation that waited longer: the next one is on its way, seconds.
MAINTAIN_EXPIRES_S = 60


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


def send(files: Sequence[Job], queue: str) -> None:
    """Publish one message per file, in one round trip."""
    if not files:
        return
    with app.producer_or_acquire() as producer, producer.batch():
        for job in files:
            app.send_task(
                f"workers.{queue}",
                kwargs=asdict(job),
                queue=queue,
                producer=producer,
                argsrepr="",
                kwargsrepr=f"{job.repository} {job.path}",
            )


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
    for job, rows in vectors.items():
        parts[job.path]["vectors"] = wire.dump_vectors(rows)
    services().handover.put(run, parts)
    pass_on(run, list(vectors), jobs.STORE)
    pass_on(run, [job for job in parsed if job not in vectors], after_parse())
    return [job for job in files if job not in parsed]


def _parsed_before(files: Sequence[Job]) -> dict[Job, tuple[bytes, ParsedFile]]:
    keys = [parse_key(job) for job in files]
    found = zip(files, services().derivations.get(keys), strict=True)
    return {job: (data, wire.load_parsed(data)) for job, data in found if data is not None}


def _embedded_before(parsed: Mapping[Job, tuple[bytes, ParsedFile]]) -> dict[Job, Vectors]:
    """Those with nothing left to compute: no summaries are wanted, all vectors are known."""
    if not parsed or settings.language_model != "none":
        return {}
    files = [(job.path, file) for job, (_, file) in parsed.items()]
    try:
        vectors = known_vectors(files, embedder=services().embedder, known=services().derivations)
    except CodelodeError:  # the stage that embeds finds out and tells
        return {}
    return {job: rows for job, rows in zip(parsed, vectors, strict=True) if rows is not None}


def parse_key(job: Job) -> DerivationKey:
    """What parsing the file is known by."""
    version = f"{PARSER_VERSION} {wire.PARSED_SHAPE}"
    return derivations.of_parse(job.blob, job.path, version=version)


def after_parse() -> str:
    """The stage that follows parsing."""
    return jobs.ENRICH if settings.language_model != "none" else jobs.EMBED


def send_pull(run: RunId | None) -> None:
    """Start a run that has become active."""
    if run:
        app.send_task(
            jobs.PULL_TASK,
            kwargs={"run": run},
            queue=jobs.PULL,
            argsrepr="",
            kwargsrepr=existing(run).repository,
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
