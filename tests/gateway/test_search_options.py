"""The options of a search, over a real gRPC channel."""

from __future__ import annotations

from dataclasses import replace

import grpc
import pytest
from google.protobuf.json_format import ParseDict

from codelode.errors import Unavailable
from codelode.ledger import FileManifest, WorkItem
from codelode.model import (
    DEFAULT_REF,
    Edge,
    EdgeKind,
    FileRecord,
    FileState,
    Kind,
    RefStatus,
    Repository,
    RepositoryName,
    RunState,
    Symbol,
    locate,
)
from codelode.v1 import graph_pb2, graph_pb2_grpc, search_pb2, search_pb2_grpc
from gateway.expand.explain import explain
from gateway.expand.subject import NO_SYMBOLS
from gateway.service.coverage import (
    FRESH_S,
    MAX_READ,
    MAX_RENEWED,
    RECENT_S,
    RENEW_S,
    CoverageReader,
)
from gateway.service.search import CHANGED
from workers.parse import parse

Request = search_pb2.SearchRequest
HTTP = RepositoryName("acme/http")


@pytest.fixture
def service(channel):
    return search_pb2_grpc.SearchServiceStub(channel)


@pytest.fixture
def indexed(ledger, index, make_chunk, graph, symbols):
    """A completely indexed repository with a small program."""
    ledger.register(Repository(HTTP, "https://host/acme/http"))
    run = ledger.create(HTTP, "HEAD")
    ledger.plan(run.id, FileManifest("a" * 40, ()), ref="main", fingerprint="1")
    index(
        make_chunk("src/retry.py", '"""Call again after a failure."""\n', kind=Kind.BLOCK),
        make_chunk("src/retry.py", "def retry(call):\n    ...", start_line=5, symbol="retry"),
        make_chunk("src/client.py", "class Client:\n    def get(self): retry()", symbol="Client"),
        make_chunk("lib/clock.py", "def now(): ...", symbol="now"),
        make_chunk("docs/retry.md", "How to retry a call", category="docs", language="markdown"),
    )
    graph.replace(
        HTTP,
        [DEFAULT_REF],
        {
            "src/client.py": [Edge("src/client.py", "src/retry.py", EdgeKind.IMPORTS)],
            "src/retry.py": [Edge("src/retry.py", "lib/clock.py", EdgeKind.IMPORTS)],
            "tests/test_retry.py": [Edge("tests/test_retry.py", "src/retry.py", EdgeKind.IMPORTS)],
        },
    )
    retry = Symbol("retry", "retry", Kind.FUNCTION, "def retry(call):", 5, 6, True, "Call again.")
    symbols.replace(HTTP, [DEFAULT_REF], {"src/retry.py": [retry]})


def request(query="retry a call", *, options=None, **fields):
    made = Request(query=query, **fields)
    ParseDict(options or {}, made.options)
    return made


async def code_of(call):
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await call
    return caught.value.code(), caught.value.details()


pytestmark = pytest.mark.usefixtures("indexed")


async def test_a_response_says_how_the_query_was_read(service):
    response = await service.Search(request("where is HttpClient defined", explain=True))

    assert response.intent == "find_definition"
    assert [(one.kind, one.text) for one in response.entities] == [("pascal_case", "HttpClient")]


async def test_an_option_out_of_bounds_is_refused_by_name(service):
    code, message = await code_of(service.Search(request(options={"retrieve": {"window": 5_000}})))

    assert code is grpc.StatusCode.INVALID_ARGUMENT
    assert message.startswith("options.retrieve.window: is 5,000; it must be 10 to 500")


