"""Check that git reads a local repository only where the settings of the server allow it.

Git follows links and references out of a repository: a linked worktree, a common folder, borrowed
objects, and symbolic links in place of objects, refs, or the files that list them. Each of them is
resolved and checked, and so is everything that it leads to. A repository may change after a check,
so every run checks it again. A file that git could read differently from this module is refused.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import NoReturn

from codelode.errors import InvalidQuery

#: The value of `local_paths` that allows all repositories owned by the user of this process.
OWNED = "owned"

#: The remedy in the message of a folder that the server may not read.
_ALLOW = "start `codelode up` with --allow-path FOLDER"

#: The folders and files of a git directory from which content reaches a clone. Others, such as
#: hooks and LFS objects, are often links to shared folders, and git does not read them for a clone.
_FOLDERS = ("objects", "refs", "reftable")
_FILES = ("HEAD", "packed-refs", "shallow", "commondir", "config")

#: Alternates may have further alternates; git follows five levels, too.
_ALTERNATES_DEPTH = 5

#: Maximum number of bytes that are read of a file with references.
_MAX_BYTES = 100_000

_HEAD = re.compile(r"ref: *refs/[^\x00-\x20]+|[0-9a-f]{40}(?:[0-9a-f]{24})?")
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")

#: Raises InvalidQuery unless git may read the resolved path.
_Require = Callable[[Path], None]


def check(path: Path, *, local_paths: str) -> Path:
    """Return the resolved path of a repository that git may read. Raises InvalidQuery("url").

    `local_paths`: see `addresses.check_url`. Takes 0.1 s for 20,000 loose objects.
    """
    if not local_paths.strip():
        _refuse(
            "this server indexes no local repositories; "
            "allow their folder with the setting CODELODE_LOCAL_PATHS or give an https or ssh URL"
        )
    require = _require_owned if local_paths.strip() == OWNED else _require_below(local_paths)
    resolved = resolve(path)
    with _translated(path):
        require(resolved)
        _check_git_dirs(resolved, require)
    return resolved


def resolve(path: Path) -> Path:
    """Return the resolved path, whether or not it exists. Raises InvalidQuery("url")."""
    with _translated(path):
        return path.resolve()


@contextmanager
def _translated(path: Path) -> Iterator[None]:
    try:
        yield
    except (OSError, RuntimeError, ValueError) as exc:
        reason = getattr(exc, "strerror", None) or "it is not a path"
        _refuse(f"{_shown(path)!r} cannot be read: {reason}")


def roots(local_paths: str) -> tuple[Path, ...]:
    """Return the resolved folders that the setting lists; none if it is empty or OWNED."""
    if local_paths.strip() == OWNED:
        return ()
    return tuple(Path(entry).expanduser().resolve() for entry in local_paths.split(":") if entry)


def _require_owned(path: Path) -> None:
    if not path.exists():
        _refuse(f"there is no folder {_shown(path)!r} where the server runs; check the path")
    if path.stat().st_uid != os.geteuid():
        _refuse(f"{_shown(path)!r} is not owned by the user that the server runs as; {_ALLOW}")


def _require_below(local_paths: str) -> _Require:
    allowed = roots(local_paths)

    def require(path: Path) -> None:
        # Before existence: a caller must not be able to probe for files outside these folders.
        if not any(path.is_relative_to(root) for root in allowed):
            _refuse(
                f"{_shown(path)!r} is outside the folders that the setting CODELODE_LOCAL_PATHS "
                f"allows; {_ALLOW}"
            )

    return require


def _check_git_dirs(repository: Path, require: _Require) -> None:
    """Check the git directory of a repository and all that it refers to."""
    git_dir = _git_dir(repository)
    require(git_dir)
    common = git_dir
    if (git_dir / "commondir").exists():
        _check_files(git_dir, require)  # before one of them is read
        common = (git_dir / _reference(git_dir / "commondir")).resolve()
        require(common)
    seen: set[Path] = set()
    for folder in {git_dir, common}:
        _check_files(folder, require)
        for name in _FOLDERS:
            _check_tree(folder / name, require, seen)
    if not _is_git_directory(git_dir, common):
        _refuse(f"{_shown(repository)!r} is not a git repository; give the folder that holds .git")
    for borrowed in _alternates((common / "objects").resolve(), require, _ALTERNATES_DEPTH):
        _check_tree(borrowed, require, seen)


def _git_dir(repository: Path) -> Path:
    """Return the git directory that git finds for the path, resolved."""
    if not repository.exists():
        _refuse(f"there is no folder {_shown(repository)!r} where the server runs; check the path")
    inside = repository / ".git"
    if inside.is_file():
        reference = _reference(inside)
        if not reference.startswith("gitdir: "):
            _refuse(f"{_shown(inside)!r} does not name a git directory")
        return (repository / reference.removeprefix("gitdir: ")).resolve()
    if inside.is_dir() and _is_git_directory(repository, repository):
        _refuse(f"{_shown(repository)!r} is a git repository and holds another; give one of them")
    return (inside if inside.is_dir() else repository).resolve()


def _is_git_directory(git_dir: Path, common: Path) -> bool:
    """Return whether git takes this for a git directory; if not, git looks for another one."""
    head = git_dir / "HEAD"
    return (
        all((common / name).is_dir() for name in ("objects", "refs"))
        and head.is_file()
        and _HEAD.match(_text(head)) is not None
    )


def _check_files(git_dir: Path, require: _Require) -> None:
    for name in _FILES:
        if (git_dir / name).is_symlink():
            require((git_dir / name).resolve())


def _check_tree(folder: Path, require: _Require, seen: set[Path]) -> None:
    """Check every folder and every link below the folder, and what the links lead to."""
    waiting = [folder]
    while waiting:
        path = waiting.pop()
        resolved = path.resolve()
        if resolved in seen or not os.path.lexists(path):
            continue
        require(resolved)
        seen.add(resolved)
        if resolved.is_dir():
            with os.scandir(resolved) as entries:
                waiting += [Path(e.path) for e in entries if e.is_symlink() or e.is_dir()]


def _alternates(objects: Path, require: _Require, depth: int) -> Iterator[Path]:
    """Yield the folders of objects that this one borrows from, directly or not, resolved."""
    listed = objects / "info" / "alternates"
    if not depth or not listed.is_file():
        return
    lines = _text(listed).split("\n")
    for line in (line for line in lines if line and not line.startswith("#")):
        if line.startswith('"') or _CONTROL.search(line):
            _refuse(f"{_shown(listed)!r} quotes a path; write it without quotes")
        borrowed = (objects / line).resolve()
        require(borrowed)
        yield from chain([borrowed], _alternates(borrowed, require, depth - 1))


def _reference(file: Path) -> str:
    """Return the path that a file holds: all of its text, as git reads it."""
    text = _text(file).rstrip("\r\n")
    if _CONTROL.search(text):
        _refuse(f"{_shown(file)!r} holds control characters; remove them")
    return text


def _text(file: Path) -> str:
    with file.open("rb") as opened:
        content = opened.read(_MAX_BYTES + 1)
    if len(content) > _MAX_BYTES:
        _refuse(f"{_shown(file)!r} is larger than {_MAX_BYTES:,} bytes; git writes no such file")
    return os.fsdecode(content)


def _shown(path: Path) -> str:
    """Return a path for a message, without the password of a URL that was taken for a path."""
    text = str(path)
    before, _, after = text.rpartition("@")
    return f"…@{after}" if ":" in before else text


def _refuse(message: str) -> NoReturn:
    raise InvalidQuery("url", message)
