"""Commit the uncommitted state of a checkout to a separate ref.

The commit has the files that `git add --all` would commit: tracked, changed, and untracked ones
that no ignore rule matches. It is made in a copy of the index, so that the user's index, branches,
and hooks are not affected; only objects and one ref are added to the repository. Each linked work
tree has its own ref (`refs/worktree`).
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from codelode.checkouts.checkout import Checkout
from codelode.errors import InvalidQuery
from codelode.model import WORKING_COPIES, WORKING_COPY, Revision

#: Untracked files above this size are left out, because each snapshot would copy them into the
#: repository. It is the largest value of the setting `max_file_bytes`.
MAX_UNTRACKED_BYTES = 50_000_000

_REF = f"{WORKING_COPIES}{WORKING_COPY}"
_NAME = "codelode"
_MESSAGE = "Working copy with uncommitted changes"


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The commit of a working copy, and the files that are not in it."""

    revision: Revision
    left_out: tuple[str, ...] = ()


class WorkingCopy:
    """Makes snapshots of a checkout; `scratch` is a folder for its copy of the index."""

    def __init__(self, checkout: Checkout, scratch: Path) -> None:
        self._checkout = checkout
        self._scratch = scratch

    def snapshot(self) -> Snapshot:
        """Commit the present state, unless that has been done, and point the ref to it.

        The same files on the same commit give the same revision. Raises InvalidQuery("path") before
        the first commit, Unavailable if git fails, NotFound if the checkout is gone.
        """
        parent, seconds = self._head()
        self._refresh()
        left_out = self._left_out()
        self._add_all(left_out)
        tree = self._git("write-tree").decode().strip()
        revision = self._commit(tree, parent, seconds)
        if self._checkout.text("rev-parse", "--verify", "--quiet", _REF) != revision:
            self._git("update-ref", _REF, revision)
        return Snapshot(revision, left_out)

    def _head(self) -> tuple[str, str]:
        """Return the commit that is checked out, and its time."""
        commit, _, seconds = self._checkout.text("log", "-1", "--format=%H %ct").partition(" ")
        if not commit:
            raise InvalidQuery(
                "path", f"{str(self._checkout.root)!r} has no commit yet; make the first one"
            )
        return commit, seconds

    def _refresh(self) -> None:
        """Copy the user's index, with what it knows of unchanged files.

        The copy of the last snapshot is not reused: in it, files are still tracked that have become
        ignored since. The copy keeps its modification time, by which git decides which files it
        must compare by content.
        """
        self._index.unlink(missing_ok=True)
        with suppress(FileNotFoundError):
            shutil.copy2(self._checkout.git_dir / "index", self._index)

    def _left_out(self) -> tuple[str, ...]:
        """Return the untracked files that are too large, and the repositories among the files."""
        listed = self._git("ls-files", "-z", "--others", "--exclude-standard")
        paths = (os.fsdecode(path) for path in listed.split(b"\0") if path)
        return tuple(path for path in paths if path.endswith("/") or self._is_large(path))

    def _is_large(self, path: str) -> bool:
        try:
            return (self._checkout.root / path).lstat().st_size > MAX_UNTRACKED_BYTES
        except OSError:  # it was deleted meanwhile
            return False

    def _add_all(self, left_out: Iterable[str]) -> None:
        """Bring the copy of the index up to date; files that cannot be read stay as they were."""
        excluded = [f":(top,exclude,literal){path.rstrip('/')}" for path in left_out]
        specs = "\0".join([":/", *excluded] if excluded else []).encode("utf-8", "surrogateescape")
        given = ("--pathspec-from-file=-", "--pathspec-file-nul") if excluded else ()
        self._git("add", "--all", "--ignore-errors", *given, stdin=specs, tolerated=1)

    def _commit(self, tree: str, parent: str, seconds: str) -> Revision:
        variables = {
            f"GIT_{who}_{what}": value
            for who in ("AUTHOR", "COMMITTER")
            for what, value in (("NAME", _NAME), ("EMAIL", _NAME), ("DATE", f"@{seconds} +0000"))
        }
        made = self._checkout.git(
            "commit-tree", tree, "-p", parent, "-m", _MESSAGE, variables=variables
        )
        return Revision(made.decode().strip())

    def _git(self, *arguments: str, stdin: bytes = b"", tolerated: int = 0) -> bytes:
        variables = {"GIT_INDEX_FILE": str(self._index)}
        return self._checkout.git(*arguments, stdin=stdin, variables=variables, tolerated=tolerated)

    @property
    def _index(self) -> Path:
        return self._scratch / "index"


def forget(checkout: Checkout) -> bool:
    """Delete the ref of the snapshots; return False if there is none."""
    if not checkout.text("rev-parse", "--verify", "--quiet", _REF):
        return False
    checkout.git("update-ref", "-d", _REF)
    return True


def require_no_namesake(checkout: Checkout) -> None:
    """Raise InvalidQuery("path") if a branch or tag has the name of the ref of the snapshots."""
    for kind in ("heads", "tags"):
        if checkout.text("rev-parse", "--verify", "--quiet", f"refs/{kind}/{WORKING_COPY}"):
            raise InvalidQuery(
                "path",
                f"the repository has a branch or tag {WORKING_COPY!r}, the name under which the "
                "working copy is indexed; rename it",
            )
