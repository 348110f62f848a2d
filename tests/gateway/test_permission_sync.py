"""Callers see repositories under permission sync as their code hosts allow."""

from __future__ import annotations

from dataclasses import replace

import pytest

from codelode.access import EVERYTHING, FRESH_S, Label, Principal, Role, Visibility
from codelode.backends.memory.ledger import MemoryLedger
from codelode.backends.memory.permissions import MemoryPermissionStates
from codelode.covers import Grouped
from codelode.errors import Denied, InvalidSettings, NotFound
from codelode.host_permissions import (
    PermissionsBuilder,
    SyncDeclaration,
    SyncOutcome,
    version_of,
)
from codelode.ledger import FileManifest
from codelode.model import RefName, Repository, Revision
from gateway import service
from gateway.access.hosts import HostReader
from gateway.access.identity import Identity
from gateway.access.rules import NO_RULES, Grant, Rules, parse
from gateway.access.visibility import Visibilities

WORK = SyncDeclaration("work", "gitea", "git.example/", 300, 3600, emails=True, claim="gitea_id")
ANN = Identity("user:ann@example.org", Role.READER, email="ann@example.org")
NOW = 10_000.0


class World:
    """A catalog, permissions of a host, rules, and a clock that tests move."""

    def __init__(self):
        self.catalog, self.states = MemoryLedger(), MemoryPermissionStates()
        self.rules, self.now = NO_RULES, NOW
        self.hosts = HostReader(self.states, now=lambda: self.now)
        self._visibilities = Visibilities(self.catalog, lambda: self.rules, self.hosts)
        self.states.declare([WORK])
        for name in ("app", "lib", "gone"):
            self.catalog.register(Repository(f"acme/{name}", f"https://git.example/acme/{name}"))
        self.catalog.register(Repository("else", "https://other.example/acme/app"))

    def grant(self, *, name="work", **readers):
        """Store who reads what: account → repositories that the host lists."""
        built = PermissionsBuilder()
        for short in ("app", "lib"):
            built.repository(short, [f"https://git.example/Acme/{short}.git"])
        for account, repositories in readers.items():
            built.account(account, [f"{account}@example.org"])
            built.grant(account, repositories)
        packed = built.built().packed()
        self.store(SyncOutcome(version_of(packed), self.now, self.now), packed, name=name)

    def store(self, outcome, packed=None, *, name="work"):
        self.states.hold(name, "test", for_s=60)
        assert self.states.finish(name, "test", outcome, packed)

    async def visible(self, identity):
        _, visible = await self._visibilities.of(identity)
        return visible

    async def sees(self, identity):
        return set((await self.visible(identity)).ordered)


@pytest.fixture
def world(monkeypatch):
    """A world in which changes hold at once."""
    monkeypatch.setattr("gateway.fresh.FRESH_S", 0.0)
    return World()


async def test_a_caller_sees_what_its_account_reads_at_the_host(world):
    world.grant(ann=["app"], bob=["app", "lib"])

    assert await world.sees(ANN) == {"acme/app"}
    bob = replace(ANN, name="user:bob", email="BOB@example.org")
    assert await world.sees(bob) == {"acme/app", "acme/lib"}
    world.grant(bob=["lib"])
    assert await world.sees(ANN) == set()
    assert await world.sees(bob) == {"acme/lib"}


@pytest.mark.parametrize(
    "identity",
    [
        replace(ANN, email=""),  # nothing verified: the name alone proves no account
        replace(ANN, email="ann@example.com"),
        Identity("user:ann", Role.READER, claims=(("name", "ann"), ("preferred_username", "ann"))),
        Identity("key:ann", Role.READER),
        Identity("certificate:ann@example.org", Role.INDEXER),
    ],
    ids=lambda identity: identity.name,
)
async def test_an_identity_of_another_kind_matches_no_account(world, identity):
    world.grant(ann=["app"])

    assert await world.sees(identity) == set()


async def test_the_access_file_goes_before_a_claim_and_a_claim_before_an_address(world):
    world.grant(ann=["app"], **{"7": ["lib"], "8": ["app", "lib"]})
    claimed = replace(ANN, claims=(("gitea_id", "7"),))

    assert await world.sees(claimed) == {"acme/lib"}
    world.rules = Rules(people={ANN.name: Grant(accounts=(("work", "8"), ("other", "7")))})
    assert await world.sees(claimed) == {"acme/app", "acme/lib"}
    world.rules = Rules(people={ANN.name: Grant(accounts=(("work", "none"),))})
    assert await world.sees(claimed) == set()


