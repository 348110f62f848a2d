"""Compare what a code host lists with what is followed, and say what to do. Pure functions.

- A repository is identified by its id at the host, so it stays the same when renamed or moved.
- A repository is gone only if complete listings lack it for longer than the grace period. A listing
  that failed never gets here.
- A listing that would remove many at once removes none until somebody confirms it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

from codelode.addresses import hosted_name, is_local
from codelode.errors import InvalidQuery
from codelode.host_permissions import address
from codelode.model import RepositoryName
from codelode.repository_rules import Listed, RepositoryRules
from codelode.repository_sources import Action, Change, Former, Known, fraction

#: Repositories that may leave at once without a confirmation: this number, or this share of all if
#: that is more.
FEW = 3
SHARE = 0.5

#: Time after which a repository is indexed again although nothing was pushed, seconds: a host may
#: be late to say so (GitLab, up to an hour), and a run may have failed.
REFRESH_S = 86_400.0

#: How often the interval between checks of an unchanged repository doubles, where a host does not
#: say what was pushed: it is checked at each listing; after one check without news, at every second
#: listing; after more, at every fourth. A repository that was never indexed, and whose run failed
#: long ago, is tried at every fourth listing: thousands of them would keep the workers busy.
MOST_UNCHANGED = 2

#: Share of an interval by which the turn of a repository may be early, so that not all have it at
#: once, and that a listing which is itself early does not miss it.
SPREAD = 0.25


@dataclass(frozen=True, slots=True)
class Here:
    """The repositories that are registered here. `urls` has all; the others are names in it.

    A repository that is registered only until a plan is made is not in `urls`.
    """

    urls: Mapping[RepositoryName, str]
    of_others: Collection[str] = ()  # names that other connections follow
    #: Names that no connection follows and that are indexed, so whoever registered them could have
    #: them read. Others are not adopted: the connection's secret would read them, under a name that
    #: somebody has chosen who may see that name, but perhaps not that repository.
    read: Collection[str] = ()
    failed: Collection[str] = ()  # names whose last run failed
    #: Names that were never indexed, because their last run failed long ago, or is not known.
    unread: Collection[str] = ()
    indexed: Mapping[str, str] = field(default_factory=dict)  # digest of what is indexed, by name


@dataclass(frozen=True, slots=True)
class Step:
    """A change, with the repository as it is after and before it."""

    change: Change
    known: Known | None  # after the change; None: it is not followed
    before: Known | None = None
    is_reused: bool = False  # its name was another repository's, whose label must not apply to it


@dataclass(frozen=True, slots=True)
class Plan:
    """The steps for all repositories, in order."""

    steps: tuple[Step, ...]
    waiting: str = ""  # why removals wait for a confirmation; empty: none does


def changes(steps: Sequence[Step]) -> tuple[Change, ...]:
    """Return the changes of the steps that change something, then those of paused repositories."""
    found = [step.change for step in steps if step.change.action is not Action.KEEP]
    return tuple(sorted(found, key=lambda one: one.action is Action.PAUSE))


def has_news(steps: Sequence[Step]) -> bool:
    """Return whether the steps follow from a change at the host or in the rules.

    A repository that is compared once a day, or tried again after a failed run, is no news.
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


def known_after(steps: Sequence[Step]) -> tuple[Known, ...]:
    """Return what is followed after the steps."""
    return tuple(step.known for step in steps if step.known)


def reconcile(
    listed: Sequence[Listed],
    known: Sequence[Known],
    here: Here,
    *,
    rules: RepositoryRules,
    now: float,
    is_confirmed: bool = False,
    is_asked: bool = False,
) -> Plan:
    """Return a plan that makes the followed repositories those that the rules select of the listed.

    `listed` must be complete. `is_asked`: somebody has asked for it, so that all repositories have
    their turn for which the host does not report pushes.
    """
    comparing = _Comparing(here, rules, now, is_asked=is_asked)
    comparing.names_before = {name for one in known for name in _names(one)}
    by_id = {one.id: one for one in listed}
    wanted = {
        id: one
        for id, one in by_id.items()
        if not rules.left_out_because(one) and not rules.is_paused(one.name)
    }
    paused = {one.id for one in known if _is_paused(one, by_id.get(one.id), rules)}
    for one in known:  # before the new ones, so that they keep their names
        if one.id in paused:
            comparing.pause(one)
        elif one.id in wanted:
            comparing.follow(wanted[one.id], one)
    gone = [one for one in known if one.id not in wanted and one.id not in paused]
    comparing.leaving = {one.name: one.id for one in gone}
    for id in sorted(wanted.keys() - {one.id for one in known}, key=lambda id: wanted[id].name):
        comparing.add(wanted[id])
    taken = {step.known.name for step in comparing.steps if step.known}
    gone = [one for one in gone if one.name not in taken]
    comparing.steps += [_conflict(one, here) for one in gone if _is_foreign(one, here)]
    leaving = [_leaving(one, by_id, rules, now) for one in gone if not _is_foreign(one, here)]
    steps, waiting = _guarded(leaving, known, is_complete=bool(listed), is_confirmed=is_confirmed)
    return _plan((*comparing.steps, *steps), waiting)