async def test_related_files_chains_and_passages_come_with_the_hits(service):
    options = {"expand": {"related": 10, "imports": 3, "enclosing": True, "before_lines": 9}}
    response = await service.Search(request("retry", top_k=1, options=options))

    [hit] = response.hits
    assert (hit.path, hit.start_line) == ("src/retry.py", 5)
    assert (hit.passage.start_line, hit.passage.end_line) == (1, 6)
    assert {(one.path, one.relation) for one in response.related} == {
        ("lib/clock.py", "imports"),
        ("src/client.py", "imported_by"),
    }
    assert [(one.path, one.target, one.mark) for one in response.imports] == [
        ("src/retry.py", "lib/clock.py", "internal")
    ]
    assert response.tokens > 0


async def test_every_preset_returns_hits(service):
    for preset in ("fast", "balanced", "thorough"):
        assert (await service.Search(request(options={"preset": preset}))).hits


async def test_an_abstention_is_reported(service):
    response = await service.Search(request(options={"rank": {"confidence": 0.99}}))

    assert response.abstained
    assert not response.hits


async def test_a_judge_that_is_away_is_unavailable(service, model):
    model.answers = [Unavailable("the model does not answer")]

    code, _ = await code_of(service.Search(request(options={"rank": {"reranker": "judge"}})))

    assert code is grpc.StatusCode.UNAVAILABLE


async def test_duplicates_name_the_hit_that_represents_them(service, index, make_chunk):
    copy = make_chunk("copy/retry.py", "def retry(call):\n    ...", start_line=7)
    index(copy)

    options = {"rank": {"duplicate_similarity": 0.99}}
    response = await service.Search(request("retry", options=options))

    [left_out] = response.duplicates
    assert left_out.path in ("copy/retry.py", "src/retry.py")
    assert response.hits[left_out.of_rank - 1].content == "def retry(call):\n    ..."


# Pages


async def pages(service, size, **fields):
    token, found = "", []
    while True:
        response = await service.Search(
            request("retry call", top_k=size, page_token=token, **fields)
        )
        found.append([(hit.path, hit.start_line) for hit in response.hits])
        token = response.next_page_token
        if not token:
            return found


async def test_pages_together_are_the_ranking(service):
    whole = await pages(service, 100)
    parts = await pages(service, 2)

    assert len(whole) == 1
    assert [place for page in parts for place in page] == whole[0]
    assert all(parts)


async def test_pages_are_the_same_again_and_without_the_cache(service):
    first = await pages(service, 2)

    assert await pages(service, 2) == first
    assert await pages(service, 2, skip_cache=True) == first


async def test_a_notice_says_that_the_ranking_of_a_page_has_changed(
    service, ledger, index, make_chunk
):
    first = await service.Search(request("retry call", top_k=2))
    index(make_chunk("src/retry_call.py", "def retry_call(): retry(call)", symbol="retry_call"))
    ledger.unregister(RepositoryName("another"))  # moves the generation

    second = await service.Search(request("retry call", top_k=2, page_token=first.next_page_token))

    assert second.hits
    assert CHANGED in second.notices


async def test_a_later_page_has_no_notice_if_only_other_repositories_changed(service, ledger):
    first = await service.Search(request("retry call", top_k=2))
    ledger.unregister(RepositoryName("another"))

    second = await service.Search(request("retry call", top_k=2, page_token=first.next_page_token))

    assert second.hits
    assert CHANGED not in second.notices


async def test_a_token_is_bound_to_its_search(service):
    first = await service.Search(request("retry call", top_k=2))

    for other in (
        request("retry", top_k=2, page_token=first.next_page_token),
        request("retry call", top_k=2, page_token="bm9uZQ=="),
        request("retry call", top_k=2, page_token="WyItMSIsICIwIiwgIngiXQ=="),
    ):
        code, message = await code_of(service.Search(other))
        assert code is grpc.StatusCode.INVALID_ARGUMENT
        assert message.startswith("page_token: ")


# Coverage


async def test_coverage_of_the_hits_repositories_is_in_every_response(service):
    for _ in range(2):  # the second is from the cache
        response = await service.Search(request())
        [covered] = response.coverage
        assert (covered.repository, covered.ref, covered.revision) == (HTTP, "main", "a" * 40)
        assert (covered.pending, covered.failed) == (0, 0)


