"""`codelode demo`: its questions and what it refuses."""

from __future__ import annotations

import pytest

from codelode.cli import demo
from codelode.client import Client
from codelode.errors import NotFound
from codelode.model import Run, RunState
from codelode.v1 import index_pb2

RUN = Run(id="r1", repository="acme/http", ref="HEAD", state=RunState.COMPLETE)


@pytest.fixture
def client(gateway):
    with Client(gateway.address) as connected:
        yield connected


def test_codelode_itself_gets_its_own_demo_questions(client, gateway):
    gateway.answer = lambda request: (
        gateway.hits if list(request.filters.paths) == ["codelode/model.py"] else []
    )

    assert demo._questions(client, RUN) == demo.OWN_QUESTIONS


def test_the_reason_of_a_failed_file_is_shown(client, gateway, make_run, capsys):
    gateway.watches = [[make_run("complete", total=2, done=1, failed=1)]]
    gateway.repositories = [index_pb2.Repository(name="acme/http", default_ref="main")]
    gateway.failures = [
        index_pb2.FileFailure(
            repository="acme/http", ref="main", path="a.py", state="failed", reason="took too long"
        )
    ]

    demo._index(client, "https://x/http.git")

    assert "acme/http main a.py  failed: took too long\n" in capsys.readouterr().err


def test_another_repository_is_asked_about_a_name_it_has(client, gateway):
    gateway.answer = lambda request: [] if request.filters.paths else gateway.hits

    questions = demo._questions(client, RUN)

    assert [question.query for question in questions] == [
        "what is http for",
        "retry",
        "where is retry used",
    ]


def test_a_repository_without_symbols_is_asked_about_its_name(client, gateway):
    gateway.hits = []

    assert demo._questions(client, RUN)[1].query == "http"


def test_one_search_without_a_hit_is_a_failure(client, gateway):
    gateway.hits = []

    with pytest.raises(NotFound, match="nothing found by `codelode search q --top"):
        demo._search(client, (demo.Question("q"),))


def test_hits_are_shown_under_the_command_that_finds_them(client, capsys):
    demo._search(client, (demo.Question("how to retry", ("src/**",)),))

    out = capsys.readouterr().out
    assert "$ codelode search 'how to retry' --path 'src/**' --top-k 3" in out
    assert "acme/http src/retry.py:9-11" in out


def test_the_checkout_that_holds_the_folder_is_indexed(tmp_path):
    (tmp_path / ".git").mkdir()
    (tmp_path / "a" / "b").mkdir(parents=True)

    assert demo._checkout(tmp_path / "a" / "b") == tmp_path


def test_outside_of_a_checkout_a_repository_has_to_be_named(codelode, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    answer = codelode("demo")

    assert answer.status == 2
    assert "codelode demo URL_OR_PATH" in answer.err


def test_a_repository_that_cannot_be_indexed_is_named_before_a_cluster_starts(codelode, tmp_path):
    answer = codelode("demo", str(tmp_path / "nowhere"))

    assert answer.status == 2
    assert answer.err.startswith("codelode: URL_OR_PATH: there is no folder ")
    assert answer.err.count("\n") == 1
