"""`codelode scopes` and its commands about the file."""

from __future__ import annotations

import json

import pytest

from codelode.scopes import schema
from codelode.v1 import search_pb2

PAYMENTS = search_pb2.Scope(
    name="payments",
    description="What moves money",
    repositories=["payments/api"],
    repository_count=1,
    refs=["HEAD", "v2"],
    paths=["src/**"],
)
LARGE = search_pb2.Scope(name="large", repositories=["a", "b", "c", "d"], repository_count=4)


def test_the_scopes_are_listed_with_their_contents(served, gateway):
    gateway.scopes = [LARGE, PAYMENTS]

    assert served("scopes").out.splitlines() == [
        "scope     repositories    refs     paths   description",
        "large     4 repositories",
        "payments  payments/api    HEAD v2  src/**  What moves money",
    ]


def test_json_has_all_fields_of_a_scope(served, gateway):
    gateway.scopes = [PAYMENTS]

    assert json.loads(served("scopes", "--json").out) == [
        {
            "name": "payments",
            "description": "What moves money",
            "repositories": ["payments/api"],
            "repository_count": 1,
            "refs": ["HEAD", "v2"],
            "paths": ["src/**"],
        }
    ]


def test_the_absence_of_scopes_is_reported(served):
    answer = served("scopes")

    assert (answer.status, answer.out) == (0, "")
    assert "no scope has a repository that you see: see CODELODE_SCOPES" in answer.err


def test_a_file_is_checked_without_a_cluster(codelode, tmp_path, monkeypatch):
    file = tmp_path / "scopes.yaml"
    file.write_text("scopes:\n  a: {repositories: [x/*, '!x/y'], paths: ['src/**']}\n")

    checked = codelode("scopes", "check", str(file))
    assert (checked.status, checked.out.splitlines()[1]) == (0, "a      x/* !x/y            src/**")
    monkeypatch.setenv("CODELODE_SCOPES", str(file))
    assert codelode("scopes", "check").out == checked.out
    file.write_text("scopes:\n  a: {path: [x]}\n")
    wrong = codelode("scopes", "check")
    assert wrong.status == 2
    assert f"{file}:2: 'a' has no field 'path'; it may have" in wrong.err
    monkeypatch.delenv("CODELODE_SCOPES")
    assert "name a file, or set CODELODE_SCOPES" in codelode("scopes", "check").err


def test_the_schema_is_printed(codelode):
    assert json.loads(codelode("scopes", "schema").out) == schema()


@pytest.mark.parametrize("command", ["search", "grep", "symbols", "references", "context"])
def test_commands_with_filters_take_a_scope(served, gateway, command):
    served(command, "retry", "--scope", "payments")

    [request] = gateway.requests
    filters = request.search.filters if command == "context" else request.filters
    assert filters.scope == "payments"
