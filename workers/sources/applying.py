"""Apply a plan to the ledger: register, rename, and remove repositories, and start their runs.

A renamed repository also keeps its old name, under which searches find it, until it is indexed
under the new one. The runs that are started here begin after those that a user waits for.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Protocol

from codelode.errors import InvalidQuery
from codelode.ledger import Ledger
from codelode.model import ALL_FILES, DEFAULT_REF, Repository, RepositoryName, Run, RunState
from codelode.registration import register
from codelode.repository_rules import RepositoryRules
from codelode.repository_sources import Action, FollowedRepository
from workers.sources.reconcile import Step, is_replaced


class Outbox(Protocol):
    """Sends jobs. Raises Unavailable on failure; the periodic `reap` task then sends them later."""

    def pull(self, run: Run, *, is_late: bool = False) -> None:
        """Send the first job of a run. `is_late`: workers take it after all other runs."""

    def forget(self, name: RepositoryName) -> None:
        """Send the job that removes an unregistered repository from the index."""


class PlanApplier:
    """Applies the steps of a plan, and removes the former names of renamed repositories."""

    def __init__(
        self, ledger: Ledger, outbox: Outbox, rules: RepositoryRules, *, local_paths: str = ""
    ) -> None:
        self._ledger, self._outbox, self._rules = ledger, outbox, rules
        self._local_paths = local_paths

    def apply(self, step: Step) -> Step:
        """Apply a step, and return it.

        If the URL or name of the repository is not accepted, returns a conflict instead, and does
        not change the repository.
        """
        try:
            self._apply(step)
        except InvalidQuery as exc:
            refused = replace(step.change, action=Action.CONFLICT, reason=str(exc))
            return replace(step, change=refused, known=step.before)
        return step

    def _apply(self, step: Step) -> None:
        action, known = step.change.action, step.known
        if action is Action.REMOVE:
            self._remove(RepositoryName(step.change.repository))
        elif known is not None and action in (Action.REGISTER, Action.RENAME):
            self._register(known, step.before)
        elif known is not None and action is Action.MOVE:
            self._move(known)
        elif known is not None and action in (Action.ADOPT, Action.UPDATE):
            name = RepositoryName(known.name)
            if step.is_reused:
                self._withdraw_label(name)
                self._ledger.set_patterns(name, include=(), exclude=())
            self._index(name, name)

    def _register(self, known: FollowedRepository, before: FollowedRepository | None) -> None:
        """Register a new or renamed repository, and index the refs that it had under its last name.

        A renamed one keeps its label and patterns; a new one gets the label of the rules.
        """
        name, replaced = RepositoryName(known.name), self._replaced(known, before)
        patterns = replaced.patterns if replaced else ALL_FILES
        label, present = replaced.label if replaced else self._rules.label, self._ledger.get(name)
        if present and present.label is not label and self._is_indexed(name):
            # Until the run is done, the index has the content of another repository of this name.
            label = None
        register(
            self._ledger,
            {name},
            url=known.url,
            name=name,
            include=patterns.include,
            exclude=patterns.exclude,
            local_paths=self._local_paths,
        )
        self._ledger.set_label(name, label)
        self._index(name, replaced.name if replaced else name)

    def _replaced(
        self, known: FollowedRepository, before: FollowedRepository | None
    ) -> Repository | None:
        """Return a renamed repository as it is registered under its most recent former name.

        A name whose first run failed is not registered any more, so the name before it is used.
        Returns None if the repository is new, or if none of its former names is registered.
        """
        former = (one.name for one in reversed(known.replaces))
        names = (*((before.name,) if before else ()), *former)
        found = (self._ledger.get(RepositoryName(name)) for name in names)
        return next((one for one in found if one is not None), None)

    def _move(self, known: FollowedRepository) -> None:
        found = self._ledger.get(RepositoryName(known.name))
        if found is not None:
            self._ledger.register(replace(found, url=known.url))
            self._index(found.name, found.name)

    def _withdraw_label(self, name: RepositoryName) -> None:
        """Remove a label that was given to another repository that had this name.

        The repository does not get the label of the rules either: until its run is done, the index
        has the content of the other one.
        """
        if self._ledger.labels().get(name) is not self._rules.label:
            self._ledger.set_label(name, None)

    def _index(self, name: RepositoryName, like: RepositoryName) -> None:
        """Start runs of the default ref and of each other ref at which `like` is registered."""
        found = self._ledger.get(like)
        own = (DEFAULT_REF, found.default_ref if found else "")
        others = [one.ref for one in self._ledger.refs(like) if one.ref not in own]
        for ref in (DEFAULT_REF, *others):
            run = self._ledger.create(name, ref)
            if run.state is RunState.PULLING:
                self._outbox.pull(run, is_late=True)

    def remove_former_names(
        self, known: Sequence[FollowedRepository], *, except_for: Collection[str] = ()
    ) -> tuple[FollowedRepository, ...]:
        """Return the repositories, and remove the former names of those that are indexed now.

        `except_for`: former names that stay for now.
        """
        return tuple(
            self._remove_former_names_of(one, except_for) if one.replaces else one for one in known
        )

    def _remove_former_names_of(
        self, known: FollowedRepository, except_for: Collection[str]
    ) -> FollowedRepository:
        if not self._is_indexed(RepositoryName(known.name)):
            return known
        left = tuple(one for one in known.replaces if one.name in except_for)
        for former in known.replaces:
            name = RepositoryName(former.name)
            found = self._ledger.get(name)
            # If the URL differs, another repository has been registered under the name.
            if former not in left and (found is None or is_replaced(former, found.url)):
                self._remove(name)
        return replace(known, replaces=left)

    def _is_indexed(self, name: RepositoryName) -> bool:
        return any(one.indexed for one in self._ledger.refs(name))

    def _remove(self, name: RepositoryName) -> None:
        """Unregister a repository now; a job removes it from the index later."""
        self._ledger.unregister(name)
        self._outbox.forget(name)
