"""Real checkouts without the git configuration of a user."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest


class Work:
    """A checkout on disk, changed by real git."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def git(self, *args: str, check: bool = True) -> str:
        done = subprocess.run(
            ["git", *args], cwd=self.folder, check=check, capture_output=True, text=True
        )
        return done.stdout.strip()

    def write(self, files: dict[str, str]) -> None:
        for path, content in files.items():
            target = self.folder / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(content)

    def commit(self, files: dict[str, str]) -> str:
        self.write(files)
        self.git("add", "--all")
        self.git("commit", "--quiet", "--message", "change")
        return self.git("rev-parse", "HEAD")


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    """A home folder without any configuration but an identity; git's variables are unset."""
    folder = tmp_path / "home"
    folder.mkdir()
    (folder / ".gitconfig").write_text("[user]\n\tname = T\n\temail = t@host.example\n")
    monkeypatch.setenv("HOME", str(folder))
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")
    for name in ("XDG_CONFIG_HOME", "GIT_DIR", "GIT_INDEX_FILE", "GIT_WORK_TREE"):
        monkeypatch.delenv(name, raising=False)
    return folder


@pytest.fixture
def work(tmp_path):
    folder = tmp_path / "app"
    folder.mkdir()
    made = Work(folder)
    made.git("init", "--quiet", "--initial-branch=main")
    return made
