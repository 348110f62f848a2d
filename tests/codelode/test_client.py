"""The blocking and the asynchronous Python client pass the same suite over real gRPC."""

from __future__ import annotations

import asyncio
import dataclasses
import inspect
import socket
from collections.abc import AsyncIterator, Iterator
from dataclasses import FrozenInstanceError
from pathlib import Path
from typing import Any

import grpc
import pytest

from codelode import errors
from codelode.access import EVERYTHING
from codelode.client import (
    AsyncClient,
    Client,
    Copy,
    FolderEntry,
    Hit,
    SearchResult,
    calls,
    request,
    watching,
)
from codelode.client.maps import MapPoint
from codelode.client.request import Search
from codelode.model import RunState
from codelode.v1 import access_pb2, graph_pb2, index_pb2, search_pb2
from gateway.service import options, queries
from gateway.service.requests import SimilarRequest
from gateway.service.subjects import MAX_DEPTH, MAX_LIMIT


class Blocking:
    """An asynchronous client that each call drives until it has answered."""

    def __init__(self, address: str, **options: Any) -> None:
        self._client = AsyncClient(address, **options)
        self._runner = asyncio.Runner()

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._client, name)

        def call(*args: Any, **kwargs: Any) -> Any:
            answer = method(*args, **kwargs)
            if inspect.isasyncgen(answer):
                return self._iterate(answer)
            return self._runner.run(answer)

        return call

    def _iterate(self, answers: AsyncIterator[Any]) -> Iterator[Any]:
        while True:
            try:
                yield self._runner.run(anext(answers))
            except StopAsyncIteration:
                return

    def __enter__(self) -> Blocking:
        return self

    def __exit__(self, *_: object) -> None:
        self._runner.run(self._client.close())
        self._runner.close()


@pytest.fixture(params=[Client, Blocking], ids=["blocking", "asynchronous"])
def connect(request):
    return request.param


@pytest.fixture
def client(gateway, connect):
    with connect(gateway.address, timeout_s=10) as connected:
        yield connected


@pytest.fixture
def closed_port():
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return probe.getsockname()[1]


def test_a_search_sends_every_filter_and_returns_every_field(client, gateway):
    result = client.search(
        "retry",
        repositories=["acme/http"],
        languages=("python",),
        paths=["src/**"],
        kinds=["method"],
        symbols=["Client.*"],
        categories=["source"],
        ref="main",
        top_k=7,
        explain=True,
        skip_cache=True,
    )

    (request,) = gateway.requests
    filters = request.filters
    assert (request.query, request.top_k, request.explain, request.skip_cache) == (
        "retry",
        7,
        True,
        True,
    )
    assert (list(filters.repositories), list(filters.languages)) == (["acme/http"], ["python"])
    assert (list(filters.paths), list(filters.kinds)) == (["src/**"], ["method"])
    assert (list(filters.symbols), list(filters.categories)) == (["Client.*"], ["source"])
    assert filters.ref == "main"
    (hit,) = result
    assert (hit.repository, hit.path, hit.start_line, hit.end_line) == (
        "acme/http",
        "src/retry.py",
        9,
        11,
    )
    assert (hit.language, hit.symbol, hit.kind, hit.category) == (
        "python",
        "Client.retry",
        "method",
        "source",
    )
    assert (hit.score, hit.match, hit.header) == (0.0325, "both", "class Client")
    assert hit.content.startswith("def retry")
    assert hit.explain == (("rank.boost.definition", 2.0),)
    assert (result.took_ms, result.cached, result.stages) == (4.25, False, (("rank", 0.5),))
    assert (result.notices, result.query_kind) == (("no summaries",), "identifier")


def test_options_reach_the_gateway_by_stage_and_name(client, gateway):
    client.search(
        "retry",
        preset="thorough",
        options={"retrieve": {"alpha": 0.0}, "rank": {"reranker": "judge"}, "expand": {}},
        page="abc",
    )

    options = gateway.requests[0].options
    assert (options.preset, gateway.requests[0].page_token) == ("thorough", "abc")
    assert options.retrieve.HasField("alpha")
    assert not options.retrieve.HasField("window")
    assert options.rank.reranker == "judge"


