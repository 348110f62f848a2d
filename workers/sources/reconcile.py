"""Plan the changes after which the followed repositories are those that a code host lists.

Nothing is read or changed here; `workers.sources.applying` applies the plan.

- A repository is identified by its id at the host, so it stays the same when renamed or moved.
- A repository is gone only if complete listings lack it for longer than the grace period. A listing
  that failed is not compared.
- A listing that would remove many at once removes none until somebody confirms it.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

from codelode.addresses import hosted_name, is_local
from codelode.errors import InvalidQuery
from codelode.host_permissions import address
from codelode.model import RepositoryName
from codelode.repository_rules import ListedRepository, RepositoryRules
from codelode.repository_sources import Action, Change, FollowedRepository, FormerName, fraction

#: Number of repositories that may be removed at once without a confirmation: this number, or this
#: share of all, whichever is more.
MAX_UNCONFIRMED = 3
MAX_UNCONFIRMED_SHARE = 0.5

#: Time after which a repository is indexed again although its host reports no push, seconds: a host
#: may be late to report one (GitLab, up to an hour), and a run may have failed.
REFRESH_S = 86_400.0

#: Number of times that the interval between checks of a repository doubles while checks find no
#: news, if its host does not report pushes: it is checked at each listing, then at every second,
#: then at every fourth. A repository whose runs have all failed is also tried at every fourth
#: listing, because thousands of them would keep the workers busy.
MAX_DOUBLINGS = 2

#: Maximum part of its interval by which a check may come early. This spreads the checks of many
#: repositories, and a listing that is slightly early still counts as due.
CHECK_JITTER = 0.25


@dataclass(frozen=True, slots=True)
class Registered:
    """The repositories that are registered in codelode, by their names here.

    `urls` has all of them, except those that are registered only until a plan of `codelode plan` is
    made; the other fields are subsets of its names.
    """

    urls: Mapping[RepositoryName, str]
    followed_elsewhere: Collection[str] = ()  # by other connections
    #: Names that are indexed and that no connection follows: the user who registered such a name
    #: had the credentials to read it. Other names are not adopted: a user who can see such a name
    #: would then see a repository that only the secret of the connection can read.
    adoptable: Collection[str] = ()
    failed: Collection[str] = ()  # the last run failed
    never_indexed: Collection[str] = ()  # the last run failed long ago, or the ledger has none
    digests: Mapping[str, str] = field(default_factory=dict)  # of the indexed commits, by name


@dataclass(frozen=True, slots=True)
class Step:
    """A change, with the followed repository as it is before and after it."""

    change: Change
    known: FollowedRepository | None  # after the change; None: it is not followed any more
    before: FollowedRepository | None = (
        None  # None: it was not followed, or the step does not change it
    )
    is_reused: bool = False  # another repository had its name; the label of that must not apply


@dataclass(frozen=True, slots=True)
class Plan:
    """The steps for all repositories, in the order in which they are applied."""

    steps: tuple[Step, ...]
    waiting: str = ""  # why removals wait for a confirmation; empty: they do not


def changes(steps: Sequence[Step]) -> tuple[Change, ...]:
    """Return the changes of the steps that change something, then those of paused repositories."""
    found = [step.change for step in steps if step.change.action is not Action.KEEP]
    return tuple(sorted(found, key=lambda one: one.action is Action.PAUSE))


def has_news(steps: Sequence[Step]) -> bool:
    """Return whether the steps follow from a change at the host or in the rules.

    A daily check of a repository, or another attempt after a failed run, is not news.
    """
    return any(map(_is_news, steps))


def _is_news(step: Step) -> bool:
    before, after = step.before, step.known
    if step.change.action is Action.UPDATE and before and after:
        now = (after.pushed, after.default_branch)
        return now != (before.pushed, before.default_branch)
    if step.change.action is Action.MISS:
        return not before or not before.missing_since
    return step.change.action not in (Action.KEEP, Action.PAUSE, Action.WAIT, Action.CONFLICT)


def known_after(steps: Sequence[Step]) -> tuple[FollowedRepository, ...]:
    """Return the repositories that are followed after the steps."""
    return tuple(step.known for step in steps if step.known)


def reconcile(
    listed: Sequence[ListedRepository],
    known: Sequence[FollowedRepository],
    registered: Registered,
    *,
    rules: RepositoryRules,
    now: float,
    is_confirmed: bool = False,
    is_asked: bool = False,
) -> Plan:
    """Return a plan after which exactly the listed repositories that the rules select are followed.

    `listed` must be complete. `is_confirmed`: removals do not wait for a confirmation. `is_asked`:
    the listing was requested, so all repositories are checked for which the host does not report
    pushes.
    """
    comparing = _Comparing(registered, rules, now, is_asked=is_asked)
    comparing.names_before = {name for one in known for name in _names(one)}
    by_id = {one.id: one for one in listed}
    wanted = {
        id: one
        for id, one in by_id.items()
        if not rules.left_out_because(one) and not rules.is_paused(one.name)
    }
    paused = {one.id for one in known if _is_paused(one, by_id.get(one.id), rules)}
    for one in known:  # before the new repositories, which must not take their names
        if one.id in paused:
            comparing.pause(one)
        elif one.id in wanted:
            comparing.follow(wanted[one.id], one)
    gone = [one for one in known if one.id not in wanted and one.id not in paused]
    comparing.leaving = {one.name for one in gone}
    for id in sorted(wanted.keys() - {one.id for one in known}, key=lambda id: wanted[id].name):
        comparing.add(wanted[id])
    taken = {step.known.name for step in comparing.steps if step.known}
    gone = [one for one in gone if one.name not in taken]
    comparing.steps += [_conflict(one, registered) for one in gone if _is_foreign(one, registered)]
    leaving = [_leaving(one, by_id, rules, now) for one in gone if not _is_foreign(one, registered)]
    if is_confirmed:
        return _plan((*comparing.steps, *leaving), waiting="")
    steps, waiting = _guarded(leaving, known, lists_none=not listed)
    return _plan((*comparing.steps, *steps), waiting)


class _Comparing:
    """Collects the steps for the repositories that the rules select or pause."""

    def __init__(
        self, registered: Registered, rules: RepositoryRules, now: float, *, is_asked: bool
    ) -> None:
        self._registered, self._now = registered, now
        self._every_s, self._is_asked = rules.every_s, is_asked
        self._by_location: dict[str, list[RepositoryName]] = defaultdict(list)
        for found in sorted(registered.urls):
            self._by_location[_location(registered.urls[found])].append(found)
        self._taken: set[str] = set()
        self.leaving: Collection[str] = ()  # names of followed repositories that are not wanted
        self.names_before: Collection[str] = ()  # of all followed repositories, also former ones
        self.steps: list[Step] = []

    def follow(self, listed: ListedRepository, known: FollowedRepository) -> None:
        """Add the step for a listed repository that is followed."""
        now = replace(
            known,
            listed=listed.name,
            url=listed.url,
            missing_since=0.0,
            default_branch=known.default_branch or listed.default_branch,
        )
        started = _started(now, listed)
        name = _name(listed)
        is_renamed = listed.name != known.listed and name != known.name
        if _is_foreign(known, self._registered, listed.url):
            self.steps.append(_conflict(known, self._registered))
        elif is_renamed and self._is_free(name, listed):
            former = FormerName(known.name, known.url)
            renamed = replace(started, name=name, replaces=(*known.replaces, former))
            self._step(Action.RENAME, renamed, known, f"was {known.name}")
        elif known.name not in self._registered.urls and known.name != name:
            # It is not registered any more, and its name is not derived from that at the host: a
            # user may have chosen it, so it is not reused (see `Registered.adoptable`).
            self.add(listed)
        elif known.name not in self._registered.urls:
            self._step(
                Action.REGISTER, started, known, "it was removed here, or its first run failed"
            )
        elif _location(self._registered.urls[RepositoryName(known.name)]) != _location(listed.url):
            self._step(Action.MOVE, started, known, f"is at {listed.url}")
        elif reason := self._due_because(listed, known):
            self._step(Action.UPDATE, self._checked(now, listed), known, reason)
        else:
            self.keep(now)

    def add(self, listed: ListedRepository) -> None:
        """Add the step for a listed repository that is not followed."""
        name = self._registered_as(listed) or _name(listed)
        new = _started(FollowedRepository(listed.id, listed.name, name, listed.url), listed)
        if not name:
            reason = "no name in codelode can be made of this name; exclude it"
        elif name in self._taken or name in self._registered.followed_elsewhere:
            reason = "another repository or connection has this name; exclude one of them"
        elif name not in self._registered.urls:
            self._step(Action.REGISTER, new, None, listed.url)
            return
        elif _location(self._registered.urls[name]) == _location(listed.url):
            # A repository that is removed now had this address, so the name is followed already.
            action = Action.UPDATE if name in self.leaving else Action.ADOPT
            self._step(action, new, None, listed.url, is_reused=name in self.names_before)
            return
        else:
            reason = (
                f"this is the name of {self._registered.urls[name]}; remove it, or exclude this one"
            )
        self.steps.append(Step(Change(Action.CONFLICT, listed.name, reason), None))

    def _registered_as(self, listed: ListedRepository) -> RepositoryName | None:
        """Return the name under which the repository can be adopted; None: there is none.

        If there are several, its name at the host is preferred.
        """
        own = _name(listed)
        names = self._by_location.get(_location(listed.url), [])
        names = [name for name in names if name == own or name in self._registered.adoptable]
        return min(names, key=lambda name: name != own, default=None)

    def _is_free(self, name: str, listed: ListedRepository) -> bool:
        if not name or name in self._taken or name in self._registered.followed_elsewhere:
            return False
        url = self._registered.urls.get(RepositoryName(name))
        return url is None or _location(url) == _location(listed.url)

    def _due_because(self, listed: ListedRepository, known: FollowedRepository) -> str:
        """Return why a repository is indexed again now; empty: it is not."""
        if known.name in self._registered.failed:
            return "its last run failed"
        if known.default_branch and listed.default_branch not in ("", known.default_branch):
            return f"its default branch is {listed.default_branch} now"
        waited_s, early = self._now - known.run_at, CHECK_JITTER * fraction(known.id, known.run_at)
        if known.name in self._registered.never_indexed:
            pause_s = self._every_s * 2**MAX_DOUBLINGS * (1 - early)
            if self._is_asked or waited_s >= pause_s:
                return "it was never indexed"
        if not listed.pushed:
            is_due = self._is_asked or waited_s >= self._check_interval_s(known, early)
            return "its host does not say when something was pushed" if is_due else ""
        if listed.pushed != known.pushed:
            return f"its host reports a push or another change at {listed.pushed}"
        return "a day has passed" if waited_s >= REFRESH_S * (1 - early) else ""

    def _check_interval_s(self, known: FollowedRepository, early: float) -> float:
        """Return the seconds between checks of a repository whose host does not report pushes."""
        listings = 2**known.unchanged if self._is_unchanged(known) else 1
        if listings == 1:
            return self._every_s * (1 - CHECK_JITTER)
        return self._every_s * listings * (1 - early)

    def _checked(self, known: FollowedRepository, listed: ListedRepository) -> FollowedRepository:
        """Return a repository for which a run is started to check for news."""
        unchanged = min(known.unchanged + 1, MAX_DOUBLINGS) if self._is_unchanged(known) else 0
        seen = self._registered.digests.get(known.name, "")
        return replace(_started(known, listed), seen=seen, unchanged=unchanged)

    def _is_unchanged(self, known: FollowedRepository) -> bool:
        return bool(known.seen) and known.seen == self._registered.digests.get(known.name)

    def _step(
        self,
        action: Action,
        known: FollowedRepository,
        before: FollowedRepository | None,
        reason: str,
        *,
        is_reused: bool = False,
    ) -> None:
        self._taken.add(known.name)
        known = replace(known, run_at=self._now)
        change = Change(action, known.name, reason)
        self.steps.append(Step(change, known, before, is_reused=is_reused))

    def pause(self, known: FollowedRepository) -> None:
        """Add the step for a repository that a rule pauses, whether or not it is listed."""
        self._taken.add(known.name)
        change = Change(Action.PAUSE, known.name, "a glob of paused matches")
        self.steps.append(Step(change, known))

    def keep(self, known: FollowedRepository) -> None:
        """Add the step for a repository that stays as it is."""
        self._taken.add(known.name)
        self.steps.append(Step(Change(Action.KEEP, known.name), known))


def _started(known: FollowedRepository, listed: ListedRepository) -> FollowedRepository:
    """Return a repository with the host's facts about the state that a run started now indexes."""
    return replace(known, pushed=listed.pushed, default_branch=listed.default_branch)


