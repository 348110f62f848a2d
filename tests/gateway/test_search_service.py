"""Search over a real gRPC channel."""

from __future__ import annotations

import asyncio
import gc
import threading
from dataclasses import replace

import grpc
import pytest
import structlog
from google.rpc import error_details_pb2
from grpc_status import rpc_status

from codelode.access import EVERYTHING, Principal, Role
from codelode.errors import Corrupt, Unavailable
from codelode.ledger import FileManifest
from codelode.model import Repository, RepositoryName
from codelode.v1 import graph_pb2, graph_pb2_grpc, search_pb2, search_pb2_grpc
from gateway import service
from gateway.retrieve.occurrence import NO_WORD
from gateway.service.catalog import unknown
from gateway.service.coverage import FRESH_S, CoverageReader
from gateway.service.dependencies import start_in_thread
from gateway.service.requests import SearchRequest

Request, Filters = search_pb2.SearchRequest, search_pb2.Filters


@pytest.fixture
def indexed(ledger, index, make_chunk):
    """A completely indexed repository with three chunks."""
    ledger.register(Repository(RepositoryName("acme/http"), "https://host/acme/http"))
    run = ledger.create(RepositoryName("acme/http"), "HEAD")
    ledger.plan(run.id, FileManifest("a" * 40, ()), ref="main", fingerprint="1")
    index(
        make_chunk("src/retry.py", "def retry(call):\n    ...", symbol="retry", symbols=("retry",)),
        make_chunk("src/client.py", "class Client:\n    def get(self): ..."),
        make_chunk("docs/retry.md", "How to retry a call", category="docs", language="markdown"),
    )


async def refused(call):
    """Return the code, the message, and the field violations of a refused call."""
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await call
    status = rpc_status.from_call(caught.value)
    violations = []
    for detail in status.details:
        bad = error_details_pb2.BadRequest()
        detail.Unpack(bad)
        violations += [(found.field, found.description) for found in bad.field_violations]
    return caught.value.code(), status.message, violations


@pytest.mark.usefixtures("indexed")
async def test_a_hit_has_its_place_its_content_and_its_match(search):
    response = await search(Request(query="retry"))

    hit = response.hits[0]
    assert (hit.repository, hit.path, hit.start_line, hit.end_line) == (
        "acme/http",
        "src/retry.py",
        1,
        2,
    )
    assert hit.content == "def retry(call):\n    ..."
    assert (hit.language, hit.symbol, hit.kind, hit.category) == (
        "python",
        "retry",
        "function",
        "source",
    )
    assert hit.match in ("both", "keyword", "semantic")
    assert response.query_kind == "identifier"
    assert response.took_ms > 0
    assert not hit.explain
    assert not response.stages


@pytest.mark.usefixtures("indexed")
async def test_scores_fall_along_the_hits_and_top_k_cuts_them(search):
    everything = await search(Request(query="retry client", top_k=10))
    two = await search(Request(query="retry client", top_k=2))

    scores = [hit.score for hit in everything.hits]
    assert scores == sorted(scores, reverse=True)
    assert [hit.path for hit in two.hits] == [hit.path for hit in everything.hits][:2]


@pytest.mark.usefixtures("indexed")
async def test_explain_names_what_made_the_score(search):
    response = await search(Request(query="retry", explain=True))

    assert [stage.stage for stage in response.stages] == [
        "analyze",
        "retrieve",
        "rank",
        "expand",
        "assemble",
    ]
    traces = {trace.name: trace.value for trace in response.hits[0].explain}
    assert "rank.definition" in traces
    assert sum(traces.values()) == pytest.approx(response.hits[0].score)


