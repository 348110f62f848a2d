"""The ports of the job ledger: repositories, runs, the files of a run, and file records.

The ledger is the source of truth of indexing: it knows the indexed commit of each ref and the
state of each file. `RedisLedger` implements all of these ports; `MemoryLedger` is its twin for
tests.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from codelode.access import Label, Visibility
from codelode.covers import Grouped, Groups
from codelode.estimates import Estimate
from codelode.model import (
    BlobId,
    FileRecord,
    FileState,
    RefName,
    RefStatus,
    Repository,
    RepositoryName,
    RepositoryRef,
    Reprocess,
    Revision,
    Run,
    RunId,
    RunKind,
    RunState,
)

#: Results of `Runs.claim` and `Feeder.begin` for what the worker must not work on.
HELD, NOT_IN_FLIGHT, AHEAD = 0, -1, -2

#: A run is ahead when it has spent this much more time than another one, milliseconds. Most files
#: take less, so runs of the same kind seldom wait for each other.
AHEAD_MS = 1_000

#: A run of more files than this is bulk: smaller runs, such as that of a push, go before it.
BULK_FILES = 256

#: Bulk runs that wait at a stage are owed the time that the others spend there, divided by this.
#: They get a turn when that is more than 0, so continuous pushes do not stop them. They begin
#: AHEAD_MS in debt, so they do not delay a single push.
BULK_SHARE = 8

#: Largest debt of bulk runs for time beyond their share, milliseconds. A long call may have begun
#: when no other run was there; they must not wait for BULK_SHARE times its duration.
BULK_DEBT_MS = 5_000

#: Maximum time that a run can save up while it has no work at a stage, milliseconds.
SAVED_MS = 10_000

#: Minimum time for which a run indexes before a newer one of its ref supersedes it, seconds. Before
#: that it may soon end by itself, and the newer one needs its own plan.
SUPERSEDE_S = 20.0


class Catalog(Protocol):
    """The registered repositories and the state of their refs."""

    def register(self, repository: Repository) -> None:
        """Add the repository without patterns and label, or update a known one.

        An update changes only the URL and the default ref.
        """

    def set_patterns(
        self,
        name: RepositoryName,
        *,
        include: Sequence[str] | None = None,
        exclude: Sequence[str] | None = None,
    ) -> None:
        """Replace the patterns of a registered repository; None keeps the present ones.

        The index follows with the next run of each ref.
        """

    def set_label(self, name: RepositoryName, label: Label | None) -> None:
        """Label the repository, or remove its label; has no effect on an unregistered one."""

    def labels(self) -> Mapping[RepositoryName, Label | None]:
        """Return the label of each registered repository, in one round trip."""

    def urls(self) -> Mapping[RepositoryName, str]:
        """Return the URL of each registered repository, in one round trip."""

    def set_access_globs(self, lists: Sequence[tuple[str, ...]]) -> None:
        """Replace the lists of globs of the access file that form groups (see `grouping`)."""

    def access_globs(self) -> tuple[tuple[str, ...], ...]:
        """Return the lists of globs that were set last."""

    def groups(self) -> Mapping[RepositoryName, Grouped]:
        """Return the groups of each repository that has any, in one round trip.

        Repositories with the same readers share groups (see `grouping`). They are set with the plan
        of the first run, and stay until the repository is unregistered or `set_groups` replaces
        them. They are not a field of Repository, which callers may see.
        """

    def groups_of(self, name: RepositoryName) -> Groups:
        """Return the groups that chunks of the repository are written with now."""

    def suspend_groups(self, names: Sequence[RepositoryName]) -> None:
        """Suspend the groups of the repositories that a run was planned for (see `Grouped`)."""

    def set_groups(self, name: RepositoryName, groups: Groups) -> None:
        """Replace the groups of a repository if they are suspended; they stay so."""

    def settle_groups(self, name: RepositoryName, groups: Groups) -> bool:
        """End the suspension, because every chunk of the repository has these groups.

        Returns False, without a change, if the repository has other groups by now.
        """

    def get(self, name: RepositoryName) -> Repository | None: ...

    def get_all(self, names: Sequence[RepositoryName]) -> tuple[Repository | None, ...]:
        """Return each named repository, in one round trip."""

    def names(self) -> tuple[RepositoryName, ...]:
        """Return the names of all repositories, in order, in one round trip."""

    def repositories(self) -> tuple[Repository, ...]:
        """Return all repositories, ordered by name."""

    def refs(self, name: RepositoryName) -> tuple[RefStatus, ...]:
        """Return the refs of a repository for which a run was ever started, default ref first."""

    def refs_of(self, names: Sequence[RepositoryName]) -> tuple[tuple[RefStatus, ...], ...]:
        """Return the refs of each repository, in two round trips; none for an unknown one."""

    def ref_counts(self, names: Sequence[RepositoryName]) -> Mapping[RefName, int]:
        """Return how many of the repositories have each ref, within 0.1 s for thousands of them."""

    def unregister(self, name: RepositoryName) -> None:
        """Remove the repository with its refs, file records, and runs, if it is registered.

        The name stays in `being_removed` until `removal_finished` reports that its index is gone.
        """

    def mark_for_removal(self, name: RepositoryName) -> bool:
        """Add an unregistered name to `being_removed`; return False if it is registered."""

    def being_removed(self) -> frozenset[RepositoryName]:
        """Return the unregistered repositories with data left to remove. They start no run."""

    def removal_finished(self, name: RepositoryName) -> None:
        """Record that no data of the unregistered repository is left."""

    def remove_ref(self, name: RepositoryName, ref: RefName) -> bool:
        """Remove the ref from the repository; return False if it is the default ref or unknown.

        It stays in `refs_being_removed`, and `Files.all` yields its records, until
        `ref_removal_finished` reports that the index holds nothing of it. No run of it is planned
        meanwhile.
        """

    def refs_being_removed(self) -> frozenset[RepositoryRef]:
        """Return the removed refs of registered repositories that have data left to remove."""

    def ref_removal_finished(self, name: RepositoryName, ref: RefName) -> None:
        """Delete the file records of a removed ref, because the index holds nothing of it."""

    def generation(self) -> int:
        """Return a number that grows with every change that can change search results."""


@dataclass(frozen=True, slots=True)
class WorkItem:
    """One file of a run: to be indexed, or to be removed from the ref if `blob` is empty."""

    path: str
    blob: BlobId
    size_bytes: int = 0
    stage: str = ""  # where it continues; empty: it has not begun, see `stages.begins_at`

    @property
    def is_removal(self) -> bool:
        return not self.blob


@dataclass(frozen=True, slots=True)
class Share:
    """The share of the workers that a run gets while other runs compete for them.

    Bulk runs divide their time at each stage in proportion to their weights; so do the other runs.
    """

    weight: int = 1
    is_bulk: bool | None = None  # gives way to others; None: if the run has more than BULK_FILES


@dataclass(frozen=True, slots=True)
class FileManifest:
    """The result of a pull: the files to work on, and the skipped files with their reasons.

    A file that was indexed and is now skipped is in both.
    """

    revision: Revision
    items: tuple[WorkItem, ...]
    skipped: tuple[FileRecord, ...] = ()
    patterns: str = ""  # digest of the repository's patterns at the time
    is_rebuild: bool = False  # the index lacks the files that the records of the ref list
    makes_default: bool = False  # the ref becomes the default one of its repository
    is_pinned: bool = False  # only with `makes_default`; see `Repository`
    follows_default: bool = False  # likewise
    replaces: RefName | None = None  # with `makes_default`: the former default ref, to be removed
    notices: tuple[str, ...] = ()  # of the run
    committed_at: float = 0.0  # when the commit was made
    share: Share = Share()
    groups: Groups = ()  # of the repository, if this is its first plan

    @property
    def is_bulk(self) -> bool:
        """Return whether the run gives way to runs that are not bulk."""
        given = self.share.is_bulk
        return len(self.items) > BULK_FILES if given is None else given


@dataclass(frozen=True, slots=True)
class Advance:
    """The consequences of one step of a run."""

    items: tuple[WorkItem, ...] = ()  # files that are in flight now: the caller publishes them
    is_over: bool = False  # the step counted the last file: the run is complete
    next_run: RunId | None = None  # the queued run of the repository that became active


class Runs(Protocol):
    """The life cycle of runs. One run per repository is active at a time; the others queue."""

    def create(
        self,
        repository: RepositoryName,
        ref: RefName,
        *,
        reprocess: Collection[Reprocess] = (),
        kind: RunKind = RunKind.INDEX,
    ) -> Run:
        """Create a run, active (PULLING) or QUEUED, or return the queued run of ref and kind.

        A queued run that is returned reprocesses the files of both requests. A run that only writes
        new groups does not pull, so only requests for such a run share it.
        """

    def run(self, run: RunId) -> Run | None: ...

    def recent(self, visible: Visibility, *, limit: int = 20) -> tuple[Run, ...]:
        """Return the latest runs of the visible repositories, newest first.

        Finished runs that only planned are left out, because they say nothing about the index.
        """

    def claim(self, run: RunId, *, worker: str) -> int:
        """Claim the pull of a run; return the number of the attempt, from 1.

        HELD: a live worker has it, or the run is not PULLING.
        """

    def unclaim(self, run: RunId, *, worker: str, for_s: float, reason: str) -> None:
        """Release this worker's claim of a pull, without counting an attempt.

        Its message is delivered again in `for_s` seconds. Until the pull is claimed again, `reason`
        is shown as what the run waits for.
        """

    def end(
        self, run: RunId, state: RunState, error: str = "", *, withdraws: bool = False
    ) -> RunId | None:
        """End the run as FAILED or CANCELLED and return the queued run that became active, if any.

        With `withdraws`, and for a run of the kind TRIAL, the repository is unregistered if it has
        no ref and no other run. It is then among `being_removed`, and its ended runs stay. Workers
        drop its files in flight when they next report. A run that is over stays as it is.
        """

    def end_planned(
        self, run: RunId, estimate: Estimate, *, revision: Revision, ref: RefName
    ) -> RunId | None:
        """End a pulling run as PLANNED with its estimate, like `end`.

        Nothing of the repository changes. `ref`: see `Run.resolved`.
        """

    def active(self, repository: RepositoryName) -> RunId | None:
        """Return the run of the repository that is PULLING or INDEXING, if there is one."""

    def stalled(self) -> tuple[RunId, ...]:
        """Return the runs in PULLING that no live worker has claimed: send their pulls again."""

    def supersede(self) -> tuple[RunId, ...]:
        """End runs for which a newer one of their ref is next, and return the newer ones.

        These became active: send their pulls. A run is ended as CANCELLED when it has indexed for
        SUPERSEDE_S, and for as long as its planning took, so that continuous pushes do not keep a
        repository from being indexed. What it has indexed stays. A run that processes unchanged
        files again is never ended, and supersedes no other.
        """

    def successor(self, run: RunId) -> RunId | None:
        """Return the run that superseded this one."""


class Feeder(Protocol):
    """The files of a run. A window of them is in flight, and each is counted exactly once.

    `plan` stores the files; `plan` and `done` return the next ones to publish, and `unsent` returns
    those of a plan whose worker died before it published them. A worker claims a file with `begin`
    and reports it with `done`. Every step is atomic. The step that counts the last file also
    completes the run and publishes its revision.
    """

    def plan(
        self, run: RunId, manifest: FileManifest, *, ref: RefName, fingerprint: str
    ) -> Advance:
        """Store manifest and file records, start the run, and return the first window of files.

        A file that is INDEXED with the same content keeps its record, marked as due, until it is
        done again: it stays in the index meanwhile. A rebuild drops the old records and gives the
        ref the new fingerprint at once, because its records now describe a new index. A file to
        remove has a record, PENDING without a blob, until it is removed. Idempotent while the run
        is PULLING; has no effect on any other run.

        The repository gets the manifest's groups if the index holds nothing of it: no ref
        of it was ever planned.
        """

    def unsent(self, run: RunId) -> Advance | None:
        """Return what the plan of the run has returned, if a worker may not have published it.

        It has the files in flight that no worker has claimed, each with the stage where it waits,
        and the next run while that is PULLING. None after `mark_sent`, and for a run that has no
        plan, FAILED, or was CANCELLED.
        """

    def mark_sent(self, run: RunId) -> None:
        """Record that the consequences of the run's plan have been published."""

    def begin(
        self,
        run: RunId,
        paths: Sequence[str],
        *,
        worker: str,
        stage: str,
        yields: bool = False,
    ) -> tuple[int, ...]:
        """Claim in-flight files for a stage; return the number of the attempt for each, from 1.

        HELD: a live worker has the file, so drop the message. NOT_IN_FLIGHT: the file is already
        counted, or the run is over; drop the message and the file's stage outputs. Attempts are
        counted per stage.

        The time until the files are passed on or done is added to what the run has spent at the
        stage, divided by the weight of the run; files that are claimed together are worked on
        together, so each adds its part.
        `yields`: nothing is claimed, and the results are AHEAD, if the run has spent AHEAD_MS more
        at the stage than another run that has files there. A run that is new there starts from the
        spent time of the run that was the last one to begin files there. Bulk runs, those of more
        than BULK_FILES files unless their manifest says otherwise, share the stage among
        themselves, and are AHEAD while another run has files there, unless they are owed a turn.
        Runs that are not bulk never wait for them.
        """

    def owes(self, stage: str) -> bool:
        """Return whether it is the turn of bulk runs that wait at a stage.

        It is when other runs have files there too, and have spent BULK_SHARE times as much time.
        The debt of bulk runs for time beyond their share is at most BULK_DEBT_MS.
        """

    def pass_on(self, run: RunId, paths: Sequence[str], *, stage: str) -> None:
        """Release the claims of files whose messages are about to wait in the queue of a stage.

        A broker may lose a message that a dying worker had just taken; `reap` finds files that wait
        without a claim. Has no effect on files that are not in flight.
        """

    def put_off(
        self, run: RunId, paths: Sequence[str], *, worker: str, for_s: float, reason: str
    ) -> None:
        """Release this worker's claims because a server is unreachable; count no attempt.

        The messages are delivered again in `for_s` seconds, to any worker. Has no effect on files
        that this worker has not claimed. Until a file of the run is done, `reason` is shown as what
        the run waits for.
        """

    def done(self, run: RunId, records: Sequence[FileRecord]) -> Advance:
        """Count files as INDEXED, FAILED, SKIPPED, or removed (state PENDING without a blob).

        Each file is counted once. A SKIPPED file moves from the run's total to its skipped files.
        """

    def heartbeat(self, worker: str) -> None:
        """Record that this worker is alive; others may take over the claims of a silent worker."""

    def retire(self, worker: str) -> None:
        """Record that this worker has ended: it counts as silent from now on."""

    def reap(self, *, waiting: Mapping[str, int]) -> Mapping[RunId, tuple[WorkItem, ...]]:
        """Return the files to publish again, because their worker or their message is lost.

        `waiting`: the number of messages per queue; queues are named after stages. The message of
        an unclaimed file counts as lost only when its queue is empty.
        """


