"""The contract of the ledger's ports Catalog, Runs, Feeder, and Files, over every ledger."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace

import pytest

from codelode.access import EVERYTHING, Label, Visibility
from codelode.backends.memory.ledger import MemoryLedger
from codelode.backends.redis import ledger as ledger_module
from codelode.backends.redis.ledger import RedisLedger
from codelode.covers import Grouped
from codelode.estimates import Estimate, LanguageEstimate, SkippedFiles
from codelode.ledger import (
    AHEAD,
    AHEAD_MS,
    BULK_FILES,
    BULK_SHARE,
    HELD,
    NOT_IN_FLIGHT,
    Advance,
    FileManifest,
    Share,
    WorkItem,
)
from codelode.model import (
    DEFAULT_REF,
    BlobId,
    FilePatterns,
    FileRecord,
    FileState,
    HealthStatus,
    LanguageHealth,
    RefName,
    Repository,
    RepositoryName,
    Reprocess,
    Revision,
    Run,
    RunId,
    RunKind,
    RunState,
)
from tests.waiting import wait_until

APP = RepositoryName("acme/app")
MAIN = RefName("main")
ONE = Revision("1" * 40)
TWO = Revision("2" * 40)
PRINT = "parser-1 static"
AWAY = "Weaviate does not answer"
PATHS = ["src/1.py", "src/2.py"]

Make = Callable[..., RedisLedger | MemoryLedger]


@pytest.fixture(params=["memory", pytest.param("redis", marks=pytest.mark.server)])
def make(request: pytest.FixtureRequest) -> Make:
    """Return a function that makes an empty ledger with the given timings."""
    if request.param == "memory":
        return MemoryLedger
    client = request.getfixturevalue("redis")
    return lambda **timings: RedisLedger(client, **timings)


@pytest.fixture
def ledger(make: Make) -> RedisLedger | MemoryLedger:
    made = make(window=4)
    made.register(Repository(APP, "https://example.org/acme/app", MAIN))
    return made


def item(number: int) -> WorkItem:
    return WorkItem(f"src/{number}.py", BlobId(f"{number:040x}"), 100 + number)


def manifest(*items: WorkItem, revision: Revision = ONE, **more: object) -> FileManifest:
    return FileManifest(revision, items, **more)


def indexed(work: WorkItem, chunks: int = 2) -> FileRecord:
    return FileRecord(
        work.path, work.blob, FileState.INDEXED, "", "python", HealthStatus.OK, chunks
    )


def start(
    ledger: RedisLedger | MemoryLedger, *items: WorkItem, **more: object
) -> tuple[Run, Advance]:
    run = ledger.create(APP, DEFAULT_REF)
    assert ledger.claim(run.id, worker="puller")
    return run, ledger.plan(run.id, manifest(*items, **more), ref=MAIN, fingerprint=PRINT)


def drain(ledger: RedisLedger | MemoryLedger, run: Run, advance: Advance) -> Advance:
    """Finish all files that the ledger returns, until it returns none."""
    while advance.items:
        records = [
            FileRecord(work.path, BlobId(""), FileState.PENDING)
            if work.is_removal
            else indexed(work)
            for work in advance.items
        ]
        advance = ledger.done(run.id, records)
    return advance


# catalog


def test_a_registered_repository_is_listed_by_name(ledger):
    ledger.register(Repository(RepositoryName("aaa"), "https://example.org/aaa"))
    assert [found.name for found in ledger.repositories()] == ["aaa", "acme/app"]
    assert ledger.get(APP) == Repository(APP, "https://example.org/acme/app", MAIN)
    assert ledger.get(RepositoryName("nobody")) is None


def test_registering_again_updates_url_and_default_ref(ledger):
    ledger.register(Repository(APP, "https://example.org/moved", RefName("trunk")))
    assert ledger.get(APP).default_ref == "trunk"
    assert len(ledger.repositories()) == 1


def patterns(ledger, name=APP):
    """Return the patterns of a repository, which `get` and `repositories` agree on."""
    (listed,) = [found.patterns for found in ledger.repositories() if found.name == name]
    assert ledger.get(name).patterns == listed
    return listed


def test_patterns_are_kept_until_others_are_given_for_their_side(ledger):
    assert patterns(ledger) == FilePatterns()
    ledger.set_patterns(APP, include=["src/", "*.md"])
    ledger.set_patterns(APP, exclude=["ünï ' \" *"])
    assert patterns(ledger) == FilePatterns(("src/", "*.md"), ("ünï ' \" *",))
    ledger.set_patterns(APP)
    assert patterns(ledger) == FilePatterns(("src/", "*.md"), ("ünï ' \" *",))
    ledger.set_patterns(APP, include=["lib/"])
    assert patterns(ledger) == FilePatterns(("lib/",), ("ünï ' \" *",))
    ledger.set_patterns(APP, include=[], exclude=[])
    assert patterns(ledger) == FilePatterns()


def test_registering_again_leaves_the_patterns_alone(ledger):
    ledger.set_patterns(APP, include=["src/"])
    ledger.register(Repository(APP, "https://example.org/moved", MAIN))
    assert patterns(ledger) == FilePatterns(("src/",))
    ledger.register(replace(ledger.get(APP), patterns=FilePatterns(("other/",))))
    assert patterns(ledger) == FilePatterns(("src/",))


def test_a_reregistered_name_has_no_patterns(ledger):
    ledger.set_patterns(APP, include=["src/"], exclude=["gen/"])
    ledger.unregister(APP)
    ledger.set_patterns(APP, include=["src/"], exclude=["gen/"])
    ledger.register(Repository(APP, "https://example.org/acme/app", MAIN))
    assert patterns(ledger) == FilePatterns()


def test_a_repository_has_no_label_until_it_gets_one_and_keeps_them(ledger):
    other = RepositoryName("acme/other")
    ledger.register(Repository(other, "https://example.org/acme/other", MAIN))
    assert ledger.labels() == {APP: None, other: None}
    ledger.set_label(APP, Label.INTERNAL)
    ledger.register(Repository(APP, "https://example.org/moved", MAIN))
    ledger.set_patterns(APP, include=["src/"])
    assert ledger.labels() == {APP: Label.INTERNAL, other: None}
    assert [one.label for one in ledger.repositories()] == [Label.INTERNAL, None]
    assert [one.label for one in ledger.get_all([other, APP])] == [None, Label.INTERNAL]
    ledger.set_label(APP, None)
    assert ledger.get(APP).label is None


def test_a_reregistered_name_has_no_label(ledger):
    ledger.set_label(APP, Label.PUBLIC)
    ledger.unregister(APP)
    ledger.set_label(APP, Label.PUBLIC)
    assert ledger.labels() == {}
    ledger.register(Repository(APP, "https://example.org/acme/app", MAIN))
    assert ledger.labels() == {APP: None}


def test_a_repository_withdrawn_by_a_failed_first_run_leaves_no_label(ledger):
    ledger.set_label(APP, Label.PUBLIC)
    run = ledger.create(APP, MAIN)
    ledger.end(run.id, RunState.FAILED, "no such repository", withdraws=True)
    assert ledger.labels() == {}
    ledger.register(Repository(APP, "https://example.org/acme/app", MAIN))
    assert ledger.labels() == {APP: None}


def test_a_repository_gets_groups_with_its_first_plan_and_keeps_them(ledger):
    other = RepositoryName("acme/other")
    ledger.register(Repository(other, "https://example.org/acme/other", MAIN))
    run, _ = start(ledger, item(1), groups=("=1",))
    assert ledger.groups() == {APP: Grouped(("=1",))}
    ledger.end(run.id, RunState.CANCELLED)
    run, advance = start(ledger, item(1), groups=("=2", "=3"))
    drain(ledger, run, advance)
    ledger.register(Repository(APP, "https://example.org/moved", MAIN))
    assert [ledger.groups_of(name) for name in (APP, other)] == [("=1",), ()]


def test_a_repository_that_was_planned_without_groups_gets_none(ledger):
    run, _ = start(ledger, item(1))
    ledger.end(run.id, RunState.CANCELLED)
    run, advance = start(ledger, item(1), groups=("=1",), is_rebuild=True)
    drain(ledger, run, advance)
    run = ledger.create(APP, RefName("dev"))
    ledger.plan(run.id, manifest(item(1), groups=("=1",)), ref=RefName("dev"), fingerprint=PRINT)
    assert (ledger.groups(), ledger.groups_of(APP)) == ({}, ())


def test_a_reregistered_name_has_no_groups_until_it_is_planned(ledger):
    start(ledger, item(1), groups=("=1",))
    ledger.unregister(APP)
    assert ledger.groups() == {}
    ledger.register(Repository(APP, "https://example.org/acme/app", MAIN))
    assert (ledger.groups(), ledger.groups_of(APP)) == ({}, ())
    start(ledger, item(1), groups=("=2", "=3"))
    assert ledger.groups() == {APP: Grouped(("=2", "=3"))}


def test_suspended_groups_are_replaced_and_settled(ledger):
    start(ledger, item(1), groups=("=1", "=2"))
    generation = ledger.generation()
    ledger.set_groups(APP, ("=9",))
    assert not ledger.settle_groups(APP, ("=1", "=2"))
    assert ledger.groups() == {APP: Grouped(("=1", "=2"))}

    for _ in range(2):
        ledger.suspend_groups([APP, RepositoryName("acme/other")])
        assert ledger.groups() == {APP: Grouped(("=1", "=2"), ("=1", "=2"))}
    assert ledger.generation() > generation
    ledger.set_groups(APP, ("=3",))
    (found,) = ledger.groups().values()
    assert (found.written, {*found.possible}) == (("=3",), {"=1", "=2", "=3"})
    assert (found.certain, found.is_suspended) == ((), True)
    assert ledger.groups_of(APP) == ("=3",)
    assert not ledger.settle_groups(APP, ("=1", "=2"))
    generation = ledger.generation()
    assert ledger.settle_groups(APP, ("=3",))
    assert ledger.groups() == {APP: Grouped(("=3",))}
    assert ledger.generation() > generation


def test_groups_may_come_and_go_while_they_are_suspended(ledger):
    start(ledger, item(1))
    ledger.suspend_groups([APP])
    assert ledger.groups() == {APP: Grouped((), ())}
    ledger.set_groups(APP, ("=1",))
    ledger.suspend_groups([APP])
    ledger.set_groups(APP, ())
    assert ledger.groups() == {APP: Grouped((), ("=1",))}
    assert ledger.settle_groups(APP, ())
    assert ledger.groups_of(APP) == ()
    assert not ledger.groups()[APP].is_suspended


def test_only_the_groups_of_a_planned_repository_are_suspended(ledger):
    ledger.suspend_groups([APP])
    assert ledger.groups() == {}
    start(ledger, item(1), groups=("=1",))
    ledger.suspend_groups([APP])
    ledger.unregister(APP)
    assert ledger.groups() == {}
    assert not ledger.settle_groups(APP, ("=1",))


def test_the_globs_of_the_access_file_are_those_that_were_set_last(ledger):
    assert ledger.access_globs() == ()
    for lists in ((("*-api", "acme/*x"), ("a", "b")), (("*",),), ()):
        ledger.set_access_globs(lists)
        assert ledger.access_globs() == lists


def test_a_finished_run_or_one_without_a_repository_sets_no_groups(ledger):
    run = ledger.create(APP, MAIN)
    ledger.end(run.id, RunState.CANCELLED)
    unknown = ledger.create(RepositoryName("nobody"), MAIN)
    for one in (run, unknown):
        ledger.plan(one.id, manifest(item(1), groups=("=1",)), ref=MAIN, fingerprint=PRINT)
    assert ledger.groups() == {}


def test_a_ref_has_the_patterns_of_its_last_complete_run(ledger):
    run, advance = start(ledger, item(1), patterns="p1")
    assert [ref.patterns for ref in ledger.refs(APP)] == [""]
    drain(ledger, run, advance)
    following, advance = start(ledger, item(2), patterns="p2")
    assert [ref.patterns for ref in ledger.refs(APP)] == ["p1"]
    ledger.end(following.id, RunState.FAILED)
    ledger.invalidate(APP, MAIN, [])
    ledger.restamp("static", "served")
    assert [ref.patterns for ref in ledger.refs(APP)] == ["p1"]
    run, advance = start(ledger, item(2), patterns="")
    drain(ledger, run, advance)
    assert [ref.patterns for ref in ledger.refs(APP)] == [""]


def test_a_ref_has_the_time_of_its_indexed_commit(ledger):
    run, advance = start(ledger, item(1), committed_at=1_700_000_000.0)
    assert [ref.committed_at for ref in ledger.refs(APP)] == [0.0]
    drain(ledger, run, advance)
    following, advance = start(ledger, item(2), committed_at=1_800_000_000.0)
    ledger.end(following.id, RunState.FAILED)
    ledger.invalidate(APP, MAIN, [])
    ledger.restamp("static", "served")
    assert [ref.committed_at for ref in ledger.refs(APP)] == [1_700_000_000.0]


def test_the_default_ref_is_listed_first(ledger):
    for ref in ("alpha", "main", "zeta"):
        run = ledger.create(APP, RefName(ref))
        ledger.plan(run.id, manifest(), ref=RefName(ref), fingerprint=PRINT)
    assert [status.ref for status in ledger.refs(APP)] == ["main", "alpha", "zeta"]


def test_a_planned_run_makes_its_ref_the_default_one_if_its_manifest_says_so(ledger):
    start(ledger, item(1))
    assert ledger.get(APP) == Repository(APP, "https://example.org/acme/app", MAIN)
    ledger.end(ledger.active(APP), RunState.CANCELLED)
    for name, is_pinned, follows in (("dev", False, False), ("v1", True, False), ("x", True, True)):
        run = ledger.create(APP, RefName(name))
        chosen = {"is_pinned": is_pinned, "follows_default": follows}
        made = manifest(item(1), makes_default=True, **chosen)
        ledger.plan(run.id, made, ref=RefName(name), fingerprint=PRINT)
        found = ledger.get(APP)
        assert found.default_ref == name
        assert (found.is_pinned, found.follows_default) == (is_pinned, follows)
        assert found in ledger.repositories()
        ledger.end(run.id, RunState.CANCELLED)
    before = ledger.get(APP)
    ledger.register(before)
    assert ledger.get(APP) == before


def test_planning_a_new_default_ref_removes_the_ref_it_replaces(ledger):
    with_refs(ledger, "main", "dev")
    run = ledger.create(APP, DEFAULT_REF)
    made = manifest(item(1), makes_default=True, is_pinned=True, replaces=MAIN)
    ledger.plan(run.id, made, ref=RefName("trunk"), fingerprint=PRINT)

    assert ledger.get(APP).default_ref == "trunk"
    assert [status.ref for status in ledger.refs(APP)] == ["trunk", "dev"]
    assert ledger.refs_being_removed() == {(APP, MAIN)}


def test_a_planned_run_has_the_notices_of_its_manifest(ledger):
    run, _ = start(ledger, item(1), notices=("dev is „indexed“", "v1 is gone"))
    assert ledger.run(run.id).notices == ("dev is „indexed“", "v1 is gone")
    assert ledger.create(APP, DEFAULT_REF).notices == ()


def test_a_file_to_remove_is_remembered_until_it_is_removed(ledger):
    gone = WorkItem("src/gone.py", BlobId(""))
    run, _ = start(ledger, gone)
    ledger.end(run.id, RunState.CANCELLED)
    assert list(ledger.all(APP, MAIN)) == [FileRecord(gone.path, BlobId(""), FileState.PENDING)]
    assert ledger.exists(APP, MAIN, [gone.path]) == frozenset()
    run, advance = start(ledger, gone)
    drain(ledger, run, advance)
    assert list(ledger.all(APP, MAIN)) == []
    assert ledger.refs(APP)[0].pending == 0


def test_a_forgotten_repository_leaves_nothing(ledger):
    run, _ = start(ledger, item(1), item(2))
    ledger.unregister(APP)
    assert ledger.get(APP) is None
    assert ledger.refs(APP) == ()
    assert list(ledger.all(APP, MAIN)) == []
    assert ledger.run(run.id) is None
    assert ledger.recent(EVERYTHING) == ()
    assert ledger.done(run.id, [indexed(item(1))]) == Advance()
    ledger.unregister(APP)


def test_an_unregistered_repository_is_being_removed_until_its_index_is_gone(ledger):
    ledger.unregister(APP)
    assert ledger.being_removed() == {APP}
    before = ledger.generation()
    ledger.removal_finished(APP)
    assert ledger.being_removed() == frozenset()
    assert ledger.generation() > before


def with_refs(ledger, *names):
    """Index a file at each ref."""
    for name in names:
        run = ledger.create(APP, RefName(name))
        advance = ledger.plan(run.id, manifest(item(1)), ref=RefName(name), fingerprint=PRINT)
        drain(ledger, run, advance)


def test_a_removed_ref_keeps_its_records_until_its_index_is_gone(ledger):
    with_refs(ledger, "main", "dev", "v1")
    before = ledger.generation()
    assert ledger.remove_ref(APP, RefName("dev"))
    assert ledger.generation() > before
    assert [status.ref for status in ledger.refs(APP)] == ["main", "v1"]
    assert {ref for ref, _ in ledger.with_state(APP, FileState.INDEXED)} == {"main", "v1"}
    assert ledger.refs_being_removed() == {(APP, "dev")}
    assert [record.path for record in ledger.all(APP, RefName("dev"))] == [item(1).path]
    before = ledger.generation()
    ledger.ref_removal_finished(APP, RefName("dev"))
    assert ledger.generation() > before
    assert ledger.refs_being_removed() == frozenset()
    assert list(ledger.all(APP, RefName("dev"))) == []
    assert len(list(ledger.all(APP, RefName("v1")))) == 1


def test_the_default_ref_and_unknown_ones_are_not_removed(ledger):
    with_refs(ledger, "main", "dev")
    for ref in ("main", "nothing"):
        assert not ledger.remove_ref(APP, RefName(ref))
    assert not ledger.remove_ref(RepositoryName("nobody"), RefName("dev"))
    assert (len(ledger.refs(APP)), ledger.refs_being_removed()) == (2, frozenset())


def test_a_ref_is_not_planned_while_it_is_removed_and_is_new_afterwards(ledger):
    with_refs(ledger, "main", "dev")
    ledger.remove_ref(APP, RefName("dev"))
    run = ledger.create(APP, RefName("dev"))
    planned = manifest(item(2))
    assert ledger.plan(run.id, planned, ref=RefName("dev"), fingerprint=PRINT) == Advance()
    assert ledger.run(run.id).state is RunState.PULLING
    ledger.ref_removal_finished(APP, RefName("dev"))
    drain(ledger, run, ledger.plan(run.id, planned, ref=RefName("dev"), fingerprint=PRINT))
    assert [record.path for record in ledger.all(APP, RefName("dev"))] == [item(2).path]


def test_removing_a_repository_ends_the_removals_of_its_refs(ledger):
    with_refs(ledger, "main", "dev")
    ledger.remove_ref(APP, RefName("dev"))
    ledger.unregister(APP)
    assert ledger.refs_being_removed() == frozenset()
    assert list(ledger.all(APP, RefName("dev"))) == []


def test_a_repository_without_a_plan_is_withdrawn_with_its_run(ledger):
    ledger.set_patterns(APP, include=["src/"])
    run = ledger.create(APP, RefName("typo"))
    ledger.end(run.id, RunState.FAILED, "there is no branch", withdraws=True)
    assert (ledger.get(APP), ledger.repositories()) == (None, ())
    assert ledger.being_removed() == {APP}
    assert ledger.run(run.id).error == "there is no branch"
    assert ledger.recent(EVERYTHING) == (ledger.run(run.id),)
    ledger.removal_finished(APP)
    ledger.register(Repository(APP, "https://example.org/acme/app"))
    assert patterns(ledger) == FilePatterns()


def test_a_repository_with_a_ref_or_another_run_is_not_withdrawn(ledger):
    run = ledger.create(APP, RefName("typo"))
    waiting = ledger.create(APP, DEFAULT_REF)
    assert ledger.end(run.id, RunState.FAILED, withdraws=True) == waiting.id
    assert ledger.get(APP) is not None
    ledger.plan(waiting.id, manifest(item(1)), ref=MAIN, fingerprint=PRINT)
    ledger.end(waiting.id, RunState.FAILED, withdraws=True)
    assert ledger.get(APP) is not None
    assert ledger.being_removed() == frozenset()


ESTIMATE = Estimate(
    languages=(LanguageEstimate("python", 3, 900, 4, 200),),
    skipped=(SkippedFiles("binary", 2),),
    removals=1,
    summaries=5,
    summary_tokens=600,
    sampled=3,
)


def planned(ledger, run):
    return ledger.end_planned(run.id, ESTIMATE, revision=Revision("c" * 40), ref=MAIN)


def test_a_run_that_only_plans_ends_with_its_estimate_and_changes_nothing(ledger):
    first, advance = start(ledger, item(1))
    drain(ledger, first, advance)
    before = (ledger.get(APP), ledger.refs(APP), list(ledger.all(APP, MAIN)), ledger.generation())
    run = ledger.create(APP, DEFAULT_REF, kind=RunKind.PLAN)
    assert ledger.claim(run.id, worker="puller")
    assert planned(ledger, run) is None
    ended = ledger.run(run.id)
    assert (ended.state, ended.state.is_over, ended.kind) == (RunState.PLANNED, True, RunKind.PLAN)
    assert (ended.estimate, ended.revision, ended.resolved) == (ESTIMATE, "c" * 40, MAIN)
    assert ended.finished_at >= ended.started_at
    now = (ledger.get(APP), ledger.refs(APP), list(ledger.all(APP, MAIN)), ledger.generation())
    assert now == before
    assert ledger.active(APP) is None


def test_a_plan_and_a_run_of_the_same_ref_are_queued_separately(ledger):
    ledger.create(APP, MAIN)
    plan = ledger.create(APP, MAIN, kind=RunKind.PLAN)
    run = ledger.create(APP, MAIN)
    assert len({plan.id, run.id}) == 2
    assert ledger.create(APP, MAIN, kind=RunKind.PLAN).id == plan.id
    assert ledger.create(APP, MAIN).id == run.id


def test_a_plan_that_is_over_or_waits_gets_no_estimate(ledger):
    active = ledger.create(APP, MAIN, kind=RunKind.PLAN)
    waiting = ledger.create(APP, DEFAULT_REF, kind=RunKind.PLAN)
    assert planned(ledger, waiting) is None
    assert ledger.run(waiting.id).state is RunState.QUEUED
    assert planned(ledger, active) == waiting.id
    ledger.end(waiting.id, RunState.CANCELLED)
    planned(ledger, waiting)
    assert ledger.run(waiting.id).state is RunState.CANCELLED


@pytest.mark.parametrize("ends", ["planned", "failed"])
def test_a_repository_that_was_registered_for_a_plan_leaves_with_it(ledger, ends):
    run = ledger.create(APP, MAIN, kind=RunKind.TRIAL)
    if ends == "planned":
        planned(ledger, run)
    else:
        ledger.end(run.id, RunState.FAILED, "the disk is full")
    assert ledger.get(APP) is None
    assert ledger.being_removed() == {APP}
    assert ledger.run(run.id).state == ends


@pytest.mark.parametrize("kind", [RunKind.PLAN, RunKind.TRIAL])
@pytest.mark.parametrize("ends", ["planned", "failed", "cancelled"])
def test_a_plan_that_is_over_is_found_by_its_id_alone(ledger, kind, ends):
    before = ledger.create(APP, MAIN)
    ledger.end(before.id, RunState.CANCELLED)
    run = ledger.create(APP, MAIN, kind=kind)
    assert ledger.recent(EVERYTHING)[0] == run
    if ends == "planned":
        planned(ledger, run)
    else:
        ledger.end(run.id, RunState(ends), "its host does not have it")

    for visible in (EVERYTHING, Visibility.of([APP])):
        assert [one.id for one in ledger.recent(visible)] == [before.id]
    assert ledger.run(run.id).state == ends


def test_a_repository_that_a_run_waits_for_stays_after_the_plan(ledger):
    trial = ledger.create(APP, MAIN, kind=RunKind.TRIAL)
    run = ledger.create(APP, MAIN)
    assert planned(ledger, trial) == run.id
    assert ledger.get(APP) is not None
    assert ledger.run(run.id).state is RunState.PULLING


def test_the_files_of_a_worker_that_ended_are_free_at_once(ledger):
    run, _ = start(ledger, item(1))
    ledger.heartbeat("ended")
    assert ledger.begin(run.id, [item(1).path], worker="ended", stage="parse") == (1,)
    assert ledger.begin(run.id, [item(1).path], worker="next", stage="parse") == (HELD,)
    ledger.retire("ended")
    assert ledger.begin(run.id, [item(1).path], worker="next", stage="parse") == (2,)


def test_the_generation_grows_with_every_counted_file_and_removal(ledger):
    seen = [ledger.generation()]
    run, _ = start(ledger, item(1), item(2))
    for step in (
        lambda: ledger.done(run.id, [indexed(item(1))]),
        lambda: ledger.done(run.id, [indexed(item(2))]),
        lambda: ledger.unregister(APP),
    ):
        step()
        seen.append(ledger.generation())
    assert seen == sorted(set(seen))


# runs


def test_fingerprints_change_their_ending_after_the_index_was_rebuilt(ledger):
    run, advance = start(ledger, item(1))
    drain(ledger, run, advance)
    other = RepositoryName("acme/other")
    ledger.register(Repository(other, "https://example.org/acme/other", MAIN))
    underway = ledger.create(other, MAIN)
    ledger.plan(underway.id, manifest(item(2)), ref=MAIN, fingerprint="parser-2 static")

    generation = ledger.generation()
    ledger.restamp(" static", " served")
    assert ledger.generation() > generation  # searches answer differently from now on
    ledger.done(underway.id, [indexed(item(2))])

    assert [ref.fingerprint for ref in ledger.refs(APP)] == ["parser-1 served"]
    assert [ref.fingerprint for ref in ledger.refs(other)] == ["parser-2 served"]
    ledger.restamp("static", "x")
    assert [ref.fingerprint for ref in ledger.refs(APP)] == ["parser-1 served"]
    assert ledger.refs(APP)[0].is_clean


def test_a_new_run_is_active_at_once(ledger):
    run = ledger.create(APP, DEFAULT_REF)
    assert run.state is RunState.PULLING
    assert ledger.run(run.id) == run
    assert ledger.recent(EVERYTHING) == (run,)
    assert run.started_at > 0


def test_recent_runs_are_those_of_visible_repositories_newest_first(ledger):
    names = [RepositoryName(name) for name in ("a", "b", "a", "c")]
    for name in ("a", "b", "c"):
        ledger.register(Repository(RepositoryName(name), f"https://host/{name}"))
    runs = [ledger.create(name, RefName(f"r{n}")) for n, name in enumerate(names)]

    def shown(visible, **limit):
        return [runs.index(one) for one in ledger.recent(visible, **limit)]

    assert shown(Visibility.of(["a", "c", "gone"])) == [3, 2, 0]
    assert shown(Visibility.of(["a", "b"]), limit=2) == [2, 1]
    assert shown(EVERYTHING, limit=3) == [3, 2, 1]
    assert shown(Visibility.of([])) == []


def test_a_second_run_of_a_repository_waits_and_is_shared_by_ref(ledger):
    first = ledger.create(APP, DEFAULT_REF)
    second = ledger.create(APP, DEFAULT_REF)
    third = ledger.create(APP, DEFAULT_REF)
    other = ledger.create(APP, RefName("v1"))
    assert second.state is RunState.QUEUED
    assert second.id != first.id
    assert third.id == second.id
    assert other.id != second.id


def test_a_waiting_run_redoes_what_anybody_asked_it_to(ledger):
    ledger.create(APP, DEFAULT_REF)
    assert ledger.create(APP, DEFAULT_REF).reprocess == ()
    assert ledger.create(APP, DEFAULT_REF, reprocess=[Reprocess.FAILED]).reprocess == (
        Reprocess.FAILED,
    )
    ledger.create(APP, DEFAULT_REF)
    waiting = ledger.create(APP, DEFAULT_REF, reprocess=[Reprocess.SUMMARIES])
    assert waiting.reprocess == (Reprocess.FAILED, Reprocess.SUMMARIES)
    assert ledger.run(waiting.id) == waiting


def test_a_run_that_only_writes_new_groups_takes_no_other_request(ledger):
    ledger.create(APP, DEFAULT_REF)
    of_groups = ledger.create(APP, DEFAULT_REF, reprocess=[Reprocess.GROUPS])
    plain = ledger.create(APP, DEFAULT_REF)
    assert (of_groups.reprocess, plain.reprocess) == ((Reprocess.GROUPS,), ())
    for reprocess in ([Reprocess.GROUPS], [Reprocess.GROUPS, Reprocess.GROUPS]):
        assert ledger.create(APP, DEFAULT_REF, reprocess=reprocess) == of_groups
    both = [Reprocess.GROUPS, Reprocess.FAILED]
    assert ledger.create(APP, DEFAULT_REF, reprocess=both).id == plain.id
    assert ledger.create(APP, DEFAULT_REF, reprocess=[Reprocess.GROUPS]).id == of_groups.id
    assert ledger.create(APP, DEFAULT_REF).id == plain.id


def test_a_run_in_progress_keeps_its_reprocessing(ledger):
    run = ledger.create(APP, DEFAULT_REF, reprocess=[Reprocess.FAILED])
    assert ledger.run(run.id).reprocess == (Reprocess.FAILED,)


def test_runs_of_different_repositories_are_active_side_by_side(ledger):
    ledger.create(APP, DEFAULT_REF)
    assert ledger.create(RepositoryName("other"), DEFAULT_REF).state is RunState.PULLING


def test_the_waiting_run_becomes_active_when_the_first_completes(ledger):
    run, advance = start(ledger, item(1))
    waiting = ledger.create(APP, DEFAULT_REF)
    end = drain(ledger, run, advance)
    assert end == Advance(is_over=True, next_run=waiting.id)
    assert ledger.run(waiting.id).state is RunState.PULLING


@pytest.mark.parametrize("state", [RunState.FAILED, RunState.CANCELLED])
def test_an_ended_run_says_why_and_lets_the_next_one_start(ledger, state):
    run, _ = start(ledger, item(1))
    waiting = ledger.create(APP, DEFAULT_REF)
    assert ledger.end(run.id, state, "no such host") == waiting.id
    over = ledger.run(run.id)
    assert (over.state, over.error) == (state, "no such host")
    assert over.finished_at >= over.started_at
    assert ledger.end(run.id, RunState.FAILED, "again") is None
    assert ledger.run(run.id).error == "no such host"


def test_a_waiting_run_can_be_cancelled_without_touching_the_active_one(ledger):
    first = ledger.create(APP, DEFAULT_REF)
    waiting = ledger.create(APP, DEFAULT_REF)
    assert ledger.end(waiting.id, RunState.CANCELLED) is None
    assert ledger.run(first.id).state is RunState.PULLING
    assert ledger.end(first.id, RunState.CANCELLED) is None


def test_only_one_live_worker_gets_the_pull(make):
    ledger = make(worker_ttl_s=60)
    run = ledger.create(APP, DEFAULT_REF)
    ledger.heartbeat("a")
    assert ledger.claim(run.id, worker="a")
    assert not ledger.claim(run.id, worker="b")
    assert ledger.claim(run.id, worker="a")


def test_the_attempts_of_a_pull_count_workers_that_died(make):
    ledger = make(worker_ttl_s=60)
    run = ledger.create(APP, DEFAULT_REF)
    assert [ledger.claim(run.id, worker=name) for name in ("dead", "dead too")] == [1, 2]
    ledger.unclaim(run.id, worker="dead too", for_s=0, reason=AWAY)
    ledger.heartbeat("live")
    assert ledger.claim(run.id, worker="live") == 2
    assert ledger.claim(run.id, worker="other") == HELD


def test_a_pull_that_was_given_up_can_be_claimed_by_another_worker(make):
    ledger = make(worker_ttl_s=60)
    run = ledger.create(APP, DEFAULT_REF)
    ledger.heartbeat("a")
    assert ledger.claim(run.id, worker="a")
    ledger.unclaim(run.id, worker="b", for_s=0, reason=AWAY)
    assert not ledger.claim(run.id, worker="b")
    ledger.unclaim(run.id, worker="a", for_s=0, reason=AWAY)
    assert ledger.claim(run.id, worker="b")


def test_a_pull_that_was_given_up_is_stalled_when_its_message_does_not_come(make):
    ledger = make(requeue_s=0.0)
    run, later = (ledger.create(RepositoryName(name), DEFAULT_REF) for name in ("now", "later"))
    for one, for_s in ((run, 0), (later, 60)):
        ledger.claim(one.id, worker="a")
        ledger.unclaim(one.id, worker="a", for_s=for_s, reason=AWAY)
    until(lambda: ledger.stalled() == (run.id,))


def test_the_pull_of_a_dead_worker_is_stalled_and_can_be_claimed(make):
    ledger = make(requeue_s=0.0)
    run = ledger.create(APP, DEFAULT_REF)
    ledger.claim(run.id, worker="dead")
    until(lambda: ledger.stalled() == (run.id,))
    assert ledger.claim(run.id, worker="b")


def test_a_pull_that_a_live_worker_has_is_not_stalled(make):
    ledger = make(requeue_s=0.0, worker_ttl_s=60)
    run = ledger.create(APP, DEFAULT_REF)
    ledger.heartbeat("a")
    ledger.claim(run.id, worker="a")
    assert ledger.stalled() == ()


# feeder


def test_the_window_bounds_the_files_in_flight_and_refills(ledger):
    items = [item(number) for number in range(10)]
    run, advance = start(ledger, *items)
    assert advance.items == tuple(items[:4])
    advance = ledger.done(run.id, [indexed(work) for work in items[:3]])
    assert advance.items == tuple(items[4:7])


def test_every_file_is_handed_out_once_and_the_run_completes(ledger):
    items = [item(number) for number in range(11)]
    run, advance = start(ledger, *items)
    handed = []
    while advance.items:
        handed += advance.items
        advance = ledger.done(run.id, [indexed(work) for work in advance.items])
    assert sorted(work.path for work in handed) == sorted(work.path for work in items)
    assert advance.is_over
    over = ledger.run(run.id)
    assert (over.state, over.total, over.done, over.failed) == (RunState.COMPLETE, 11, 11, 0)


def test_completion_publishes_the_revision(ledger):
    run, advance = start(ledger, item(1), item(2))
    (during,) = ledger.refs(APP)
    assert (during.indexed, during.is_clean) == (None, False)
    drain(ledger, run, advance)
    (after,) = ledger.refs(APP)
    assert (after.indexed, after.fingerprint, after.is_clean) == (ONE, PRINT, True)
    assert (after.files, after.chunks, after.failed) == (2, 4, 0)
    assert after.indexed_at > 0


def test_a_run_without_files_completes_in_its_plan(ledger):
    run, advance = start(ledger)
    assert advance == Advance(is_over=True)
    assert ledger.run(run.id).state is RunState.COMPLETE


def test_a_file_is_counted_once_however_often_it_reports(ledger):
    run, _ = start(ledger, item(1), item(2))
    ledger.done(run.id, [indexed(item(1))])
    assert ledger.done(run.id, [indexed(item(1))]) == Advance()
    assert ledger.run(run.id).done == 1


def test_a_file_that_was_not_handed_out_is_not_counted(ledger):
    run, _ = start(ledger, item(1))
    assert ledger.done(run.id, [indexed(item(9))]) == Advance()
    assert ledger.run(run.id).done == 0


def test_failed_files_are_counted_apart_and_the_run_completes(ledger):
    run, _ = start(ledger, item(1), item(2))
    bad = FileRecord("src/1.py", item(1).blob, FileState.FAILED, "stalled")
    advance = ledger.done(run.id, [bad, indexed(item(2))])
    assert advance.is_over
    over = ledger.run(run.id)
    assert (over.done, over.failed) == (1, 1)
    assert list(ledger.with_state(APP, FileState.FAILED)) == [(MAIN, bad)]


def test_a_file_rejected_after_reading_counts_as_skipped_and_not_as_done(ledger):
    known = FileRecord("logo.png", BlobId("a" * 40), FileState.SKIPPED, "media")
    run, _ = start(ledger, item(1), item(2), skipped=(known,))
    read = FileRecord(item(1).path, item(1).blob, FileState.SKIPPED, "binary")
    assert not ledger.done(run.id, [read]).is_over
    now = ledger.run(run.id)
    assert (now.total, now.done, now.skipped) == (1, 0, 2)
    assert ledger.done(run.id, [indexed(item(2))]).is_over
    over = ledger.run(run.id)
    assert (over.total, over.done, over.skipped) == (1, 1, 2)
    (status,) = ledger.refs(APP)
    assert (status.files, status.skipped) == (over.done, over.skipped)


def test_a_run_with_only_skipped_files_is_complete(ledger):
    run, _ = start(ledger, item(1))
    read = FileRecord(item(1).path, item(1).blob, FileState.SKIPPED, "binary")
    assert ledger.done(run.id, [read]).is_over
    over = ledger.run(run.id)
    assert (over.state, over.total, over.done, over.skipped) == (RunState.COMPLETE, 0, 0, 1)


def test_summaries_are_counted_once_per_run_and_by_their_present_state_per_ref(ledger):
    work = item(1)
    run, _ = start(ledger, item(0), work)
    first = replace(indexed(item(0)), summaries=5, summaries_missing=2)
    second = replace(indexed(work), summaries=1, summaries_missing=4)
    ledger.done(run.id, [first])
    ledger.done(run.id, [first, second])
    over = ledger.run(run.id)
    assert (over.summaries, over.summaries_missing) == (6, 6)
    again, _ = start(ledger, work, revision=TWO)
    ledger.done(again.id, [replace(second, summaries=5, summaries_missing=0)])
    over = ledger.run(again.id)
    assert (over.summaries, over.summaries_missing) == (5, 0)
    (status,) = ledger.refs(APP)
    assert status.summaries_missing == 2
    kept = {record.path: record.summaries_missing for record in ledger.all(APP, status.ref)}
    assert kept == {item(0).path: 2, work.path: 0}


def test_indexed_files_are_counted_by_language_and_health(make):
    ledger = make(window=5)

    def read(at, language, health):
        return replace(indexed(item(at)), language=language, health=health)

    run, _ = start(ledger, *map(item, range(5)))
    records = [
        read(0, "go", HealthStatus.OK),
        read(1, "go", HealthStatus.PARTIAL),
        read(2, "go", HealthStatus.OK),
        read(3, "common lisp", HealthStatus.UNSUPPORTED),
        FileRecord(item(4).path, item(4).blob, FileState.FAILED, "stalled"),
    ]
    ledger.done(run.id, records)
    (status,) = ledger.refs(APP)
    assert status.health == (
        LanguageHealth("common lisp", unsupported=1),
        LanguageHealth("go", ok=2, partial=1),
    )
    gone = WorkItem(item(3).path, BlobId(""))
    again, _ = start(ledger, item(1), gone, revision=TWO)
    left = FileRecord(gone.path, BlobId(""), FileState.PENDING)
    ledger.done(again.id, [read(1, "go", HealthStatus.OK), left])
    (status,) = ledger.refs(APP)
    assert status.health == (LanguageHealth("go", ok=3),)


def test_claims_count_attempts_per_stage(ledger):
    run, _ = start(ledger, item(1))
    path = [item(1).path]
    assert ledger.begin(run.id, path, worker="a", stage="parse") == (1,)
    assert ledger.begin(run.id, path, worker="a", stage="parse") == (2,)
    assert ledger.begin(run.id, path, worker="b", stage="embed") == (1,)


def test_a_run_that_spent_more_time_waits_for_its_turn(make):
    ledger = make(worker_ttl_s=60)
    slow, fresh = (
        ledger.create(RepositoryName(name), DEFAULT_REF).id for name in ("slow", "fresh")
    )
    path = [item(1).path]
    turn = {"worker": "a", "stage": "parse"}

    def plan(run):
        ledger.plan(run, manifest(item(1), item(2)), ref=MAIN, fingerprint=PRINT)

    plan(slow)
    assert ledger.begin(slow, path, **turn, yields=True) == (1,)
    plan(fresh)
    for _ in range(2):  # twice less than AHEAD_MS
        ledger.begin(slow, path, **turn)
        wait_ms(0.75 * AHEAD_MS)
        ledger.pass_on(slow, path, stage="parse")
    assert ledger.begin(slow, path, **turn, yields=True) == (AHEAD,)
    assert ledger.begin(fresh, path, **turn, yields=True) == (1,)
    assert ledger.begin(slow, path, **turn) == (1,)
    ledger.end(fresh, RunState.CANCELLED)
    assert ledger.begin(slow, path, **turn, yields=True) == (2,)


def test_only_runs_with_files_at_the_stage_are_waited_for(make):
    ledger = make(worker_ttl_s=60)
    slow, other = (
        ledger.create(RepositoryName(name), DEFAULT_REF).id for name in ("slow", "other")
    )
    path, turn = [item(1).path], {"worker": "a", "stage": "embed", "yields": True}
    for run in (slow, other):
        ledger.plan(run, manifest(item(1), item(2)), ref=MAIN, fingerprint=PRINT)
        ledger.pass_on(run, path, stage="embed")
    assert ledger.begin(slow, path, **turn) == (1,)
    wait_ms(1.5 * AHEAD_MS)
    ledger.pass_on(slow, path, stage="embed")
    assert ledger.begin(slow, path, **turn) == (AHEAD,)
    ledger.pass_on(other, path, stage="store")
    assert ledger.begin(slow, path, **turn) == (1,)
    ledger.pass_on(slow, path, stage="store")
    assert ledger.begin(slow, path, worker="a", stage="store", yields=True) == (1,)


def test_a_run_of_many_files_waits_while_another_one_has_files_at_the_stage(make):
    ledger = make(worker_ttl_s=60, window=BULK_FILES + 1)
    bulk, other, small = (
        ledger.create(RepositoryName(name), DEFAULT_REF).id for name in ("bulk", "other", "small")
    )
    many, path = tuple(map(item, range(BULK_FILES + 1))), [item(1).path]
    for run, items in ((bulk, many), (other, many), (small, many[:BULK_FILES])):
        ledger.plan(run, manifest(*items), ref=MAIN, fingerprint=PRINT)
    turn = {"worker": "a", "stage": "embed", "yields": True}
    for run in (bulk, other):
        ledger.pass_on(run, path, stage="embed")
        assert ledger.begin(run, path, **turn) == (1,)
        ledger.pass_on(run, path, stage="embed")

    ledger.pass_on(small, path, stage="embed")
    assert ledger.begin(bulk, path, **turn) == (AHEAD,)
    assert ledger.begin(small, path, **turn) == (1,)
    assert ledger.begin(other, path, **turn) == (AHEAD,)  # while that one is worked on, too
    wait_ms(1.5 * AHEAD_MS)
    ledger.pass_on(small, path, stage="embed")
    assert ledger.begin(small, path, **turn) == (1,)  # however much it has spent
    assert ledger.begin(bulk, path, **{**turn, "yields": False}) == (1,)
    ledger.pass_on(bulk, path, stage="embed")

    ledger.pass_on(small, path, stage="store")
    assert ledger.begin(bulk, path, **turn) == (1,)
    assert ledger.begin(other, path, **turn) == (1,)


def test_a_run_of_many_files_has_a_share_of_a_stage_that_others_keep_busy(make):
    ledger = make(worker_ttl_s=60, window=BULK_FILES + 1)
    bulk, small = (
        ledger.create(RepositoryName(name), DEFAULT_REF).id for name in ("bulk", "small")
    )
    many = tuple(map(item, range(BULK_FILES + 1)))
    path, paths = [item(1).path], [one.path for one in many[:100]]
    turn = {"worker": "a", "stage": "embed", "yields": True}
    for run, items in ((bulk, many), (small, many[:100])):
        ledger.plan(run, manifest(*items), ref=MAIN, fingerprint=PRINT)
        ledger.pass_on(run, paths, stage="embed")

    def spend(run, ms):
        """Process a hundred files of the run concurrently, each for at least so long."""
        for one in paths:
            assert ledger.begin(run, [one], **turn) == (1,)
        wait_ms(ms)
        ledger.pass_on(run, paths, stage="embed")

    assert ledger.begin(bulk, path, **turn) == (AHEAD,)
    assert not ledger.owes("embed")
    spend(small, 6 * BULK_SHARE * AHEAD_MS / len(paths))
    assert ledger.owes("embed")
    assert not ledger.owes("store")
    spend(bulk, 40 * AHEAD_MS / len(paths))  # of which a part counts
    assert not ledger.owes("embed")
    assert ledger.begin(bulk, path, **turn) == (AHEAD,)

    spend(small, 6 * BULK_SHARE * AHEAD_MS / len(paths))
    assert ledger.owes("embed")
    ledger.pass_on(small, paths, stage="store")
    assert not ledger.owes("embed")  # nobody else is there
    assert ledger.begin(bulk, path, **turn) == (1,)
    ledger.pass_on(bulk, path, stage="embed")
    ledger.pass_on(small, paths, stage="embed")
    assert ledger.begin(bulk, path, **turn) == (AHEAD,)  # what was owed is not kept


def test_a_manifest_can_say_whether_its_run_gives_way_to_others(make):
    ledger = make(window=BULK_FILES + 1)
    many = tuple(map(item, range(BULK_FILES + 1)))
    usual, low, high = (
        ledger.create(RepositoryName(name), DEFAULT_REF).id for name in ("usual", "low", "high")
    )
    shares = {usual: Share(), low: Share(is_bulk=True), high: Share(is_bulk=False)}
    for run, share in shares.items():
        files = many if run == high else many[:1]
        planned = replace(manifest(*files), share=share)
        ledger.plan(run, planned, ref=MAIN, fingerprint=PRINT)
    assert [ledger.run(run).is_bulk for run in shares] == [False, True, False]
    turn = {"worker": "a", "stage": "parse", "yields": True}
    found = [ledger.begin(run, [many[0].path], **turn) for run in shares]
    assert found == [(1,), (AHEAD,), (1,)]


def test_the_time_of_a_run_is_divided_by_its_weight(make):
    ledger = make(worker_ttl_s=60)
    light, heavy = (
        ledger.create(RepositoryName(name), DEFAULT_REF).id for name in ("light", "heavy")
    )
    path, turn = [item(1).path], {"worker": "a", "stage": "parse", "yields": True}
    for run, weight in ((light, 1), (heavy, 3)):
        planned = replace(manifest(item(1), item(2)), share=Share(weight))
        ledger.plan(run, planned, ref=MAIN, fingerprint=PRINT)
    assert [ledger.begin(run, path, **turn) for run in (light, heavy)] == [(1,), (1,)]
    wait_ms(2 * AHEAD_MS)
    for run in (heavy, light):
        ledger.pass_on(run, path, stage="parse")
    assert ledger.begin(light, path, **turn) == (AHEAD,)
    assert ledger.begin(heavy, path, **turn) == (1,)


def test_files_that_are_claimed_together_share_the_time(make):
    ledger = make(worker_ttl_s=60)
    many, one = (ledger.create(RepositoryName(name), DEFAULT_REF).id for name in ("many", "one"))
    items = list(map(item, range(10)))
    paths, turn = [one.path for one in items], {"worker": "a", "stage": "store", "yields": True}
    for run in (many, one):
        ledger.plan(run, manifest(*items), ref=MAIN, fingerprint=PRINT)
        ledger.pass_on(run, paths, stage="store")
    began = time.monotonic()
    assert ledger.begin(many, paths, **turn) == (1,) * 10
    wait_until(lambda: time.monotonic() - began > AHEAD_MS / 5000, "time has passed")
    ledger.pass_on(many, paths, stage="store")
    took_ms = 1000 * (time.monotonic() - began)
    assert took_ms > AHEAD_MS or ledger.begin(many, paths, **turn) == (1,) * 10


def test_a_run_that_starts_later_gets_no_credit_for_the_time_before(make):
    ledger = make(worker_ttl_s=60)
    first = ledger.create(RepositoryName("first"), DEFAULT_REF).id
    turn = {"worker": "a", "stage": "parse", "yields": True}
    ledger.plan(first, manifest(item(1)), ref=MAIN, fingerprint=PRINT)
    ledger.begin(first, [item(1).path], **turn)
    wait_ms(1.5 * AHEAD_MS)
    ledger.pass_on(first, [item(1).path], stage="parse")
    ledger.begin(first, [item(1).path], **turn)
    later = ledger.create(RepositoryName("later"), DEFAULT_REF).id
    ledger.plan(later, manifest(item(1)), ref=MAIN, fingerprint=PRINT)
    assert ledger.begin(first, [item(1).path], **turn) == (2,)


def test_a_newer_run_supersedes_one_of_its_ref_and_what_was_indexed_stays(make):
    ledger = make(supersede_s=0)
    ledger.register(Repository(APP, "https://example.org/acme/app", MAIN))
    run, _ = start(ledger, item(1), item(2))
    ledger.done(run.id, [indexed(item(1))])
    assert ledger.supersede() == ()
    newer = ledger.create(APP, DEFAULT_REF)

    until(lambda: ledger.supersede() == (newer.id,))  # it indexes as long as it was planned

    ended = ledger.run(run.id)
    assert (ended.state, ended.error) == (RunState.CANCELLED, f"superseded by run {newer.id}")
    assert (ledger.successor(run.id), ledger.successor(newer.id)) == (newer.id, None)
    assert ledger.done(run.id, [indexed(item(2))]) == Advance()
    states = {path: one.state for path, one in ledger.records(APP, MAIN, PATHS).items()}
    assert states == {PATHS[0]: FileState.INDEXED, PATHS[1]: FileState.PENDING}
    assert not ledger.refs(APP)[0].is_clean
    assert ledger.active(APP) == newer.id
    assert ledger.run(newer.id).state is RunState.PULLING
    assert ledger.supersede() == ()


@pytest.mark.parametrize(
    "why", ["young", "other ref", "behind", "redone", "redoes", "not planned", "slowly planned"]
)
def test_a_run_is_not_superseded_without_cause(make, why):
    ledger = make(supersede_s=60 if why == "young" else 0)
    ledger.register(Repository(APP, "https://example.org/acme/app", MAIN))
    redone = [Reprocess.FAILED]
    run = ledger.create(APP, DEFAULT_REF, reprocess=redone if why == "redone" else ())
    ledger.claim(run.id, worker="puller")
    if why == "slowly planned":
        wait_ms(500)
    if why != "not planned":
        ledger.plan(run.id, manifest(item(1)), ref=MAIN, fingerprint=PRINT)
    wait_ms(50)
    if why in ("other ref", "behind"):
        ledger.create(APP, RefName("dev"))
    if why != "other ref":
        ledger.create(APP, DEFAULT_REF, reprocess=redone if why == "redoes" else ())

    assert ledger.supersede() == ()
    assert not ledger.run(run.id).state.is_over


def test_a_live_worker_keeps_its_claim_a_dead_one_does_not(make):
    ledger = make(worker_ttl_s=60)
    run, _ = start(ledger, item(1), item(2))
    ledger.heartbeat("live")
    paths = [item(1).path, item(2).path]
    ledger.begin(run.id, paths[:1], worker="live", stage="parse")
    ledger.begin(run.id, paths[1:], worker="dead", stage="parse")
    assert ledger.begin(run.id, paths, worker="other", stage="parse") == (HELD, 2)


def test_any_worker_can_claim_a_postponed_file_and_its_attempt_does_not_count(make):
    ledger = make(worker_ttl_s=60)
    run, _ = start(ledger, item(1), item(2))
    ledger.heartbeat("a")
    paths = [item(1).path, item(2).path]
    assert ledger.begin(run.id, paths, worker="a", stage="store") == (1, 1)
    ledger.put_off(run.id, paths, worker="b", for_s=0, reason=AWAY)
    assert ledger.begin(run.id, paths, worker="b", stage="store") == (HELD, HELD)
    ledger.put_off(run.id, [*paths[:1], "not/in/flight.py"], worker="a", for_s=0, reason=AWAY)
    assert ledger.begin(run.id, paths, worker="b", stage="store") == (1, HELD)


def test_a_run_shows_what_it_waits_for_until_a_file_is_stored(ledger):
    run, _ = start(ledger, item(1), item(2), item(3))
    paths = [item(number).path for number in (1, 2, 3)]
    ledger.begin(run.id, paths, worker="a", stage="store")
    ledger.put_off(run.id, paths, worker="b", for_s=0, reason="not b's")
    assert ledger.run(run.id).waits_for == ""
    ledger.put_off(run.id, paths[:1], worker="a", for_s=0, reason="Ollama does not answer")
    ledger.put_off(run.id, paths[1:], worker="a", for_s=0, reason=AWAY)
    assert ledger.run(run.id).waits_for == ledger.recent(Visibility.of([APP]))[0].waits_for == AWAY
    ledger.done(run.id, [indexed(item(1))])
    assert ledger.run(run.id).waits_for == ""


def test_a_run_says_why_it_is_not_pulled_yet(ledger):
    run = ledger.create(APP, DEFAULT_REF)
    ledger.claim(run.id, worker="a")
    ledger.unclaim(run.id, worker="a", for_s=0, reason=AWAY)
    assert ledger.run(run.id).waits_for == AWAY
    ledger.claim(run.id, worker="a")
    assert ledger.run(run.id).waits_for == ""


def test_a_pull_that_is_abandoned_after_its_run_was_cancelled_reports_nothing(ledger):
    run = ledger.create(APP, DEFAULT_REF)
    ledger.claim(run.id, worker="a")
    ledger.end(run.id, RunState.CANCELLED)
    ledger.unclaim(run.id, worker="a", for_s=0, reason=AWAY)
    assert ledger.run(run.id).waits_for == ""


def test_a_run_that_rebuilds_replaces_the_records_as_soon_as_it_is_planned(ledger):
    drain(ledger, *start(ledger, item(1), item(2)))
    run = ledger.create(APP, DEFAULT_REF)
    again = manifest(item(1), item(2), is_rebuild=True)
    ledger.plan(run.id, again, ref=MAIN, fingerprint="another index")
    ledger.done(run.id, [indexed(item(1))])
    ledger.end(run.id, RunState.CANCELLED)
    (status,) = ledger.refs(APP)
    assert (status.fingerprint, status.is_clean, status.files) == ("another index", False, 1)


def test_the_fingerprint_changes_only_when_an_incremental_run_is_complete(ledger):
    drain(ledger, *start(ledger, item(1), item(2)))
    run = ledger.create(APP, DEFAULT_REF)
    advance = ledger.plan(run.id, manifest(item(1)), ref=MAIN, fingerprint="newer parser")
    assert ledger.refs(APP)[0].fingerprint == PRINT
    drain(ledger, run, advance)
    assert ledger.refs(APP)[0].fingerprint == "newer parser"


def test_a_run_that_is_over_waits_for_nothing(ledger):
    run, _ = start(ledger, item(1))
    ledger.begin(run.id, [item(1).path], worker="a", stage="store")
    ledger.put_off(run.id, [item(1).path], worker="a", for_s=0, reason=AWAY)
    ledger.end(run.id, RunState.CANCELLED)
    assert ledger.run(run.id).waits_for == ""


def test_giving_up_what_is_over_or_unknown_changes_nothing(ledger):
    run, _ = start(ledger, item(1))
    ledger.begin(run.id, [item(1).path], worker="a", stage="store")
    ledger.end(run.id, RunState.CANCELLED)
    for given_up in (run.id, RunId("unknown")):
        ledger.put_off(given_up, [item(1).path], worker="a", for_s=0, reason=AWAY)
        ledger.unclaim(given_up, worker="a", for_s=0, reason=AWAY)
    over = ledger.run(run.id)
    assert (over.state, over.waits_for) == (RunState.CANCELLED, "")
    assert ledger.run(RunId("unknown")) is None


def test_a_postponed_file_counts_as_lost_if_its_message_does_not_arrive(make):
    ledger = make(requeue_s=0.0)
    run, _ = start(ledger, item(1), item(2))
    for number, for_s in ((1, 0), (2, 60)):
        ledger.begin(run.id, [item(number).path], worker="a", stage="store")
        ledger.put_off(run.id, [item(number).path], worker="a", for_s=for_s, reason=AWAY)
    until(lambda: [work.path for work in ledger.reap(waiting={}).get(run.id, ())] == [item(1).path])


def test_a_file_that_is_not_in_flight_cannot_be_claimed(ledger):
    run, _ = start(ledger, item(1))
    ledger.done(run.id, [indexed(item(1))])
    assert ledger.begin(run.id, [item(1).path], worker="a", stage="parse") == (NOT_IN_FLIGHT,)


def test_a_cancelled_run_drops_its_files(ledger):
    run, _ = start(ledger, *(item(number) for number in range(9)))
    ledger.end(run.id, RunState.CANCELLED)
    assert ledger.begin(run.id, [item(0).path], worker="a", stage="parse") == (NOT_IN_FLIGHT,)
    assert ledger.done(run.id, [indexed(item(0))]) == Advance()
    (status,) = ledger.refs(APP)
    assert not status.is_clean


def test_planning_again_while_pulling_starts_over(ledger):
    run = ledger.create(APP, DEFAULT_REF)
    ledger.plan(run.id, manifest(item(1), item(2)), ref=MAIN, fingerprint=PRINT)
    again = ledger.plan(run.id, manifest(item(3)), ref=MAIN, fingerprint=PRINT)
    assert again == Advance()
    assert ledger.run(run.id).total == 2


def test_a_removal_drops_the_record(ledger):
    run, advance = start(ledger, item(1), item(2))
    drain(ledger, run, advance)
    run, advance = start(ledger, WorkItem(item(1).path, BlobId("")), revision=TWO)
    drain(ledger, run, advance)
    assert [record.path for record in ledger.all(APP, MAIN)] == [item(2).path]
    (status,) = ledger.refs(APP)
    assert (status.files, status.chunks, status.indexed) == (1, 2, TWO)


def test_a_file_that_is_skipped_now_keeps_its_reason_after_its_removal(ledger):
    run, advance = start(ledger, item(1))
    drain(ledger, run, advance)
    skipped = FileRecord(item(1).path, item(1).blob, FileState.SKIPPED, "too_large")
    run, advance = start(
        ledger, WorkItem(item(1).path, BlobId("")), revision=TWO, skipped=(skipped,)
    )
    drain(ledger, run, advance)
    assert list(ledger.all(APP, MAIN)) == [skipped]
    (status,) = ledger.refs(APP)
    assert (status.files, status.skipped, status.chunks) == (0, 1, 0)


def test_a_skipped_file_that_left_the_tree_leaves_the_record(ledger):
    gone = FileRecord("logo.png", BlobId("a" * 40), FileState.SKIPPED, "media")
    kept = FileRecord("big.sql", BlobId("b" * 40), FileState.SKIPPED, "too_large")
    start(ledger, skipped=(gone, kept))
    run, advance = start(ledger, WorkItem("logo.png", BlobId("")), revision=TWO)
    drain(ledger, run, advance)
    assert list(ledger.all(APP, MAIN)) == [kept]


def test_the_refs_of_several_repositories_come_together(ledger):
    other = RepositoryName("acme/other")
    ledger.register(Repository(other, "https://example.org/acme/other"))
    drain(ledger, *start(ledger, item(1)))
    first, unknown, second = ledger.refs_of([APP, RepositoryName("nobody"), other])
    assert first == ledger.refs(APP)
    assert (first[0].ref, first[0].indexed) == (MAIN, ONE)
    assert unknown == second == ()
    assert ledger.refs_of([]) == ()


def test_many_refs_are_counted_without_the_rest(ledger):
    drain(ledger, *start(ledger, item(1)))
    many = [RepositoryName(f"acme/r{number}") for number in range(1_201)]
    for name in many:
        ledger.register(Repository(name, f"https://example.org/{name}"))
    for name, ref in ((many[-1], "next"), (many[0], "next"), (many[0], MAIN)):
        run = ledger.create(name, RefName(ref))
        assert ledger.claim(run.id, worker="puller")
        drain(ledger, run, ledger.plan(run.id, manifest(item(1)), ref=ref, fingerprint=PRINT))

    assert ledger.names() == tuple(sorted([APP, *many]))
    assert ledger.ref_counts([]) == ledger.ref_counts([RepositoryName("nobody")]) == {}
    assert ledger.ref_counts([APP]) == {MAIN: 1}
    assert ledger.ref_counts(ledger.names()) == {MAIN: 2, "next": 2}
    for name in (APP, many[-1]):
        assert set(ledger.ref_counts([name])) == {status.ref for status in ledger.refs(name)}


def test_several_repositories_come_together(ledger):
    other = RepositoryName("acme/other")
    ledger.register(Repository(other, "https://host/other"))
    ledger.set_patterns(other, exclude=["*.snap"])

    found = ledger.get_all([other, RepositoryName("nobody"), APP])

    assert found == (ledger.get(other), None, ledger.get(APP))
    assert ledger.get_all([]) == ()


def test_exists_tells_files_of_the_ref_from_the_rest(ledger):
    skipped = FileRecord("logo.png", BlobId("a" * 40), FileState.SKIPPED, "media")
    start(ledger, item(1), skipped=(skipped,))
    asked = [item(1).path, "logo.png", "nowhere.py"]
    assert ledger.exists(APP, MAIN, asked) == {item(1).path, "logo.png"}
    assert ledger.exists(APP, MAIN, []) == frozenset()


@pytest.mark.parametrize("state", [FileState.INDEXED, FileState.SKIPPED, FileState.FAILED])
def test_exists_says_the_same_before_and_after_a_file_is_done(ledger, state):
    run, _ = start(ledger, item(1), item(2))
    asked = [item(1).path, item(2).path]
    before = ledger.exists(APP, MAIN, asked)
    ledger.done(run.id, [FileRecord(item(1).path, item(1).blob, state)])
    assert ledger.exists(APP, MAIN, asked) == before == set(asked)


def test_a_file_that_leaves_the_ref_is_no_longer_there_from_the_plan_on(ledger):
    drain(ledger, *start(ledger, item(1), item(2)))
    gone = WorkItem(item(1).path, BlobId(""))
    run, advance = start(ledger, gone, revision=TWO)
    asked = [item(1).path, item(2).path]
    assert ledger.exists(APP, MAIN, asked) == {item(2).path}
    assert item(1).path in {record.path for record in ledger.all(APP, MAIN)}
    drain(ledger, run, advance)
    assert ledger.exists(APP, MAIN, asked) == {item(2).path}
    assert item(1).path not in {record.path for record in ledger.all(APP, MAIN)}


def test_thousands_of_files_and_odd_paths_keep_their_counts(make):
    ledger = make(window=700)
    odd = ["ä b/ü.py", 'q"uote.py', "back\\slash.py", "-dash", "new\nline.py", "emoji \U0001f600"]
    items = [WorkItem(path, BlobId("c" * 40), 7) for path in odd] + [
        item(number) for number in range(2000)
    ]
    run, advance = start(ledger, *items)
    assert drain(ledger, run, advance).is_over
    assert ledger.run(run.id).done == 2006
    assert {record.path for record in ledger.all(APP, MAIN)} == {work.path for work in items}
    (status,) = ledger.refs(APP)
    assert (status.files, status.chunks) == (2006, 4012)


# Reprocessing


def due(ledger):
    return {record.path for record in ledger.all(APP, MAIN) if record.is_due}


def test_a_file_planned_again_with_its_content_stays_counted_until_it_is_done(ledger):
    first = replace(indexed(item(1), 3), reason="ünï", summaries=1, summaries_missing=2)
    run, _ = start(ledger, item(1), item(2))
    ledger.done(run.id, [first, indexed(item(2))])
    (before,) = ledger.refs(APP)

    run, _ = start(ledger, item(1), item(2))
    (during,) = ledger.refs(APP)
    assert during == replace(before, is_clean=False)
    records = ledger.records(APP, MAIN, [item(1).path])
    assert records == {item(1).path: replace(first, is_due=True)}
    assert due(ledger) == {item(1).path, item(2).path}

    again = replace(first, chunks=4, summaries=3, summaries_missing=0)
    ledger.done(run.id, [again])
    assert due(ledger) == {item(2).path}
    assert ledger.records(APP, MAIN, [item(1).path]) == {item(1).path: again}
    (during,) = ledger.refs(APP)
    assert (during.files, during.chunks, during.summaries_missing) == (2, 6, 0)
    ledger.done(run.id, [indexed(item(2))])
    (after,) = ledger.refs(APP)
    assert (after.is_clean, after.pending, due(ledger)) == (True, 0, set())
    assert after.health == before.health == (LanguageHealth("python", ok=2),)


def test_unfinished_files_of_an_ended_run_stay_due_until_a_run_completes(ledger):
    drain(ledger, *start(ledger, item(1), item(2), item(3)))
    run, _ = start(ledger, item(1), item(2), item(3))
    ledger.done(run.id, [indexed(item(2))])
    ledger.end(run.id, RunState.CANCELLED)
    assert due(ledger) == {item(1).path, item(3).path}
    (status,) = ledger.refs(APP)
    assert (status.is_clean, status.files, status.pending) == (False, 3, 0)

    run, advance = start(ledger, item(1), item(3))
    assert due(ledger) == {item(1).path, item(3).path}
    drain(ledger, run, advance)
    assert due(ledger) == set()
    (status,) = ledger.refs(APP)
    assert (status.is_clean, status.files, status.chunks) == (True, 3, 6)


def test_files_that_are_not_indexed_are_pending_and_never_due(ledger):
    gone, changed, failed, unknown = item(1), item(2), item(3), item(4)
    run, _ = start(ledger, gone, changed, failed)
    bad = FileRecord(failed.path, failed.blob, FileState.FAILED, "stalled")
    ledger.done(run.id, [indexed(gone), indexed(changed), bad])
    removal = WorkItem(gone.path, BlobId(""))
    other = replace(changed, blob=BlobId("c" * 40))
    run, _ = start(ledger, removal, other, failed, unknown, revision=TWO)
    assert {record.state for record in ledger.all(APP, MAIN)} == {FileState.PENDING}
    assert due(ledger) == set()
    (status,) = ledger.refs(APP)
    assert (status.files, status.chunks, status.pending) == (0, 0, 4)

    ledger.end(run.id, RunState.CANCELLED)
    start(ledger, removal, other, failed, unknown, revision=TWO)
    assert due(ledger) == set()


def test_a_rebuild_leaves_no_indexed_files_until_they_are_done(ledger):
    drain(ledger, *start(ledger, item(1)))
    start(ledger, item(1), is_rebuild=True)
    (status,) = ledger.refs(APP)
    assert (status.files, status.pending, due(ledger)) == (0, 1, set())


def test_a_due_file_can_be_invalidated(ledger):
    drain(ledger, *start(ledger, item(1)))
    run, _ = start(ledger, item(1))
    ledger.end(run.id, RunState.FAILED)
    assert ledger.invalidate(APP, MAIN, [item(1).path])
    (status,) = ledger.refs(APP)
    assert (status.files, status.pending, due(ledger)) == (0, 1, set())


def test_due_records_of_older_releases_are_still_read(redis):
    ledger = RedisLedger(redis)
    ledger.register(Repository(APP, "https://example.org/acme/app", MAIN))
    drain(ledger, *start(ledger, item(1), item(2)))
    short = f'["{item(1).blob}", "indexed", "", "python", "ok", 2]'
    redis.hset(f"codelode:files:{APP}:{MAIN}", item(1).path, short)
    redis.hincrby(f"codelode:counts:{APP}:{MAIN}", "health ok python", -1)

    run, advance = start(ledger, item(1))
    known = replace(indexed(item(1)), is_due=True)
    assert ledger.records(APP, MAIN, [item(1).path]) == {item(1).path: known}
    drain(ledger, run, advance)
    (status,) = ledger.refs(APP)
    assert status.health == (LanguageHealth("python", ok=2),)


def test_counts_are_as_the_records_say_after_a_restore(redis):
    """The situation after a restore whose records are newer than the counts and the ref."""
    ledger = RedisLedger(redis)
    ledger.register(Repository(APP, "https://example.org/acme/app", MAIN))
    first = replace(indexed(item(1)), summaries=1, summaries_missing=1)
    run, _ = start(ledger, item(1), item(2))
    ledger.done(run.id, [first, indexed(item(2))])
    (before,) = ledger.refs(APP)
    old = redis.hget(f"codelode:refs:{APP}", MAIN)
    run, _ = start(ledger, item(1))
    ledger.end(run.id, RunState.CANCELLED)
    redis.hset(f"codelode:refs:{APP}", MAIN, old)
    redis.hset(f"codelode:counts:{APP}:{MAIN}", mapping={"indexed": 70, "due": 0})

    ledger.recover(generation=0)
    assert ledger.refs(APP) == (replace(before, is_clean=False),)


# reaping


def test_files_of_a_dead_worker_are_published_again_at_their_stage(make):
    ledger = make()
    run, _ = start(ledger, item(1), item(2))
    ledger.begin(run.id, [item(1).path], worker="dead", stage="embed")
    lost = ledger.reap(waiting={"parse": 1})
    assert [(work.path, work.stage) for work in lost[run.id]] == [(item(1).path, "embed")]
    assert lost[run.id][0].blob == item(1).blob


def test_files_of_a_live_worker_are_left_alone(make):
    ledger = make(worker_ttl_s=60)
    run, _ = start(ledger, item(1))
    ledger.heartbeat("live")
    ledger.begin(run.id, [item(1).path], worker="live", stage="parse")
    assert ledger.reap(waiting={}) == {}


def test_an_overlong_claim_of_a_live_worker_is_published_again(make):
    ledger = make(worker_ttl_s=60, lease_s=0.0)
    run, _ = start(ledger, item(1))
    ledger.heartbeat("live")
    ledger.begin(run.id, [item(1).path], worker="live", stage="parse")
    until(lambda: run.id in ledger.reap(waiting={}))


def test_an_unclaimed_file_is_lost_only_when_nothing_waits_in_its_queue(make):
    ledger = make(requeue_s=0.0)
    run, _ = start(ledger, item(1))
    assert ledger.reap(waiting={"parse": 3}) == {}
    until(lambda: [work.path for work in ledger.reap(waiting={}).get(run.id, ())] == [item(1).path])


def test_a_file_whose_message_is_lost_is_sent_again_even_if_its_worker_is_alive(make):
    ledger = make(requeue_s=0.0, worker_ttl_s=60)
    run, _ = start(ledger, item(1))
    ledger.heartbeat("live")
    ledger.begin(run.id, [item(1).path], worker="live", stage="parse")
    ledger.pass_on(run.id, [item(1).path, "not/in/flight.py"], stage="embed")
    assert ledger.reap(waiting={"embed": 1}) == {}
    lost: list[WorkItem] = []
    until(lambda: bool(lost.extend(ledger.reap(waiting={"parse": 1}).get(run.id, ())) or lost))
    assert [(work.path, work.stage) for work in lost] == [(item(1).path, "embed")]
    assert ledger.begin(run.id, [item(1).path], worker="other", stage="embed") == (1,)


def test_a_fresh_unclaimed_file_is_not_lost(make):
    ledger = make(requeue_s=60)
    start(ledger, item(1))
    assert ledger.reap(waiting={}) == {}


def test_the_consequences_of_a_plan_are_unsent_until_they_are_marked(ledger):
    run, advance = start(ledger, *map(item, range(6)), WorkItem("gone.py", BlobId("")))
    unsent = ledger.unsent(run.id)
    assert (len(unsent.items), unsent.is_over, unsent.next_run) == (4, False, None)
    assert set(unsent.items) == set(advance.items)
    ledger.mark_sent(run.id)
    assert ledger.unsent(run.id) is None


def test_only_unclaimed_files_count_as_unsent_each_at_its_stage(ledger):
    run, _ = start(ledger, item(1), item(2), item(3), WorkItem("gone.py", BlobId("")))
    ledger.begin(run.id, [item(1).path], worker="live", stage="parse")
    ledger.pass_on(run.id, [item(2).path], stage="store")
    ledger.done(run.id, [indexed(item(3))])
    unsent = {work.path: work for work in ledger.unsent(run.id).items}
    assert unsent == {
        item(2).path: replace(item(2), stage="store"),
        "gone.py": WorkItem("gone.py", BlobId("")),
    }


def test_the_run_that_follows_a_plan_without_files_is_unsent(ledger):
    run = ledger.create(APP, DEFAULT_REF)
    following = ledger.create(APP, RefName("dev"))
    ledger.claim(run.id, worker="puller")
    advance = ledger.plan(run.id, manifest(), ref=MAIN, fingerprint=PRINT)
    assert ledger.unsent(run.id) == advance == Advance(is_over=True, next_run=following.id)
    ledger.claim(following.id, worker="puller")
    ledger.plan(following.id, manifest(item(1)), ref=RefName("dev"), fingerprint=PRINT)
    assert ledger.unsent(run.id) == Advance(is_over=True)


def test_the_run_that_follows_an_estimate_is_unsent(ledger):
    run = ledger.create(APP, DEFAULT_REF, kind=RunKind.PLAN)
    following = ledger.create(APP, DEFAULT_REF)
    ledger.claim(run.id, worker="puller")
    ledger.end_planned(run.id, ESTIMATE, revision=ONE, ref=MAIN)
    assert ledger.unsent(run.id) == Advance(next_run=following.id)


def test_a_run_without_a_plan_or_that_is_over_has_no_unsent_files(ledger):
    run = ledger.create(APP, DEFAULT_REF)
    waiting = ledger.create(APP, RefName("dev"))
    assert ledger.unsent(run.id) is ledger.unsent(waiting.id) is None
    ledger.end(run.id, RunState.FAILED, "why")
    assert ledger.unsent(run.id) is None
    ledger.mark_sent(RunId("nobody"))
    assert ledger.unsent(RunId("nobody")) is ledger.run(RunId("nobody")) is None


def wait_ms(ms: float) -> None:
    began = time.monotonic()
    wait_until(lambda: 1000 * (time.monotonic() - began) > ms, "time to pass")


def until(condition: Callable[[], bool], tries: int = 1_000_000) -> None:
    """Wait for a condition that depends only on time."""
    assert any(condition() for _ in range(tries))


# Invalidation


def test_invalidated_files_are_pending_and_the_next_run_compares_everything(ledger):
    run, advance = start(ledger, item(1), item(2))
    drain(ledger, run, advance)
    before = ledger.generation()

    assert ledger.invalidate(APP, MAIN, [item(1).path, "not/there.py"])
    records = ledger.records(APP, MAIN, [item(1).path, item(2).path, "not/there.py"])
    assert {path: record.state for path, record in records.items()} == {
        item(1).path: FileState.PENDING,
        item(2).path: FileState.INDEXED,
    }
    assert records[item(1).path].blob == item(1).blob
    (status,) = ledger.refs(APP)
    assert (status.is_clean, status.files, status.chunks) == (False, 1, 2)
    assert ledger.generation() > before


def test_nothing_is_invalidated_while_a_run_is_active(ledger):
    run, advance = start(ledger, item(1))
    drain(ledger, run, advance)
    following, _ = start(ledger, item(2))

    assert ledger.active(APP) == following.id
    assert not ledger.invalidate(APP, MAIN, [item(1).path])
    assert ledger.records(APP, MAIN, [item(1).path])[item(1).path].state is FileState.INDEXED
    ledger.end(following.id, RunState.CANCELLED)
    assert ledger.active(APP) is None
    assert ledger.invalidate(APP, MAIN, [])


def test_only_an_unregistered_name_can_be_marked_for_removal(ledger):
    assert not ledger.mark_for_removal(APP)
    assert ledger.mark_for_removal(RepositoryName("nobody"))
    assert ledger.being_removed() == {"nobody"}


def test_records_of_older_releases_are_still_read(redis):
    ledger = RedisLedger(redis)
    ledger.register(Repository(APP, "https://example.org/acme/app", MAIN))
    redis.hset(f"codelode:refs:{APP}", MAIN, f'["{ONE}", "{PRINT}", 1, 5000]')
    (status,) = ledger.refs(APP)
    assert (status.indexed, status.is_clean, status.patterns) == (ONE, True, "")
    assert ledger.invalidate(APP, MAIN, [])
    ledger.restamp("static", "served")
    (status,) = ledger.refs(APP)
    assert (status.fingerprint, status.is_clean, status.patterns) == ("parser-1 served", False, "")


@pytest.mark.server
def test_only_finished_runs_are_forgotten(redis, monkeypatch):
    """Thousands may wait at once, when the repositories of a code host are discovered."""
    monkeypatch.setattr(ledger_module, "RUNS_KEPT", 3)
    monkeypatch.setattr(ledger_module, "RUNS_TRIMMED", 2)
    ledger = RedisLedger(redis)

    def started(first, last):
        names = [RepositoryName(f"acme/{number}") for number in range(first, last)]
        for name in names:
            ledger.register(Repository(name, f"https://host.example/{name}"))
        return [ledger.create(name, DEFAULT_REF).id for name in names]

    waiting = started(0, 20)
    assert {run.id for run in ledger.recent(EVERYTHING, limit=100)} == {*waiting}
    for run in waiting[5:]:
        ledger.end(run, RunState.CANCELLED)
    number = 20
    while any(ledger.run(run) for run in waiting[5:]):  # each time, a random part is looked at
        (run,) = started(number, number + 1)
        ledger.end(run, RunState.CANCELLED)
        number += 1
        assert number < 5_000
    assert all(ledger.run(run) for run in waiting[:5])
