"""Report the state of the whole index, and list the files that are not in it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from itertools import islice

from codelode import __version__, deadline
from codelode.access import Principal, Role
from codelode.disk_use import DiskPart
from codelode.model import FileRecord, FileState, RefName, RepositoryName
from codelode.reports import Queue, Server
from gateway.service import paging, queries, servers
from gateway.service.capabilities import permitted
from gateway.service.catalog import RECENT_RUNS, VisibleCatalog
from gateway.service.dependencies import Dependencies, reads_index
from gateway.service.repositories import listed
from gateway.service.requests import FailuresRequest
from gateway.service.results import Failures, Status, file_failure
from gateway.state import Backends

MAX_PAGE_SIZE = 1_000
DEFAULT_PAGE_SIZE = 200

_Failure = tuple[RepositoryName, RefName, FileRecord]


@permitted
@reads_index
async def status(dependencies: Dependencies, backends: Backends, principal: Principal) -> Status:
    """Return repositories, recent runs, queues, workers, and servers at one moment."""
    catalog = VisibleCatalog(dependencies.ledger, principal.visible)
    repositories, runs, queues, problems, disk, (asked, chunks) = await asyncio.gather(
        asyncio.to_thread(listed, catalog),
        asyncio.to_thread(catalog.recent, RECENT_RUNS),
        asyncio.to_thread(_queues, dependencies, principal),
        asyncio.to_thread(_problems, dependencies, principal),
        asyncio.to_thread(_disk, dependencies, principal),
        _servers(dependencies, backends, principal),
    )
    return Status(
        version=__version__,
        repositories=repositories,
        runs=runs,
        chunks=chunks,
        queues=queues,
        embedder=asked[1].name,
        store=asked[0].name,
        problems=problems,
        disk=disk,
        servers=asked,
    )


@permitted
async def failures(
    dependencies: Dependencies, principal: Principal, request: FailuresRequest
) -> Failures:
    """List files that are not in the index, each with its reason, a page at a time."""
    return await asyncio.to_thread(_failures, dependencies, principal, request)


async def _servers(
    dependencies: Dependencies, backends: Backends, principal: Principal
) -> tuple[tuple[Server, ...], int]:
    """Return the store, the embedder, and any language model; and the number of chunks.

    Only operators get the reason why a server does not answer, because it names addresses.
    """
    known = dependencies.known_servers
    by_index = backends.embedder.identity  # known to the index, even if the embedder is unreachable
    models = [known.model(servers.EMBEDDER, backends.embedder, name=by_index)]
    if backends.language_model is not None:
        models.append(known.model(servers.LANGUAGE_MODEL, backends.language_model))
    (store, chunks), asked = await asyncio.gather(
        servers.store(dependencies.settings.store, backends, principal.visible),
        asyncio.gather(*models),
    )
    found = (store, *asked)
    return (found if _is_operator(principal) else tuple(map(_in_short, found))), chunks


def _in_short(server: Server) -> Server:
    return replace(server, problem="does not answer") if server.problem else server


def _queues(dependencies: Dependencies, principal: Principal) -> tuple[Queue, ...]:
    """Return the queues, only for operators, because they serve all repositories."""
    return dependencies.jobs.queues() if _is_operator(principal) else ()


def _problems(dependencies: Dependencies, principal: Principal) -> tuple[str, ...]:
    """Return configuration problems, only for operators, because these may name repositories."""
    return dependencies.problems() if _is_operator(principal) else ()


def _disk(dependencies: Dependencies, principal: Principal) -> tuple[DiskPart, ...]:
    """Return the disk use, only for operators, because it counts all repositories."""
    return dependencies.disk_use.parts() if _is_operator(principal) else ()


def _is_operator(principal: Principal) -> bool:
    """Return whether the principal is an admin who sees every repository."""
    return principal.role is Role.ADMIN and principal.visible.is_everything


def _failures(
    dependencies: Dependencies, principal: Principal, request: FailuresRequest
) -> Failures:
    size = queries.bounded(
        "page_size", request.page_size or None, default=DEFAULT_PAGE_SIZE, most=MAX_PAGE_SIZE
    )
    after = paging.read(request.page_token)
    found = _found(dependencies, principal, request, after=after)
    page = list(islice(found, size + 1))
    return Failures(
        failures=tuple(file_failure(*failure) for failure in page[:size]),
        next_page_token=paging.token(_cursor(page[size - 1])) if len(page) > size else "",
    )


def _found(
    dependencies: Dependencies,
    principal: Principal,
    request: FailuresRequest,
    *,
    after: paging.PageCursor,
) -> Iterator[_Failure]:
    """Yield the requested records after the cursor, by repository, ref, and path."""
    states = [FileState.FAILED]
    states += [FileState.SKIPPED] if request.include_skipped else []
    states += [FileState.INDEXED] if request.include_partial else []
    catalog = VisibleCatalog(dependencies.ledger, principal.visible)
    for name in sorted(catalog.named_or_all(request.repository)):
        if after and name < after[0]:
            continue
        deadline.check()
        for ref, record in dependencies.ledger.with_state(name, *states):
            failure = (name, ref, record)
            is_fine = record.state is FileState.INDEXED and not record.reason
            if not is_fine and _cursor(failure) > after:
                yield failure


def _cursor(failure: _Failure) -> paging.PageCursor:
    repository, ref, record = failure
    return (repository, ref, record.path)
