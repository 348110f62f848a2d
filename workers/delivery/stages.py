"""What every stage of a file has in common: one message at work, a claim, and an outcome.

A stage's body claims its files and passes them on. This is what happens around it: a server that
is away puts the file off, any other error is its outcome, and so is a parser that stalled. The
store stage records outcomes, because an earlier content of the file may be in the index.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import Any

import structlog
from billiard.exceptions import TimeLimitExceeded
from celery import Task
from celery.signals import task_failure

from codelode import jobs
from codelode.errors import CodelodeError, Rejected, Unavailable
from codelode.ledger import NOT_IN_FLIGHT
from codelode.model import FileRecord, FileState, RunId
from workers.delivery.app import app
from workers.delivery.batcher import Turn, only_once
from workers.delivery.dispatch import Job, backoff, pass_on, publish
from workers.services import identity, services, settings

log = structlog.get_logger("workers")

#: How often a job whose server is away is tried again.
MAX_RETRIES = 8

#: A job waits so long while an earlier message about its file is at work, seconds.
LATER_S = 1.0


def stage(queue: str, **options: object) -> Callable[[Callable[[Job], None]], Task]:
    """Declare a per-file task: the body claims the file; its outcome becomes ledger steps."""

    def declare(body: Callable[[Job], None]) -> Task:
        @app.task(name=f"workers.{queue}", bind=True, max_retries=MAX_RETRIES, **options)
        def task(self: Task, **kwargs: Any) -> None:
            job, retries = Job(**kwargs), self.request.retries
            try:
                with only_once((queue, job.run, job.path), message=self.request.id) as turn:
                    if turn is Turn.MINE:
                        with _put_off_when_away(job):
                            body(job)
            except Unavailable as exc:
                if retries < MAX_RETRIES:
                    raise self.retry(exc=exc, countdown=backoff(retries)) from exc
                fail(job, str(exc), queue=queue)
            except Exception as exc:  # noqa: BLE001 - whatever it is belongs in the record
                fail(job, _reason(exc, job, queue), queue=queue)
            if turn is Turn.LATER:
                later = {"countdown": LATER_S, "retries": retries, "queue": queue}
                self.apply_async(kwargs=kwargs, argsrepr="", kwargsrepr=job.title, **later)

        return task

    return declare


@contextmanager
def _put_off_when_away(job: Job) -> Iterator[None]:
    """Leave the file to whichever worker gets its message next.

    That one may itself be waiting for the server with messages it took: the file is taken for lost
    no sooner than a claim would be.
    """
    try:
        yield
    except Unavailable as exc:
        with suppress(Unavailable):  # the ledger is away: the claim ends with its lease
            services().ledger.put_off(
                job.run, [job.path], worker=identity(), for_s=settings.lease_s, reason=str(exc)
            )
        raise


def claim(batch: Sequence[Job], *, queue: str) -> list[bool | Exception]:
    """Whether each goes on; a file that died with its worker too often fails instead.

    One that nobody waits for any more leaves nothing behind: its run was cancelled, or its message
    came twice and the other one got through.
    """
    verdicts: dict[Job, bool | Exception] = {}
    for run, jobs_ in by_run(dict.fromkeys(batch)):
        paths = [job.path for job in jobs_]
        attempts = services().ledger.begin(run, paths, worker=identity(), stage=queue)
        for job, attempt in zip(jobs_, attempts, strict=True):
            verdicts[job] = _verdict(attempt, queue=queue)
        unwanted = (path for path, one in zip(paths, attempts, strict=True) if one == NOT_IN_FLIGHT)
        services().stage_outputs.drop(run, list(unwanted))
    return [verdicts[job] for job in batch]


def _verdict(attempt: int, *, queue: str) -> bool | Exception:
    if attempt > settings.max_attempts:
        return Rejected(f"its worker died {attempt - 1} times at stage {queue}")
    return attempt > 0


def _reason(exc: Exception, job: Job, queue: str) -> str:
    """What the record of a failed file says. What we did not foresee is logged in full."""
    if isinstance(exc, CodelodeError):
        return str(exc)
    if isinstance(exc, (MemoryError, RecursionError)):
        # Left to itself, a MemoryError stops one Celery worker after another.
        return f"{type(exc).__name__} at stage {queue}"
    log.exception("job_failed", stage=queue, **job.names)
    return f"{type(exc).__name__}: {exc}"


@task_failure.connect
def record_stalled(
    kwargs: dict[str, Any] | None = None, exception: BaseException | None = None, **_: object
) -> None:
    """A parser that stalled was killed with its process; this is the parent, after that.

    A process that died by itself is not reported here: its message comes back, and `claim`
    counts the attempts.
    """
    if kwargs and "path" in kwargs and isinstance(exception, TimeLimitExceeded):
        reason = f"parsing took longer than {settings.parse_timeout_s} s"
        fail(Job(**kwargs), reason, queue=jobs.PARSE)


def by_run(batch: Iterable[Job]) -> Iterable[tuple[RunId, list[Job]]]:
    groups: dict[RunId, list[Job]] = defaultdict(list)
    for job in batch:
        groups[job.run].append(job)
    return groups.items()


def leave_out(job: Job, state: FileState, reason: str) -> None:
    """Send the file to the store stage to be recorded with this outcome instead of indexed."""
    outcome = json.dumps([state, reason]).encode()
    services().stage_outputs.put(job.run, {job.path: {"outcome": outcome}})
    pass_on(job.run, [job], jobs.STORE)


def left_out(run: RunId, group: Sequence[Job]) -> dict[str, FileRecord]:
    values = services().stage_outputs.get(run, [job.path for job in group], "outcome")
    records = {}
    for job, value in zip(group, values, strict=True):
        if value:
            state, reason = json.loads(value)
            records[job.path] = FileRecord(job.path, job.blob, FileState(state), reason)
    return records


def fail(job: Job, reason: str, *, queue: str) -> None:
    """Record the file as failed; what an earlier content left in the index goes.

    The store stage does both, also with a file that it could not store itself, unless not even that
    succeeds. What the index holds of the very content stays: doing it once more has failed.
    """
    log.warning("file_failed", stage=queue, reason=reason, **job.names)
    kept = _kept(job)
    if not kept and (queue != jobs.STORE or not left_out(job.run, [job])):
        leave_out(job, FileState.FAILED, reason)
        return
    record = kept or FileRecord(job.path, job.blob, FileState.FAILED)
    failed = replace(record, state=FileState.FAILED, reason=reason, is_due=False)
    publish(job.run, services().ledger.done(job.run, [failed]))
    services().stage_outputs.drop(job.run, [job.path])


def _kept(job: Job) -> FileRecord | None:
    """The file's record, when the index holds this content of it since an earlier run."""
    run = services().ledger.run(job.run)
    if run is None:  # its repository was removed
        return None
    record = services().ledger.records(job.repository, run.resolved, [job.path]).get(job.path)
    return record if record and record.is_due else None
