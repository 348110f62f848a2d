"""What becomes of a job that fails or has to wait, on a real Redis."""

from __future__ import annotations

import os

import pytest

from codelode import jobs
from codelode.errors import Unavailable
from codelode.model import (
    DEFAULT_REF,
    BlobId,
    Repository,
    RepositoryName,
    Revision,
    RunId,
    RunState,
)
from codelode.ports import Manifest, WorkItem
from codelode.settings import load
from workers import pipeline, planning, services
from workers.dispatch import Job

APP = RepositoryName("acme/app")
BLOB = BlobId("a" * 40)


@pytest.fixture
def own(redis_url, redis, tmp_path, monkeypatch):
    """The services of this process, a worker that lives."""
    own = services.Services(load(redis_url=redis_url, data=tmp_path))
    monkeypatch.setitem(services._services, os.getpid(), own)
    monkeypatch.setattr(services, "_identity", "this")
    own.ledger.heartbeat("this")
    return own


class Away:
    """A server that is."""

    def __getattr__(self, _):
        raise Unavailable("away")


def start(own):
    own.ledger.register(Repository(APP, "https://example.org/app"))
    return own.ledger.create(APP, DEFAULT_REF).id


def test_a_job_that_fails_after_its_repository_was_removed_raises_nothing(own):
    gone = Job(RunId("gone"), APP, "a.py", BLOB)
    pipeline._fail(gone, "its repository was removed", queue=jobs.PARSE)
    assert own.handover.get(gone.run, [gone.path], "outcome") != (None,)


def test_a_file_whose_server_is_away_waits_for_any_worker_and_that_is_no_attempt(own, monkeypatch):
    run = start(own)
    own.ledger.plan(
        run,
        Manifest(Revision("b" * 40), (WorkItem("a.py", BLOB),)),
        ref=DEFAULT_REF,
        fingerprint="",
    )
    monkeypatch.setitem(vars(own), "blobs", Away())

    for _ in range(own.settings.max_attempts + 1):
        with pytest.raises(Unavailable, match="away"):
            pipeline.parse_file(**Job(run, APP, "a.py", BLOB).arguments)

    assert own.ledger.begin(run, ["a.py"], worker="another", stage=jobs.PARSE) == (1,)


def test_a_pull_whose_remote_is_away_waits_for_any_worker(own, monkeypatch):
    run = start(own)
    monkeypatch.setitem(vars(own), "mirrors", Away())

    with pytest.raises(Unavailable, match="away"):
        planning.pull_run(run)

    assert own.ledger.run(run).state is RunState.PULLING
    assert own.ledger.claim(run, worker="another")


def test_a_run_waits_until_its_repository_has_left_however_long_that_takes(own, monkeypatch):
    own.ledger.expel(APP)
    run = start(own)
    sent = []
    monkeypatch.setattr(
        planning, "send_pull", lambda *args, **options: sent.append((args, options))
    )

    planning.pull_run(run)

    assert sent == [((run,), {"countdown": planning.LATER_S, "retries": 0})]
    assert own.ledger.run(run).state is RunState.PULLING
    assert own.ledger.claim(run, worker="another")
