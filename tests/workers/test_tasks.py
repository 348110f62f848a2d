"""Jobs that fail or have to wait are retried or recorded, on a real Redis."""

from __future__ import annotations

import os

import pytest
from billiard.exceptions import TimeLimitExceeded
from celery.exceptions import Reject
from celery.signals import task_failure
from structlog.testing import capture_logs

from codelode import jobs
from codelode.access import EVERYTHING
from codelode.errors import Unavailable
from codelode.ledger import Advance, FileManifest, WorkItem
from codelode.model import (
    DEFAULT_REF,
    BlobId,
    RefName,
    Repository,
    RepositoryName,
    Revision,
    RunId,
    RunState,
)
from codelode.repository_sources import Mode
from codelode.settings import load
from codelode.stages import FILE_STAGES
from tests.waiting import wait_until
from tests.workers import test_layouts
from workers import planning, services
from workers.delivery import tasks, upkeep
from workers.delivery.app import app as celery_app
from workers.delivery.files import Job
from workers.pull import BeingRemoved, Mirrors, git

APP = RepositoryName("acme/app")
BLOB = BlobId("a" * 40)
PARSE = FILE_STAGES[0]


@pytest.fixture
def own(redis_url, redis, tmp_path, monkeypatch):
    """The services of this process, which acts as a live worker."""
    own = services.Services(load(redis_url=redis_url, data=tmp_path))
    monkeypatch.setitem(services._services, os.getpid(), own)
    monkeypatch.setattr(services, "_identity", "this")
    own.ledger.heartbeat("this")
    use_broker(redis_url, monkeypatch)
    return own


@pytest.fixture
def messages(own):
    """`messages(queue)` returns the arguments and the previous attempts of waiting messages."""

    def waiting(queue):
        with celery_app.connection_for_read() as connection:
            found = iter(lambda: connection.default_channel.basic_get(queue, no_ack=True), None)
            return [(one.decode()[1], one.headers["retries"]) for one in found]

    return waiting


def use_broker(url, monkeypatch):
    monkeypatch.setattr(celery_app.conf, "broker_url", jobs.broker_url(url))
    monkeypatch.setattr(celery_app, "_pool", None)
    monkeypatch.setattr(celery_app.amqp, "_producer_pool", None)


class Away:
    """A server that is unreachable."""

    def __getattr__(self, _):
        raise Unavailable("away")


def start(own, url="https://example.org/app"):
    own.ledger.register(Repository(APP, url))
    return own.ledger.create(APP, DEFAULT_REF).id


def test_a_job_that_fails_after_its_repository_was_removed_raises_nothing(own):
    gone = Job(RunId("gone"), APP, "a.py", BLOB)
    tasks.delivery().fail(gone, "its repository was removed", stage=PARSE)
    assert own.stage_outputs.get(gone.run, [gone.path], ["outcome"]) != ({},)


def test_a_file_whose_server_is_unreachable_is_retried_without_counting_an_attempt(
    own, monkeypatch
):
    run = start(own)
    own.ledger.plan(
        run,
        FileManifest(Revision("b" * 40), (WorkItem("a.py", BLOB),)),
        ref=DEFAULT_REF,
        fingerprint="",
    )
    monkeypatch.setitem(vars(own), "blobs", Away())

    for _ in range(own.settings.max_attempts + 1):
        with pytest.raises(Unavailable, match="away"):
            tasks.TASKS["parse"](**Job(run, APP, "a.py", BLOB).arguments)

    assert own.ledger.begin(run, ["a.py"], worker="another", stage="parse") == (1,)


def test_a_file_is_sent_again_when_its_process_reaches_the_time_limit_and_fails_the_next_time(
    own, messages
):
    run = start(own)
    plan(own, run, "a.py")
    job = Job(run, APP, "a.py", BLOB)

    def stall(message):
        assert own.ledger.begin(run, ["a.py"], worker="this", stage="parse") == (1,)
        for _ in range(2):  # as Celery does
            task_failure.send(
                sender=tasks.TASKS["parse"],
                task_id=message,
                kwargs=job.arguments,
                exception=TimeLimitExceeded(15),
            )

    stall("first")
    assert [sent["path"] for sent, _ in messages("parse")] == ["a.py"]
    assert own.ledger.run(run).failed == 0

    stall("second")
    assert (messages("parse"), [sent["path"] for sent, _ in messages("store")]) == ([], ["a.py"])
    (outcome,) = own.stage_outputs.get(run, ["a.py"], ["outcome"])
    assert b"stage parse took longer than 15 s" in outcome["outcome"]


