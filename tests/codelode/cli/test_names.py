"""Commands that list names and their uses send the right request and show the answer."""

from __future__ import annotations

import json

import pytest

from codelode.cli import main
from codelode.v1 import search_pb2


@pytest.fixture
def run(gateway, capsys):
    def run(*args):
        with pytest.raises(SystemExit) as ended:
            main([*args, "--server", gateway.address])
        return ended.value.code, capsys.readouterr()

    return run


def test_definitions_are_printed_where_an_editor_finds_them(gateway, run):
    status, shown = run("symbols", "re*", "--kind", "method", "--limit", "5", "--repo", "acme/http")

    assert status == 0
    assert shown.out == "acme/http:src/retry.py:9: method Client.retry  def retry(self):\n"
    assert shown.err == "note: cut: raise --limit\n1 definition, 1.5 ms\n"
    [request] = gateway.requests
    assert (request.name, request.literal, request.limit) == ("re*", False, 5)
    assert (list(request.filters.kinds), list(request.filters.repositories)) == (
        ["method"],
        ["acme/http"],
    )


def test_the_definitions_of_a_name_are_those_of_exactly_this_name(gateway, run):
    status, shown = run("definitions", "operator*", "--json")

    assert (status, gateway.requests[0].literal) == (0, True)
    assert json.loads(shown.out)["symbols"][0]["name"] == "Client.retry"


def test_uses_are_printed_with_their_line_and_how_they_were_resolved(gateway, run):
    status, shown = run("references", "Client.retry", "-l", "js")

    assert status == 0
    assert shown.out == "acme/web:src/app.py:12: client.retry()\\x1b[31m  (imported)\n"
    assert list(gateway.requests[0].filters.languages) == ["js"]


def test_json_has_all_fields_of_a_use(run):
    _, shown = run("references", "Client.retry", "--json")

    [use] = json.loads(shown.out)["references"]
    assert use["definition"] == {
        "repository": "acme/http",
        "path": "src/retry.py",
        "symbol": "Client.retry",
        "line": 9,
    }
    assert (use["kind"], use["symbol"], use["confidence"]) == ("member", "start", "imported")


def use(**fields):
    return search_pb2.NameUse(
        **{
            "repository": "acme/web",
            "path": "src/app.py",
            "line": 12,
            "text": "client.retry()",
            "symbol": "start",
            "kind": "member",
            "confidence": "exact",
            **fields,
        }
    )


USES = [
    use(),
    use(line=30, text="return client.retry()"),
    use(symbol="", line=40, kind="call", text="retry()", confidence="imported"),
    use(path="src/base.py", symbol="Retry", kind="implementation", text="class Retry(Client):"),
    use(line=50, confidence="name"),
]


def test_callers_are_the_definitions_around_calls(gateway, run):
    gateway.uses = USES

    status, shown = run("callers", "Client.retry", "--limit", "7", "-l", "js")

    assert status == 0
    assert shown.out.splitlines() == [
        "acme/web:src/app.py:12: start  client.retry()  (and lines 30, 50)",
        "acme/web:src/app.py:40: (outside of definitions)  retry()  (imported)",
    ]
    assert shown.err == "note: cut: raise --limit\n2 callers, 1.5 ms\n"
    [request] = gateway.requests
    assert (request.name, request.limit) == ("Client.retry", 7)
    assert list(request.filters.languages) == ["js"]


def test_json_has_all_fields_of_a_caller(gateway, run):
    gateway.uses = USES[:2]

    _, shown = run("callers", "Client.retry", "--json")

    assert json.loads(shown.out) == {
        "callers": [
            {
                "repository": "acme/web",
                "path": "src/app.py",
                "symbol": "start",
                "lines": [12, 30],
                "text": "client.retry()",
                "confidence": "exact",
            }
        ],
        "notices": ["cut: raise `limit`"],
        "took_ms": 1.5,
        "coverage": [
            {
                "repository": "acme/http",
                "ref": "main",
                "revision": "a" * 40,
                "pending": 3,
                "failed": 1,
            }
        ],
    }


@pytest.mark.parametrize("command", ["symbols", "definitions", "references", "callers"])
def test_the_status_says_that_nothing_was_found(gateway, run, command):
    gateway.hits = []

    assert run(command, "retry")[0] == 1
