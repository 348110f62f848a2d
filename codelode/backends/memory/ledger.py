"""The in-memory twin of the job ledger: Catalog, Runs, Feeder, and Files in one object.

A lock around every method makes each step atomic, as Lua scripts do in Redis. The clock is an
argument, so that a test can let workers and leases expire without waiting.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import wraps
from typing import Any, TypeVar, cast
from uuid import uuid4

from codelode.access import Label, Visibility
from codelode.backends.memory.fair_shares import FairShares
from codelode.covers import UNGROUPED, Grouped, Groups
from codelode.estimates import Estimate
from codelode.ledger import (
    AHEAD,
    HELD,
    NOT_IN_FLIGHT,
    SUPERSEDE_S,
    Advance,
    FileManifest,
    WorkItem,
)
from codelode.model import (
    BlobId,
    FilePatterns,
    FileRecord,
    FileState,
    LanguageHealth,
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
from codelode.stages import FILE_STAGES, Stage, begins_at

Method = TypeVar("Method", bound=Callable[..., Any])


@dataclass(slots=True)
class _InFlight:
    item: WorkItem
    since: float
    stage: str = ""
    attempts: int = 0
    worker: str = ""  # empty: its message waits in a queue
    share: float = 0.0  # fraction of the time since `since` that counts for this file


@dataclass(slots=True)
class _Plan:
    """The remaining work of a run."""

    todo: list[WorkItem] = field(default_factory=list)
    in_flight: dict[str, _InFlight] = field(default_factory=dict)
    fingerprint: str = ""
    patterns: str = ""
    committed_at: float = 0.0
    weight: int = 1
    owner: str = ""  # the worker that pulls it
    since: float = 0.0
    claimed: float = 0.0
    planned: float = 0.0
    attempts: int = 0  # claims of the pull


def _atomic(method: Method) -> Method:
    @wraps(method)
    def locked(self: MemoryLedger, *args: Any, **kwargs: Any) -> Any:
        with self._lock:
            return method(self, *args, **kwargs)

    return cast("Method", locked)


class MemoryLedger:
    """Implements the port Ledger.

    `now` returns seconds since the epoch. The other arguments are those of `RedisLedger`.
    """

    def __init__(
        self,
        *,
        window: int = 128,
        requeue_s: float = 20.0,
        lease_s: float = 300.0,
        worker_ttl_s: float = 9.0,
        supersede_s: float = SUPERSEDE_S,
        now: Callable[[], float] = time.time,
        stages: Sequence[Stage] = FILE_STAGES,
    ) -> None:
        self._window = window
        self._requeue_s = requeue_s
        self._lease_s = lease_s
        self._worker_ttl_s = worker_ttl_s
        self._supersede_s = supersede_s
        self._now = now
        self._stages = stages
        self._lock = threading.RLock()
        self._repositories: dict[RepositoryName, Repository] = {}
        self._groups: dict[RepositoryName, Grouped] = {}
        self._access_globs: tuple[tuple[str, ...], ...] = ()
        self._successors: dict[RunId, RunId] = {}
        self._sent: set[RunId] = set()
        self._refs: dict[RepositoryName, dict[RefName, RefStatus]] = {}
        self._files: dict[RepositoryRef, dict[str, FileRecord]] = {}
        self._runs: dict[RunId, Run] = {}  # in order of creation
        self._plans: dict[RunId, _Plan] = {}
        self._active: dict[RepositoryName, RunId] = {}
        self._waiting: dict[RepositoryName, list[RunId]] = {}
        self._leaving: set[RepositoryName] = set()
        self._leaving_refs: set[RepositoryRef] = set()
        self._beats: dict[str, float] = {}
        self._generation = 0
        self._shares = FairShares()

    # Catalog

    @_atomic
    def register(self, repository: Repository) -> None:
        known = self._repositories.get(repository.name)
        kept = known or Repository(repository.name, repository.url)
        self._repositories[repository.name] = replace(
            repository, patterns=kept.patterns, label=kept.label
        )

    @_atomic
    def set_patterns(
        self,
        name: RepositoryName,
        *,
        include: Sequence[str] | None = None,
        exclude: Sequence[str] | None = None,
    ) -> None:
        known = self._repositories.get(name)
        if known is None:
            return
        kept = known.patterns
        patterns = FilePatterns(
            kept.include if include is None else tuple(include),
            kept.exclude if exclude is None else tuple(exclude),
        )
        self._repositories[name] = replace(known, patterns=patterns)

    @_atomic
    def set_label(self, name: RepositoryName, label: Label | None) -> None:
        known = self._repositories.get(name)
        if known is not None:
            self._repositories[name] = replace(known, label=label)

    @_atomic
    def labels(self) -> Mapping[RepositoryName, Label | None]:
        return {name: repository.label for name, repository in self._repositories.items()}

    @_atomic
    def urls(self) -> Mapping[RepositoryName, str]:
        return {name: repository.url for name, repository in self._repositories.items()}

    @_atomic
    def set_access_globs(self, lists: Sequence[tuple[str, ...]]) -> None:
        self._access_globs = tuple(lists)

    @_atomic
    def access_globs(self) -> tuple[tuple[str, ...], ...]:
        return self._access_globs

    @_atomic
    def groups(self) -> Mapping[RepositoryName, Grouped]:
        return dict(self._groups)

    @_atomic
    def groups_of(self, name: RepositoryName) -> Groups:
        return self._groups.get(name, UNGROUPED).written

    @_atomic
    def suspend_groups(self, names: Sequence[RepositoryName]) -> None:
        for name in names:
            known = self._groups.get(name, UNGROUPED)
            if self._refs.get(name) and not known.is_suspended:
                self._groups[name] = known._replace(former=known.written)
        self._generation += 1

    @_atomic
    def set_groups(self, name: RepositoryName, groups: Groups) -> None:
        known = self._groups.get(name, UNGROUPED)
        if known.is_suspended:
            self._groups[name] = Grouped(groups, known.possible)
            self._generation += 1

    @_atomic
    def settle_groups(self, name: RepositoryName, groups: Groups) -> bool:
        known = self._groups.get(name, UNGROUPED)
        if not known.is_suspended or known.written != groups:
            return False
        self._groups[name] = Grouped(groups)
        self._generation += 1
        return True

    @_atomic
    def get(self, name: RepositoryName) -> Repository | None:
        return self._repositories.get(name)

    @_atomic
    def get_all(self, names: Sequence[RepositoryName]) -> tuple[Repository | None, ...]:
        return tuple(map(self._repositories.get, names))

    @_atomic
    def names(self) -> tuple[RepositoryName, ...]:
        return tuple(sorted(self._repositories))

    @_atomic
    def repositories(self) -> tuple[Repository, ...]:
        return tuple(sorted(self._repositories.values(), key=lambda found: found.name))

    @_atomic
    def refs(self, name: RepositoryName) -> tuple[RefStatus, ...]:
        repository = self._repositories.get(name)
        default = repository.default_ref if repository else ""
        counted = [self._counted(name, status) for status in self._refs.get(name, {}).values()]
        return tuple(sorted(counted, key=lambda status: (status.ref != default, status.ref)))

    @_atomic
    def refs_of(self, names: Sequence[RepositoryName]) -> tuple[tuple[RefStatus, ...], ...]:
        return tuple(map(self.refs, names))

    @_atomic
    def ref_counts(self, names: Sequence[RepositoryName]) -> Mapping[RefName, int]:
        return Counter(ref for name in names for ref in self._refs.get(name, {}))

    @_atomic
    def unregister(self, name: RepositoryName) -> None:
        self._leaving.add(name)
        for run in [run.id for run in self._runs.values() if run.repository == name]:
            del self._runs[run], self._plans[run]
            self._successors.pop(run, None)
            self._sent.discard(run)
            self._shares.forget(run)
        for place in [place for place in self._files if place[0] == name]:
            del self._files[place]
        for rows in (self._repositories, self._groups, self._refs, self._active, self._waiting):
            rows.pop(name, None)
        self._leaving_refs = {place for place in self._leaving_refs if place[0] != name}
        self._generation += 1

    @_atomic
    def mark_for_removal(self, name: RepositoryName) -> bool:
        if name in self._repositories:
            return False
        self._leaving.add(name)
        return True

    @_atomic
    def being_removed(self) -> frozenset[RepositoryName]:
        return frozenset(self._leaving)

    @_atomic
    def removal_finished(self, name: RepositoryName) -> None:
        self._leaving.discard(name)
        self._generation += 1

    @_atomic
    def remove_ref(self, name: RepositoryName, ref: RefName) -> bool:
        known = self._repositories.get(name)
        if known is None or known.default_ref == ref or ref not in self._refs.get(name, {}):
            return False
        del self._refs[name][ref]
        self._leaving_refs.add((name, ref))
        self._generation += 1
        return True

    @_atomic
    def refs_being_removed(self) -> frozenset[RepositoryRef]:
        return frozenset(self._leaving_refs)

    @_atomic
    def ref_removal_finished(self, name: RepositoryName, ref: RefName) -> None:
        self._leaving_refs.discard((name, ref))
        self._files.pop((name, ref), None)
        self._generation += 1

    @_atomic
    def generation(self) -> int:
        return self._generation

    @_atomic
    def restamp(self, before: str, after: str) -> None:
        """See `Ledger`."""
        for refs in self._refs.values():
            for ref, status in refs.items():
                if status.fingerprint.endswith(before):
                    stamped = status.fingerprint.removesuffix(before) + after
                    refs[ref] = replace(status, fingerprint=stamped)
        for run in self._active.values():
            plan = self._plans[run]
            if plan.fingerprint.endswith(before):
                plan.fingerprint = plan.fingerprint.removesuffix(before) + after
        self._generation += 1

    # Runs

    @_atomic
    def create(
        self,
        repository: RepositoryName,
        ref: RefName,
        *,
        reprocess: Collection[Reprocess] = (),
        kind: RunKind = RunKind.INDEX,
    ) -> Run:
        is_free = repository not in self._active
        waiting = self._waiting.setdefault(repository, [])
        for queued in waiting:
            known = self._runs[queued]
            is_same = (known.ref, known.kind) == (ref, kind)
            if is_same and _is_of_groups(known.reprocess) == _is_of_groups(reprocess):
                both = _together(known.reprocess, reprocess)
                self._runs[queued] = replace(self._runs[queued], reprocess=both)
                return self._runs[queued]
        state = RunState.PULLING if is_free else RunState.QUEUED
        new = RunId(uuid4().hex[:16])
        redo, at = _together(reprocess), self._now()
        run = Run(new, repository, ref, state, reprocess=redo, started_at=at, kind=kind)
        self._runs[run.id] = run
        self._plans[run.id] = _Plan(since=self._now())
        if is_free:
            self._active[repository] = run.id
        else:
            waiting.append(run.id)
        return run

    @_atomic
    def run(self, run: RunId) -> Run | None:
        return self._runs.get(run)

    @_atomic
    def recent(self, visible: Visibility, *, limit: int = 20) -> tuple[Run, ...]:
        listed = (run for run in self._runs.values() if run.repository in visible)
        found = [run for run in listed if run.kind is RunKind.INDEX or not run.state.is_over]
        return tuple(found[::-1][:limit])

    @_atomic
    def claim(self, run: RunId, *, worker: str) -> int:
        if not self._is_in(run, RunState.PULLING):
            return HELD
        plan = self._plans[run]
        if plan.owner != worker and self._is_alive(plan.owner):
            return HELD
        plan.owner, plan.since = worker, self._now()
        plan.claimed = self._now()
        plan.attempts += 1
        self._runs[run] = replace(self._runs[run], waits_for="")
        return plan.attempts

    @_atomic
    def unclaim(self, run: RunId, *, worker: str, for_s: float, reason: str) -> None:
        plan = self._plans.get(run)
        if plan is not None and plan.owner == worker:
            plan.owner, plan.since = "", self._now() + for_s
            plan.attempts -= 1
            self._runs[run] = replace(self._runs[run], waits_for=reason)

    @_atomic
    def end(
        self, run: RunId, state: RunState, error: str = "", *, withdraws: bool = False
    ) -> RunId | None:
        found = self._runs.get(run)
        if found is None or found.state.is_over:
            return None
        return self._end(found, state, error, withdraws=withdraws)

    def _end(self, run: Run, state: RunState, error: str, *, withdraws: bool) -> RunId | None:
        following, name = self._close(run, state, error), run.repository
        is_withdrawn = withdraws or run.kind is RunKind.TRIAL
        if is_withdrawn and name not in self._active and not self._refs.get(name):
            self._repositories.pop(name, None)
            self._groups.pop(name, None)
            self._leaving.add(name)
            self._generation += 1
        return following

    @_atomic
    def end_planned(
        self, run: RunId, estimate: Estimate, *, revision: Revision, ref: RefName
    ) -> RunId | None:
        if not self._is_in(run, RunState.PULLING):
            return None
        found = replace(self._runs[run], estimate=estimate, revision=revision, resolved=ref)
        return self._end(found, RunState.PLANNED, "", withdraws=False)

    @_atomic
    def active(self, repository: RepositoryName) -> RunId | None:
        return self._active.get(repository)

    @_atomic
    def stalled(self) -> tuple[RunId, ...]:
        return tuple(
            run
            for run in self._active.values()
            if self._is_in(run, RunState.PULLING)
            and not self._is_alive(self._plans[run].owner)
            and self._age(self._plans[run].since) > self._requeue_s
        )

    @_atomic
    def supersede(self) -> tuple[RunId, ...]:
        became: list[RunId] = []
        for name, active in list(self._active.items()):
            run, newer = self._runs[active], next(iter(self._waiting.get(name, ())), None)
            if newer and self._is_superseded(run, self._runs[newer]):
                self._successors[run.id] = newer
                self._end(run, RunState.CANCELLED, f"superseded by run {newer}", withdraws=False)
                became.append(newer)
        return tuple(became)

    def _is_superseded(self, run: Run, newer: Run) -> bool:
        plan = self._plans[run.id]
        planning_s, indexing_s = plan.planned - plan.claimed, self._age(plan.planned)
        return (
            run.state is RunState.INDEXING
            and run.ref == newer.ref
            and run.kind is newer.kind is RunKind.INDEX
            and not run.reprocess
            and not newer.reprocess
            and indexing_s > max(self._supersede_s, planning_s)
        )

    @_atomic
    def successor(self, run: RunId) -> RunId | None:
        return self._successors.get(run)

    # Feeder

    @_atomic
    def plan(
        self, run: RunId, manifest: FileManifest, *, ref: RefName, fingerprint: str
    ) -> Advance:
        if not self._is_in(run, RunState.PULLING):
            return Advance()
        if (self._runs[run].repository, ref) in self._leaving_refs:
            return Advance()
        found = replace(
            self._runs[run],
            state=RunState.INDEXING,
            revision=manifest.revision,
            resolved=ref,
            total=len(manifest.items),
            skipped=len(manifest.skipped),
            notices=manifest.notices,
            is_bulk=manifest.is_bulk,
        )
        self._runs[run] = found
        plan = self._plans[run]
        plan.todo, plan.fingerprint = list(manifest.items), fingerprint
        plan.patterns, plan.committed_at = manifest.patterns, manifest.committed_at
        plan.planned = self._now()
        plan.weight = manifest.share.weight
        self._set_groups(found.repository, manifest.groups)
        self._mark_unclean(found.repository, ref, fingerprint, is_rebuild=manifest.is_rebuild)
        self._record(self._files.setdefault((found.repository, ref), {}), manifest)
        known = self._repositories.get(found.repository)
        if manifest.makes_default and known is not None:
            self._repositories[known.name] = replace(
                known,
                default_ref=ref,
                is_pinned=manifest.is_pinned,
                follows_default=manifest.follows_default,
            )
            if manifest.replaces:
                self.remove_ref(known.name, manifest.replaces)
        return self._advance(found)

    @_atomic
    def unsent(self, run: RunId) -> Advance | None:
        state = self._runs[run].state if run in self._runs else None
        if run in self._sent:
            return None
        if state is RunState.INDEXING:
            waiting = [one for one in self._plans[run].in_flight.values() if not one.worker]
            return Advance(tuple(replace(one.item, stage=one.stage) for one in waiting))
        if state in (RunState.COMPLETE, RunState.PLANNED):
            following = self._active.get(self._runs[run].repository)
            waits = following and self._is_in(following, RunState.PULLING)
            return Advance(
                is_over=state is RunState.COMPLETE, next_run=following if waits else None
            )
        return None

    @_atomic
    def mark_sent(self, run: RunId) -> None:
        if run in self._runs:
            self._sent.add(run)

    @_atomic
    def begin(
        self,
        run: RunId,
        paths: Sequence[str],
        *,
        worker: str,
        stage: str,
        yields: bool = False,
    ) -> tuple[int, ...]:
        in_flight = self._plans[run].in_flight if run in self._plans else {}
        if in_flight and not self._takes_turn(run, stage, yields=yields):
            return (AHEAD,) * len(paths)
        attempts = []
        for entry in map(in_flight.get, paths):
            if entry and not self._is_held(entry, worker, stage):
                self._charge(run, entry)
                self._come(run, stage)
                entry.share = 1 / len(paths)
            attempts.append(self._begin(entry, worker, stage))
        return tuple(attempts)

    @_atomic
    def owes(self, stage: str) -> bool:
        return self._is_shared(stage) and self._shares.owes(stage)

    @_atomic
    def pass_on(self, run: RunId, paths: Sequence[str], *, stage: str) -> None:
        in_flight = self._plans[run].in_flight if run in self._plans else {}
        for entry in (in_flight[path] for path in paths if path in in_flight):
            self._charge(run, entry)
            self._come(run, stage)
            entry.since, entry.stage, entry.attempts, entry.worker = self._now(), stage, 0, ""

    @_atomic
    def put_off(
        self, run: RunId, paths: Sequence[str], *, worker: str, for_s: float, reason: str
    ) -> None:
        until = self._now() + for_s
        in_flight = self._plans[run].in_flight if run in self._plans else {}
        for entry in (in_flight[path] for path in paths if path in in_flight):
            if entry.worker == worker:
                entry.since, entry.attempts, entry.worker = until, entry.attempts - 1, ""
                self._runs[run] = replace(self._runs[run], waits_for=reason)

    @_atomic
    def done(self, run: RunId, records: Sequence[FileRecord]) -> Advance:
        if not self._is_in(run, RunState.INDEXING):
            return Advance()
        counted = [record for record in records if self._leaves(run, record.path)]
        if not counted:
            return Advance()
        found = self._runs[run]
        files = self._files[found.repository, found.resolved]
        for record in counted:
            _settle(files, record)
        failed = sum(record.state is FileState.FAILED for record in counted)
        skipped = sum(record.state is FileState.SKIPPED for record in counted)
        found = replace(
            found,
            total=found.total - skipped,
            failed=found.failed + failed,
            skipped=found.skipped + skipped,
            done=found.done + len(counted) - failed - skipped,
            waits_for="",
            summaries=found.summaries + sum(record.summaries for record in counted),
            summaries_missing=found.summaries_missing
            + sum(record.summaries_missing for record in counted),
        )
        self._runs[run] = found
        self._generation += 1
        return self._advance(found)

    @_atomic
    def heartbeat(self, worker: str) -> None:
        self._beats[worker] = self._now()

    @_atomic
    def retire(self, worker: str) -> None:
        self._beats.pop(worker, None)

    @_atomic
    def reap(self, *, waiting: Mapping[str, int]) -> Mapping[RunId, tuple[WorkItem, ...]]:
        found = {}
        for run in self._active.values():
            lost = [e for e in self._plans[run].in_flight.values() if self._is_lost(e, waiting)]
            for entry in lost:
                self._charge(run, entry)
                entry.since, entry.worker = self._now(), ""
            if lost:
                found[run] = tuple(replace(entry.item, stage=entry.stage) for entry in lost)
        return found

    # Files

    def all(self, repository: RepositoryName, ref: RefName) -> Iterator[FileRecord]:
        with self._lock:
            found = tuple(self._files.get((repository, ref), {}).values())
        yield from found

    @_atomic
    def with_state(
        self, repository: RepositoryName, *states: FileState
    ) -> Iterable[tuple[RefName, FileRecord]]:
        found = [
            (ref, record)
            for (name, ref), files in self._files.items()
            for record in files.values()
            if name == repository and ref in self._refs[name] and record.state in states
        ]
        return sorted(found, key=lambda pair: (pair[0], pair[1].path))

    @_atomic
    def exists(
        self, repository: RepositoryName, ref: RefName, paths: Sequence[str]
    ) -> frozenset[str]:
        files = self._files.get((repository, ref), {})
        return frozenset(path for path in paths if path in files and files[path].blob)

    @_atomic
    def records(
        self, repository: RepositoryName, ref: RefName, paths: Sequence[str]
    ) -> Mapping[str, FileRecord]:
        files = self._files.get((repository, ref), {})
        return {path: files[path] for path in paths if path in files}

    @_atomic
    def invalidate(self, repository: RepositoryName, ref: RefName, paths: Sequence[str]) -> bool:
        if repository in self._active:
            return False
        refs, files = self._refs.get(repository, {}), self._files.get((repository, ref), {})
        if ref not in refs:
            return True
        refs[ref] = replace(refs[ref], is_clean=False)
        self._generation += 1
        for path in paths:
            if path in files and files[path].state is FileState.INDEXED:
                files[path] = FileRecord(path, files[path].blob, FileState.PENDING)
        return True

    # Steps inside the lock

    def _set_groups(self, name: RepositoryName, groups: Groups) -> None:
        if groups and name in self._repositories and not self._refs.get(name):
            self._groups.setdefault(name, Grouped(groups))

    def _come(self, run: RunId, stage: str) -> None:
        self._shares.come(run, stage, is_bulk=self._is_bulk(run))

    def _is_bulk(self, run: RunId) -> bool:
        return run in self._runs and self._runs[run].is_bulk

    def _takes_turn(self, run: RunId, stage: str, *, yields: bool) -> bool:
        kinds, is_bulk = self._kinds_at(stage), self._is_bulk(run)
        return self._shares.takes_turn(run, stage, kinds, is_bulk=is_bulk, yields=yields)

    def _kinds_at(self, stage: str) -> dict[bool, list[RunId]]:
        """Return the runs that have files at the stage, by whether they are bulk."""
        found: dict[bool, list[RunId]] = {}
        for run in self._plans:
            if self._is_at(run, stage):
                found.setdefault(self._is_bulk(run), []).append(run)
        return found

    def _is_shared(self, stage: str) -> bool:
        return len(self._kinds_at(stage)) > 1

    def _is_at(self, run: RunId, stage: str) -> bool:
        there = self._plans[run].in_flight.values()
        return any((one.stage or self._entry(one.item)) == stage for one in there)

    def _charge(self, run: RunId, entry: _InFlight) -> None:
        if entry.worker:
            self._shares.charge(
                run,
                entry.stage,
                1000 * entry.share * max(0.0, self._age(entry.since)),
                weight=self._plans[run].weight,
                is_bulk=self._is_bulk(run),
                is_shared=self._is_shared(entry.stage),
            )

    def _is_in(self, run: RunId, state: RunState) -> bool:
        return run in self._runs and self._runs[run].state is state

    def _age(self, since: float) -> float:
        return self._now() - since

    def _is_alive(self, worker: str) -> bool:
        return worker in self._beats and self._age(self._beats[worker]) < self._worker_ttl_s

    def _counted(self, name: RepositoryName, status: RefStatus) -> RefStatus:
        files = self._files.get((name, status.ref), {}).values()
        states = Counter(record.state for record in files)
        return replace(
            status,
            files=states[FileState.INDEXED],
            skipped=states[FileState.SKIPPED],
            failed=states[FileState.FAILED],
            pending=states[FileState.PENDING],
            chunks=sum(record.chunks for record in files),
            summaries_missing=sum(record.summaries_missing for record in files),
            health=_health(files),
        )

    def _mark_unclean(
        self, name: RepositoryName, ref: RefName, fingerprint: str, *, is_rebuild: bool
    ) -> None:
        """Mark the ref as not clean. `is_rebuild`: its records are now those of `fingerprint`."""
        known = self._refs.setdefault(name, {})
        status = known.get(ref, RefStatus(ref, None, fingerprint))
        named = fingerprint if is_rebuild else status.fingerprint
        known[ref] = replace(status, fingerprint=named, is_clean=False)

    def _record(self, files: dict[str, FileRecord], manifest: FileManifest) -> None:
        """Apply the manifest to the file records.

        The record of a skipped file that is not in the tree any more is deleted. Other files to
        remove become PENDING without a blob until they are removed from the index.
        """
        for item in manifest.items:
            if not item.is_removal:
                known = None if manifest.is_rebuild else files.get(item.path)
                files[item.path] = _planned(item, known)
            elif item.path in files and files[item.path].state is FileState.SKIPPED:
                del files[item.path]
            else:
                files[item.path] = FileRecord(item.path, BlobId(""), FileState.PENDING)
        files.update({record.path: record for record in manifest.skipped})

    def _begin(self, entry: _InFlight | None, worker: str, stage: str) -> int:
        if entry is None:
            return NOT_IN_FLIGHT
        if self._is_held(entry, worker, stage):
            return HELD
        entry.attempts = entry.attempts + 1 if entry.stage == stage else 1
        entry.since, entry.stage, entry.worker = self._now(), stage, worker
        return entry.attempts

    def _is_held(self, entry: _InFlight, worker: str, stage: str) -> bool:
        """Return whether another live worker is at this stage, within its lease."""
        return (
            entry.stage == stage
            and entry.worker != worker
            and self._is_alive(entry.worker)
            and self._age(entry.since) < self._lease_s
        )

    def _is_lost(self, flying: _InFlight, waiting: Mapping[str, int]) -> bool:
        age = self._age(flying.since)
        if flying.worker:
            return age > self._lease_s or not self._is_alive(flying.worker)
        return age > self._requeue_s and not waiting.get(flying.stage or self._entry(flying.item))

    def _entry(self, item: WorkItem) -> str:
        return begins_at(is_removal=item.is_removal, stages=self._stages).name

    def _leaves(self, run: RunId, path: str) -> bool:
        entry = self._plans[run].in_flight.get(path)
        if entry is None:
            return False
        self._charge(run, entry)
        del self._plans[run].in_flight[path]
        return True

    def _advance(self, run: Run) -> Advance:
        items = self._feed(self._plans[run.id])
        for item in items:
            self._come(run.id, self._entry(item))
        if items or self._plans[run.id].in_flight:
            return Advance(items)
        self._publish(run)
        return Advance(is_over=True, next_run=self._close(run, RunState.COMPLETE, ""))

    def _feed(self, plan: _Plan) -> tuple[WorkItem, ...]:
        room = max(0, self._window - len(plan.in_flight))
        items, plan.todo = tuple(plan.todo[:room]), plan.todo[room:]
        plan.in_flight |= {item.path: _InFlight(item, self._now()) for item in items}
        return items

    def _publish(self, run: Run) -> None:
        self._refs[run.repository][run.resolved] = RefStatus(
            run.resolved,
            run.revision,
            self._plans[run.id].fingerprint,
            is_clean=True,
            indexed_at=self._now(),
            patterns=self._plans[run.id].patterns,
            committed_at=self._plans[run.id].committed_at,
        )
        self._generation += 1

    def _close(self, run: Run, state: RunState, error: str) -> RunId | None:
        self._plans[run.id] = _Plan()
        self._shares.forget(run.id)
        self._runs[run.id] = replace(
            run, state=state, error=error, waits_for="", finished_at=self._now()
        )
        if run.state is RunState.QUEUED:
            self._waiting[run.repository].remove(run.id)
            return None
        return self._activate_next(run.repository)

    def _activate_next(self, repository: RepositoryName) -> RunId | None:
        waiting = self._waiting.get(repository, [])
        if not waiting:
            del self._active[repository]
            return None
        following = waiting.pop(0)
        self._active[repository] = following
        self._plans[following].since = self._now()
        self._runs[following] = replace(self._runs[following], state=RunState.PULLING)
        return following


def _planned(item: WorkItem, known: FileRecord | None) -> FileRecord:
    """Return the record of a planned file; indexed content keeps its counts until it is done."""
    if known and known.state is FileState.INDEXED and known.blob == item.blob:
        return replace(known, is_due=True)
    return FileRecord(item.path, item.blob, FileState.PENDING)


def _settle(files: dict[str, FileRecord], record: FileRecord) -> None:
    """Store the record; PENDING means removed, and deletes it unless the file was skipped."""
    if record.state is not FileState.PENDING:
        files[record.path] = record
    elif record.path in files and files[record.path].state is not FileState.SKIPPED:
        del files[record.path]


def _is_of_groups(reprocess: Collection[Reprocess]) -> bool:
    return {*reprocess} == {Reprocess.GROUPS}


def _together(*reprocess: Collection[Reprocess]) -> tuple[Reprocess, ...]:
    return tuple(sorted({one for some in reprocess for one in some}))


def _health(files: Iterable[FileRecord]) -> tuple[LanguageHealth, ...]:
    counts = Counter((one.language, one.health.value) for one in files if one.health)
    by_language: dict[str, dict[str, int]] = {}
    for (language, status), count in counts.items():
        by_language.setdefault(language, {})[status] = count
    return tuple(LanguageHealth(name, **by_language[name]) for name in sorted(by_language))
