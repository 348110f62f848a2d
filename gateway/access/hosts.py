"""Decide which repositories are under permission sync, and which of them an account may read.

A repository is under the permission sync of a connection if its URL is below the address of the
connection. If the host does not list it, for example because it was deleted, only admins see it.
Repositories that a host lists outside its own address are ignored, so that it cannot give access to
those of other hosts.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from codelode.bounded import put
from codelode.host_permissions import (
    HostPermissions,
    SyncDeclaration,
    SyncState,
    address,
    email_key,
    has_prefix,
)
from codelode.model import RepositoryName
from codelode.ports import PermissionStates
from gateway.access.identity import Identity
from gateway.access.rules import Grant

#: Maximum number of cached permissions, each a version of those of one connection, which takes
#: about 3 MB for 10,000 repositories and 1,000 accounts.
CONNECTIONS_HELD = 64

#: The accounts of a caller: the name of a connection, and the id of the account at its host.
Accounts = tuple[tuple[str, str], ...]


class Governed(NamedTuple):
    """The connection that decides who may read a repository, and the repository's bit there."""

    connection: str
    number: int | None  # its bit in the permissions; None: closed to all but admins


@dataclass(frozen=True, slots=True)
class Connected:
    """A connection and its present state. Two are equal if they give the same rights."""

    declared: SyncDeclaration
    version: str  # of the permissions
    is_closed: bool  # to all but admins


@dataclass(frozen=True)
class Hosts:
    """All connections with permission sync, and the URLs of the registered repositories."""

    connections: tuple[Connected, ...]
    urls: Mapping[RepositoryName, str]
    permissions: Mapping[tuple[str, str], HostPermissions]  # by connection and version

    def __eq__(self, other: object) -> bool:
        """Compare connections and URLs; the versions in these determine the permissions."""
        return (
            isinstance(other, Hosts)
            and self.connections == other.connections
            and self.urls == other.urls
        )

    @cached_property
    def governed(self) -> Mapping[RepositoryName, Governed]:
        """Return the repositories under permission sync."""
        numbers = {one.declared.name: self._of(one).numbers for one in self.connections}
        found = {}
        for name, url in self.urls.items():
            owners = self._owners(url)
            if owners:
                connection = owners[0].declared.name
                number = numbers[connection].get(address(url)) if len(owners) == 1 else None
                found[name] = Governed(connection, number)
        return found

    def _owners(self, url: str) -> list[Connected]:
        """Return the connections whose prefix is the longest one of the URL.

        If there are several, the owner is unknown. This happens with ssh URLs if several servers
        share a host name.
        """
        found = [one for one in self.connections if has_prefix(url, one.declared.prefix)]
        depths = [one.declared.prefix.count("/") for one in found]
        return [one for one, depth in zip(found, depths, strict=True) if depth == max(depths)]

    def accounts(self, identity: Identity, grants: Sequence[Grant]) -> Accounts:
        """Return the caller's accounts, by the access file, a claim, or a verified e-mail address.

        For each connection, the first of these that names an account decides. Display names are
        never compared.
        """
        mapped = dict(pair for grant in grants for pair in grant.accounts)
        found = (
            (one.declared.name, self._account(one, identity, mapped)) for one in self.connections
        )
        return tuple((name, account) for name, account in found if account)

    def reads(self, accounts: Accounts) -> Callable[[RepositoryName], bool]:
        """Return a predicate that tells whether the accounts may read a repository."""
        bitmaps = {name: self._bitmap(name, account) for name, account in accounts}

        def is_readable(name: RepositoryName) -> bool:
            if name not in self.urls:  # registered after the URLs were read
                return False
            place = self.governed.get(name)
            if place is None:
                return True
            number = place.number
            return number is not None and bool(bitmaps.get(place.connection, 0) >> number & 1)

        return is_readable

    def _account(self, one: Connected, identity: Identity, mapped: Mapping[str, str]) -> str:
        declared = one.declared
        if declared.name in mapped:
            return mapped[declared.name]
        if declared.claim and (account := dict(identity.claims).get(declared.claim)):
            return account
        if declared.emails and identity.email:
            return self._of(one).accounts.get(email_key(identity.email), "")
        return ""

    def _of(self, one: Connected) -> HostPermissions:
        return self.permissions.get((one.declared.name, one.version), HostPermissions())

    def _bitmap(self, connection: str, account: str) -> int:
        one = next(one for one in self.connections if one.declared.name == connection)
        return 0 if one.is_closed else self._of(one).readers.get(account, 0)


NO_HOSTS = Hosts((), {}, {})


class HostReader:
    """Reads the connections and their permissions, the latter only when they have changed."""

    def __init__(self, states: PermissionStates, *, now: Callable[[], float] = time.time) -> None:
        self._states = states
        self._now = now
        self._lock = threading.Lock()
        self._held: OrderedDict[tuple[str, str], HostPermissions] = OrderedDict()

    def read(self, urls: Callable[[], Mapping[RepositoryName, str]]) -> Hosts:
        """Return the present state. Raises Unavailable. Without connections, reads no URLs."""
        states = self._states.states()
        if not states:
            return NO_HOSTS
        connections = tuple(map(self._connected, states))
        return Hosts(connections, urls(), self._permissions(connections))

    def problems(self) -> tuple[str, ...]:
        """Return what is wrong with the connections now, for admins. Raises Unavailable."""
        problem, now = self._states.problem(), self._now()
        closed = (
            f"permissions of {state.declared.name}: only admins see its repositories, "
            f"because {reason}; `codelode permissions` shows more"
            for state in self._states.states()
            if (reason := state.closed_because(now))
        )
        return (*((problem,) if problem else ()), *closed)

    def _connected(self, state: SyncState) -> Connected:
        is_closed = bool(state.closed_because(self._now()))
        return Connected(state.declared, state.outcome.version, is_closed)

    def _permissions(
        self, connections: Iterable[Connected]
    ) -> Mapping[tuple[str, str], HostPermissions]:
        """Return the permissions of each version, except versions that were replaced meanwhile.

        Only admins see their repositories until the next read finds the version that replaced them.
        """
        with self._lock:
            for one in connections:
                if one.version:
                    self._hold(one.declared.name, one.version)
            return dict(self._held)

    def _hold(self, name: str, version: str) -> None:
        found = self._held.get((name, version)) or self._states.permissions(name)
        if found is not None and found.version == version:
            put(self._held, (name, version), found, most=CONNECTIONS_HELD)
