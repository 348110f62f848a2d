"""Move files through the stages: claim, load, call the stage's function, act on its outcomes.

The files of a run wait in the ledger. A window of them is in flight as messages, and each file that
is finished releases the next one. There is no chord and no result backend: the ledger knows which
files are unfinished. A job may run twice or die at any point. Before its message is acknowledged,
its result is therefore stored under the file's name, the next stage is recorded in the ledger, and
the next message is sent.

Files that will not be in the index (skipped, failed, removed) pass through the last stage too,
because it removes an earlier version of the file from the index.

This module does not depend on Celery: it sends messages through an `Outbox`.
"""

from __future__ import annotations

import json
import time
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass, replace
from functools import lru_cache
from pkgutil import resolve_name
from typing import Protocol

import structlog

from codelode.bounded import put
from codelode.display import quoted
from codelode.errors import CodelodeError, NotFound, Rejected, Unavailable
from codelode.jobs import Priority, of_run
from codelode.ledger import AHEAD, NOT_IN_FLIGHT, Advance
from codelode.model import BlobId, FileRecord, FileState, RepositoryName, Run, RunId
from codelode.stages import FILE_STAGES, Stage, begins_at, passed
from workers.confined import Abandoned
from workers.delivery.running import Running
from workers.services import Services, identity
from workers.stages import Afresh, Again, File, LeftOut, Onward, Outcome, Parts, Stored

#: The part of the stage outputs with the state and reason of a file that is not indexed.
OUTCOME = "outcome"

#: Interval at which a process checks whether large runs are owed a turn at a stage, seconds, and
#: the number of their files that then go first: at least as many as a process finishes in the
#: interval. Files that are not needed wait again.
LOOKS_AFTER_S = 0.25
LET_IN = 16

#: Time after a check that found no other files waiting for which late files go on without another
#: check, seconds. A file that arrives meanwhile waits at most that long.
ALONE_S = 0.05

#: Pause after such a check has failed, seconds: each failure is logged, and Redis may be full or
#: unreachable for a long time.
LOOKS_AGAIN_AFTER_S = 5.0

#: Number of files for which a process remembers that they reached their time limit once.
MAX_STALLED = 1000

log = structlog.get_logger("workers")


@dataclass(frozen=True, slots=True)
class Job:
    """One file of a run at a stage; the arguments of every task of a file stage."""

    run: RunId
    repository: RepositoryName
    path: str
    blob: BlobId  # empty: the file is removed from the index
    size: int = 0

    @property
    def names(self) -> dict[str, str]:
        """Return the fields of a log line about the job."""
        return {"run": self.run, "repository": self.repository, "path": self.path}

    @property
    def arguments(self) -> dict[str, object]:
        """Return the keyword arguments of the task."""
        return {**self.names, "blob": self.blob, "size": self.size}

    @property
    def title(self) -> str:
        """Return the text that Flower shows instead of the arguments."""
        return f"{self.repository} {quoted(self.path)} {of_run(self.run)}"


class Pending(Unavailable):
    """The stage still reads data of the run's commit; the file is retried until it has them."""


class RunFailed(CodelodeError):
    """No file of the run can go on, for the reason in the message."""


class Outbox(Protocol):
    """The sender of messages. Raises Unavailable if the broker does not answer."""

    def push(self, stage: str, jobs: Sequence[Job], *, priority: Priority) -> None:
        """Send one message per file to the queue of a stage."""

    def has_waiting(self, stage: str, *, before: Priority) -> bool:
        """Return whether messages of a higher priority than `before` wait for a stage."""

    def hold_back(self, stage: str, run: RunId, *, is_bulk: bool) -> None:
        """Give the next messages of a run at a stage a late priority.

        Only the front of the queue is searched. `is_bulk`: whether it is a large run.
        """

    def let_in(self, stage: str, most: int) -> None:
        """Move files of large runs to the front of a stage's queue.

        `most`: their maximum number for each of the two priorities that such files have.
        """

    def pull(self, run: Run, *, in_s: float = 0.0, retries: int = 0) -> None:
        """Start a run after `in_s` seconds; `retries`: how often it has been tried before."""

    def maintain(self) -> None:
        """Have the workers optimise the index."""


