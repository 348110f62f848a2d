"""Read the permissions of code hosts, so that everyone finds exactly what they may read there.

- 401, 403, and 404 revoke: only admins still see the repositories of the connection.
- 429, 5xx, and a host that does not answer change nothing, until the permissions reach their age
  limit.
- The state is replaced as a whole, and only by the worker that holds the connection.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from uuid import uuid4

import structlog

from codelode.errors import InvalidSettings, Unavailable
from codelode.host_permissions import (
    HostPermissions,
    SyncDeclaration,
    SyncState,
    version_of,
)
from codelode.ports import PermissionStates
from codelode.request_budget import tightest
from codelode.sources import Connection
from workers.sources.connectors import CONNECTORS
from workers.sources.declared import SourcesFile
from workers.sources.http import Host, Missing, Refused
from workers.sources.pages import Pages
from workers.sources.reading import HOLD_S, read_host, while_held

log = structlog.get_logger("workers")

NO_FILE = (
    "a worker runs without CODELODE_SOURCES, so it reads no permissions; set it for all workers, "
    "or name a file without connections to end the permission sync"
)


class PermissionSync:
    """Syncs the permissions of the connections in the sources file; an empty path means no file."""

    def __init__(
        self, path: str, states: PermissionStates, *, now: Callable[[], float] = time.time
    ) -> None:
        self._file = SourcesFile(path)
        self._states = states
        self._now = now
        self._pages = Pages()

    def due(self) -> tuple[str, ...]:
        """Read the sources file if it has changed, and return the connections that are due."""
        known, now = self._followed(), self._now()
        return tuple(
            state.declared.name
            for state in self._states.states()
            if state.declared.name in known and state.is_due(now)
        )

    def run(self, name: str) -> None:
        """Read the permissions of a connection, if they are due and no other worker does."""
        connection, owner = self._followed().get(name), uuid4().hex
        if connection is None or not self._states.hold(name, owner, for_s=HOLD_S):
            return
        try:
            state = next(one for one in self._states.states() if one.declared.name == name)
            if state.is_due(self._now()):
                self._run(connection, state, owner)
        finally:
            self._states.release(name, owner)

    def _followed(self) -> Mapping[str, Connection]:
        """Return the connections to sync: those of the file, or of its last good version.

        Without a file, the stored declarations stay: if only this worker lacks the setting, the
        repositories of a connection must not fall back to their labels.
        """
        if self._file.path is None:
            self._states.report(NO_FILE if self._states.states() else "")
            return {}
        known = self._file.current()
        if known is not None and not self._file.problem:
            self._states.declare([_declared(one) for one in known if one.permissions])
        self._states.report(self._file.problem)
        return {one.name: one for one in known or () if one.permissions}

    def _run(self, connection: Connection, state: SyncState, owner: str) -> None:
        name, started = connection.name, self._now()
        attempt = replace(
            state.outcome, attempted_at=started, wanted=state.wanted, error="", notice=""
        )
        hosts: list[Host] = []
        packed: bytes | None = None
        try:
            found = asyncio.run(self._read(connection, owner, hosts))
            packed = found.packed()
            outcome = replace(
                attempt,
                version=version_of(packed),
                synced_at=started,
                repositories=len(found.addresses),
                accounts=len(found.readers),
                notice=_notice([reason for host in hosts for reason in host.withheld]),
            )
        except (Refused, Missing) as exc:
            packed = HostPermissions().packed()
            outcome = replace(
                attempt, version=version_of(packed), synced_at=0.0, accounts=0, error=str(exc)
            )
        except (Unavailable, InvalidSettings) as exc:
            outcome = replace(attempt, error=str(exc))
        budget = tightest(host.budgets.tightest() for host in hosts)
        outcome = replace(outcome, requests=sum(host.requests for host in hosts), budget=budget)
        is_stored = self._states.finish(name, owner, outcome, packed)
        tell = log.warning if outcome.error else log.info
        tell(
            "permissions_read",
            connection=name,
            stored=is_stored,
            error=outcome.error,
            notice=outcome.notice,
            repositories=outcome.repositories,
            accounts=outcome.accounts,
            requests=outcome.requests,
            requests_left=outcome.budget.requests_left,
            seconds=round(self._now() - started, 3),
        )

    async def _read(self, connection: Connection, owner: str, hosts: list[Host]) -> HostPermissions:
        """Read the permissions while the connection is held."""
        connector = CONNECTORS[connection.kind]
        read = connector.permissions
        assert read is not None  # else the sources file is not accepted
        host = connector.host(connection, connection.secret(), self._pages)
        hosts.append(host)
        work = read_host(host, lambda host: read(host, connection))
        return await while_held(self._states, connection.name, owner, work)


def _declared(connection: Connection) -> SyncDeclaration:
    found = connection.permissions
    assert found is not None
    return SyncDeclaration(
        name=connection.name,
        kind=connection.kind,
        prefix=connection.prefix,
        every_s=found.every_s,
        max_age_s=found.max_age_s,
        emails=found.emails,
        claim=found.claim,
    )


def _notice(withheld: list[str]) -> str:
    if not withheld:
        return ""
    lists = "1 list" if len(withheld) == 1 else f"{len(withheld)} lists"
    return f"{lists} of readers could not be read, so they grant no rights: {withheld[0]}"