async def test_a_key_sees_what_an_account_reads_that_the_access_file_gives_it(world):
    world.grant(ann=["app", "lib"])
    world.rules = parse('people: {"key:ci": {accounts: {work: ann}}}', file="f")

    assert await world.sees(Identity("key:ci", Role.READER)) == {"acme/app", "acme/lib"}
    bounded = Identity("key:ci", Role.READER, bounds=(("acme/l*",),))
    assert await world.sees(bounded) == {"acme/lib"}
    with pytest.raises(InvalidSettings, match="is an API key"):
        parse('people: {"key:ci": {accounts: {work: ann}, role: admin}}', file="f")


async def test_a_label_narrows_what_the_host_allows_and_never_widens_it(world):
    world.grant(ann=["app"])
    world.catalog.set_label("acme/lib", Label.PUBLIC)
    world.catalog.set_label("else", Label.PUBLIC)

    assert await world.sees(ANN) == {"acme/app", "else"}
    world.catalog.set_label("acme/app", Label.INTERNAL)
    assert await world.sees(ANN) == {"else"}
    world.rules = Rules(people={ANN.name: Grant(("acme/**",))})
    assert await world.sees(ANN) == {"acme/app", "else"}
    world.catalog.set_label("acme/app", Label.PRIVATE)
    assert await world.sees(ANN) == {"else"}


async def test_a_visibility_follows_changes_of_groups_independently_of_readers(world):
    names = [f"acme/r{number}" for number in range(6)]
    world.grant(ann=["app"])
    for number, name in enumerate(names):
        world.catalog.register(Repository(name, "https://git.example/acme/app", RefName("main")))
        if number < 4:
            plan(world.catalog, name, groups=("=1",))

    visible = await world.visible(ANN)
    assert visible.names == {"acme/app", *names}
    assert visible.known.groups == dict.fromkeys(names[:4], Grouped(("=1",)))
    for name in names[4:]:
        plan(world.catalog, name, groups=("=2",))
    later = dict.fromkeys(names[4:], Grouped(("=2",)))
    assert (await world.visible(ANN)).known.groups == visible.known.groups | later
    world.catalog.suspend_groups(names[4:])
    suspended = dict.fromkeys(names[4:], Grouped(("=2",), ("=2",)))
    assert (await world.visible(ANN)).known.groups == visible.known.groups | suspended
    world.catalog.unregister(names[0])
    world.catalog.removal_finished(names[0])
    world.catalog.register(Repository(names[0], "https://git.example/acme/app", RefName("main")))
    again = await world.visible(ANN)
    assert (names[0] in again, names[0] in again.known.groups) == (True, False)
    world.grant(ann=[])
    assert (await world.visible(ANN)).names == frozenset()


def plan(catalog, name, *, groups):
    run = catalog.create(name, RefName("main"))
    manifest = FileManifest(Revision("1" * 40), (), groups=groups)
    catalog.plan(run.id, manifest, ref=RefName("main"), fingerprint="")


async def test_a_repository_that_the_host_does_not_list_is_closed_despite_its_label(world):
    world.catalog.set_label("acme/gone", Label.PUBLIC)
    world.grant(ann=["app"])

    assert await world.sees(ANN) == {"acme/app"}
    assert "acme/gone" in await world.sees(Identity("root", Role.ADMIN, bounds=(("acme/*",),)))


async def test_a_repository_is_closed_from_its_registration_on(world):
    world.grant(ann=["app"])
    for number, url in enumerate(("git@git.example:acme/new", "ssh://git@git.example:22/a/b")):
        world.catalog.register(Repository(f"new{number}", url))
        world.catalog.set_label(f"new{number}", Label.PUBLIC)
    world.catalog.register(Repository("same", "git@git.example:acme/app.git"))

    assert await world.sees(ANN) == {"acme/app", "same"}


@pytest.mark.parametrize(("age_s", "seen"), [(3599.0, {"acme/app"}), (3600.0, set())])
async def test_permissions_close_at_the_age_limit(world, age_s, seen):
    world.catalog.set_label("acme/app", Label.PUBLIC)
    world.grant(ann=["app"])
    world.now += age_s

    assert await world.sees(ANN) == seen
    assert bool(world.hosts.problems()) == (not seen)
    world.grant(ann=["app"])
    assert await world.sees(ANN) == {"acme/app"}