@pytest.mark.parametrize(
    ("options", "field"),
    [
        ({"rnk": {}}, "options.rnk"),
        ({"preset": {}}, "options.preset"),
        ({"rank": {"judge": True}}, "options.rank.judge"),
        ({"retrieve": {"window": "many"}}, "options.retrieve.window"),
    ],
)
def test_an_option_that_does_not_exist_is_refused_by_name(client, gateway, options, field):
    with pytest.raises(errors.InvalidQuery) as caught:
        client.search("retry", options=options)

    assert caught.value.field == field
    assert gateway.requests == []


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (
            {"rnk": {}},
            "options.rnk: is not a stage of a search; did you mean 'rank'?",
        ),
        (
            {"x": {}},
            "options.x: is not a stage of a search; there are: analyze, retrieve, rank, expand, "
            "assemble",
        ),
        (
            {"rank": {"nope": 1}},
            "options.rank.nope: is not an option of rank; there are: ranker, definition_boost, "
            "centrality, reranker, confidence, duplicate_similarity, collapse_copies",
        ),
        (
            {"rank": {"rerank": "judge"}},
            "options.rank.rerank: is not an option of rank; did you mean 'reranker' or 'ranker'?",
        ),
        (
            {"analyze": {"rewrite_": True}},
            "options.analyze.rewrite_: is not an option of analyze; did you mean 'rewrite'?",
        ),
        (
            {"retrieve": {"window": "many"}},
            "options.retrieve.window: 'many' is not a whole number below 2,147,483,648",
        ),
        (
            {"retrieve": {"window": 0.5}},
            "options.retrieve.window: 0.5 is not a whole number below 2,147,483,648",
        ),
        (
            {"retrieve": {"window": 2**40}},
            "options.retrieve.window: 1099511627776 is not a whole number below 2,147,483,648",
        ),
        ({"retrieve": {"alpha": "x"}}, "options.retrieve.alpha: 'x' is not a number"),
        ({"rank": {"reranker": 1}}, "options.rank.reranker: 1 is not text"),
        ({"analyze": {"rewrite": "yes"}}, "options.analyze.rewrite: 'yes' is not true or false"),
    ],
)
def test_the_error_for_a_refused_option_lists_the_options_or_valid_values(client, options, told):
    with pytest.raises(errors.InvalidQuery) as caught:
        client.search("retry", options=options)

    assert str(caught.value) == told


def test_a_hit_has_its_copies_in_other_repositories(client, gateway):
    place = {"repository": "fork", "ref": "main", "path": "c.py", "start_line": 3, "end_line": 5}
    copy = search_pb2.Copy(**place, similarity=0.75, revision="b" * 40, url="https://host/fork")
    gateway.hits = [search_pb2.Hit(path="a.py", copies=[copy])]

    [hit] = client.search("retry")

    assert hit.copies == (Copy(**place, similarity=0.75, revision="b" * 40, url=copy.url),)


def test_a_result_has_what_was_found_around_its_hits(client, gateway, around):
    gateway.around = around

    result = client.search("retry")

    assert [(one.path, one.relation, one.of) for one in result.related] == [
        ("b.py", "imports", "src/retry.py")
    ]
    assert [(one.target, one.depth, one.mark) for one in result.imports] == [("os", 1, "external")]
    assert [(one.repository, one.of_rank) for one in result.duplicates] == [("fork", 1)]
    assert [(one.similarity, one.symbols) for one in result.files] == [(0.75, ("retry",))]
    assert [(one.revision, one.pending, one.failed) for one in result.coverage] == [
        ("a" * 40, 3, 1)
    ]
    assert (result.intent, result.tokens, result.next_page) == ("general", 77, "abc")
    assert (result.synonyms, result.alternates) == (("backoff",), ("call again",))
    assert not result.abstained


def test_a_hit_has_the_lines_around_it(client, gateway):
    gateway.hits[0].passage.start_line = 7

    assert client.search("retry")[0].passage.start_line == 7
    gateway.hits[0].ClearField("passage")
    assert client.search("retry")[0].passage is None


def test_a_context_is_a_text_with_its_sources(client, gateway):
    made = client.context(
        "retry", budget_tokens=3_000, languages=["go"], options={"assemble": {"compact": True}}
    )

    assert (made.text, made.tokens, made.left_out) == ("### src/retry.py:9-11\n", 1234, 1)
    assert made.search[0].path == "src/retry.py"
    asked = gateway.requests[0].search
    assert (asked.query, asked.top_k, list(asked.filters.languages)) == ("retry", 20, ["go"])
    assert asked.options.assemble.budget_tokens == 3_000
    assert asked.options.assemble.compact


