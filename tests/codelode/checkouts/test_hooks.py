"""Hooks that real git runs; instead of codelode they call a program that records its arguments."""

from __future__ import annotations

import os
import shlex
import stat
import subprocess

import pytest

from codelode.checkouts.checkout import checkout_at
from codelode.checkouts.hooks import HOOKS, Hooks, HookState
from codelode.errors import Denied, InvalidQuery
from tests.waiting import wait_until


@pytest.fixture
def program(tmp_path):
    path = tmp_path / "it's codelode"
    path.write_text(
        f'#!/bin/sh\necho "$VALUE $*" >>{shlex.quote(str(tmp_path / "calls"))}\necho hi\n'
    )
    path.chmod(0o755)
    return path


@pytest.fixture
def hooks_of(program):
    def make(folder):
        checkout = checkout_at(folder)
        return Hooks(checkout, [str(program), str(checkout.source)], {"VALUE": "a b"})

    return make


@pytest.fixture
def hooks(work, hooks_of):
    return hooks_of(work.folder)


@pytest.fixture
def calls(tmp_path, work):
    """`calls(n)` waits for n more calls, and returns the branches that they index."""
    path, seen = tmp_path / "calls", []

    def lines():
        return path.read_text().splitlines() if path.exists() else []

    def wait(count):
        wait_until(lambda: len(lines()) >= len(seen) + count, f"{count} calls of the program")
        new = lines()[len(seen) :]
        seen.extend(new)
        prefix = f"a b {work.folder.resolve()} --ref "
        assert all(line.startswith(prefix) for line in new)
        return [line.removeprefix(prefix) for line in new]

    return wait


def contents(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}


def script(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)


def test_each_commit_merge_checkout_and_rebase_indexes_the_branch(work, hooks, calls):
    work.commit({"a.py": "a = 1\n"})
    hooks.install()
    work.commit({"b.py": "b = 1\n"})
    assert calls(1) == ["main"]
    work.git("checkout", "--quiet", "-b", "feature/x")
    assert calls(1) == ["feature/x"]
    work.commit({"c.py": "c = 1\n"})
    assert calls(1) == ["feature/x"]
    work.git("checkout", "--quiet", "HEAD~1", "--", ".")  # files, not a branch
    work.git("checkout", "--quiet", "--force", "main")
    assert calls(1) == ["main"]
    work.git("merge", "--quiet", "feature/x")
    assert calls(1) == ["main"]
    work.commit({"d.py": "d = 1\n"})
    work.git("checkout", "--quiet", "--force", "-b", "late", "HEAD~2")
    work.commit({"e.py": "e = 1\n"})
    assert sorted(calls(3)) == ["late", "late", "main"]
    work.git("rebase", "--quiet", "main")
    assert calls(1) == ["late"]
    wait_until(lambda: hooks.log.exists() and hooks.log.read_text() == "hi\n", "the log")


def test_no_git_command_waits_or_fails(work, hooks, program):
    """The program waits for a pipe for ever, so a command that waited for it would hang."""
    os.mkfifo(work.folder.parent / "pipe")
    program.write_text(
        f"#!/bin/sh\necho $$ >{work.folder.parent}/pid\nread x <{work.folder.parent}/pipe\n"
    )
    hooks.install()
    work.commit({"a.py": "a = 1\n"})
    wait_until(lambda: (work.folder.parent / "pid").exists(), "the program to run")
    (work.folder.parent / "pipe").open("w").close()
    program.unlink()
    work.commit({"b.py": "b = 1\n"})
    wait_until(lambda: "not found" in hooks.log.read_text(), "the reason in the log")


def test_existing_hooks_still_run_and_are_restored(work, hooks, calls):
    folder = work.folder / ".git/hooks"
    script(folder / "post-commit", "#!/usr/bin/env bash\nset -eu\necho shell >>ran\nexit 0\n")
    script(
        folder / "post-checkout", "#!/usr/bin/env python3\nopen('ran', 'a').write('python\\n')\n"
    )
    (folder / "post-commit").chmod(0o775)
    before, modes = contents(folder), _modes(folder)
    hooks.install()
    hooks.install()
    work.commit({"a.py": "a = 1\n", ".gitignore": "ran\n"})
    work.git("checkout", "--quiet", "-b", "other")
    assert sorted(calls(2)) == ["main", "other"]
    assert (work.folder / "ran").read_text() == "shell\npython\n"
    assert hooks.states() == dict.fromkeys(HOOKS, HookState.INSTALLED)
    hooks.uninstall()
    hooks.uninstall()
    assert (contents(folder), _modes(folder)) == (before, modes)
    assert not (folder / "codelode-saved").exists()
    assert hooks.states() == dict.fromkeys(HOOKS, HookState.MISSING)


