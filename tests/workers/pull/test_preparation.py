"""Runs of a repository with patterns: real git, a ledger, and what is indexed in the end."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from codelode.backends.memory.ledger import MemoryLedger
from codelode.errors import InvalidQuery
from codelode.ledger import Advance, FileManifest
from codelode.model import (
    DEFAULT_REF,
    BlobId,
    FileRecord,
    FileState,
    RefName,
    Repository,
    Reprocess,
    Run,
    RunState,
)
from workers.pull.mirror import Mirrors
from workers.pull.preparation import prepare

PRINT = "parser 1, store local, model-1 ≤ 10"

FILES = {"src/a.py": "a", "src/gen/b.py": "b", "docs/c.md": "c", "logo.png": "x"}


@dataclass
class World:
    repository: Repository
    mirrors: Mirrors
    ledger: MemoryLedger = field(default_factory=MemoryLedger)

    def plan(
        self, ref=DEFAULT_REF, *, reprocess=(), fingerprint=PRINT
    ) -> tuple[Run, FileManifest, Advance]:
        """What a pull does."""
        run = self.ledger.create(self.repository.name, ref, reprocess=reprocess)
        prepared = prepare(
            run,
            ledger=self.ledger,
            mirrors=self.mirrors,
            fingerprint=fingerprint,
            max_file_bytes=1000,
        )
        manifest = prepared.manifest
        advance = self.ledger.plan(run.id, manifest, ref=prepared.ref, fingerprint=fingerprint)
        return run, manifest, advance

    def finish(self, run: Run, advance: Advance) -> None:
        done = [
            FileRecord(item.path, BlobId(""), FileState.PENDING)
            if item.is_removal
            else FileRecord(item.path, item.blob, FileState.INDEXED)
            for item in advance.items
        ]
        self.ledger.done(run.id, done)

    def index(self, ref=DEFAULT_REF, **patterns) -> set[str]:
        """A whole run after the patterns were given; its work: `path` to index, `-path` to drop."""
        self.ledger.set_patterns(self.repository.name, **patterns)
        run, manifest, advance = self.plan(ref)
        self.finish(run, advance)
        return {f"-{item.path}" if item.is_removal else item.path for item in manifest.items}

    def indexed(self, ref="main") -> set[str]:
        return {
            one.path
            for one in self.ledger.all(self.repository.name, RefName(ref))
            if one.state is FileState.INDEXED
        }

    def left_out(self) -> dict[str, str]:
        found = self.ledger.with_state(self.repository.name, FileState.SKIPPED)
        return {record.path: record.reason for _, record in found}


@pytest.fixture
def world(source, repository, mirrors):
    source.commit(FILES)
    made = World(repository, mirrors)
    made.ledger.register(repository)
    return made


def test_only_what_the_patterns_choose_is_indexed_and_the_rest_has_its_reason(world):
    assert world.index(include=["src/"], exclude=["gen/"]) == {"src/a.py"}
    assert world.indexed() == {"src/a.py"}
    assert world.left_out() == {
        "src/gen/b.py": "excluded",
        "docs/c.md": "not_included",
        "logo.png": "media",
    }


def test_other_patterns_for_the_same_commit_touch_exactly_what_comes_and_goes(world):
    assert world.index() == {"src/a.py", "src/gen/b.py", "docs/c.md"}
    assert world.index(exclude=["gen/"]) == {"-src/gen/b.py"}
    assert world.index() == set()
    assert world.index(include=["src/"]) == {"-docs/c.md"}
    assert world.index(exclude=["/src/a.py"]) == {"src/gen/b.py", "-src/a.py"}
    assert world.index(include=[]) == {"docs/c.md"}
    assert world.index(exclude=[]) == {"src/a.py"}
    assert world.index() == set()
    assert world.left_out() == {"logo.png": "media"}


def test_patterns_hold_for_later_commits_without_a_comparison_of_everything(
    world, source, monkeypatch
):
    world.index(include=["src/"], exclude=["gen/"])
    source.commit({"src/new.py": "n", "src/gen/new.py": "n", "docs/new.md": "n", "src/a.py": None})
    monkeypatch.setattr(world.ledger, "all", None)
    assert world.index() == {"src/new.py", "-src/a.py"}
    monkeypatch.undo()
    assert world.indexed() == {"src/new.py"}
    assert world.left_out()["docs/new.md"] == "not_included"


def test_patterns_that_change_with_the_commit_leave_what_a_first_run_would(world, source):
    world.index(include=["src/"])
    source.commit({"docs/c.md": "changed", "src/a.py": "changed", "src/d.py": "d"})
    assert world.index(include=["docs/", "d.py"]) == {
        *("-src/a.py", "-src/gen/b.py", "docs/c.md", "src/d.py")
    }
    assert world.indexed() == {"docs/c.md", "src/d.py"}


@pytest.mark.parametrize("is_new", [True, False])
def test_patterns_that_include_no_file_change_nothing(world, is_new):
    before = set() if is_new else world.index()
    with pytest.raises(InvalidQuery, match=r"scr/, \*\.rb matches none of the 4 files"):
        world.index(include=["scr/", "*.rb"])
    assert world.indexed() == before


def test_the_last_included_file_of_a_repository_may_go(world, source):
    world.index(include=["src/"])
    source.commit({"src/a.py": None, "src/gen/b.py": None})
    assert world.index() == {"-src/a.py", "-src/gen/b.py"}


def test_every_ref_follows_with_its_own_next_run(world, source):
    source.commit({"src/e.py": "e"}, branch="dev", parent="refs/heads/main")
    world.index()
    world.index(RefName("dev"))
    assert world.index(exclude=["src/"]) == {"-src/a.py", "-src/gen/b.py"}
    assert world.index(RefName("dev")) == {"-src/a.py", "-src/gen/b.py", "-src/e.py"}
    assert world.indexed("dev") == world.indexed("main") == {"docs/c.md"}


def test_patterns_given_during_a_run_are_followed_by_the_next(world):
    run, _, advance = world.plan()
    world.ledger.set_patterns(world.repository.name, exclude=["gen/"])
    world.finish(run, advance)
    assert world.index() == {"-src/gen/b.py"}


def test_patterns_given_during_the_first_pull_are_not_lost(world):
    class Slow(Mirrors):
        def sync(self, repository, *, on_progress=None):
            world.ledger.set_patterns(repository.name, exclude=["gen/"])
            super().sync(repository, on_progress=on_progress)

    world.mirrors = Slow(world.mirrors.folder, timeout_s=60, local_paths=world.mirrors.local_paths)
    world.index()
    assert world.ledger.get(world.repository.name).default_ref == "main"
    assert world.ledger.get(world.repository.name).patterns.exclude == ("gen/",)
    assert world.index() == {"-src/gen/b.py"}


def test_a_run_that_does_not_end_leaves_the_rest_to_the_next(world):
    world.index()
    world.ledger.set_patterns(world.repository.name, exclude=["src/"])
    run, _, _ = world.plan()
    world.ledger.end(run.id, RunState.CANCELLED)
    world.index(exclude=[])
    assert world.indexed() == {"src/a.py", "src/gen/b.py", "docs/c.md"}


@pytest.mark.parametrize(
    "other", ["parser 1, store weaviate, model-1 ≤ 10", "parser 1, store local, model-2"]
)
def test_another_index_is_filled_and_what_was_not_stored_in_one_is_not_taken_for_it(world, other):
    paths = world.index()
    run, manifest, advance = world.plan(fingerprint=other)
    assert ({item.path for item in manifest.items}, manifest.is_rebuild) == (paths, True)
    stored = advance.items[0]
    world.ledger.done(run.id, [described(stored)])
    world.ledger.end(run.id, RunState.CANCELLED)

    run, manifest, _ = world.plan(fingerprint=other)  # goes on
    assert ({item.path for item in manifest.items}, manifest.is_rebuild) == (
        paths - {stored.path},
        False,
    )
    world.ledger.end(run.id, RunState.CANCELLED)

    _, manifest, _ = world.plan()  # back at the first, which lacks what was stored in the other
    assert ({item.path for item in manifest.items}, manifest.is_rebuild) == (paths, True)


def test_another_parser_writes_into_the_same_index(world):
    paths = world.index()
    _, manifest, _ = world.plan(fingerprint=PRINT.replace("parser 1", "parser 2"))
    assert ({item.path for item in manifest.items}, manifest.is_rebuild) == (paths, False)


def described(item, summaries=1):
    return FileRecord(item.path, item.blob, FileState.INDEXED, chunks=1, summaries=summaries)


def test_summaries_that_a_run_was_to_make_and_did_not_are_left_to_the_next(world):
    run, _, advance = world.plan()
    world.ledger.done(run.id, [described(item, summaries=0) for item in advance.items])
    run, manifest, advance = world.plan(reprocess=[Reprocess.SUMMARIES])
    assert {item.path for item in manifest.items} == {"src/a.py", "src/gen/b.py", "docs/c.md"}
    world.ledger.done(run.id, [described(advance.items[0])])
    assert world.indexed() == {"src/a.py", "src/gen/b.py", "docs/c.md"}
    world.ledger.end(run.id, RunState.CANCELLED)

    done = advance.items[0].path
    run, manifest, advance = world.plan()
    assert {item.path for item in manifest.items} == world.indexed() - {done}
    world.ledger.done(run.id, [described(item) for item in advance.items])
    assert world.index() == set()


def test_a_ref_that_becomes_the_default_one_is_not_taken_for_indexed(world, source):
    world.index()
    source.commit({"src/e.py": "e"}, branch="dev", parent="refs/heads/main")
    world.index(RefName("dev"))
    source.git("symbolic-ref", "HEAD", "refs/heads/dev")
    _, manifest, _ = world.plan()
    assert manifest.is_rebuild
    assert world.indexed("dev") == set()
    assert world.indexed("main") == {"src/a.py", "src/gen/b.py", "docs/c.md"}
