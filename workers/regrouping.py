"""Give repositories the groups that follow from the current rights.

An admin may ask for it. It also begins by itself if groups by the current rights would shorten the
filter of a caller whose filter was found to be long in a search.

Runs write all chunks of a repository again, with parse results, summaries, and vectors from the
cache. Searches go on meanwhile, and find exactly what is visible:

1. The groups of some repositories are suspended: filters name these repositories from now on.
2. When no search uses an earlier filter any more, the new groups are set. Every run that is planned
   later writes them, and the runs of a repository follow one another.
3. When the new runs have ended, and the store has no chunk with other groups, filters may use the
   groups.

A periodic task takes the steps. Each may be repeated, so nothing is lost if a worker is killed:
until a later step, filters name the repositories whose groups it has suspended.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from itertools import product
from typing import Protocol

import structlog

from codelode.covers import UNGROUPED, Grouped, Groups, Known, group_of, is_long
from codelode.grouping import Rights
from codelode.ledger import Ledger
from codelode.model import RepositoryName, Reprocess, RunId
from codelode.ports import Inventory, RegroupingStates
from codelode.regrouping import CHECK_EVERY_S, RegroupingState

log = structlog.get_logger("workers")

#: Number of repositories whose groups are suspended at once.
BATCH = 500

#: Time after which no search uses an earlier filter, seconds: gateways read groups again after
#: access.FRESH_S, and a query in Weaviate ends after 10 s.
FOLLOWED_S = 60.0


class RightsReader(Protocol):
    """Returns the current rights, with the teams that are known, or with teams found again."""

    def __call__(self, *, finds_teams: bool = False) -> Rights: ...


@dataclass(frozen=True, slots=True)
class Regrouping:
    """Sets groups and starts runs, as the module describes.

    `inventory` opens the published index. `flush` returns when no ended run writes any more.
    """

    ledger: Ledger
    states: RegroupingStates
    inventory: Callable[[], Inventory]
    flush: Callable[[], None]
    rights: RightsReader

    def step(self) -> None:
        """Begin a regrouping if one is due, or go on with it, unless another worker does."""
        state = self.states.state()
        if state.is_active or self._is_due(state):
            with self.states.alone() as is_alone:
                if is_alone:
                    self._step()

    def _is_due(self, state: RegroupingState) -> bool:
        if self.states.wanted() != state.answers:
            return True
        is_recent = self.states.now() - state.checked_at < CHECK_EVERY_S
        return not is_recent and bool(self.states.long_filters())

    def _step(self) -> None:
        state = self.states.state()
        if state.batch:
            state = self._set_groups(state) if state.runs is None else self._settle(state)
        elif not state.is_active and self._is_due(state):
            self._begin(state)
            return
        if state.is_active and not state.batch:
            self._suspend_next(state, outdated(self.ledger, self.rights()))

    def _begin(self, before: RegroupingState) -> None:
        """Begin a regrouping if somebody has asked for it, or if it would shorten a filter."""
        wanted = self.states.wanted()
        is_asked = wanted != before.answers
        # Saved first, so that a check that fails is not repeated at once.
        checked_at = self.states.now()
        state = self._save(RegroupingState(wanted, checked_at, is_active=is_asked))
        new = outdated(self.ledger, self.rights(finds_teams=True))
        if is_asked or self._would_shorten(new):
            log.info("regrouping_began", repositories=len(new), asked=is_asked)
            self._suspend_next(self._save(replace(state, is_active=True, total=len(new))), new)

    def _would_shorten(self, new: Mapping[RepositoryName, Groups]) -> bool:
        """Return whether a filter that is long now would be short if these groups were set."""
        names, stored = frozenset(self.ledger.names()), self.ledger.groups()
        now = Known(names, stored)
        then = Known(names, {**stored, **{name: Grouped(some) for name, some in new.items()}})
        return any(
            is_long(seen, now) and not is_long(seen, then) for seen in self.states.long_filters()
        )

    def _suspend_next(self, state: RegroupingState, new: Mapping[RepositoryName, Groups]) -> None:
        """Suspend the groups of the next repositories, or end the regrouping if there are none."""
        names = sorted(new.keys() - {*state.left})[:BATCH]
        if not names:
            log.info("regrouping_ended", repositories=state.done, failed=len(state.left))
            self._save(replace(state, is_active=False))
            return
        self.ledger.suspend_groups(names)
        batch = {name: new[name] for name in names}
        self._save(replace(state, batch=batch, suspended_at=self.states.now()))

    def _set_groups(self, state: RegroupingState) -> RegroupingState:
        """Set the groups of the batch and start its runs, if no search uses an earlier filter."""
        if self.states.now() - state.suspended_at < FOLLOWED_S:
            return state
        for name, groups in state.batch.items():
            self.ledger.set_groups(name, groups)
        # A run that was planned before may write the former groups until it ends.
        before = {name: run for name in state.batch if (run := self.ledger.active(name))}
        again = dict.fromkeys((*before, *self._with_others(state.batch)))
        runs = (*before.values(), *(run for name in again for run in self._started(name)))
        return self._save(replace(state, runs=runs))

    def _settle(self, state: RegroupingState) -> RegroupingState:
        """Let filters use the groups of the batch, if its runs have ended."""
        if not all(map(self._is_over, state.runs or ())):
            return state
        self.flush()
        failed = self._with_others(state.batch)
        for name in state.batch.keys() - {*failed}:
            self.ledger.settle_groups(name, state.batch[name])
        done = state.done + len(state.batch) - len(failed)
        left = (*state.left, *failed)
        return self._save(replace(state, batch={}, runs=None, done=done, left=left))

    def _save(self, state: RegroupingState) -> RegroupingState:
        self.states.save(state)
        return state

    def _with_others(self, names: Iterable[RepositoryName]) -> list[RepositoryName]:
        """Return the repositories that have a chunk with groups other than those that are set."""
        stored, inventory = self.ledger.groups(), self.inventory()
        try:
            return [n for n in names if inventory.has_others(n, stored.get(n, UNGROUPED))]
        finally:
            inventory.close()

    def _started(self, name: RepositoryName) -> list[RunId]:
        """Create a run of each ref. The workers find it when they look for lost messages."""
        refs = [status.ref for status in self.ledger.refs(name)]
        return [self.ledger.create(name, ref, reprocess=[Reprocess.GROUPS]).id for ref in refs]

    def _is_over(self, run: RunId) -> bool:
        found = self.ledger.run(run)
        return found is None or found.state.is_over


def outdated(ledger: Ledger, rights: Rights) -> dict[RepositoryName, Groups]:
    """Return the new groups of the indexed repositories whose groups differ or are suspended.

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