async def test_nothing_is_visible_before_permissions_were_first_read(world):
    world.catalog.set_label("acme/app", Label.PUBLIC)

    assert await world.sees(ANN) == set()
    assert "have not been read yet" in world.hosts.problems()[0]


async def test_a_host_grants_rights_only_to_repositories_at_its_own_address(world):
    """It opens neither repositories without a connection nor those of another connection."""
    other = replace(WORK, name="another", prefix="evil.example/")
    world.states.declare([WORK, other])
    world.grant(ann=["lib"])
    built = PermissionsBuilder()
    for number, url in enumerate(world.catalog.urls().values()):
        built.repository(str(number), [url])
    built.account("ann", ["ann@example.org"])
    built.grant("ann", map(str, range(9)))
    packed = built.built().packed()
    world.store(SyncOutcome(version_of(packed), NOW, NOW), packed, name="another")

    assert await world.sees(ANN) == {"acme/lib"}


async def test_the_longer_address_decides_and_of_equal_ones_neither(world):
    inner = replace(WORK, name="inner", prefix="git.example/acme/")
    world.states.declare([WORK, inner])
    world.grant(ann=["app"])
    world.grant(ann=["lib"], name="inner")
    assert await world.sees(ANN) == {"acme/lib"}

    second = replace(WORK, name="second", prefix="git.example:8443/")
    world.states.declare([WORK, second])
    world.grant(ann=["app", "lib"])
    world.grant(ann=["app", "lib"], name="second")
    world.catalog.register(Repository("ssh", "git@git.example:acme/app"))
    assert await world.sees(ANN) == {"acme/app", "acme/lib"}


async def test_a_connection_that_is_no_longer_declared_grants_nothing(world):
    world.grant(ann=["app"])
    world.catalog.set_label("acme/lib", Label.PUBLIC)
    assert await world.sees(ANN) == {"acme/app"}

    world.states.declare([])

    assert await world.sees(ANN) == {"acme/lib"}


async def test_permissions_replaced_while_they_are_read_grant_nothing(world):
    world.grant(ann=["app"])
    states = world.states.states()
    world.grant(ann=["lib"])
    world.states.states = lambda: states  # as read before they were replaced

    assert await world.sees(ANN) == set()


async def test_unchanged_permissions_are_read_once(world):
    world.grant(ann=["app"])
    read, given = [], world.states.permissions
    world.states.permissions = lambda name: (read.append(name), given(name))[1]
    for _ in range(3):
        await world.sees(ANN)
    world.grant(ann=["app"])
    await world.sees(ANN)
    assert read == ["work"]
    world.grant(ann=["lib"])

    assert await world.sees(ANN) == {"acme/lib"}
    assert read == ["work", "work"]


# For admins


def principal(visible):
    return Principal("root", Role.ADMIN, visible)


async def test_admins_who_see_everything_are_shown_the_state_and_ask_for_a_sync(dependencies, jobs):
    given = dependencies
    with pytest.raises(NotFound, match="CODELODE_SOURCES"):
        await service.sync_permissions(given, principal(EVERYTHING))
    given.permissions.declare([WORK, replace(WORK, name="other")])
    given.permissions.report("sources.yaml:1: wrong")

    shown = await service.permissions(given, principal(EVERYTHING))
    assert [one.connection for one in shown.connections] == ["other", "work"]
    assert shown.problem == "sources.yaml:1: wrong"
    assert all(one.closed_because and one.is_due for one in shown.connections)
    assert await service.sync_permissions(given, principal(EVERYTHING), "work") == ("work",)
    assert await service.sync_permissions(given, principal(EVERYTHING)) == ("other", "work")
    assert jobs.sent == [("permissions", name) for name in ("work", "other", "work")]
    with pytest.raises(NotFound, match="did you mean 'work'"):
        await service.sync_permissions(given, principal(EVERYTHING), "wrok")
    for call in (service.permissions, service.sync_permissions):
        with pytest.raises(Denied, match="no globs"):
            await call(given, principal(Visibility.of(["acme/app"])))


def test_rights_that_were_read_are_used_for_less_than_a_second():
    assert FRESH_S < 1