@pytest.mark.usefixtures("indexed")
async def test_coverage_is_in_answers_without_hits_too(service, ledger):
    other = RepositoryName("acme/other")
    ledger.register(Repository(other, "https://host/other"))

    everywhere = await service.Search(
        request("zebra", filters=search_pb2.Filters(paths=["none/*"]))
    )
    named = await service.Search(
        request("zebra", filters=search_pb2.Filters(repositories=[HTTP], paths=["none/*"]))
    )

    assert (len(everywhere.hits), len(named.hits)) == (0, 0)
    assert [(one.repository, one.revision) for one in everywhere.coverage] == [
        (HTTP, "a" * 40),
        (other, ""),
    ]
    assert [one.repository for one in named.coverage] == [HTTP]


@pytest.mark.usefixtures("indexed")
async def test_an_explanation_and_a_graph_say_what_is_indexed(service, channel):
    explained = await service.Explain(search_pb2.ExplainRequest(subject="src/retry.py"))
    of_symbol = await service.Explain(search_pb2.ExplainRequest(subject="retry"))
    followed = await graph_pb2_grpc.GraphServiceStub(channel).GetGraph(
        graph_pb2.GetGraphRequest(subject="src/client.py")
    )

    for answer in (explained, of_symbol, followed):
        [covered] = answer.coverage
        assert (covered.repository, covered.ref, covered.revision) == (HTTP, "main", "a" * 40)


@pytest.mark.usefixtures("indexed")
async def test_a_hit_shows_its_commit_line_and_score_parts(service, ledger, index):
    ledger.register(Repository(HTTP, "git@github.com:acme/http.git"))
    file = parse(b"import os\n\n\ndef back_off(call):\n    return call()\n", path="src/off.py")
    index(*locate(file, repository=HTTP, path="src/off.py", refs=[DEFAULT_REF, "main"]))

    for is_cached in (False, True):
        response = await service.Search(request("back_off", top_k=5))
        hit = next(one for one in response.hits if one.symbol == "back_off")

        assert (response.cached, hit.line, hit.category) == (is_cached, 4, "source")
        assert hit.revision == "a" * 40
        link = f"https://github.com/acme/http/blob/{'a' * 40}/src/off.py#L1-L5"
        assert hit.url == link
        assert hit.HasField("keyword_score") is (hit.match in ("keyword", "both"))
        assert hit.HasField("similarity") is (hit.match in ("semantic", "both"))
        assert hit.keyword_score + hit.similarity > 0


def test_coverage_counts_what_is_pending_and_failed(ledger):
    ledger.register(Repository(RepositoryName("acme/new"), "https://host/new"))
    run = ledger.create(RepositoryName("acme/new"), "HEAD")
    items = tuple(WorkItem(f"{n}.py", f"{n:040}") for n in range(5))
    ledger.plan(run.id, FileManifest("b" * 40, items), ref="main", fingerprint="1")
    failed = FileRecord("0.py", "0" * 40, FileState.FAILED, "too deep")
    ledger.done(run.id, [failed])

    [covered] = CoverageReader(ledger).read([RepositoryName("acme/new")], "HEAD")

    assert (covered.revision, covered.pending, covered.is_complete) == ("", 4, False)