@pytest.mark.usefixtures("indexed")
@pytest.mark.parametrize(
    ("filters", "paths"),
    [
        ({"languages": ["PY"]}, {"src/retry.py", "src/client.py"}),
        ({"categories": ["docs"]}, {"docs/retry.md"}),
        ({"paths": ["src/**"]}, {"src/retry.py", "src/client.py"}),
        ({"symbols": ["retr*"]}, {"src/retry.py"}),
        ({"repositories": ["acme/http"], "kinds": ["FUNCTION"]}, None),
        ({"ref": "main"}, None),
        ({"not_paths": ["docs/**"]}, {"src/retry.py", "src/client.py"}),
        ({"paths": ["!docs/**"]}, {"src/retry.py", "src/client.py"}),
        ({"paths": ["src/*", "!**/retry.*"]}, {"src/client.py"}),
        ({"languages": ["!PY"]}, {"docs/retry.md"}),
        ({"not_languages": [".py"], "categories": ["docs"]}, {"docs/retry.md"}),
    ],
    ids=[
        *("language alias", "category", "path", "symbol", "repository and kind", "ref"),
        *("not a path", "! path", "path and ! path", "! language", "not a language"),
    ],
)
async def test_filters_limit_the_hits(search, filters, paths):
    response = await search(Request(query="retry client call", filters=Filters(**filters)))

    found = {hit.path for hit in response.hits}
    assert found == (paths or {"src/retry.py", "src/client.py", "docs/retry.md"})


@pytest.mark.usefixtures("indexed")
@pytest.mark.parametrize(
    ("request_", "field", "says"),
    [
        (Request(), "query", "empty"),
        (Request(query=" \n\t "), "query", "empty"),
        (Request(query="x" * 8_193), "query", "8,192"),
        (Request(query="x", top_k=-1), "top_k", "1 to 200"),
        (Request(query="x", top_k=1_000_000), "top_k", "1 to 200"),
        (
            Request(query="x", filters=Filters(repositories=["acme/htp"])),
            "filters.repositories",
            "did you mean 'acme/http'? (`codelode status` lists all)",
        ),
        (Request(query="x", filters=Filters(languages=["pythn"])), "filters.languages", "'python'"),
        (Request(query="x", top_k=0), "top_k", "is 0; it must be 1 to 200"),
        (Request(query="x", filters=Filters(kinds=["klass"])), "filters.kinds", "class"),
        (Request(query="x", filters=Filters(languages=["!pythn"])), "filters.not_languages", "py"),
        (
            Request(query="x", filters=Filters(repositories=["!acme/htp"])),
            "filters.not_repositories",
            "did you mean 'acme/http'",
        ),
        (Request(query="x", filters=Filters(paths=["!"])), "filters.paths", "leaves out nothing"),
        (Request(query="x", filters=Filters(repositories=["!"])), "filters.repositories", "'!'"),
        (Request(query="x", filters=Filters(not_paths=["src/"])), "filters.not_paths", "'src/**'"),
        (Request(query="x", filters=Filters(categories=["src"])), "filters.categories", "source"),
        (Request(query="x", filters=Filters(ref="mian")), "filters.ref", "did you mean 'main'"),
        (Request(query="x", filters=Filters(paths=[""])), "filters.paths", "empty"),
        (Request(query="x", filters=Filters(paths=["/src/**"])), "filters.paths", "relative"),
        (Request(query="x", filters=Filters(paths=["a\0b"])), "filters.paths", "control"),
        (Request(query="x", filters=Filters(paths=["src/"])), "filters.paths", "'src/**'"),
        (Request(query="x", filters=Filters(paths=["./src/*"])), "filters.paths", "'src/**/*.py'"),
        (Request(query="x", filters=Filters(paths=["src//a"])), "filters.paths", "no path"),
        (Request(query="x", filters=Filters(paths=["a/../*"])), "filters.paths", "no path"),
        (Request(query="x", filters=Filters(paths=["["])), "filters.paths", "an unclosed '['"),
        (Request(query="x", filters=Filters(paths=["a/[b"])), "filters.paths", "pages/[id].tsx"),
        (Request(query="x", filters=Filters(symbols=["x" * 1_025])), "filters.symbols", "1,024"),
        (
            Request(query="x", filters=Filters(paths=["a"] * 1_001)),
            "filters.paths",
            "1,000",
        ),
        (
            Request(query="x", filters=Filters(paths=[f"**/a{n}*" for n in range(101)])),
            "filters.paths",
            "at most 100 of 16,384 together are allowed: use wildcards",
        ),
        (
            Request(query="x", filters=Filters(symbols=[f"{n}{'*a' * 400}" for n in range(21)])),
            "filters.symbols",
            "use wildcards, or several searches",
        ),
        (
            Request(query="x", filters=Filters(repositories=["ab" * 100_000])),
            "filters.repositories",
            "200,000 characters; at most 1,024 are allowed",
        ),
    ],
)
async def test_bad_input_names_the_field_and_the_remedy(search, request_, field, says):
    code, message, [(named, description)] = await refused(search(request_))

    assert code is grpc.StatusCode.INVALID_ARGUMENT
    assert named == field
    assert says in description
    assert message == f"{field}: {description}"