def plan(own, run, *paths):
    items = tuple(WorkItem(path, BLOB) for path in paths)
    manifest = FileManifest(Revision("b" * 40), items)
    own.ledger.plan(run, manifest, ref=DEFAULT_REF, fingerprint="")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *[("run", value) for value in ("", "--all", "x" * 16, "../" * 5 + "a", ["a"], None)],
        *[("repository", value) for value in ("", "../other", "/etc", "-x", "a\nb", 1, {})],
        *[("path", value) for value in ("", "a\0b", None, ["a.py"])],
        *[("blob", value) for value in ("--batch", "HEAD", "a" * 39, "A" * 40, "a" * 41, 7)],
        *[("size", value) for value in (-1, "1", True, None)],
        ("other", 1),
    ],
    ids=repr,
)
def test_a_message_that_no_process_of_ours_sends_is_dropped_with_a_reason(own, name, value):
    run = start(own)
    plan(own, run, "a.py")
    good = Job(run, APP, "a.py", BLOB).arguments

    for task in tasks.TASKS.values():
        with capture_logs() as lines:
            task(**{**good, name: value})
        (line,) = lines
        assert (line["event"], line["task"]) == ("message_dropped", task.name)
        assert len(line["reason"]) < 250

    assert own.ledger.begin(run, ["a.py"], worker="another", stage="parse") == (1,)


def test_a_message_without_an_argument_is_dropped(own):
    with capture_logs() as lines:
        tasks.TASKS["parse"](run="a" * 16)
    assert [line["event"] for line in lines] == ["message_dropped"]


@pytest.mark.parametrize("value", ["", "--all", "x" * 16, ["a"], {"a": 1}, None, 5])
def test_a_message_of_another_task_without_a_good_name_is_dropped(own, value):
    with capture_logs() as lines:
        tasks.pull(value)
        upkeep.forget(value if isinstance(value, list | dict) else "../x")
        upkeep.drop_mirror(value if isinstance(value, list | dict) else "-x")
        upkeep.forget_ref(APP, "-x" if isinstance(value, str) else value)
    assert [line["event"] for line in lines] == ["message_dropped"] * 4


@pytest.mark.parametrize(
    ("repository", "path"),
    [("acme/other", "a.py"), (APP, "../../etc/passwd"), (APP, "b.py")],
    ids=["another repository", "a path outside", "a file that is not planned"],
)
def test_only_files_in_flight_of_the_repository_of_their_run_are_worked_on(own, repository, path):
    run = start(own)
    plan(own, run, "a.py")

    tasks.TASKS["parse"](**Job(run, RepositoryName(repository), path, BLOB).arguments)

    assert own.ledger.run(run).failed == 0
    assert own.ledger.begin(run, ["a.py"], worker="another", stage="parse") == (1,)
    assert own.stage_outputs.get(run, [path], ["outcome"]) == ({},)


def test_a_pull_whose_remote_is_away_waits_for_any_worker(own, messages, monkeypatch):
    run = start(own)
    monkeypatch.setitem(vars(own), "mirrors", Away())

    tasks.pull(run)

    assert messages(jobs.PULL) == [({"run": run}, 1)]
    assert own.ledger.run(run).state is RunState.PULLING
    assert own.ledger.claim(run, worker="another")


def test_a_pull_that_cannot_be_handed_over_requeues_its_message(own, monkeypatch):
    run = start(own)
    monkeypatch.setitem(vars(own), "mirrors", Away())
    use_broker("redis://127.0.0.1:1/0", monkeypatch)

    with pytest.raises(Reject) as rejected:
        tasks.pull(run)

    assert rejected.value.requeue


