"""Follow the repositories of connections: register, rename, index, and remove them as hosts do.

- A listing that fails, for whatever reason, changes nothing and is reported.
- One worker at a time works on a connection. If it dies half way, the next listing recognises what
  it has registered by the URLs.
- New and changed repositories are indexed by messages that workers take last, so that runs that
  somebody waits for go first.
"""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple, Protocol
from uuid import uuid4

import structlog

from codelode.access import EVERYTHING
from codelode.errors import CodelodeError, InvalidQuery
from codelode.ledger import Ledger
from codelode.model import (
    ALL_FILES,
    DEFAULT_REF,
    RefStatus,
    Repository,
    RepositoryName,
    Run,
    RunKind,
    RunState,
)
from codelode.ports import SourceStates
from codelode.registration import register
from codelode.repository_rules import Listed, RepositoryRules
from codelode.repository_sources import (
    MAX_CHANGES,
    Action,
    Change,
    Known,
    Mode,
    SourceDeclaration,
    SourceOutcome,
    SourceState,
    packed,
)
from codelode.request_budget import tightest
from codelode.sources import Connection, HostKind
from workers.sources import places
from workers.sources.connectors import CONNECTORS
from workers.sources.declared import SourcesFile
from workers.sources.http import Host
from workers.sources.pages import Pages
from workers.sources.reading import HOLD_S, read_host, while_held
from workers.sources.reconcile import (
    Here,
    Plan,
    Step,
    changes,
    has_news,
    is_replaced,
    known_after,
    reconcile,
)

log = structlog.get_logger("workers")

#: Most partial listings in a row, for a host that can tell what has changed. With pages of 50, an
#: unchanged organisation of 10,000 repositories then costs 51 requests per listing on average.
MOST_PARTIAL = 3

#: Number of runs that are searched for the last one of a repository: as many as the ledger keeps.
RUNS_LOOKED_AT = 1_000


class Outbox(Protocol):
    """Sends jobs. Raises Unavailable; the periodic `reap` task sends what was not sent then."""

    def pull(self, run: Run, *, is_late: bool = False) -> None: ...

    def forget(self, name: RepositoryName) -> None: ...


class Before(NamedTuple):
    """The last listing of a connection."""

    connection: Connection
    listed: Sequence[Listed]
    partial: int = 0  # listings since the last one that was complete