class Delivery:
    """Moves the files of runs through `stages`. One per process, safe to share between threads."""

    def __init__(
        self,
        services: Services,
        outbox: Outbox,
        *,
        stages: Sequence[Stage] = FILE_STAGES,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self.services = services
        self.outbox = outbox
        self.running = Running()
        self._stages = passed(services.settings, stages)
        self._planned = lru_cache(maxsize=256)(self.existing)
        self._now = now
        self._looks_at: dict[Stage, float] = {}
        self._alone_until: dict[tuple[Stage, Priority], float] = {}
        self._stalled: OrderedDict[tuple[Stage, RunId, str], str] = OrderedDict()

    def handle(self, job: Job, work: Callable[[Job], None]) -> None:
        """Do the work of a message, unless this process is working on a copy of the message.

        If a server is unavailable, the claim is given up, so that any worker can take the file with
        the next message. That message may wait for the server as well, so the file counts as lost
        only after the lease of a claim (CODELODE_LEASE_S).
        """
        with self.running.once((job.run, job.path)) as is_first:
            if not is_first:
                return
            try:
                work(job)
            except Unavailable as exc:
                # If the ledger is unavailable too, the claim ends with its lease.
                with suppress(Unavailable):
                    self.services.ledger.put_off(
                        job.run,
                        [job.path],
                        worker=identity(),
                        for_s=self.services.settings.lease_s,
                        reason=str(exc),
                    )
                raise

    def prepare(self, stage: Stage, job: Job) -> None:
        """Return if the stage has what it needs of the run's commit.

        Otherwise the thread of one file of the run reads what is missing, and then raises Pending.
        For the other files of the run, Pending is raised at once, so that they block no thread and
        files of other runs are processed. Raises RunFailed if it cannot be read.
        """
        get = self._to_get(stage, job)
        if get is None or self.claim(stage, [job]) != [True]:
            return
        with self.running.once((stage.name, job.run)) as is_first, suppress(Abandoned):
            if is_first:
                self._get(get, job.run)
        raise Pending(f"the workers are reading the manifests of {job.repository} again")

    def _to_get(self, stage: Stage, job: Job) -> Callable[[Callable[[], bool]], None] | None:
        if not stage.prepare or not job.blob:
            return None
        try:
            run = self._planned(job.run)
        except NotFound:  # the run was removed; the claim notices that
            return None
        found: Callable[[Callable[[], bool]], None] | None
        found = resolve_name(stage.prepare)(run, self.services)
        return found

    def _get(self, get: Callable[[Callable[[], bool]], None], run: RunId) -> None:
        try:
            get(lambda: self._is_wanted(run))
        except Abandoned:
            raise
        except CodelodeError as exc:
            raise RunFailed(str(exc)) from exc

    def _is_wanted(self, run: RunId) -> bool:
        try:
            return not self._is_over(run)
        except Unavailable:
            return True

    def work_alone(self, stage: Stage, job: Job, *, priority: Priority = Priority.FIRST) -> None:
        """Claim the file and call the stage's function with it alone."""
        (verdict,) = self.admit(stage, [job], priority=priority)
        if isinstance(verdict, Exception):
            raise verdict
        if verdict:
            self.work(stage, [job])

    def admit(
        self, stage: Stage, batch: Sequence[Job], *, priority: Priority = Priority.FIRST
    ) -> list[bool | Exception]:
        """Claim files whose run has its turn; return what `claim` returns, False for the others.

        The files of a run that is ahead of others at the stage are sent again with a late priority:
        workers take them only when no others wait. The files of the run that are still in the queue
        get that priority there, because taking each of them costs as much as parsing a small file.
        A late file that was taken before others arrived is also sent again. `priority`: that of the
        messages.
        """
        yields = not priority.is_late or self._has_waiting(stage, before=priority)
        verdicts = self.claim(stage, batch, yields=yields)
        later = [job for job, verdict in zip(batch, verdicts, strict=True) if verdict is None]
        if later:
            self.running.release((job.run, job.path) for job in later)
            for run, files in by_run(later):
                self._push(run, stage.name, files, is_late=True)
                self.outbox.hold_back(stage.name, run, is_bulk=self._is_bulk(run))
        self._let_in(stage)
        return [False if verdict is None else verdict for verdict in verdicts]

    def _has_waiting(self, stage: Stage, *, before: Priority) -> bool:
        """Return whether messages of a higher priority wait; "none" is reused for ALONE_S."""
        if self._now() < self._alone_until.get((stage, before), 0.0):
            return False
        found = self.outbox.has_waiting(stage.name, before=before)
        if not found:
            self._alone_until[stage, before] = self._now() + ALONE_S
        return found

    def _let_in(self, stage: Stage) -> None:
        """Move files of large runs to the front of the queue if they are owed a turn.

        An error is only logged: those files wait longer, but the files at hand go on.
        """
        if self._now() < self._looks_at.get(stage, 0.0):
            return
        self._looks_at[stage] = self._now() + LOOKS_AFTER_S
        try:
            if self.services.ledger.owes(stage.name):
                self.outbox.let_in(stage.name, LET_IN)
        except CodelodeError as exc:
            self._looks_at[stage] = self._now() + LOOKS_AGAIN_AFTER_S
            log.warning("turn_not_given", stage=stage.name, reason=str(exc))

    def claim(
        self, stage: Stage, batch: Sequence[Job], *, yields: bool = False
    ) -> list[bool | Exception | None]:
        """Return whether each file is claimed, or an error for one whose workers died too often.

        With `yields`, None for the files of a run that must wait for its turn. The stored parts of
        a file that is no longer in flight are dropped: its run was cancelled, or another copy of
        its message has been processed. A file of another repository than its run is not claimed: no
        process of codelode sends such a message.
        """
        verdicts: dict[Job, bool | Exception | None] = dict.fromkeys(batch, False)
        for run, jobs in by_run(list(filter(self._is_of_its_run, verdicts))):
            paths = [job.path for job in jobs]
            attempts = self.services.ledger.begin(
                run,
                paths,
                worker=identity(),
                stage=stage.name,
                yields=yields,
            )
            found = list(zip(jobs, attempts, strict=True))
            verdicts |= {job: self._verdict(attempt, stage) for job, attempt in found}
            gone = [job.path for job, attempt in found if attempt == NOT_IN_FLIGHT]
            self.services.stage_outputs.drop(run, gone)
        return [verdicts[job] for job in batch]

    def _is_of_its_run(self, job: Job) -> bool:
        try:
            is_one = self._planned(job.run).repository == job.repository
        except NotFound:  # the run was removed; the claim notices that and cleans up
            return True
        if not is_one:
            log.warning("job_dropped", reason="its run is of another repository", **job.names)
        return is_one

    def _verdict(self, attempt: int, stage: Stage) -> bool | Exception | None:
        if attempt == AHEAD:
            return None
        if attempt > self.services.settings.max_attempts:
            return Rejected(f"its worker died {attempt - 1} times at stage {stage.name}")
        return attempt > 0

    def expects_more(self, batch: Sequence[Job]) -> bool:
        """Return whether more files of these runs are coming, so that waiting saves a commit.

        A batch of half the window is enough: the other half keeps the earlier stages busy.
        """
        half = self.services.settings.window // 2
        try:
            return any(len(group) < min(self._left(run), half) for run, group in by_run(batch))
        except CodelodeError:  # the stage meets the same error and reports it
            return False

    def _left(self, run: RunId) -> int:
        """Return the number of unfinished files."""
        now = self.existing(run)
        return now.total - now.done - now.failed

    def work(self, stage: Stage, batch: Sequence[Job]) -> None:
        """Call the stage's function with claimed files, and act on the outcomes."""
        for run, group in by_run(batch):
            self._work(stage, self._planned(run), group)

    def _work(self, stage: Stage, run: Run, group: Sequence[Job]) -> None:
        left_out = self._left_out(run.id, group) if stage == self._stages[-1] else {}
        files = self._files(stage, run, group, left_out)
        ready = {job: file for job, file in files.items() if file is not None}
        with self.services.writing() if stage.is_exclusive else nullcontext():
            if stage.is_exclusive and self._is_over(run.id):
                self.services.stage_outputs.drop(run.id, [job.path for job in group])
                return
            found: Sequence[Outcome] = resolve_name(stage.work)(
                run, list(ready.values()), self.services
            )
            outcomes = dict.fromkeys(group, Afresh()) | dict(zip(ready, found, strict=True))
            records = [one.record for one in outcomes.values() if isinstance(one, Stored)]
            records = [left_out.get(record.path, record) for record in records]
            advance = self.services.ledger.done(run.id, records) if records else Advance()
        self._send_on(stage, run.id, outcomes)
        self.publish(run.id, advance)
        self.services.stage_outputs.drop(run.id, [record.path for record in records])

    def _is_over(self, run: RunId) -> bool:
        """Return whether the run has ended; the removal of its ref may then have begun."""
        now = self.services.ledger.run(run)
        return now is None or now.state.is_over

    def _files(
        self,
        stage: Stage,
        run: Run,
        group: Sequence[Job],
        left_out: Mapping[str, FileRecord],
    ) -> dict[Job, File | None]:
        """Load the parts of each file; None if a part that the stage needs is missing."""
        paths = [job.path for job in group]
        loaded = self.services.stage_outputs.get(run.id, paths, (*stage.needs, *stage.takes))
        files: dict[Job, File | None] = {}
        for job, parts in zip(group, loaded, strict=True):
            if not job.blob or job.path in left_out:
                files[job] = File(job.repository, job.path, BlobId(""))
            elif all(need in parts for need in stage.needs):
                files[job] = File(job.repository, job.path, job.blob, parts)
            else:
                files[job] = None
        return files

    def _send_on(self, stage: Stage, run: RunId, outcomes: Mapping[Job, Outcome]) -> None:
        """Store the parts, then send each file to the stage where it continues."""
        parts: dict[str, Parts] = {}
        to: dict[str, list[Job]] = defaultdict(list)
        for job, outcome in outcomes.items():
            match outcome:
                case Onward(made):
                    parts[job.path] = made
                    to[self._after(stage).name].append(job)
                case Again(made):
                    parts[job.path] = made
                    to[stage.name].append(job)
                case Afresh():
                    to[self._stages[0].name].append(job)
                case LeftOut(state, reason):
                    parts[job.path] = {OUTCOME: json.dumps([state, reason]).encode()}
                    to[self._stages[-1].name].append(job)
        self.services.stage_outputs.put(run, parts)
        for name, jobs in to.items():
            self._pass_on(run, jobs, name)

    def _after(self, stage: Stage) -> Stage:
        return self._stages[self._stages.index(stage) + 1]

    def _pass_on(self, run: RunId, jobs: Sequence[Job], stage: str) -> None:
        """Send files of a run to the queue of a stage, and release their claims."""
        if jobs:
            self.services.ledger.pass_on(run, [job.path for job in jobs], stage=stage)
            self.running.release((job.run, job.path) for job in jobs)
            self._push(run, stage, jobs)

    def _push(self, run: RunId, stage: str, jobs: Sequence[Job], *, is_late: bool = False) -> None:
        """Send files of a run to the queue of a stage."""
        priority = Priority.of(is_bulk=self._is_bulk(run), is_late=is_late)
        self.outbox.push(stage, jobs, priority=priority)

    def _is_bulk(self, run: RunId) -> bool:
        try:
            return self._planned(run).is_bulk
        except NotFound:  # the run was removed; the next claim notices that
            return False

    def publish(self, run: RunId, advance: Advance) -> None:
        """Send messages for the files that the ledger has released, and start the next run."""
        if advance.items:
            repository = self.existing(run).repository
            waiting: dict[str, list[Job]] = defaultdict(list)
            for item in advance.items:
                job = Job(run, repository, item.path, item.blob, item.size_bytes)
                begins = begins_at(is_removal=item.is_removal, stages=self._stages)
                waiting[item.stage or begins.name].append(job)
            for name, jobs in waiting.items():
                to_do = self._skip_known(run, jobs) if name == self._stages[0].name else jobs
                if to_do:
                    self._push(run, name, to_do)
        if advance.is_over:
            log.info("run_complete", run=run)
            self.outbox.maintain()
        if advance.next_run:
            self.outbox.pull(self.existing(advance.next_run))

    def _skip_known(self, run: RunId, jobs: Sequence[Job]) -> list[Job]:
        """Send files past stages whose output is cached; return the files for the first stage.

        A copy of an indexed file then needs one message instead of three.
        """
        planned = self._planned(run)
        files = {job: File(job.repository, job.path, job.blob) for job in jobs}
        parts: dict[str, dict[str, bytes]] = {}
        stops: dict[str, list[Job]] = {}
        for stage in self._stages:
            found = self._known(stage, planned, list(files.values()))
            stops[stage.name] = [job for job, one in zip(files, found, strict=True) if one is None]
            files = {
                job: replace(file, parts={**file.parts, **one})
                for (job, file), one in zip(files.items(), found, strict=True)
                if one is not None
            }
            parts |= {job.path: dict(file.parts) for job, file in files.items()}
            if not files:
                break
        self.services.stage_outputs.put(run, parts)
        first, *others = stops
        for name in others:
            self._pass_on(run, stops[name], name)
        return stops[first]

    def _known(self, stage: Stage, run: Run, files: Sequence[File]) -> Sequence[Parts | None]:
        if not stage.known or not files:
            return [None] * len(files)
        known: Sequence[Parts | None] = resolve_name(stage.known)(run, files, self.services)
        return known

    def _left_out(self, run: RunId, group: Sequence[Job]) -> dict[str, FileRecord]:
        """Return the records of the files that are not to be indexed."""
        loaded = self.services.stage_outputs.get(run, [job.path for job in group], (OUTCOME,))
        records = {}
        for job, parts in zip(group, loaded, strict=True):
            if OUTCOME in parts:
                state, reason = json.loads(parts[OUTCOME])
                records[job.path] = FileRecord(job.path, job.blob, FileState(state), reason)
        return records

    def stall(self, job: Job, reason: str, *, stage: Stage, message: str) -> None:
        """Send a file whose process was killed at its time limit again; the next time, it fails.

        The file may not be the cause: the limit also runs while a server restarts or the machine is
        suspended. `message`: its id, because Celery reports twice that a process was killed.
        """
        stalled = (stage, job.run, job.path)
        before = self._stalled.get(stalled)
        put(self._stalled, stalled, message, most=MAX_STALLED)
        if before is None:
            log.warning("file_sent_again", stage=stage.name, reason=reason, **job.names)
            self._pass_on(job.run, [job], stage.name)
        elif before != message:
            self.fail(job, reason, stage=stage)

    def fail(self, job: Job, reason: str, *, stage: Stage) -> None:
        """Record the file as failed, and remove an earlier version of it from the index.

        The last stage does both, so the file is sent there, unless it has failed at that stage. If
        the index has the same content from an earlier run, it stays: only reprocessing has failed.
        """
        log.warning("file_failed", stage=stage.name, reason=reason, **job.names)
        kept = self._kept(job)
        is_last = stage == self._stages[-1]
        if not kept and not (is_last and self._left_out(job.run, [job])):
            self._send_on(stage, job.run, {job: LeftOut(FileState.FAILED, reason)})
            return
        record = kept or FileRecord(job.path, job.blob, FileState.FAILED)
        failed = replace(record, state=FileState.FAILED, reason=reason, is_due=False)
        self.publish(job.run, self.services.ledger.done(job.run, [failed]))
        self.services.stage_outputs.drop(job.run, [job.path])

    def _kept(self, job: Job) -> FileRecord | None:
        """Return the file's record when the index holds this content from an earlier run."""
        run = self.services.ledger.run(job.run)
        if run is None:  # its repository was removed
            return None
        records = self.services.ledger.records(job.repository, run.resolved, [job.path])
        record = records.get(job.path)
        return record if record and record.is_due else None

    def existing(self, run: RunId) -> Run:
        """Return the current state of the run. Raises NotFound if its repository was removed."""
        found = self.services.ledger.run(run)
        if found is None:
            raise NotFound(f"run {run} was removed")
        return found


def by_run(batch: Iterable[Job]) -> Iterable[tuple[RunId, list[Job]]]:
    """Group jobs by their run."""
    groups: dict[RunId, list[Job]] = defaultdict(list)
    for job in batch:
        groups[job.run].append(job)
    return groups.items()
