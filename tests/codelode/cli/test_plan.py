"""`codelode plan` against a canned gateway."""

from __future__ import annotations

import json

import pytest

from codelode.v1 import index_pb2

ESTIMATE = index_pb2.Estimate(
    languages=[
        index_pb2.LanguageEstimate(
            language="python", files=120, size_bytes=840_000, chunks=1_100, tokens=290_000
        ),
        index_pb2.LanguageEstimate(
            language="markdown", files=3, size_bytes=9_000, chunks=12, tokens=3_000
        ),
    ],
    skipped=[index_pb2.SkippedFiles(reason="vendored", files=2_040)],
    removals=1,
    sampled=123,
    seconds=4.0,
)


@pytest.fixture
def planned(gateway, make_run):
    gateway.watches = [[make_run("planned", revision="d" * 40, estimate=ESTIMATE)]]
    return gateway


def starts(gateway):
    return [one for one in gateway.requests if isinstance(one, index_pb2.StartRunRequest)]


def test_a_plan_is_shown_as_tables_by_language_and_by_reason(served, planned):
    answer = served("plan", "https://x/http.git", "--ref", "v1", "--exclude", "gen/")

    assert answer.status == 0
    assert answer.out == (
        "acme/http  HEAD  at dddddddddddd\n"
        "  123 files, 1 file to remove, about 1,112 chunks, 293,000 tokens, "
        "about 4 s (3 s to 5 s)\n"
        "\n"
        "  language  files  bytes    chunks  tokens\n"
        "  python    120    840,000  1,100   290,000\n"
        "  markdown  3      9,000    12      3,000\n"
        "\n"
        "  skipped because  files\n"
        "  vendored         2,040\n"
    )
    (start,) = starts(planned)
    assert (start.url, start.ref, start.plan_only) == ("https://x/http.git", "v1", True)
    assert list(start.exclude.patterns) == ["gen/"]
    assert not start.HasField("include")


def test_plan_accepts_registered_names_and_paths_and_totals_all_of_them(served, planned, make_run):
    planned.repositories = [
        index_pb2.Repository(name="acme/http", url="https://x/http.git"),
        index_pb2.Repository(name="acme/tls", url="/srv/tls"),
    ]
    planned.watches *= 4
    assert served("plan", "acme/tls").status == 0
    assert served("plan", "/srv/tls").status == 0
    answer = served("plan", "--all", "--embedding-price", "10")
    assert answer.out.endswith(
        "\nall  246 files, 2 files to remove, about 2,224 chunks, 586,000 tokens, "
        "about 8 s (7 s to 10 s), cost 5.86\n"
    )
    assert [(one.url, one.name) for one in starts(planned)] == [
        ("/srv/tls", "acme/tls"),
        ("/srv/tls", "acme/tls"),
        ("https://x/http.git", "acme/http"),
        ("/srv/tls", "acme/tls"),
    ]


def test_an_unknown_name_is_reported_and_the_others_are_planned(served, planned):
    planned.repositories = [index_pb2.Repository(name="acme/tls", url="/srv/tls")]

    answer = served("plan", "acme/htp", "acme/tls")

    assert answer.status == 2
    assert answer.err.splitlines()[0] == (
        "codelode: acme/htp: acme/htp is neither the name of a repository (`codelode repos` lists "
        "them) nor a path on this machine; for a new repository, give its URL or path"
    )
    assert [one.name for one in starts(planned)] == ["acme/tls"]


def test_a_plan_can_use_a_name_that_is_not_taken(served, planned):
    planned.repositories = [index_pb2.Repository(name="http", url="https://x/http.git")]
    assert served("plan", "https://x/http.git", "--name", "other").status == 0
    assert [(one.url, one.name) for one in starts(planned)] == [("https://x/http.git", "other")]
    assert "--name is the name of one" in served("plan", "a", "b", "--name", "n").err


def test_the_time_follows_recent_runs_if_the_speed_of_the_embedder_is_unknown(
    served, gateway, make_run
):
    unknown = index_pb2.Estimate()
    unknown.CopyFrom(ESTIMATE)
    unknown.seconds = 0.0
    gateway.watches = [[make_run("planned", estimate=unknown)]] * 2
    (usual,) = json.loads(served("plan", "https://x/http.git", "--json").out)["plans"]
    assert usual["seconds_are_measured"] is False
    assert (usual["seconds_least"], usual["seconds_most"]) == (1.4, 5.8)
    gateway.runs = [
        make_run("complete", total=500, done=500, started_at=10.0, finished_at=30.0),
        make_run("complete", total=3, done=3, started_at=10.0, finished_at=30.0),
        make_run("failed", total=500, done=500, started_at=10.0, finished_at=11.0),
    ]
    answer = served("plan", "https://x/http.git", "--json")
    (plan,) = json.loads(answer.out)["plans"]
    assert plan["seconds_are_measured"] is True
    # 500 files with 4 chunks each took 19.4 s, so 124 files with 1,112 chunks take 7.7 s.
    assert plan["seconds"] == pytest.approx(8.3, abs=0.1)
    assert plan["seconds_least"] == pytest.approx(6.9, abs=0.1)
    assert plan["seconds_most"] == pytest.approx(9.9, abs=0.1)
    assert (plan["files"], plan["chunks"], plan["tokens"]) == (123, 1_112, 293_000)
    assert plan["skipped"] == [{"reason": "vendored", "files": 2_040}]
    assert plan["languages"][1]["language"] == "markdown"


def test_other_runs_widen_the_bounds_of_an_estimate(served, planned, make_run):
    planned.runs = [make_run("indexing", total=100_000, done=10)]
    (beside,) = json.loads(served("plan", "https://x/http.git", "--json").out)["plans"]
    assert beside["seconds"] == 8.0
    assert beside["seconds_least"] < 4.0 < 400.0 < beside["seconds_most"]


def test_a_failed_plan_ends_with_its_reason_and_the_others_are_shown(served, gateway, make_run):
    gateway.watches = [
        [make_run("failed", error="there is no branch 'x'")],
        [make_run("planned", estimate=ESTIMATE)],
    ]
    answer = served("plan", "https://x/a.git", "https://x/b.git")
    assert answer.status == 2
    assert "acme/http: there is no branch 'x'" in answer.err
    assert "123 files" in answer.out


def test_an_estimate_without_a_sample_is_marked(served, gateway, make_run):
    guessed = index_pb2.Estimate(languages=ESTIMATE.languages)
    gateway.watches = [[make_run("planned", estimate=guessed)]]
    assert "those of average code" in served("plan", "https://x/a.git").out


@pytest.mark.parametrize("arguments", [[], ["--all", "acme/http"]])
def test_either_repositories_or_all_of_them_are_named(served, arguments):
    answer = served("plan", *arguments)
    assert answer.status == 2
    assert "or --all for every repository" in answer.err