@pytest.mark.usefixtures("indexed")
async def test_every_method_refuses_zero_and_uses_the_default_for_an_absent_number(
    channel, index, make_chunk
):
    index(*(make_chunk(f"{n}.py", f"def retry{n}(): retry()") for n in range(25)))
    searches = search_pb2_grpc.SearchServiceStub(channel)
    graphs = graph_pb2_grpc.GraphServiceStub(channel)
    similar, graph = search_pb2.SimilarRequest, graph_pb2.GetGraphRequest

    assert len((await searches.Search(Request(query="retry"))).hits) == 10
    assert len((await searches.Similar(similar(snippet="retry()"))).hits) == 10
    context = await searches.Context(search_pb2.ContextRequest(search=Request(query="retry")))
    assert len(context.search.hits) == 20
    for call, field in (
        (searches.Similar(similar(snippet="retry()", top_k=0)), "top_k"),
        (searches.Context(search_pb2.ContextRequest(search=Request(query="x", top_k=0))), "top_k"),
        (graphs.GetGraph(graph(subject="src/retry.py", depth=0)), "depth"),
        (graphs.GetGraph(graph(subject="src/retry.py", limit=0)), "limit"),
    ):
        code, _, [(named, description)] = await refused(call)
        assert (code, named) == (grpc.StatusCode.INVALID_ARGUMENT, field)
        assert description.startswith("is 0; it must be 1 to ")


@pytest.mark.parametrize(
    ("known", "says"),
    [
        ([], "there is no repository 'x'; none is indexed yet: run `codelode index URL_OR_PATH`"),
        (["acme/http", "web"], "there is no repository 'x'; there are: acme/http, web"),
        ([f"acme/{n}" for n in range(11)], "acme/9, … (`codelode status` lists all)"),
    ],
    ids=["none", "few", "many"],
)
def test_the_error_for_an_unknown_repository_lists_known_ones_or_how_to_list_them(known, says):
    assert says in unknown("repository", "x", known)


@pytest.mark.parametrize("glob", ["pages/[id].tsx", "pages/[*", "**/[[]...slug]]/*", "a]", ".x/*"])
async def test_a_bracket_in_a_path_is_an_ordinary_character(search, index, make_chunk, glob):
    for path in ("pages/[id].tsx", "a]", ".x/y"):
        index(make_chunk(path, "def retry(call): pass"))

    response = await search(Request(query="retry", filters=Filters(paths=[glob])))

    assert bool(response.hits) == ("slug" not in glob)


@pytest.mark.usefixtures("indexed")
@pytest.mark.parametrize(
    ("filters", "said"),
    [
        (
            {"block_types": ["resorce"]},
            "block_types: 'resorce' matches no indexed code; did you mean 'resource'",
        ),
        ({"block_types": ["deployment"]}, "did you mean 'Deployment'"),
        ({"block_types": ["qqq"]}, "write it as in the file: resource, Deployment"),
        ({"block_types": ["resource"]}, "block_types: 'resource' matches no indexed code"),
        ({"paths": ["src/[ab].py"]}, "brackets match themselves, as in pages/[id].tsx"),
        ({"paths": ["nowhere/**"]}, "filters.paths: 'nowhere/**' matches no indexed code"),
        ({"paths": ["src"]}, "everything in a folder is 'src/**'"),
        ({"languages": ["go"]}, "filters.languages: 'go' matches no indexed code"),
        ({"kinds": ["trait"], "paths": ["src/*"]}, "kinds: 'trait' matches no indexed code"),
        ({"symbols": ["!retry"]}, "only repositories, languages, and paths can be excluded"),
        ({"languages": ["py"], "paths": ["docs/**"]}, "matches all of these filters together"),
        ({"languages": ["py"], "not_paths": ["src/**"]}, "matches all of these filters together"),
        ({"repositories": ["acme/http", "!acme/http"]}, "each repository to search is also left"),
        ({"repositories": ["!acme/http"]}, "no code is indexed in the searched repositories"),
    ],
)
async def test_a_filter_that_matches_nothing_is_named_where_nothing_is_found(search, filters, said):
    request = Request(query="retry", filters=Filters(**filters))

    for response in (await search(request), await search(request)):  # the second from the cache
        assert not response.hits
        assert [said in notice for notice in response.notices] == [True]


