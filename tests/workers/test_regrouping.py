"""Regrouping follows the rights, even while runs go on or fail, or if a worker is killed."""

from __future__ import annotations

import random
from itertools import count, product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from codelode import covers
from codelode.access import EVERYTHING, Label, Role
from codelode.backends.memory.chunks import MemoryChunkStore
from codelode.backends.memory.ledger import MemoryLedger
from codelode.backends.memory.regrouping import MemoryRegroupingStates
from codelode.covers import Grouped
from codelode.grouping import Rights
from codelode.ledger import FileManifest, WorkItem
from codelode.model import (
    BlobId,
    FileChunks,
    FileRecord,
    FileState,
    RefName,
    Repository,
    RepositoryName,
    Reprocess,
    Revision,
    RunState,
)
from codelode.regrouping import CHECK_EVERY_S
from gateway.access.identity import Identity
from gateway.access.rules import Grant, Rules
from gateway.access.visibility import Visibilities
from tests.chunks import chunk
from workers import regrouping
from workers.regrouping import FOLLOWED_S, Regrouping

NAMES = tuple(RepositoryName(f"acme/r{number}") for number in range(6))
MAIN, DEV = RefName("main"), RefName("dev")
OLD = Rights(lists=(("**0", "**1", "**2", "**3"),))
NEW = Rights(lists=(("**1", "**2", "**3", "**4"),))


class Killed(Exception):
    pass


class Counted:
    """Counts the calls that change something in the target; the worker is killed before one."""

    CHANGES = ("suspend_groups", "set_groups", "settle_groups", "create", "save")

    def __init__(self, target, world):
        self._target, self._world = target, world

    def __getattr__(self, name):
        if name in self.CHANGES:
            self._world.changes += 1
            if self._world.changes == self._world.kill_at:
                raise Killed
        return getattr(self._target, name)


class World:
    """Repositories of two refs, and a worker that works between the steps of regrouping."""

    def __init__(self):
        self.ledger, self.store = MemoryLedger(), MemoryChunkStore(dim=2)
        self.time = 1e9
        self.states = MemoryRegroupingStates(now=lambda: self.time)
        self.names: tuple[RepositoryName, ...] = ()
        self.broken, self.rights = set(), NEW
        self.changes, self.kill_at, self.finds_teams = 0, None, []
        self.groups_of_run = {}
        self.add(NAMES)

    def add(self, names):
        for name in names:
            self.names += (name,)
            self.ledger.register(Repository(name, f"https://git.example/{name}", MAIN))
            self.ledger.set_label(name, Label.INTERNAL)
            for ref in (MAIN, DEV):
                self.ledger.create(name, ref)
                self.work(rights=OLD)

    def begin(self, run, rights=OLD):
        """Plan the run; it writes the groups of this moment."""
        repository = self.ledger.get(run.repository)
        manifest = FileManifest(
            Revision("1" * 40),
            tuple(WorkItem(path, BlobId(path)) for path in ("a.py", f"{run.ref}.py")),
            groups=rights.groups_of(repository),
        )
        self.ledger.plan(run.id, manifest, ref=run.ref, fingerprint="")
        self.groups_of_run[run.id] = self.ledger.groups_of(run.repository)

    def end(self, run):
        for path in ("a.py", f"{run.ref}.py"):
            made = chunk(path, f"x = '{path}'", repository=run.repository)
            vectors, groups = np.ones((1, 2), np.float32), self.groups_of_run[run.id]
            self.store.replace(
                [FileChunks(run.repository, path, (run.ref,), (made,), vectors, groups)]
            )
            self.ledger.done(run.id, [FileRecord(path, BlobId(path), FileState.INDEXED, chunks=1)])
            self.require_truth()

    def work(self, rights=OLD):
        """Begin the runs that can begin, and end those that have begun before."""
        for run in [self.ledger.run(one) for one in map(self.ledger.active, self.names) if one]:
            if run.repository in self.broken:
                self.ledger.end(run.id, RunState.FAILED, "broken")
            elif run.state is RunState.PULLING:
                self.begin(run, rights)
                self.end(run)
            else:
                self.end(run)

    def require_truth(self):
        """Check that every chunk has the groups that filters rely on, and no unexpected ones."""
        every = {one for found in self.ledger.groups().values() for one in found.possible}
        for name, found in self.ledger.groups().items():
            unexpected = tuple(every - {*found.possible})
            assert not self.store.has_others(name, Grouped(found.certain, unexpected))

    def step(self):
        """Take a step of regrouping, during which the worker may be killed, and let time pass."""
        regroup = Regrouping(
            Counted(self.ledger, self),
            Counted(self.states, self),
            inventory=lambda: self.store,
            flush=lambda: None,
            rights=self.current_rights,
        )
        regroup.step()
        self.require_truth()
        self.time += FOLLOWED_S / 2

    def current_rights(self, *, finds_teams=False):
        self.finds_teams.append(finds_teams)
        return self.rights

    def finish(self):
        """Take steps and do the work of runs until the regrouping that is under way has ended."""
        while True:
            self.step()
            if not self.states.state().is_active:
                return self.states.state().left
            self.work()

    def regroup(self, rights=NEW):
        self.rights = rights
        self.states.want()
        return self.finish()

    def is_as_of(self, rights):
        """Return whether groups tell apart exactly the repositories that rights tell apart."""
        stored, wanted = self.ledger.groups(), {}
        for name in self.names:
            assert not self.store.has_others(name, stored[name])
            wanted[name] = rights.groups_of(self.ledger.get(name))
        pairs = {(wanted[name], stored[name].certain) for name in self.names}
        return len(pairs) == len({*wanted.values()}) == len({one for _, one in pairs})