def test_a_run_that_does_indexed_files_once_more_leaves_the_coverage_complete(ledger):
    name = RepositoryName("acme/new")
    ledger.register(Repository(name, "https://host/new"))
    items = tuple(WorkItem(f"{n}.py", f"{n:040}") for n in range(3))
    done = [FileRecord(item.path, item.blob, FileState.INDEXED, chunks=1) for item in items]

    def planned(revision, *items):
        run = ledger.create(name, "HEAD")
        ledger.plan(run.id, FileManifest(revision, items), ref="main", fingerprint="1")
        [covered] = CoverageReader(ledger).read([name], "HEAD")
        return run.id, (covered.revision, covered.pending, covered.is_complete)

    run, covered = planned("a" * 40, *items)
    assert covered == ("", 3, False)
    ledger.done(run, done)
    run, covered = planned("a" * 40, *items)
    assert covered == ("a" * 40, 0, True)
    ledger.end(run, RunState.CANCELLED)
    run, covered = planned("b" * 40, *items[:2], WorkItem("2.py", "c" * 40))
    assert covered == ("a" * 40, 1, False)
    ledger.end(run, RunState.CANCELLED)
    run, covered = planned("b" * 40, *items[:2], WorkItem("2.py", ""))
    assert covered == ("a" * 40, 1, False)
    ledger.done(run, [*done[:2], FileRecord("2.py", "", FileState.PENDING)])
    assert CoverageReader(ledger).read([name], "HEAD")[0].is_complete


def test_coverage_is_bounded_and_remembered_for_a_moment(ledger):
    now = [0.0]
    coverage = CoverageReader(ledger, clock=lambda: now[0])
    names = [RepositoryName(f"r{n}") for n in range(2 * MAX_READ)]
    looked = []
    ledger.refs = lambda name: looked.append(name) or ()

    assert len(coverage.read(names, "HEAD")) == MAX_READ
    assert coverage.cached(names, "HEAD") == coverage.read(names, "HEAD")
    assert coverage.cached([*names[:2], "other"], "HEAD") is None
    assert len(looked) == MAX_READ
    now[0] += 1.0
    assert coverage.cached(names, "HEAD") is None
    coverage.read(names, "HEAD")
    assert len(looked) == 2 * MAX_READ


def test_recently_used_coverage_is_renewed_before_it_expires(ledger):
    now = [0.0]
    coverage = CoverageReader(ledger, clock=lambda: now[0])
    names = [RepositoryName(f"r{n}") for n in range(MAX_RENEWED + 9)]
    for name in names:
        assert coverage.cached([name], "HEAD") is None
        coverage.read([name], "HEAD")

    now[0] += FRESH_S
    due = coverage.due()
    assert [name for name, _ in due] == names[9:]
    now[0] += FRESH_S
    assert coverage.due() == ()  # while it is renewed
    assert coverage.cached(names[9:19], "HEAD") is None
    coverage.renew(due)

    assert coverage.cached(names[9:19], "HEAD") == coverage.read(names[9:19], "HEAD")
    assert coverage.cached(names[8:9], "HEAD") is None
    now[0] += RENEW_S
    assert len(coverage.due()) == MAX_RENEWED


def test_coverage_used_long_ago_is_not_renewed_and_a_failure_does_not_end_renewal(ledger):
    now = [0.0]
    coverage = CoverageReader(ledger, clock=lambda: now[0])
    for name in ("old", "new"):
        coverage.cached([RepositoryName(name)], "HEAD")
        now[0] += RECENT_S / 2
    assert coverage.due() == [("new", "HEAD")]

    def away(names):
        raise Unavailable("Redis does not answer")

    ledger.refs_of = away
    with pytest.raises(Unavailable):
        coverage.renew([(RepositoryName("new"), "HEAD")])

    now[0] += RENEW_S
    assert coverage.due() == [("new", "HEAD")]


def test_the_result_of_an_older_look_up_does_not_replace_a_newer_one(ledger):
    now, name = [0.0], RepositoryName("acme/new")
    coverage = CoverageReader(ledger, clock=lambda: now[0])
    known = {0.0: (), 0.5: (RefStatus("main", "b" * 40, "1"),)}

    def refs_of(names):
        refs = known[now[0]]
        if not now[0]:  # another one begins and ends meanwhile
            now[0] = 0.5
            coverage.read(names, "HEAD")
        return [refs]

    ledger.refs_of = refs_of
    coverage.renew([(name, "HEAD")])

    cached = coverage.cached([name], "HEAD")
    assert cached is not None
    assert [covered.revision for covered in cached] == ["b" * 40]


