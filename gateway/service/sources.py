"""Show the connections whose repositories are followed, and request listings of these.

Only admins who see all repositories may do so.
"""

from __future__ import annotations

import asyncio
import time
from dataclasses import asdict
from functools import partial

from codelode.access import Principal
from codelode.errors import InvalidQuery
from codelode.ports import SourceStates
from codelode.reports import Source, SourceChange, Sources
from codelode.repository_sources import Mode, SourceState
from gateway.service.audit import note
from gateway.service.capabilities import permitted
from gateway.service.catalog import unknown
from gateway.service.declared import chosen, once_read, require_everything
from gateway.service.dependencies import Dependencies

NONE = (
    "no connection has its repositories followed: declare one with `repositories:` in the file "
    "that CODELODE_SOURCES names"
)

WHY = "the sources may bring any repository"


@permitted
async def sources(dependencies: Dependencies, principal: Principal) -> Sources:
    """Return the state of each connection whose repositories are followed, by name."""
    require_everything(principal, WHY)
    return await asyncio.to_thread(_sources, dependencies)


@permitted
async def sync_sources(
    dependencies: Dependencies, principal: Principal, connection: str = "", mode: str = ""
) -> tuple[str, ...]:
    """Have workers list the repositories of one or all connections now; return the names at once.

    If the sources file has just changed, wait until the workers have read it. Raises NotFound,
    InvalidQuery, InvalidSettings, and Unavailable. A lost job is sent again, because the connection
    stays due.
    """
    require_everything(principal, WHY)
    note(connection=connection[:100], mode=mode[:100])
    return await once_read(
        partial(_sync, dependencies, connection, _mode(mode)),
        sources=dependencies.settings.sources,
        is_meant=lambda one: bool(one.repositories) and connection in ("", one.name),
    )


def problems(known: SourceStates) -> tuple[str, ...]:
    """Return the problems of listing repositories, for admins. Raises Unavailable."""
    found = ((state.declared.name, _problem(state)) for state in known.states())
    return tuple(f"repositories of {name}: {reason}" for name, reason in found if reason)


def _problem(state: SourceState) -> str:
    outcome, now = state.outcome, time.time()
    if outcome.error or outcome.waiting:
        return outcome.error or outcome.waiting
    budget = outcome.budget
    if not budget.is_low(now):
        return ""
    left = f"{budget.requests_left:,} of {budget.requests_allowed:,} requests"
    return f"the host takes only {left} more in the next {(budget.resets_at - now) / 60:.0f} min"


def _mode(mode: str) -> Mode:
    if mode and mode not in tuple(Mode):
        raise InvalidQuery("mode", unknown("mode", mode, tuple(Mode)))
    return Mode(mode) if mode else Mode.SYNC


def _sources(dependencies: Dependencies) -> Sources:
    states = dependencies.sources.states()
    return Sources(tuple(map(_shown, states)), dependencies.permissions.problem())


def _sync(dependencies: Dependencies, connection: str, mode: Mode) -> tuple[str, ...]:
    known = (state.declared.name for state in dependencies.sources.states())
    names = chosen(connection, known, none=NONE)
    for name in names:
        dependencies.sources.want(name, mode)
        dependencies.jobs.read_source(name)
    return names


def _shown(state: SourceState) -> Source:
    declared, outcome = state.declared, state.outcome
    changes = (SourceChange(one.action, one.repository, one.reason) for one in outcome.changes)
    return Source(
        connection=declared.name,
        kind=declared.kind,
        prefix=declared.prefix,
        every_s=state.interval_s,
        synced_at=outcome.synced_at,
        attempted_at=outcome.attempted_at,
        planned_at=outcome.planned_at,
        listed=outcome.listed,
        repositories=outcome.repositories,
        requests=outcome.requests,
        error=outcome.error,
        waiting=outcome.waiting,
        changes=tuple(changes),
        is_due=state.is_due(time.time()),
        **asdict(outcome.budget),
    )