def _is_paused(
    known: FollowedRepository, listed: ListedRepository | None, rules: RepositoryRules
) -> bool:
    return rules.is_paused(listed.name if listed else known.listed)


def _name(listed: ListedRepository) -> RepositoryName:
    """Return the name that the repository gets here; empty: none can be made."""
    try:
        return hosted_name(listed.name)
    except InvalidQuery:
        return RepositoryName("")


def _names(known: FollowedRepository) -> tuple[str, ...]:
    """Return the name of a repository here and its former names that are not removed yet."""
    return (known.name, *(former.name for former in known.replaces))


def _location(url: str) -> str:
    """Return a text that is equal for equivalent URLs: with https and ssh, and without `.git`."""
    return url if is_local(url) else address(url)


def is_replaced(former: FormerName, url: str) -> bool:
    """Return whether a former name is still registered with the URL that it had then."""
    return not former.url or _location(url) == _location(former.url)


def _is_foreign(known: FollowedRepository, registered: Registered, *urls: str) -> bool:
    """Return whether another repository has been registered under the name."""
    url = registered.urls.get(RepositoryName(known.name))
    return url is not None and _location(url) not in map(_location, (known.url, *urls))


def _conflict(known: FollowedRepository, registered: Registered) -> Step:
    """Return the step that stops following a repository whose name another one has taken."""
    url = registered.urls[RepositoryName(known.name)]
    return Step(Change(Action.CONFLICT, known.name, f"this is the name of {url} now"), None)


