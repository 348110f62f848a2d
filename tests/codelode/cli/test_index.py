"""`codelode index`, `retry`, `cancel`, `remove`, `failures`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from codelode.client import watching
from codelode.client.locator import locator
from codelode.v1 import index_pb2


@pytest.fixture
def failed_file():
    return index_pb2.FileFailure(
        repository="acme/http", ref="main", path="x.cob", state="failed", reason="took\ntoo long"
    )


def test_index_prints_the_run_and_returns(served, gateway):
    answer = served("index", "https://x/http.git", "--name", "acme/http", "--ref", "v1")

    assert (answer.status, answer.out) == (0, "acme/http  pulling  run r1\n")
    (start,) = gateway.requests
    assert (start.url, start.name, start.ref) == ("https://x/http.git", "acme/http", "v1")


@pytest.mark.parametrize(
    ("options", "include", "exclude"),
    [
        ([], None, None),
        (["--include", "src/", "--include", "*.md"], ["src/", "*.md"], None),
        (["--exclude", "gen/", "--exclude", "!gen/api/"], None, ["gen/", "!gen/api/"]),
        (["--no-patterns"], [], []),
        (["--no-patterns", "--include", "src/"], ["src/"], []),
    ],
)
def test_index_sends_the_patterns_that_are_given_and_no_others(
    served, gateway, options, include, exclude
):
    assert served("index", "https://x/http.git", "https://x/tls.git", *options).status == 0

    for request in gateway.requests:
        sent = [
            list(getattr(request, side).patterns) if request.HasField(side) else None
            for side in ("include", "exclude")
        ]
        assert sent == [include, exclude]
    assert len(gateway.requests) == 2


def test_index_with_wait_shows_progress_and_the_end(served, gateway, make_run):
    gateway.watches = [
        [
            make_run("pulling"),
            make_run("indexing", total=4, done=1),
            make_run(
                "complete",
                **{"total": 4, "done": 3, "failed": 1, "skipped": 2, "revision": "d" * 40},
                **{"started_at": 10.0, "finished_at": 12.5},
            ),
        ]
    ]

    answer = served("index", "https://x/http.git", "--wait")

    assert answer.status == 0
    assert answer.out == (
        "acme/http  complete  3 files, 2 skipped, 1 failed  at dddddddddddd  in 2.5 s  run r1\n"
    )
    assert "pulling" in answer.err
    assert "[######------------------]  1/4 files" in answer.err


def test_index_with_wait_shows_why_files_have_failed(served, gateway, make_run, failed_file):
    gateway.repositories = [index_pb2.Repository(name="acme/http", default_ref="main")]
    gateway.watches = [[make_run("complete", total=4, done=3, failed=1)]]
    gateway.failures = [failed_file]
    one = served("index", "https://x/http.git", "--wait")
    gateway.watches = [[make_run("complete", total=4, failed=4)]]
    gateway.failures = [failed_file] * 4
    four = served("index", "https://x/http.git", "--wait")

    line = "acme/http main x.cob  failed: took too long\n"
    assert one.err.endswith(f"1 failed\n{line}")
    assert four.err.endswith(
        f"4 failed\n{line * 3}`codelode failures acme/http` lists all 4 failed files\n"
    )


@pytest.mark.parametrize(
    ("ref", "shown"),
    [("HEAD", "main b.py"), ("v1", "v1 c.py"), ("dddd", f"{'d' * 40} e.py")],
    ids=["default", "tag", "commit"],
)
def test_index_with_wait_shows_failures_of_its_own_ref_alone(served, gateway, make_run, ref, shown):
    gateway.repositories = [
        index_pb2.Repository(name="acme/other", default_ref="dev"),
        index_pb2.Repository(name="acme/http", default_ref="main"),
    ]
    gateway.failures = [
        index_pb2.FileFailure(
            repository="acme/http", ref=failed, path=path, state="failed", reason="why"
        )
        for failed, path in [
            *[("dev", f"a{n}.py") for n in range(3)],
            ("main", "b.py"),
            ("v1", "c.py"),
            ("d" * 40, "e.py"),
        ]
    ]
    end = make_run(
        "complete", ref=ref, revision="d" * 40 if ref == "dddd" else "", total=1, failed=1
    )
    gateway.watches = [[end]]

    answer = served("index", "https://x/http.git", "--wait")

    assert answer.err.endswith(f"1 failed\nacme/http {shown}  failed: why\n")


@pytest.mark.parametrize(
    ("missing", "shown"),
    [(1, "complete without 1 summary"), (303, "complete without 303 summaries")],
)
def test_a_run_without_all_its_summaries_says_how_many(served, gateway, make_run, missing, shown):
    gateway.watches = [[make_run("complete", total=98, done=98, summaries_missing=missing)]]

    answer = served("index", "https://x/http.git", "--wait")

    assert answer.status == 0
    assert answer.out == f"acme/http  {shown}  98 files, 0 skipped, 0 failed  run r1\n"
    assert f"acme/http  {shown}  [########################]  98/98 files" in answer.err
    assert "`codelode enrich acme/http` writes the missing summaries\n" in answer.err


def test_the_reason_why_a_run_waits_is_printed_once(served, gateway, make_run):
    ollama, weaviate = "Ollama does not answer", "Weaviate does not answer: start it"
    reasons = [weaviate, weaviate, ollama, weaviate, "", weaviate]
    seen = [make_run("indexing", total=4, done=1, waits_for=reason) for reason in reasons]
    gateway.watches = [[*seen, make_run("complete", total=4, done=4)]]

    answer = served("index", "https://x/http.git", "--wait")

    # Weaviate's twice: it was away, came back, and was away again.
    told = [line for line in answer.err.splitlines() if "waits" in line]
    assert told == [f"acme/http waits: {reason}" for reason in (weaviate, ollama, weaviate)]
    assert "waits" not in answer.out


def test_a_run_that_fails_gives_the_reason_and_status_two(served, gateway, make_run):
    gateway.watches = [[make_run("failed", error="fatal: repository 'x' not found\nhm")]]

    answer = served("index", "https://x/http.git", "--wait")

    assert answer.status == 2
    assert "codelode: acme/http: fatal: repository 'x' not found hm\n" in answer.err


def test_a_refused_repository_does_not_stop_the_others(served, gateway, codes):
    gateway.fail(codes.INVALID_ARGUMENT, "is refused", field="url")

    answer = served("index", "ext::sh", "https://x/http.git")

    assert answer.status == 2
    assert answer.err == (
        "codelode: ext::sh: URL_OR_PATH: is refused\n"
        "codelode: https://x/http.git: URL_OR_PATH: is refused\n"
    )


def test_a_local_path_is_sent_absolute(served, gateway, tmp_path, monkeypatch):
    (tmp_path / "project").mkdir()
    monkeypatch.chdir(tmp_path)

    served("index", "project", ".", "../" + tmp_path.name + "/project")

    absolute = str(tmp_path.resolve() / "project")
    sent = [request.url for request in gateway.requests]
    assert sent == [absolute, str(tmp_path.resolve()), absolute]


def test_a_file_is_sent_as_a_path_too(tmp_path, monkeypatch):
    (tmp_path / "notes").touch()
    monkeypatch.chdir(tmp_path)

    assert locator("notes") == str(tmp_path.resolve() / "notes")


@pytest.mark.parametrize("url", ["", " "])
def test_an_empty_path_does_not_mean_the_current_folder(served, gateway, url):
    answer = served("index", url, "https://x/http.git")

    assert answer.status == 2
    assert answer.err.startswith("codelode: URL_OR_PATH: it is empty; give https://")
    assert [request.url for request in gateway.requests] == ["https://x/http.git"]


@pytest.mark.parametrize("url", ["https://x/y", "git@host:team/app.git", "host:path", "ext::sh"])
def test_a_url_is_sent_unchanged(url):
    assert locator(url) == url


def test_a_path_from_the_home_folder_is_expanded():
    assert locator("~/x") == str(Path("~/x").expanduser())


def test_retry_starts_runs_for_the_named_repository(served, gateway):
    answer = served("retry", "acme/http", "--wait")

    assert answer.status == 0
    assert "acme/http  complete" in answer.out
    assert gateway.requests[0].repository == "acme/http"


def test_cancel_prints_the_cancelled_run(served, gateway):
    assert "cancelled" in served("cancel", "r1").out
    assert gateway.requests[0].run_id == "r1"


def test_default_sends_the_ref_and_prints_the_run(served, gateway):
    answer = served("default", "acme/http", "release-2")

    assert (answer.status, answer.out) == (0, "acme/http  pulling  run r1\n")
    (asked,) = gateway.requests
    assert (asked.repository, asked.ref) == ("acme/http", "release-2")


def test_notices_of_a_run_are_printed_after_it(served, gateway, make_run):
    said = ["the default ref is now dev, no longer main", "v1 is gone"]
    gateway.watches = [[make_run("complete", total=1, done=1, notices=said)]]

    answer = served("index", "https://x/http.git", "--wait")

    assert answer.status == 0
    assert [f"acme/http: {text}" in answer.err.splitlines() for text in said] == [True, True]


def test_remove_needs_a_terminal_to_confirm_or_the_option_yes(served, gateway):
    refused = served("remove", "acme/http")
    assert refused.status == 2
    assert "--yes" in refused.err
    assert gateway.requests == []

    assert served("remove", "acme/http", "--yes").status == 0
    assert gateway.requests[0].name == "acme/http"


def test_remove_names_one_ref(served, gateway):
    answer = served("remove", "acme/http", "--ref", "v1", "--yes")

    assert (answer.status, answer.err) == (0, "removed acme/http@v1\n")
    assert (gateway.requests[0].name, gateway.requests[0].ref) == ("acme/http", "v1")


def test_an_empty_ref_does_not_remove_the_repository(served, gateway):
    answer = served("remove", "acme/http", "--ref", "", "--yes")

    assert answer.status == 2
    assert "--ref is empty" in answer.err
    assert gateway.requests == []


@pytest.mark.parametrize("command", ["failures", "retry"])
def test_a_mistyped_ref_of_an_indexed_repository_leaves_no_failure(
    served, gateway, make_run, command
):
    gateway.nothing_to_retry = True
    gateway.repositories = [repository()]
    gateway.runs = [make_run("failed", ref="mian", error="no branch"), make_run("complete")]

    assert served(command).status == 0


def test_failures_gives_each_file_its_reason_on_one_line(served, gateway, failed_file):
    gateway.failures = [failed_file] * 3

    answer = served("failures", "acme/http", "--all")

    assert answer.out == "acme/http main x.cob  failed: took too long\n" * 3
    assert gateway.requests[0].include_skipped


def test_failures_asks_for_files_that_were_read_in_part(served, gateway):
    served("failures", "--partial")

    assert gateway.requests[0].include_partial
    assert not gateway.requests[0].include_skipped


def test_failures_as_json_is_a_list(served, gateway, failed_file):
    gateway.failures = [failed_file]

    assert json.loads(served("failures", "--json").out) == [
        {
            "repository": "acme/http",
            "ref": "main",
            "path": "x.cob",
            "state": "failed",
            "reason": "took\ntoo long",
        }
    ]


def repository(name="acme/http", *, revision="a" * 40, skipped=(0,)):
    refs = [
        index_pb2.RefStatus(ref=f"v{number}", revision=revision, skipped=count)
        for number, count in enumerate(skipped)
    ]
    return index_pb2.Repository(name=name, refs=refs)


@pytest.mark.parametrize(
    ("options", "skipped", "told"),
    [
        ([], (0,), "no file has failed"),
        (
            ["acme/http"],
            (5, 3),
            "no file has failed; 8 were left out on purpose: `codelode failures acme/http --all` "
            "lists them",
        ),
        (
            [],
            (1,),
            "no file has failed; 1 was left out on purpose: `codelode failures --all` lists it",
        ),
        (["--partial"], (0,), "no file has failed or was parsed only in part"),
        (["--all"], (0,), "every file is indexed"),
        (["--all", "--partial"], (0,), "every file is indexed, and was parsed in full"),
    ],
)
def test_without_failures_the_status_is_zero_and_files_left_out_are_counted(
    served, gateway, options, skipped, told
):
    gateway.repositories = [repository(skipped=skipped)]

    answer = served("failures", *options)

    assert (answer.status, answer.out, answer.err) == (0, "", f"{told}\n")


def test_failures_also_count_the_files_left_out_on_purpose(served, gateway, failed_file):
    gateway.repositories = [repository(skipped=(8,)), repository("acme/tls", skipped=(2,))]
    gateway.failures = [failed_file]

    assert served("failures", "acme/http").err == (
        "1 file; 8 were left out on purpose: `codelode failures acme/http --all` lists them\n"
    )


@pytest.mark.parametrize("command", ["failures", "retry"])
def test_a_repository_whose_last_run_failed_is_not_reported_as_healthy(
    served, gateway, make_run, command
):
    gateway.nothing_to_retry = True
    gateway.repositories = [repository(revision=""), repository("acme/tls")]
    gateway.runs = [
        make_run("complete", repository="acme/tls"),
        make_run("failed", error="Could not resolve host:\nx"),
        make_run("complete", ref="v1"),
        make_run("failed", repository="acme/tls", error="long ago"),
    ]

    answer = served(command, "acme/http")

    assert (answer.status, answer.out) == (2, "")
    assert answer.err == (
        "codelode: acme/http: its last run failed: Could not resolve host: x; "
        "run `codelode index` again\n"
    )
    assert served(command, "acme/tls").status == 0
    assert served(command).status == 2


def test_a_repository_without_an_index_is_not_reported_as_healthy(served, gateway):
    gateway.repositories = [repository(revision="")]
    gateway.runs = []

    answer = served("failures", "acme/http")

    assert answer.status == 2
    assert answer.err == ("codelode: acme/http: it is not indexed yet; run `codelode index`\n")


def test_an_interrupted_wait_leaves_the_run_going(served, gateway, make_run, monkeypatch):
    def interrupt(*_: object, **__: object) -> None:
        raise KeyboardInterrupt  # as Ctrl-C; a test run in the background ignores the signal

    monkeypatch.setattr("codelode.cli.progress.progress_line", interrupt)
    gateway.watches = [[make_run("indexing")]]

    answer = served("index", "https://x", "--wait")

    assert answer.status == 130
    assert "`codelode cancel r1`" in answer.err
    assert len(gateway.requests) == 2  # started and watched, not cancelled


def test_a_waiting_command_reports_the_loss_of_the_gateway_and_continues(
    served, gateway, make_run, monkeypatch
):
    monkeypatch.setattr(watching, "WATCH_SILENCE_S", 0.0)
    gateway.watches = [[make_run("pulling"), "break"], *[["break"]] * 2, [make_run("complete")]]

    answer = served("index", "https://x", "--wait")

    assert answer.status == 0
    assert answer.err.count("the gateway does not answer (the gateway is shutting down)") == 1
    assert "trying again while the run continues\n" in answer.err


def test_a_wait_that_gives_up_names_the_run_and_where_to_look(
    served, gateway, make_run, monkeypatch
):
    monkeypatch.setattr(watching, "WATCH_TIMEOUT_S", 0.0)
    gateway.watches = [[make_run("pulling"), "break"], ["break"]]

    answer = served("index", "https://x", "--wait")

    assert (answer.status, answer.out) == (2, "")
    assert answer.err.splitlines()[-1] == (
        "codelode: stopped waiting: no answer for 0 s (the gateway is shutting down); the "
        "run r1 continues in the cluster: see `codelode status` when the gateway is back"
    )


@pytest.mark.parametrize("command", ["retry", "enrich", "failures"])
@pytest.mark.parametrize("name", ["", " "])
def test_an_empty_name_does_not_mean_all_repositories(served, gateway, command, name):
    answer = served(command, name)

    assert (answer.status, answer.out) == (2, "")
    assert "'[NAME]': it is empty; name a repository, or leave it out for all" in answer.err
    assert gateway.requests == []


def test_one_file_is_counted_in_the_singular(served, gateway, make_run):
    gateway.watches = [[make_run("complete", total=1, done=1)]]

    answer = served("index", "https://x/http.git", "--wait")

    assert answer.out == "acme/http  complete  1 file, 0 skipped, 0 failed  run r1\n"
    assert "1/1 file\n" in answer.err
