"""Bring the shadow index up to date with the ledger, pass by pass, until the swap."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from typing import Protocol, TypeVar

import structlog

from codelode.backends import engine
from codelode.counts import counted
from codelode.covers import Groups
from codelode.errors import Busy, Corrupt, Rejected, Unavailable
from codelode.ledger import Ledger
from codelode.model import (
    DEFAULT_REF,
    FileChunks,
    FileRecord,
    FileState,
    RefName,
    RefStatus,
    Repository,
    RepositoryName,
    RepositoryRef,
)
from codelode.ports import ChunkStore, Derivations, Embedder
from codelode.vectors import Vectors
from workers import wire
from workers.embed import embed
from workers.parse import own_queries
from workers.reindex.content import Content, Contents, IndexedFile, is_query
from workers.reindex.stored_summaries import StoredSummaries
from workers.retry import MAX_RETRIES, backoff
from workers.store import StoredFile, file_chunks, refs_of

#: Files per call of the model and per commit.
BATCH_FILES = 128

#: The swap follows the first pass with at most FEW_CHANGES changes, or pass number MOST_LOOKS.
FEW_CHANGES = 500
MOST_LOOKS = 10

#: Suffix of the note of a file that is also at the default ref.
_DEFAULT_MARK = "*"

T = TypeVar("T")

log = structlog.get_logger("workers")


class Hold(Protocol):
    def check(self) -> None:
        """Raise Unavailable if the lock was lost."""


class IndexSwap(Protocol):
    """The part of `codelode.backends.redis.index_swap` that a rebuild uses."""

    def target(self) -> Mapping[str, str]: ...
    def refs(self) -> set[RepositoryRef]: ...
    def built(self, place: RepositoryRef) -> dict[str, str]: ...
    def note(
        self, place: RepositoryRef, built: Mapping[str, str], *, gone: tuple[str, ...] = ()
    ) -> None: ...
    def drop_ref(self, place: RepositoryRef) -> None: ...
    def alone(self) -> AbstractContextManager[Hold]: ...
    def forget(self) -> None: ...


class Missing(Corrupt):
    """The new index would lack indexed files, or summaries of them."""


@dataclass(frozen=True, slots=True)
class Progress:
    done: int
    total: int


@dataclass(frozen=True, slots=True)
class _Plan:
    """The work for one ref: stale files with their new notes, and removed files.

    `leaving`: path → note of a removed file.
    """

    place: RepositoryRef
    refs: tuple[RefName, ...]
    stale: Sequence[FileRecord]
    leaving: Mapping[str, str]
    notes: Mapping[str, str] = field(default_factory=dict)
    queries: Sequence[FileRecord] = ()
    groups: Groups = ()  # of the repository
    kept: int = 0


@dataclass(slots=True)
class Build:
    """Builds the shadow index into `store`, and calls `tell` with its progress.

    `stored_summaries`: those of the published index. `shadow`: the index of `store`. `may_lack`:
    whether the new index may lack files and summaries that cannot be copied.
    """

    ledger: Ledger
    swap: IndexSwap
    contents: Contents
    stored_summaries: StoredSummaries
    embedder: Embedder
    derivations: Derivations
    shadow: engine.ShadowIndex
    store: ChunkStore
    tell: Callable[[Progress], None]
    sleep: Callable[[float], None] = time.sleep
    may_lack: bool = False
    missing: dict[IndexedFile, str] = field(default_factory=dict)
    #: Files that are left out for now, with the number of summaries that they would lose.
    poorer: dict[IndexedFile, int] = field(default_factory=dict)
    given_up: int = 0  # summaries that the new index lacks, as recorded in the ledger
    _unchanged: dict[RepositoryName, tuple[object, ...]] = field(default_factory=dict)
    _done: int = 0
    _total: int = 0

    def __call__(self, *, before: str) -> None:
        """Build, catch up, and publish. `before`: the identity of the old embedder.

        Raises Missing if files or summaries could not be copied, unless it `may_lack` them. If the
        process dies after publishing, `finish` completes the rebuild.
        """
        for _ in range(MOST_LOOKS):
            if self.look() <= FEW_CHANGES:
                break
        self._require_all()
        self.store.maintain()  # before the lock, because workers wait for it
        with self.swap.alone() as hold:
            self.look(hold)
            self._require_all()
            self.store.close()
            hold.check()
            self.shadow.publish()
            _settle(self.ledger, self.swap, before=before, after=self.embedder.identity)

    def look(self, hold: Hold | None = None) -> int:
        """Update the new index to the current state of the ledger; return the number of changes."""
        repositories = {one.name: one for one in self.ledger.repositories()}
        gone = {name for name, _ in self.swap.refs()} - repositories.keys()
        self._forgive(gone)
        self._count(repositories)
        return sum(map(self._drop, gone)) + sum(
            self._repository(repository, hold) for repository in repositories.values()
        )

    def _repository(self, repository: Repository, hold: Hold | None) -> int:
        """Update the refs of a repository; removals first, as the default ref may have changed."""
        refs = self.ledger.refs(repository.name)
        state = (repository.default_ref, refs, self.ledger.groups_of(repository.name))
        is_settled = all(ref.is_clean for ref in refs)
        if is_settled and self._unchanged.get(repository.name) == state:
            self._tell(sum(ref.files for ref in refs))
            return 0
        self._forgive({repository.name})
        plans = [self._plan(repository, ref.ref) for ref in refs] + self._left(repository, refs)
        for plan in plans:
            self._take_out(plan)
        for plan in plans:
            self._tell(plan.kept)
            for some in _batches(plan.stale, BATCH_FILES):
                if hold is not None:
                    hold.check()
                self._bring_in(plan, some)
                self._tell(len(some))
        if is_settled:
            self._unchanged[repository.name] = state
        return sum(len(plan.stale) + len(plan.leaving) for plan in plans)

    def _plan(self, repository: Repository, ref: RefName) -> _Plan:
        place = (repository.name, ref)
        refs = refs_of(ref, default=repository.default_ref)
        built = self.swap.built(place)
        records = {one.path: one for one in self.ledger.all(*place)}
        queries = sorted(filter(is_query, records.values()), key=lambda one: one.path)
        groups = self.ledger.groups_of(repository.name)  # read after the records, set before them
        shaped_by = self._digest(queries) + "".join(groups)
        wanted = {path: one for path, one in records.items() if _is_held(one)}
        noted = ((path, _note(one, refs, shaped_by)) for path, one in wanted.items())
        notes = {path: note for path, note in noted if built.get(path) != note}
        moved = (path for path in notes if _was_default(built.get(path)))
        leaving = {path: built[path] for path in moved if DEFAULT_REF not in refs}
        leaving |= {path: note for path, note in built.items() if path not in wanted}
        stale = [wanted[path] for path in notes]
        kept = len(wanted) - len(stale)
        return _Plan(place, refs, stale, leaving, notes, queries, groups, kept)

    def _digest(self, queries: Sequence[FileRecord]) -> str:
        """Digest the queries that files are parsed with: the ref's and the operator's."""
        named = [own_queries.digest(self.contents.operators)]
        named += [f"{one.path}\0{one.blob}" for one in queries]
        text = "\0".join(named)
        return hashlib.sha256(text.encode()).hexdigest()[:16] if text else ""

    def _left(self, repository: Repository, refs: Sequence[RefStatus]) -> list[_Plan]:
        """Return plans that remove the files of deleted refs."""
        there = {(repository.name, ref.ref) for ref in refs}
        gone = (at for at in self.swap.refs() if at[0] == repository.name)
        return [_Plan(at, (), [], self.swap.built(at)) for at in gone if at not in there]

    def _forgive(self, names: Collection[RepositoryName]) -> None:
        self.missing = {f: why for f, why in self.missing.items() if f.repository not in names}
        self.poorer = {f: lost for f, lost in self.poorer.items() if f.repository not in names}

    def _count(self, names: Iterable[RepositoryName]) -> None:
        self._total = sum(ref.files for name in names for ref in self.ledger.refs(name))
        self._done = 0
        self._tell(0)

    def _tell(self, files: int) -> None:
        self._done += files
        self.tell(Progress(min(self._done, self._total), self._total))

    def _drop(self, name: RepositoryName) -> int:
        self._trying(lambda: self.store.remove_repository(name))
        refs = [ref for ref in self.swap.refs() if ref[0] == name]
        for ref in refs:
            self.swap.drop_ref(ref)
        return 1

    def _take_out(self, plan: _Plan) -> None:
        name, ref = plan.place
        for some in _batches(list(plan.leaving), BATCH_FILES):
            files = [
                FileChunks(
                    name,
                    path,
                    refs_of(ref, default=ref if _was_default(plan.leaving[path]) else ""),
                )
                for path in some
            ]
            self._trying(partial(self.store.replace, files))
            self.swap.note(plan.place, {}, gone=tuple(some))

    def _bring_in(self, plan: _Plan, records: Sequence[FileRecord]) -> None:
        files = {IndexedFile(plan.place[0], one.path, one.blob): one for one in records}
        contents = self._trying(lambda: self.contents.of(list(files), queries=plan.queries))
        left_out = {file: found for file, found in contents.items() if isinstance(found, str)}
        ready = {file: found for file, found in contents.items() if isinstance(found, Content)}
        ready = self._with_stored_summaries(plan.place, files, ready)
        poorer = self._poorer(plan.place, files, ready)
        ready = {file: found for file, found in ready.items() if file not in poorer}
        left_out |= self._stored(plan, ready)
        for file, why in left_out.items():
            if files[file].state is FileState.INDEXED:
                self.missing[file] = why
        self.poorer |= poorer
        stored = (file.path for file in files if file not in left_out and file not in poorer)
        self.swap.note(plan.place, {path: plan.notes[path] for path in stored})

    def _with_stored_summaries(
        self,
        place: RepositoryRef,
        files: Mapping[IndexedFile, FileRecord],
        found: Mapping[IndexedFile, Content],
    ) -> dict[IndexedFile, Content]:
        """Add summaries of the published index to files that have fewer than are stored there."""
        short = [file for file, one in found.items() if one.summaries.made < files[file].summaries]
        paths = [file.path for file in short]
        known = self._trying(lambda: self.stored_summaries.of(*place, paths)) if short else {}
        filled = {file: found[file].filled(known.get(file.path, ())) for file in short}
        return {**found, **filled}

    def _poorer(
        self,
        place: RepositoryRef,
        files: Mapping[IndexedFile, FileRecord],
        found: Mapping[IndexedFile, Content],
    ) -> dict[IndexedFile, int]:
        """Return the files to leave out, with the number of summaries that each would lose.

        If it `may_lack` them, no file is left out. Instead, the files are invalidated in the
        ledger, so that the next run of the ref reprocesses them. Raises Busy while a run is active,
        because the ledger cannot invalidate its files.
        """
        lost = {
            file: files[file].summaries - one.summaries.made
            for file, one in found.items()
            if files[file].state is FileState.INDEXED and one.summaries.made < files[file].summaries
        }
        if not lost or not self.may_lack:
            return lost
        if not self.ledger.invalidate(*place, [file.path for file in lost]):
            raise Busy(
                f"{place[0]} loses {counted(sum(lost.values()), 'summary')}, which can be recorded "
                "only between two runs: run the command again when the active run has ended"
            )
        self.given_up += sum(lost.values())
        return {}

    def _stored(self, plan: _Plan, files: Mapping[IndexedFile, Content]) -> dict[IndexedFile, str]:
        """Store the files; return the reason for each refused one."""
        if not files:
            return {}
        try:
            self._trying(lambda: self._store(plan, files))
        except (Rejected, ValueError) as exc:
            if len(files) == 1:
                return dict.fromkeys(files, str(exc))
            return {
                file: why
                for one in files.items()
                for file, why in self._stored(plan, dict([one])).items()
            }
        return {}

    def _store(self, plan: _Plan, files: Mapping[IndexedFile, Content]) -> None:
        vectors = embed(
            [(file.path, found.parsed, found.summaries) for file, found in files.items()],
            embedder=self.embedder,
            known=self.derivations,
        )
        self.store.replace(
            [
                file_chunks(
                    StoredFile(
                        file.repository,
                        file.path,
                        file.blob,
                        plan.refs,
                        groups=plan.groups,
                        parsed=found.parsed,
                        vectors=self._rounded(rows),
                        summaries=found.summaries,
                    )
                )
                for (file, found), rows in zip(files.items(), vectors, strict=True)
            ]
        )

    def _rounded(self, rows: Vectors) -> Vectors:
        """Round vectors to half precision, as indexing does, so that both give the same index."""
        return wire.load_vectors(wire.dump_vectors(rows), dim=self.embedder.dim)

    def _trying(self, work: Callable[[], T]) -> T:
        """Do the work, and retry it after a pause while a server is unavailable."""
        for retry in range(MAX_RETRIES):
            try:
                return work()
            except Unavailable as exc:
                pause_s = backoff(retry)
                log.warning("rebuild_waits", reason=str(exc), seconds=round(pause_s, 1))
                self.sleep(pause_s)
        return work()

    def _require_all(self) -> None:
        if self.may_lack:
            return
        if self.poorer:
            file = next(iter(self.poorer))
            raise Missing(
                f"{counted(sum(self.poorer.values()), 'summary')} of "
                f"{counted(len(self.poorer), 'file')} would be lost, such as those of "
                f"{file.repository} {file.path}: they cannot be read from the published index, and "
                "the cache has lost them or their language model does not answer. Run the command "
                "again when it answers, or leave them out with --skip-missing and write them again "
                "with `codelode enrich`"
            )
        if self.missing:
            file, why = next(iter(self.missing.items()))
            raise Missing(
                f"{counted(len(self.missing), 'indexed file')} cannot be copied, such as "
                f"{file.repository} {file.path}: {why}; index their repositories and run the "
                "command again, or leave them out with --skip-missing"
            )


def finish(ledger: Ledger, swap: IndexSwap, shadow: engine.ShadowIndex, *, published: str) -> None:
    """Finish a rebuild that died after publishing, if there is one.

    `published`: the name of the published index. May be repeated.
    """
    target = swap.target()
    if target and target["name"] == published:
        after = shadow.replaces()
        _settle(ledger, swap, before=target.get("replaces", after), after=after)


def _settle(ledger: Ledger, swap: IndexSwap, *, before: str, after: str) -> None:
    """Replace the embedder's identity in the ledger's fingerprints after publishing.

    The identity is the last part of a fingerprint. The separator before it is also matched, because
    one identity may end like another.
    """
    ledger.restamp(f", {before}", f", {after}")
    swap.forget()


def _is_held(record: FileRecord) -> bool:
    """Return whether the old index may have the file, even after an abandoned run."""
    is_held = record.state in (FileState.INDEXED, FileState.PENDING) or record.chunks > 0
    return bool(record.blob) and is_held


def _note(record: FileRecord, refs: tuple[RefName, ...], shaped_by: str) -> str:
    """Return the note on a file; if it changes, the file is built again.

    It has the blob, the number of summaries (which may be added later, as by `codelode enrich`, but
    are never replaced), the digest of the queries with the groups, and whether the file is at the
    default ref.
    """
    made = f"{record.summaries}/{record.summaries_missing}"
    mark = _DEFAULT_MARK if DEFAULT_REF in refs else ""
    return f"{record.blob} {made} {shaped_by}{mark}"


def _was_default(note: str | None) -> bool:
    return note is not None and note.endswith(_DEFAULT_MARK)


def _batches(items: Sequence[T], size: int) -> Iterator[list[T]]:
    remaining = iter(items)
    while some := list(islice(remaining, size)):
        yield some
