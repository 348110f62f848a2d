"""List, register, and remove repositories."""

from __future__ import annotations

import asyncio
from contextlib import suppress

from codelode import registration
from codelode.access import Principal
from codelode.errors import Unavailable
from codelode.model import Repository
from gateway.service import results
from gateway.service.audit import note
from gateway.service.catalog import VisibleCatalog
from gateway.service.dependencies import Dependencies
from gateway.service.requests import RegisterRequest


async def repositories(
    dependencies: Dependencies, principal: Principal
) -> tuple[results.Repository, ...]:
    """List the visible repositories with their refs, by name."""
    return await asyncio.to_thread(listed, VisibleCatalog(dependencies.ledger, principal.visible))


async def register(
    dependencies: Dependencies, principal: Principal, request: RegisterRequest
) -> Repository:
    """Register a repository, or change the patterns of a registered one.

    Raises Denied for a name outside of the visibility, whether or not such a repository exists.
    """
    found = await asyncio.to_thread(registered, dependencies, principal, request)
    note(repository=found.name)
    return found


async def remove(dependencies: Dependencies, principal: Principal, name: str) -> None:
    """Remove a repository and its index. Raises NotFound."""
    note(repository=name)
    await asyncio.to_thread(_remove, dependencies, principal, name)


def listed(catalog: VisibleCatalog) -> tuple[results.Repository, ...]:
    known = catalog.repositories()
    refs = catalog.refs_of([repository.name for repository in known])
    return tuple(map(results.repository, known, refs))


def registered(
    dependencies: Dependencies, principal: Principal, request: RegisterRequest
) -> Repository:
    """Register what the request names; see `codelode.registration`."""
    return registration.register(
        dependencies.ledger,
        principal.visible,
        url=request.url,
        name=request.name,
        include=request.include,
        exclude=request.exclude,
        local_paths=dependencies.settings.local_paths,
    )


def _remove(dependencies: Dependencies, principal: Principal, name: str) -> None:
    """Unregister the repository now; the workers delete its index later.

    If the job cannot be sent, the periodic `reap` task of the workers sends it.
    """
    repository = VisibleCatalog(dependencies.ledger, principal.visible).repository(name)
    dependencies.ledger.unregister(repository.name)
    with suppress(Unavailable):
        dependencies.jobs.remove(repository.name)