def test_a_run_waits_until_its_repository_is_removed(own, messages):
    own.ledger.mark_for_removal(APP)
    run = start(own)

    for _ in range(tasks.MAX_PULL_RETRIES + 1):
        tasks.pull(run)

    assert messages(jobs.PULL) == [({"run": run}, 0)] * (tasks.MAX_PULL_RETRIES + 1)
    assert own.ledger.run(run).state is RunState.PULLING
    assert own.ledger.claim(run, worker="another")


def test_a_failed_first_run_of_a_missing_repository_leaves_a_report_but_no_registration(
    own, messages
):
    run = start(own)  # no source at that URL is allowed or there
    own.ledger.register(Repository(APP, "/nowhere/app"))

    with pytest.raises(tasks.JobFailed):
        tasks.pull(run)

    assert own.ledger.run(run).state is RunState.FAILED
    assert own.ledger.run(run).error
    assert own.ledger.get(APP) is None
    assert messages(jobs.STORE) == [({"repository": APP}, 0)]


def test_a_repository_that_was_indexed_stays_when_a_run_of_it_fails(own):
    first = start(own)
    own.ledger.plan(first, FileManifest(Revision("b" * 40), ()), ref=DEFAULT_REF, fingerprint="")
    own.ledger.register(Repository(APP, "/nowhere/app", DEFAULT_REF))
    run = own.ledger.create(APP, DEFAULT_REF).id

    with pytest.raises(tasks.JobFailed):
        tasks.pull(run)

    assert own.ledger.run(run).state is RunState.FAILED
    assert own.ledger.get(APP) is not None


def test_the_next_reader_cleans_up_a_removed_ref(own, messages):
    dev = RefName("dev")
    for ref in (DEFAULT_REF, dev):
        own.ledger.register(Repository(APP, "https://example.org/app", DEFAULT_REF))
        run = own.ledger.create(APP, ref).id
        own.ledger.plan(run, FileManifest(Revision("b" * 40), ()), ref=ref, fingerprint="")
    own.ledger.remove_ref(APP, dev)

    upkeep.reap()
    ((sent, _),) = messages(jobs.STORE)
    upkeep.forget_ref(**sent)

    assert sent == {"repository": APP, "ref": dev}
    assert own.ledger.refs_being_removed() == frozenset()


def test_lost_work_is_looked_for_over_connections_that_are_kept_and_replaced(own, redis_admin):
    def connections():
        return redis_admin.info("stats")["total_connections_received"]

    upkeep.reap()
    before = connections()
    upkeep.reap()
    assert connections() == before

    redis_admin.client_kill_filter(_type="normal", skipme=True)
    upkeep.reap()
    assert connections() > before


def test_a_run_that_supersedes_another_is_pulled(own, messages):
    own.ledger._supersede_ms = 0
    run = start(own)
    own.ledger.claim(run, worker="this")
    planned = FileManifest(Revision("b" * 40), (WorkItem("a.py", BlobId("c" * 40)),))
    own.ledger.plan(run, planned, ref=DEFAULT_REF, fingerprint="")
    newer = own.ledger.create(APP, DEFAULT_REF)

    wait_until(lambda: upkeep.reap() or own.ledger.successor(run), "the newer run to begin")

    assert own.ledger.run(run).state is RunState.CANCELLED
    assert {"run": newer.id} in [sent for sent, _ in messages(jobs.PULL)]


@pytest.mark.parametrize("paths", [("a.py",), ()], ids=["with files", "without files"])
def test_a_stored_plan_is_wanted_until_its_messages_are_sent(own, messages, monkeypatch, paths):
    run = start(own)
    following = own.ledger.create(APP, RefName("dev")).id

    def plan_and_check(found, services, *, is_wanted):
        manifest = FileManifest(Revision("b" * 40), tuple(WorkItem(path, BLOB) for path in paths))
        advance = own.ledger.plan(found.id, manifest, ref=DEFAULT_REF, fingerprint="")
        assert is_wanted()
        return advance

    monkeypatch.setattr(planning, "plan", plan_and_check)

    tasks.pull(run)

    assert [sent["path"] for sent, _ in messages("parse")] == list(paths)
    assert messages(jobs.PULL) == ([] if paths else [({"run": following}, 0)])


