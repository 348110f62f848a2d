"""Represent who may read which repositories of a code host, and the state of the permission sync.

The write side reads permissions from hosts and stores them; the read side applies them. A set of
repositories is a bitmap: bit n stands for the n-th repository that the host lists. 10,000
repositories take 1.25 kB for each account.
"""

from __future__ import annotations

import base64
import hashlib
import json
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TypeAlias

from codelode.addresses import remote
from codelode.request_budget import NO_BUDGET, RequestBudget

#: Longest time after a failed attempt until the next one, seconds.
RETRY_S = 60

#: Accounts of a host that read many of the same repositories, sorted (see `teams`).
Team: TypeAlias = tuple[str, ...]

_DEFAULT_PORTS = {"https": 443, "http": 80, "ssh": 22}


def address(url: str) -> str:
    """Return the address of a repository: equal for all spellings of a URL, and for its clone URLs.

    `"https://Host/Acme/App.git/"` and `"git@host:acme/app"` → `"host/acme/app"`. A port that is
    not the usual one of the scheme stays: `"host:3000/acme/app"`. Empty for a local path.
    """
    found = remote(url)
    if found is None:
        return ""
    is_usual = found.port in (None, 0, _DEFAULT_PORTS.get(found.scheme))
    shown = "" if is_usual else f":{found.port}"
    return f"{found.host}{shown}/{found.place.lower()}"


def has_prefix(of: str, prefix: str) -> bool:
    """Return whether a repository's URL is below the address of a connection.

    An ssh URL is compared without its port, which differs from the port of the web server.
    """
    place = address(of)
    if of.startswith(("http://", "https://")):
        return place.startswith(prefix)
    return _portless(place).startswith(_portless(prefix))


def _portless(place: str) -> str:
    host, _, path = place.partition("/")
    return f"{host.partition(':')[0]}/{path}"


def email_key(email: str) -> str:
    """Return the key of an e-mail address in stored permissions: a part of its SHA-256."""
    return hashlib.sha256(email.strip().lower().encode("utf-8", "surrogatepass")).hexdigest()[:32]


@dataclass(frozen=True)
class HostPermissions:
    """The repositories that the accounts of a host may read, at one moment.

    An account that is missing from `readers` reads nothing. An e-mail address that several accounts
    have verified is in `accounts` with an empty id, and matches none of them.
    """

    addresses: tuple[tuple[str, ...], ...] = ()  # of each repository, by its clone URLs
    readers: Mapping[str, int] = field(default_factory=dict)  # account id → bitmap
    accounts: Mapping[str, str] = field(default_factory=dict)  # key of e-mail → account id
    version: str = field(default="", compare=False)  # of the stored bytes; empty: not stored

    def readers_of(self, url: str) -> frozenset[str] | None:
        """Return the accounts that may read the repository; None: the host does not list it."""
        number = self.numbers.get(address(url))
        if number is None:
            return None
        return frozenset(account for account, bits in self.readers.items() if bits >> number & 1)

    @cached_property
    def numbers(self) -> Mapping[str, int]:
        """Return the bit of each repository, by its addresses."""
        return {place: number for number, places in enumerate(self.addresses) for place in places}

    def packed(self) -> bytes:
        """Return the bytes to store; equal permissions give equal bytes."""
        width = (len(self.addresses) + 7) // 8
        readers = {
            account: base64.b85encode(bits.to_bytes(width, "little")).decode()
            for account, bits in sorted(self.readers.items())
        }
        stored = [self.addresses, readers, dict(sorted(self.accounts.items()))]
        return zlib.compress(json.dumps(stored, separators=(",", ":")).encode())

    @classmethod
    def unpacked(cls, stored: bytes) -> HostPermissions:
        """Return the permissions that `packed` encoded."""
        addresses, readers, accounts = json.loads(zlib.decompress(stored))
        bitmaps = {
            account: int.from_bytes(base64.b85decode(bits), "little")
            for account, bits in readers.items()
        }
        return cls(tuple(map(tuple, addresses)), bitmaps, accounts, version_of(stored))


