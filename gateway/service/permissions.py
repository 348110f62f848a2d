"""Show and request the permission sync of code hosts, for admins who see all repositories."""

from __future__ import annotations

import asyncio
import time
from dataclasses import asdict
from functools import partial

from codelode.access import Principal
from codelode.host_permissions import SyncState
from codelode.reports import ConnectionPermissions, Permissions
from gateway.service.audit import note
from gateway.service.capabilities import permitted
from gateway.service.declared import chosen, once_read, require_everything
from gateway.service.dependencies import Dependencies

NONE = (
    "no connection has permission sync: declare one with `permissions:` in the file that "
    "CODELODE_SOURCES names"
)

WHY = "the permissions of code hosts concern every repository"


@permitted
async def permissions(dependencies: Dependencies, principal: Principal) -> Permissions:
    """Return the state of each connection with permission sync, by name."""
    require_everything(principal, WHY)
    return await asyncio.to_thread(_permissions, dependencies)


@permitted
async def sync_permissions(
    dependencies: Dependencies, principal: Principal, connection: str = ""
) -> tuple[str, ...]:
    """Have workers read the permissions of one or all connections now; return the names at once.

    If the sources file has just changed, wait until the workers have read it. Raises NotFound,
    InvalidSettings, and Unavailable. A lost job is sent again, because the connection stays due.
    """
    require_everything(principal, WHY)
    note(connection=connection[:100])
    return await once_read(
        partial(_sync, dependencies, connection),
        sources=dependencies.settings.sources,
        is_meant=lambda one: one.permissions is not None and connection in ("", one.name),
    )


def _permissions(dependencies: Dependencies) -> Permissions:
    states = dependencies.permissions.states()
    return Permissions(tuple(map(_shown, states)), dependencies.permissions.problem())


def _sync(dependencies: Dependencies, connection: str) -> tuple[str, ...]:
    known = (state.declared.name for state in dependencies.permissions.states())
    names = chosen(connection, known, none=NONE)
    for name in names:
        dependencies.permissions.want(name)
        dependencies.jobs.read_permissions(name)
    return names


def _shown(state: SyncState) -> ConnectionPermissions:
    now, declared, outcome = time.time(), state.declared, state.outcome
    return ConnectionPermissions(
        connection=declared.name,
        kind=declared.kind,
        prefix=declared.prefix,
        synced_at=outcome.synced_at,
        attempted_at=outcome.attempted_at,
        every_s=declared.every_s,
        max_age_s=declared.max_age_s,
        repositories=outcome.repositories,
        accounts=outcome.accounts,
        requests=outcome.requests,
        error=outcome.error,
        notice=outcome.notice,
        closed_because=state.closed_because(now),
        is_due=state.is_due(now),
        **asdict(outcome.budget),
    )
