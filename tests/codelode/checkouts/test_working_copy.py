"""Snapshots of real checkouts."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from codelode.checkouts import working_copy
from codelode.checkouts.checkout import checkout_at
from codelode.checkouts.working_copy import WorkingCopy, forget, require_no_namesake
from codelode.errors import InvalidQuery, NotFound, Unavailable

REF = "refs/worktree/codelode/worktree"


@pytest.fixture
def copy(work, tmp_path):
    work.commit({"a.py": "a = 1\n", "b.py": "b = 1\n", ".gitignore": "*.log\n"})
    (tmp_path / "scratch").mkdir()
    return WorkingCopy(checkout_at(work.folder), tmp_path / "scratch")


def files(work, revision=REF):
    """Return the contents of a commit by path."""
    names = work.git("ls-tree", "-r", "--name-only", "-z", revision).split("\0")
    return {name: work.git("show", f"{revision}:{name}") for name in names if name}


def test_a_snapshot_has_what_is_changed_new_renamed_and_deleted_and_nothing_ignored(work, copy):
    work.write({"a.py": "a = 2\n", "new/c.py": "c = 1\n", "build.log": "noise\n"})
    (work.folder / "b.py").rename(work.folder / "moved.py")

    copy.snapshot()

    assert files(work) == {
        ".gitignore": "*.log",
        "a.py": "a = 2",
        "moved.py": "b = 1",
        "new/c.py": "c = 1",
    }


def test_a_snapshot_changes_nothing_that_the_user_sees(work, copy):
    work.write({"a.py": "a = 2\n"})
    work.git("add", "a.py")
    work.write({"a.py": "a = 3\n", "c.py": "c = 1\n"})
    status = work.git("status", "--porcelain")
    index = (work.folder / ".git/index").read_bytes()
    head = work.git("rev-parse", "HEAD")
    shutil.rmtree(work.folder / ".git/logs")
    hook = work.folder / ".git/hooks/reference-transaction"
    hook.write_text("#!/bin/sh\ntouch ../ran\n")
    hook.chmod(0o755)
    shutil.copy(hook, hook.with_name("post-index-change"))

    copy.snapshot()

    assert not (work.folder.parent / "ran").exists()
    assert (work.folder / ".git/index").read_bytes() == index
    assert work.git("status", "--porcelain") == status == "MM a.py\n?? c.py"
    assert work.git("rev-parse", "HEAD") == head
    assert work.git("for-each-ref", "--format=%(refname)") == f"refs/heads/main\n{REF}"
    assert not (work.folder / ".git/logs").exists()


def test_the_same_files_on_the_same_commit_are_the_same_revision(work, copy):
    first = copy.snapshot()
    assert copy.snapshot() == first
    work.write({"a.py": "a = 2\n"})
    assert copy.snapshot() != first
    work.write({"a.py": "a = 1\n"})
    assert copy.snapshot() == first


def test_a_snapshot_follows_another_branch_and_what_leaves_the_index(work, copy):
    copy.snapshot()
    work.git("checkout", "--quiet", "-b", "feature")
    work.commit({"f.py": "f = 1\n"})
    work.git("checkout", "--quiet", "main")
    copy.snapshot()
    assert "f.py" not in files(work)
    work.git("checkout", "--quiet", "feature")
    copy.snapshot()
    assert "f.py" in files(work)
    work.git("rm", "--quiet", "--cached", "f.py")
    work.write({".gitignore": "f.py\n"})
    copy.snapshot()
    assert "f.py" not in files(work)


@pytest.mark.slow
def test_a_change_in_the_second_of_the_last_git_add_is_not_missed(work, copy):
    """Git compares such files by content, which depends on the time of the index."""
    for number in range(20):
        work.write({"a.py": f"a = {number:02}\n"})
        work.git("add", "a.py")
        work.write({"a.py": f"a = {number + 30:02}\n"})
        copy.snapshot()
        assert files(work)["a.py"] == f"a = {number + 30:02}"


def test_a_snapshot_during_a_merge_conflict_has_the_files_on_disk(work, copy):
    work.git("checkout", "--quiet", "-b", "other")
    work.commit({"a.py": "a = 'other'\n"})
    work.git("checkout", "--quiet", "main")
    work.commit({"a.py": "a = 'main'\n"})
    work.git("merge", "--quiet", "other", check=False)

    copy.snapshot()

    assert "<<<<<<< HEAD" in files(work)["a.py"]


def test_large_untracked_files_and_repositories_among_the_files_are_left_out_and_named(
    work, copy, monkeypatch
):
    monkeypatch.setattr(working_copy, "MAX_UNTRACKED_BYTES", 100)
    work.write({"dump[1].sql": "x" * 101, "vendor/lib/l.py": "l = 1\n", "c.py": "c = 1\n"})
    subprocess.run(["git", "init", "-q", work.folder / "vendor/lib"], check=True)

    snapshot = copy.snapshot()

    assert snapshot.left_out == ("dump[1].sql", "vendor/lib/")
    assert set(files(work)) == {".gitignore", "a.py", "b.py", "c.py"}


@pytest.mark.skipif(os.geteuid() == 0, reason="the superuser can read every file")
def test_an_unreadable_file_does_not_keep_others_out_of_the_snapshot(work, copy):
    work.write({"secret.py": "s = 1\n", "c.py": "c = 1\n"})
    (work.folder / "secret.py").chmod(0)
    copy.snapshot()
    assert "secret.py" not in files(work)
    assert files(work)["c.py"] == "c = 1"


def test_each_linked_work_tree_has_its_own_snapshot(work, copy, tmp_path):
    work.git("worktree", "add", "--quiet", "-b", "side", str(tmp_path / "side"))
    (tmp_path / "side/a.py").write_text("a = 'side'\n")
    (tmp_path / "other").mkdir()

    copy.snapshot()
    WorkingCopy(checkout_at(tmp_path / "side"), tmp_path / "other").snapshot()

    assert files(work)["a.py"] == "a = 1"
    side = work.git("-C", str(tmp_path / "side"), "show", f"{REF}:a.py")
    assert side == "a = 'side'"


def test_a_folder_in_a_checkout_means_the_checkout_despite_git_variables(work, copy, monkeypatch):
    work.write({"sub/c.py": "c = 1\n"})
    monkeypatch.setenv("GIT_DIR", "/nowhere")
    monkeypatch.setenv("GIT_INDEX_FILE", "/nowhere/index")
    assert checkout_at(work.folder / "sub").root == work.folder.resolve()
    assert copy.snapshot().left_out == ()


def test_a_forgotten_snapshot_is_gone(work, copy):
    copy.snapshot()
    checkout = checkout_at(work.folder)
    assert forget(checkout)
    assert not forget(checkout)
    assert work.git("for-each-ref", REF) == ""


@pytest.mark.parametrize("kind", ["branch", "tag"])
def test_a_branch_or_tag_of_the_same_name_is_refused(work, copy, kind):
    checkout = checkout_at(work.folder)
    require_no_namesake(checkout)
    work.git(kind, "worktree")
    with pytest.raises(InvalidQuery, match="rename it"):
        require_no_namesake(checkout)


def test_the_error_says_why_a_folder_is_not_a_checkout(work, tmp_path):
    (tmp_path / "plain").mkdir()
    bare = tmp_path / "bare.git"
    subprocess.run(["git", "init", "-q", "--bare", bare], check=True)
    for path, why in (
        (tmp_path / "plain", "not a git repository"),
        (bare, "must be run in a work tree"),
        (tmp_path / "missing", "there is no folder"),
    ):
        with pytest.raises(InvalidQuery, match=why):
            checkout_at(path)
    with pytest.raises(InvalidQuery, match="no commit yet"):
        WorkingCopy(checkout_at(work.folder), tmp_path).snapshot()


def test_a_checkout_that_is_damaged_or_deleted_is_an_error(work, copy):
    (work.folder / ".git/index").write_bytes(b"broken")
    with pytest.raises(Unavailable, match="index file"):
        copy.snapshot()
    shutil.rmtree(work.folder)
    with pytest.raises(NotFound, match="no longer exists"):
        copy.snapshot()


def test_a_path_that_is_not_valid_utf_8_is_kept(work, copy):
    name = os.fsdecode(b"caf\xe9.py")
    (work.folder / name).write_text("x = 1\n")
    copy.snapshot()
    listed = subprocess.run(
        ["git", "ls-tree", "-z", "--name-only", REF], cwd=work.folder, capture_output=True
    ).stdout
    assert b"caf\xe9.py" in listed.split(b"\0")
    assert Path(work.folder / name).exists()


def test_a_file_that_is_ignored_later_leaves_the_next_snapshot(work, copy):
    work.write({".env": "SECRET=1\n"})
    copy.snapshot()
    assert ".env" in files(work)
    work.write({".gitignore": "*.log\n.env\n"})

    copy.snapshot()

    assert ".env" not in files(work)
