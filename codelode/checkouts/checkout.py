"""Find the checkout that a path belongs to, and run git in it."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from codelode.environment import without_repository
from codelode.errors import InvalidQuery, NotFound, Unavailable

#: Configuration of every call. It must not start the user's hooks or a daemon that watches the
#: files, and a reference log would keep every snapshot alive.
_CONFIG = (
    *("-c", "core.hooksPath=/dev/null"),
    *("-c", "core.fsmonitor=false"),
    *("-c", "core.safecrlf=false"),
    *("-c", "core.logAllRefUpdates=false"),
)


@dataclass(frozen=True, slots=True)
class Checkout:
    """A work tree, and where git keeps what belongs to it. All paths are resolved."""

    root: Path
    git_dir: Path  # of this work tree alone
    common_dir: Path  # of all work trees of the repository
    hooks_dir: Path  # the setting core.hooksPath, else in the common folder; it may not exist

    @property
    def source(self) -> Path:
        """Return the path under which all work trees of the repository are indexed."""
        if self.git_dir == self.common_dir:
            return self.root
        first = self.text("worktree", "list", "--porcelain").partition("\n")[0]
        return Path(first.removeprefix("worktree "))

    def git(
        self,
        *arguments: str,
        stdin: bytes = b"",
        variables: Mapping[str, str] | None = None,
        tolerated: int = 0,
    ) -> bytes:
        """Run git in the work tree and return its output.

        `tolerated`: an exit status that is not a failure. Raises Unavailable with git's message if
        it fails, NotFound if the work tree is gone.
        """
        done = _run(self.root, *_CONFIG, *arguments, stdin=stdin, variables=variables)
        if done.returncode not in (0, tolerated):
            raise Unavailable(f"git {arguments[0]} failed in {self.root}: {_reason(done)}")
        return done.stdout

    def text(self, *arguments: str) -> str:
        """Run git, and return the line that it prints; empty if it fails or prints nothing."""
        done = _run(self.root, *_CONFIG, *arguments)
        return "" if done.returncode else _line(done.stdout)


def checkout_at(path: Path) -> Checkout:
    """Return the checkout that holds the path. Raises InvalidQuery("path") if there is none."""
    folder = path.expanduser()
    if not folder.is_dir():
        raise InvalidQuery("path", f"there is no folder {str(path)!r}; give a folder of a checkout")
    done = _run(folder, "rev-parse", "--show-toplevel")
    if done.returncode:
        raise InvalidQuery("path", f"{str(path)!r} is not in a git checkout: {_reason(done)}")
    root = Path(_line(done.stdout))
    asked = ("--absolute-git-dir", "--git-common-dir", "--git-path", "hooks")
    listed = _line(_run(root, "rev-parse", *asked).stdout).split("\n")
    git_dir, common_dir, hooks_dir = ((root / line).resolve() for line in listed)
    return Checkout(root.resolve(), git_dir, common_dir, hooks_dir)


def _run(
    folder: Path,
    *arguments: str,
    stdin: bytes = b"",
    variables: Mapping[str, str] | None = None,
) -> subprocess.CompletedProcess[bytes]:
    try:
        return subprocess.run(
            ["git", "--no-pager", *arguments],
            cwd=folder,
            input=stdin,
            env={**without_repository(), "LC_ALL": "C", **(variables or {})},
            capture_output=True,
            check=False,
        )
    except FileNotFoundError as exc:
        if not folder.is_dir():
            raise NotFound(f"the folder {folder} no longer exists") from exc
        raise NotFound("the program git was not found; install it") from exc


def _line(out: bytes) -> str:
    return out.decode("utf-8", "surrogateescape").removesuffix("\n")


def _reason(done: subprocess.CompletedProcess[bytes]) -> str:
    """Return git's first error message, or else its exit status."""
    lines = done.stderr.decode("utf-8", "replace").splitlines()
    found = (line for line in lines if line.startswith(("fatal:", "error:")))
    return next(found, f"status {done.returncode}").removeprefix("fatal: ")
