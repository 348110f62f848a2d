"""Read the lines of indexed files, and list what folders contain."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import accumulate

from codelode.access import Principal
from codelode.errors import InvalidQuery, NotFound
from codelode.model import DEFAULT_REF, RefName, RefStatus, RepositoryName
from codelode.permalinks import permalink
from gateway.expand.passages import lines
from gateway.service import paging, queries
from gateway.service.audit import note
from gateway.service.capabilities import permitted
from gateway.service.catalog import VisibleCatalog
from gateway.service.dependencies import Dependencies, reads_index
from gateway.service.folders import KnownFile, entries, has_file, order
from gateway.service.requests import FilesRequest, ReadRequest
from gateway.service.results import FileLines, FileList
from gateway.state import Backends

#: Maximum number of lines and characters of one answer. A longer first line is cut.
MAX_LINES = 2_000
MAX_CHARS = 200_000
#: Maximum number of entries of a folder in one answer.
MAX_ENTRIES = 1_000


@permitted
@reads_index
async def read(
    dependencies: Dependencies, backends: Backends, principal: Principal, request: ReadRequest
) -> FileLines:
    """Return lines of a file, as they are at the indexed commit. Raises InvalidQuery, NotFound.

    Empty lines at the end of a file are left out. The index holds no files without text.
    """
    catalog = VisibleCatalog(dependencies.ledger, principal.visible)
    repository, ref = await asyncio.to_thread(_place, request, catalog)
    path = request.path.removeprefix("./")
    held = await backends.chunks.files([(repository, path)], ref)
    chunks = held[repository, path]
    if not chunks:
        raise NotFound(
            f"{repository} holds no indexed file {path[:200]!r} at this ref; `codelode search` "
            "finds paths by their words, and `codelode failures --all` names files left out"
        )
    text = lines(chunks)
    last = max((number for number, line in text.items() if line), default=1)
    start, end = _range(request, last)
    shown = _bounded(text, start, end)
    (covered,) = await dependencies.coverage.of([repository], ref)
    until = start + len(shown) - 1
    note(lines=len(shown))
    return FileLines(
        repository=repository,
        path=path,
        language=chunks[0].language,
        start_line=start,
        end_line=until,
        line_count=last,
        content="\n".join(shown)[:MAX_CHARS],
        truncated=until < end or len(shown[0]) > MAX_CHARS,
        revision=covered.revision,
        url=permalink(covered.url, covered.revision, path, start, until),
        coverage=(covered,),
    )


@permitted
async def files(
    dependencies: Dependencies, principal: Principal, request: FilesRequest
) -> FileList:
    """List what a folder of a repository contains, a page at a time. Raises NotFound."""
    found = await asyncio.to_thread(_files, dependencies, principal, request)
    covered = await dependencies.coverage.of([found.repository], found.ref)
    note(entries=len(found.entries))
    return replace(found, coverage=covered)


def _files(dependencies: Dependencies, principal: Principal, request: FilesRequest) -> FileList:
    after = paging.read(request.page_token)
    size = queries.bounded(
        "page_size", request.page_size or None, default=MAX_ENTRIES, most=MAX_ENTRIES
    )
    catalog = VisibleCatalog(dependencies.ledger, principal.visible)
    repository = catalog.known_or_only(request.repository)
    at = _status(catalog, repository, request.ref)
    folder = request.path.removeprefix("./").strip("/")
    all_files = dependencies.known_files.get(
        repository, at, lambda: dependencies.ledger.all(repository, at.ref)
    )
    found = entries(all_files, folder)
    if not found and folder:
        raise NotFound(_missing(repository, at.ref, folder, all_files))
    rest = [one for one in found if order(one) > after]
    return FileList(
        repository=repository,
        ref=at.ref,
        path=folder,
        revision=at.indexed or "",
        entries=tuple(rest[:size]),
        entry_count=len(found),
        next_page_token=paging.token(order(rest[size - 1])) if len(rest) > size else "",
    )


def _missing(
    repository: RepositoryName, ref: RefName, folder: str, files: Sequence[KnownFile]
) -> str:
    """Return a message that the folder is a file, or that it does not exist."""
    if has_file(files, folder):
        return f"{folder[:200]!r} of {repository} is a file; `codelode read` prints it"
    return (
        f"{repository} has no folder {folder[:200]!r} at the ref {ref}; "
        "list the folder above it, or the root"
    )


def _status(catalog: VisibleCatalog, repository: RepositoryName, name: str) -> RefStatus:
    """Return the status of a ref of a repository. Raises InvalidQuery, NotFound."""
    ref = catalog.ref_to_read(name, [repository])
    for one in catalog.refs_of([repository])[0]:
        if ref in (DEFAULT_REF, one.ref):  # the default ref comes first
            return one
    raise NotFound(f"{repository} has no indexed ref; run `codelode index` for it")


def _place(request: ReadRequest, catalog: VisibleCatalog) -> tuple[RepositoryName, RefName]:
    if not request.path:
        raise InvalidQuery("path", "is empty; give the path of an indexed file")
    repository = catalog.known_or_only(request.repository)
    return repository, catalog.ref_to_read(request.ref, [repository])


def _range(request: ReadRequest, last: int) -> tuple[int, int]:
    """Return the first and the last requested line, within the file. Raises InvalidQuery."""
    start, end = request.start_line or 1, request.end_line or last
    if start < 1:
        raise InvalidQuery("start_line", f"is {start}; lines begin at 1")
    if start > last:
        raise InvalidQuery("start_line", f"is {start}; the file ends with line {last}")
    if end < start:
        raise InvalidQuery("end_line", f"is {end}, which is before the first line {start}")
    return start, min(end, last)


def _bounded(text: Mapping[int, str], start: int, end: int) -> list[str]:
    """Return whole lines within the bounds of an answer, at least one."""
    found = [text.get(number, "") for number in range(start, min(end, start + MAX_LINES - 1) + 1)]
    sizes = accumulate(len(line) + 1 for line in found)
    return found[: max(1, sum(size <= MAX_CHARS for size in sizes))]
