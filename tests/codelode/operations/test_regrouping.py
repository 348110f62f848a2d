"""Regrouping follows the rights, even while runs go on or fail, or if the program is killed."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from codelode.access import EVERYTHING, Label
from codelode.backends.memory.chunks import MemoryChunkStore
from codelode.backends.memory.ledger import MemoryLedger
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
from codelode.operations import regrouping
from codelode.operations.regrouping import FOLLOWED_S, Regrouping
from tests.chunks import chunk

NAMES = tuple(RepositoryName(f"acme/r{number}") for number in range(6))
MAIN, DEV = RefName("main"), RefName("dev")
OLD = Rights(lists=(("**0", "**1", "**2", "**3"),))
NEW = Rights(lists=(("**1", "**2", "**3", "**4"),))


class Killed(Exception):
    pass


class World:
    """Repositories of two refs, and a worker that works while the program sleeps."""

    def __init__(self):
        self.ledger, self.store = MemoryLedger(), MemoryChunkStore(dim=2)
        self.names, self.broken = NAMES, set()
        self.slept, self.kill_at, self.flushed, self.told = [], None, 0, []
        self.groups_of_run = {}
        for name in NAMES:
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

    def sleep(self, seconds):
        self.slept.append(seconds)
        if len(self.slept) == self.kill_at:
            raise Killed
        self.require_truth()
        self.work()

    def flush(self):
        self.flushed += 1

    def regroup(self, rights=NEW):
        tell = lambda *counts: self.told.append(counts)  # noqa: E731
        regroup = Regrouping(self.ledger, lambda: self.store, self.flush, tell, self.sleep)
        left = regroup(rights)
        self.require_truth()
        return left

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
    assert (world.slept[0], world.told) == (FOLLOWED_S, [(0, 2), (2, 2)])
    assert world.regroup() == ()
    assert world.told[2:] == [(0, 0)]


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


@pytest.mark.parametrize("kill_at", range(1, 8))
def test_a_program_that_was_killed_is_continued_by_its_next_call(world, monkeypatch, kill_at):
    monkeypatch.setattr(regrouping, "BATCH", 1)
    world.kill_at = kill_at
    try:
        world.regroup()
    except Killed:
        world.require_truth()
    world.kill_at = None
    assert world.regroup() == ()
    assert world.is_as_of(NEW)


@pytest.mark.parametrize("rights", [OLD, NEW, Rights()], ids=["as before", "new", "none"])
def test_rights_may_change_again_after_a_kill(world, rights):
    world.kill_at = 2
    with pytest.raises(Killed):
        world.regroup()
    world.kill_at = None
    assert world.regroup(rights) == ()
    assert world.is_as_of(rights)


def test_a_repository_whose_run_fails_stays_suspended_until_the_next_call(world):
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
    sleep = world.sleep

    def work_late(seconds):
        """Let the run write nothing before the new groups are set."""
        if seconds == FOLLOWED_S:
            world.require_truth()
        else:
            sleep(seconds)

    world.sleep = work_late
    assert world.regroup() == ()
    assert world.ledger.run(run.id).state is RunState.COMPLETE
    assert world.groups_of_run[run.id] == OLD.groups_of(world.ledger.get(name))
    assert world.is_as_of(NEW)
