"""List the repositories of connections that are not code hosts: a list of URLs, or a folder.

They do not report pushes, so repositories are indexed again at the intervals in
`workers.sources.reconcile`, which costs a `git ls-remote` for an unchanged one. A repository is
identified by its address.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

from codelode.addresses import default_name
from codelode.errors import Unavailable
from codelode.host_permissions import address
from codelode.repository_rules import ListedRepository
from codelode.sources import Connection

#: A line of a packed-refs file that lists a branch or a tag.
_PACKED = re.compile(rb" refs/(?:heads|tags)/")

#: The HEAD of a repository that is on no branch: a commit, by SHA-1 or SHA-256.
_DETACHED = re.compile(rb"[0-9a-f]{40}")

#: Maximum number of bytes that are read of a file of refs; a larger file lists a commit.
_MAX_BYTES = 100_000


def urls(connection: Connection) -> list[ListedRepository]:
    """Return the repositories of the list; a repeated address counts once."""
    by_address = {address(url): url for url in connection.urls}
    return [
        ListedRepository(id=id, name=default_name(url), url=url) for id, url in by_address.items()
    ]


def folder(connection: Connection) -> list[ListedRepository]:
    """Return the repositories directly in a folder. Raises Unavailable if it cannot be listed.

    Whether the setting CODELODE_LOCAL_PATHS allows a repository is checked when it is registered.
    """
    try:
        with os.scandir(connection.url) as entries:
            inside = sorted(os.path.realpath(one.path) for one in entries if _is_repository(one))
    except OSError as exc:
        raise Unavailable(f"cannot list the folder {connection.url}: {exc.strerror}") from exc
    return [
        ListedRepository(id=path, name=default_name(path), url=path, is_empty=_is_empty(Path(path)))
        for path in inside
    ]


def _is_repository(entry: os.DirEntry[str]) -> bool:
    return any(os.path.exists(os.path.join(entry.path, name)) for name in (".git", "HEAD"))


def _is_empty(repository: Path) -> bool:
    """Return whether a repository has no commit on a branch, a tag, or its HEAD.

    Reads its files, because git would need a process per repository and listing. Returns False if
    they cannot be read, or if the refs are elsewhere: in linked worktrees and reftables. The runs
    of such repositories report what is wrong.
    """
    inside = repository / ".git"
    if inside.is_file():
        return False
    git_dir = inside if inside.is_dir() else repository
    try:
        return not (
            (git_dir / "reftable").exists()
            or any(_has_file(git_dir / "refs" / kind) for kind in ("heads", "tags"))
            or _PACKED.search(_beginning(git_dir / "packed-refs"))
            or _DETACHED.match(_beginning(git_dir / "HEAD"))
        )
    except OSError:
        return False


def _has_file(folder: Path) -> bool:
    return any(files for _, _, files in os.walk(folder))


def _beginning(file: Path) -> bytes:
    if not file.is_file():  # not a pipe either: reading it might not end
        return b""
    with file.open("rb") as opened:
        return opened.read(_MAX_BYTES)
