"""Read the repositories of an organisation on Azure DevOps.

Source: "Azure DevOps Services REST API", 7.1, page "Repositories - List", as of November 2026.
The list has no pages, and does not show when something was pushed. The answer to a wrong token is a
sign-in page with the status 203.
"""

from __future__ import annotations

import base64
from collections.abc import AsyncIterator, Mapping
from typing import Any
from urllib.parse import quote

from codelode.repository_rules import HostVisibility, ListedRepository
from codelode.sources import Connection
from workers.sources.http import Host
from workers.sources.pages import Pages, Params

_VERSION: Params = {"api-version": "7.1"}


def host(connection: Connection, token: str, pages: Pages) -> Host:
    """Return a client for the API of the organisation."""
    pair = base64.b64encode(f":{token}".encode()).decode()
    organisation = quote(connection.organisation, safe="")
    return Host(f"{connection.url}/{organisation}", {"Authorization": f"Basic {pair}"}, pages)


async def repositories(host: Host, connection: Connection) -> AsyncIterator[ListedRepository]:
    """Yield the repositories of all projects that the token reads; a disabled one is archived."""
    async for row in host.rows("/_apis/git/repositories", _VERSION, within="value"):
        yield _listed(row, connection)


def _listed(row: Mapping[str, Any], connection: Connection) -> ListedRepository:
    project = row["project"]
    path = f"{quote(project['name'], safe='')}/_git/{quote(row['name'], safe='')}"
    is_public = project.get("visibility") == "public"
    return ListedRepository(
        id=row["id"],
        name=f"{connection.organisation}/{project['name']}/{row['name']}",
        url=f"{connection.root}/{connection.organisation}/{path}",
        is_fork=row.get("isFork", False),
        is_archived=row.get("isDisabled", False),
        is_empty="defaultBranch" not in row,
        size_bytes=row.get("size", 0),
        visibility=HostVisibility.PUBLIC if is_public else HostVisibility.PRIVATE,
        default_branch=row.get("defaultBranch", "").removeprefix("refs/heads/"),
    )
