"""Notifications of real changes of files. Each `next` waits for the next one."""

from __future__ import annotations

from itertools import islice

import pytest

from codelode.checkouts.changes import changes
from codelode.checkouts.checkout import checkout_at
from codelode.checkouts.working_copy import WorkingCopy

#: Longer than any test, so that only changes wake the watcher.
NEVER_S = 10_000.0


@pytest.fixture
def copy(work, tmp_path):
    work.commit({"a.py": "a = 1\n", ".gitignore": "*.log\n"})
    (tmp_path / "scratch").mkdir()
    return WorkingCopy(checkout_at(work.folder), tmp_path / "scratch")


@pytest.mark.slow
def test_a_burst_of_a_thousand_changes_is_few_batches_and_nothing_is_lost(work, copy):
    batches = changes(work.folder, idle_s=NEVER_S)
    next(batches)
    copy.snapshot()
    work.write({f"made/d{n % 10}/f{n}.py": f"n = {n}\n" for n in range(1_000)})

    taken = 0
    while _files(work) < 1_002:
        next(batches)
        copy.snapshot()
        taken += 1

    assert taken <= 20  # of a second or two each on a busy machine, never one for each file


def test_a_file_that_an_editor_replaces_is_a_change(work, copy):
    batches = changes(work.folder, idle_s=NEVER_S)
    next(batches)
    before = copy.snapshot()
    work.write({".a.py.swp": "a = 2\n"})
    (work.folder / ".a.py.swp").rename(work.folder / "a.py")

    while copy.snapshot() == before:
        next(batches)

    assert work.git("show", "refs/worktree/codelode/worktree:a.py") == "a = 2"


def test_files_that_git_writes_are_not_a_change_but_another_branch_is(work, copy):
    work.git("branch", "other")
    work.git("checkout", "--quiet", "other")
    work.commit({"b.py": "b = 1\n"})
    batches = changes(work.folder, idle_s=NEVER_S)
    next(batches)
    work.git("pack-refs", "--all")
    work.git("gc", "--quiet")
    work.git("checkout", "--quiet", "main")
    next(batches)
    copy.snapshot()
    assert work.git("ls-tree", "--name-only", "refs/worktree/codelode/worktree") == (
        ".gitignore\na.py"
    )


def test_without_a_notification_the_checkout_is_looked_at_again(work):
    assert len(list(islice(changes(work.folder, idle_s=0.0), 3))) == 3


def test_files_that_cannot_be_watched_are_polled(tmp_path):
    told = []
    looks = changes(tmp_path / "missing", unwatched_s=0.0, on_unwatched=told.append)
    assert len(list(islice(looks, 3))) == 3
    assert told == ["No path was found."]


def _files(work):
    listed = work.git("ls-tree", "-r", "--name-only", "refs/worktree/codelode/worktree")
    return len(listed.split())
