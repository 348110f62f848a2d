"""`codelode ls`: the entries of a folder on standard output, a summary on standard error."""

from __future__ import annotations

import json

import pytest

from codelode.v1 import search_pb2

Entry = search_pb2.FolderEntry


@pytest.fixture
def folder(gateway):
    gateway.entries = [
        Entry(name="api", is_folder=True),
        Entry(name="a.py", state="indexed", language="python"),
        Entry(name="bad\n.js", state="failed"),
        Entry(name="logo.png", state="skipped"),
        Entry(name="new.py", state="pending"),
    ]
    return gateway


def test_entries_of_all_pages_are_printed_as_paths(served, folder):
    answer = served("ls", "src", "--repo", "acme/http")

    assert answer.status == 0
    assert answer.out.split("\n") == [
        "src/api/",
        "src/a.py",
        r"'src/bad\n.js'  (failed)",
        "src/logo.png  (skipped)",
        "src/new.py  (pending)",
        "",
    ]
    assert answer.err == "acme/http src at aaaaaaa: 1 folder, 4 files\n"
    assert [one.page_token for one in folder.requests] == ["", "2", "4"]
    assert {one.repository for one in folder.requests} == {"acme/http"}


def test_without_a_folder_the_root_is_listed(served, gateway):
    answer = served("ls", "--ref", "v2")

    assert (answer.out, answer.err) == ("retry.py\n", "acme/http / at aaaaaaa: 0 folders, 1 file\n")
    assert gateway.requests == [search_pb2.ListFilesRequest(ref="v2")]


def test_json_has_the_entries_of_all_pages(served, folder):
    found = json.loads(served("ls", "src", "--json").out)

    assert [one["name"] for one in found["entries"]] == [one.name for one in folder.entries]
    assert (found["path"], found["entry_count"], found["next_page_token"]) == ("src", 5, "")


def test_an_empty_repository_prints_nothing(served, gateway):
    gateway.entries = []

    answer = served("ls")

    assert (answer.status, answer.out) == (0, "")
    assert answer.err.endswith(": 0 folders, 0 files\n")


def test_a_missing_folder_is_an_error(served, gateway):
    gateway.fail(5, "acme/http has no folder 'gone' at the ref main")

    answer = served("ls", "gone")

    assert (answer.status, answer.out) == (2, "")
    assert "has no folder 'gone'" in answer.err
