"""The audit log records who called what, with real calls, and never delays or fails them."""

from __future__ import annotations

import json
import os
import stat
from contextlib import asynccontextmanager, suppress
from dataclasses import replace

import pytest
import structlog
from grpc import aio

from codelode import api_keys
from codelode.access import EVERYTHING, Principal, Role
from codelode.errors import InvalidQuery, InvalidSettings, NotFound
from codelode.settings import Settings
from codelode.v1 import (
    access_pb2,
    access_pb2_grpc,
    graph_pb2,
    graph_pb2_grpc,
    index_pb2,
    index_pb2_grpc,
    search_pb2,
    search_pb2_grpc,
)
from gateway import service
from gateway.app import Gateway
from gateway.service import audit_log
from gateway.service.audit import (
    MAX_FIELD_CHARS,
    MAX_QUERY_CHARS,
    MAX_REPOSITORIES,
    CallFacts,
    begin,
    involve,
    note,
)
from gateway.service.audit_log import AuditLog, Call, RotatedFile, opened
from gateway.service.capabilities import CAPABILITIES
from gateway.service.requests import RegisterRequest
from tests.waiting import wait_until
from tests.worlds import World

RIGHT = (("authorization", "Bearer sesame"),)
ADMIN = Principal("token", Role.ADMIN, EVERYTHING)
ANN = Principal("user:ann", Role.READER, EVERYTHING)
CANARY = "quokkaBase"
SECRET = api_keys.text(*api_keys.generate())


