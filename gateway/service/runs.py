"""Start, watch, and cancel runs, and repeat what earlier runs left out.

A run is first written to the ledger and then sent to the workers. If it cannot be sent, it ends as
failed, so that callers do not wait for a run of which no worker knows.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Collection
from contextlib import suppress
from dataclasses import replace

from codelode import addresses
from codelode.access import Principal
from codelode.errors import InvalidQuery, InvalidSettings, Unavailable
from codelode.model import (
    DEFAULT_REF,
    FileState,
    RefName,
    Repository,
    RepositoryName,
    Reprocess,
    Run,
    RunKind,
    RunState,
)
from gateway.service.audit import involve, note
from gateway.service.capabilities import permitted
from gateway.service.catalog import VisibleCatalog
from gateway.service.dependencies import Dependencies
from gateway.service.repositories import registered, registrable, settled
from gateway.service.requests import StartRequest

#: Polling interval of a watched run, seconds: the first one after a change, and the longest.
WATCH_S = (0.05, 0.2)


@permitted
async def start(dependencies: Dependencies, principal: Principal, request: StartRequest) -> Run:
    """Start indexing a repository at a ref; register the repository if it is new.

    With `plan_only`, the run ends with an estimate. Raises InvalidQuery if such a run would change
    a registered repository.
    """
    note(label=request.label[:100], ref=request.ref[:100])
    run = await asyncio.to_thread(_start, dependencies, principal, request)
    note(run=run.id, repository=run.repository)
    await settled(principal, request, run.repository)
    return run


@permitted
async def watch(
    dependencies: Dependencies, principal: Principal, run_id: str
) -> AsyncIterator[Run]:
    """Yield the run now and whenever it changes, until it is over. Raises NotFound.

    If a newer run replaces it, that one is watched next, so that a caller can wait for its commit.
    """
    note(run=run_id)
    catalog = VisibleCatalog(dependencies.ledger, principal.visible)
    successor = dependencies.ledger.successor
    within = registrable(principal)  # also the run of a repository that was not kept
    last: Run | None = None
    pause_s = WATCH_S[0]
    while last is None or not last.state.is_over:
        run = await asyncio.to_thread(catalog.run, run_id, within=within)
        is_cancelled = run.state is RunState.CANCELLED
        newer = await asyncio.to_thread(successor, run.id) if is_cancelled else None
        if newer is not None:
            run_id = newer
            continue
        if run != last:
            involve([run.repository])
            last, pause_s = run, WATCH_S[0]
            yield run
        elif await _is_draining_within(dependencies, pause_s):
            raise Unavailable("the gateway is shutting down; watch the run again")
        else:
            pause_s = min(WATCH_S[1], 1.2 * pause_s)


@permitted
async def cancel(dependencies: Dependencies, principal: Principal, run_id: str) -> Run:
    """Cancel a run; files that it has indexed stay in the index. Raises NotFound."""
    note(run=run_id)
    run = await asyncio.to_thread(_cancel, dependencies, principal, run_id)
    involve([run.repository])
    return run


@permitted
async def retry_failures(
    dependencies: Dependencies, principal: Principal, repository: str
) -> tuple[Run, ...]:
    """Try the failed files of one or all visible repositories again, with a run for each ref."""
    runs = await asyncio.to_thread(_retry, dependencies, principal, repository)
    involve(run.repository for run in runs)
    note(runs=len(runs))
    return runs


@permitted
async def enrich(
    dependencies: Dependencies, principal: Principal, repository: str
) -> tuple[Run, ...]:
    """Write the summaries that earlier runs left out, with a run for each indexed ref."""
    runs = await asyncio.to_thread(_enrich, dependencies, principal, repository)
    involve(run.repository for run in runs)
    note(runs=len(runs))
    return runs


@permitted
async def set_default(
    dependencies: Dependencies, principal: Principal, repository: str, ref: str
) -> Run:
    """Start a run that indexes the ref and makes it the default one. Raises NotFound."""
    note(repository=repository, ref=ref[:100])
    run = await asyncio.to_thread(_set_default, dependencies, principal, repository, ref)
    note(run=run.id)
    return run


def _start(dependencies: Dependencies, principal: Principal, request: StartRequest) -> Run:
    ref = addresses.check_ref(request.ref) if request.ref else DEFAULT_REF
    if not request.plan_only:
        return begin(dependencies, registered(dependencies, principal, request).name, ref)
    _require_no_change(dependencies, principal, request)
    known = dependencies.ledger.names()
    name = registered(dependencies, principal, request).name
    return begin(dependencies, name, ref, kind=RunKind.PLAN if name in known else RunKind.TRIAL)


def _require_no_change(
    dependencies: Dependencies, principal: Principal, request: StartRequest
) -> None:
    """Raise InvalidQuery if the request sets a label, or patterns of a registered repository."""
    if request.label:
        raise InvalidQuery("label", "a plan changes nothing; give no label")
    if request.include is None and request.exclude is None:
        return
    name = request.name or addresses.default_name(addresses.normal_url(request.url))
    if name in principal.visible and dependencies.ledger.get(RepositoryName(name)) is not None:
        field = "include" if request.include is not None else "exclude"
        raise InvalidQuery(
            field, f"a plan of {name} uses the patterns that {name} has; give none, or another name"
        )


def begin(
    dependencies: Dependencies,
    name: RepositoryName,
    ref: RefName,
    *,
    reprocess: Collection[Reprocess] = (),
    kind: RunKind = RunKind.INDEX,
) -> Run:
    """Create a run and send it to the workers; a queued run starts after the one before it."""
    run = dependencies.ledger.create(name, ref, reprocess=reprocess, kind=kind)
    if run.state is not RunState.PULLING:
        return run
    try:
        dependencies.jobs.pull(run)
    except Unavailable as exc:
        dependencies.ledger.end(run.id, RunState.FAILED, str(exc))
        raise
    return run


def _set_default(
    dependencies: Dependencies, principal: Principal, repository: str, ref: str
) -> Run:
    found = VisibleCatalog(dependencies.ledger, principal.visible).repository(repository)
    checked = addresses.check_ref(ref)
    run = begin(dependencies, found.name, checked, reprocess=[Reprocess.DEFAULT])
    known = (DEFAULT_REF, *(one.ref for one in dependencies.ledger.refs(found.name)))
    return run if checked in known else replace(run, notices=(_unindexed(checked, found),))


def _unindexed(ref: RefName, repository: Repository) -> str:
    """Return the notice that the ref is not indexed and may not exist in the source."""
    stays = f" and the default ref stays {repository.default_ref!r}" * bool(repository.default_ref)
    return (
        f"{ref!r} is not indexed; if the source has no such branch, tag, or commit, this run fails"
        f"{stays}: see `codelode status`"
    )


def _cancel(dependencies: Dependencies, principal: Principal, run_id: str) -> Run:
    catalog = VisibleCatalog(dependencies.ledger, principal.visible)
    run = catalog.run(run_id)
    following = dependencies.ledger.end(run.id, RunState.CANCELLED, "cancelled by request")
    if following is not None:  # of the same repository
        with suppress(Unavailable):  # the periodic `reap` task of the workers sends it
            dependencies.jobs.pull(catalog.run(following))
    return catalog.run(run_id)


def _retry(dependencies: Dependencies, principal: Principal, repository: str) -> tuple[Run, ...]:
    catalog = VisibleCatalog(dependencies.ledger, principal.visible)
    refs = dict.fromkeys(
        (name, ref)
        for name in sorted(catalog.named_or_all(repository))
        for ref, _ in dependencies.ledger.with_state(name, FileState.FAILED)
    )
    return tuple(begin(dependencies, name, ref, reprocess=[Reprocess.FAILED]) for name, ref in refs)


def _enrich(dependencies: Dependencies, principal: Principal, repository: str) -> tuple[Run, ...]:
    if dependencies.settings.language_model == "none":
        raise InvalidSettings(
            "no language model is configured; set CODELODE_LANGUAGE_MODEL for the cluster"
        )
    catalog = VisibleCatalog(dependencies.ledger, principal.visible)
    names = catalog.named_or_all(repository)
    refs = [
        (name, status.ref)
        for name, statuses in zip(names, catalog.refs_of(names), strict=True)
        for status in statuses
        if status.indexed
    ]
    return tuple(
        begin(dependencies, name, ref, reprocess=[Reprocess.SUMMARIES]) for name, ref in refs
    )


async def _is_draining_within(dependencies: Dependencies, seconds: float) -> bool:
    try:
        await asyncio.wait_for(dependencies.draining.wait(), seconds)
    except TimeoutError:
        return False
    return True
