"""Give repositories the groups that follow from the current rights.

Runs write all chunks of a repository again, with parse results, summaries, and vectors from the
cache. Searches go on meanwhile, and find exactly what is visible:

1. The groups of some repositories are suspended: filters name these repositories from now on.
2. When no search uses an earlier filter any more, the new groups are set. Every run that is planned
   later writes them, and the runs of a repository follow one another.
3. When the new runs have ended, and the store has no chunk with other groups, filters may use the
   groups.

If the program is killed, filters go on naming the repositories whose groups it has suspended. The
next call continues.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product

from codelode.covers import UNGROUPED, Grouped, Groups, group_of
from codelode.grouping import Rights
from codelode.ledger import Ledger
from codelode.model import RepositoryName, Reprocess, RunId
from codelode.ports import Inventory

#: Number of repositories whose groups are suspended at once.
BATCH = 500

#: Time after which no search uses an earlier filter, seconds: gateways read groups again after
#: access.FRESH_S, and a query in Weaviate ends after 10 s.
FOLLOWED_S = 60.0

#: Interval at which the states of the runs are checked, seconds.
LOOK_S = 1.0


@dataclass(frozen=True, slots=True)
class Regrouping:
    """Sets groups and starts runs, as the module describes.

    `inventory` opens the published index. `flush` returns when no ended run writes any more. `tell`
    is called with the number of repositories that are done, and with that of all.
    """

    ledger: Ledger
    inventory: Callable[[], Inventory]
    flush: Callable[[], None]
    tell: Callable[[int, int], None]
    sleep: Callable[[float], None] = time.sleep

    def __call__(self, rights: Rights) -> tuple[RepositoryName, ...]:
        """Return the repositories whose groups are still suspended, because a run has failed."""
        wanted = outdated(self.ledger, rights)
        names = sorted(wanted)
        for start in range(0, len(names), BATCH):
            self.tell(start, len(names))
            self._regroup(names[start : start + BATCH], wanted)
        self.tell(len(names), len(names))
        stored = self.ledger.groups()
        return tuple(name for name in names if stored.get(name, UNGROUPED).is_suspended)

    def _regroup(
        self, names: Sequence[RepositoryName], wanted: dict[RepositoryName, Groups]
    ) -> None:
        self.ledger.suspend_groups(names)
        self.sleep(FOLLOWED_S)
        for name in names:
            self.ledger.set_groups(name, wanted[name])
        # A run that was planned before may write the former groups until it ends.
        before = {name: run for name in names if (run := self.ledger.active(name))}
        again = dict.fromkeys((*before, *self._with_others(names)))
        runs = [*before.values(), *(run for name in again for run in self._begin(name))]
        while not all(map(self._is_over, runs)):
            self.sleep(LOOK_S)
        self.flush()
        left = self._with_others(names)
        for name in names:
            if name not in left:
                self.ledger.settle_groups(name, wanted[name])

    def _with_others(self, names: Sequence[RepositoryName]) -> list[RepositoryName]:
        """Return the repositories that have a chunk with groups other than those that are set."""
        stored, inventory = self.ledger.groups(), self.inventory()
        try:
            return [n for n in names if inventory.has_others(n, stored.get(n, UNGROUPED))]
        finally:
            inventory.close()

    def _begin(self, name: RepositoryName) -> list[RunId]:
        """Create a run of each ref. The workers find it when they look for lost messages."""
        refs = [status.ref for status in self.ledger.refs(name)]
        return [self.ledger.create(name, ref, reprocess=[Reprocess.GROUPS]).id for ref in refs]

    def _is_over(self, run: RunId) -> bool:
        found = self.ledger.run(run)
        return found is None or found.state.is_over


def outdated(ledger: Ledger, rights: Rights) -> dict[RepositoryName, Groups]:
    """Return the new groups of indexed repositories that have others, or suspended ones.

    A group whose readers or list have changed is stored under its former name, so that repositories
    that stay in it need not be written again.
    """
    repositories = ledger.repositories()
    refs = ledger.refs_of([one.name for one in repositories])
    indexed = [one for one, some in zip(repositories, refs, strict=True) if some]
    now = {one.name: rights.groups_of(one) for one in indexed}
    stored = {name: one for name, one in ledger.groups().items() if name in now}
    names = _names(now, stored)
    wanted = {name: tuple(names[one] for one in groups) for name, groups in now.items()}
    found = {name: stored.get(name, UNGROUPED) for name in wanted}
    return {
        name: groups
        for name, groups in wanted.items()
        if {*groups} != {*found[name].certain} or found[name].is_suspended
    }


def _names(
    now: Mapping[RepositoryName, Groups], stored: Mapping[RepositoryName, Grouped]
) -> dict[str, str]:
    """Return the name of each group: the one that most of its repositories are stored under.

    No two groups have the same name.
    """
    shared = Counter(
        pair for name, found in stored.items() for pair in product(now[name], found.written)
    )
    names: dict[str, str] = {}
    taken = set[str]()
    for group, name in sorted(shared, key=lambda one: (-shared[one], one[0] != one[1], one)):
        if group not in names and name not in taken:
            names[group] = name
            taken.add(name)
    for group in sorted({group for groups in now.values() for group in groups} - names.keys()):
        name = group
        while name in taken:
            name = group_of([name])
        names[group] = name
        taken.add(name)
    return names
