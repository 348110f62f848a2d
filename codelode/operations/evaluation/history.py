"""Make judged queries from the history of a repository.

The subject of a commit is the query, and the files that it changed are the answer. They are
searched in the state before all of these commits, so that the index holds nothing of the answer.
"""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from codelode.environment import without_settings
from codelode.errors import InvalidSettings

#: Commits that change more files are sweeps, and shorter subjects say too little; both are skipped.
MAX_FILES = 5
MIN_WORDS = 3

CATEGORY = "history"


@dataclass(frozen=True, slots=True)
class _Commit:
    subject: str
    paths: tuple[str, ...]


def judged(folder: Path, *, name: str, commits: int, language: str = "") -> dict[str, Any]:
    """Return an entry of a file of judged queries, made from the last `commits` of a checkout.

    Its `revision` is the commit to index. Raises InvalidSettings if there is no repository or its
    history is too short.
    """
    shown = _git(folder, "rev-list", "--first-parent", f"--max-count={commits + 1}", "HEAD")
    revisions = shown.split()
    if len(revisions) < 2:
        raise InvalidSettings(f"{folder} has no history to make queries from")
    base = revisions[-1]
    before = set(_git(folder, "ls-tree", "-r", "-z", "--name-only", base).split("\0"))
    found = [_commit(folder, revision) for revision in revisions[:-1]]
    return {
        "repo": name,
        "language": language,
        "revision": base,
        "queries": [
            {"query": one.subject, "category": CATEGORY, "relevant": list(one.paths)}
            for one in found
            if _says_something(one) and before.issuperset(one.paths)
        ],
    }


def _says_something(commit: _Commit) -> bool:
    return 0 < len(commit.paths) <= MAX_FILES and len(commit.subject.split()) >= MIN_WORDS


def _commit(folder: Path, revision: str) -> _Commit:
    command = ("diff-tree", "-r", "-z", "--no-commit-id", "--name-only", "--first-parent", "-m")
    paths = _git(folder, *command, revision).split("\0")
    subject = _git(folder, "log", "-1", "--format=%s", revision).strip()
    return _Commit(subject, tuple(filter(None, paths)))


def _git(folder: Path, *arguments: str) -> str:
    command = ["git", "-C", str(folder), "--no-pager", "-c", "core.fsmonitor=false", *arguments]
    done = subprocess.run(
        command,
        env=without_settings(),
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
    )
    if done.returncode:
        raise InvalidSettings(f"{folder}: {done.stderr.strip() or 'git failed'}")
    return done.stdout