class _Comparing:
    """Collects the steps for the repositories that are wanted."""

    def __init__(self, here: Here, rules: RepositoryRules, now: float, *, is_asked: bool) -> None:
        self._here, self._now = here, now
        self._every_s, self._is_asked = rules.every_s, is_asked
        self._by_place: dict[str, list[RepositoryName]] = defaultdict(list)
        for found in sorted(here.urls):
            self._by_place[_place(here.urls[found])].append(found)
        self._taken: set[str] = set()
        self.leaving: Mapping[str, str] = {}
        self.names_before: Collection[str] = ()
        self.steps: list[Step] = []

    def follow(self, listed: Listed, known: Known) -> None:
        """Add the step for a repository that is known."""
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
        if _is_foreign(known, self._here, listed.url):
            self.steps.append(_conflict(known, self._here))
        elif is_renamed and self._is_free(name, listed):
            former = Former(known.name, known.url)
            renamed = replace(started, name=name, replaces=(*known.replaces, former))
            self._step(Action.RENAME, renamed, known, f"was {known.name}")
        elif known.name not in self._here.urls and known.name != name:
            self.add(listed)  # somebody may have chosen the name before: see `Here.read`
        elif known.name not in self._here.urls:
            self._step(Action.REGISTER, started, known, "it is not registered any more")
        elif _place(self._here.urls[RepositoryName(known.name)]) != _place(listed.url):
            self._step(Action.MOVE, started, known, f"is at {listed.url}")
        elif reason := self._due_because(listed, known):
            self._step(Action.UPDATE, self._asked(now, listed), known, reason)
        else:
            self.keep(now)

    def add(self, listed: Listed) -> None:
        """Add the step for a repository that is new."""
        name = self._registered_as(listed) or _name(listed)
        new = _started(Known(listed.id, listed.name, name, listed.url), listed)
        if not name:
            reason = "no name can be made of this one; exclude it"
        elif name in self._taken or name in self._here.of_others:
            reason = "another repository or connection has this name; exclude one of them"
        elif name not in self._here.urls:
            self._step(Action.REGISTER, new, None, listed.url)
            return
        elif _place(self._here.urls[name]) == _place(listed.url):
            is_ours = name in self.leaving  # another repository had this address
            action = Action.UPDATE if is_ours else Action.ADOPT
            self._step(action, new, None, listed.url, is_reused=name in self.names_before)
            return
        else:
            reason = f"this is the name of {self._here.urls[name]}; remove it, or exclude this one"
        self.steps.append(Step(Change(Action.CONFLICT, listed.name, reason), None))

    def _registered_as(self, listed: Listed) -> RepositoryName | None:
        """Return the name that the repository has here; of several, the one it would get now."""
        own = _name(listed)
        names = self._by_place.get(_place(listed.url), [])
        names = [name for name in names if name == own or name in self._here.read]
        return min(names, key=lambda name: name != own, default=None)

    def _is_free(self, name: str, listed: Listed) -> bool:
        if not name or name in self._taken or name in self._here.of_others:
            return False
        url = self._here.urls.get(RepositoryName(name))
        return url is None or _place(url) == _place(listed.url)

    def _due_because(self, listed: Listed, known: Known) -> str:
        """Return why a repository is indexed again; empty: it is not."""
        if known.name in self._here.failed:
            return "its last run failed"
        if known.default_branch and listed.default_branch not in ("", known.default_branch):
            return f"its default branch is {listed.default_branch} now"
        waited_s, early = self._now - known.run_at, SPREAD * fraction(known.id, known.run_at)
        if known.name in self._here.unread:
            pause_s = self._every_s * 2**MOST_UNCHANGED * (1 - early)
            if self._is_asked or waited_s >= pause_s:
                return "it was never indexed"
        if not listed.pushed:
            is_due = self._is_asked or waited_s >= self._turn_s(known, early)
            return "its host does not say when something was pushed" if is_due else ""
        if listed.pushed != known.pushed:
            return f"something happened there at {listed.pushed}"
        return "a day has passed" if waited_s >= REFRESH_S * (1 - early) else ""

    def _turn_s(self, known: Known, early: float) -> float:
        """Return the seconds between checks of a repository whose host does not report pushes."""
        times = 2**known.unchanged if self._is_unchanged(known) else 1
        return self._every_s * (times * (1 - early) if times > 1 else 1 - SPREAD)

    def _asked(self, known: Known, listed: Listed) -> Known:
        unchanged = min(known.unchanged + 1, MOST_UNCHANGED) if self._is_unchanged(known) else 0
        seen = self._here.indexed.get(known.name, "")
        return replace(_started(known, listed), seen=seen, unchanged=unchanged)

    def _is_unchanged(self, known: Known) -> bool:
        return bool(known.seen) and known.seen == self._here.indexed.get(known.name)

    def _step(
        self,
        action: Action,
        known: Known,
        before: Known | None,
        reason: str,
        *,
        is_reused: bool = False,
    ) -> None:
        self._taken.add(known.name)
        known = replace(known, run_at=self._now)
        change = Change(action, known.name, reason)
        self.steps.append(Step(change, known, before, is_reused=is_reused))

    def pause(self, known: Known) -> None:
        """Add the step for a repository that a rule pauses."""
        self._taken.add(known.name)
        change = Change(Action.PAUSE, known.name, "a glob of paused matches")
        self.steps.append(Step(change, known))

    def keep(self, known: Known) -> None:
        """Add the step for a repository with which nothing is done."""
        self._taken.add(known.name)
        self.steps.append(Step(Change(Action.KEEP, known.name), known))


