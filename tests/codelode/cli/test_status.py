"""`codelode repos`, `status`, `settings`."""

from __future__ import annotations

import json
import re

import pytest

from codelode.settings import Settings
from codelode.v1 import index_pb2


@pytest.fixture
def repository():
    ref = index_pb2.RefStatus(ref="main", revision="e" * 40, files=3, chunks=9, indexed_at=5.0)
    return index_pb2.Repository(
        name="acme/http", url="https://x/http.git", default_ref="main", refs=[ref]
    )


def test_repos_lists_what_is_indexed(served, gateway, repository):
    gateway.repositories = [repository, index_pb2.Repository(name="new", url="https://x/new")]

    head, http, new = served("repos").out.splitlines()

    assert head.split()[:3] == ["repository", "ref", "commit"]
    assert http.split()[:5] == ["acme/http", "main", "eeeeeeeeeeee", "3", "9"]
    assert new.split()[0] == "new"


def test_repos_shows_patterns_as_they_are_typed(served, gateway, repository):
    repository.include.append("src/")
    repository.exclude.extend(["*.snap", "!a b"])
    gateway.repositories = [repository]

    _, line = served("repos").out.splitlines()
    (as_json,) = json.loads(served("repos", "--json").out)

    assert line.endswith("--include src/ --exclude '*.snap' --exclude '!a b'")
    assert as_json["patterns"] == {"include": ["src/"], "exclude": ["*.snap", "!a b"]}
    state = json.loads(served("status", "--json").out)
    assert state["repositories"] == [as_json]


def test_repos_of_an_empty_index_says_what_to_do(served):
    answer = served("repos")

    assert (answer.status, answer.out) == (0, "")
    assert "codelode index" in answer.err


def test_status_shows_runs_queues_and_totals(served, gateway, repository):
    gateway.repositories = [repository]

    out = served("status").out

    assert "codelode 1.2.3: 1,234 chunks, local, static-256" in out
    assert "4/10" in out
    assert "parse  6         2" in out


def test_status_says_whether_store_and_models_answer(served, gateway):
    gateway.servers = [
        index_pb2.Server(role="store", name="weaviate"),
        index_pb2.Server(role="embedder", problem="Ollama at http://x does not answer"),
    ]

    lines = served("status").out.splitlines()
    at = next(number for number, line in enumerate(lines) if line.startswith("server "))
    assert lines[at + 1].split() == ["store", "weaviate", "answers"]
    assert lines[at + 2].split(maxsplit=2) == [
        *("embedder", "-", "Ollama at http://x does not answer")
    ]
    assert json.loads(served("status", "--json").out)["servers"][1]["name"] == ""


def test_status_shows_the_disk_use(served, gateway):
    gateway.disk = [
        index_pb2.DiskPart(part="index: vectors", size_bytes=1_250_000_000, measured_at=5.0),
        index_pb2.DiskPart(part="index", size_bytes=-1, measured_at=5.0),
    ]

    lines = served("status").out.splitlines()
    at = next(number for number, line in enumerate(lines) if line.startswith("disk "))
    assert lines[at + 1].startswith("index: vectors  1.2 GB ")
    assert lines[at + 2].split()[:2] == ["index", "unknown"]
    assert json.loads(served("status", "--json").out)["disk"][1]["size_bytes"] == -1


def test_status_sums_the_health_of_each_language(served, gateway, repository):
    go = index_pb2.LanguageHealth(language="go", ok=2, partial=1)
    c = index_pb2.LanguageHealth(language="c", ok=1, unsupported=7)
    repository.refs[0].health.extend([go, c])
    other = index_pb2.Repository(name="b", refs=[index_pb2.RefStatus(ref="main", health=[go])])
    gateway.repositories = [repository, other]

    lines = [line.split() for line in served("status").out.splitlines()]

    at = lines.index(["language", "files", "ok", "partial", "error", "unsupported"])
    assert lines[at + 1] == ["c", "8", "1", "0", "0", "7"]
    assert lines[at + 2] == ["go", "6", "4", "2", "0", "0"]


@pytest.mark.parametrize(
    ("state", "missing", "shown"),
    [
        ("complete", 0, "complete"),
        ("complete", 1, "complete without 1 summary"),
        ("complete", 303, "complete without 303 summaries"),
        ("indexing", 303, "indexing"),
    ],
)
def test_status_says_how_many_summaries_a_run_ended_without(
    served, gateway, make_run, state, missing, shown
):
    gateway.runs = [make_run(state, total=7, done=7, summaries=5, summaries_missing=missing)]

    line = next(line for line in served("status").out.splitlines() if line.startswith("r1"))
    (run,) = json.loads(served("status", "--json").out)["runs"]

    assert re.split(r"\s{2,}", line)[2:5] == ["HEAD", shown, "7/7"]
    assert (run["state"], run["summaries"], run["summaries_missing"]) == (state, 5, missing)


def test_status_says_what_a_run_waits_for(served, gateway, make_run):
    gateway.runs = [make_run("indexing", total=7, waits_for="Weaviate does not answer")]

    line = next(line for line in served("status").out.splitlines() if line.startswith("r1"))
    (run,) = json.loads(served("status", "--json").out)["runs"]

    assert line.endswith("Weaviate does not answer")
    assert (run["waits_for"], run["error"]) == ("Weaviate does not answer", "")


def test_status_as_json_is_one_object(served, gateway, repository):
    gateway.repositories = [repository]

    state = json.loads(served("status", "--json").out)

    assert (state["chunks"], state["store"]) == (1234, "local")
    assert state["queues"] == [{"name": "parse", "messages": 6, "workers": 2}]
    assert state["repositories"][0]["refs"][0]["revision"] == "e" * 40
    assert state["runs"][0]["state"] == "indexing"


@pytest.mark.parametrize("form", [[], ["--markdown"]], ids=["table", "markdown"])
def test_settings_lists_every_variable_with_its_meaning(codelode, form):
    answer = codelode("settings", *form)

    assert answer.status == 0
    for name, field in Settings.model_fields.items():
        assert f"CODELODE_{name.upper()}" in answer.out
        assert (field.description or "?") in answer.out


def test_settings_gives_bounds_and_choices(codelode):
    out = codelode("settings").out

    assert "1 to 10,000" in out
    assert "auto | json | console" in out