def test_similar_asks_for_a_place_or_a_snippet(client, gateway):
    result = client.similar("a.py", 7, repository="acme/http", repositories=["acme/web"], ref="v1")
    client.similar(snippet="def f(): ...", top_k=3)

    place, snippet = gateway.requests
    assert result[0].path == "src/retry.py"
    assert (place.repository, place.path, place.line, place.ref) == ("acme/http", "a.py", 7, "v1")
    assert (list(place.filters.repositories), place.filters.ref) == (["acme/web"], "v1")
    assert (snippet.snippet, snippet.top_k) == ("def f(): ...", 3)


def test_explain_says_what_is_known(client, gateway):
    about = client.explain("src/retry.py", repository="acme/http")

    assert (about.kind, about.summary) == ("file", "src/retry.py retries calls.")
    assert [(one.name, one.start_line, one.doc) for one in about.definitions] == [
        ("Client.retry", 9, "Call again.")
    ]
    assert (about.imports, about.imported_by) == (("src/clock.py",), ("src/client.py",))
    assert (about.tests, about.notices) == (("tests/test_retry.py",), ("no graph",))
    assert gateway.requests[0].repository == "acme/http"


def test_a_folder_is_listed_with_the_state_of_its_files(client, gateway):
    found = client.folder("src", repository="acme/http", page_size=10)

    assert (found.repository, found.path, found.entry_count) == ("acme/http", "src", 1)
    assert found.entries == (FolderEntry("retry.py", False, "indexed", "python"),)
    assert gateway.requests[0].page_size == 10


def test_a_map_has_points_with_names(client, gateway):
    found = client.chunk_map(["acme/http"])

    assert found.points == (MapPoint(1.0, 0.0, "acme/http", "python", "source"),)
    assert (found.status.progress, found.status.is_over) == ("ready", True)
    assert client.map_places(["acme/http"], [0])[0].path == "a.py"
    assert not client.make_map(["acme/http"]).is_over
    assert gateway.requests[1].points == [0]


def test_a_result_is_a_sequence_that_is_false_when_nothing_was_found(client, gateway):
    assert client.search("x")[0].path == "src/retry.py"
    assert len(client.search("x")[0:1]) == 1

    gateway.hits = []

    assert not client.search("x")


def test_results_cannot_be_changed(client):
    with pytest.raises(FrozenInstanceError):
        client.search("x")[0].path = "other"


def test_index_waits_for_the_run_and_reports_its_progress(client, gateway, make_run):
    gateway.watches = [
        [
            make_run("pulling"),
            make_run("indexing", total=2, done=1),
            make_run("complete", total=2, done=2, revision="b" * 40),
        ]
    ]
    seen = []

    run = client.index("https://x/http.git", name="n", ref="v1", on_progress=seen.append)

    assert [each.state for each in seen] == [
        RunState.PULLING,
        RunState.INDEXING,
        RunState.COMPLETE,
    ]
    assert (run.done, run.revision, run.state.is_over) == (2, "b" * 40, True)
    start = gateway.requests[0]
    assert (start.url, start.name, start.ref) == ("https://x/http.git", "n", "v1")


def test_index_without_waiting_returns_the_run_as_it_was_created(client, gateway):
    assert client.index("https://x/http.git", wait=False).state is RunState.PULLING
    assert len(gateway.requests) == 1


def test_watch_continues_after_an_outage_of_the_gateway(client, gateway, make_run):
    gateway.watches = [
        [make_run("pulling"), "break"],
        ["break"],
        [make_run("pulling"), make_run("complete")],
    ]

    states = [run.state for run in client.watch("r1")]

    assert states == [RunState.PULLING, RunState.COMPLETE]  # nothing twice


def test_watch_continues_if_the_stream_just_ends(client, gateway, make_run):
    gateway.watches = [[make_run("pulling")], [], [make_run("failed", error="no such branch")]]

    *_, last = client.watch("r1")

    assert (last.state, last.error) == (RunState.FAILED, "no such branch")


def test_watch_survives_a_restart_of_the_server_on_its_port(client, gateway, make_run):
    gateway.watches = [[make_run("pulling"), make_run("indexing")], [make_run("complete")]]
    states = []

    for run in client.watch("r1"):
        states.append(run.state)
        if run.state is RunState.PULLING:
            gateway.restart()

    assert states[0] is RunState.PULLING
    assert states[-1] is RunState.COMPLETE


