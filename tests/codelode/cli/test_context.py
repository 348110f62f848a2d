"""`codelode context`, `explain` and `similar`."""

from __future__ import annotations

import io
import json

import pytest

from codelode.v1 import search_pb2


def test_a_context_is_its_text_and_the_rest_goes_to_stderr(served, gateway):
    answer = served("context", "retry", "--tokens", "4000", "--repo", "acme/http")

    assert (answer.status, answer.out) == (0, "### src/retry.py:9-11\n\n")
    assert "1,234 tokens, 1 of 1 hit left out" in answer.err
    assert "note: no summaries" in answer.err
    asked = gateway.requests[0].search
    assert list(asked.filters.repositories) == ["acme/http"]
    assert asked.options.assemble.budget_tokens == 4_000
    assert asked.options.assemble.reserved_tokens == 1_000


@pytest.mark.parametrize(
    ("given", "budget", "reserved"),
    [
        ([], 8_000, 2_000),
        (["--tokens", "4000"], 4_000, 1_000),
        (["--set", "assemble.budget_tokens=500"], 500, 125),
        (["--tokens", "4000", "--set", "assemble.budget_tokens=500"], 500, 125),
        (["--tokens", "4000", "--set", "assemble.reserved_tokens=0"], 4_000, 0),
    ],
)
def test_a_budget_that_is_set_by_its_name_wins(served, gateway, given, budget, reserved):
    assert served("context", "retry", *given).status == 0

    assemble = gateway.requests[0].search.options.assemble
    assert (assemble.budget_tokens, assemble.reserved_tokens) == (budget, reserved)


def test_a_budget_that_is_not_a_number_is_refused_by_name(served, gateway):
    answer = served("context", "retry", "--set", "assemble.budget_tokens=many")

    assert answer.status == 2
    assert "--tokens (assemble.budget_tokens): 'many' is not a whole number below" in answer.err
    assert gateway.requests == []


def test_an_empty_context_exits_with_status_one(served, gateway):
    gateway.hits = []

    answer = served("context", "retry")

    assert (answer.status, answer.out) == (1, "")


def test_a_context_can_be_printed_as_json(served):
    found = json.loads(served("context", "retry", "--json").out)

    assert found == {
        "text": "### src/retry.py:9-11\n",
        "tokens": 1234,
        "left_out": 1,
        "notices": ["no summaries"],
        "coverage": [],
    }


def test_explain_tells_definitions_and_neighbours(served, gateway):
    answer = served("explain", "src/retry.py", "--repo", "acme/http")

    assert answer.out.splitlines() == [
        "src/retry.py retries calls.",
        "method     Client.retry  acme/http src/retry.py:9-11",
        "imports     src/clock.py",
        "imported by src/client.py",
        "tested by   tests/test_retry.py",
    ]
    assert answer.err == "note: no graph\n"
    assert gateway.requests[0].subject == "src/retry.py"


def test_an_explanation_can_be_printed_as_json(served):
    found = json.loads(served("explain", "x", "--json").out)

    assert found["definitions"][0]["signature"] == "def retry(self):"
    assert found["tests"] == ["tests/test_retry.py"]
    assert found["notices"] == ["no graph"]


def test_similar_shows_hits_as_search_does(served, gateway):
    answer = served("similar", "src/a:b.py:42", "--repo", "acme/http", "--in", "acme/web")

    assert answer.status == 0
    assert answer.out.startswith("acme/http src/retry.py:9-11  Client.retry")
    (request,) = gateway.requests
    assert (request.path, request.line, request.repository) == ("src/a:b.py", 42, "acme/http")
    assert list(request.filters.repositories) == ["acme/web"]


def test_a_place_without_a_line_is_refused(served, gateway):
    for place in ("src/a.py", ":4", "src/a.py:x"):
        answer = served("similar", place)

        assert answer.status == 2
        assert "PATH:LINE" in answer.err
    assert gateway.requests == []


def test_similar_searches_inside_the_filters(served, gateway):
    served(
        *("similar", "a.py:1", "--in", "a", "--not-repo", "b", "-l", "go", "--not-lang", "c"),
        *("--path", "src/**", "--not-path", "src/gen/**", "--kind", "function"),
        *("--symbol", "get*", "--category", "source", "--block-type", "job"),
    )

    (request,) = gateway.requests
    assert request.filters == search_pb2.Filters(
        repositories=["a"],
        languages=["go"],
        paths=["src/**"],
        kinds=["function"],
        symbols=["get*"],
        categories=["source"],
        block_types=["job"],
        not_repositories=["b"],
        not_languages=["c"],
        not_paths=["src/gen/**"],
    )


def test_similar_reads_a_snippet_from_standard_input(served, gateway, monkeypatch):
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"def retry(): ...")))

    answer = served("similar", "-", "--in", "acme/http")

    assert answer.status == 0
    [request] = gateway.requests
    assert (request.snippet, request.path, request.line) == ("def retry(): ...", "", 0)
    assert list(request.filters.repositories) == ["acme/http"]
