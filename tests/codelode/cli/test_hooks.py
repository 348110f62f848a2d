"""`codelode hooks`; what the hooks do is in tests/codelode/checkouts."""

from __future__ import annotations

import subprocess

import pytest


@pytest.fixture
def checkout(tmp_path):
    folder = tmp_path / "app"
    subprocess.run(["git", "init", "-q", folder], check=True)
    return folder


def listed(checkout, state):
    names = ("post-commit", "post-merge", "post-checkout", "post-rewrite")
    lines = [f"  {name:<14} {state}\n" for name in names]
    return "".join([f"hooks in {checkout / '.git/hooks'}\n", *lines])


def test_hooks_are_installed_shown_and_uninstalled(codelode, checkout):
    path = str(checkout)
    assert codelode("hooks", "status", path).out == listed(checkout, "missing")
    assert codelode("hooks", "install", path) == (0, listed(checkout, "installed"), "")
    (checkout / ".git/codelode-hooks.log").write_text("app  pulling  run 7f\x1b[31m\n")
    shown = codelode("hooks", "status", path)
    assert shown.out.startswith(listed(checkout, "installed") + "last call, ")
    assert shown.out.endswith(": app  pulling  run 7f\\x1b[31m\n")
    assert codelode("hooks", "status", path, "--name", "x").out.startswith(
        listed(checkout, "outdated")
    )
    assert codelode("hooks", "uninstall", path) == (0, listed(checkout, "missing"), "")


def test_hooks_contain_the_current_server_address_but_no_secret(codelode, checkout, monkeypatch):
    monkeypatch.setenv("CODELODE_SERVER", "code.host.example:50051")
    monkeypatch.setenv("CODELODE_TOKEN", "canary-secret")
    codelode("hooks", "install", str(checkout), "--name", "team/app")
    hook = (checkout / ".git/hooks/post-commit").read_text()
    assert "CODELODE_SERVER=code.host.example:50051" in hook
    assert f"-m codelode index {checkout} --name team/app --ref" in hook
    assert "canary" not in hook


def test_hooks_in_the_work_tree_are_noted(codelode, checkout):
    subprocess.run(["git", "-C", checkout, "config", "core.hooksPath", ".githooks"], check=True)
    answer = codelode("hooks", "install", str(checkout))
    assert (checkout / ".githooks/post-commit").exists()
    assert "is part of the checkout, so git shows the change" in answer.err


def test_a_folder_that_is_not_a_checkout_is_an_error(codelode, tmp_path):
    answer = codelode("hooks", "status", str(tmp_path))
    assert answer.status == 2
    assert "is not in a git checkout" in answer.err
