"""Read the repositories of an organisation on GitHub or an Enterprise server, and permissions.

Few requests are sent, because the limit is 5,000 an hour. Following the repositories takes only
their list from REST, in conditional requests. For permissions, GraphQL gives the repositories with
their direct collaborators, and the members with their verified addresses, in pages of 100; REST
gives the repositories and members of teams, in conditional requests. If the organisation has a base
permission, every member reads every repository, so teams are not read.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator, Mapping
from typing import Any
from urllib.parse import quote

from codelode.errors import CodelodeError, Unavailable
from codelode.host_permissions import HostPermissions, PermissionsBuilder
from codelode.repository_rules import HostVisibility, ListedRepository
from codelode.sources import Connection
from workers.sources import apps
from workers.sources.http import Host, Missing, Refused
from workers.sources.pages import Pages, Params

_CLOUD = "https://github.com"
_PAGE: Params = {"per_page": 100}

_REPOSITORIES = """
query($login: String!, $cursor: String) { organization(login: $login) {
  page: repositories(first: 100, after: $cursor) { pageInfo { hasNextPage endCursor } nodes {
    databaseId nameWithOwner url sshUrl visibility
    collaborators(affiliation: DIRECT, first: 100) { pageInfo { hasNextPage } nodes { databaseId } }
} } } }
"""
_MEMBERS = """
query($login: String!, $cursor: String) { organization(login: $login) {
  page: membersWithRole(first: 100, after: $cursor) { pageInfo { hasNextPage endCursor }
    edges { role node { databaseId organizationVerifiedDomainEmails(login: $login) } }
} } }
"""


def host(connection: Connection, secret: str, pages: Pages) -> Host:
    """Return a client for the APIs of the server, GraphQL and REST: see `rest`.

    `secret`: the token, or the private key of an app.
    """
    headers = {"Accept": "application/vnd.github+json"}
    url = "https://api.github.com" if connection.url == _CLOUD else f"{connection.url}/api"
    if connection.app:
        authorize = apps.Authorization(connection, secret, rest=rest(connection))
        return Host(url, headers, pages, authorize=authorize)
    return Host(url, {**headers, "Authorization": f"Bearer {secret}"}, pages)


def rest(connection: Connection) -> str:
    """Return the prefix of the paths of REST; those of GraphQL have none."""
    return "" if connection.url == _CLOUD else "/v3"


async def repositories(host: Host, connection: Connection) -> AsyncIterator[ListedRepository]:
    """Yield the repositories of the organisation that the token reads."""
    path = f"{rest(connection)}/orgs/{quote(connection.organisation, safe='')}/repos"
    async for row in host.rows(path, {**_PAGE, "type": "all"}):
        yield ListedRepository(
            id=str(row["id"]),
            name=row["full_name"],
            url=f"{connection.url}/{row['full_name']}.git",
            is_fork=row["fork"],
            is_archived=row["archived"],
            size_bytes=row["size"] << 10,
            topics=tuple(row.get("topics") or ()),
            visibility=_visibility(row),
            pushed=row["pushed_at"] or "",
            default_branch=row.get("default_branch") or "",
        )


def _visibility(row: Mapping[str, Any]) -> HostVisibility:
    """Return the visibility, which old Enterprise servers give only as a flag."""
    usual = HostVisibility.PRIVATE if row["private"] else HostVisibility.PUBLIC
    return HostVisibility(row.get("visibility") or usual)


async def permissions(host: Host, connection: Connection) -> HostPermissions:
    """Return who may read which repositories of the organisation."""
    read = _Reading(host, connection, PermissionsBuilder())
    return await read()


class _Reading:
    """Reads the permissions of an organisation once."""

    def __init__(self, host: Host, connection: Connection, built: PermissionsBuilder) -> None:
        self._host, self._built = host, built
        self._login = connection.organisation
        self._url = connection.url
        self._rest = rest(connection)
        self._path = f"{self._rest}/orgs/{quote(self._login, safe='')}"

    async def __call__(self) -> HostPermissions:
        members, owners = await self._members()
        by_visibility: dict[str, list[str]] = defaultdict(list)
        direct: dict[str, list[str]] = {}
        async for row in self._pages(_REPOSITORIES, "nodes"):
            id = str(row["databaseId"])
            urls = [f"{self._url}/{row['nameWithOwner']}", row["url"], row["sshUrl"]]
            self._built.repository(id, urls)
            by_visibility[row["visibility"]].append(id)
            direct[id] = await self._collaborators(row)
        outside = {account for accounts in direct.values() for account in accounts}
        for account in outside - set(members):
            self._built.account(account)
        for id, accounts in direct.items():
            self._built.grant_all(accounts, [id])
        self._built.grant_all({*members, *outside}, by_visibility["PUBLIC"])
        self._built.grant_all(members, by_visibility["INTERNAL"])
        has_base = await self._has_base_permission()
        self._built.grant_all(members if has_base else owners, list(direct))
        if not has_base:
            await self._teams()
        return self._built.built()

    async def _members(self) -> tuple[list[str], list[str]]:
        """Add the members with their verified addresses; return them, and those who are owners."""
        members, owners = [], []
        async for edge in self._pages(_MEMBERS, "edges"):
            account = str(edge["node"]["databaseId"])
            self._built.account(account, edge["node"]["organizationVerifiedDomainEmails"])
            members.append(account)
            if edge["role"] == "ADMIN":
                owners.append(account)
        return members, owners

    async def _collaborators(self, row: Mapping[str, Any]) -> list[str]:
        """Return the direct collaborators; empty if the token may not see them."""
        found = row["collaborators"]
        if found is None:
            return []
        if not found["pageInfo"]["hasNextPage"]:
            return [str(one["databaseId"]) for one in found["nodes"]]
        path = f"{self._rest}/repos/{row['nameWithOwner']}/collaborators"
        return await self._ids(path, {**_PAGE, "affiliation": "direct"})

    async def _has_base_permission(self) -> bool:
        """Return whether every member may read every repository; False if that is hidden."""
        found = await self._host.get(self._path)
        return found.get("default_repository_permission") not in (None, "none")

    async def _teams(self) -> None:
        async with asyncio.TaskGroup() as group:
            async for team in self._host.rows(f"{self._path}/teams", _PAGE):
                group.create_task(self._team(f"{self._path}/teams/{quote(team['slug'], safe='')}"))

    async def _team(self, path: str) -> None:
        """Add what a team reads. Its list of members includes those of its child teams."""
        members = await self._ids(f"{path}/members", _PAGE)
        self._built.grant_all(members, await self._ids(f"{path}/repos", _PAGE))

    async def _ids(self, path: str, params: Params) -> list[str]:
        """Return the ids of a list. If it is gone or hidden, note that and return none."""
        with self._host.list_may_be_withheld():
            return [str(row["id"]) async for row in self._host.rows(path, params)]
        return []

    async def _pages(self, query: str, field: str) -> AsyncIterator[Any]:
        """Yield what a paged GraphQL query returns."""
        cursor = None
        while True:
            variables = {"login": self._login, "cursor": cursor}
            answer = await self._host.post("/graphql", {"query": query, "variables": variables})
            page = _page(answer)
            for row in page[field]:
                yield row
            if not page["pageInfo"]["hasNextPage"]:
                return
            cursor = page["pageInfo"]["endCursor"]


def _page(answer: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the page in an answer of GraphQL, which reports errors with status 200.

    An error that hides the collaborators of a repository from the token concerns only that
    repository, so it is ignored.
    """
    errors = [
        one
        for one in answer.get("errors") or ()
        if not (one.get("type") == "FORBIDDEN" and "collaborators" in one.get("path", ()))
    ]
    if errors:
        raise _failure(errors[0])
    page: Mapping[str, Any] = answer["data"]["organization"]["page"]
    return page


def _failure(error: Mapping[str, Any]) -> CodelodeError:
    kind, message = error.get("type"), f"GraphQL: {str(error.get('message'))[:200]}"
    if kind == "NOT_FOUND":
        return Missing(message)
    return (
        Refused(message) if kind in ("FORBIDDEN", "INSUFFICIENT_SCOPES") else Unavailable(message)
    )
