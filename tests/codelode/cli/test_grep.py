"""`codelode grep`: lines on standard output as grep prints them, a summary on standard error."""

from __future__ import annotations

import json

import pytest

from codelode.v1 import search_pb2

Line, Span = search_pb2.MatchingLine, search_pb2.MatchSpan
LINES = [
    Line(number=8, text="def retry(call):"),
    Line(number=9, text="    return call()", is_match=True, spans=[Span(start=11, end=15)]),
    Line(number=20, text="\x1b[31mcall", is_match=True, truncated=True),
]


@pytest.fixture
def matches(gateway):
    gateway.matches = [
        search_pb2.MatchingFile(
            repository="acme/http", path="src/retry.py", language="python", count=2, lines=LINES
        ),
        search_pb2.MatchingFile(repository="acme/web", path="a\n.js", count=1, lines=[LINES[1]]),
    ]
    return gateway


def test_lines_are_printed_with_repository_path_and_number(served, matches):
    answer = served("grep", "call")

    assert answer.status == 0
    assert answer.out.split("\n") == [
        "acme/http:src/retry.py-8-def retry(call):",
        "acme/http:src/retry.py:9:    return call()",
        "--",
        r"acme/http:src/retry.py:20:\x1b[31mcall…",
        "--",
        r"acme/web:'a\n.js':9:    return call()",
        "",
    ]
    assert answer.err == "3 lines in 2 files of 7 read, 1.5 ms\n"


def test_lines_of_one_repository_are_printed_as_grep_does(served, matches):
    answer = served("grep", "call", "--repo", "acme/http")

    assert answer.out.split("\n")[1] == "src/retry.py:9:    return call()"


@pytest.mark.parametrize(
    ("option", "printed"),
    [
        ("-l", ["acme/http:src/retry.py", r"acme/web:'a\n.js'"]),
        ("-c", ["acme/http:src/retry.py:2", r"acme/web:'a\n.js':1"]),
    ],
)
def test_only_files_or_counts_are_printed(served, matches, option, printed):
    answer = served("grep", "call", option)

    assert answer.out.split() == printed
    (request,) = matches.requests
    assert (request.without_lines, request.limit) == (True, 100_000)
    assert request.limit_per_file == (1 if option == "-l" else 0)


def test_options_reach_the_gateway(served, matches):
    served("grep", "-FiwU", "a.b", "-A", "1", "-B", "2", "-m", "3", "--limit", "9", "--lang", "go")
    served("grep", "x", "-C", "4", "--ref", "v2")

    first, second = matches.requests
    assert first == search_pb2.GrepRequest(
        pattern="a.b",
        literal=True,
        ignore_case=True,
        whole_word=True,
        multiline=True,
        after_lines=1,
        before_lines=2,
        limit=9,
        limit_per_file=3,
        filters=search_pb2.Filters(languages=["go"]),
    )
    assert (second.before_lines, second.after_lines, second.limit) == (4, 4, 1_000)
    assert second.filters.ref == "v2"


def test_json_is_one_object_with_the_matches_and_the_summary(served, matches):
    found = json.loads(served("grep", "call", "--json").out)

    assert [one["path"] for one in found["matches"]] == ["src/retry.py", "a\n.js"]
    assert found["matches"][0]["lines"][1]["spans"] == [{"start": 11, "end": 15}]
    assert found["summary"]["count"] == 3


def test_the_status_is_1_if_nothing_is_found_and_a_stop_is_reported(served, gateway):
    gateway.is_long = True

    answer = served("grep", "nowhere")

    assert (answer.status, answer.out) == (1, "")
    assert answer.err == "note: stopped\n0 lines in 0 files of 7 read, 1.5 ms\n"


def test_a_pattern_that_the_gateway_refuses_is_an_error(served, gateway):
    gateway.fail(3, "pattern: is not a regular expression")

    answer = served("grep", "(")

    assert (answer.status, answer.out) == (2, "")
    assert "is not a regular expression" in answer.err
