"""Read the projects of a GitLab server, or of one group on it, and their permissions.

The members of each project, inherited and invited ones included, cost a request per project.
Accounts, with their verified addresses, are listed for the whole server, which requires the token
of an administrator, unless the connection names a group and matches no addresses.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from typing import Any
from urllib.parse import quote

from codelode.host_permissions import HostPermissions, PermissionsBuilder
from codelode.repository_rules import HostVisibility, ListedRepository
from codelode.sources import Connection
from workers.sources.http import Host
from workers.sources.pages import Pages, Params

_PAGE: Params = {"per_page": 100}
_BY_ID: Params = {**_PAGE, "pagination": "keyset", "order_by": "id", "sort": "asc"}

#: The lowest access level of members that can read the code of a project: Reporter.
_READS_CODE = 20


def host(connection: Connection, token: str, pages: Pages) -> Host:
    """Return a client for the API of the server."""
    return Host(f"{connection.url}/api/v4", {"PRIVATE-TOKEN": token}, pages)


async def repositories(host: Host, connection: Connection) -> AsyncIterator[ListedRepository]:
    """Yield the projects that the token reads, except those marked for deletion.

    Their sizes are expensive for the host, so they are requested only if a rule needs them. The
    time of the last activity may be an hour late.
    """
    rules = connection.repositories
    params: Params = {"statistics": "true"} if rules and rules.max_size_bytes else {}
    async for row in _projects(host, connection, params):
        if not row.get("marked_for_deletion_on"):
            yield _listed(row, connection)


def _listed(row: Mapping[str, Any], connection: Connection) -> ListedRepository:
    path = row["path_with_namespace"]
    has_code = row.get("repository_access_level") != "disabled"
    return ListedRepository(
        id=str(row["id"]),
        name=path,
        url=f"{connection.url}/{path}.git",
        is_fork="forked_from_project" in row,
        is_archived=row["archived"],
        is_empty=row.get("empty_repo", False) or not has_code,
        size_bytes=(row.get("statistics") or {}).get("repository_size", 0),
        topics=tuple(row.get("topics") or ()),
        visibility=HostVisibility(row["visibility"]),
        pushed=row["last_activity_at"],
        default_branch=row.get("default_branch") or "",
    )


async def permissions(host: Host, connection: Connection) -> HostPermissions:
    """Return who may read the code of which projects."""
    built = PermissionsBuilder()
    everyone, insiders = await _accounts(host, connection, built)
    projects = [row async for row in _projects(host, connection)]
    for row in projects:
        urls = [f"{connection.url}/{row['path_with_namespace']}"]
        built.repository(str(row["id"]), [*urls, row["http_url_to_repo"], row["ssh_url_to_repo"]])
    async with asyncio.TaskGroup() as group:
        for row in projects:
            if row["repository_access_level"] != "disabled":
                group.create_task(_add_members(host, built, str(row["id"])))
    for accounts, visibility in ((everyone, "public"), (insiders, "internal")):
        built.grant_all(accounts, [str(row["id"]) for row in projects if _is_open(row, visibility)])
    return built.built()


def _projects(host: Host, connection: Connection, more: Params | None = None) -> AsyncIterator[Any]:
    if not connection.organisation:
        return host.rows("/projects", {**_BY_ID, **(more or {})})
    path = f"/groups/{quote(connection.organisation, safe='')}/projects"
    group: Params = {**_PAGE, "include_subgroups": "true", "with_shared": "false"}
    return host.rows(path, {**group, **(more or {})})


async def _accounts(
    host: Host, connection: Connection, built: PermissionsBuilder
) -> tuple[list[str], list[str]]:
    """Add the accounts of the server; return all of them, and those that are not external users.

    External users see no internal projects.
    """
    wanted = connection.permissions
    everyone: list[str] = []
    insiders: list[str] = []
    if connection.organisation and not (wanted and wanted.emails):
        return everyone, insiders
    async for row in host.rows("/users", _BY_ID):
        if row["state"] != "active":
            continue
        account = str(row["id"])
        emails = [row["email"]] if row.get("confirmed_at") and row.get("email") else []
        built.account(account, emails)
        everyone.append(account)
        if row.get("external") is False:
            insiders.append(account)
    return everyone, insiders


async def _add_members(host: Host, built: PermissionsBuilder, project: str) -> None:
    """Add who reads the code of a project as its member; nobody if the token does not reach it."""
    members = []
    with host.list_may_be_withheld():
        members = [row async for row in host.rows(f"/projects/{project}/members/all", _PAGE)]
    for row in members:
        if row["state"] == "active" and row["access_level"] >= _READS_CODE:
            built.account(str(row["id"]))
            built.grant(str(row["id"]), [project])


def _is_open(row: Mapping[str, Any], visibility: str) -> bool:
    """Return whether a project has the visibility, and everyone it admits may read the code."""
    return bool(row["visibility"] == visibility and row["repository_access_level"] == "enabled")
