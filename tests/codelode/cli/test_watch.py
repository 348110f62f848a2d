"""`codelode watch` against a canned gateway; the cluster's part is in tests/end_to_end."""

from __future__ import annotations

import subprocess

import pytest

from codelode.v1 import index_pb2


@pytest.fixture
def checkout(tmp_path):
    """A checkout with one commit and one change."""
    folder = tmp_path / "app"
    subprocess.run(["git", "init", "-q", "-b", "main", folder], check=True)
    (folder / "a.py").write_text("a = 1\n")
    identity = ("-c", "user.name=T", "-c", "user.email=t@host.example")
    for command in (("add", "-A"), ("commit", "-q", "-m", "x")):
        subprocess.run(["git", *identity, *command], cwd=folder, check=True)
    (folder / "a.py").write_text("a = 2\n")
    return folder


def test_the_default_ref_is_indexed_before_the_working_copy(served, gateway, make_run, checkout):
    gateway.watches = [
        [make_run("complete")],
        [make_run("complete", done=1, started_at=10.0, finished_at=10.8)],
    ]

    answer = served("watch", str(checkout), "--once")

    assert answer.status == 0
    assert answer.out.endswith("acme/http@worktree  complete  1 file in 0.8 s\n")
    starts = [one for one in gateway.requests if isinstance(one, index_pb2.StartRunRequest)]
    assert [(one.url, one.name, one.ref) for one in starts] == [
        (str(checkout), "", ""),
        (str(checkout), "acme/http", "worktree"),
    ]


@pytest.mark.parametrize("fails", [0, 1], ids=["default ref", "working copy"])
def test_a_failed_run_ends_with_its_reason(served, gateway, make_run, checkout, fails):
    gateway.watches = [[make_run("complete")], [make_run("complete")]]
    gateway.watches[fails] = [make_run("failed", error="the disk is full")]

    answer = served("watch", str(checkout), "--once")

    assert answer.status == 2
    assert "acme/http: the disk is full" in answer.err


def test_a_gateway_on_another_machine_is_refused(codelode, checkout):
    answer = codelode("watch", str(checkout), "--server", "code.host.example:50051")
    assert answer.status == 2
    assert "runs on another machine" in answer.err
    assert "codelode up" in answer.err


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ([".."], "is not in a git checkout"),
        (["missing"], "there is no folder 'missing'"),
        ([".", "--once", "--remove"], "exclude each other"),
    ],
)
def test_bad_input_is_one_line_that_says_what_to_do(
    served, checkout, monkeypatch, arguments, named
):
    monkeypatch.chdir(checkout)
    answer = served("watch", *arguments)
    assert answer.status == 2
    assert named in answer.err
    assert answer.err.count("\n") == 1


def test_a_branch_named_as_the_ref_is_refused(served, gateway, checkout):
    subprocess.run(["git", "branch", "worktree"], cwd=checkout, check=True)
    answer = served("watch", str(checkout))
    assert answer.status == 2
    assert "rename it" in answer.err
    assert gateway.requests == []


def test_remove_deletes_only_the_ref_of_this_checkout(served, gateway, checkout):
    refs = [index_pb2.RefStatus(ref="main"), index_pb2.RefStatus(ref="worktree")]
    gateway.repositories = [
        index_pb2.Repository(name="mine", url=str(checkout), default_ref="main", refs=refs),
        index_pb2.Repository(name="other", url="/other", default_ref="main", refs=refs),
    ]

    answer = served("watch", str(checkout), "--remove")

    assert (answer.status, answer.err) == (0, "removed mine@worktree\n")
    removals = [
        (one.name, one.ref)
        for one in gateway.requests
        if isinstance(one, index_pb2.RemoveRepositoryRequest)
    ]
    assert removals == [("mine", "worktree")]


def test_remove_says_when_there_is_nothing(served, checkout):
    answer = served("watch", str(checkout), "--remove")
    assert (answer.status, answer.err) == (
        0,
        "nothing to remove: this working copy is not indexed\n",
    )
