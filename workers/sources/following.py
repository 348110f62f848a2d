"""Follow the repositories of connections: list them at their hosts, plan, and apply the plan.

- A listing that fails, for whatever reason, changes nothing and is reported.
- One worker at a time works on a connection. If it dies in between, the next listing recognises the
  repositories that it has registered by their URLs.
- `workers.sources.reconcile` plans, and `workers.sources.applying` applies the plan.
"""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple
from uuid import uuid4

import structlog

from codelode.access import EVERYTHING
from codelode.errors import CodelodeError
from codelode.ledger import Ledger
from codelode.model import (
    RefName,
    RefStatus,
    RepositoryName,
    Run,
    RunKind,
    RunState,
)
from codelode.ports import SourceStates
from codelode.repository_rules import ListedRepository, RepositoryRules
from codelode.repository_sources import (
    MAX_CHANGES,
    Change,
    FollowedRepository,
    Mode,
    SourceDeclaration,
    SourceOutcome,
    SourceState,
    packed,
)
from codelode.request_budget import tightest
from codelode.sources import Connection, HostKind
from workers.sources import hostless
from workers.sources.applying import Outbox, PlanApplier
from workers.sources.connectors import CONNECTORS
from workers.sources.declared import SourcesFile
from workers.sources.http import Host
from workers.sources.pages import Pages
from workers.sources.reading import HOLD_S, read_host, while_held
from workers.sources.reconcile import (
    Plan,
    Registered,
    Step,
    changes,
    has_news,
    known_after,
    reconcile,
)

log = structlog.get_logger("workers")

#: Maximum number of consecutive partial listings, for a host that can list only what has changed.
#: With pages of 50, an unchanged organisation of 10,000 repositories then costs 51 requests per
#: listing on average.
MOST_PARTIAL = 3

#: The last run of a repository is searched among this many runs: as many as the ledger keeps.
RUNS_LOOKED_AT = 1_000


class LastListing(NamedTuple):
    """The last listing of a connection."""

    connection: Connection
    listed: Sequence[ListedRepository]
    partial: int = 0  # number of partial listings since the last complete one, this one included


