"""Find teams among the accounts of a code host, from what each account reads.

Rights often come from overlapping teams and from direct collaborators, so that hardly any two
repositories have the same readers. A filter still describes what a caller sees in few terms if the
repositories of each team form a group (see `grouping`, `covers`). Each host has a different API for
its teams, some need many requests, and none reports what direct collaborators have in common. So
teams are found in what accounts read:

- The readers of a repository are a team. It has the repositories that most of them read, so that
  a few direct collaborators among them do not matter. Owners, who read nearly everything, are not
  part of it.
- A single account is a team, which has exactly the repositories that it reads.

The teams that save callers most terms per repository are chosen (greedy weighted set cover). Teams
do not decide about rights, so it is harmless if their accounts read other repositories later.
"""

from __future__ import annotations

import heapq
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from hashlib import blake2b
from itertools import islice
from math import ceil
from operator import or_
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from codelode.covers import MANY_TERMS, Token, bitmap, described, prefixes
from codelode.host_permissions import HostPermissions, Team

#: The minimum share of a team's accounts that read each of its repositories. With .6, people who
#: read half of all repositories would have many in common by chance.
MOST = 0.8

#: Maximum number of teams of a connection.
MAX_TEAMS = 1_000

#: Maximum number of teams that give groups to a repository. Weaviate is no slower with 500, but a
#: gateway takes 75 ms to read 64 groups of each of 10,000 repositories.
MAX_OF_REPOSITORY = 64

#: For callers who need more than MANY_TERMS, teams are chosen until they need no more than this. A
#: search in Weaviate by a caller who sees half of 10,000 repositories takes .92 times as long as
#: one by a caller who sees all if it needs a group and MANY_TERMS names, and .83 times as long with
#: this many names (tests/bench/results/2026-11-27-visibility-weaviate-many-groups.txt).
FEW_TERMS = 500

#: Minimum number of repositories of a team, and minimum number of terms per repository that it
#: saves all callers together, because all chunks of its repositories get one more term.
LEAST_SIZE = 16
LEAST_WORTH = 0.25

#: Maximum share of exceptions up to which a prefix, or equal readers, describes a caller; beyond
#: it, teams do so better.
MOST_EXCEPTIONS = 0.1

#: Maximum number of accounts of a team, of callers that teams are chosen for, and of callers and
#: repositories that are examined. They limit the time: 1 to 5 s of processor time for 10,000
#: repositories and 1,000 accounts.
MAX_ACCOUNTS = 32
MAX_CALLERS = 256
MAX_LOOKED_AT = 2_000

#: Sets of repositories as bitmaps, in whole words.
Sets: TypeAlias = npt.NDArray[np.uint64]  # (sets, words)
Set: TypeAlias = npt.NDArray[np.uint64]  # (words,)

#: Numbers of repositories or terms.
Counts: TypeAlias = npt.NDArray[np.int64]  # (sets,)


def has_repository(team: Team, readers: frozenset[str]) -> bool:
    """Return whether a repository with these readers is one of the team."""
    return len(readers.intersection(team)) >= _most(len(team))


def _most(accounts: int) -> int:
    return ceil(MOST * accounts)


def find(permissions: HostPermissions, before: Iterable[Team] = ()) -> tuple[Team, ...]:
    """Return the teams that describe what callers see, the most useful one first.

    Of teams with the same repositories, one of `before` is preferred.
    """
    if all(bits.bit_count() <= MANY_TERMS for bits in permissions.readers.values()):
        return ()
    reading = _Reading(permissions)
    callers = _to_help(reading)
    if not callers:
        return ()
    found: dict[bytes, Team] = {}
    for team in (*before, *reading.teams(), *((one.account,) for one in callers)):
        found.setdefault(reading.repositories(team).tobytes(), team)
    rows = np.frombuffer(b"".join(found), np.uint64).reshape(len(found), -1)
    teams = list(found.values())
    return tuple(teams[number] for number in _Choice(callers, rows).teams)