def version_of(packed: bytes) -> str:
    """Return the version of packed permissions: a part of their SHA-256."""
    return hashlib.sha256(packed).hexdigest()[:16]


@dataclass(frozen=True, slots=True)
class FoundTeams:
    """The teams that were found in the permissions of a version, the most useful one first."""

    version: str
    teams: tuple[Team, ...]


class PermissionsBuilder:
    """Collects permissions while a host is read."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}  # host's id of a repository → its bit
        self._addresses: list[tuple[str, ...]] = []
        self._readers: dict[str, int] = {}
        self._accounts: dict[str, str] = {}

    def repository(self, id: str, urls: Iterable[str]) -> None:
        """Add a repository with its clone URLs; a second one with the same id changes nothing."""
        if id not in self._numbers:
            self._numbers[id] = len(self._addresses)
            self._addresses.append(tuple(dict.fromkeys(filter(None, map(address, urls)))))

    def account(self, id: str, emails: Iterable[str] = ()) -> None:
        """Add an account and the e-mail addresses that the host says it has verified."""
        self._readers.setdefault(id, 0)
        for key in map(email_key, emails):
            known = self._accounts.setdefault(key, id)
            self._accounts[key] = id if known == id else ""

    def grant(self, account: str, repositories: Iterable[str]) -> None:
        """Let a known account read repositories; unknown ids have no effect."""
        self.grant_all([account], repositories)

    def grant_all(self, accounts: Iterable[str], repositories: Iterable[str]) -> None:
        """Let each of the accounts read the repositories."""
        bits = self._bitmap(repositories)
        for account in accounts:
            if account in self._readers:
                self._readers[account] |= bits

    def _bitmap(self, repositories: Iterable[str]) -> int:
        raw = bytearray((len(self._addresses) + 7) // 8)
        for id in repositories:
            if (number := self._numbers.get(id)) is not None:
                raw[number // 8] |= 1 << number % 8
        return int.from_bytes(raw, "little")

    def built(self) -> HostPermissions:
        """Return all that was added."""
        return HostPermissions(tuple(self._addresses), self._readers, self._accounts)


@dataclass(frozen=True, slots=True)
class SyncDeclaration:
    """The permission sync of a connection, as the sources file declares it."""

    name: str
    kind: str
    prefix: str  # addresses of its repositories begin with it
    every_s: int
    max_age_s: int
    emails: bool
    claim: str


@dataclass(frozen=True, slots=True)
class SyncOutcome:
    """The results of the last attempts to read the permissions of a connection.

    Times are seconds since the epoch. `version` names the stored permissions; empty: none.
    """

    version: str = ""
    synced_at: float = 0.0  # when the last successful attempt began; 0: none since a refusal
    attempted_at: float = 0.0
    error: str = ""  # of the last attempt
    notice: str = ""  # what a successful attempt could not read
    repositories: int = 0
    accounts: int = 0
    requests: int = 0  # of the last attempt
    wanted: str = ""  # the request for a sync that the last attempt answered
    budget: RequestBudget = NO_BUDGET  # of requests, as the host last reported it


@dataclass(frozen=True, slots=True)
class SyncState:
    """The permission sync of a connection, as all processes know it."""

    declared: SyncDeclaration
    outcome: SyncOutcome = SyncOutcome()
    wanted: str = ""  # the last request for a sync

    def is_due(self, now: float) -> bool:
        """Return whether it is time to read the permissions."""
        every_s = self.declared.every_s
        if self.outcome.error:
            every_s = min(every_s, RETRY_S)
        return now - self.outcome.attempted_at >= every_s or self.wanted != self.outcome.wanted

    def closed_because(self, now: float) -> str:
        """Return why nobody but admins sees the repositories now; empty if the state is good."""
        if not self.outcome.synced_at:
            return self.outcome.error or "its permissions have not been read yet"
        age_s = now - self.outcome.synced_at
        if age_s >= self.declared.max_age_s:
            limit_s = self.declared.max_age_s
            return f"its permissions were read {age_s:.0f} s ago, and max_age is {limit_s} s"
        return ""