def _started(known: Known, listed: Listed) -> Known:
    """Return a repository as a run that begins now finds it."""
    return replace(known, pushed=listed.pushed, default_branch=listed.default_branch)


def _is_paused(known: Known, listed: Listed | None, rules: RepositoryRules) -> bool:
    return rules.is_paused(listed.name if listed else known.listed)


def _name(listed: Listed) -> RepositoryName:
    """Return the name that the repository gets here; empty: none can be made."""
    try:
        return hosted_name(listed.name)
    except InvalidQuery:
        return RepositoryName("")


def _names(known: Known) -> tuple[str, ...]:
    """Return all names of a repository here, also those that it replaces."""
    return (known.name, *(former.name for former in known.replaces))


def _place(url: str) -> str:
    return url if is_local(url) else address(url)


def is_replaced(former: Former, url: str) -> bool:
    """Return whether a former name is still registered with the URL that it had then."""
    return not former.url or _place(url) == _place(former.url)


def _is_foreign(known: Known, here: Here, *urls: str) -> bool:
    """Return whether somebody has registered another repository under the name."""
    url = here.urls.get(RepositoryName(known.name))
    return url is not None and _place(url) not in map(_place, (known.url, *urls))


def _conflict(known: Known, here: Here) -> Step:
    """Return the step that stops following a repository, and keeps the other one of its name."""
    url = here.urls[RepositoryName(known.name)]
    return Step(Change(Action.CONFLICT, known.name, f"this is the name of {url} now"), None)


def _leaving(
    known: Known, listed: Mapping[str, Listed], rules: RepositoryRules, now: float
) -> Step:
    """Return the step for a repository that is not wanted any more."""
    if known.id in listed:
        reason = rules.left_out_because(listed[known.id])
        return Step(Change(Action.REMOVE, known.name, reason), None, known)
    since = known.missing_since or now
    if now - since >= rules.grace_s:
        reason = "its host has not listed it for the grace period"
        return Step(Change(Action.REMOVE, known.name, reason), None, known)
    left_s = rules.grace_s - (now - since)
    reason = f"its host does not list it; it leaves in {left_s / 3_600:.1f} h"
    return Step(Change(Action.MISS, known.name, reason), replace(known, missing_since=since), known)


def _guarded(
    leaving: Sequence[Step], known: Sequence[Known], *, is_complete: bool, is_confirmed: bool
) -> tuple[list[Step], str]:
    """Return the steps with removals that wait for a confirmation, if there are too many."""
    removed = [one for one in leaving if one.known is None]
    is_much = len(removed) > max(FEW, SHARE * len(known)) or (removed and not is_complete)
    if is_confirmed or not is_much:
        return list(leaving), ""
    waiting = (
        f"{len(removed)} of {len(known)} repositories would be removed; look at them "
        "(`codelode sources plan`) and confirm it (`codelode sources sync --yes`)"
    )
    return [_waiting(one) if one.known is None else one for one in leaving], waiting


def _waiting(step: Step) -> Step:
    change = replace(step.change, action=Action.WAIT)
    return Step(change, step.before, step.before)


def _plan(steps: Sequence[Step], waiting: str) -> Plan:
    """Return the plan; a former name that another repository has now is not removed."""
    names = {one.name for one in known_after(steps)}
    return Plan(tuple(_without(step, names) for step in steps), waiting)


def _without(step: Step, names: Collection[str]) -> Step:
    if step.known is None or not step.known.replaces:
        return step
    left = tuple(one for one in step.known.replaces if one.name not in names)
    return replace(step, known=replace(step.known, replaces=left))
