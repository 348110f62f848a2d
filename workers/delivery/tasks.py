"""Declare the Celery tasks of the stages, one per row of `codelode.stages.STAGES`.

If a server is unavailable, the job is retried later. Any other error, and a parser that exceeds its
time limit twice, is recorded as the failure of the file.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import lru_cache, partial
from pkgutil import resolve_name
from typing import Any, NoReturn

import structlog
from billiard.exceptions import TimeLimitExceeded
from celery import Task, current_task
from celery.exceptions import Reject
from celery.signals import task_failure

from codelode import jobs
from codelode.errors import CodelodeError, Denied, InvalidQuery, NotFound, Rejected, Unavailable
from codelode.ledger import Advance
from codelode.model import RepositoryName, Run, RunId, RunKind, RunState
from codelode.stages import FILE_STAGES, PULL, Stage
from workers.confined import Abandoned
from workers.delivery import messages
from workers.delivery.app import app
from workers.delivery.batcher import Batcher, made_once
from workers.delivery.files import Delivery, Job, Pending, RunFailed
from workers.delivery.outbox import CeleryOutbox
from workers.pull import BeingRemoved
from workers.retry import MAX_RETRIES, backoff
from workers.services import Services, identity, services, settings, store_writers
from workers.sources import refs

log = structlog.get_logger("workers")

#: Errors that the caller of a run must correct, in its URL, name, ref, or patterns.
_MISTAKES = (NotFound, Denied, InvalidQuery)

#: How often a pull is retried while its remote or a server is unavailable.
MAX_PULL_RETRIES = 4

#: Pause before a run checks again whether the removal of its repository has finished, seconds.
REMOVAL_PAUSE_S = 2.0

outbox = CeleryOutbox(app)


class JobFailed(Exception):
    """Marks the job as failed in Flower, with the reason that the ledger has recorded.

    It is declared in the tasks' `throws`, so Celery logs no traceback.
    """


@lru_cache(maxsize=1)
def _delivery(of: Services) -> Delivery:
    return Delivery(of, outbox)


def delivery() -> Delivery:
    """Return the delivery of the calling process."""
    return _delivery(services())


def declare(stage: Stage) -> Task:
    """Make the Celery task of a file stage."""
    work = _batched(stage) if stage.batch else partial(_alone, stage)
    limit = getattr(settings, stage.timeout_setting) if stage.timeout_setting else None

    @app.task(
        name=stage.task, bind=True, max_retries=MAX_RETRIES, time_limit=limit, throws=(JobFailed,)
    )
    def task(self: Task, **kwargs: Any) -> None:
        job = messages.accepted(stage.task, messages.job, kwargs)
        if job is None:
            return
        retries = self.request.retries
        try:
            delivery().handle(job, work)
        except RunFailed as exc:
            _end(job.run, str(exc))
            raise JobFailed(str(exc)) from exc
        except Unavailable as exc:
            if retries < MAX_RETRIES or isinstance(exc, Pending):
                again = {"countdown": backoff(retries), "max_retries": retries + 1}
                raise self.retry(exc=exc, **again) from exc
            _fail(job, str(exc), stage)
        except Exception as exc:  # noqa: BLE001 - the record of the file gets any error
            _fail(job, _reason(exc, job, stage), stage)

    return task


def _fail(job: Job, reason: str, stage: Stage) -> NoReturn:
    """Record the file as failed, and end its job as a failure."""
    delivery().fail(job, reason, stage=stage)
    raise JobFailed(reason)


def _alone(stage: Stage, job: Job) -> None:
    delivery().work_alone(stage, job, priority=_priority())


def _priority() -> jobs.Priority:
    """Return the priority of the message that this thread works on."""
    request = current_task and current_task.request.delivery_info  # none: called without a message
    given = request.get("priority") if request else None
    return jobs.Priority(given) if given in tuple(jobs.Priority) else jobs.Priority.FIRST


def _batched(stage: Stage) -> Callable[[Job], None]:
    """Return a function that works on files in batches; its threads start after the fork."""
    shape = stage.batch
    assert shape is not None

    @made_once
    def batcher() -> Batcher[Job]:
        own = delivery()
        return Batcher(
            partial(own.work, stage),
            admit=partial(own.admit, stage),
            group=lambda job: job.run,
            size=lambda job: job.size,
            max_items=shape.files,
            max_size=shape.bytes,
            lull_s=shape.lull_s,
            max_wait_s=shape.wait_s,
            expects_more=own.expects_more if shape.fills else lambda _: False,
            at_once=store_writers(settings) if stage.is_exclusive else 1,
        )

    def work(job: Job) -> None:
        delivery().prepare(stage, job)
        batcher().submit(job, priority=_priority()).result()

    return work


def _reason(exc: Exception, job: Job, stage: Stage) -> str:
    """Return the reason for the record of a failed file; log unexpected errors in full."""
    if isinstance(exc, CodelodeError):
        return str(exc)
    if isinstance(exc, (MemoryError, RecursionError)):
        # An unhandled MemoryError stops one Celery worker after another.
        return f"{type(exc).__name__} at stage {stage.name}"
    log.exception("job_failed", stage=stage.name, **job.names)
    return f"{type(exc).__name__}: {exc}"


TASKS = {stage.name: declare(stage) for stage in FILE_STAGES}


@task_failure.connect
def stalled(
    sender: Task | None = None,
    task_id: str = "",
    kwargs: dict[str, Any] | None = None,
    exception: BaseException | None = None,
    **_: object,
) -> None:
    """Handle a file whose process was killed at its time limit. Runs in the parent process.

    A process that crashed is not reported here: the broker redelivers its message, and `claim`
    counts the attempts.
    """
    stage = next((one for one in FILE_STAGES if sender and one.task == sender.name), None)
    if stage and kwargs and isinstance(exception, TimeLimitExceeded):
        limit_s = getattr(settings, stage.timeout_setting)
        reason = f"stage {stage.name} took longer than {limit_s} s"
        delivery().stall(Job(**kwargs), reason, stage=stage, message=task_id)


@app.task(name=PULL.task, bind=True, max_retries=MAX_PULL_RETRIES, throws=(JobFailed,))
def pull(self: Task, run: str) -> None:
    """Plan a run and send its first files."""
    known = messages.accepted(PULL.task, messages.run, run)
    if known is None:
        return
    with delivery().running.once(known) as is_first:
        if is_first:
            _pull(self, known)


def _pull(task: Task, run: RunId) -> None:
    retries = task.request.retries
    try:
        _plan(run)
    except BeingRemoved as exc:  # not a failure; the removal may take long
        log.info("pull_waits", run=run, reason=str(exc))
        _pull_again(run, in_s=REMOVAL_PAUSE_S, retries=retries, reason=str(exc))
    except Unavailable as exc:
        if retries < MAX_PULL_RETRIES:
            log.warning("pull_put_off", run=run, reason=str(exc))
            in_s = backoff(retries)
            _pull_again(run, in_s=in_s, retries=retries + 1, reason=str(exc))
        else:
            _end_unreached(run, str(exc))
            raise JobFailed(str(exc)) from exc
    except Abandoned:
        log.info("pull_dropped", run=run, reason="its run is over")
    except CodelodeError as exc:
        _end(run, str(exc), withdraws=isinstance(exc, _MISTAKES))
        raise JobFailed(str(exc)) from exc
    except Exception as exc:  # the run must not wait for ever; Celery logs and counts the error
        _end(run, f"{type(exc).__name__}: {exc}")
        raise


def _plan(run: RunId) -> None:
    """Plan the run, or publish what follows from a plan that its worker stored before it died."""
    attempt = services().ledger.claim(run, worker=identity())
    if attempt > settings.max_attempts:
        raise Rejected(f"its worker died {attempt - 1} times at stage {PULL.name}")
    if attempt:
        plan: Callable[..., Advance] = resolve_name(PULL.work)
        found = delivery().existing(run)
        _send(found, plan(found, services(), is_wanted=partial(_is_wanted, run)))
    elif (unsent := services().ledger.unsent(run)) is not None:
        log.warning("plan_sent_again", run=run, files=len(unsent.items))
        _send(delivery().existing(run), unsent)


def _send(run: Run, planned: Advance) -> None:
    """Publish what follows from a plan, and start the work that its pull has made possible."""
    delivery().publish(run.id, planned)
    with suppress(Unavailable):  # a repeated pull then sends messages twice, which claims exclude
        services().ledger.mark_sent(run.id)
    if run.kind is RunKind.INDEX:
        _follow_refs(run.repository)
    else:
        _forget_withdrawn(run.repository)
    for place in services().ledger.refs_being_removed():
        outbox.forget_ref(*place)


def _follow_refs(name: RepositoryName) -> None:
    """Start runs of the branches and tags that the sources file names, and remove superseded tags.

    The mirror of the repository has just been brought up to date.
    """
    ledger = services().ledger
    repository = ledger.get(name)
    rules = services().ref_rules(repository.url) if repository else None
    if repository is None or rules is None:
        return
    found = refs.chosen(services().mirrors.refs(name), rules)
    known = {repository.default_ref, *(status.ref for status in ledger.refs(name))}
    for ref in found.wanted:
        if ref not in known:
            run = ledger.create(name, ref)  # which waits, unless the planned run is over already
            if run.state is RunState.PULLING:
                outbox.pull(run, is_late=True)
    for ref in found.superseded:
        if ref in known:
            ledger.remove_ref(name, ref)


def _is_wanted(run: RunId) -> bool:
    """Return whether the plan of the run is wanted: it exists and was neither cancelled nor failed.

    The plan is also wanted once it is stored, and even if it leaves the run with nothing to do,
    because then its first files, or the next run of the repository, still have to be sent.
    """
    try:
        found = services().ledger.run(run)
    except Unavailable:
        return True
    return found is not None and found.state not in (RunState.CANCELLED, RunState.FAILED)


def _pull_again(run: RunId, *, in_s: float, retries: int, reason: str) -> None:
    """Release the pull and send its message again, for any worker.

    Raises Reject if the ledger or the broker is unavailable, so that this message is redelivered.
    """
    try:
        services().ledger.unclaim(run, worker=identity(), for_s=in_s, reason=reason)
        delivery().running.release([run])
        outbox.pull(delivery().existing(run), in_s=in_s, retries=retries)
    except NotFound:
        log.info("pull_dropped", run=run, reason="its repository was removed")
    except Unavailable as exc:
        raise Reject(str(exc), requeue=True) from exc


def _end_unreached(run: RunId, reason: str) -> None:
    """End a run whose source, or a server, was unavailable each time."""
    found = services().ledger.run(run)  # None: its repository was removed
    if found is None or services().mirrors.git_dir(found.repository).is_dir():
        _end(run, reason)
    else:
        remedy = "check its URL, or index it again later"
        reason = f"{reason}; nothing was pulled, so the repository is not kept: {remedy}"
        _end(run, reason, withdraws=True)


def _end(run: RunId, reason: str, *, withdraws: bool = False) -> None:
    """End the run as failed. `withdraws`: a repository without refs and other runs is unregistered.

    Its URL, ref, or patterns are wrong, or its host, whose name may be mistyped, never answered.
    """
    found = services().ledger.run(run)  # None: its repository was removed
    log.warning("run_failed", run=run, repository=found and found.repository, reason=reason)
    following = services().ledger.end(run, RunState.FAILED, reason, withdraws=withdraws)
    if following:
        outbox.pull(delivery().existing(following))
    if found:
        _forget_withdrawn(found.repository)


def _forget_withdrawn(repository: RepositoryName) -> None:
    """Start the deletion of the repository's data if it was unregistered with its run."""
    if repository in services().ledger.being_removed():
        outbox.forget(repository)