# The second level of the cache


async def test_a_query_of_the_same_meaning_is_answered_from_the_cache(service):
    first = await service.Search(request("how to retry a call"))
    second = await service.Search(request("How to retry a call?"))

    assert (first.cached, second.cached) == (False, True)
    assert list(second.hits) == list(first.hits)
    assert "the same meaning" in second.notices[0]


@pytest.mark.parametrize(
    "other",
    [
        request("How to retry a call?", filters=search_pb2.Filters(languages=["markdown"])),
        request("How to retry a call?", filters=search_pb2.Filters(repositories=[HTTP])),
        request("How to retry a call?", top_k=3),
        request("How to retry a call?", explain=True),
        request("How to retry a call?", options={"preset": "fast"}),
        request("how not to retry a call"),
        request("how to retry a call 3"),
        request("how to page a client"),
        request("how to call a retry"),
    ],
    ids=[
        "language",
        "repository",
        "top_k",
        "explain",
        "options",
        "negation",
        "number",
        "meaning",
        "order",
    ],
)
async def test_the_semantic_cache_shares_no_answer_between_different_requests(service, other):
    await service.Search(request("how to retry a call"))

    assert not (await service.Search(other)).cached


async def test_a_similar_query_to_a_changed_index_is_searched_again(service, ledger):
    await service.Search(request("how to retry a call"))
    ledger.unregister(RepositoryName("another"))

    assert not (await service.Search(request("How to retry a call?"))).cached


async def test_an_answer_is_cached_with_its_notices(service):
    options = {"analyze": {"infer_filters": True}}
    for is_cached in (False, True):
        response = await service.Search(request("function that does a retry", options=options))
        assert (response.cached, len(response.notices)) == (is_cached, 1)


async def test_a_degraded_answer_is_not_kept(service, model):
    model.answers = [Unavailable("away"), "call again"]
    options = {"analyze": {"rewrite": True}}

    first = await service.Search(request(options=options))
    second = await service.Search(request(options=options))
    third = await service.Search(request(options=options))

    assert [len(one.notices) for one in (first, second, third)] == [1, 0, 0]
    assert [one.cached for one in (first, second, third)] == [False, False, True]


async def test_staged_retrieval_does_not_ask_for_rewrites_that_it_would_drop(service, model):
    model.answers = ["call again"]
    options = {"analyze": {"rewrite": True}, "retrieve": {"mode": "staged"}}

    staged = await service.Search(request(options=options))

    assert model.asked == []
    assert [one for one in staged.notices if "analyze.rewrite was ignored" in one]


# Context


async def test_a_context_is_one_text_within_its_budget(service):
    asked = request("retry", options={"assemble": {"budget_tokens": 3_000}})
    response = await service.Context(search_pb2.ContextRequest(search=asked))
    again = await service.Context(search_pb2.ContextRequest(search=asked))

    assert response.text.startswith("### ")
    assert "src/retry.py:5-6 (acme/http, retry)" in response.text
    assert 0 < response.tokens <= 1_000
    assert response.search.coverage
    assert not response.search.hits[0].content
    assert (again.search.cached, again.text) == (True, response.text)


async def test_a_context_without_hits_is_empty(service):
    asked = request("zzz", filters=search_pb2.Filters(paths=["nowhere/**"]))

    response = await service.Context(search_pb2.ContextRequest(search=asked))

    assert (response.text, response.tokens) == ("", 0)


# Similar


async def test_code_like_a_place_is_found_without_the_place_itself(service, index, make_chunk):
    index(make_chunk("src/again.py", "def retry(call, times):\n    ..."))

    response = await service.Similar(
        search_pb2.SimilarRequest(repository=HTTP, path="src/retry.py", line=6)
    )

    assert response.hits[0].path == "src/again.py"
    assert ("src/retry.py", 5) not in {(hit.path, hit.start_line) for hit in response.hits}
    assert response.intent == "find_similar"
    assert response.coverage