class _Reading:
    """Answers questions about what each account reads."""

    def __init__(self, permissions: HostPermissions) -> None:
        self._addresses = permissions.addresses
        self._accounts = tuple(sorted(permissions.readers))
        self._numbers = {account: number for number, account in enumerate(self._accounts)}
        self.words = (len(self._addresses) + 63) // 64
        packed = [
            permissions.readers[one].to_bytes(8 * self.words, "little") for one in self._accounts
        ]
        self._rows: Sets = np.frombuffer(b"".join(packed), np.uint64).reshape(-1, self.words)

    def repositories(self, team: Team) -> Set:
        """Return the repositories of a team."""
        known = [self._numbers[account] for account in team if account in self._numbers]
        count = _unpacked(self._rows[known]).sum(axis=0, dtype=np.uint16)
        return _packed(count >= _most(len(team)))

    def different(self) -> Iterator[tuple[str, int]]:
        """Yield the distinct sets that accounts read, most frequent first, each with an account."""
        shared = Counter(row.tobytes() for row in self._rows)
        first = {row.tobytes(): self._accounts[n] for n, row in reversed([*enumerate(self._rows)])}
        for row in sorted(shared, key=lambda one: (-shared[one], _spread(first[one]))):
            yield first[row], int.from_bytes(row, "little")

    def teams(self) -> Iterator[Team]:
        """Yield the different sets of readers of repositories, without owners."""
        limited = _count(self._rows) <= MOST * len(self._addresses)
        different = dict(zip(self._readers(), range(len(self._addresses)), strict=True)).values()
        order = sorted(different, key=lambda number: _spread("".join(self._addresses[number])))
        for number in order[:MAX_LOOKED_AT]:
            word, bit = divmod(number, 64)
            is_read = self._rows[:, word] >> np.uint64(bit) & np.uint64(1) != 0
            (readers,) = np.nonzero(is_read & limited)
            step = ceil(len(readers) / MAX_ACCOUNTS)
            if step:
                yield tuple(self._accounts[reader] for reader in readers[::step])

    def tokens(self) -> Mapping[str, Token]:
        """Return the tokens that filters have without teams: for prefixes and for equal readers."""
        members: defaultdict[str, list[int]] = defaultdict(list)
        for number, (places, readers) in enumerate(
            zip(self._addresses, self._readers(), strict=True)
        ):
            name = places[0].partition("/")[2] if places else ""
            for token in (f"={readers}", *prefixes(name)):
                members[token].append(number)
        size = len(self._addresses)
        sets = {token: bitmap(some, size) for token, some in members.items() if len(some) > 1}
        return {token: Token(bits, bits) for token, bits in sets.items()}

    def _readers(self) -> list[int]:
        """Return a hash of the readers of each repository."""
        drawn = np.random.default_rng(0)
        found = np.zeros(64 * self.words, np.uint64)
        for row in self._rows:
            found += _unpacked(row) * drawn.integers(2**63, dtype=np.uint64)
        return [int(one) for one in found[: len(self._addresses)]]


@dataclass(frozen=True, slots=True)
class _Caller:
    """An account that needs many terms without teams, and the bitmaps of its description so far."""

    account: str
    seen: int
    left: int = 0
    excepted: int = 0
    terms: int = 0


def _to_help(reading: _Reading) -> list[_Caller]:
    """Return the callers who need most terms without teams."""
    tokens, found = reading.tokens(), []
    many = ((one, bits) for one, bits in reading.different() if bits.bit_count() > MANY_TERMS)
    for account, seen in islice(many, MAX_LOOKED_AT):
        taken, left, but = described(seen, tokens)
        if len(taken) + left.bit_count() + but.bit_count() > MANY_TERMS:
            found.append(_begun(_Caller(account, seen), [tokens[token].certain for token in taken]))
    return sorted(found, key=lambda caller: -caller.terms)[:MAX_CALLERS]


