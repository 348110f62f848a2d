"""What becomes of a job that failed, on a real Redis."""

from __future__ import annotations

import os

from codelode import jobs
from codelode.model import BlobId, RepositoryName, RunId
from codelode.settings import load
from workers import pipeline, services
from workers.dispatch import Job


def test_a_job_that_fails_after_its_repository_was_removed_raises_nothing(
    redis_url, tmp_path, monkeypatch
):
    own = services.Services(load(redis_url=redis_url, data=tmp_path))
    monkeypatch.setitem(services._services, os.getpid(), own)
    gone = Job(RunId("gone"), RepositoryName("acme/app"), "a.py", BlobId("a" * 40))
    pipeline._fail(gone, "its repository was removed", queue=jobs.PARSE)
    assert own.handover.get(gone.run, [gone.path], "outcome") != (None,)