async def test_code_like_a_snippet_is_found(service):
    response = await service.Similar(search_pb2.SimilarRequest(snippet="def now(): ..."))

    assert response.hits[0].path == "lib/clock.py"
    assert response.hits[0].score > 0.9


@pytest.mark.parametrize(
    ("fields", "code", "says"),
    [
        ({}, grpc.StatusCode.INVALID_ARGUMENT, "path: "),
        ({"path": "src/retry.py"}, grpc.StatusCode.INVALID_ARGUMENT, "line: "),
        ({"path": "a", "snippet": "b"}, grpc.StatusCode.INVALID_ARGUMENT, "snippet: "),
        ({"path": "gone.py", "line": 1}, grpc.StatusCode.NOT_FOUND, "gone.py"),
        ({"path": "src/retry.py", "line": 99}, grpc.StatusCode.NOT_FOUND, "ends at line 6"),
        (
            {"path": "a", "line": 1, "repository": "x"},
            grpc.StatusCode.INVALID_ARGUMENT,
            "repository",
        ),
    ],
)
async def test_an_invalid_location_is_refused(service, fields, code, says):
    found, message = await code_of(service.Similar(search_pb2.SimilarRequest(**fields)))

    assert found is code
    assert says in message


# Explain


async def test_a_file_is_explained_from_the_index_and_the_graph(service):
    response = await service.Explain(search_pb2.ExplainRequest(subject="src/retry.py"))

    assert response.subject_kind == "file"
    assert "Call again after a failure." in response.summary
    [definition] = response.definitions
    assert (definition.name, definition.start_line, definition.end_line) == ("retry", 5, 6)
    assert definition.signature == "def retry(call):"
    assert list(response.imports) == ["lib/clock.py"]
    assert list(response.imported_by) == ["src/client.py"]
    assert list(response.tests) == ["tests/test_retry.py"]
    assert response.summary.endswith(
        " src/retry.py has 1 import, is imported by 1 file and tested by 1."
    )
    assert not response.notices


@pytest.fixture
def parsed(indexed, index, symbols):
    """Index a file as the workers do, and return its path."""

    def build(text, *, path="src/whole.py"):
        made = parse(text.encode(), path=path)
        index(*locate(made, repository=HTTP, path=path, refs=(DEFAULT_REF,)))
        symbols.replace(HTTP, [DEFAULT_REF], {path: made.symbols})
        return path

    return build


async def test_all_definitions_of_a_file_are_listed_with_their_lines(service, parsed):
    """This includes definitions that share a chunk with others."""
    path = parsed("def again():\n    return 1\n\n\ndef now(): ...\n\n\ndef later(): ...\n")

    response = await service.Explain(search_pb2.ExplainRequest(subject=path))

    told = {one.name: (one.start_line, one.end_line) for one in response.definitions}
    assert told == {"again": (1, 2), "now": (5, 5), "later": (8, 8)}
    assert not response.notices


async def test_definitions_that_are_left_out_are_counted(service, parsed):
    path = parsed("".join(f"def f{n}(): ...\n" for n in range(150)))

    response = await service.Explain(search_pb2.ExplainRequest(subject=path))

    assert len(response.definitions) == 100
    assert list(response.notices) == ["the first 100 of 150 definitions are listed"]