@pytest.fixture
def world():
    return World()


def test_repositories_whose_rights_changed_are_written_again_and_no_others(world):
    before = dict(world.ledger.groups())
    assert world.is_as_of(OLD)
    assert world.regroup() == ()

    runs = world.ledger.recent(EVERYTHING, limit=100)
    again = [run for run in runs if Reprocess.GROUPS in run.reprocess]
    assert {(run.repository, run.ref) for run in again} == {
        (name, ref) for name in (NAMES[0], NAMES[4]) for ref in (MAIN, DEV)
    }
    assert world.is_as_of(NEW)
    assert {name: world.ledger.groups()[name] for name in NAMES[1:4]} == {
        name: before[name] for name in NAMES[1:4]
    }
    state = world.states.state()
    assert (state.done, state.total, state.is_active) == (2, 2, False)
    assert world.finds_teams.count(True) == 1
    assert world.regroup() == ()
    assert world.states.state().total == 0


def test_groups_are_set_only_when_no_search_uses_an_earlier_filter(world):
    began = world.time
    world.states.want()
    world.step()
    before = world.ledger.groups()[NAMES[0]].former
    while world.states.state().runs is None:
        assert world.ledger.groups()[NAMES[0]].written == before
        world.step()
    assert world.time - began >= FOLLOWED_S


@pytest.mark.parametrize("number", range(20))
def test_a_new_group_does_not_take_the_name_of_another_one(world, number):
    """The new list matches all repositories, as many as share the group of the label."""
    rights = Rights(lists=((*OLD.lists[0],), ("**r?", f"x{number}*")))
    assert regrouping.outdated(world.ledger, rights).keys() == {*NAMES}
    assert world.regroup(rights) == ()
    assert world.is_as_of(rights)
    (label,) = OLD.groups_of(world.ledger.get(NAMES[4]))
    assert [len({*found.certain}) for found in world.ledger.groups().values()] == [3] * 4 + [2] * 2
    assert all(label in found.certain for found in world.ledger.groups().values())


def test_a_repository_that_is_indexed_after_a_list_has_changed_joins_the_others(world):
    assert world.regroup() == ()
    name = RepositoryName("acme/r11")
    world.ledger.register(Repository(name, f"https://git.example/{name}", MAIN))
    world.ledger.set_label(name, Label.INTERNAL)
    world.names += (name,)
    world.ledger.create(name, MAIN)
    world.work(rights=NEW)
    assert not world.is_as_of(NEW)

    assert regrouping.outdated(world.ledger, NEW).keys() == {name}
    assert world.regroup() == ()
    assert world.is_as_of(NEW)


@given(
    stored=st.dictionaries(st.sampled_from("abcdef"), st.frozensets(st.sampled_from("pqrs"))),
    now=st.lists(st.frozensets(st.sampled_from("qrst")), min_size=6, max_size=6),
)
def test_groups_have_different_names_and_stay_once_they_are_stored(stored, now):
    ledger = MemoryLedger()
    for name in "abcdef":
        ledger.register(Repository(RepositoryName(name), "", MAIN))
        run = ledger.create(RepositoryName(name), MAIN)
        before = tuple(sorted(stored.get(name, ())))
        manifest = FileManifest(Revision("1" * 40), (), groups=before)
        ledger.plan(run.id, manifest, ref=MAIN, fingerprint="")

    class Sets(Rights):
        def groups_of(self, repository):
            return tuple(sorted(now["abcdef".index(repository.name)]))

    wanted = regrouping.outdated(ledger, Sets())
    after = [{*wanted.get(name, ledger.groups_of(name))} for name in ledger.names()]
    for (one, its), (other, others) in product(zip(now, after, strict=True), repeat=2):
        assert len(its & others) == len(one & other)
    ledger.suspend_groups(list(wanted))
    for name, groups in wanted.items():
        ledger.set_groups(name, groups)
        assert ledger.settle_groups(name, groups)
    assert regrouping.outdated(ledger, Sets()) == {}


@pytest.mark.parametrize("kill_at", range(1, 20))
def test_a_regrouping_goes_on_after_a_worker_was_killed(world, monkeypatch, kill_at):
    monkeypatch.setattr(regrouping, "BATCH", 1)
    world.kill_at = kill_at
    with pytest.raises(Killed):
        world.regroup()
    world.require_truth()
    world.work()
    assert world.finish() == ()
    assert world.is_as_of(NEW)


