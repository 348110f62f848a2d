"""Find the role of an identity, and the repositories that it may see.

The rule, which docs/security.md explains: a caller sees a repository if its name is within the
bounds of the caller's key, and the caller is an admin, or both the repository's label and its code
host admit it. A label requires matching globs, of the key or of the access file. A code host
requires an account if the repository is under permission sync, which then needs no label.

Labels, rules, and permissions are read again after FRESH_S. A visibility is computed once for all
callers with the same rights.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial

import structlog

from codelode.access import EVERYTHING, Bounds, Label, Role, Visibility
from codelode.bounded import put
from codelode.counts import counted
from codelode.covers import MANY_TERMS, Grouped, Known
from codelode.errors import Unavailable
from codelode.ledger import Catalog
from codelode.model import RepositoryName
from codelode.ports import RegroupingStates
from codelode.regrouping import RegroupingState
from codelode.repository_globs import Within, literals, matcher
from gateway.access.hosts import NO_HOSTS, Accounts, HostReader, Hosts
from gateway.access.identity import Identity
from gateway.access.rules import NO_RULES, Rules
from gateway.fresh import FreshCache

log = structlog.get_logger("gateway")

#: Maximum number of cached visibilities, about 0.6 MB each for 10,000 repositories.
VISIBILITIES_HELD = 256


@dataclass(frozen=True, slots=True)
class _Snapshot:
    labels: Mapping[RepositoryName, Label | None]
    rules: Rules
    hosts: Hosts
    groups: Mapping[RepositoryName, Grouped]
    known: Known = field(compare=False)
    long: set[int] = field(compare=False)  # hashes of the sets of names whose filters are long


@dataclass(frozen=True, slots=True)
class _Rights:
    """The rights that, together with labels, decide which repositories are visible."""

    is_admin: bool
    bounds: Bounds
    globs: tuple[str, ...]  # of the access file
    accounts: Accounts


class Visibilities:
    """Applies the rule to identities. `rules` returns the present rules of the access file.

    Long filters are reported to `regrouping`, so that the workers shorten them.
    """

    def __init__(
        self,
        catalog: Catalog,
        rules: Callable[[], Rules] = lambda: NO_RULES,
        hosts: HostReader | None = None,
        regrouping: RegroupingStates | None = None,
    ) -> None:
        self._catalog = catalog
        self._rules = rules
        self._hosts = hosts
        self._regrouping = regrouping
        self._latest = _Snapshot({}, NO_RULES, NO_HOSTS, {}, Known(), set())
        self._groups: Mapping[RepositoryName, Grouped] = {}
        self._grouped_at = -1  # generation of the catalog
        self._fresh: FreshCache[None, _Snapshot] = FreshCache(self._read)
        self._held: OrderedDict[_Rights, Visibility] = OrderedDict()
        self._held_of = self._latest

    async def of(self, identity: Identity) -> tuple[Role, Visibility]:
        """Return the role and the visibility. Raises Unavailable if the catalog is unreachable."""
        if identity.role is Role.ADMIN and not identity.bounds:
            return Role.ADMIN, EVERYTHING
        snapshot = await self._fresh.get(None)
        grants = tuple(snapshot.rules.of(identity))
        role = max((identity.role, *(grant.role for grant in grants)), key=lambda one: one.rank)
        globs = dict.fromkeys(glob for grant in grants for glob in grant.repositories)
        accounts = snapshot.hosts.accounts(identity, grants)
        rights = _Rights(role is Role.ADMIN, identity.bounds, tuple(globs), accounts)
        if rights.is_admin and not rights.bounds:
            return role, EVERYTHING
        return role, await self._visible(rights, snapshot)

    def problems(self) -> tuple[str, ...]:
        """Return what makes searches of many repositories slow, for admins. Raises Unavailable.

        Only a store that filters by groups asks for covers, and only for callers who search.
        """
        count = len(self._latest.long)
        if not count or self._regrouping is None:
            return ()
        return (
            f"the search filters of {counted(count, 'caller')} have more than {MANY_TERMS:,} "
            f"terms, and are therefore slow: {_outlook(self._regrouping.state())}",
        )

    async def _visible(self, rights: _Rights, snapshot: _Snapshot) -> Visibility:
        if snapshot is not self._held_of:
            self._held_of, self._held = snapshot, OrderedDict()
        held = self._held
        if (visible := held.get(rights)) is None:
            visible = await asyncio.to_thread(_visibility, rights, snapshot)
        put(held, rights, visible, most=VISIBILITIES_HELD)
        return visible

    def _read(self, _: None) -> _Snapshot:
        """Return the present snapshot: the same object while nothing has changed."""
        labels = self._catalog.labels()
        hosts = self._hosts.read(self._catalog.urls) if self._hosts else NO_HOSTS
        groups, long = self._grouped(), set[int]()
        known = Known(frozenset(labels), groups, partial(self._report_long, long))
        now = _Snapshot(labels, self._rules(), hosts, groups, known, long)
        if now != self._latest:
            self._latest = now
        return self._latest

    def _report_long(self, reported: set[int], names: frozenset[RepositoryName]) -> None:
        reported.add(hash(names))
        if self._regrouping is not None:
            try:
                self._regrouping.report_long(names)
            except Unavailable as exc:  # the search goes on; the next change of rights reports it
                log.warning("long_filter_not_reported", error=str(exc))

    def _grouped(self) -> Mapping[RepositoryName, Grouped]:
        """Return the groups, which are read again only after a change: 10,000 take 8 ms.

        The removal of a repository and the suspension of groups are such changes, so outdated
        groups are never used. Groups that were set a moment ago may be missing, which only makes
        searches slower.
        """
        generation = self._catalog.generation()
        if generation != self._grouped_at:
            self._groups = self._catalog.groups()
            self._grouped_at = generation
        return self._groups


def _visibility(rights: _Rights, snapshot: _Snapshot) -> Visibility:
    return Visibility.of(_seen(rights, snapshot), known=snapshot.known)


def _seen(rights: _Rights, snapshot: _Snapshot) -> Iterator[RepositoryName]:
    within = Within(rights.bounds)
    names = (name for name in snapshot.labels if name in within)
    if rights.is_admin:
        yield from names
        return
    is_labelled, is_readable = _label_test(rights, snapshot), _host_test(rights, snapshot.hosts)
    yield from (name for name in names if is_labelled(name) and is_readable(name))


def _label_test(rights: _Rights, snapshot: _Snapshot) -> Callable[[RepositoryName], bool]:
    """Return a predicate that tells whether the label of a repository admits the caller."""
    is_granted, governed = matcher(rights.globs), snapshot.hosts.governed
    named = literals((*rights.globs, *(glob for globs in rights.bounds for glob in globs)))

    def admits(name: RepositoryName) -> bool:
        label = snapshot.labels[name]
        if label is None:
            return name in governed
        is_matched = bool(rights.bounds) or is_granted(name)
        return label.admits(is_matched=is_matched, is_named=name in named)

    return admits


def _host_test(rights: _Rights, hosts: Hosts) -> Callable[[RepositoryName], bool]:
    """Return a predicate that tells whether a repository's code host, if any, admits the caller."""
    return hosts.reads(rights.accounts) if hosts.connections else lambda _: True


def _outlook(regrouping: RegroupingState) -> str:
    """Return what becomes of long filters."""
    if regrouping.is_active:
        done = f"{regrouping.done:,} of {regrouping.total:,}"
        return f"repositories are being regrouped, {done} are done"
    if regrouping.left:
        count = counted(len(regrouping.left), "repository")
        return (
            f"{count} could not be regrouped, such as {regrouping.left[0]}; mend what its latest "
            "run reports, and run `codelode regroup`"
        )
    return (
        "if groups by the present rights shorten them, the workers regroup the repositories "
        "within 15 minutes of such a search; `codelode regroup` begins at once"
    )
