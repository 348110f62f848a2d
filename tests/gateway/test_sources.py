"""Admins can have the repositories of connections listed, even of new connections."""

from __future__ import annotations

from dataclasses import replace

import pytest

from codelode.access import EVERYTHING, Principal, Role
from codelode.errors import InvalidSettings, NotFound, Unavailable
from codelode.host_permissions import SyncDeclaration
from codelode.repository_sources import SourceDeclaration
from gateway import service
from gateway.service import declared

ROOT = Principal("root", Role.ADMIN, EVERYTHING)
WORK = SourceDeclaration("work", "gitea", "h.example/", 300, "rules")
SYNC = SyncDeclaration("work", "gitea", "h.example/", 300, 3600, emails=False, claim="")


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "sources.yaml"
    path.write_text(
        "connections:\n- {name: work, kind: gitea, url: https://h.example, token: {env: T},\n"
        "   repositories: {}, permissions: {}}\n"
    )
    return path


@pytest.fixture
def given(dependencies, file):
    settings = dependencies.settings.model_copy(update={"sources": str(file)})
    return replace(dependencies, settings=settings)


SYNCS = {
    "source": service.sync_sources,
    "permissions": service.sync_permissions,
}


def declare(given):
    given.sources.declare([WORK])
    given.permissions.declare([SYNC])


@pytest.mark.parametrize(("job", "sync"), SYNCS.items(), ids=SYNCS)
async def test_a_sync_waits_until_the_workers_have_read_the_file(
    given, jobs, monkeypatch, job, sync
):
    look = declared._has

    def read_after_the_first_look(*asked):
        """Make the workers read the file only after the connection was looked up once."""
        declare(given)
        return look(*asked)

    monkeypatch.setattr(declared, "_has", read_after_the_first_look)

    assert await sync(given, ROOT, "work") == ("work",)
    assert jobs.sent == [(job, "work")]


@pytest.mark.parametrize("sync", SYNCS.values(), ids=SYNCS)
async def test_a_sources_file_that_no_worker_has_read_is_reported(given, monkeypatch, sync):
    monkeypatch.setattr(declared, "READ_WITHIN_S", 0.0)
    with pytest.raises(Unavailable, match="have not read the sources file yet"):
        await sync(given, ROOT)


async def test_what_the_file_does_not_declare_is_not_waited_for(given, file):
    for sync in SYNCS.values():
        with pytest.raises(NotFound, match="no connection has"):
            await sync(given, ROOT, "other")
    file.write_text("connections:\n- {name: work}\n")
    for sync in SYNCS.values():
        with pytest.raises(InvalidSettings, match=":2: the connection lacks kind"):
            await sync(given, ROOT)
