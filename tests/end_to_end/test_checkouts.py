"""Commits and uncommitted changes of a checkout are found, by git hooks and `codelode watch`."""

from __future__ import annotations

import signal

import pytest

from codelode.errors import InvalidQuery
from tests.end_to_end.runs import command, ended, said
from tests.waiting import wait_until


def where(client, name, query, ref="worktree"):
    """Return the paths in which the name is defined at a ref; none if there is no such ref."""
    try:
        hits = client.search(query, repositories=[name], ref=ref)
    except InvalidQuery:
        return set()
    return {hit.path for hit in hits if query in hit.content}


def test_a_watched_checkout_is_searchable_as_it_is_on_disk_until_it_is_removed(cluster, git):
    git.commit({"a.py": "def at_first():\n    return 1\n", ".gitignore": "*.log\n"})
    git.run("branch", "other")
    git.commit({"b.py": "def on_main_only():\n    return 1\n"})
    folder, status = git.folder, git.run("status", "--porcelain")
    watching = command(cluster, "watch", str(folder), "--name", "watched")
    with cluster.client() as client:

        def found(query):
            return where(client, "watched", query)

        def give_up():
            return "" if watching.poll() is None else "".join(watching.communicate())

        def await_that(condition, what):
            wait_until(condition, what, give_up=give_up)

        await_that(lambda: found("at_first") == {"a.py"}, "the first state")
        (folder / "new.py").write_text("def not_committed():\n    return 2\n")
        (folder / "noise.log").write_text("def in_a_log(): pass\n")
        await_that(lambda: found("not_committed") == {"new.py"}, "the new file")
        (folder / "new.py").rename(folder / "renamed.py")
        (folder / "draft").write_text("def edited_later():\n    return 3\n")
        (folder / "draft").rename(folder / "a.py")
        await_that(lambda: found("not_committed") == {"renamed.py"}, "the new name")
        await_that(lambda: found("edited_later") == {"a.py"}, "the edit")
        assert found("at_first") == found("in_a_log") == set()
        (folder / "renamed.py").unlink()
        git.run("checkout", "--quiet", "--", "a.py")
        git.run("checkout", "--quiet", "other")
        await_that(lambda: not found("on_main_only"), "the other branch")
        await_that(lambda: not found("not_committed"), "the deletion")
        assert found("at_first") == {"a.py"}
        assert where(client, "watched", "on_main_only", ref="") == {"b.py"}
        assert where(client, "watched", "edited_later", ref="") == set()
        watching.send_signal(signal.SIGINT)
        code, out = ended(watching)
        assert (code, "ended" in out) == (0, True)
        (folder / "after.py").write_text("def while_nobody_watched(): pass\n")
        assert said(cluster, "watch", str(folder), "--name", "watched", "--once")[0] == 0
        assert found("while_nobody_watched") == {"after.py"}
        code, out = said(cluster, "watch", str(folder), "--remove")
        assert (code, "removed watched@worktree" in out) == (0, True)
        with pytest.raises(InvalidQuery, match="no ref 'worktree'"):
            client.search("at_first", repositories=["watched"], ref="worktree")
        assert where(client, "watched", "on_main_only", ref="") == {"b.py"}
    assert git.run("status", "--porcelain") == f"{status}?? after.py"
    assert git.run("for-each-ref", "--format=%(refname)") == "refs/heads/main\nrefs/heads/other"


def test_a_commit_is_found_after_its_hook_has_run(cluster, git):
    git.commit({"a.py": "def at_first():\n    return 1\n"})
    with cluster.client() as client:
        client.index(str(git.folder), name="hooked")
        assert said(cluster, "hooks", "install", str(git.folder), "--name", "hooked")[0] == 0
        git.run("checkout", "--quiet", "-b", "feature")
        git.commit({"b.py": "def in_a_commit():\n    return 2\n"})
        log = git.folder / ".git/codelode-hooks.log"
        wait_until(
            lambda: where(client, "hooked", "in_a_commit", ref="feature") == {"b.py"},
            "the commit to be found",
        )
        assert where(client, "hooked", "in_a_commit", ref="") == set()
    wait_until(lambda: log.read_text().startswith("hooked  "), "the output of the call")