class SourceSync:
    """Follows the connections in the sources file; an empty path: there are none."""

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
        self._before: dict[str, Before] = {}  # by connection
        self._entrusted = set[str]()  # connections whose tokens git may use: see `_is_entrusted`

    def due(self) -> tuple[str, ...]:
        """Follow the sources file, and return the connections with something to do now."""
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
        """Do what is due for a connection, unless another worker does."""
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
                self._settle(state, owner, outbox)
        finally:
            self._states.release(name, owner)

    def _followed(self) -> Mapping[str, Connection]:
        """Return the connections to follow; without a file, what is declared stays declared."""
        known = self._file.chosen(lambda one: one.repositories)
        if self._file.path is not None and not self._file.problem:
            self._states.declare([_declared(one) for one in known.values()])
        return known

    async def _run(
        self, connection: Connection, state: SourceState, owner: str, outbox: Outbox
    ) -> None:
        """List and act while the connection is held, and store the outcome."""
        hosts: list[Host] = []
        started = self._now()
        try:
            work = self._work(connection, state, hosts, owner, outbox)
            outcome, known = await while_held(self._states, connection.name, owner, work)
        except CodelodeError as exc:
            outcome, known = replace(state.outcome, attempted_at=started, error=str(exc)), None
        requests = sum(host.requests for host in hosts)
        budget = tightest(host.budgets.tightest() for host in hosts)
        outcome = replace(outcome, wanted=state.wanted, requests=requests, budget=budget)
        self._finish(state, owner, outcome, known)

    def _settle(self, state: SourceState, owner: str, outbox: Outbox) -> None:
        known = self._states.known(state.declared.name)
        acting = _Acting(self._ledger, outbox, RepositoryRules())
        settled = acting.settled(known, except_for=self._asked_since(known))
        if settled != known:
            self._finish(state, owner, state.outcome, settled)

    def _asked_since(self, known: Sequence[Known]) -> Collection[str]:
        """Return former names for which somebody started a run after the repository was renamed.

        Another repository may have the name at the host now; the next listing tells.
        """
        first, last = dict[str, int](), dict[str, int]()
        for number, run in enumerate(self._ledger.recent(EVERYTHING, limit=RUNS_LOOKED_AT)):
            first.setdefault(run.repository, number)  # the newest run
            last[run.repository] = number
        return {
            former.name
            for one in known
            for former in one.replaces
            if first.get(former.name, RUNS_LOOKED_AT) < last.get(one.name, 0)
        }

    def _finish(
        self,
        state: SourceState,
        owner: str,
        outcome: SourceOutcome,
        known: Sequence[Known] | None,
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

    async def _work(
        self,
        connection: Connection,
        state: SourceState,
        hosts: list[Host],
        owner: str,
        outbox: Outbox,
    ) -> tuple[SourceOutcome, Sequence[Known] | None]:
        started = self._now()
        listed = await self._listed(connection, hosts, is_asked=state.is_asked)
        planned = await asyncio.to_thread(self._planned, connection, state, listed)
        outcome = replace(state.outcome, error="", waiting=planned.waiting, listed=len(listed))
        if state.mode is Mode.PLAN:
            return replace(outcome, planned_at=started, changes=_shown(planned.steps)), None
        acted = await asyncio.to_thread(self._acted, connection, planned, owner, outbox)
        steps, known = acted
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
    ) -> Sequence[Listed]:
        """Return all repositories of the connection; a repeated one counts once.

        `is_asked`: somebody has asked for the listing, so it must be complete.
        """
        if connection.kind is HostKind.URLS:
            return places.urls(connection)
        if connection.kind is HostKind.FOLDER:
            return await asyncio.to_thread(places.folder, connection)
        connector, before = CONNECTORS[connection.kind], self._before.get(connection.name)
        if is_asked or before is None or before.connection != connection:
            before = Before(connection, (), MOST_PARTIAL)

        async def read(host: Host) -> Sequence[Listed]:
            if connector.changed and before.partial < MOST_PARTIAL:
                changed = await connector.changed(host, connection, before.listed)
                if changed is not None:
                    self._before[connection.name] = Before(connection, changed, before.partial + 1)
                    return changed
            found = {one.id: one async for one in connector.repositories(host, connection)}
            listed = tuple(found.values())
            if connector.changed:
                self._before[connection.name] = Before(connection, listed)
            return listed

        host = connector.host(connection, connection.secret(), self._pages)
        hosts.append(host)
        return await read_host(host, read)

    def _planned(
        self, connection: Connection, state: SourceState, listed: Sequence[Listed]
    ) -> Plan:
        assert connection.repositories is not None
        known = self._states.known(connection.name)
        silent = {one.id for one in listed if not one.pushed}
        names = [RepositoryName(one.name) for one in known if one.id in silent]
        return reconcile(
            listed,
            known,
            replace(self._here(connection.name), indexed=self._indexed(names)),
            rules=connection.repositories,
            now=self._now(),
            is_confirmed=state.mode is Mode.CONFIRM,
            is_asked=state.is_asked,
        )

    def _acted(
        self, connection: Connection, planned: Plan, owner: str, outbox: Outbox
    ) -> tuple[Sequence[Step], Sequence[Known]]:
        """Do the planned steps; return what was done, and what is followed now."""
        assert connection.repositories is not None
        before = self._states.known(connection.name)  # runs of these may be going on
        self._entrust(connection.name, owner, (*before, *known_after(planned.steps)))
        rules, local_paths = connection.repositories, self._local_paths
        acting = _Acting(self._ledger, outbox, rules, local_paths=local_paths)
        done = [acting.done(step) for step in planned.steps]
        return done, acting.settled(known_after(done))

    def _entrust(self, name: str, owner: str, known: Sequence[Known]) -> None:
        """Have git read exactly these repositories with the token of the connection."""
        self._states.entrust(name, owner, {one.name: one.url for one in known})

    def _is_entrusted(self, name: str) -> bool:
        """Return whether git may use the token of the connection for what is followed.

        The list of what it may read is missing after a backup was restored, or if an older version,
        which kept none, has followed the connection. The next listing, which stores the list, may
        be hours away, or fail.
        """
        if name not in self._entrusted:
            known = self._states.known(name)
            if known and not self._states.entrusted(name, known[0].name):
                return False
            self._entrusted.add(name)
        return True

    def _here(self, name: str) -> Here:
        others = [one.declared.name for one in self._states.states() if one.declared.name != name]
        of_others = {known.name for other in others for known in self._states.known(other)}
        last: dict[str, Run] = {}
        for run in self._ledger.recent(EVERYTHING, limit=RUNS_LOOKED_AT):
            last.setdefault(run.repository, run)
        own = [RepositoryName(known.name) for known in self._states.known(name)]
        failed = {name for name, run in last.items() if run.state is RunState.FAILED}
        unread = self._unread([one for one in own if one not in last])
        on_trial = {name for name, run in last.items() if _is_on_trial(run)}
        urls = {name: url for name, url in self._ledger.urls().items() if name not in on_trial}
        followed = {*of_others, *own}
        read = self._read([one for one in urls if one not in followed])
        return Here(urls, of_others, read=read, failed=failed, unread=unread)

    def _unread(self, names: Sequence[RepositoryName]) -> set[str]:
        """Return the names that were never indexed because their last run failed.

        Their last runs are not among the RUNS_LOOKED_AT newest ones, because thousands of
        repositories may come at once. The ledger may even have forgotten them.
        """
        indexed = self._read(names)
        return {name for name in names if name not in indexed and self._has_failed(name)}

    def _has_failed(self, name: RepositoryName) -> bool:
        """Return whether no run is active, and the last one failed, or the ledger has none."""
        if self._ledger.active(name) is not None:
            return False
        last = self._ledger.recent(EVERYTHING.only([name]), limit=1)
        return not last or last[0].state is RunState.FAILED

    def _read(self, names: Sequence[RepositoryName]) -> Collection[str]:
        """Return the names that are indexed."""
        of_each = zip(names, self._ledger.refs_of(names) if names else (), strict=True)
        return {name for name, refs in of_each if any(one.indexed for one in refs)}

    def _indexed(self, names: Sequence[RepositoryName]) -> Mapping[str, str]:
        """Return a digest of what is indexed of each repository."""
        of_each = zip(names, self._ledger.refs_of(names) if names else (), strict=True)
        return {name: _digest(refs) for name, refs in of_each}