def _begun(caller: _Caller, tokens: Sequence[int]) -> _Caller:
    """Describe a caller by the tokens with few exceptions."""
    few = (MOST_EXCEPTIONS * token.bit_count() for token in tokens)
    exceptions = ((token & ~caller.seen).bit_count() for token in tokens)
    good = [
        token for token, some, most in zip(tokens, exceptions, few, strict=True) if some <= most
    ]
    admitted = reduce(or_, good, 0)
    left, excepted = caller.seen & ~admitted, admitted & ~caller.seen
    terms = len(good) + left.bit_count() + excepted.bit_count()
    return replace(caller, left=left, excepted=excepted, terms=terms)


class _Choice:
    """Chooses teams one after the other; `rows` are the repositories of each."""

    def __init__(self, callers: Sequence[_Caller], rows: Sets) -> None:
        words = rows.shape[1]
        self._seen = _sets((caller.seen for caller in callers), words)
        self._left = _sets((caller.left for caller in callers), words)
        self._hidden = ~self._seen & ~_sets((caller.excepted for caller in callers), words)
        self._terms = np.array([caller.terms for caller in callers])
        self.teams = self._chosen(rows)

    def _chosen(self, rows: Sets) -> list[int]:
        teams, members = list[int](), np.zeros(64 * rows.shape[1], np.uint16)
        queue = [(-self._worth(row), number) for number, row in enumerate(rows)]
        heapq.heapify(queue)
        while queue and len(teams) < MAX_TEAMS:
            number = heapq.heappop(queue)[1]
            row = rows[number] & _packed(members < MAX_OF_REPOSITORY)
            worth = self._worth(row)  # each chosen team may have reduced it
            if queue and worth < -queue[0][0]:
                heapq.heappush(queue, (-worth, number))
            elif worth:
                teams.append(number)
                members += _unpacked(row)
                self._take(row)
        return teams

    def _worth(self, row: Set) -> float:
        """Return the terms that a team saves for each of its repositories; 0: too few."""
        size = int(_count(row))
        with_team = np.minimum(*self._with(row))
        is_saving = (with_team < self._terms) & (self._terms > FEW_TERMS)
        saved = int((self._terms - with_team)[is_saving].sum())
        return saved / size if size >= LEAST_SIZE and saved >= LEAST_WORTH * size else 0.0

    def _with(self, row: Set) -> tuple[Counts, Counts]:
        """Return the terms of each caller with this team in addition, and with this team alone."""
        more = self._terms + 1 + _count(row & self._hidden) - _count(row & self._left)
        return more, 1 + _count(row ^ self._seen)

    def _take(self, row: Set) -> None:
        more, alone = self._with(row)
        starts, joins = alone < np.minimum(more, self._terms), more < self._terms
        self._left[starts], self._hidden[starts] = self._seen[starts], ~self._seen[starts]
        self._left[starts | joins] &= ~row
        self._hidden[starts | joins] &= ~row
        self._terms = np.minimum(self._terms, np.minimum(more, alone))


def _sets(bitmaps: Iterable[int], words: int) -> Sets:
    packed = b"".join(one.to_bytes(8 * words, "little") for one in bitmaps)
    return np.frombuffer(bytearray(packed), np.uint64).reshape(-1, words)


def _count(sets: Sets) -> Counts:
    found: Counts = np.bitwise_count(sets).sum(axis=-1, dtype=np.int64)
    return found


def _unpacked(sets: Sets) -> npt.NDArray[np.uint8]:
    """Return a number for each bit: 0 or 1."""
    return np.unpackbits(sets.view(np.uint8), axis=-1, bitorder="little")


def _packed(bits: npt.NDArray[np.bool_]) -> Set:
    return np.packbits(bits, bitorder="little").view(np.uint64)


def _spread(text: str) -> bytes:
    """Return a sort key that does not depend on the order of names and ids."""
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest()