ABSENT = "no definition is named {}, and the name occurs nowhere there: the hits are only similar"


@pytest.mark.usefixtures("indexed")
@pytest.mark.parametrize(
    ("query", "said", "is_unmatched"),
    [
        ("retry", [], False),
        ("Pool.retry", [], False),
        ("RE_TRY", [], False),
        ("call", [], False),
        ("src/retry.py", [], False),
        ("how to retry", [], False),
        ("clientRetry", [ABSENT.format("'clientRetry'")], True),
        ("retyr", [ABSENT.format("'retyr'") + "; did you mean 'retry'?"], True),
        ("http::retri()", [ABSENT.format("'retri'") + "; did you mean 'retry'?"], True),
        ("SesionPool", [ABSENT.format("'SesionPool'") + "; did you mean 'SessionPool'?"], True),
        ("frobnicate_all", [ABSENT.format("'frobnicate_all'")], True),
        ("frobnicate the quuxes", [NO_WORD], True),
        ("how to frobnicate a quux", [NO_WORD], True),
        ("frobnicate the client", [], False),
        ("wo wird das gespeichert", [NO_WORD], True),
        ("wo wird der client gespeichert", [], False),
    ],
)
async def test_names_and_words_that_exist_nowhere_are_reported(
    search, index, make_chunk, query, said, is_unmatched
):
    index(make_chunk("src/pool.py", "class SessionPool: ...", symbol="SessionPool"))
    index(make_chunk("src/der.py", "das = wird(der)", symbol="der"))
    for response in (await search(Request(query=query)), await search(Request(query=query))):
        assert response.hits
        assert (list(response.notices), response.unmatched) == (said, is_unmatched)


async def test_the_neighbour_of_a_misspelt_name_comes_first(search, index, make_chunk):
    index(
        *(make_chunk(f"src/pools/p{n}.py", f"class Sesion{n}: pool", symbol="P") for n in range(9)),
        make_chunk("src/a.py", "class SessionPool: ...", symbol="SessionPool"),
    )

    response = await search(Request(query="SesionPool"))

    assert (response.hits[0].path, response.unmatched) == ("src/a.py", True)


async def test_a_name_that_is_only_used_does_not_match_as_a_definition(search, index, make_chunk):
    index(make_chunk("a.js", "useEffect(run)"), make_chunk("b.js", "def use_effects(): 1"))

    response = await search(Request(query="useEffect"))

    assert not response.unmatched
    assert list(response.notices) == ["no definition is named 'useEffect'"]


async def test_a_name_is_looked_for_inside_the_filters(search, index, make_chunk):
    index(
        make_chunk("a.py", "def parseConfig(): 1", symbol="parseConfig"),
        make_chunk("b.py", "def run(): 1", symbol="run"),
    )

    outside = await search(Request(query="parseConfig", filters=Filters(not_paths=["a.py"])))
    typo = await search(Request(query="parseCofnig", filters=Filters(paths=["b.py"])))
    inside = await search(Request(query="parseCofnig", filters=Filters(paths=["a.py"])))

    assert "'parseConfig' inside the filters, and the name occurs nowhere" in outside.notices[0]
    assert (len(typo.notices), "mean" in typo.notices[0]) == (1, False)
    assert "did you mean 'parseConfig'?" in inside.notices[0]


async def test_a_name_that_too_many_chunks_contain_is_known_to_be_defined(
    search, index, make_chunk
):
    """The definition is not among the candidates, so only the index knows of it."""
    index(
        *(make_chunk(f"u{n}.py", "fetchAll fetchAll fetchAll") for n in range(250)),
        make_chunk("a.py", "x = 1\n" * 60 + "def fetchAll(): 1", symbol="x", symbols=("fetchAll",)),
    )

    response = await search(Request(query="fetchAll"))

    assert list(response.notices) == []


