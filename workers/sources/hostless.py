"""List the repositories of connections that are no code hosts: a list of URLs, or a folder.

They do not say when something was pushed, so repositories are indexed again at the intervals in
`workers.sources.reconcile`, which costs a `git ls-remote` for an unchanged one. A repository is
identified by its address.
"""

from __future__ import annotations

import os

from codelode.addresses import default_name
from codelode.errors import Unavailable
from codelode.host_permissions import address
from codelode.repository_rules import ListedRepository
from codelode.sources import Connection


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
    return [ListedRepository(id=path, name=default_name(path), url=path) for path in inside]


def _is_repository(entry: os.DirEntry[str]) -> bool:
    return any(os.path.exists(os.path.join(entry.path, name)) for name in (".git", "HEAD"))