@pytest.mark.parametrize("paths", [("a.py", "b.py"), ()], ids=["with files", "without files"])
def test_a_repeated_pull_sends_the_messages_of_a_stored_plan_once(own, messages, paths):
    """The worker died, or its planning process, between storing the plan and sending messages."""
    run = start(own)
    following = own.ledger.create(APP, RefName("dev")).id
    own.ledger.claim(run, worker="dead")
    plan(own, run, *paths)

    tasks.pull(run)
    tasks.pull(run)

    assert sorted(sent["path"] for sent, _ in messages("parse")) == list(paths)
    assert messages(jobs.PULL) == ([] if paths else [({"run": following}, 0)])


def test_a_pull_that_is_repeated_after_its_files_were_sent_sends_nothing(
    own, messages, monkeypatch
):
    run = start(own)
    monkeypatch.setattr(planning, "plan", lambda found, *_, **__: planned(own, found.id))
    tasks.pull(run)
    assert [sent["path"] for sent, _ in messages("parse")] == ["a.py"]

    tasks.pull(run)

    assert messages("parse") == []


def planned(own, run):
    manifest = FileManifest(Revision("b" * 40), (WorkItem("a.py", BLOB),))
    return own.ledger.plan(run, manifest, ref=DEFAULT_REF, fingerprint="")


def test_the_plan_of_a_run_that_is_cancelled_or_gone_is_not_wanted(own, monkeypatch):
    wanted = []

    def end_and_check(found, services, *, is_wanted):
        own.ledger.end(found.id, RunState.CANCELLED)
        wanted.append(is_wanted())
        own.ledger.unregister(APP)
        wanted.append(is_wanted())
        return Advance()

    monkeypatch.setattr(planning, "plan", end_and_check)

    tasks.pull(start(own))

    assert wanted == [False, False]


def test_a_run_whose_workers_died_too_often_fails(own):
    run = start(own)
    for _ in range(own.settings.max_attempts):
        own.ledger.claim(run, worker="dead")

    with pytest.raises(tasks.JobFailed, match="died 3 times"):
        tasks.pull(run)

    assert own.ledger.run(run).state is RunState.FAILED
    assert own.ledger.run(run).error == "its worker died 3 times at stage pull"


def test_a_run_whose_git_stalls_each_time_fails(own, messages, tmp_path, monkeypatch):
    """A stopped git neither ends nor prints, and takes no polite signal."""
    stopped = tmp_path / "git"
    stopped.write_text("#!/bin/sh\nkill -STOP $$\n")
    stopped.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    monkeypatch.setattr(git, "_GRACE_S", 0.1)
    monkeypatch.setitem(vars(own), "mirrors", Mirrors(tmp_path / "mirrors", timeout_s=0.2))
    run = start(own)

    for retries in range(tasks.MAX_PULL_RETRIES):
        tasks.pull.apply(kwargs={"run": run}, retries=retries)
        assert messages(jobs.PULL) == [({"run": run}, retries + 1)]
    tasks.pull.apply(kwargs={"run": run}, retries=tasks.MAX_PULL_RETRIES)

    end = own.ledger.run(run)
    assert end.state is RunState.FAILED
    assert "git ls-remote did not end within 0.2 seconds" in end.error
    assert messages(jobs.PULL) == []
    tasks.pull.apply(kwargs={"run": run})  # delivered once more, as after a restart
    assert own.ledger.run(run) == end


def test_a_run_whose_repository_is_removed_meanwhile_is_dropped(own, messages, monkeypatch):
    run = start(own)
    monkeypatch.setattr(tasks, "_plan", lambda run: remove(own, run))

    tasks.pull(run)

    assert messages(jobs.PULL) == []


def remove(own, run):
    own.ledger.unregister(APP)
    raise BeingRemoved(f"{run} waits for {APP}")


def test_an_unforeseen_error_of_a_pull_ends_its_run_and_is_a_failure_of_the_task(own, monkeypatch):
    run = start(own)
    monkeypatch.setattr(tasks, "_plan", lambda run: None + 1)

    with pytest.raises(TypeError):
        tasks.pull(run)

    assert own.ledger.run(run).state is RunState.FAILED
    assert "TypeError" in own.ledger.run(run).error