class SourceSync:
    """Follows the connections in the sources file; an empty path means no file."""

    def __init__(
        self,
        path: str,
        states: SourceStates,
        ledger: Ledger,
        *,
        local_paths: str = "",
        now: Callable[[], float] = time.time,
    ) -> None:
        self._file = SourcesFile(path)
        self._states, self._ledger = states, ledger
        self._local_paths = local_paths
        self._now = now
        self._pages = Pages()
        self._last_listings: dict[str, LastListing] = {}  # by connection
        self._entrusted = set[str]()  # connections for which `_is_entrusted` was true

    def due(self) -> tuple[str, ...]:
        """Read the sources file if it has changed, and return the connections that need `run`."""
        known, now = self._followed(), self._now()
        return tuple(
            state.declared.name
            for state in self._states.states()
            if state.declared.name in known
            and (
                state.is_due(now)
                or state.outcome.replaced
                or not self._is_entrusted(state.declared.name)
            )
        )

    def run(self, name: str, outbox: Outbox) -> None:
        """Do what is due for a connection, unless another worker has its lease."""
        connection, owner = self._followed().get(name), uuid4().hex
        if connection is None or not self._states.hold(name, owner, for_s=HOLD_S):
            return
        try:
            state = next(one for one in self._states.states() if one.declared.name == name)
            if not self._is_entrusted(name):
                self._entrust(name, owner, self._states.known(name))
            if state.is_due(self._now()):
                asyncio.run(self._run(connection, state, owner, outbox))
            elif state.outcome.replaced:
                self._remove_former_names(state, owner, outbox)
        finally:
            self._states.release(name, owner)

    def cancel_queued(self, name: RepositoryName, gone: Collection[RefName]) -> None:
        """Cancel queued runs of refs that the source no longer has: these runs would fail.

        A listing starts runs of all indexed refs before it is known which of them the source still
        has. None of them begins while the run that calls this is active.
        """
        for run in self._ledger.recent(EVERYTHING.only([name]), limit=RUNS_LOOKED_AT):
            if run.state is RunState.QUEUED and run.ref in gone:
                self._ledger.end(run.id, RunState.CANCELLED, f"{run.ref} has left the source")

    def _followed(self) -> Mapping[str, Connection]:
        """Return the connections to follow, by name, and declare them for other processes.

        If there is no file, or it cannot be used, the stored declarations stay as they are.
        """
        known = self._file.chosen(lambda one: one.repositories)
        if self._file.path is not None and not self._file.problem:
            self._states.declare([_declared(one) for one in known.values()])
        return known

    async def _run(
        self, connection: Connection, state: SourceState, owner: str, outbox: Outbox
    ) -> None:
        """List, plan, and apply while the connection is held, and store the outcome."""
        hosts: list[Host] = []
        started = self._now()
        try:
            following = self._follow(connection, state, hosts, owner, outbox)
            outcome, known = await while_held(self._states, connection.name, owner, following)
        except CodelodeError as exc:
            outcome, known = replace(state.outcome, attempted_at=started, error=str(exc)), None
        requests = sum(host.requests for host in hosts)
        budget = tightest(host.budgets.tightest() for host in hosts)
        outcome = replace(outcome, wanted=state.wanted, requests=requests, budget=budget)
        self._finish(state, owner, outcome, known)

    def _remove_former_names(self, state: SourceState, owner: str, outbox: Outbox) -> None:
        """Remove the former names of renamed repositories that are indexed by now."""
        known = self._states.known(state.declared.name)
        applier = PlanApplier(self._ledger, outbox, RepositoryRules())
        left = applier.remove_former_names(known, except_for=self._former_names_in_use(known))
        if left != known:
            self._finish(state, owner, state.outcome, left)

    def _former_names_in_use(self, known: Sequence[FollowedRepository]) -> Collection[str]:
        """Return former names for which a run was started after the repository was renamed.

        They stay until the next listing, because another repository may have the name now.
        """
        newest, oldest = dict[str, int](), dict[str, int]()  # positions, from the newest run on
        for position, run in enumerate(self._ledger.recent(EVERYTHING, limit=RUNS_LOOKED_AT)):
            newest.setdefault(run.repository, position)
            oldest[run.repository] = position
        return {
            former.name
            for one in known
            for former in one.replaces
            if newest.get(former.name, RUNS_LOOKED_AT) < oldest.get(one.name, 0)
        }

    def _finish(
        self,
        state: SourceState,
        owner: str,
        outcome: SourceOutcome,
        known: Sequence[FollowedRepository] | None,
    ) -> None:
        if known is not None:
            self._entrust(state.declared.name, owner, known)
            replaced = sum(len(one.replaces) for one in known)
            outcome = replace(outcome, repositories=len(known), replaced=replaced)
        content = None if known is None else packed(known)
        is_stored = self._states.finish(state.declared.name, owner, outcome, content)
        tell = log.warning if outcome.error or outcome.waiting else log.info
        tell(
            "repositories_listed",
            connection=state.declared.name,
            stored=is_stored,
            error=outcome.error,
            waiting=outcome.waiting,
            listed=outcome.listed,
            repositories=outcome.repositories,
            changes=len(outcome.changes),
            requests=outcome.requests,
            requests_left=outcome.budget.requests_left,
        )

    async def _follow(
        self,
        connection: Connection,
        state: SourceState,
        hosts: list[Host],
        owner: str,
        outbox: Outbox,
    ) -> tuple[SourceOutcome, Sequence[FollowedRepository] | None]:
        started = self._now()
        listed = await self._listed(connection, hosts, is_asked=state.is_asked)
        planned = await asyncio.to_thread(self._planned, connection, state, listed)
        outcome = replace(state.outcome, error="", waiting=planned.waiting, listed=len(listed))
        if state.mode is Mode.PLAN:
            return replace(outcome, planned_at=started, changes=_shown(planned.steps)), None
        steps, known = await asyncio.to_thread(self._applied, connection, planned, owner, outbox)
        outcome = replace(
            outcome,
            attempted_at=started,
            synced_at=started,
            changes=_shown(steps),
            rules=connection.rules_digest,
        )
        return replace(outcome, unchanged=_unchanged(state, outcome, listed, steps)), known

    async def _listed(
        self, connection: Connection, hosts: list[Host], *, is_asked: bool
    ) -> Sequence[ListedRepository]:
        """Return all repositories of the connection; one that is listed twice counts once.

        A partial listing reads only what has changed since the last one, and keeps the rest of it.
        `is_asked`: the listing was requested, so it must not be partial.
        """
        if connection.kind is HostKind.URLS:
            return hostless.urls(connection)
        if connection.kind is HostKind.FOLDER:
            return await asyncio.to_thread(hostless.folder, connection)
        connector, last = CONNECTORS[connection.kind], self._last_listings.get(connection.name)
        if is_asked or last is None or last.connection != connection:
            last = LastListing(connection, (), MOST_PARTIAL)  # so that the listing is complete

        async def read(host: Host) -> Sequence[ListedRepository]:
            if connector.changed and last.partial < MOST_PARTIAL:
                changed = await connector.changed(host, connection, last.listed)
                if changed is not None:
                    self._last_listings[connection.name] = LastListing(
                        connection, changed, last.partial + 1
                    )
                    return changed
            found = {one.id: one async for one in connector.repositories(host, connection)}
            listed = tuple(found.values())
            if connector.changed:
                self._last_listings[connection.name] = LastListing(connection, listed)
            return listed

        host = connector.host(connection, connection.secret(), self._pages)
        hosts.append(host)
        return await read_host(host, read)

    def _planned(
        self, connection: Connection, state: SourceState, listed: Sequence[ListedRepository]
    ) -> Plan:
        assert connection.repositories is not None
        known = self._states.known(connection.name)
        silent = {one.id for one in listed if not one.pushed}
        names = [RepositoryName(one.name) for one in known if one.id in silent]
        return reconcile(
            listed,
            known,
            replace(self._registered(connection.name), digests=self._digests(names)),
            rules=connection.repositories,
            now=self._now(),
            is_confirmed=state.mode is Mode.CONFIRM,
            is_asked=state.is_asked,
        )

    def _applied(
        self, connection: Connection, planned: Plan, owner: str, outbox: Outbox
    ) -> tuple[Sequence[Step], Sequence[FollowedRepository]]:
        """Apply the planned steps; return the applied ones, and what is followed now."""
        assert connection.repositories is not None
        # Runs of the repositories that were followed before may still need the token.
        before = self._states.known(connection.name)
        self._entrust(connection.name, owner, (*before, *known_after(planned.steps)))
        rules, local_paths = connection.repositories, self._local_paths
        applier = PlanApplier(self._ledger, outbox, rules, local_paths=local_paths)
        applied = [applier.apply(step) for step in planned.steps]
        return applied, applier.remove_former_names(known_after(applied))

    def _entrust(self, name: str, owner: str, known: Sequence[FollowedRepository]) -> None:
        """Let git use the token of the connection for exactly these repositories."""
        self._states.entrust(name, owner, {one.name: one.url for one in known})

    def _is_entrusted(self, name: str) -> bool:
        """Return whether the list of repositories for which git may use the token is stored.

        It is missing after a backup was restored, and after an upgrade from a version that did not
        store it. The next listing stores it, but may fail or be hours away.
        """
        if name not in self._entrusted:
            known = self._states.known(name)
            if known and not self._states.entrusted(name, known[0].name):
                return False
            self._entrusted.add(name)
        return True

    def _registered(self, name: str) -> Registered:
        others = [one.declared.name for one in self._states.states() if one.declared.name != name]
        followed_elsewhere = {known.name for other in others for known in self._states.known(other)}
        last: dict[str, Run] = {}
        for run in self._ledger.recent(EVERYTHING, limit=RUNS_LOOKED_AT):
            last.setdefault(run.repository, run)
        own = [RepositoryName(known.name) for known in self._states.known(name)]
        failed = {name for name, run in last.items() if run.state is RunState.FAILED}
        never_indexed = self._never_indexed([one for one in own if one not in last])
        on_trial = {name for name, run in last.items() if _is_on_trial(run)}
        urls = {name: url for name, url in self._ledger.urls().items() if name not in on_trial}
        followed = {*followed_elsewhere, *own}
        return Registered(
            urls,
            followed_elsewhere,
            adoptable=self._indexed([one for one in urls if one not in followed]),
            failed=failed,
            never_indexed=never_indexed,
        )

    def _never_indexed(self, names: Sequence[RepositoryName]) -> set[str]:
        """Return the names that were never indexed because their last run failed.

        `names`: repositories whose last run is not among the RUNS_LOOKED_AT newest ones, as when
        thousands of repositories are registered at once. The ledger may have dropped these runs.
        """
        indexed = self._indexed(names)
        return {name for name in names if name not in indexed and self._has_failed(name)}

    def _has_failed(self, name: RepositoryName) -> bool:
        """Return whether no run is active, and the last one failed or is not in the ledger."""
        if self._ledger.active(name) is not None:
            return False
        last = self._ledger.recent(EVERYTHING.only([name]), limit=1)
        return not last or last[0].state is RunState.FAILED

    def _indexed(self, names: Sequence[RepositoryName]) -> Collection[str]:
        """Return those of the names that are indexed at a ref."""
        of_each = zip(names, self._ledger.refs_of(names) if names else (), strict=True)
        return {name for name, refs in of_each if any(one.indexed for one in refs)}

    def _digests(self, names: Sequence[RepositoryName]) -> Mapping[str, str]:
        """Return a digest of the indexed commits of each repository; empty: none is indexed."""
        of_each = zip(names, self._ledger.refs_of(names) if names else (), strict=True)
        return {name: _digest(refs) for name, refs in of_each}


