"""Run all checks of the doctor in order, and repair what they find."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Protocol

from codelode.errors import Corrupt
from codelode.ledger import Ledger
from codelode.model import (
    DEFAULT_REF,
    FileChunks,
    RefName,
    Repository,
    RepositoryName,
    Run,
    RunId,
)
from codelode.operations.doctor import mirrors
from codelode.operations.doctor.comparison import Differences, RefPath, compare
from codelode.operations.doctor.findings import NO_REF, NOBODY, Finding, Report, Trouble
from codelode.ports import (
    ChunkStore,
    DependencyGraph,
    Inventory,
    PackageIndex,
    ReferenceIndex,
    SymbolTable,
)

#: Number of files that are checked again together while no worker writes.
FILES_AT_ONCE = 300

#: Time after the end of a run from which its stage outputs count as leftovers, seconds. Until then
#: its last files may still be in a queue.
SETTLED_S = 60.0


class Hold(Protocol):
    def check(self) -> None:
        """Raise Unavailable if the lock was lost."""


class IndexSwap(Protocol):
    """The part of `codelode.backends.redis.index_swap` that the doctor needs."""

    def alone(self) -> AbstractContextManager[Hold]: ...


class TableInventory(Protocol):
    """The part of `codelode.backends.redis.table_inventory` that the doctor needs."""

    def repositories(self) -> Mapping[RepositoryName, frozenset[str]]: ...
    def paths(self, repository: RepositoryName) -> Mapping[RefName, frozenset[str]]: ...
    def stage_outputs(self) -> Mapping[RunId, tuple[bytes, ...]]: ...
    def drop(self, outputs: tuple[bytes, ...]) -> None: ...


class Indexes(Protocol):
    """The unpublished indexes of the store."""

    def left_over(self) -> Sequence[str]: ...
    def drop(self, name: str) -> None: ...


@dataclass(frozen=True)
class Doctor:
    """Examines the stores. `store` opens the chunk store, which only a repair does; `mirrors` is
    the folder of the mirrors.
    """

    ledger: Ledger
    inventory: Inventory
    store: Callable[[], ChunkStore]
    graph: DependencyGraph
    symbols: SymbolTable
    references: ReferenceIndex
    packages: PackageIndex
    table_inventory: TableInventory
    swap: IndexSwap
    indexes: Indexes
    mirrors: Path
    is_repairing: bool = False
    clock: Callable[[], float] = time.time
    report: Report = field(default_factory=Report)

    def __call__(self) -> Report:
        """Check everything, and repair it if requested.

        Raises Corrupt instead of removing a whole index because the ledger is empty.
        """
        known = self.ledger.repositories()
        self._removed(known)
        for repository in known:
            self._repository(repository)
        self._mirrors()
        self._handed_over()
        self._indexes()
        return self.report

    # Repositories that are not registered

    def _removed(self, known: Sequence[Repository]) -> None:
        tables = self.table_inventory.repositories()
        stored = self.inventory.repositories()
        unknown = (
            (stored | tables.keys()) - {one.name for one in known} - self.ledger.being_removed()
        )
        if unknown and not known and self.is_repairing:
            raise Corrupt(
                f"the ledger has no repository, but the stores have {len(unknown)}: restore a "
                "backup, or point CODELODE_REDIS_URL to the right server; to start over, remove "
                "the index and index the repositories again"
            )
        for name in sorted(unknown):
            if self.ledger.get(name) is None:  # not registered meanwhile
                holders = tables.get(name, frozenset()) | ({"index"} if name in stored else set())
                is_repaired = self.is_repairing and self._remove(name)
                self._found(Trouble.REMOVED, name, names=holders, is_repaired=is_repaired)

    def _remove(self, name: RepositoryName) -> bool:
        """Remove a repository as the workers do; no run of that name can start meanwhile."""
        if not self.ledger.mark_for_removal(name):
            return False
        self.store().remove_repository(name)
        for table in (self.graph, self.symbols, self.references, self.packages):
            table.remove_repository(name)
        self.ledger.removal_finished(name)
        return True

    # Registered repositories

    def _repository(self, repository: Repository) -> None:
        name = repository.name
        if self._is_in_use(name):
            self.report.busy.append(name)
            return
        suspects = self._differences(repository).paths
        found = [self._settled(name, some) for some in _batches(sorted(suspects), FILES_AT_ONCE)]
        strays = self._strays(repository)
        self._found_at(Trouble.LOST, name, (at for one in found for at in one.lost))
        self._found_at(Trouble.STRAY, name, (at for one in found for at in one.stray))
        self._found_at(Trouble.ENTRIES, name, strays)
        if self.is_repairing:
            refs = {ref for one in found for ref, _ in one.lost}
            self.report.runs += [self._begun(name, ref).id for ref in sorted(refs)]

    def _differences(
        self, repository: Repository, paths: Sequence[str] | None = None
    ) -> Differences:
        name = repository.name
        records = {
            status.ref: self.ledger.records(name, status.ref, paths)
            if paths is not None
            else {record.path: record for record in self.ledger.all(name, status.ref)}
            for status in self.ledger.refs(name)
        }
        held = self.inventory.counts(name, paths)
        return compare(records, held, default_ref=repository.default_ref)

    def _settled(self, name: RepositoryName, paths: Sequence[str]) -> Differences:
        """Check the files again while no worker writes, repair them at once, and return the
        differences.
        """
        nothing = Differences(frozenset(), frozenset())
        with self.swap.alone() as hold:
            repository = self._idle(name)
            if repository is None:
                return nothing
            found = self._differences(repository, paths)
            if self.is_repairing and found.paths:
                hold.check()
                if not self._invalidated(repository, found):
                    self._is_busy(name)
                    return nothing
                self._take_out(name, found.stray)
            return found

    def _idle(self, name: RepositoryName) -> Repository | None:
        """Return the repository as it is now; None if a run has begun or it was removed."""
        found = self.ledger.get(name)
        if found is None or self._is_in_use(name):
            self._is_busy(name)
            return None
        return found

    def _is_in_use(self, name: RepositoryName) -> bool:
        """Return whether the workers are changing the index of the repository."""
        leaving = {of for of, _ in self.ledger.refs_being_removed()}
        return self.ledger.active(name) is not None or name in leaving

    def _is_busy(self, name: RepositoryName) -> None:
        if name not in self.report.busy:
            self.report.busy.append(name)

    def _invalidated(self, repository: Repository, found: Differences) -> bool:
        """Invalidate lost files and all cached answers; return whether the ledger allowed it."""
        invalid: dict[RefName, list[str]] = {repository.default_ref: []}
        for ref, path in sorted(found.lost):
            invalid.setdefault(ref, []).append(path)
        return all(self.ledger.invalidate(repository.name, *one) for one in invalid.items())

    def _take_out(self, name: RepositoryName, stray: Iterable[RefPath]) -> None:
        refs: defaultdict[str, set[RefName]] = defaultdict(set)
        for label, path in stray:
            refs[path].add(label)
        if refs:
            self.store().replace(
                [FileChunks(name, path, tuple(sorted(labels))) for path, labels in refs.items()]
            )

    def _begun(self, name: RepositoryName, ref: RefName) -> Run:
        """Start a run. No message is sent: workers find runs that nobody has claimed."""
        return self.ledger.create(name, ref)

    # Entries of files in tables

    def _strays(self, repository: Repository) -> list[RefPath]:
        """Return files with table entries at a ref that does not have them; remove the entries if
        requested.
        """
        name = repository.name
        strays: list[RefPath] = []
        for label, paths in sorted(self.table_inventory.paths(name).items()):
            ref = repository.default_ref if label == DEFAULT_REF else label
            suspects = paths - {record.path for record in self.ledger.all(name, ref)}
            for some in _batches(sorted(suspects), FILES_AT_ONCE):
                with self.swap.alone() as hold:
                    if self._idle(name) is None:
                        return strays
                    left = self._with_entries(name, label, ref, some)
                    if self.is_repairing and left:
                        hold.check()
                        self._take_out_entries(name, label, left)
                strays += [(label, path) for path in left]
        return strays

    def _with_entries(
        self, name: RepositoryName, label: RefName, ref: RefName, paths: Sequence[str]
    ) -> list[str]:
        """Return the paths that are not at the ref but have entries there in a table."""
        kept = self.ledger.records(name, ref, paths)
        entries = (
            self.graph.outgoing(name, label, paths),
            self.symbols.defined_in(name, label, paths),
            self.references.names(name, label, paths),
        )
        return [path for path in paths if path not in kept and any(of[path] for of in entries)]

    def _take_out_entries(self, name: RepositoryName, label: RefName, paths: Sequence[str]) -> None:
        self.graph.replace(name, [label], dict.fromkeys(paths, ()))
        self.symbols.replace(name, [label], dict.fromkeys(paths, ()))
        self.references.replace(name, [label], dict.fromkeys(paths, ()))

    # Data that belongs to no repository

    def _mirrors(self) -> None:
        for mirror in mirrors.strays(self.mirrors, self._names()):
            if self.is_repairing:
                mirrors.remove(mirror, is_wanted=self._is_wanted)
            self._found(Trouble.MIRROR, names=[mirror.name], is_repaired=self.is_repairing)

    def _is_wanted(self, mirror: Path) -> bool:
        return mirror not in mirrors.strays(self.mirrors, self._names())

    def _names(self) -> frozenset[RepositoryName]:
        return self.ledger.being_removed() | {one.name for one in self.ledger.repositories()}

    def _handed_over(self) -> None:
        left = {
            run: keys
            for run, keys in self.table_inventory.stage_outputs().items()
            if self._is_left(run)
        }
        for keys in left.values() if self.is_repairing else ():
            self.table_inventory.drop(keys)
        if left:
            self._found(Trouble.HANDOVER, names=left, is_repaired=self.is_repairing)

    def _is_left(self, run: RunId) -> bool:
        found = self.ledger.run(run)
        return found is None or (
            found.state.is_over and self.clock() - found.finished_at > SETTLED_S
        )

    def _indexes(self) -> None:
        for name in self.indexes.left_over():
            if self.is_repairing:
                self.indexes.drop(name)
            self._found(Trouble.INDEX, names=[name], is_repaired=self.is_repairing)

    # Findings

    def _found_at(
        self, trouble: Trouble, repository: RepositoryName, places: Iterable[RefPath]
    ) -> None:
        paths: defaultdict[RefName, set[str]] = defaultdict(set)
        for ref, path in places:
            paths[ref].add(path)
        for ref, names in sorted(paths.items()):
            self._found(trouble, repository, ref, names, is_repaired=self.is_repairing)

    def _found(
        self,
        trouble: Trouble,
        repository: RepositoryName = NOBODY,
        ref: RefName = NO_REF,
        names: Iterable[str] = (),
        *,
        is_repaired: bool = False,
    ) -> None:
        finding = Finding(trouble, repository, ref, tuple(sorted(names)), is_repaired)
        self.report.findings.append(finding)


def _batches(items: Iterable[str], size: int) -> Iterator[list[str]]:
    remaining = iter(items)
    while some := list(islice(remaining, size)):
        yield some
