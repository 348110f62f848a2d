"""Between stages: what a step of a run hands out becomes messages, one per file.

Messages name the file, for the worker and for whoever watches the jobs; content waits in the
hand-over. All messages of a step go out in one round trip.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache

import structlog

from codelode import jobs
from codelode.errors import NotFound
from codelode.model import BlobId, RepositoryName, Run, RunId
from codelode.ports import Advance, WorkItem
from workers.app import app, services

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
            send(files, queue)
    if advance.is_over:
        log.info("run_complete", run=run)
        app.send_task(jobs.MAINTAIN_TASK, queue=jobs.STORE, expires=MAINTAIN_EXPIRES_S)
    send_pull(advance.next_run)


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
