"""List, register, and remove repositories."""

from __future__ import annotations

import asyncio
from collections.abc import Container
from contextlib import suppress
from functools import partial

from codelode import registration
from codelode.access import FRESH_S, Label, Principal, Role
from codelode.errors import InvalidQuery, NotFound, Unavailable
from codelode.model import DEFAULT_REF, RefName, Repository, RepositoryName, RunState
from codelode.repository_globs import MAX_GLOB_CHARS, Within, matcher
from codelode.repository_globs import problem as problem_of
from gateway.service import results
from gateway.service.audit import note
from gateway.service.capabilities import permitted, require
from gateway.service.catalog import VisibleCatalog, unknown
from gateway.service.dependencies import Dependencies
from gateway.service.requests import RegisterRequest

#: Number of recent runs that are searched for unfinished ones of a ref: all that the ledger keeps.
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
    """Register a repository, or change the patterns or the label of a registered one.

    Only an admin registers new names and labels repositories. Raises Denied for a name outside of
    the visibility, whether or not the repository exists, and for a new repository whose path at its
    host is outside of the globs of the admin's key.
    """
    note(label=request.label[:100])
    found = await asyncio.to_thread(registered, dependencies, principal, request)
    note(repository=found.name)
    await settled(principal, request, found.name)
    return found


@permitted
async def label(
    dependencies: Dependencies, principal: Principal, names: str, label: str
) -> tuple[RepositoryName, ...]:
    """Label the visible repositories that a glob matches; an empty label removes labels.

    When this returns, every gateway applies the label. Raises InvalidQuery, NotFound.
    """
    note(repository=names[:MAX_GLOB_CHARS], label=label[:100] or "none")
    found = await asyncio.to_thread(_label, dependencies, principal, names, label)
    await asyncio.sleep(FRESH_S)
    return found


@permitted
async def remove(
    dependencies: Dependencies, principal: Principal, name: str, ref: str = ""
) -> None:
    """Remove a repository and its index, or only one ref of it.

    Raises NotFound, and InvalidQuery for an unknown ref, or the default one if there are others.
    """
    note(repository=name, ref=ref[:100])
    remover = partial(_remove_ref, ref=ref) if ref else _remove
    await asyncio.to_thread(remover, dependencies, principal, name)


def listed(catalog: VisibleCatalog) -> tuple[results.Repository, ...]:
    known = catalog.repositories()
    refs = catalog.refs_of([repository.name for repository in known])
    return tuple(map(results.repository, known, refs))


def registered(
    dependencies: Dependencies, principal: Principal, request: RegisterRequest
) -> Repository:
    """Register the repository of the request; see `codelode.registration`."""
    label = _checked_label(request.label)
    if label is not None:
        require(principal, "label", what="a label")
    found = registration.register(
        dependencies.ledger,
        registrable(principal),
        url=request.url,
        name=request.name,
        paths=Within(principal.bounds) if principal.bounds else None,
        include=request.include,
        exclude=request.exclude,
        local_paths=dependencies.settings.local_paths,
    )
    if label is not None:
        dependencies.ledger.set_label(found.name, label)
    return found


async def settled(principal: Principal, request: RegisterRequest, name: RepositoryName) -> None:
    """Wait until every gateway applies the changes of visibilities that the request may cause."""
    if request.label or name not in principal.visible:
        await asyncio.sleep(FRESH_S)


def registrable(principal: Principal) -> Container[RepositoryName]:
    """Return the names that the principal may register.

    An admin sees every repository within its bounds, so the error for a name that is taken reveals
    nothing. Other principals may name only repositories that they see.
    """
    has_namespace = principal.role is Role.ADMIN and principal.bounds
    return Within(principal.bounds) if has_namespace else principal.visible


def _label(
    dependencies: Dependencies, principal: Principal, names: str, label: str
) -> tuple[RepositoryName, ...]:
    if problem := problem_of([names]):
        raise InvalidQuery("repository", problem)
    checked, matches = _checked_label(label), matcher((names,))
    known = VisibleCatalog(dependencies.ledger, principal.visible).names()
    found = tuple(name for name in known if matches(name))
    if not found:
        raise NotFound(unknown("repository", names, known))
    for name in found:
        dependencies.ledger.set_label(name, checked)
    return found


def _checked_label(label: str) -> Label | None:
    if not label:
        return None
    if label not in tuple(Label):
        raise InvalidQuery("label", unknown("label", label, tuple(Label)))
    return Label(label)


def _remove(dependencies: Dependencies, principal: Principal, name: str) -> None:
    """Unregister the repository now; the workers delete its index later.

    If the job cannot be sent, the periodic `reap` task of the workers sends it.
    """
    repository = VisibleCatalog(dependencies.ledger, principal.visible).repository(name)
    dependencies.ledger.unregister(repository.name)
    with suppress(Unavailable):
        dependencies.jobs.remove(repository.name)


def _remove_ref(dependencies: Dependencies, principal: Principal, name: str, *, ref: str) -> None:
    """End the runs of a ref, and remove it now; the workers delete its index later.

    With the last ref, the repository is removed too; otherwise it would be listed as not indexed.
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
