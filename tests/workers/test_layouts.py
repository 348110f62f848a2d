"""The store stage resolves imports by layouts that confined processes read; on a real Redis.

The cache keeps nothing here, so the store worker never finds what the pull has read.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import threading
from pathlib import Path

import pytest

from codelode import jobs
from codelode.access import Label, Role
from codelode.api_keys import ApiKey
from codelode.errors import Rejected
from codelode.ledger import FileManifest, WorkItem
from codelode.model import (
    DEFAULT_REF,
    BlobId,
    FileState,
    Repository,
    RepositoryName,
    Revision,
    RunState,
    SourceFile,
)
from codelode.settings import load
from codelode.stages import FILE_STAGES, LAST
from tests.waiting import wait_until
from workers import confined, layouts, planning, services, wire
from workers.delivery import tasks
from workers.delivery.app import app as celery_app
from workers.delivery.files import Job, Pending
from workers.parse import imports
from workers.pull import update

LONG_S = 60
BY_NAME = {stage.name: stage for stage in FILE_STAGES}

#: A line that takes long to read: a manifest far below the size limit takes about 10 s.
SLOW_TOML = "".join("a." * 900 + f"b{number} = 1\n" for number in range(500))
SLOW = {f"{at}/pyproject.toml": SLOW_TOML for at in range(50)}


@pytest.fixture
def make(redis_url, redis, tmp_path, monkeypatch):
    """`make(**settings)` makes the services of this process, which acts as a live worker."""
    with contextlib.ExitStack() as ends:

        def own(**more):
            settings = load(redis_url=redis_url, data=tmp_path / "data", **more)
            own = services.Services(
                settings.model_copy(update={"local_paths": str(tmp_path), "derivations": "none"})
            )
            ends.callback(own.close)
            monkeypatch.setitem(services._services, os.getpid(), own)
            monkeypatch.setattr(services, "_identity", "this")
            monkeypatch.setattr(celery_app.conf, "broker_url", jobs.broker_url(redis_url))
            monkeypatch.setattr(celery_app, "_pool", None)
            monkeypatch.setattr(celery_app.amqp, "_producer_pool", None)
            own.ledger.heartbeat("this")
            own.swap.announce({})
            return own

        yield own


@pytest.fixture
def start(tmp_path):
    """`start(own, name, files)` returns the jobs of a run whose files wait to be stored."""

    def start(own, name, files, wanted):
        folder = commit(tmp_path / name, files)
        own.ledger.register(Repository(RepositoryName(name), str(folder), DEFAULT_REF))
        run = own.ledger.create(RepositoryName(name), DEFAULT_REF)
        update(run, ledger=own.ledger, mirrors=own.mirrors)
        items = tuple(
            WorkItem(path, BlobId(git(folder, "rev-parse", f"main:{path}"))) for path in wanted
        )
        revision = Revision(git(folder, "rev-parse", "main"))
        own.ledger.plan(run.id, FileManifest(revision, items), ref=DEFAULT_REF, fingerprint="")
        found = [Job(run.id, RepositoryName(name), item.path, item.blob) for item in items]
        for job in found:
            for stage in ("parse", "embed"):
                tasks.delivery().work_alone(BY_NAME[stage], job)
        return found

    return start


def git(folder, *arguments):
    who = ("-c", "user.name=T", "-c", "user.email=t@x")
    command = ["git", "-C", folder, *who, *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def commit(folder, files):
    for path, text in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text)
    git(folder, "init", "-q", "-b", "main")
    git(folder, "add", "-A")
    git(folder, "commit", "-q", "-m", "x")
    return folder


@pytest.fixture
def store():
    """`store(job)` processes a message like the store worker, in a batch of its own."""
    work = tasks._batched(LAST)

    def store(job):
        tasks.delivery().handle(job, work)

    return store


@pytest.fixture
def is_pending(store):
    def is_pending(job):
        try:
            store(job)
        except Pending:
            return True
        return False

    return is_pending


def test_a_layout_that_the_cache_has_lost_is_read_again(make, start, store, is_pending):
    own = make()
    files = {"a.py": "import b\n", "b.py": "def b(): pass\n"}
    a, b = start(own, "app", files, list(files))

    assert is_pending(a)
    assert own.ledger.run(a.run).waits_for == "the workers are reading the manifests of app again"
    for job in (a, b):
        store(job)

    assert own.ledger.run(a.run).state is RunState.COMPLETE
    (edge,) = own.graph.outgoing(a.repository, DEFAULT_REF, ["a.py"])["a.py"]
    assert edge.target == "b.py"


def test_files_of_others_are_stored_while_manifests_are_read_again(make, start, store, is_pending):
    own = make()
    a, b = start(own, "slow", {"a.py": "a = 1\n", "b.py": "b = 1\n", **SLOW}, ["a.py", "b.py"])
    (quick,) = start(own, "quick", {"q.py": "q = 1\n"}, ["q.py"])
    readers = children_of_call_server()
    reading = threading.Thread(target=is_pending, args=(a,))
    reading.start()
    wait_until(readers.read_text, "the manifests are being read", seconds=LONG_S)
    reader = int(readers.read_text())
    os.kill(reader, signal.SIGSTOP)  # however slow this test is, the reading takes longer

    assert is_pending(b)
    assert is_pending(quick)
    store(quick)

    assert own.ledger.run(quick.run).state is RunState.COMPLETE
    assert reading.is_alive()
    own.ledger.end(a.run, RunState.CANCELLED)
    reading.join(LONG_S)
    assert not reading.is_alive()
    store(b)  # its message leaves the queue


def children_of_call_server():
    """Return the ids of the processes that do confined calls for this process."""
    server = confined.call(os.getppid, what="it", timeout_s=LONG_S, memory_bytes=1 << 30)
    return Path(f"/proc/{server}/task/{server}/children")


def test_a_layout_that_takes_too_long_ends_its_run_with_the_reason(make, start):
    own = make(plan_timeout_s=1)
    (job,) = start(own, "slow", {"a.py": "a = 1\n", **SLOW}, ["a.py"])

    with pytest.raises(tasks.JobFailed, match="took longer than 1 s"):
        tasks.TASKS["store"](**job.arguments)

    run = own.ledger.run(job.run)
    assert run.state is RunState.FAILED
    assert "CODELODE_PLAN_TIMEOUT_S" in run.error
    assert (
        own.ledger.records(job.repository, DEFAULT_REF, ["a.py"])["a.py"].state is FileState.PENDING
    )


def test_a_pull_keeps_the_layout_for_the_store_stage(make, start, tmp_path):
    own = make()
    vars(own)["settings"] = own.settings.model_copy(update={"derivations": "disk"})
    folder = commit(tmp_path / "app", {"a.py": "import b\n", "go.mod": "module example.org/app\n"})
    own.ledger.register(Repository(RepositoryName("app"), str(folder)))
    run = own.ledger.create(RepositoryName("app"), DEFAULT_REF)

    planning.plan(run, own, is_wanted=lambda: True)

    planned = own.ledger.run(run.id)
    assert layouts.prepare(planned, own) is None
    layout = layouts.of_commit(planned.repository, planned.revision, own)
    assert layout.paths == {"a.py", "go.mod"}
    assert layout.facts["go.mod"].name == "example.org/app"


@pytest.mark.parametrize("name", ["app", "other"])
def test_a_pull_gives_a_run_the_share_of_its_repository(make, tmp_path, name):
    own = make()
    sources = tmp_path / "sources.yaml"
    connection = f"{{name: here, kind: folder, path: {tmp_path}/app"
    sources.write_text(f"connections:\n- {connection}, repositories: {{priority: low}}}}\n")
    vars(own)["settings"] = own.settings.model_copy(update={"sources": str(sources)})
    folder = commit(tmp_path / name / "code", {"a.py": "a = 1\n"})
    own.ledger.register(Repository(RepositoryName(name), str(folder)))
    run = own.ledger.create(RepositoryName(name), DEFAULT_REF)

    planning.plan(run, own, is_wanted=lambda: True)

    assert own.ledger.run(run.id).is_bulk is (name == "app")


def test_a_pull_puts_repositories_with_the_same_label_into_a_group(make, tmp_path):
    own = make()
    labels = {"a": Label.PUBLIC, "b": Label.PUBLIC, "c": Label.PRIVATE, "d": None}
    for name, label in labels.items():
        folder = commit(tmp_path / name, {"a.py": "a = 1\n"})
        own.ledger.register(Repository(RepositoryName(name), str(folder)))
        own.ledger.set_label(RepositoryName(name), label)
        run = own.ledger.create(RepositoryName(name), DEFAULT_REF)
        planning.plan(run, own, is_wanted=lambda: True)

    groups = own.ledger.groups()
    assert groups.keys() == {"a", "b", "c"}
    assert groups["a"] == groups["b"] != groups["c"]


def test_a_pull_groups_repositories_by_the_entries_of_the_access_file_and_by_keys(make, tmp_path):
    own = make()
    own.ledger.set_access_globs([("*-api", "web")])
    key = ApiKey("1", "ci", "", Role.READER, (("*-a*",), ("a*", "b/*")), 0.0, "root")
    assert own.api_keys.add(key)
    for name in ("a-api", "b-api", "c-app", "d", "web"):
        folder = commit(tmp_path / name, {"a.py": "a = 1\n"})
        own.ledger.register(Repository(RepositoryName(name), str(folder)))
        own.ledger.set_label(RepositoryName(name), Label.INTERNAL)
        run = own.ledger.create(RepositoryName(name), DEFAULT_REF)
        planning.plan(run, own, is_wanted=lambda: True)

    groups = {name: found.written for name, found in own.ledger.groups().items()}
    (label,) = groups["d"]
    (_, listed), (_, key) = groups["web"], groups["c-app"]
    (_, *of_b), (_, *of_a) = groups["b-api"], groups["a-api"]
    assert {some[0] for some in groups.values()} == {label}
    assert of_b == [listed, *of_b[1:]]
    assert {*of_a} > {*of_b} > {listed}
    assert key in of_b


def test_a_layout_is_the_same_after_it_was_kept():
    texts = {
        "caf\udce9.py": "",
        "web/package.json": '{"name": "@acme/web", "exports": {".": "./src/index.ts"}}',
        "go.mod": "module example.org/app\nreplace a => ./b\n",
    }
    listing = [SourceFile(path, BlobId(path), len(text)) for path, text in texts.items()]
    layout = imports.read_layout(listing, lambda blob: texts[blob].encode(), name="app")

    again = wire.load_layout(wire.dump_layout(layout, max_bytes=1_000), name="app")

    assert (again.paths, again.facts, again.name) == (layout.paths, layout.facts, "app")
    assert again.fingerprints() == layout.fingerprints()


def test_a_layout_that_is_too_large_to_keep_is_refused_with_the_setting():
    layout = imports.Layout(f"{at}.py" for at in range(1_000))

    with pytest.raises(Rejected, match="raise CODELODE_MAX_PATHS"):
        wire.dump_layout(layout, max_bytes=1_000)