def _digest(refs: Sequence[RefStatus]) -> str:
    heads = sorted(f"{one.ref} {one.indexed}" for one in refs if one.indexed)
    return hashlib.sha256("\n".join(heads).encode()).hexdigest()[:16] if heads else ""


def _is_on_trial(run: Run) -> bool:
    """Return whether the last run of a repository shows that it is registered only for a plan."""
    return run.kind is RunKind.TRIAL and not run.state.is_over


def _unchanged(
    state: SourceState,
    outcome: SourceOutcome,
    listed: Sequence[ListedRepository],
    steps: Sequence[Step],
) -> int:
    """Return the number of consecutive listings without news; `outcome` is that of the last one.

    It stays 0 for a host that does not report pushes, because its listings cannot show that there
    is no news; instead, each unchanged repository is checked less often (`reconcile`). A requested
    listing does not count, because it does not come at the usual interval.
    """
    shows_news = all(one.pushed for one in listed) and outcome.rules == state.outcome.rules
    if has_news(steps) or not shows_news:
        return 0
    return state.outcome.unchanged + (not state.is_asked)


def _shown(steps: Sequence[Step]) -> tuple[Change, ...]:
    return changes(steps)[:MAX_CHANGES]


def _declared(connection: Connection) -> SourceDeclaration:
    rules = connection.repositories
    assert rules is not None
    is_host = connection.kind in CONNECTORS
    return SourceDeclaration(
        name=connection.name,
        kind=connection.kind,
        prefix=connection.prefix if is_host else connection.url,
        every_s=rules.every_s,
        at_least_every_s=rules.at_least_every_s,
        rules=connection.rules_digest,
    )