def test_watch_fails_after_a_long_time_without_an_answer(connect, closed_port, monkeypatch):
    monkeypatch.setattr(watching, "WATCH_TIMEOUT_S", 0.3)
    with connect(f"127.0.0.1:{closed_port}") as client, pytest.raises(errors.Unavailable):
        list(client.watch("r1"))


def test_watch_reports_once_that_nothing_answers_and_continues(
    client, gateway, make_run, monkeypatch
):
    monkeypatch.setattr(watching, "WATCH_SILENCE_S", 0.0)
    gateway.watches = [
        [make_run("pulling"), "break"],
        *[["break"]] * 3,
        [make_run("indexing"), "break"],
        *[["break"]] * 2,
        [make_run("complete")],
    ]
    told = []

    states = [run.state for run in client.watch("r1", on_silence=told.append)]

    assert states == [RunState.PULLING, RunState.INDEXING, RunState.COMPLETE]
    assert [str(lost) for lost in told] == ["the gateway is shutting down"] * 2


def test_the_timeout_of_a_watch_begins_when_the_gateway_stops_answering(
    client, gateway, make_run, monkeypatch
):
    monkeypatch.setattr(watching, "WATCH_TIMEOUT_S", 0.3)
    gateway.watches = [[make_run("pulling"), 0.5, "break"], ["break"], [make_run("complete")]]

    assert [run.state for run in client.watch("r1")] == [RunState.PULLING, RunState.COMPLETE]


def test_failures_come_from_all_pages(client, gateway):
    gateway.failures = [
        index_pb2.FileFailure(
            repository="acme/http", ref="main", path=f"{n}.c", state="failed", reason="r"
        )
        for n in range(5)
    ]

    found = list(client.failures("acme/http", include_skipped=True))

    assert [failure.path for failure in found] == [f"{n}.c" for n in range(5)]
    assert all(request.include_skipped for request in gateway.requests)
    assert {request.repository for request in gateway.requests} == {"acme/http"}


def test_status_and_repositories_carry_the_whole_picture(client, gateway):
    ref = index_pb2.RefStatus(ref="main", revision="c" * 40, files=3, chunks=9, indexed_at=5.0)
    gateway.repositories = [
        index_pb2.Repository(name="acme/http", url="https://x", default_ref="main", refs=[ref])
    ]

    status = client.status()

    assert (status.version, status.chunks, status.store) == ("1.2.3", 1234, "local")
    assert (status.queues[0].name, status.queues[0].workers) == ("parse", 2)
    assert status.runs[0].done == 4
    assert status.repositories == client.repositories()
    (repository,) = client.repositories()
    assert repository.repository.name == "acme/http"
    assert (repository.refs[0].indexed, repository.refs[0].chunks) == ("c" * 40, 9)


def test_absent_patterns_differ_from_empty_ones(client, gateway):
    client.index("https://x", wait=False)
    client.index("https://x", include=iter(["src/"]), exclude=[], wait=False)

    kept, given = gateway.requests
    assert not kept.HasField("include")
    assert not kept.HasField("exclude")
    assert list(given.include.patterns) == ["src/"]
    assert given.HasField("exclude")
    assert list(given.exclude.patterns) == []


@pytest.mark.parametrize("wrong", ["src/", [7], ["caf\udce9/"]])
def test_patterns_that_are_not_a_list_of_texts_are_refused(client, gateway, wrong):
    with pytest.raises(errors.InvalidQuery) as caught:
        client.index("https://x", include=wrong)

    assert caught.value.field == "include"
    assert gateway.requests == []


def test_a_run_or_its_id_can_be_cancelled(client, gateway):
    run = client.index("https://x", wait=False)

    assert client.cancel(run).state is RunState.CANCELLED
    assert client.cancel(run.id).state is RunState.CANCELLED
    assert [request.run_id for request in gateway.requests[1:]] == ["r1", "r1"]


def test_remove_and_retry_name_the_repository(client, gateway):
    client.remove("acme/http")
    runs = client.retry("acme/http")
    client.retry()

    assert [run.state for run in runs] == [RunState.PULLING]
    names = [getattr(r, "name", None) or getattr(r, "repository", "") for r in gateway.requests]
    assert names == ["acme/http", "acme/http", ""]