@pytest.mark.usefixtures("indexed")
async def test_a_notice_says_that_an_exclusion_excludes_nothing(search):
    response = await search(Request(query="retry", filters=Filters(not_paths=["src", "docs/*"])))

    assert {hit.path for hit in response.hits} == {"src/retry.py", "src/client.py"}
    [notice] = response.notices
    assert notice == (
        "filters.not_paths: 'src' matches no indexed file and leaves nothing out; everything in a "
        "folder is 'src/**'"
    )


async def test_an_unknown_block_type_is_accepted_without_a_notice(search, index, make_chunk):
    index(make_chunk("a.yaml", "kind: Rollout", block_type="Rollout"))

    response = await search(Request(query="rollout", filters=Filters(block_types=["Rollout"])))

    assert (len(response.hits), list(response.notices)) == (1, [])


async def test_a_refusal_does_not_grow_with_what_it_quotes(search):
    kinds = Filters(kinds=["é" * 100_000])

    code, message, _ = await refused(search(Request(query="x", filters=kinds)))

    assert code is grpc.StatusCode.INVALID_ARGUMENT
    assert len(message) <= 400


async def test_the_longest_query_allowed_is_answered(search):
    response = await search(Request(query="word " * 1_638 + "ab"))

    assert not response.hits


async def test_a_search_before_anything_is_indexed_says_what_to_do(search):
    response = await search(Request(query="anything"))

    assert not response.hits
    assert "codelode index" in response.notices[0]


async def test_a_repository_that_is_still_indexed_for_the_first_time_is_noticed(search, ledger):
    ledger.register(Repository(RepositoryName("acme/new"), "https://host/acme/new"))
    ledger.create(RepositoryName("acme/new"), "HEAD")

    response = await search(Request(query="x", filters=Filters(repositories=["acme/new"])))

    assert list(response.notices) == ["acme/new is not completely indexed yet"]


@pytest.mark.usefixtures("indexed")
async def test_the_second_answer_comes_from_the_cache_and_is_the_same(search):
    first = await search(Request(query="retry"))
    second = await search(Request(query="retry"))

    assert (first.cached, second.cached) == (False, True)
    assert list(second.hits) == list(first.hits)


@pytest.mark.usefixtures("indexed")
async def test_skip_cache_neither_reads_nor_writes_it(search):
    await search(Request(query="retry", skip_cache=True))
    second = await search(Request(query="retry"))
    third = await search(Request(query="retry", skip_cache=True))

    assert (second.cached, third.cached) == (False, False)


@pytest.mark.usefixtures("indexed")
async def test_a_changed_index_is_not_answered_from_the_cache(search, ledger, index, make_chunk):
    await search(Request(query="retry"))
    index(make_chunk("src/backoff.py", "def retry_later(): retry()"))
    ledger.unregister(RepositoryName("another"))  # moves the generation

    response = await search(Request(query="retry"))

    assert not response.cached
    assert "src/backoff.py" in {hit.path for hit in response.hits}


async def test_a_failure_that_nobody_waits_for_is_not_logged(ledger, caplog):
    ledger.is_away = True

    reading = start_in_thread(ledger.generation)
    await asyncio.wait([reading])
    del reading
    gc.collect()

    assert "never retrieved" not in caplog.text


@pytest.mark.usefixtures("indexed")
async def test_a_search_renews_recently_used_coverage_while_it_waits_for_the_index(
    backends, dependencies, ledger, monkeypatch
):
    now = [0.0]
    coverage = CoverageReader(ledger, clock=lambda: now[0])
    given = replace(dependencies, coverage=coverage)
    caller = Principal("somebody", Role.READER, EVERYTHING)
    request = SearchRequest("retry", skip_cache=True)
    before = await service.search(given, caller, request)
    renewed, looked_up = threading.Event(), []
    renew, refs_of, hybrid = CoverageReader.renew, ledger.refs_of, backends.chunks.hybrid

    def renew_and_say_so(coverage, places):
        renew(coverage, places)
        renewed.set()

    def counted(names):
        looked_up.append(names)
        return refs_of(names)

    async def slow(query):
        assert await asyncio.to_thread(renewed.wait, 10)
        return await hybrid(query)

    monkeypatch.setattr(CoverageReader, "renew", renew_and_say_so)
    ledger.refs_of, backends.chunks.hybrid = counted, slow
    now[0] += FRESH_S
    after = await service.search(given, caller, request)

    assert after.coverage == before.coverage != ()
    assert len(looked_up) == 1