def test_a_run_that_cannot_be_planned_is_a_failure_of_its_job(own, tmp_path):
    run = start(own, str(tmp_path / "missing"))

    with pytest.raises(tasks.JobFailed):
        tasks.pull(run)

    assert own.ledger.run(run).state is RunState.FAILED


def test_a_file_that_fails_is_a_failure_of_its_job(own):
    run = start(own)
    manifest = FileManifest(Revision("b" * 40), (WorkItem("a.py", BLOB),))
    own.ledger.plan(run, manifest, ref=DEFAULT_REF, fingerprint="")

    with pytest.raises(tasks.JobFailed):  # there is no mirror to read it from
        tasks.TASKS["parse"](**Job(run, APP, "a.py", BLOB).arguments)

    assert own.stage_outputs.get(run, ["a.py"], ["outcome"]) != ({},)


@pytest.fixture
def followed(redis_url, redis, tmp_path, monkeypatch):
    """The services of this process, and a repository in a followed folder, with two more branches.

    Of these, the sources file names `next`.
    """
    source = test_layouts.commit(tmp_path / "git" / "app", {"a.py": "a = 1\n"})
    for command in ("branch next", "branch other", "tag v1", "tag old"):
        test_layouts.git(source, *command.split())
    (tmp_path / "sources.yaml").write_text(
        f"connections:\n- {{name: here, kind: folder, path: {source.parent},\n"
        "  repositories: {branches: [next], tags: ['v*'], newest_tags: 1}}\n"
    )
    given = {"sources": str(tmp_path / "sources.yaml"), "local_paths": "owned"}
    own = services.Services(load(redis_url=redis_url, data=tmp_path / "data", **given))
    monkeypatch.setitem(services._services, os.getpid(), own)
    monkeypatch.setattr(services, "_identity", "this")
    own.ledger.heartbeat("this")
    use_broker(redis_url, monkeypatch)
    own.ledger.register(Repository(APP, str(source)))
    return own, source


def pull_all(own, name=APP):
    """Pull the active run and its successors, and end each once it is planned."""
    while following := own.ledger.active(name):
        tasks.pull.apply(kwargs={"run": following})
        own.ledger.end(following, RunState.CANCELLED)


def test_a_pull_starts_the_runs_of_branches_and_tags_that_the_sources_file_names(
    followed, monkeypatch
):
    """Superseded tags leave."""
    own, source = followed
    run = own.ledger.create(APP, DEFAULT_REF).id

    tasks.pull.apply(kwargs={"run": run})
    started = {one.ref for one in own.ledger.recent(EVERYTHING) if one.id != run}
    assert started == {"next", "v1"}
    own.ledger.end(run, RunState.CANCELLED)
    pull_all(own)
    monkeypatch.setenv("GIT_COMMITTER_DATE", "2040-01-01T00:00:00Z")
    test_layouts.commit(source, {"b.py": "b = 1\n"})
    test_layouts.git(source, "tag", "v2")
    run = own.ledger.create(APP, DEFAULT_REF).id
    tasks.pull.apply(kwargs={"run": run})
    assert (APP, "v1") in own.ledger.refs_being_removed()
    assert "v2" in {one.ref for one in own.ledger.recent(EVERYTHING)}


def test_a_listing_after_a_branch_was_deleted_leaves_no_failed_run(followed):
    """A listing starts runs of all refs that are indexed, before anybody asks the source."""
    own, source = followed
    own.ledger.unregister(APP)
    own.source_sync.due()
    own.source_sync.run("here", tasks.outbox)
    name = RepositoryName("app")
    pull_all(own, name)
    test_layouts.git(source, "branch", "-D", "next")
    own.source_states.want("here", Mode.SYNC)
    own.source_sync.run("here", tasks.outbox)
    waiting = {one.ref: one.id for one in own.ledger.recent(EVERYTHING) if not one.state.is_over}
    assert {*waiting} == {DEFAULT_REF, "next", "v1"}
    pull_all(own, name)

    found = own.ledger.run(waiting[RefName("next")])
    assert (found.state, found.error) == (RunState.CANCELLED, "next has left the source")
    assert (name, "next") in own.ledger.refs_being_removed()
    assert RunState.FAILED not in {one.state for one in own.ledger.recent(EVERYTHING)}