def test_a_refused_field_is_named(client, gateway, codes):
    gateway.fail(codes.INVALID_ARGUMENT, "there is no kind 'x'", field="filters.kinds")

    with pytest.raises(errors.InvalidQuery, match="there is no kind") as caught:
        client.search("x", kinds=["x"])

    assert caught.value.field == "filters.kinds"


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        ("INVALID_ARGUMENT", errors.InvalidQuery),
        ("NOT_FOUND", errors.NotFound),
        ("PERMISSION_DENIED", errors.Denied),
        ("UNAUTHENTICATED", errors.Unauthenticated),
        ("UNAVAILABLE", errors.Unavailable),
        ("DEADLINE_EXCEEDED", errors.TimedOut),
        ("RESOURCE_EXHAUSTED", errors.Busy),
        ("FAILED_PRECONDITION", errors.Corrupt),
        ("INTERNAL", errors.Corrupt),
    ],
)
def test_the_gateways_words_reach_the_caller(client, gateway, codes, code, kind):
    gateway.fail(getattr(codes, code), "redis is away")

    with pytest.raises(kind, match="redis is away"):
        client.search("x")


def test_text_that_is_not_valid_unicode_is_refused_with_the_reason(client):
    for call in (
        lambda: client.search("\udcff"),
        lambda: client.search("x", repositories=["\ud800"]),
        lambda: client.index("\ud800"),
        lambda: client.remove("\ud800"),
        lambda: client.graph("\ud800"),
    ):
        with pytest.raises(errors.InvalidQuery, match="is not valid Unicode text"):
            call()


def test_a_request_that_is_too_large_is_the_callers_to_change(client, gateway, codes):
    gateway.fail(codes.RESOURCE_EXHAUSTED, "SERVER: Received message larger than max (9 vs. 5)")

    with pytest.raises(errors.InvalidQuery, match="fewer or shorter values"):
        client.search("x")


def test_every_grpc_code_becomes_an_error_of_ours(client, gateway):
    for code in set(grpc.StatusCode) - {grpc.StatusCode.OK}:
        gateway.fail(code.value[0], "why")
        with pytest.raises(errors.CodelodeError):
            client.status()


def test_without_a_gateway_the_error_says_how_to_start_one(connect, closed_port):
    with (
        connect(f"127.0.0.1:{closed_port}") as client,
        pytest.raises(errors.Unavailable, match=r"no gateway at 127.*codelode up"),
    ):
        client.search("x")


def test_a_gateway_that_keeps_silent_is_timed_out(connect):
    with (
        socket.create_server(("127.0.0.1", 0)) as deaf,
        connect(f"127.0.0.1:{deaf.getsockname()[1]}", timeout_s=0.3) as client,
        pytest.raises(errors.TimedOut, match=r"within 0\.3 s"),
    ):
        client.status()


@pytest.mark.parametrize(
    "address", ["", "localhost", ":50051", "h:0", "h:99999", "h:x", "h:²", "http://h:1"]
)
@pytest.mark.parametrize("kind", [Client, AsyncClient])
def test_an_invalid_address_is_refused(kind, address):
    with pytest.raises(errors.InvalidSettings, match="HOST:PORT"):
        kind(address)


@pytest.mark.parametrize("top_k", [0, -1, 2**31])
def test_a_top_k_beyond_the_range_of_its_field_is_refused_by_name(client, top_k):
    with pytest.raises(errors.InvalidQuery) as caught:
        client.search("x", top_k=top_k)

    assert str(caught.value) == f"top_k: is {top_k:,}; it must be 1 to 200"


def test_client_and_gateway_refuse_a_number_in_the_same_words(client):
    asked = SimilarRequest(top_k=-1)
    with pytest.raises(errors.InvalidQuery) as here:
        client.similar("a.py", 1, top_k=asked.top_k)
    with pytest.raises(errors.InvalidQuery) as there:
        queries.similar_query(asked, queries.Narrowed(queries.NO_FILTERS, EVERYTHING, None))

    assert str(here.value) == str(there.value)
    assert {
        "top_k": queries.MAX_TOP_K,
        "depth": MAX_DEPTH,
        "limit": MAX_LIMIT,
        "budget_tokens": options.BOUNDS["assemble.budget_tokens"][1],
    } == request.MOST


def test_one_text_in_place_of_a_list_is_refused_by_name(client):
    with pytest.raises(errors.InvalidQuery, match=r"filters\.languages"):
        client.search("x", languages="python")


