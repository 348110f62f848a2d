"""Admins have the repositories of connections listed, also of those that were declared just now."""

from __future__ import annotations

from dataclasses import replace
from importlib import import_module

import pytest

from codelode.access import EVERYTHING, Principal, Role
from codelode.errors import InvalidSettings, NotFound, Unavailable
from codelode.repository_sources import SourceDeclaration
from gateway import service

ROOT = Principal("root", Role.ADMIN, EVERYTHING)
WORK = SourceDeclaration("work", "urls", "", 300, "rules")


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "sources.yaml"
    path.write_text("connections:\n- {name: work, kind: urls, urls: [https://h.example/a/b]}\n")
    return path


@pytest.fixture
def given(dependencies, file):
    settings = dependencies.settings.model_copy(update={"sources": str(file)})
    return replace(dependencies, settings=settings)


async def test_a_sync_waits_until_the_workers_have_read_the_file(given, jobs, monkeypatch):
    module = import_module("gateway.service.sources")
    look = module._is_declared

    def read_after_the_first_look(path, connection):
        """The workers read the file when the connection has not been found once."""
        given.sources.declare([WORK])
        return look(path, connection)

    monkeypatch.setattr(module, "_is_declared", read_after_the_first_look)

    assert await service.sync_sources(given, ROOT, "work") == ("work",)
    assert jobs.sent == [("source", "work")]


async def test_a_file_that_no_worker_reads_is_told(given, monkeypatch):
    module = import_module("gateway.service.sources")
    monkeypatch.setattr(module, "READ_WITHIN_S", 0.0)
    with pytest.raises(Unavailable, match="have not read the sources file yet"):
        await service.sync_sources(given, ROOT)


async def test_what_the_file_does_not_declare_is_not_waited_for(given, file):
    with pytest.raises(NotFound, match="no connection has its repositories followed"):
        await service.sync_sources(given, ROOT, "other")
    file.write_text("connections:\n- {name: work}\n")
    with pytest.raises(InvalidSettings, match=":2: the connection lacks kind"):
        await service.sync_sources(given, ROOT)
