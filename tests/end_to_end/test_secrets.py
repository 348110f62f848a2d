"""A real run shows no secret that users and operators give."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from codelode.cluster import token_file
from tests.end_to_end.runs import said

#: The secrets: the token of the gateway, and secrets in mistyped URLs.
TOKEN = "Canary-0-of-the-gateway"
CANARIES = tuple(f"Canary-{number}-in-an-address" for number in range(1, 7))
ADDRESSES = (
    "https:/me:{}@host.example/owner/one",
    "{}@127.0.0.1:owner/two",
    "ssh://{}@127.0.0.1/owner/three",
    "https://me:{}@127.0.0.1:1/owner/four",
    "https://{}@127.0.0.1:1/owner/five",  # the user name is dropped
    "https://me:{}",
)

#: Writes its environment, as any program that git starts could, and fails.
SPY = """#!/bin/sh
env > {}
exit 1
"""


@pytest.fixture
def seen_by_ssh(tmp_path, monkeypatch) -> Path:
    """Have git start a program that writes its environment to the returned file."""
    spy, seen = tmp_path / "ssh", tmp_path / "seen"
    spy.write_text(SPY.format(seen))
    spy.chmod(stat.S_IRWXU)
    monkeypatch.setenv("GIT_SSH_COMMAND", str(spy))
    return seen


@pytest.fixture
def guarded(cluster_at, tmp_path, seen_by_ssh, monkeypatch):
    """Start a cluster whose gateway requires a token."""
    monkeypatch.setenv("CODELODE_TOKEN", TOKEN)
    made = cluster_at(tmp_path / "data", git_timeout_s="20")
    made.start()
    yield made
    made.kill()


def environments(cluster, name=""):
    return [Path(f"/proc/{pid}/environ").read_bytes() for pid in cluster.pids(name)]


def test_secrets_appear_nowhere_in_or_after_a_run(guarded, git, seen_by_ssh):
    git.commit({"a.py": "def found():\n    return 1\n"})
    answers = [said(guarded, "index", str(git.folder), "--name", "fine", "--wait")]
    assert answers[0][0] == 0
    for address, canary in zip(ADDRESSES, CANARIES, strict=True):
        answers.append(said(guarded, "index", address.format(canary), "--name", canary[:8]))
    answers.append(said(guarded, "index", "git@127.0.0.1:o/r", "--name", "spied", "--wait"))
    commands = ("status", "status --json", "repos", "failures", "retry")
    answers += [said(guarded, *command.split()) for command in commands]
    texts = [text.encode() for _, text in answers]
    of_git = seen_by_ssh.read_bytes()
    assert b"PATH=" in of_git
    assert b"CODELODE_CLUSTER=" in of_git  # to find leftovers by it
    processes = environments(guarded)
    assert len(environments(guarded, "-m gateway")) == 1
    assert [one for one in processes if TOKEN.encode() in one] == []
    assert guarded.stop() == 0
    files = {path: path.read_bytes() for path in guarded.data.rglob("*") if path.is_file()}
    assert any("appendonly" in path.name for path in files)  # everything that Redis was sent
    files[guarded.data.parent / "up.log"] = (guarded.data.parent / "up.log").read_bytes()
    kept = token_file(guarded.data)  # from which the gateway and its clients read it
    assert files.pop(kept) == TOKEN.encode()
    assert stat.S_IMODE(kept.stat().st_mode) == stat.S_IRUSR | stat.S_IWUSR
    for canary in (TOKEN, *CANARIES):
        assert [path for path, content in files.items() if canary.encode() in content] == []
        assert [text for text in (*texts, of_git) if canary.encode() in text] == []
