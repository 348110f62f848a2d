"""Real repositories, written by `git fast-import`: one process a commit, any bytes in any path."""

from __future__ import annotations

import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

from codelode.model import Repository, RepositoryName, Revision
from workers.pull.blobs import GitBlobs
from workers.pull.mirror import Mirrors

FILE, PROGRAM, LINK, SUBMODULE = "100644", "100755", "120000", "160000"

#: Stores a pack; by default, a second process would unpack it, which takes as long again.
FAST_IMPORT = ("-c", "fastimport.unpackLimit=0", "fast-import", "--quiet", "--force")

#: Variables that a test runner started from a git hook would pass to the repositories made here.
_CLEAN = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}


@dataclass(frozen=True)
class Source:
    """A bare repository that tests commit to."""

    path: Path

    def git(self, *arguments: str, stdin: bytes = b"") -> str:
        done = subprocess.run(
            ["git", "-C", self.path, *arguments],
            input=stdin,
            capture_output=True,
            check=True,
            env={**_CLEAN, "GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": "/dev/null"},
        )
        return done.stdout.decode().strip()

    def commit(
        self, files=None, *, branch="main", parent=None, modes=None, at=1_700_000_000
    ) -> Revision:
        """Commit on the branch. `files`: path (text or bytes) → content; None deletes it."""
        ref = f"refs/heads/{branch}"
        parent = parent if parent is not None else f"{ref}^0" if self._has(ref) else ""
        committer = f"committer T <t@host.example> {at} +0000\ndata 1\nx\n"
        lines = [
            f"commit {ref}\nmark :1\n{committer}".encode(),
            f"from {parent}\n".encode() if parent else b"",
        ]
        for path, content in (files or {}).items():
            mode = (modes or {}).get(path, FILE)
            lines.append(_change(path.encode() if isinstance(path, str) else path, content, mode))
        lines.append(b"get-mark :1\n")
        return Revision(self.git(*FAST_IMPORT, stdin=b"".join(lines)))

    def _has(self, ref: str) -> bool:
        packed = self.path / "packed-refs"
        return (self.path / ref).exists() or (packed.exists() and f" {ref}\n" in packed.read_text())


def _change(path: bytes, content, mode: str) -> bytes:
    quoted = b'"' + b"".join(b"\\%03o" % byte for byte in path) + b'"'
    if content is None:
        return b"D " + quoted + b"\n"
    if mode == SUBMODULE:
        return b"M 160000 " + content.encode() + b" " + quoted + b"\n"
    raw = content.encode() if isinstance(content, str) else content
    return b"M %s inline %s\ndata %d\n%s\n" % (mode.encode(), quoted, len(raw), raw)


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    """Hide the git configuration of the user and the machine."""
    folder = tmp_path / "home"
    folder.mkdir()
    monkeypatch.setenv("HOME", str(folder))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    return folder


@pytest.fixture(scope="session")
def empty_source(tmp_path_factory):
    """Return a bare repository without commits; copying it is quicker than making another one."""
    path = tmp_path_factory.mktemp("sources") / "empty"
    options = ("-q", "--bare", "--template=", "-b", "main")  # no sample hooks
    subprocess.run(["git", "init", *options, path], check=True, env=_CLEAN)
    return path


@pytest.fixture
def make_source(tmp_path, empty_source):
    def make(name: str = "source") -> Source:
        path = tmp_path / "sources" / name
        shutil.copytree(empty_source, path)
        return Source(path)

    return make


@pytest.fixture
def source(make_source):
    return make_source()


@pytest.fixture
def mirrors(tmp_path):
    return Mirrors(tmp_path / "mirrors", timeout_s=60, local_paths=str(tmp_path))


@pytest.fixture
def repository(source):
    return Repository(RepositoryName("owner/repo"), str(source.path))


@pytest.fixture
def blobs(mirrors):
    reader = GitBlobs(mirrors)
    yield reader
    reader.close()
