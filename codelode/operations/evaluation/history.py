"""Make judged queries from the history of a repository.

The subject of a commit is the query, and the files that it changed are the answer. The index is of
the state before all of these commits, so it holds none of their changes. Merges, reverts, and
commits that change many files or add a file are left out.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from codelode.environment import without_settings
from codelode.errors import InvalidSettings

#: Commits that change more files are too unspecific, and subjects with fewer words say too little;
#: both are skipped.
MAX_FILES = 5
MIN_WORDS = 3

#: Maximum number of commits that are read, newest first; git takes about a millisecond for each.
MAX_READ = 10_000

CATEGORY = "history"

#: Matches subjects that say what happened to other commits, not what was changed.
_ABOUT_COMMITS = re.compile(
    r"(?:merge (?:branch|pull request|remote|tag|commit)|reverts?|reapply)\b", re.IGNORECASE
)
#: Matches the number that a code host adds to the subject of a squashed pull request.
_NUMBER = re.compile(r" \(#\d++\)$")


@dataclass(frozen=True, slots=True)
class _Commit:
    subject: str
    paths: tuple[str, ...]


def judged(
    folder: Path, *, name: str, commits: int, since: str = "", language: str = ""
) -> dict[str, Any]:
    """Return an entry of a file of judged queries, made from the last commits of a checkout.

    The commits are those after the revision `since`, or after the commit that is `commits` before
    HEAD in the line of first parents. The entry's `revision` is that commit: index it. Raises
    InvalidSettings if there is no repository, its history is too short, or HEAD does not descend
    from `since`.
    """
    base = _revision(folder, since) if since else _before(folder, commits)
    before = set(
        _git(folder, "ls-tree", "-r", "-z", "--full-tree", "--name-only", base).split("\0")
    )
    return {
        "repo": name,
        "language": language,
        "revision": base,
        "queries": [
            {"query": one.subject, "category": CATEGORY, "relevant": list(one.paths)}
            for one in _after(folder, base)
            if _says_something(one) and before.issuperset(one.paths)
        ],
    }


def _revision(folder: Path, since: str) -> str:
    """Return the id of the commit, from which HEAD must descend."""
    base = _git(folder, "rev-list", "--max-count=1", "--end-of-options", since).strip()
    if base != _git(folder, "merge-base", base, "HEAD").strip():
        raise InvalidSettings(f"{folder}: HEAD does not descend from {since}")
    return base


def _before(folder: Path, commits: int) -> str:
    """Return the id of the commit that is `commits` first parents before HEAD, or the oldest."""
    shown = _git(folder, "rev-list", "--first-parent", f"--max-count={commits + 1}", "HEAD")
    revisions = shown.split()
    if len(revisions) < 2:
        raise InvalidSettings(f"{folder} has no history to make queries from")
    return revisions[-1]


def _says_something(commit: _Commit) -> bool:
    is_change = not _ABOUT_COMMITS.match(commit.subject)
    has_words = len(commit.subject.split()) >= MIN_WORDS
    return is_change and has_words and 0 < len(commit.paths) <= MAX_FILES


def _after(folder: Path, base: str) -> Iterator[_Commit]:
    """Yield the newest commits that are not ancestors of `base`, with the files that they changed.

    In git's output, a NUL ends each subject and each file, and a line break precedes the first
    file. The format adds a NUL and a colon before each subject, because a subject may be empty.
    """
    wanted = ("--no-merges", f"--max-count={MAX_READ}", "--root", "--no-renames", "--name-only")
    plain = ("--no-show-signature", "--no-relative")  # whatever the user's configuration says
    form = (*plain, "--format=tformat:%x00:%s")
    shown = _git(folder, "log", "-z", *wanted, *form, f"{base}..HEAD", "--")
    for commit in filter(None, shown.strip("\0").split("\0\0")):
        subject, _, paths = commit.removeprefix(":").partition("\0\n")
        yield _Commit(_NUMBER.sub("", subject.strip()), tuple(filter(None, paths.split("\0"))))


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