class Files(Protocol):
    """The file records of each ref."""

    def all(self, repository: RepositoryName, ref: RefName) -> Iterator[FileRecord]:
        """Yield all records of the ref, in any order."""

    def records(
        self, repository: RepositoryName, ref: RefName, paths: Sequence[str]
    ) -> Mapping[str, FileRecord]:
        """Return the records of the paths that have one, in one round trip."""

    def with_state(
        self, repository: RepositoryName, *states: FileState
    ) -> Iterable[tuple[RefName, FileRecord]]:
        """Return the records of all refs that are in one of the states, by ref and path."""

    def invalidate(self, repository: RepositoryName, ref: RefName, paths: Sequence[str]) -> bool:
        """Make the next run of the ref compare all files and index these again.

        INDEXED ones become PENDING. Returns False, without a change, while a run of the repository
        is active.
        """

    def exists(
        self, repository: RepositoryName, ref: RefName, paths: Sequence[str]
    ) -> frozenset[str]:
        """Return the paths that are files of the ref, in one round trip.

        The answer does not change during a run: it includes files that are not indexed yet, are
        skipped, or have failed, and excludes files that this run removes.
        """


class Ledger(Catalog, Runs, Feeder, Files, Protocol):
    """The job ledger: one object that implements all four ports."""

    def restamp(self, before: str, after: str) -> None:
        """Replace the ending `before` by `after` in the fingerprints of all refs and active runs.

        Called after the whole index was rebuilt for another embedder.
        """

    def recover(self, *, generation: int) -> None:
        """Make a restored ledger consistent; it may have been copied key by key while in use.

        Restarts active runs, recomputes counts from the file records, and raises the generation to
        at least the given one.
        """
