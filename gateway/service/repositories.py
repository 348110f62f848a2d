"""List, register, and remove repositories."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from functools import partial

from codelode import registration
from codelode.access import Principal
from codelode.errors import InvalidQuery, Unavailable
from codelode.model import DEFAULT_REF, RefName, Repository, RepositoryName, RunState
from gateway.service import results
from gateway.service.audit import note
from gateway.service.catalog import VisibleCatalog
from gateway.service.dependencies import Dependencies
from gateway.service.requests import RegisterRequest
from gateway.service.roles import permitted

#: Runs among which those of a ref that are not over are found: as many as the ledger keeps.
RUNS_LOOKED_AT = 1_000


@permitted
async def repositories(
    dependencies: Dependencies, principal: Principal
) -> tuple[results.Repository, ...]:
    """List the visible repositories with their refs, by name."""
    return await asyncio.to_thread(listed, VisibleCatalog(dependencies.ledger, principal.visible))


@permitted
async def register(
    dependencies: Dependencies, principal: Principal, request: RegisterRequest
) -> Repository:
    """Register a repository, or change the patterns of a registered one.

    Raises Denied for a name outside of the visibility, whether or not such a repository exists.
    """
    found = await asyncio.to_thread(registered, dependencies, principal, request)
    note(repository=found.name)
    return found


@permitted
async def remove(
    dependencies: Dependencies, principal: Principal, name: str, ref: str = ""
) -> None:
    """Remove a repository and its index, or only one ref of it.

    Raises NotFound, and InvalidQuery for an unknown ref and for the default one of several.
    """
    note(repository=name)
    remover = partial(_remove_ref, ref=ref) if ref else _remove
    await asyncio.to_thread(remover, dependencies, principal, name)


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


def _remove_ref(dependencies: Dependencies, principal: Principal, name: str, *, ref: str) -> None:
    """End the runs of a ref, and remove it now; the workers delete its index later, as above.

    With its last ref, the repository is removed too; otherwise it would be listed as not indexed.
    """
    catalog = VisibleCatalog(dependencies.ledger, principal.visible)
    repository = catalog.repository(name)
    found, default = catalog.ref(ref, [repository.name]), repository.default_ref
    if found in (DEFAULT_REF, default):
        if len(dependencies.ledger.refs(repository.name)) > 1:
            raise InvalidQuery(
                "ref",
                f"{default} is the default ref of {name}; make another one the default first "
                f"(`codelode default {name} REF`), or remove the whole repository",
            )
        _remove(dependencies, principal, name)
        return
    _end_runs(dependencies, catalog, repository.name, found)
    dependencies.ledger.remove_ref(repository.name, found)
    with suppress(Unavailable):
        dependencies.jobs.remove_ref(repository.name, found)


def _end_runs(
    dependencies: Dependencies, catalog: VisibleCatalog, name: RepositoryName, ref: RefName
) -> None:
    ledger = dependencies.ledger
    for run in catalog.recent(RUNS_LOOKED_AT):
        is_of_ref = run.repository == name and ref in (run.ref, run.resolved)
        if is_of_ref and not run.state.is_over:
            following = ledger.end(run.id, RunState.CANCELLED, "its ref was removed")
            if following is not None and (next_run := ledger.run(following)) is not None:
                with suppress(Unavailable):  # `reap` starts it otherwise
                    dependencies.jobs.pull(next_run)