@pytest.mark.parametrize("rights", [OLD, NEW, Rights()], ids=["as before", "new", "none"])
def test_rights_may_change_again_after_a_kill(world, rights):
    world.kill_at = 6
    with pytest.raises(Killed):
        world.regroup()
    assert world.regroup(rights) == ()
    assert world.is_as_of(rights)
    assert world.regroup(rights) == ()
    assert world.is_as_of(rights)


def test_a_repository_whose_run_fails_stays_suspended_until_the_next_request(world):
    world.broken = {NAMES[0]}
    assert world.regroup() == (NAMES[0],)
    assert world.ledger.groups()[NAMES[0]].is_suspended
    world.broken = set()
    assert world.regroup() == ()
    assert world.is_as_of(NEW)


@pytest.mark.parametrize("is_first", [False, True])
def test_a_run_that_was_planned_before_may_still_write_the_former_groups(world, is_first):
    name = RepositoryName("acme/r10") if is_first else NAMES[0]
    if is_first:
        world.ledger.register(Repository(name, f"https://git.example/{name}", MAIN))
        world.names += (name,)
        assert name not in regrouping.outdated(world.ledger, NEW)
    run = world.ledger.create(name, MAIN)
    world.begin(run)
    assert name in regrouping.outdated(world.ledger, NEW)
    world.states.want()
    while world.states.state().runs is None:
        world.step()  # the run writes nothing before the new groups are set
    world.work()
    assert world.finish() == ()
    assert world.ledger.run(run.id).state is RunState.COMPLETE
    assert world.groups_of_run[run.id] == OLD.groups_of(world.ledger.get(name))
    assert world.is_as_of(NEW)


class People:
    """A gateway's visibilities, by an access file that gives each person some repositories."""

    def __init__(self, world, names):
        self.visibilities = Visibilities(
            world.ledger,
            lambda: Rules(people={f"user:{who}": Grant(some) for who, some in names.items()}),
            regrouping=world.states,
        )
        self.visibilities._fresh._clock = count().__next__  # reads again at each call

    async def terms(self, who):
        """Return the number of terms of the filter of a person's search."""
        _, visible = await self.visibilities.of(Identity(f"user:{who}", Role.READER))
        return sum(map(len, visible.cover() or ((), visible.names)))


@pytest.fixture
def half(world, monkeypatch):
    """Return a random half of 60 repositories, and let a filter of more than 20 terms be long."""
    monkeypatch.setattr(covers, "MANY_TERMS", 20)
    world.add(RepositoryName(f"r{number:02}") for number in range(60 - len(NAMES)))
    return tuple(sorted(random.Random(1).sample(world.names, 30)))


async def test_regrouping_begins_by_itself_after_a_search_with_a_long_filter(world, half):
    people = People(world, {"ann": half})
    world.rights = Rights(lists=(half,))
    world.step()
    assert not world.states.state().is_active
    assert people.visibilities.problems() == ()

    assert await people.terms("ann") == 30
    (told,) = people.visibilities.problems()
    assert "filters of 1 caller have more than 1,000 terms" in told
    assert "within 15 minutes" in told
    world.step()
    (told,) = people.visibilities.problems()
    total = len(regrouping.outdated(world.ledger, world.rights))
    assert f"repositories are being regrouped, 0 of {total} are done" in told

    assert world.finish() == ()
    assert await people.terms("ann") == 1
    assert people.visibilities.problems() == ()
    assert world.states.state().done == total


async def test_regrouping_does_not_begin_if_it_shortens_no_filter(world, half):
    people = People(world, {"ann": half})
    assert await people.terms("ann") == 30

    world.rights = Rights(lists=(("**1", "**2"),))  # other groups, which do not help
    world.step()
    assert regrouping.outdated(world.ledger, world.rights)
    assert not world.states.state().is_active
    world.rights = Rights(lists=(half,))
    world.step()
    assert not world.states.state().is_active  # it was checked a moment ago
    world.time += CHECK_EVERY_S
    world.step()
    assert world.states.state().is_active


async def test_a_filter_that_has_become_short_starts_no_regrouping(world, half):
    people = People(world, {"ann": half})
    world.rights = Rights(lists=(half,))
    assert await people.terms("ann") == 30
    world.step()
    assert world.finish() == ()
    assert await people.terms("ann") == 1

    world.rights = Rights(lists=(half[:-1],))
    world.time += CHECK_EVERY_S
    world.step()
    assert regrouping.outdated(world.ledger, world.rights)
    assert not world.states.state().is_active


async def test_the_status_names_a_repository_that_could_not_be_regrouped(world, half):
    people = People(world, {"ann": half})
    world.rights, world.broken = Rights(lists=(half,)), {*world.names}
    assert await people.terms("ann") == 30
    world.step()
    left = world.finish()
    assert {*left} == regrouping.outdated(world.ledger, world.rights).keys()
    assert await people.terms("ann") > 20
    (told,) = people.visibilities.problems()
    assert f"{len(left)} repositories could not be regrouped, such as {left[0]}" in told