class _Acting:
    """Does the steps of a plan."""

    def __init__(
        self, ledger: Ledger, outbox: Outbox, rules: RepositoryRules, *, local_paths: str = ""
    ) -> None:
        self._ledger, self._outbox, self._rules = ledger, outbox, rules
        self._local_paths = local_paths

    def done(self, step: Step) -> Step:
        """Do a step; return it, or what is left of it if the repository is not accepted."""
        try:
            self._do(step)
        except InvalidQuery as exc:
            refused = replace(step.change, action=Action.CONFLICT, reason=str(exc))
            return replace(step, change=refused, known=step.before)
        return step

    def _do(self, step: Step) -> None:
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

    def _register(self, known: Known, before: Known | None) -> None:
        """Register a repository like the one that it replaces, and index the refs of that one."""
        name, replaced = RepositoryName(known.name), self._replaced(known, before)
        patterns = replaced.patterns if replaced else ALL_FILES
        label, present = replaced.label if replaced else self._rules.label, self._ledger.get(name)
        if present and present.label is not label and self._is_indexed(name):
            label = None  # until the run is done, the index is that of another repository
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

    def _replaced(self, known: Known, before: Known | None) -> Repository | None:
        """Return the repository under its last name that is still registered.

        A new name whose first run failed is not registered any more; the label and the patterns
        then come from the name before.
        """
        former = (one.name for one in reversed(known.replaces))
        names = (*((before.name,) if before else ()), *former)
        found = (self._ledger.get(RepositoryName(name)) for name in names)
        return next((one for one in found if one is not None), None)

    def _move(self, known: Known) -> None:
        found = self._ledger.get(RepositoryName(known.name))
        if found is not None:
            self._ledger.register(replace(found, url=known.url))
            self._index(found.name, found.name)

    def _withdraw_label(self, name: RepositoryName) -> None:
        """Remove a label that somebody has given to another repository of this name.

        The label of the rules is not set: the index is that of the other one until the run is done.
        """
        if self._ledger.labels().get(name) is not self._rules.label:
            self._ledger.set_label(name, None)

    def _index(self, name: RepositoryName, like: RepositoryName) -> None:
        """Start runs of the default ref, and of the other refs that `like` has."""
        found = self._ledger.get(like)
        own = (DEFAULT_REF, found.default_ref if found else "")
        others = [one.ref for one in self._ledger.refs(like) if one.ref not in own]
        for ref in (DEFAULT_REF, *others):
            run = self._ledger.create(name, ref)
            if run.state is RunState.PULLING:
                self._outbox.pull(run, is_late=True)

    def settled(
        self, known: Sequence[Known], *, except_for: Collection[str] = ()
    ) -> tuple[Known, ...]:
        """Remove former names of repositories that are indexed under their new ones."""
        return tuple(self._settled(one, except_for) if one.replaces else one for one in known)

    def _settled(self, known: Known, except_for: Collection[str]) -> Known:
        if not self._is_indexed(RepositoryName(known.name)):
            return known
        left = tuple(one for one in known.replaces if one.name in except_for)
        for former in known.replaces:
            name = RepositoryName(former.name)
            found = self._ledger.get(name)
            if former not in left and (found is None or is_replaced(former, found.url)):
                self._remove(name)  # else somebody registered another repository in its place
        return replace(known, replaces=left)

    def _is_indexed(self, name: RepositoryName) -> bool:
        return any(one.indexed for one in self._ledger.refs(name))

    def _remove(self, name: RepositoryName) -> None:
        """Unregister a repository now; its index leaves later."""
        self._ledger.unregister(name)
        self._outbox.forget(name)


def _digest(refs: Sequence[RefStatus]) -> str:
    heads = sorted(f"{one.ref} {one.indexed}" for one in refs if one.indexed)
    return hashlib.sha256("\n".join(heads).encode()).hexdigest()[:16] if heads else ""


def _is_on_trial(run: Run) -> bool:
    """Return whether a repository is registered only until a plan is made; `run`: its last run."""
    return run.kind is RunKind.TRIAL and not run.state.is_over


def _unchanged(
    state: SourceState, outcome: SourceOutcome, listed: Sequence[Listed], steps: Sequence[Step]
) -> int:
    """Return the number of consecutive listings without news, of which `outcome` has the last one.

    Where a listing does not say what was pushed, it tells nothing about news, and only the turns of
    the repositories become rarer.
    """
    is_telling = all(one.pushed for one in listed) and outcome.rules == state.outcome.rules
    if has_news(steps) or not is_telling:
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
