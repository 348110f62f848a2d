"""Teams are found in what accounts read."""

from __future__ import annotations

import random
from functools import lru_cache

import pytest

from codelode import teams
from codelode.access import Label
from codelode.backends.memory.api_keys import MemoryApiKeys
from codelode.backends.memory.ledger import MemoryLedger
from codelode.backends.memory.permissions import MemoryPermissionStates
from codelode.backends.redis.permissions import RedisPermissionStates
from codelode.covers import MANY_TERMS, Grouped, Known, cover
from codelode.grouping import find_teams, rights
from codelode.host_permissions import (
    PermissionsBuilder,
    SyncDeclaration,
    SyncOutcome,
    version_of,
)
from codelode.model import Repository, RepositoryName

DECLARED = SyncDeclaration("work", "gitea", "git.example/", 300, 3600, emails=False, claim="")
NAMES = [RepositoryName(f"acme{number % 4}/r{number}") for number in range(3_000)]


class Host:
    """A code host whose accounts read some of NAMES, and what codelode makes of it."""

    def __init__(self, reads, states=None):
        self.reads = reads
        self.ledger, self.states = MemoryLedger(), states or MemoryPermissionStates()
        self.states.declare([DECLARED])
        self.permissions = lru_cache(self._permissions)
        self.sync()

    def sync(self):
        builder = PermissionsBuilder()
        for name in NAMES:
            builder.repository(name, [f"https://git.example/{name}"])
        for account, names in self.reads.items():
            builder.account(account)
            builder.grant(account, names)
        packed = builder.built().packed()
        assert self.states.hold("work", "me", for_s=60)
        version = version_of(packed)
        assert self.states.finish("work", "me", SyncOutcome(version), packed)

    def version(self):
        (state,) = self.states.states()
        return state.outcome.version

    def _permissions(self, name, version):
        assert (name, version) == ("work", self.version())
        return self.states.permissions(name)

    def teams(self, **more):
        find_teams(self.states, self.permissions, **more)
        return self.states.teams("work").teams

    def known(self, label=None):
        """Return the groups that a first plan of each repository gives it."""
        found = rights(self.ledger, MemoryApiKeys(), self.states, self.permissions)
        groups = {
            name: Grouped(
                found.groups_of(Repository(name, f"https://git.example/{name}", label=label))
            )
            for name in NAMES
        }
        return Known(frozenset(NAMES), groups)

    def terms(self, known, account):
        """Return how many terms describe what the account reads."""
        found = cover(frozenset(self.reads[account]), known)
        return sum(map(len, found)) if found else len(self.reads[account])


def overlapping(drawn, *, people, teams_of):
    """Return what people read: by some of 30 overlapping teams, and as direct collaborators."""
    of_team = [set() for _ in range(30)]
    for name in NAMES:
        for team in drawn.sample(of_team, drawn.choice((1, 1, 2, 3))):
            team.add(name)
    reads = {
        str(account): set().union(*drawn.sample(of_team, drawn.randint(*teams_of)))
        for account in range(people)
    }
    for name in NAMES:
        for account in drawn.sample(sorted(reads), drawn.randint(1, 5)):
            reads[account].add(name)
    return reads


@pytest.fixture(scope="module")
def overlap():
    return Host(overlapping(random.Random(1), people=120, teams_of=(9, 15)))


@pytest.fixture(scope="module")
def overlap_known(overlap):
    overlap.teams()
    return overlap.known()


def test_overlapping_teams_and_direct_collaborators_are_described_in_few_terms(
    overlap, overlap_known
):
    permissions = overlap.states.permissions("work")
    readers = {permissions.readers_of(f"https://git.example/{name}") for name in NAMES}
    assert len(readers) > len(NAMES) * 0.85
    found = overlap.teams()
    assert sum(len(team) == 1 for team in found) < 5

    known = overlap_known
    assert min(map(len, overlap.reads.values())) > MANY_TERMS
    assert max(overlap.terms(known, account) for account in overlap.reads) < MANY_TERMS
    assert all(len(one.written) <= 1 + teams.MAX_OF_REPOSITORY for one in known.groups.values())
    used = [len(one.written) for one in known.groups.values()]
    assert sum(used) / len(used) < 8