def _leaving(
    known: FollowedRepository,
    listed: Mapping[str, ListedRepository],
    rules: RepositoryRules,
    now: float,
) -> Step:
    """Return the step for a followed repository that is not listed, or that the rules exclude."""
    if known.id in listed:
        reason = rules.left_out_because(listed[known.id])
        return Step(Change(Action.REMOVE, known.name, reason), None, known)
    since = known.missing_since or now
    if now - since >= rules.grace_s:
        reason = "its host has not listed it for the grace period"
        return Step(Change(Action.REMOVE, known.name, reason), None, known)
    left_s = rules.grace_s - (now - since)
    reason = f"its host does not list it; it leaves in {_spoken(left_s)}"
    return Step(Change(Action.MISS, known.name, reason), replace(known, missing_since=since), known)


def _spoken(seconds: float) -> str:
    """Return a time in hours, or a short one in minutes: `1 min`."""
    return f"{seconds / 3_600:.1f} h" if seconds >= 5_400 else f"{math.ceil(seconds / 60)} min"


def _guarded(
    leaving: Sequence[Step], known: Sequence[FollowedRepository], *, lists_none: bool
) -> tuple[list[Step], str]:
    """Return the steps, and why their removals wait for a confirmation; empty if they do not.

    All removals wait if there are too many, or if the host lists nothing at all.
    """
    removals = sum(1 for one in leaving if one.known is None)
    is_few = removals <= max(MAX_UNCONFIRMED, MAX_UNCONFIRMED_SHARE * len(known))
    if not removals or (is_few and not lists_none):
        return list(leaving), ""
    waiting = (
        f"{removals} of {len(known)} repositories would be removed; look at the plan "
        "(`codelode sources plan`) and confirm it (`codelode sources sync --yes`)"
    )
    return [_waiting(one) if one.known is None else one for one in leaving], waiting


def _waiting(step: Step) -> Step:
    change = replace(step.change, action=Action.WAIT)
    return Step(change, step.before, step.before)


def _plan(steps: Sequence[Step], waiting: str) -> Plan:
    """Return the plan, without removals of former names that other repositories have now."""
    names = {one.name for one in known_after(steps)}
    return Plan(tuple(_without(step, names) for step in steps), waiting)


def _without(step: Step, names: Collection[str]) -> Step:
    if step.known is None or not step.known.replaces:
        return step
    left = tuple(one for one in step.known.replaces if one.name not in names)
    return replace(step, known=replace(step.known, replaces=left))
