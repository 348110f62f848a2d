"""The ports of the job ledger: repositories, runs, the files of a run, and file records.

The ledger is the source of truth of indexing. `RedisLedger` implements all of these ports, and
`MemoryLedger` is its in-memory twin.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from codelode import jobs
from codelode.access import Visibility
from codelode.model import (
    BlobId,
    FileRecord,
    FileState,
    RefName,
    RefStatus,
    Repository,
    RepositoryName,
    Reprocess,
    Revision,
    Run,
    RunId,
    RunState,
)


class Catalog(Protocol):
    """Which repositories there are, and what of them is indexed."""

    def register(self, repository: Repository) -> None:
        """Add the repository, without patterns, or update its URL and default ref only."""

    def set_patterns(
        self,
        name: RepositoryName,
        *,
        include: Sequence[str] | None = None,
        exclude: Sequence[str] | None = None,
    ) -> None:
        """Let these be the patterns of a registered repository; None: those it has stay.

        What is indexed follows with the next run of each ref.
        """

    def get(self, name: RepositoryName) -> Repository | None: ...

    def repositories(self) -> tuple[Repository, ...]:
        """All repositories, by name."""

    def refs(self, name: RepositoryName) -> tuple[RefStatus, ...]:
        """The refs of a repository that a run was ever started for, default first."""

    def refs_of(self, names: Sequence[RepositoryName]) -> tuple[tuple[RefStatus, ...], ...]:
        """The same of each repository, in two round trips; unknown ones have none."""

    def unregister(self, name: RepositoryName) -> None:
        """Remove the repository with its refs, file records and runs. Unknown: no error.

        The name is `being_removed` until `removal_finished` says that its index is gone too.
        """

    def mark_for_removal(self, name: RepositoryName) -> bool:
        """Let a name that is not registered be `being_removed`; False, and nothing done: it is."""

    def being_removed(self) -> frozenset[RepositoryName]:
        """Removed repositories of which something is still stored. No run of them may start."""

    def removal_finished(self, name: RepositoryName) -> None:
        """Nothing is stored of the removed repository any more."""

    def generation(self) -> int:
        """A number that grows whenever a search could answer differently."""


@dataclass(frozen=True, slots=True)
class WorkItem:
    """One file of a run: to index, or (`blob` empty) to remove from the ref."""

    path: str
    blob: BlobId
    size_bytes: int = 0
    stage: str = ""  # where it goes on; empty: at the first stage

    @property
    def is_removal(self) -> bool:
        return not self.blob

    @property
    def queue(self) -> str:
        """Where its message waits."""
        return self.stage or (jobs.STORE if self.is_removal else jobs.PARSE)


@dataclass(frozen=True, slots=True)
class FileManifest:
    """What a pull found: the files to work on and the files left out with their reasons.

    A file that was indexed and is left out now is in both.
    """

    revision: Revision
    items: tuple[WorkItem, ...]
    skipped: tuple[FileRecord, ...] = ()
    patterns: str = ""  # digest of the repository's patterns that it was made with
    is_rebuild: bool = False  # the index does not hold what the ref's records say


@dataclass(frozen=True, slots=True)
class Advance:
    """What follows from a step of a run. Items are in flight already: publish them."""

    items: tuple[WorkItem, ...] = ()
    is_over: bool = False  # this step counted the last file: the run is complete
    next_run: RunId | None = None  # the run of the same repository that is active now


class Runs(Protocol):
    """The life of runs. One run of a repository is active at a time; others queue behind it."""

    def create(
        self, repository: RepositoryName, ref: RefName, *, reprocess: Collection[Reprocess] = ()
    ) -> Run:
        """A new run, active (PULLING) or QUEUED; or the queued run of the same ref.

        That run then reprocesses the files of both requests.
        """

    def run(self, run: RunId) -> Run | None: ...

    def recent(self, visible: Visibility, *, limit: int = 20) -> tuple[Run, ...]:
        """The latest runs of the visible repositories, newest first."""

    def claim(self, run: RunId, *, worker: str) -> bool:
        """Claim the pull of an active run; False when a live worker has it or it is not PULLING."""

    def unclaim(self, run: RunId, *, worker: str, for_s: float, reason: str) -> None:
        """Give up the pull, if this worker has it: its message comes to any worker in `for_s`.

        The run waits for the `reason` until its pull is claimed again.
        """

    def end(self, run: RunId, state: RunState, error: str = "") -> RunId | None:
        """End the run as FAILED or CANCELLED. Returns the run that is active now, if one waited.

        Its files in flight are dropped when they next report. No effect on a run that is over.
        """

    def active(self, repository: RepositoryName) -> RunId | None:
        """The run of the repository that is PULLING or INDEXING, if there is one."""

    def stalled(self) -> tuple[RunId, ...]:
        """Runs in PULLING that no live worker has claimed: their pull should be sent again."""


#: What `Feeder.begin` says of a file instead of the number of an attempt.
HELD, NOT_IN_FLIGHT = 0, -1


class Feeder(Protocol):
    """The files of a run: a window of them in flight, each counted exactly once.

    `plan` stores them, `plan` and `done` hand out the next ones, a worker claims one with
    `begin`, and it leaves by `done`. Every step is atomic. With its last file the run is
    complete and its revision published in the same step.
    """

    def plan(
        self, run: RunId, manifest: FileManifest, *, ref: RefName, fingerprint: str
    ) -> Advance:
        """Store manifest and file records, open the run, hand out the first window.

        A file that is INDEXED with the same content keeps its record, marked as due, until it is
        done again: it stays in the index meanwhile. For a rebuild the old records are dropped and
        the ref gets the new fingerprint at once, because its records now describe a new index.
        Idempotent while the run is PULLING; on any other run it changes nothing.
        """

    def begin(
        self, run: RunId, paths: Sequence[str], *, worker: str, stage: str
    ) -> tuple[int, ...]:
        """Claim in-flight files for a stage; for each the number of this attempt, from 1.

        HELD: drop the message, a live worker has the file. NOT_IN_FLIGHT: drop it and what is kept
        of the file, it is counted already or the run is over. Attempts are counted per stage:
        going on to the next one starts at 1 again.
        """

    def pass_on(self, run: RunId, paths: Sequence[str], *, stage: str) -> None:
        """Give up the claims: the files' messages are about to wait in the queue of a stage.

        A broker may lose a message that a dying worker had just taken. Files that wait without
        a claim are found by `reap`. Files not in flight are left alone.
        """

    def put_off(
        self, run: RunId, paths: Sequence[str], *, worker: str, for_s: float, reason: str
    ) -> None:
        """Give up this worker's claims: a server is away, the messages come again in `for_s`.

        Any worker may take them then, and what was begun in vain was no attempt. Files that this
        worker has not claimed are left alone. The run waits for the `reason` until a file is done.
        """

    def done(self, run: RunId, records: Sequence[FileRecord]) -> Advance:
        """Count files as INDEXED, FAILED, SKIPPED or (state PENDING, no blob) removed, once each.

        SKIPPED ones leave the total: they are among those left out.
        """

    def heartbeat(self, worker: str) -> None:
        """This worker lives; claims of workers that stop saying so can be taken over."""

    def reap(self, *, waiting: Mapping[str, int]) -> Mapping[RunId, tuple[WorkItem, ...]]:
        """Files to publish again: their worker is gone, or their message is lost.

        `waiting`: messages per queue (named as stages); an unclaimed file is only lost when
        nothing waits in its queue.
        """


class Files(Protocol):
    """File records of a ref."""

    def all(self, repository: RepositoryName, ref: RefName) -> Iterator[FileRecord]:
        """Every record, in any order."""

    def records(
        self, repository: RepositoryName, ref: RefName, paths: Sequence[str]
    ) -> Mapping[str, FileRecord]:
        """The records of those of the paths that have one, in one round trip."""

    def with_state(
        self, repository: RepositoryName, *states: FileState
    ) -> Iterable[tuple[RefName, FileRecord]]:
        """Records of all refs in one of the states, by ref and path."""

    def invalidate(self, repository: RepositoryName, ref: RefName, paths: Sequence[str]) -> bool:
        """Let the next run of the ref compare every file and index these again.

        Those INDEXED become PENDING. False, and nothing is changed, while a run of the repository
        is active.
        """

    def exists(
        self, repository: RepositoryName, ref: RefName, paths: Sequence[str]
    ) -> frozenset[str]:
        """Those of the paths that are files of the ref, in one round trip.

        The answer is the same all through a run: whether the files are indexed yet, are skipped
        or have failed makes no difference, and what leaves the ref with this run is out of it.
        """


class Ledger(Catalog, Runs, Feeder, Files, Protocol):
    """The job ledger: one object, four ports."""

    def restamp(self, before: str, after: str) -> None:
        """What was indexed under a fingerprint that ends in `before` has one that ends in `after`.

        For refs and for runs under way, after the whole index was built anew.
        """

    def recover(self, *, generation: int) -> None:
        """Make sense of a ledger that was read key by key while it was in use, or long ago.

        Runs under way begin again, counts are those of the records, the generation is at least
        the given one.
        """
