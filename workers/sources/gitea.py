"""Read the repositories of a Gitea or Forgejo server, and their permissions.

Permissions need the token of an administrator; repositories can be listed with any token.

The token acts for each account (`Sudo`), so the server itself applies the rights by team, unit,
organisation, and collaboration. Its API for the permission of a single collaborator is not used: it
is wrong for those who read through a team that has only some units.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator, Mapping, Sequence
from datetime import datetime
from typing import Any
from urllib.parse import quote

from codelode.host_permissions import HostPermissions, PermissionsBuilder
from codelode.repository_rules import HostVisibility, ListedRepository
from codelode.sources import Connection
from workers.sources.http import Host, Missing, Refused
from workers.sources.pages import Pages, Params

#: Rows per page. The server gives no more than its setting MAX_RESPONSE_ITEMS, by default 50.
_PAGE: Params = {"limit": 100}
_SEARCH: Params = {**_PAGE, "sort": "id", "order": "asc"}
_LATEST: Params = {**_PAGE, "sort": "updated", "order": "desc"}

#: Maximum time by which an update may be older than one that was listed before it, seconds: its
#: time is set when a process starts to make it, but it is listed only when that process has ended.
_LATE_S = 60.0


def host(connection: Connection, token: str, pages: Pages) -> Host:
    """Return a client for the API of the server."""
    return Host(f"{connection.url}/api/v1", {"Authorization": f"token {token}"}, pages)


async def repositories(host: Host, connection: Connection) -> AsyncIterator[ListedRepository]:
    """Yield the repositories that the token reads, of the server or of an owner."""
    owner = await _owner(host, connection.organisation) if connection.organisation else ""
    async for row in host.rows("/repos/search", {**_SEARCH, **_owned(owner)}, within="data"):
        yield _listed(row, connection)


async def changed(
    host: Host, connection: Connection, before: Sequence[ListedRepository]
) -> Sequence[ListedRepository] | None:
    """Return the repositories, given those of the last listing: one request if nothing changed.

    Repositories that were pushed to or created are the latest updated ones, so they are on the
    first pages. If others were added or removed, their number differs, and None is returned. A
    change of name, state, visibility, topics, or default branch may not count as an update, and is
    only found on these pages. The update time of a mirror is that of its last commit, so all
    mirrors are listed.
    """
    newest = max((_updated(one) for one in before if not one.is_mirror), default=None)
    if newest is None:
        return None
    owned = _owned(before[0].owner if connection.organisation else "")
    found, total = {one.id: one for one in before}, None
    async for page in host.pages("/repos/search", {**_LATEST, **owned}, within="data"):
        rows, total = [_listed(row, connection) for row in page.rows], page.total
        found |= {one.id: one for one in rows}
        if rows and _updated(rows[-1]) < newest - _LATE_S:
            break
    if any(one.is_mirror for one in found.values()):
        mirrors = {**_SEARCH, **owned, "mode": "mirror"}
        async for row in host.rows("/repos/search", mirrors, within="data"):
            found[str(row["id"])] = _listed(row, connection)
    return tuple(found.values()) if len(found) == total else None


async def _owner(host: Host, name: str) -> str:
    """Return the id of an organisation or a user."""
    name = quote(name, safe="")
    try:
        found = await host.get(f"/orgs/{name}")
    except Missing:
        found = await host.get(f"/users/{name}")
    return str(found["id"])


def _owned(owner: str) -> Params:
    """Return the parameters of a search for the repositories of an owner; empty: of all."""
    return {"uid": owner, "exclusive": "true"} if owner else {}


def _updated(one: ListedRepository) -> float:
    return datetime.fromisoformat(one.pushed).timestamp()


def _listed(row: Mapping[str, Any], connection: Connection) -> ListedRepository:
    hidden = HostVisibility.INTERNAL if row["internal"] else HostVisibility.PRIVATE
    is_open = not row["private"] and not row["internal"]
    return ListedRepository(
        id=str(row["id"]),
        name=row["full_name"],
        url=f"{connection.url}/{row['full_name']}.git",
        is_fork=row["fork"],
        is_archived=row["archived"],
        is_empty=row["empty"],
        size_bytes=row["size"] << 10,
        topics=tuple(row.get("topics") or ()),
        visibility=HostVisibility.PUBLIC if is_open else hidden,
        pushed=row["updated_at"],
        default_branch=row["default_branch"],
        owner=str(row["owner"]["id"]),
        is_mirror=row["mirror"],
    )


async def permissions(host: Host, connection: Connection) -> HostPermissions:
    """Return who may read the code of which repositories."""
    built = PermissionsBuilder()
    public, has_hidden_public = await _repositories(host, connection, built)
    emails = await _verified_emails(host)
    users = [user async for user in host.rows("/admin/users", _PAGE) if _may_log_in(user)]
    await _check_sudo(host, users)
    async with asyncio.TaskGroup() as group:
        for user in users:
            account = str(user["id"])
            built.account(account, emails[account])
            # The server decides which public repositories restricted users see, and not everyone
            # sees the public repositories of a private organisation.
            needs_all = user["restricted"] or has_hidden_public
            params = _SEARCH if needs_all else {**_SEARCH, "is_private": "true"}
            if not needs_all:
                built.grant(account, public)
            group.create_task(_grant(host, built, account, user["login"], params))
    return built.built()


def _may_log_in(user: Mapping[str, Any]) -> bool:
    return bool(user["active"] and not user["prohibit_login"])


async def _check_sudo(host: Host, users: Sequence[Mapping[str, Any]]) -> None:
    """Raise Refused if the server ignores the header Sudo.

    A proxy that drops the header would let everyone read what the administrator reads.
    """
    login = next((user["login"] for user in users if not user["is_admin"]), None)
    if login is None:
        return
    found = await host.get("/user", headers={"Sudo": login})
    if found["login"] != login:
        raise Refused("the server ignores the header Sudo; let proxies in front of it pass it on")


async def _repositories(
    host: Host, connection: Connection, built: PermissionsBuilder
) -> tuple[list[str], bool]:
    """Add all repositories; return the public ones, and whether a private organisation has some."""
    public, has_hidden_public = [], False
    async for row in host.rows("/repos/search", _SEARCH, within="data"):
        if connection.organisation.lower() not in ("", row["owner"]["login"].lower()):
            continue
        urls = [f"{connection.url}/{row['full_name']}", row["clone_url"], row["ssh_url"]]
        built.repository(str(row["id"]), urls)
        has_hidden_public = has_hidden_public or row["internal"]
        if not row["private"] and not row["internal"] and row["has_code"]:
            public.append(str(row["id"]))
    return public, has_hidden_public


async def _verified_emails(host: Host) -> dict[str, list[str]]:
    """Return the e-mail addresses that the server says are verified, by account."""
    found: dict[str, list[str]] = defaultdict(list)
    async for row in host.rows("/admin/emails", _PAGE):
        if row["verified"]:
            found[str(row["user_id"])].append(row["email"])
    return found


async def _grant(
    host: Host, built: PermissionsBuilder, account: str, login: str, params: Params
) -> None:
    """Add what an account may read; nothing if the account is gone or hidden from the token."""
    seen = host.rows("/repos/search", params, headers={"Sudo": login}, within="data")
    with host.list_may_be_withheld():
        readable = [str(row["id"]) async for row in seen if row["permissions"]["pull"]]
        built.grant(account, readable)