@pytest.mark.parametrize(
    "elsewhere",
    [
        pytest.param("def other(): ...\n", id="another name"),
        pytest.param("import os\n" * 90 + "def own(): ...\n", id="another line"),
        pytest.param("def own(): ...\ndef more(): ...\n", id="one more"),
        pytest.param("", id="none"),
    ],
)
async def test_definitions_are_those_of_the_ref_whatever_another_one_has(
    service, parsed, symbols, elsewhere
):
    path = parsed("def own(): ...\n")
    symbols.replace(HTTP, ["topic"], {path: parse(elsewhere.encode(), path=path).symbols})

    response = await service.Explain(search_pb2.ExplainRequest(subject=path))

    assert [(one.name, one.start_line) for one in response.definitions] == [("own", 1)]


async def test_without_a_symbol_table_the_definitions_are_those_of_the_chunks(backends, parsed):
    found = await explain(
        parsed("# again() calls.\n\ndef again(call) -> None:\n    return call()\n"),
        repositories=[HTTP],
        ref=DEFAULT_REF,
        backends=replace(backends, symbols=None),
    )

    [symbol] = [at.symbol for at in found.definitions]
    assert (symbol.name, symbol.start_line, symbol.end_line) == ("again", 3, 4)
    assert symbol.signature == "def again(call) -> None"
    assert found.notices == (NO_SYMBOLS,)


async def test_a_symbol_is_explained_where_it_is_defined(service):
    response = await service.Explain(search_pb2.ExplainRequest(repository=HTTP, subject="retry"))

    assert response.subject_kind == "symbol"
    assert response.summary.startswith(
        "retry is a function in src/retry.py:5-6 of acme/http. Call again. "
        "Its file has 1 import, is imported by 1 file and tested by 1."
    )
    assert list(response.imported_by) == ["src/client.py"]


@pytest.mark.usefixtures("indexed")
@pytest.mark.parametrize(
    ("doc", "shown"),
    [
        ("Calls again", "Calls again."),
        ("Is it called again?", "Is it called again?"),
        ("A route multiplexer that parses a path,", "A route multiplexer that parses a path …"),
    ],
)
async def test_a_comment_of_several_lines_is_elided(service, symbols, doc, shown):
    about = Symbol("mux", "mux", Kind.FUNCTION, "", 5, 6, True, doc=doc)
    symbols.replace(HTTP, [DEFAULT_REF], {"src/retry.py": [about]})
    response = await service.Explain(search_pb2.ExplainRequest(repository=HTTP, subject="mux"))

    assert f"acme/http. {shown} Its file" in response.summary


async def test_explaining_an_unknown_subject_is_not_found(service):
    code, message = await code_of(service.Explain(search_pb2.ExplainRequest(subject="NoSuchThing")))

    assert code is grpc.StatusCode.NOT_FOUND
    assert "NoSuchThing" in message


@pytest.mark.usefixtures("indexed")
async def test_other_definitions_of_a_name_are_counted_in_good_english(service, symbols):
    other = Symbol("retry", "retry", Kind.FUNCTION, "", 1, 2, True)
    for path, end in (
        ("lib/clock.py", " 1 more definition has that name. Its 2 files have"),
        ("src/client.py", " 2 more definitions have that name. Its 3 files have"),
    ):
        symbols.replace(HTTP, [DEFAULT_REF], {path: [other]})

        response = await service.Explain(
            search_pb2.ExplainRequest(repository=HTTP, subject="retry")
        )

        assert end in response.summary


async def test_a_hit_is_headed_by_the_definition_that_the_query_or_the_filter_names(
    service, index, make_chunk
):
    index(
        make_chunk(
            "a.py", "def alpha(): ...\ndef beta(): ...", symbol="alpha", symbols=("alpha", "beta")
        )
    )

    async def heads(**fields):
        found = await service.Search(request(**fields))
        return {hit.symbol for hit in found.hits if hit.path == "a.py"}

    assert await heads(query="beta") == {"beta"}
    assert await heads(query="def") == {"alpha"}
    assert await heads(query="def", filters=search_pb2.Filters(symbols=["beta"])) == {"beta"}
    assert await heads(query="def", filters=search_pb2.Filters(symbols=["bet*"])) == {"beta"}