def lines(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def call(function="search", *, error=None, principal=ANN, **facts):
    return Call(function, "10.0.0.1", "id", principal, CallFacts(**facts), error)


@asynccontextmanager
async def serving(tmp_path, **settings):
    """The stubs of a gateway over two repositories, and the file of its audit log."""
    file = tmp_path / "audit.jsonl"
    chosen = Settings(
        listen="127.0.0.1:0",
        data=tmp_path,
        local_paths=str(tmp_path),
        token="sesame",
        audit_log=str(file),
        **settings,
    )
    world = World(chosen)
    world.index("acme/app", {"src/a.py": f"class {CANARY}:\n    pass\n"})
    world.index("acme/lib", {"src/b.py": "def other():\n    pass\n"})
    log = opened(chosen)
    gateway = Gateway(replace(world.dependencies, settings=chosen, audit_log=log))
    await gateway.start()
    try:
        async with aio.insecure_channel(f"127.0.0.1:{gateway.port}") as channel:
            yield channel, file
    finally:
        await gateway.stop(grace_s=0)
        log.close()


async def asked(channel, metadata=RIGHT):
    """Make calls of every kind, one after the other; some of them fail."""
    searches = search_pb2_grpc.SearchServiceStub(channel)
    index = index_pb2_grpc.IndexServiceStub(channel)
    graph = graph_pb2_grpc.GraphServiceStub(channel)
    app, hidden = (search_pb2.Filters(repositories=[f"acme/{name}"]) for name in ("app", "nowhere"))
    about = graph_pb2.GetGraphRequest(subject="src/a.py", repository="acme/app")
    for method, request in (
        (searches.Search, search_pb2.SearchRequest(query=CANARY, filters=app)),
        (searches.Search, search_pb2.SearchRequest(query=CANARY, filters=hidden)),
        (searches.Explain, search_pb2.ExplainRequest(subject=CANARY)),
        (graph.GetGraph, about),
        (index.RemoveRepository, index_pb2.RemoveRepositoryRequest(name="acme/lib")),
        (index.GetStatus, index_pb2.GetStatusRequest()),
    ):
        with suppress(aio.AioRpcError):
            await method(request, metadata=metadata)


def told(record):
    return record["call"], record["repositories"], record["outcome"]


async def test_each_call_is_one_line_without_the_text_of_queries(tmp_path):
    async with serving(tmp_path) as (channel, file):
        await asked(channel)
        await asked(channel, metadata=())
    right, wrong = lines(file)[:6], lines(file)[6:]
    assert list(map(told, right)) == [
        ("search", ["acme/app"], "ok"),
        ("search", ["acme/nowhere"], "InvalidQuery"),
        ("explain", ["acme/app"], "ok"),
        ("graph", ["acme/app"], "ok"),
        ("remove", ["acme/lib"], "ok"),
        ("status", [], "ok"),
    ]
    assert {(one["principal"], one["role"], one["source"]) for one in right} == {
        ("token", "admin", "127.0.0.1")
    }
    assert {(one["principal"], one["outcome"]) for one in wrong} == {("", "Unauthenticated")}
    assert CANARY not in file.read_text()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


NOWHERE = "acme/nowhere"
FILTERED = search_pb2.Filters(repositories=[NOWHERE])
URL = "https://user:pass/word@host.example/acme/nowhere.git"


@pytest.mark.parametrize(
    ("stub", "method", "request_"),
    [
        (search_pb2_grpc.SearchServiceStub, name, request)
        for name, request in (
            ("Search", search_pb2.SearchRequest(query="x", filters=FILTERED)),
            ("Search", search_pb2.SearchRequest(query=f"x repo:{NOWHERE} -repo:acme/app")),
            (
                "Context",
                search_pb2.ContextRequest(
                    search=search_pb2.SearchRequest(query="x", filters=FILTERED)
                ),
            ),
            ("Similar", search_pb2.SimilarRequest(snippet="x", filters=FILTERED)),
            ("Similar", search_pb2.SimilarRequest(repository=NOWHERE, path="a.py", line=1)),
            ("Explain", search_pb2.ExplainRequest(subject="x", repository=NOWHERE)),
        )
    ]
    + [(graph_pb2_grpc.GraphServiceStub, "GetGraph", graph_pb2.GetGraphRequest(repository=NOWHERE))]
    + [
        (index_pb2_grpc.IndexServiceStub, name, request)
        for name, request in (
            ("StartRun", index_pb2.StartRunRequest(url="https://host/x/y", name=NOWHERE)),
            ("StartRun", index_pb2.StartRunRequest(url=URL)),
            ("SetDefaultRef", index_pb2.SetDefaultRefRequest(repository=NOWHERE, ref="main")),
            ("SetLabel", index_pb2.SetLabelRequest(repository=NOWHERE, label="public")),
            ("RemoveRepository", index_pb2.RemoveRepositoryRequest(name=NOWHERE)),
            ("ListFailures", index_pb2.ListFailuresRequest(repository=NOWHERE)),
            ("RetryFailures", index_pb2.RetryFailuresRequest(repository=NOWHERE)),
            ("EnrichRepository", index_pb2.EnrichRepositoryRequest(repository=NOWHERE)),
        )
    ]
    + [
        (
            access_pb2_grpc.AccessServiceStub,
            "CreateKey",
            access_pb2.CreateKeyRequest(name="ci", role="admin", repositories=[NOWHERE]),
        )
    ],
)
async def test_a_refused_call_is_recorded_with_what_the_caller_named(
    tmp_path, stub, method, request_
):
    async with serving(tmp_path) as (channel, file):
        keys = access_pb2_grpc.AccessServiceStub(channel)
        create = access_pb2.CreateKeyRequest(name="reader", role="reader")
        key = (await keys.CreateKey(create, metadata=RIGHT)).key
        with pytest.raises(aio.AioRpcError):
            await getattr(stub(channel), method)(
                request_, metadata=(("authorization", f"Bearer {key}"),)
            )
    record = lines(file)[-1]
    assert record["principal"] == "key:reader"
    assert record["repositories"] == [NOWHERE]
    assert record["outcome"] in ("Denied", "InvalidQuery", "NotFound")
    assert "word" not in file.read_text()


async def test_a_change_is_recorded_with_what_it_acted_on(tmp_path):
    async with serving(tmp_path) as (channel, file):
        keys = access_pb2_grpc.AccessServiceStub(channel)
        index = index_pb2_grpc.IndexServiceStub(channel)
        for method, request in (
            (keys.CreateKey, access_pb2.CreateKeyRequest(name="ci", role="indexer")),
            (keys.RevokeKey, access_pb2.RevokeKeyRequest(name="ci")),
            (keys.RevokeKey, access_pb2.RevokeKeyRequest(name="gone")),
            (index.SetLabel, index_pb2.SetLabelRequest(repository="acme/app", label="public")),
            (index.SetDefaultRef, index_pb2.SetDefaultRefRequest(repository="acme/app", ref="v1")),
        ):
            with suppress(aio.AioRpcError):
                await method(request, metadata=RIGHT)
    created, *others = [one["details"] for one in lines(file)]
    id, run = created.pop("key_id"), others[-1].pop("run", "")
    assert created == {"key": "ci", "key_role": "indexer"}
    assert others == [{"key": "ci"}, {"key": "gone"}, {"label": "public"}, {"ref": "v1"}]
    assert id
    assert run


LABELLED = {"url": URL, "name": "acme/new", "label": "public"}
RUN = {"label": "public", "ref": "v1"}


@pytest.mark.parametrize(
    ("stub", "method", "request_", "details"),
    [
        (index_pb2_grpc.IndexServiceStub, method, request, details)
        for method, request, details in (
            ("StartRun", index_pb2.StartRunRequest(**LABELLED, ref="v1"), RUN),
            ("StartRun", index_pb2.StartRunRequest(**LABELLED, ref="a..b"), RUN | {"ref": "a..b"}),
            ("StartRun", index_pb2.StartRunRequest(url=URL, label="secret"), {"label": "secret"}),
            ("SetLabel", index_pb2.SetLabelRequest(repository="acme/app"), {"label": "none"}),
            ("SyncSources", index_pb2.SyncSourcesRequest(), {}),
            ("SyncSources", index_pb2.SyncSourcesRequest(connection="a"), {"connection": "a"}),
        )
    ]
    + [
        (access_pb2_grpc.AccessServiceStub, "CreateKey", request, details)
        for request, details in (
            (
                access_pb2.CreateKeyRequest(name="evil", role="admin", expires_in_s=1e12),
                {"key": "evil", "key_role": "admin"},
            ),
            (
                access_pb2.CreateKeyRequest(name="evil", role="boss"),
                {"key": "evil", "key_role": "boss"},
            ),
            (access_pb2.CreateKeyRequest(name="x" * 500, role=""), {"key": "x" * 100}),
            (access_pb2.CreateKeyRequest(name=SECRET, role="reader"), {}),
        )
    ],
)
async def test_a_requested_change_is_recorded_even_if_it_is_refused(
    tmp_path, stub, method, request_, details
):
    async with serving(tmp_path) as (channel, file):
        with suppress(aio.AioRpcError):
            await getattr(stub(channel), method)(request_, metadata=RIGHT)
    found = lines(file)[-1].get("details", {})
    found.pop("run", None)
    assert found == details
    assert SECRET not in file.read_text()


async def test_the_label_of_a_refused_registration_is_recorded(dependencies):
    facts = begin()
    request = RegisterRequest(URL, "acme/new", label="secret")
    with pytest.raises(InvalidQuery):
        await service.register(dependencies, ADMIN, request)
    assert facts.details == {"label": "secret"}


async def test_queries_are_recorded_if_asked_for(tmp_path):
    async with serving(tmp_path, audit_queries=True) as (channel, file):
        await asked(channel)
    assert [one.get("query") for one in lines(file)[:3]] == [CANARY] * 3


async def test_without_reads_changes_and_refused_credentials_are_recorded(tmp_path):
    async with serving(tmp_path, audit_reads=False) as (channel, file):
        await asked(channel)
        await asked(channel, metadata=(("authorization", "Bearer wrong"),))
    first, *others = lines(file)
    assert told(first) == ("remove", ["acme/lib"], "ok")
    assert {one["outcome"] for one in others} == {"Unauthenticated"}
    assert len(others) == 6


def test_calls_that_only_admins_may_make_are_recorded_even_without_reads(tmp_path):
    log = AuditLog(RotatedFile(tmp_path / "log", 1_000_000, kept=1), reads=False, queries=False)
    for function in CAPABILITIES:
        log.record(call(function))
    log.close()
    recorded = {one["call"] for one in lines(tmp_path / "log")}
    assert {name for name, row in CAPABILITIES.items() if row.role is Role.ADMIN} <= recorded
    assert recorded.isdisjoint({"search", "status", "watch"})


def test_the_file_is_rotated_by_size_and_count(tmp_path):
    path = tmp_path / "audit.jsonl"
    file = RotatedFile(path, max_bytes=100, kept=2)
    for number in range(10):
        file.write(b"%d%s\n" % (number, b"x" * 40))
    found = [path.with_name(f"{path.name}{end}") for end in ("", ".1", ".2")]
    assert [[line[0] for line in one.read_text().splitlines()] for one in found] == [
        ["8", "9"],
        ["6", "7"],
        ["4", "5"],
    ]
    assert sorted(tmp_path.iterdir()) == sorted(found)
    assert {stat.S_IMODE(one.stat().st_mode) for one in found} == {0o600}


def test_an_existing_log_is_appended_to_and_made_private(tmp_path):
    path = tmp_path / "audit.jsonl"
    path.write_text("{}\n")
    path.chmod(0o644)
    file = RotatedFile(path, max_bytes=100, kept=1)
    file.write(b"[]\n")
    assert path.read_text() == "{}\n[]\n"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_line_that_a_killed_gateway_left_incomplete_spoils_no_other(tmp_path):
    path = tmp_path / "audit.jsonl"
    path.write_text('{}\n{"time": "20')
    file = RotatedFile(path, max_bytes=1_000, kept=1)
    file.write(b"[]\n")
    assert path.read_text() == '{}\n{"time": "20\n[]\n'


@pytest.mark.parametrize("place", ["missing/audit.jsonl", "."])
def test_a_file_that_cannot_be_written_prevents_the_start(tmp_path, place):
    with pytest.raises(InvalidSettings, match=r"CODELODE_AUDIT_LOG=.*cannot be written"):
        opened(Settings(audit_log=str(tmp_path / place)))


class FullDisk(RotatedFile):
    """A file on a disk that can be full, as /dev/full is."""

    def __init__(self, path):
        super().__init__(path, 1_000_000, 1)
        self.is_full = True

    def _opened(self):
        return FULL if self.is_full else super()._opened()


FULL = os.open("/dev/full", os.O_WRONLY) if os.path.exists("/dev/full") else -1


@pytest.mark.skipif(FULL < 0, reason="needs /dev/full")
def test_a_full_disk_is_reported_and_the_file_says_what_is_missing(tmp_path):
    path = tmp_path / "audit.jsonl"
    file = FullDisk(path)
    with structlog.testing.capture_logs() as logged:
        log = AuditLog(file, reads=True, queries=False)
        log.record(call())
        log.record(call())
        wait_until(lambda: log.lost == 2, "both records are lost")
        file.is_full = False
        log.record(call("remove"))
        log.close()
    gap, last = lines(path)
    assert gap["lost_records"] == 2
    assert last["call"] == "remove"
    assert [(one["event"], one["log_level"]) for one in logged] == [
        ("audit_log_failed", "error"),
        ("audit_log_recovered", "info"),
    ]


def test_records_that_wait_are_bounded(tmp_path, monkeypatch):
    monkeypatch.setattr(audit_log, "MAX_WAITING", 0)
    log = AuditLog(RotatedFile(tmp_path / "audit", 1_000, 1), reads=True, queries=False)
    log.record(call())
    assert log.lost == 1
    log.close()


def test_outcomes_have_the_names_of_errors(tmp_path):
    path = tmp_path / "audit"
    log = AuditLog(RotatedFile(path, 10_000, 1), reads=True, queries=False)
    for error in (None, NotFound("x"), ValueError("secret"), GeneratorExit()):
        log.record(call(error=error))
    log.close()
    assert [one["outcome"] for one in lines(path)] == ["ok", "NotFound", "defect", "cancelled"]
    assert "secret" not in path.read_text()


def test_a_record_holds_a_bounded_part_of_a_query():
    facts = begin()
    involve([], query="x" * 500_000)
    assert len(facts.query) == MAX_QUERY_CHARS


def test_a_field_of_the_log_line_is_bounded():
    structlog.contextvars.clear_contextvars()
    note(run="x" * 500_000)
    assert len(structlog.contextvars.get_contextvars()["run"]) == MAX_FIELD_CHARS


def test_a_record_names_a_bounded_number_of_repositories():
    facts = begin()
    involve(f"r{number}" * 1_000 for number in range(1_000))
    assert len(facts.repositories) == MAX_REPOSITORIES
    assert max(map(len, facts.repositories)) <= 200
