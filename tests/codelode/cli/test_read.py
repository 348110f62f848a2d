"""`codelode read`: the lines on standard output, what they are on standard error."""

from __future__ import annotations

import json

import pytest

from codelode.v1 import search_pb2


def test_lines_are_printed_with_their_source(served):
    answer = served("read", "src/retry.py:9-10", "--repo", "acme/http")

    assert answer.status == 0
    assert answer.out == "def retry(call):\n    \\x1b[31mcall()\n"
    assert answer.err == "acme/http src/retry.py at aaaaaaa: lines 9-10 of 12\n"


def test_the_rest_of_a_long_file_is_mentioned(served, gateway):
    gateway.is_long = True

    assert served("read", "src/retry.py").err == (
        "acme/http src/retry.py at aaaaaaa: lines 9-10 of 12; the rest: src/retry.py:11-12\n"
    )


@pytest.mark.parametrize(
    ("place", "path", "start", "end"),
    [
        ("src/a.py", "src/a.py", 0, 0),
        ("src/a.py:10", "src/a.py", 10, 10),
        ("src/a.py:10-20", "src/a.py", 10, 20),
        ("c:/a.py", "c:/a.py", 0, 0),
        ("odd:7:1-2", "odd:7", 1, 2),
        ("a\nb.py:3", "a\nb.py", 3, 3),
        ("src/a.py:", "src/a.py:", 0, 0),
    ],
)
def test_an_argument_gives_path_and_lines(served, gateway, place, path, start, end):
    served("read", place, "--ref", "next")

    assert gateway.requests == [
        search_pb2.ReadFileRequest(path=path, ref="next", start_line=start, end_line=end)
    ]


def test_json_has_all_of_the_answer(served):
    found = json.loads(served("read", "src/retry.py", "--json").out)

    assert found["content"] == "def retry(call):\n    \x1b[31mcall()"
    assert (found["start_line"], found["end_line"], found["line_count"]) == (9, 10, 12)


def test_a_file_that_is_not_indexed_is_an_error(served, gateway):
    gateway.fail(5, "acme/http holds no indexed file 'gone.py' at this ref")

    answer = served("read", "gone.py")

    assert (answer.status, answer.out) == (2, "")
    assert "holds no indexed file 'gone.py'" in answer.err


@pytest.mark.parametrize("place", ["a.py:0", "a.py:00-3"])
def test_lines_are_counted_from_one(served, gateway, place):
    answer = served("read", place)

    assert (answer.status, gateway.requests) == (2, [])
    assert "lines are counted from 1" in answer.err


def test_an_empty_path_is_refused(served):
    answer = served("read", "")

    assert answer.status == 2
    assert "is not a path, for example src/a.py" in answer.err
