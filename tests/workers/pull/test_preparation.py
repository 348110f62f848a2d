"""Runs of a repository with patterns: real git, a ledger, and what is indexed in the end."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import partial

import pytest

from codelode.backends.memory.ledger import MemoryLedger
from codelode.errors import CodelodeError, InvalidQuery
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
from codelode.repository_rules import RepositoryRules
from workers.pull.mirror import Mirrors
from workers.pull.preparation import BeingRemoved, prepare, update

PRINT = "parser 1, store local, model-1 ≤ 10"

FILES = {"src/a.py": "a", "src/gen/b.py": "b", "docs/c.md": "c", "logo.png": "x"}


@dataclass
class World:
    repository: Repository
    mirrors: Mirrors
    ledger: MemoryLedger = field(default_factory=MemoryLedger)
    rules: RepositoryRules | None = None

    def plan(
        self, ref=DEFAULT_REF, *, reprocess=(), fingerprint=PRINT
    ) -> tuple[Run, FileManifest, Advance]:
        """Plan a run as a pull does."""
        run = self.ledger.create(self.repository.name, ref, reprocess=reprocess)
        checked_out = update(run, ledger=self.ledger, mirrors=self.mirrors)
        prepared = prepare(
            run,
            ledger=self.ledger,
            mirrors=self.mirrors,
            fingerprint=fingerprint,
            max_file_bytes=1000,
            checked_out=checked_out,
            rules=self.rules,
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
        """Run with the patterns, and return the work: `path` is indexed, `-path` is dropped."""
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


def test_changed_patterns_at_the_same_commit_touch_only_added_and_removed_files(world):
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


def test_patterns_that_change_with_the_commit_give_the_index_of_a_first_run(world, source):
    world.index(include=["src/"])
    source.commit({"docs/c.md": "changed", "src/a.py": "changed", "src/d.py": "d"})
    assert world.index(include=["docs/", "d.py"]) == {
        *("-src/a.py", "-src/gen/b.py", "docs/c.md", "src/d.py")
    }
    assert world.indexed() == {"docs/c.md", "src/d.py"}


@pytest.mark.parametrize("is_new", [True, False])
def test_patterns_that_include_no_file_change_nothing(world, is_new):
    before = set() if is_new else world.index()
    told = r"scr/, \*\.rb matches none of the 4 files.* the patterns stay stored until .*--no-pat"
    with pytest.raises(InvalidQuery, match=told):
        world.index(include=["scr/", "*.rb"])
    assert world.indexed() == before


def test_the_last_included_file_of_a_repository_can_be_removed(world, source):
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


def test_patterns_given_during_the_first_plan_are_not_lost(world):
    class Slow(Mirrors):
        def resolve(self, name, *ref):
            world.ledger.set_patterns(name, exclude=["gen/"])
            return super().resolve(name, *ref)

    world.mirrors = Slow(world.mirrors.folder, timeout_s=60, local_paths=world.mirrors.local_paths)
    world.index()
    assert world.ledger.get(world.repository.name).default_ref == "main"
    assert world.ledger.get(world.repository.name).patterns.exclude == ("gen/",)
    assert world.index() == {"-src/gen/b.py"}


def test_the_next_run_finishes_what_a_cancelled_run_left(world):
    world.index()
    world.ledger.set_patterns(world.repository.name, exclude=["src/"])
    run, _, _ = world.plan()
    world.ledger.end(run.id, RunState.CANCELLED)
    world.index(exclude=[])
    assert world.indexed() == {"src/a.py", "src/gen/b.py", "docs/c.md"}


@pytest.mark.parametrize(
    "other", ["parser 1, store weaviate, model-1 ≤ 10", "parser 1, store local, model-2"]
)
def test_files_that_are_stored_in_one_index_do_not_count_as_stored_in_another(world, other):
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


def test_a_ref_that_becomes_the_default_one_does_not_count_as_indexed(world, source):
    world.index()
    source.commit({"src/e.py": "e"}, branch="dev", parent="refs/heads/main")
    world.index(RefName("dev"))
    _, manifest, _ = world.plan(RefName("dev"), reprocess=[Reprocess.DEFAULT])
    assert manifest.is_rebuild
    assert world.indexed("dev") == set()
    assert world.indexed("main") == {"src/a.py", "src/gen/b.py", "docs/c.md"}


# the default ref


@pytest.fixture
def two_branches(world, source):
    """Return a world whose source has the branches main and dev, which has one more file."""
    source.commit({"src/e.py": "e"}, branch="dev", parent="refs/heads/main")
    return world


def default(world):
    found = world.ledger.get(world.repository.name)
    return found.default_ref, found.is_pinned


def notices(world, run):
    return " | ".join(world.ledger.run(run.id).notices)


def test_another_default_branch_of_the_source_is_reported_and_not_followed(two_branches, source):
    two_branches.index()
    source.git("symbolic-ref", "HEAD", "refs/heads/dev")
    run, manifest, _ = two_branches.plan()
    assert (two_branches.ledger.run(run.id).resolved, manifest.items) == ("main", ())
    assert default(two_branches) == ("main", True)
    assert "default branch of the source is dev" in notices(two_branches, run)
    assert "codelode default owner/repo HEAD" in notices(two_branches, run)


def refs(world):
    return {status.ref for status in world.ledger.refs(world.repository.name)}


def test_the_default_ref_of_a_repository_of_a_connection_follows_its_source(two_branches, source):
    world = two_branches
    world.rules = RepositoryRules()
    world.index()
    world.index(RefName("dev"))
    source.git("symbolic-ref", "HEAD", "refs/heads/dev")
    source.commit({"src/f.py": "f"}, branch="trunk", parent="refs/heads/main")
    run, _, advance = world.plan()
    assert notices(world, run) == (
        "the default ref is now dev, no longer main | main is removed from the index"
    )
    world.finish(run, advance)
    assert (default(world), refs(world)) == (("dev", True), {"dev"})
    world.ledger.ref_removal_finished(world.repository.name, RefName("main"))
    source.git("symbolic-ref", "HEAD", "refs/heads/trunk")
    world.rules = RepositoryRules(branches=("d*",))
    assert world.index() == {"docs/c.md", "src/a.py", "src/f.py", "src/gen/b.py", "-src/e.py"}
    assert (default(world), refs(world)) == (("trunk", True), {"dev", "trunk"})


def test_a_default_ref_that_a_user_chose_stays_until_it_follows_the_host_again(
    two_branches, source
):
    world = two_branches
    world.rules = RepositoryRules()
    world.index()
    run, _, advance = world.plan(RefName("dev"), reprocess=[Reprocess.DEFAULT])
    world.finish(run, advance)
    assert world.index() == set()
    assert (default(world), refs(world)) == (("dev", True), {"dev", "main"})
    run, _, advance = world.plan(reprocess=[Reprocess.DEFAULT])
    world.finish(run, advance)
    source.git("symbolic-ref", "HEAD", "refs/heads/dev")
    world.index()
    assert (default(world), refs(world)) == (("dev", True), {"dev"})


def test_a_default_ref_stays_when_its_repository_left_the_connection(two_branches, source):
    world = two_branches
    world.rules = RepositoryRules()
    world.index()
    world.rules = None
    source.git("symbolic-ref", "HEAD", "refs/heads/dev")
    assert world.index() == set()
    assert default(world) == ("main", True)
    world.rules = RepositoryRules()
    assert world.index() == set()
    assert default(world) == ("main", True)


def test_a_ref_that_was_indexed_before_the_default_branch_stays(two_branches):
    two_branches.rules = RepositoryRules()
    two_branches.index(RefName("dev"))
    two_branches.index()
    assert (default(two_branches), refs(two_branches)) == (("main", True), {"dev", "main"})


def test_a_default_branch_that_was_renamed_is_followed_with_a_report(two_branches, source):
    two_branches.index()
    source.git("branch", "-m", "main", "trunk")
    run, manifest, advance = two_branches.plan()
    assert default(two_branches) == ("trunk", True)
    assert notices(two_branches, run) == (
        "the default ref is now trunk, no longer main | "
        "main has left the source and is removed from the index"
    )
    assert manifest.is_rebuild is False  # nothing is stored at trunk yet
    two_branches.finish(run, advance)
    assert two_branches.indexed("trunk") == {"src/a.py", "src/gen/b.py", "docs/c.md"}


def test_the_default_ref_changes_on_request_and_then_stays(two_branches):
    two_branches.index()
    run, _, advance = two_branches.plan(RefName("dev"), reprocess=[Reprocess.DEFAULT])
    two_branches.finish(run, advance)
    assert default(two_branches) == ("dev", True)
    assert "the default ref is now dev, no longer main" in notices(two_branches, run)
    assert two_branches.index() == set()  # of dev
    run, _, _ = two_branches.plan(DEFAULT_REF, reprocess=[Reprocess.DEFAULT])
    assert default(two_branches) == ("main", True)


def test_searches_without_a_ref_no_longer_find_what_only_the_old_default_had(two_branches):
    two_branches.index(RefName("dev"))
    _, manifest, _ = two_branches.plan()
    assert default(two_branches) == ("main", True)
    assert {item.path for item in manifest.items if item.is_removal} == {"src/e.py"}


@pytest.mark.parametrize("dies", ["before the plan", "after the plan"])
def test_a_change_of_the_default_ref_survives_the_death_of_its_run(two_branches, dies):
    two_branches.index(RefName("dev"))
    two_branches.index(RefName("main"))
    before = two_branches.ledger.create(two_branches.repository.name, DEFAULT_REF)
    settings = {"fingerprint": PRINT, "max_file_bytes": 1000}
    prepared = prepare(before, ledger=two_branches.ledger, mirrors=two_branches.mirrors, **settings)
    if dies == "after the plan":
        two_branches.ledger.plan(before.id, prepared.manifest, ref=prepared.ref, fingerprint=PRINT)
    two_branches.ledger.end(before.id, RunState.CANCELLED)

    _, manifest, _ = two_branches.plan()
    assert default(two_branches) == ("main", True)
    assert {("-" if one.is_removal else "") + one.path for one in manifest.items} == {
        *("src/a.py", "src/gen/b.py", "docs/c.md", "-src/e.py")
    }


def test_the_ref_that_is_indexed_first_is_the_default_until_a_run_names_none(two_branches):
    run, _, advance = two_branches.plan(RefName("dev"))
    two_branches.finish(run, advance)
    assert default(two_branches) == ("dev", False)
    assert notices(two_branches, run) == ""
    two_branches.index(RefName("main"))
    assert default(two_branches) == ("dev", False)
    run, _, _ = two_branches.plan()
    assert default(two_branches) == ("main", True)
    assert "the default ref is now main, no longer dev" in notices(two_branches, run)


def test_a_run_of_another_ref_names_the_default_ref_and_how_to_change_it(two_branches):
    two_branches.index()
    run, _, _ = two_branches.plan(RefName("dev"))
    assert notices(two_branches, run) == (
        "dev is indexed; searches without --ref use the default ref main "
        "(`codelode default owner/repo dev` changes that)"
    )


def checkout(source, tmp_path, *options):
    """Clone the source, as users do, and return the folder and a function that runs git there."""
    folder = tmp_path / "checkout"
    source.git("clone", "-q", *options, ".", str(folder))
    return folder, partial(source.git, "-C", str(folder))


@pytest.fixture
def work(two_branches, source, tmp_path):
    """Return the world of a checkout of the source, and a function that runs git in it."""
    folder, run_git = checkout(source, tmp_path)
    two_branches.repository = replace(two_branches.repository, url=str(folder))
    two_branches.ledger.register(two_branches.repository)
    return two_branches, run_git


def test_a_branch_that_is_checked_out_does_not_become_the_default_one(work):
    world, git = work
    git("checkout", "-q", "-b", "feature/x")
    run, _, advance = world.plan()
    world.finish(run, advance)
    assert (world.ledger.run(run.id).resolved, default(world)) == ("main", ("main", True))
    assert "`--ref feature/x` indexes it" in notices(world, run)
    git("checkout", "-q", "main")
    run, _, _ = world.plan()
    assert notices(world, run) == ""


@pytest.mark.parametrize(
    ("commands", "expected"),
    [
        ([("remote", "set-head", "origin", "dev"), ("branch", "dev", "origin/dev")], "dev"),
        ([("remote", "set-head", "origin", "dev")], "main"),  # dev is on no local branch
        ([("remote", "remove", "origin"), ("checkout", "-qb", "x")], "main"),
        (
            [("remote", "remove", "origin"), ("branch", "-m", "master"), ("checkout", "-qb", "x")],
            "master",
        ),
        ([("remote", "remove", "origin"), ("branch", "-m", "trunk")], "trunk"),
        ([("checkout", "-q", "--detach")], "main"),
        ([("checkout", "-q", "--orphan", "new")], "main"),
        ([("checkout", "-q", "--detach"), ("branch", "-D", "main")], "HEAD"),
    ],
    ids=[
        *("remote", "remote without a local branch", "main", "master", "only branch"),
        *("detached", "unborn", "detached without a branch"),
    ],
)
def test_the_default_branch_of_a_checkout_is_its_remote_s_or_a_usual_one(work, commands, expected):
    world, git = work
    for command in commands:
        git(*command)
    for _ in ("first", "second"):
        world.index()
        assert default(world) == (expected, expected != "HEAD")


def test_checking_out_another_branch_keeps_the_default_ref_of_a_followed_checkout(work):
    world, git = work
    world.rules = RepositoryRules()
    for command in ("remote remove origin", "branch -m trunk"):
        git(*command.split())
    world.index()
    git("checkout", "-q", "-b", "feature/x")
    assert world.index() == set()
    assert default(world) == ("trunk", True)


def test_a_detached_source_without_branches_gets_its_default_with_the_first_branch(work):
    world, git = work
    git("checkout", "-q", "--detach")
    git("branch", "-D", "main")
    world.index()
    git("checkout", "-q", "-b", "trunk")
    world.index()
    assert default(world) == ("trunk", True)


def test_the_head_of_a_bare_source_without_its_branch_gives_way_to_a_usual_one(world, source):
    source.git("symbolic-ref", "HEAD", "refs/heads/unborn")
    world.index()
    assert default(world) == ("main", True)


# runs that only write new groups


def test_new_groups_are_written_without_the_source_if_there_is_a_mirror(world, source):
    world.index()
    source.path.rename(source.path.with_suffix(".gone"))
    run, manifest, advance = world.plan(RefName("main"), reprocess=[Reprocess.GROUPS])
    assert {item.path for item in manifest.items} == world.indexed()
    world.finish(run, advance)

    for reprocess in ((), [Reprocess.FAILED, Reprocess.GROUPS]):
        run = world.ledger.create(world.repository.name, RefName("main"), reprocess=reprocess)
        with pytest.raises(CodelodeError):
            update(run, ledger=world.ledger, mirrors=world.mirrors)
        world.ledger.end(run.id, RunState.FAILED)
    world.mirrors.remove(world.repository.name)
    run = world.ledger.create(world.repository.name, RefName("main"), reprocess=[Reprocess.GROUPS])
    with pytest.raises(CodelodeError):
        update(run, ledger=world.ledger, mirrors=world.mirrors)


# refs that leave the source


def prepared(world, ref=DEFAULT_REF):
    """Return what a pull finds, without planning it."""
    run = world.ledger.create(world.repository.name, ref)
    stores = {"ledger": world.ledger, "mirrors": world.mirrors}
    settings = {"fingerprint": PRINT, "max_file_bytes": 1000}
    found = prepare(run, **stores, **settings, checked_out=update(run, **stores))
    world.ledger.end(run.id, RunState.CANCELLED)
    return found


def test_refs_that_left_the_source_are_found_by_the_next_run_of_any_ref(two_branches, source):
    first = source.git("rev-parse", "main")
    source.git("tag", "v1", "main")
    for ref in ("dev", "v1", first, "main"):
        two_branches.index(RefName(ref))
    two_branches.index()
    assert prepared(two_branches).gone == ()
    source.git("branch", "-D", "dev")
    assert prepared(two_branches).gone == ("dev",)
    source.git("tag", "-d", "v1")
    found = prepared(two_branches, RefName("main"))
    assert set(found.gone) == {"dev", "v1"}
    assert "dev has left the source and is removed from the index" in found.manifest.notices


def test_a_default_ref_that_left_the_source_stays_until_it_is_replaced(two_branches, source):
    two_branches.index()
    source.git("symbolic-ref", "HEAD", "refs/heads/dev")
    source.git("branch", "-D", "main")
    found = prepared(two_branches, RefName("dev"))
    assert found.gone == ()
    assert any("codelode default owner/repo HEAD" in one for one in found.manifest.notices)
    found = prepared(two_branches)
    assert (found.ref, found.gone) == ("dev", ("main",))


def test_a_ref_that_is_being_removed_is_not_planned(two_branches):
    two_branches.index()
    two_branches.index(RefName("dev"))
    two_branches.ledger.remove_ref(two_branches.repository.name, RefName("dev"))
    with pytest.raises(BeingRemoved, match="dev of owner/repo is still being removed"):
        two_branches.plan(RefName("dev"))