@pytest.mark.usefixtures("indexed")
async def test_without_the_cache_the_generation_of_the_ledger_is_not_read(search, ledger):
    ledger.is_away = True

    first = await search(Request(query="retry", top_k=1, skip_cache=True))
    token = first.next_page_token
    second = await search(Request(query="retry", top_k=1, skip_cache=True, page_token=token))

    assert second.hits
    with pytest.raises(grpc.aio.AioRpcError, match="Redis does not answer"):
        await search(Request(query="retry"))


@pytest.mark.usefixtures("indexed")
async def test_every_call_is_one_line_of_the_log(search):
    with structlog.testing.capture_logs() as lines:
        await search(Request(query="retry"), metadata=(("x-request-id", "abc-2"),))
        with pytest.raises(grpc.aio.AioRpcError):
            await search(Request(query=" "))
        async with asyncio.timeout(10):  # a line is written when its answer is on its way
            while sum(line["event"] == "rpc" for line in lines) < 2:
                await asyncio.sleep(0)

    found, refused_ = (line for line in lines if line["event"] == "rpc")
    assert found["method"] == "codelode.v1.SearchService/Search"
    assert (found["code"], found["request_id"], found["hits"]) == ("OK", "abc-2", 3)
    assert found["took_ms"] > 0
    assert refused_["code"] == "INVALID_ARGUMENT"


@pytest.mark.usefixtures("indexed")
async def test_the_request_id_is_returned(search):
    call = search(Request(query="retry"), metadata=(("x-request-id", "abc-1"),))
    await call

    assert (await call.trailing_metadata())["x-request-id"] == "abc-1"


async def test_an_unacceptable_request_id_is_replaced(search):
    call = search(Request(query="retry"), metadata=(("x-request-id", "a b{}"),))
    await call

    assert (await call.trailing_metadata())["x-request-id"].isalnum()


class BrokenSearch:
    def __init__(self, error):
        self.error = error

    async def hybrid(self, query):
        raise self.error

    async def count(self, visible):
        return 0

    async def close(self):
        pass


class TestABackendThatFails:
    @pytest.fixture
    def chunks(self, request):
        return BrokenSearch(request.param)

    @pytest.mark.parametrize(
        ("chunks", "expected"),
        [
            (Unavailable("the index does not answer"), grpc.StatusCode.UNAVAILABLE),
            (Corrupt("index x has another schema"), grpc.StatusCode.FAILED_PRECONDITION),
        ],
        indirect=["chunks"],
    )
    async def test_has_the_status_code_of_its_branch(self, search, chunks, expected):
        code, message, _ = await refused(search(Request(query="x")))

        assert (code, message) == (expected, str(chunks.error))

    @pytest.mark.parametrize("chunks", [KeyError("secret")], indirect=True)
    async def test_with_a_defect_shows_an_id_and_no_internals(self, search):
        call = search(Request(query="x"), metadata=(("x-request-id", "abc-2"),))
        code, message, _ = await refused(call)

        assert code is grpc.StatusCode.INTERNAL
        assert "abc-2" in message
        assert "secret" not in message


class SlowSearch(BrokenSearch):
    def __init__(self):
        super().__init__(None)
        self.started, self.cancelled = asyncio.Event(), asyncio.Event()

    async def hybrid(self, query):
        self.started.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            self.cancelled.set()
            raise


class TestASlowBackend:
    @pytest.fixture
    def chunks(self):
        return SlowSearch()

    async def test_is_cancelled_at_the_deadline(self, search, chunks):
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await search(Request(query="x"), timeout=0.3)

        assert caught.value.code() is grpc.StatusCode.DEADLINE_EXCEEDED
        await asyncio.wait_for(chunks.cancelled.wait(), 5)

    async def test_is_cancelled_with_its_caller(self, search, chunks):
        call = search(Request(query="x"))
        await asyncio.wait_for(chunks.started.wait(), 5)
        call.cancel()

        await asyncio.wait_for(chunks.cancelled.wait(), 5)