def test_owners_who_read_everything_do_not_hide_teams():
    """They are most of the readers of each repository."""
    reads = overlapping(random.Random(1), people=80, teams_of=(9, 15))
    host = Host({**reads, **{f"owner{number}": {*NAMES} for number in range(60)}})
    assert sum(len(team) == 1 for team in host.teams()) < 5
    known = host.known()
    assert max(host.terms(known, account) for account in reads) < MANY_TERMS


def test_each_person_who_reads_a_random_half_forms_a_team():
    drawn = random.Random(2)
    host = Host({str(account): set(drawn.sample(NAMES, 1_500)) for account in range(40)})
    host.teams()
    known = host.known()
    assert max(host.terms(known, account) for account in host.reads) < teams.FEW_TERMS


def test_groups_of_a_team_differ_by_label(overlap, overlap_known):
    plain, public = overlap_known.groups, overlap.known(Label.PUBLIC).groups
    assert all({*plain[name].written}.isdisjoint(public[name].written) for name in NAMES)


@pytest.mark.parametrize(
    "reads",
    [
        {},
        {"1": set()},
        {"1": set(NAMES), "2": {name for name in NAMES if name.startswith("acme1/")}},
        {str(n): set(NAMES[n * 1_500 : n * 1_500 + 1_500]) for n in range(2)},
        {str(n): set(random.Random(n).sample(NAMES, 900)) for n in range(9)},
    ],
    ids=["nobody", "nothing", "names", "equal readers", "few"],
)
def test_no_teams_are_formed_if_prefixes_or_equal_readers_suffice(reads):
    assert Host(reads).teams() == ()


def test_a_later_repository_joins_the_teams_that_read_it():
    late = NAMES[0]
    reads = overlapping(random.Random(3), people=60, teams_of=(9, 15))
    host = Host({account: names - {late} for account, names in reads.items()})
    found = host.teams()
    for account in (*found[0][1:], *found[1][:2]):
        host.reads[account].add(late)
    host.sync()

    assert host.teams() == found
    groups = host.known().groups
    of_team = {
        group
        for name in NAMES[1:]
        if teams.has_repository(found[0], {one for one in host.reads if name in host.reads[one]})
        for group in groups[name].written[1:2]
    }
    assert groups[late].written[1] in of_team


@pytest.mark.parametrize("where", ["memory", pytest.param("redis", marks=pytest.mark.server)])
def test_stored_teams_are_reused_after_the_next_sync(where, request):
    states = RedisPermissionStates(request.getfixturevalue("redis")) if where == "redis" else None
    drawn = random.Random(4)
    host = Host({"1": {NAMES[0]}}, states)
    assert host.teams() == ()
    host.reads = {str(n): set(drawn.sample(NAMES, 1_500)) for n in range(14)}
    assert host.teams() == ()  # the permissions are of the version in which there were none
    host.sync()
    found = host.teams()
    assert found

    host.reads["late"] = set(drawn.sample(NAMES, 1_500))
    host.sync()
    assert host.teams() == found
    assert host.teams(are_wanted_again=True) != found
    assert host.states.teams("work").version == host.version()


def test_teams_that_are_known_are_preferred_to_others_with_the_same_repositories():
    drawn = random.Random(5)
    reads = {str(n): set(drawn.sample(NAMES, 1_500)) for n in range(40)}
    host = Host({**reads, **{f"{account} too": names for account, names in reads.items()}})
    permissions = host.states.permissions("work")
    for suffix in ("", " too"):
        before = {(f"{account}{suffix}",) for account in reads}
        found = teams.find(permissions, [("gone",), *sorted(before)])
        assert before <= {*found}
        assert ("gone",) not in found


def test_a_repository_belongs_to_a_team_if_most_of_its_readers_do():
    team = tuple("abcde")
    assert teams.has_repository(team, frozenset("abcdx"))
    assert not teams.has_repository(team, frozenset("abcxyz"))
    assert teams.has_repository(("a",), frozenset("ab"))