def test_uninstalling_keeps_what_the_user_added_to_a_hook(work, hooks):
    hooks.install()
    hook = work.folder / ".git/hooks/post-commit"
    hook.write_text(f"{hook.read_text()}echo mine\n")
    hooks.uninstall()
    assert hook.read_text() == "#!/bin/sh\necho mine\n"


def test_a_shared_folder_of_hooks_indexes_only_what_was_asked_for(
    work, hooks_of, calls, home, tmp_path
):
    shared = home / "shared hooks"
    share(home, shared)
    other = tmp_path / "other"
    subprocess.run(["git", "init", "-q", "-b", "elsewhere", other], check=True)
    hooks, others = hooks_of(work.folder), hooks_of(other)
    hooks.install()
    others.install()
    others.uninstall()
    script(shared / "commit-msg", "#!/bin/sh\n")
    subprocess.run(["git", "-C", other, "commit", "-q", "--allow-empty", "-m", "x"], check=True)
    work.commit({"a.py": "a = 1\n"})
    assert calls(1) == ["main"]
    assert hooks.states()["post-commit"] is HookState.INSTALLED
    hooks.uninstall()
    assert set(contents(shared)) == {"commit-msg"}


def test_two_repositories_share_a_hook_that_is_not_a_shell_script(work, hooks_of, home, tmp_path):
    shared, other = home / "hooks", tmp_path / "other"
    share(home, shared)
    subprocess.run(["git", "init", "-q", other], check=True)
    script(shared / "post-merge", "#!/usr/bin/env python3\n")
    hooks, others = hooks_of(work.folder), hooks_of(other)
    for change in (hooks.install, others.install, hooks.uninstall):
        change()
    assert others.states()["post-merge"] is HookState.INSTALLED
    others.uninstall()
    assert contents(shared) == {"post-merge": b"#!/usr/bin/env python3\n"}


def test_linked_work_trees_index_their_branch_under_the_main_one(work, hooks_of, calls, tmp_path):
    work.commit({"a.py": "a = 1\n"})
    side = tmp_path / "side"
    work.git("worktree", "add", "--quiet", "-b", "side", str(side))
    hooks_of(side).install()
    work.git("-C", str(side), "commit", "--quiet", "--allow-empty", "--message", "x")
    assert calls(1) == ["side"]
    assert hooks_of(work.folder).states()["post-commit"] is HookState.INSTALLED


def test_another_command_makes_the_hooks_outdated_until_they_are_installed_again(work, hooks):
    hooks.install()
    renamed = Hooks(hooks.checkout, [*hooks.command, "--name", "app"], {})
    assert set(renamed.states().values()) == {HookState.OUTDATED}
    renamed.install()
    assert set(renamed.states().values()) == {HookState.INSTALLED}
    assert (work.folder / ".git/hooks/post-commit").read_text().count(">>> codelode") == 1


def test_a_link_and_a_disabled_hook_are_refused_and_nothing_changes(work, hooks, tmp_path):
    folder = work.folder / ".git/hooks"
    script(tmp_path / "common", "#!/bin/sh\n")
    (folder / "post-rewrite").symlink_to(tmp_path / "common")
    before = contents(folder)
    with pytest.raises(InvalidQuery, match=r"nothing was changed: the hook .* is a link to"):
        hooks.install()
    (folder / "post-rewrite").unlink()
    (folder / "post-rewrite").write_text("#!/bin/sh\nexit 1\n")
    with pytest.raises(InvalidQuery, match="is not executable"):
        hooks.install()
    (folder / "post-rewrite").unlink()
    before.pop("post-rewrite")
    assert contents(folder) == before


def test_hooks_that_are_switched_off_are_an_error(work, hooks_of):
    work.git("config", "core.hooksPath", "/dev/null")
    with pytest.raises(Denied, match="cannot change the hooks in /dev/null"):
        hooks_of(work.folder).install()


def share(home, folder):
    """Have all repositories of the user use the hooks in the folder."""
    with (home / ".gitconfig").open("a") as config:
        config.write(f"[core]\n\thooksPath = {folder}\n")


def _modes(folder):
    return {path.name: stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()}


def test_a_link_to_nothing_is_refused_and_stays(work, hooks):
    hook = work.folder / ".git/hooks/post-commit"
    hook.parent.mkdir(exist_ok=True)
    hook.symlink_to("/dev/null")
    with pytest.raises(InvalidQuery, match=r"is a link to /dev/null"):
        hooks.install()
    assert hook.is_symlink()


def test_a_saved_hook_is_not_overwritten_by_one_that_another_program_has_put_in_place(work, hooks):
    folder = work.folder / ".git/hooks"
    script(folder / "post-commit", "#!/usr/bin/env python3\nprint(1)\n")
    hooks.install()
    script(folder / "post-commit", "#!/usr/bin/env python3\nprint(2)\n")
    before = contents(folder)
    with pytest.raises(InvalidQuery, match=r"nothing was changed: .* holds an earlier hook"):
        hooks.install()
    assert contents(folder) == before