def test_is_serving_asks_the_health_service(client, connect, closed_port):
    assert client.is_serving()
    with connect(f"127.0.0.1:{closed_port}") as nobody:
        assert not nobody.is_serving()


def test_every_call_carries_the_token(gateway, connect):
    with connect(gateway.address, token="secret") as client:
        client.status()
        list(client.watch("r1"))

    assert gateway.tokens == ["Bearer secret"] * 2


@pytest.mark.parametrize(
    ("variables", "token"),
    [
        ({"CODELODE_TOKEN": "own"}, "own"),
        ({"CODELODE_TOKEN_FILE": "{file}"}, "of the file"),
        ({"CODELODE_TOKEN": "own", "CODELODE_TOKEN_FILE": "{file}"}, "own"),
    ],
    ids=["variable", "file", "variable before file"],
)
def test_a_client_without_a_token_sends_that_of_the_environment(
    gateway, connect, monkeypatch, tmp_path, variables, token
):
    file = tmp_path / "token"
    file.write_text("of the file\n")
    for name, value in variables.items():
        monkeypatch.setenv(name, value.format(file=file))

    with connect(gateway.address) as client:
        client.status()
    with connect(gateway.address, token="") as anonymous:
        anonymous.status()

    assert gateway.tokens == [f"Bearer {token}"]


@pytest.mark.parametrize("content", [None, "", " \n"], ids=["missing", "empty", "blank"])
def test_a_token_file_without_a_token_is_named(connect, monkeypatch, tmp_path, content):
    file = tmp_path / "token"
    if content is not None:
        file.write_text(content)
    monkeypatch.setenv("CODELODE_TOKEN_FILE", str(file))

    with pytest.raises(errors.InvalidSettings, match=str(file)):
        connect("127.0.0.1:1")


def test_both_clients_have_the_same_methods_with_the_same_arguments():
    def public(kind: type) -> dict[str, list[str]]:
        return {
            name: list(inspect.signature(method).parameters)
            for name, method in inspect.getmembers(kind, inspect.isfunction)
            if not name.startswith("_")
        }

    assert public(Client) == public(AsyncClient)


def test_every_method_has_a_docstring():
    methods = inspect.getmembers(Client, inspect.isfunction)

    assert [name for name, method in methods if name[0] != "_" and not inspect.getdoc(method)] == []


def test_there_is_a_call_for_every_method_of_the_api():
    services = [
        service
        for module in (search_pb2, graph_pb2, index_pb2, access_pb2)
        for service in module.DESCRIPTOR.services_by_name.values()
    ]
    methods = {
        f"/{service.full_name}/{method.name}": (method.input_type, method.output_type)
        for service in services
        for method in service.methods
    }
    made = (
        *(calls.search("q"), calls.context("q"), calls.similar("a.py", 1), calls.read("a.py")),
        *(calls.chunk_map(), calls.map_places([], []), calls.make_map([])),
        *(calls.folder(), calls.explain("a.py"), calls.grep("a")),
        *(calls.symbols("a"), calls.references("a"), calls.scopes()),
        *(calls.graph("a.py"), calls.start_run("https://x"), calls.watch_run("r1")),
        *(calls.cancel("r1"), calls.status(), calls.repositories(), calls.remove("n")),
        calls.set_default("n", "main"),
        calls.failures(None, "", include_skipped=False, include_partial=False),
        *(calls.retry(), calls.enrich(), calls.label("n", "public")),
        *(calls.create_key("k"), calls.keys(), calls.revoke_key("k")),
        *(calls.permissions(), calls.sync_permissions()),
        *(calls.sources(), calls.sync_sources()),
    )

    assert {
        one.method: (one.request.DESCRIPTOR, one.response.DESCRIPTOR) for one in made
    } == methods


def test_the_reference_names_every_method_filter_and_field():
    text = (Path(__file__).parents[2] / "docs/client.md").read_text()
    names = {name for name, _ in inspect.getmembers(Client, inspect.isfunction) if name[0] != "_"}
    fields = {field.name for kind in (Hit, SearchResult) for field in dataclasses.fields(kind)}
    only_with_options = {
        *("cached", "stages", "query_kind", "intent", "entities", "related", "imports", "files"),
        *("duplicates", "abstained", "unmatched", "tokens", "synonyms", "alternates", "hits"),
    }

    assert [name for name in names if f"`{name}(" not in text] == []
    for name in (fields - only_with_options) | set(Search.__annotations__):
        assert f"`{name}`" in text, name
