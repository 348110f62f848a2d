"""Read the repositories of a workspace on Bitbucket Cloud, or of a Bitbucket Data Center.

Sources: "Bitbucket Cloud REST API" and "Bitbucket Data Center REST API", as of November 2026.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from typing import Any
from urllib.parse import quote

from codelode.repository_rules import HostVisibility, ListedRepository
from codelode.sources import Connection
from workers.sources.http import Host
from workers.sources.pages import Pages, Params

_CLOUD = "https://bitbucket.org"
_PAGE: Params = {"pagelen": 100}
_PAGE_OF_SERVER: Params = {"limit": 100}


def host(connection: Connection, token: str, pages: Pages) -> Host:
    """Return a client for the API of Bitbucket Cloud."""
    is_cloud = connection.url == _CLOUD
    url = "https://api.bitbucket.org" if is_cloud else connection.url
    return Host(f"{url}/2.0", {"Authorization": f"Bearer {token}"}, pages)


def server(connection: Connection, token: str, pages: Pages) -> Host:
    """Return a client for the API of a Data Center."""
    headers = {"Authorization": f"Bearer {token}"}
    return Host(f"{connection.url}/rest/api/latest", headers, pages)


async def repositories(host: Host, connection: Connection) -> AsyncIterator[ListedRepository]:
    """Yield the repositories of the workspace that the token reads."""
    path = f"/repositories/{quote(connection.organisation, safe='')}"
    async for row in host.rows(path, _PAGE, within="values"):
        yield ListedRepository(
            id=row["uuid"],
            name=row["full_name"],
            url=f"{connection.root}/{row['full_name']}.git",
            is_fork=bool(row.get("parent")),
            is_empty=row["mainbranch"] is None,
            size_bytes=row["size"] or 0,
            visibility=_visibility(is_public=not row["is_private"]),
            pushed=row["updated_on"],
            default_branch=(row["mainbranch"] or {}).get("name", ""),
        )


async def repositories_of_server(
    host: Host, connection: Connection
) -> AsyncIterator[ListedRepository]:
    """Yield the repositories of a project, or of the server, that the token reads.

    The server does not report when something was pushed.
    """
    project = quote(connection.organisation, safe="")
    path = f"/projects/{project}/repos" if project else "/repos"
    # The list of a project includes archived repositories; that of the server only on request.
    params = _PAGE_OF_SERVER if project else {**_PAGE_OF_SERVER, "archived": "ALL"}
    async for row in host.rows(path, params, within="values"):
        yield _of_server(row, connection)


def _of_server(row: Mapping[str, Any], connection: Connection) -> ListedRepository:
    name = f"{row['project']['key'].lower()}/{row['slug']}"
    return ListedRepository(
        id=str(row["id"]),
        name=name,
        url=f"{connection.root}/{name}.git",
        is_fork=bool(row.get("origin")),
        is_archived=row.get("archived", False),
        visibility=_visibility(is_public=row["public"] or row["project"].get("public", False)),
    )


def _visibility(*, is_public: bool) -> HostVisibility:
    return HostVisibility.PUBLIC if is_public else HostVisibility.PRIVATE
