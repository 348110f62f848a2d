"""Runs and repositories over a real gRPC channel."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import git
import grpc
import pytest
from google.rpc import error_details_pb2
from grpc_status import rpc_status

from codelode.access import EVERYTHING
from codelode.ledger import FileManifest, WorkItem
from codelode.model import (
    BlobId,
    FilePatterns,
    FileRecord,
    FileState,
    HealthStatus,
    RefName,
    Repository,
    RepositoryName,
    Reprocess,
    RunState,
)
from codelode.settings import Settings
from codelode.v1 import index_pb2
from tests.waiting import until

URL = "https://host.example/acme/http"
NAME = RepositoryName("acme/http")
MAIN = RefName("main")


async def refusal(call):
    """Return the code, the message, and for an invalid argument the field."""
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await call
    status = rpc_status.from_call(caught.value)
    field = ""
    for detail in status.details:
        bad = error_details_pb2.BadRequest()
        detail.Unpack(bad)
        field = bad.field_violations[0].field
    return caught.value.code(), status.message, field


async def start(indexing, url=URL, **fields):
    return (await indexing.StartRun(index_pb2.StartRunRequest(url=url, **fields))).run


def pull(ledger, run, *paths, skipped=(), ref=MAIN):
    """Plan the files as the pull worker does, with all of them in flight."""
    items = tuple(WorkItem(path, BlobId("b" * 40)) for path in paths)
    ledger.plan(run.id, FileManifest("a" * 40, items, skipped), ref=ref, fingerprint="1")


def finish(ledger, run, path, state=FileState.INDEXED, reason=""):
    ledger.done(run.id, [FileRecord(path, BlobId("b" * 40), state, reason)])


async def test_a_started_run_is_registered_and_sent_once(indexing, ledger, jobs):
    run = await start(indexing)

    assert (run.repository, run.ref, run.state) == ("acme/http", "HEAD", "pulling")
    assert ledger.get(NAME) == Repository(NAME, URL)
    assert jobs.sent == [("pull", run.id)]


async def test_a_run_behind_another_is_queued_and_not_sent(indexing, jobs):
    first = await start(indexing)
    second = await start(indexing)
    third = await start(indexing)

    assert second.state == "queued"
    assert third.id == second.id
    assert jobs.sent == [("pull", first.id)]


async def test_a_given_name_and_ref_are_used_unchanged(indexing):
    run = await start(indexing, name="web", ref="v1.2")

    assert (run.repository, run.ref) == ("web", "v1.2")


async def test_a_local_repository_below_an_allowed_folder_is_taken(indexing, tmp_path):
    git.Repo.init(tmp_path / "work")

    run = await start(indexing, url=str(tmp_path / "work"))

    assert run.repository == "work"


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"url": ""}, "url"),
        ({"url": "ext::sh -c id"}, "url"),
        ({"url": "--upload-pack=id"}, "url"),
        ({"url": "/etc"}, "url"),
        ({"url": URL, "name": "../x"}, "name"),
        ({"url": URL, "ref": "--all"}, "ref"),
        ({"url": URL, "ref": "a..b"}, "ref"),
    ],
)
async def test_a_dangerous_address_is_refused_before_anything_is_stored(
    indexing, ledger, jobs, fields, field
):
    code, _, named = await refusal(indexing.StartRun(index_pb2.StartRunRequest(**fields)))

    assert (code, named) == (grpc.StatusCode.INVALID_ARGUMENT, field)
    assert ledger.repositories() == ()
    assert jobs.sent == []


async def test_a_name_that_is_taken_by_another_url_is_refused_with_the_remedy(indexing, ledger):
    await start(indexing)

    code, message, field = await refusal(
        indexing.StartRun(
            index_pb2.StartRunRequest(url="https://other.example/x/y", name="acme/http")
        )
    )

    assert (code, field) == (grpc.StatusCode.INVALID_ARGUMENT, "name")
    assert "pass another name" in message
    assert ledger.get(NAME).url == URL


async def test_registering_again_keeps_the_default_ref_that_was_found(indexing, ledger):
    ledger.register(Repository(NAME, URL, MAIN))

    await start(indexing)

    assert ledger.get(NAME).default_ref == "main"


async def test_a_new_default_ref_is_indexed_by_a_separate_run(indexing, ledger, jobs):
    ledger.register(Repository(NAME, URL, MAIN))
    asked = index_pb2.SetDefaultRefRequest(repository=NAME, ref="dev")

    run = (await indexing.SetDefaultRef(asked)).run

    assert (run.repository, run.ref, run.state) == ("acme/http", "dev", "pulling")
    assert ledger.run(run.id).reprocess == (Reprocess.DEFAULT,)
    assert jobs.sent == [("pull", run.id)]


@pytest.mark.parametrize(
    ("ref", "is_told"), [("nope", True), ("dev", False), ("main", False), ("HEAD", False)]
)
async def test_a_default_ref_that_is_not_indexed_yet_is_reported(indexing, ledger, ref, is_told):
    ledger.register(Repository(NAME, URL, MAIN))
    for indexed in (MAIN, RefName("dev")):
        run = ledger.create(NAME, indexed)
        ledger.plan(run.id, FileManifest("1" * 40, ()), ref=indexed, fingerprint="")

    asked = index_pb2.SetDefaultRefRequest(repository=NAME, ref=ref)
    notices = list((await indexing.SetDefaultRef(asked)).run.notices)

    told = (
        "'nope' is not indexed; if the source has no such branch, tag, or commit, this run fails "
        "and the default ref stays 'main': see `codelode status`"
    )
    assert notices == ([told] if is_told else [])


@pytest.mark.parametrize(
    ("name", "ref", "expected"),
    [("acme/htp", "dev", grpc.StatusCode.NOT_FOUND), (NAME, "", "ref"), (NAME, "a b", "ref")],
)
async def test_an_unknown_repository_or_an_empty_ref_is_refused_as_default_ref(
    indexing, ledger, jobs, name, ref, expected
):
    ledger.register(Repository(NAME, URL, MAIN))

    asked = index_pb2.SetDefaultRefRequest(repository=name, ref=ref)
    code, _, field = await refusal(indexing.SetDefaultRef(asked))

    assert expected in (code, field)
    assert jobs.sent == []


def some(*patterns):
    return index_pb2.Patterns(patterns=patterns)


async def test_patterns_are_kept_until_others_are_given_and_shown(indexing, ledger):
    await start(indexing, include=some("src/", "*.md"), exclude=some("gen/", "!gen/api/"))
    await start(indexing)
    assert ledger.get(NAME).patterns == FilePatterns(("src/", "*.md"), ("gen/", "!gen/api/"))

    await start(indexing, include=some())
    assert ledger.get(NAME).patterns == FilePatterns((), ("gen/", "!gen/api/"))

    response = await indexing.ListRepositories(index_pb2.ListRepositoriesRequest())
    (shown,) = response.repositories
    assert (list(shown.include), list(shown.exclude)) == ([], ["gen/", "!gen/api/"])


@pytest.mark.parametrize(
    ("pattern", "remedy"),
    [
        ("", "to clear them"),
        ("  ", "to clear them"),
        ("a\nb", "each pattern by itself"),
        ("a\0b", "each pattern by itself"),
        ("a\u202eb", "each pattern by itself"),
        ("a" * 501, "'**'"),
        ("# a comment", r"'\#'"),
        ("src[", r"'\['"),
        ("./src", "relative to the repository's root"),
        ("../src", "relative to the repository's root"),
        ("a//b", "relative to the repository's root"),
        ("/", "relative to the repository's root"),
    ],
)
@pytest.mark.parametrize("field", ["include", "exclude"])
async def test_a_pattern_that_means_nothing_is_refused_with_the_remedy(
    indexing, ledger, jobs, field, pattern, remedy
):
    request = index_pb2.StartRunRequest(url=URL, **{field: some("fine/", pattern)})

    code, message, named = await refusal(indexing.StartRun(request))

    assert (code, named) == (grpc.StatusCode.INVALID_ARGUMENT, field)
    assert remedy in message
    assert len(message) < 400
    assert ledger.repositories() == ()
    assert jobs.sent == []


async def test_too_many_patterns_are_refused_and_as_many_as_allowed_taken(indexing, ledger):
    await start(indexing, exclude=some(*(f"{n}/" + "x" * 490 for n in range(100))))
    assert len(ledger.get(NAME).patterns.exclude) == 100

    request = index_pb2.StartRunRequest(url=URL, exclude=some(*map(str, range(101))))
    code, message, field = await refusal(indexing.StartRun(request))

    assert (code, field) == (grpc.StatusCode.INVALID_ARGUMENT, "exclude")
    assert "101 patterns, at most 100" in message


async def test_a_negated_include_pattern_is_refused_with_the_remedy(indexing):
    request = index_pb2.StartRunRequest(url=URL, include=some("!gen/"))

    _, message, field = await refusal(indexing.StartRun(request))

    assert field == "include"
    assert "exclude it" in message


async def test_a_run_that_cannot_be_sent_ends_as_failed(indexing, ledger, jobs):
    jobs.is_away = True

    code, _, _ = await refusal(indexing.StartRun(index_pb2.StartRunRequest(url=URL)))

    assert code is grpc.StatusCode.UNAVAILABLE
    assert ledger.recent(EVERYTHING)[0].state is RunState.FAILED


async def test_watching_shows_each_state_until_the_run_is_over(indexing, ledger):
    run = await start(indexing)
    watch = indexing.WatchRun(index_pb2.WatchRunRequest(run_id=run.id))

    assert (await watch.read()).run.state == "pulling"
    pull(ledger, run, "a.py", "b.py")
    assert (await watch.read()).run.total == 2
    finish(ledger, run, "a.py")
    assert (await watch.read()).run.done == 1
    finish(ledger, run, "b.py", FileState.FAILED, "too odd")
    last = (await watch.read()).run
    assert (last.state, last.done, last.failed) == ("complete", 1, 1)
    assert await watch.read() is grpc.aio.EOF  # type: ignore[attr-defined]


async def test_a_watch_of_a_superseded_run_continues_with_the_newer_one(indexing, ledger):
    ledger._supersede_s = 0.0
    run = await start(indexing)
    ledger.claim(run.id, worker="puller")
    pull(ledger, run, "a.py")
    watch = indexing.WatchRun(index_pb2.WatchRunRequest(run_id=run.id))
    assert (await watch.read()).run.state == "indexing"
    newer = await start(indexing)
    await until(ledger.supersede, "the newer run to begin")

    following = (await watch.read()).run
    assert (following.id, following.state) == (newer.id, "pulling")
    pull(ledger, newer, "a.py")
    assert (await watch.read()).run.state == "indexing"
    finish(ledger, newer, "a.py")
    assert (await watch.read()).run.state == "complete"


async def test_watching_a_run_that_is_over_sends_it_once(indexing, ledger):
    run = await start(indexing)
    pull(ledger, run)

    watch = indexing.WatchRun(index_pb2.WatchRunRequest(run_id=run.id))

    assert [response.run.state async for response in watch] == ["complete"]


async def test_watching_ends_with_its_caller(indexing, ledger):
    run = await start(indexing)
    watch = indexing.WatchRun(index_pb2.WatchRunRequest(run_id=run.id))
    await watch.read()

    watch.cancel()

    assert await watch.code() is grpc.StatusCode.CANCELLED
    await asyncio.to_thread(_wait_until_nobody_looks, ledger)


def _wait_until_nobody_looks(ledger):
    """Return when the ledger was not read for five polling intervals; hangs while it is read."""
    while ledger.looked.acquire(timeout=1.0):
        pass


async def test_a_watch_ends_with_a_hint_when_the_gateway_stops(indexing, gateway):
    run = await start(indexing)
    watch = indexing.WatchRun(index_pb2.WatchRunRequest(run_id=run.id))
    await watch.read()
    asking = asyncio.create_task(refusal(watch.read()))

    await gateway.stop()

    code, message, _ = await asking
    assert code is grpc.StatusCode.UNAVAILABLE
    assert "watch the run again" in message


@pytest.mark.parametrize("method", ["WatchRun", "CancelRun"])
async def test_an_unknown_run_is_not_found(indexing, method):
    request = getattr(index_pb2, f"{method}Request")(run_id="nope")
    call = getattr(indexing, method)(request)

    code, message, _ = await refusal(call.read() if method == "WatchRun" else call)

    assert code is grpc.StatusCode.NOT_FOUND
    assert "'nope'" in message


async def test_a_cancelled_run_makes_way_for_the_next(indexing, jobs):
    first = await start(indexing)
    second = await start(indexing, ref="v2")

    response = await indexing.CancelRun(index_pb2.CancelRunRequest(run_id=first.id))

    assert response.run.state == "cancelled"
    assert [sent[1] for sent in jobs.sent] == [first.id, second.id]


async def test_cancelling_a_run_that_is_over_changes_nothing(indexing, ledger):
    run = await start(indexing)
    pull(ledger, run)

    response = await indexing.CancelRun(index_pb2.CancelRunRequest(run_id=run.id))

    assert response.run.state == "complete"


async def test_the_status_shows_repositories_runs_chunks_and_queues(
    indexing, ledger, index, make_chunk
):
    run = await start(indexing)
    pull(ledger, run, "a.py", skipped=(FileRecord("b.bin", BlobId("c"), FileState.SKIPPED, "no"),))
    finish(ledger, run, "a.py")
    index(make_chunk("a.py", "a"), make_chunk("b.py", "b"))

    status = await indexing.GetStatus(index_pb2.GetStatusRequest())

    [repository] = status.repositories
    [ref] = repository.refs
    assert (repository.name, repository.url) == ("acme/http", URL)
    assert (ref.ref, ref.revision, ref.files, ref.skipped) == ("main", "a" * 40, 1, 1)
    assert [found.id for found in status.runs] == [run.id]
    assert status.chunks == 2
    assert [(queue.name, queue.messages, queue.workers) for queue in status.queues] == [
        ("pull", 1, 1)
    ]
    assert (status.embedder, status.store) == ("hash-64", "local")
    assert status.version


async def test_repositories_are_listed_by_name(indexing):
    for name in ("b", "a"):
        await start(indexing, name=name)

    response = await indexing.ListRepositories(index_pb2.ListRepositoriesRequest())

    assert [repository.name for repository in response.repositories] == ["a", "b"]


async def test_a_removed_repository_is_forgotten_and_cleared_up(indexing, ledger, jobs):
    await start(indexing)

    await indexing.RemoveRepository(index_pb2.RemoveRepositoryRequest(name="acme/http"))

    assert ledger.get(NAME) is None
    assert jobs.sent[-1] == ("remove", "acme/http")


async def with_refs(indexing, ledger, *refs):
    """Index a file at each ref; the first is the default."""
    ledger.register(Repository(NAME, URL, RefName(refs[0])))
    for ref in refs:
        run = await start(indexing, ref=ref)
        pull(ledger, run, "a.py", ref=RefName(ref))
        finish(ledger, run, "a.py")


def removal(ref, name="acme/http"):
    return index_pb2.RemoveRepositoryRequest(name=name, ref=ref)


async def test_one_ref_is_removed_and_its_runs_end(indexing, ledger, jobs):
    commit = "c0ffee" + "0" * 34
    await with_refs(indexing, ledger, "main", "dev", commit)
    active = await start(indexing, ref="dev")
    waiting = await start(indexing)

    await indexing.RemoveRepository(removal("dev"))

    assert [one.ref for one in ledger.refs(NAME)] == ["main", commit]
    assert ledger.refs_being_removed() == {(NAME, "dev")}
    assert ledger.run(active.id).state is RunState.CANCELLED
    assert jobs.sent[-2:] == [("pull", waiting.id), ("remove", NAME, "dev")]
    await indexing.RemoveRepository(removal("c0ffee"))
    assert [one.ref for one in ledger.refs(NAME)] == ["main"]


@pytest.mark.parametrize("ref", ["main", "HEAD"])
async def test_the_default_ref_is_removed_only_as_the_last(indexing, ledger, jobs, ref):
    await with_refs(indexing, ledger, "main", "dev")

    code, message, field = await refusal(indexing.RemoveRepository(removal(ref)))

    assert (code, field) == (grpc.StatusCode.INVALID_ARGUMENT, "ref")
    assert "codelode default acme/http REF" in message
    assert len(ledger.refs(NAME)) == 2
    await indexing.RemoveRepository(removal("dev"))
    await indexing.RemoveRepository(removal(ref))
    assert ledger.get(NAME) is None
    assert jobs.sent[-1] == ("remove", NAME)


async def test_an_unknown_ref_is_not_removed(indexing, ledger):
    await with_refs(indexing, ledger, "main", "dev")

    code, message, field = await refusal(indexing.RemoveRepository(removal("deb")))

    assert (code, field) == (grpc.StatusCode.INVALID_ARGUMENT, "ref")
    assert "did you mean 'dev'" in message


async def test_a_repository_is_removed_while_the_broker_is_away(indexing, ledger, jobs):
    await start(indexing)
    jobs.is_away = True

    await indexing.RemoveRepository(index_pb2.RemoveRepositoryRequest(name="acme/http"))

    assert ledger.get(NAME) is None
    assert ledger.being_removed() == {NAME}


@pytest.mark.parametrize(
    ("method", "request_"),
    [
        ("RemoveRepository", index_pb2.RemoveRepositoryRequest(name="acme/htp")),
        ("ListFailures", index_pb2.ListFailuresRequest(repository="acme/htp")),
        ("RetryFailures", index_pb2.RetryFailuresRequest(repository="acme/htp")),
    ],
)
async def test_an_unknown_repository_is_not_found_and_the_close_one_named(
    indexing, method, request_
):
    await start(indexing)

    code, message, _ = await refusal(getattr(indexing, method)(request_))

    assert code is grpc.StatusCode.NOT_FOUND
    assert "did you mean 'acme/http'?" in message


async def test_a_repository_that_is_removed_with_its_failed_first_run_is_reported_with_the_reason(
    indexing, ledger
):
    run = await start(indexing)
    ledger.end(run.id, RunState.FAILED, "the repository is empty", withdraws=True)

    code, message, _ = await refusal(
        indexing.ListFailures(index_pb2.ListFailuresRequest(repository="acme/http"))
    )
    assert code is grpc.StatusCode.NOT_FOUND
    assert message == (
        "there is no repository 'acme/http': it is not kept, because its run failed: "
        "the repository is empty"
    )


@pytest.fixture
async def with_failures(indexing, ledger):
    """Two repositories; the first with three failed files and one skipped, the second with one."""
    first = await start(indexing)
    skipped = (FileRecord("d.bin", BlobId("c"), FileState.SKIPPED, "binary"),)
    pull(ledger, first, "a.py", "b.py", "c.py", skipped=skipped)
    for path in ("c.py", "a.py", "b.py"):
        finish(ledger, first, path, FileState.FAILED, f"no grammar reads {path}")
    second = await start(indexing, name="zoo")
    pull(ledger, second, "z.py", "y.py")
    finish(ledger, second, "z.py", FileState.FAILED, "odd")
    finish(ledger, second, "y.py")


async def test_files_that_were_read_in_part_are_listed_when_asked_for(indexing, ledger):
    run = await start(indexing)
    pull(ledger, run, "a.py", "b.py", "c.py")
    for path, reason in (("a.py", "2 syntax errors"), ("b.py", "")):
        record = FileRecord(path, BlobId("b"), FileState.INDEXED, reason, "python")
        ledger.done(run.id, [replace(record, health=HealthStatus.PARTIAL)])
    finish(ledger, run, "c.py", FileState.FAILED, "odd")

    asked = index_pb2.ListFailuresRequest(include_partial=True)
    found = (await indexing.ListFailures(asked)).failures
    assert [(one.path, one.state, one.reason) for one in found] == [
        ("a.py", "partial", "2 syntax errors"),
        ("c.py", "failed", "odd"),
    ]
    found = (await indexing.ListFailures(index_pb2.ListFailuresRequest())).failures
    assert [one.path for one in found] == ["c.py"]


@pytest.mark.usefixtures("with_failures")
async def test_failures_are_paged_in_order_each_once(indexing):
    request = index_pb2.ListFailuresRequest(page_size=2, include_skipped=True)
    pages = []
    while not pages or request.page_token:
        response = await indexing.ListFailures(request)
        pages.append([(found.repository, found.path) for found in response.failures])
        request.page_token = response.next_page_token

    assert pages == [
        [("acme/http", "a.py"), ("acme/http", "b.py")],
        [("acme/http", "c.py"), ("acme/http", "d.bin")],
        [("zoo", "z.py")],
    ]


@pytest.mark.usefixtures("with_failures")
async def test_failures_say_where_and_why_and_leave_skipped_files_out(indexing):
    response = await indexing.ListFailures(index_pb2.ListFailuresRequest(repository="acme/http"))

    assert len(response.failures) == 3
    first = response.failures[0]
    assert (first.ref, first.state, first.reason) == ("main", "failed", "no grammar reads a.py")


@pytest.mark.parametrize(
    ("request_", "field"),
    [
        (index_pb2.ListFailuresRequest(page_token="?"), "page_token"),
        (index_pb2.ListFailuresRequest(page_token="WzFd"), "page_token"),
        (index_pb2.ListFailuresRequest(page_token="é"), "page_token"),
        (index_pb2.ListFailuresRequest(page_size=1_001), "page_size"),
    ],
)
async def test_a_bad_page_is_refused(indexing, request_, field):
    code, _, named = await refusal(indexing.ListFailures(request_))

    assert (code, named) == (grpc.StatusCode.INVALID_ARGUMENT, field)


@pytest.mark.usefixtures("with_failures")
async def test_failed_files_are_tried_again_in_one_run_per_ref(indexing, jobs, ledger):
    jobs.sent.clear()

    response = await indexing.RetryFailures(index_pb2.RetryFailuresRequest())

    assert [(run.repository, run.ref) for run in response.runs] == [
        ("acme/http", "main"),
        ("zoo", "main"),
    ]
    assert jobs.sent == [("pull", run.id) for run in response.runs]
    assert all(ledger.run(run.id).reprocess == (Reprocess.FAILED,) for run in response.runs)


async def test_without_a_language_model_enriching_is_refused_with_the_remedy(indexing):
    with pytest.raises(grpc.aio.AioRpcError, match="CODELODE_LANGUAGE_MODEL") as caught:
        await indexing.EnrichRepository(index_pb2.EnrichRepositoryRequest())
    assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT


class TestWithALanguageModel:
    """Tests with a language model."""

    @pytest.fixture
    def settings(self, tmp_path):
        return Settings(
            listen="127.0.0.1:0",
            data=tmp_path,
            local_paths=str(tmp_path),
            language_model="ollama",
        )

    async def test_every_indexed_ref_is_enriched_in_a_run_of_its_own(self, indexing, ledger, jobs):
        first = await start(indexing)
        pull(ledger, first, "a.py")
        finish(ledger, first, "a.py")
        await start(indexing, name="fresh")  # nothing of it is indexed yet
        jobs.sent.clear()

        response = await indexing.EnrichRepository(index_pb2.EnrichRepositoryRequest())

        assert [(run.repository, run.ref) for run in response.runs] == [("acme/http", "main")]
        assert jobs.sent == [("pull", run.id) for run in response.runs]
        assert ledger.run(response.runs[0].id).reprocess == (Reprocess.SUMMARIES,)
