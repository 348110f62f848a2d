"""Resolve the subject of a graph query or an explanation, and read data that several answers need.

A subject is a file if the index has a file with that path, otherwise a symbol. The graph and the
symbol table may be a moment ahead of the index, and edges may end at files that are not indexed, so
every path is checked against the index.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict, deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from codelode import deadline
from codelode.counts import counted
from codelode.display import quoted
from codelode.errors import NotFound
from codelode.model import (
    Chunk,
    EdgeKind,
    FileKey,
    LocatedSymbol,
    ReferenceKind,
    RefName,
    RepositoryName,
)
from codelode.name_resolution import is_named, reexports
from gateway.state import Backends

CALLS = (*(ReferenceKind.CALL, ReferenceKind.MEMBER, ReferenceKind.OWN, ReferenceKind.CLASS),)

NO_SYMBOLS = (
    "no symbol table is configured: only files can be explained, from what their chunks define"
)


@dataclass(frozen=True, slots=True)
class Subject:
    """A file, or a symbol with its definitions."""

    files: Mapping[FileKey, Sequence[Chunk]]  # the file, or the files that define the symbol
    definitions: tuple[LocatedSymbol, ...] = ()  # empty: the subject is a file
    name: str = ""  # unqualified name of the symbol
    elsewhere: tuple[RepositoryName, ...] = ()  # other repositories with such a file

    @property
    def kind(self) -> str:
        return "symbol" if self.definitions else "file"


@dataclass(frozen=True, slots=True)
class SubjectQuery:
    """A subject in one repository, and how far to follow its links."""

    repository: RepositoryName
    paths: tuple[str, ...]  # the file, or the files that define the symbol
    definitions: tuple[LocatedSymbol, ...]  # empty: the subject is the files
    name: str
    depth: int
    reverse: bool
    limit: int
    ref: RefName
    visible: tuple[RepositoryName, ...]  # where links across repositories may lead


async def find_subject(
    text: str, *, repositories: Sequence[RepositoryName], ref: RefName, backends: Backends
) -> Subject:
    """Find the file or the symbol in the repositories. Raises NotFound if there is neither.

    A file is that of the first repository that has one; a symbol has its definitions in all.
    """
    keys = [(repository, text) for repository in repositories]
    held = await backends.chunks.files(keys, ref)
    holding = [key for key in keys if held[key]]
    if holding:
        file, *others = holding
        return Subject({file: held[file]}, elsewhere=tuple(repository for repository, _ in others))
    found = await _definitions(text, repositories, ref, backends)
    keys = list(dict.fromkeys((at.repository, at.path) for at in found))
    held = await backends.chunks.files(keys, ref)
    found = tuple(at for at in found if held[at.repository, at.path])
    if not found:
        reason = f" ({NO_SYMBOLS})" if backends.symbols is None else ""
        raise NotFound(
            f"no file and no symbol {text[:100]!r} is indexed at this ref{reason}; "
            "`codelode search` finds similar names"
        )
    return Subject({key: held[key] for key in keys if held[key]}, found, _last(text))


async def _definitions(
    name: str, repositories: Sequence[RepositoryName], ref: RefName, backends: Backends
) -> tuple[LocatedSymbol, ...]:
    """Look up the definitions of a name or of a qualified name: `get`, `Client.get`."""
    if backends.symbols is None:
        return ()
    found = await asyncio.to_thread(
        backends.symbols.lookup, _last(name), repositories=repositories, ref=ref
    )
    return tuple(at for at in found if is_named(at.symbol.qualified_name, name))


def shared(text: str, subject: Subject, *, is_cut: bool) -> list[str]:
    """Return a notice if several repositories have the subject.

    `is_cut`: only the subject of the first of them is shown.
    """
    first, *others = dict.fromkeys(
        (*(repository for repository, _ in subject.files), *subject.elsewhere)
    )
    if not others:
        return []
    have = "has" if len(others) == 1 else "have"
    which = f"only that of {quoted(first)} is shown" if is_cut else "all are listed"
    return [
        f"{counted(len(others), 'other repository')} {have} {quoted(text[:100])} too, and {which}; "
        "choose one with `repository`"
    ]


def _last(name: str) -> str:
    return name.rpartition(".")[2]


def files_imported(
    repository: RepositoryName, ref: RefName, paths: Sequence[str], backends: Backends
) -> dict[str, set[str]]:
    """Return the files that each file imports, directly or through files that re-export them."""
    if backends.graph is None:
        return {path: set() for path in paths}
    imported = {
        path: {e.target for e in edges if e.kind is EdgeKind.IMPORTS and not e.is_external}
        for path, edges in backends.graph.outgoing(repository, ref, paths).items()
    }
    exporting = sorted({t for some in imported.values() for t in some if reexports(t)})
    further = backends.graph.outgoing(repository, ref, exporting)
    for some in imported.values():
        for target in [one for one in some if one in further]:
            some |= {e.target for e in further[target] if not e.is_external}
    return imported


async def stored_chunks(
    query: SubjectQuery, paths: Sequence[str], backends: Backends
) -> dict[str, tuple[Chunk, ...]]:
    """Return the chunks of each file at the ref of the query."""
    keys = [(query.repository, path) for path in dict.fromkeys(paths)]
    held = await backends.chunks.files(keys, query.ref)
    return {path: held[repository, path] for repository, path in keys}


async def defined_in(
    repository: RepositoryName, ref: RefName, paths: Sequence[str], backends: Backends
) -> Mapping[str, tuple[LocatedSymbol, ...]]:
    """Return the definitions in each file, by line."""
    assert backends.symbols is not None
    return await asyncio.to_thread(
        backends.symbols.defined_in, repository, ref, list(dict.fromkeys(paths))
    )


def innermost(
    lines: Iterable[tuple[str, int]], defined: Mapping[str, Sequence[LocatedSymbol]]
) -> dict[tuple[str, int], LocatedSymbol]:
    """Return the innermost definition around each line of a path, if there is one.

    `defined`: the definitions by path, ordered by first line. Each definition is visited only once,
    because a file may have 10,000, and as many lines may be requested.
    """
    by_path: defaultdict[str, set[int]] = defaultdict(set)
    for path, line in lines:
        by_path[path].add(line)
    around: dict[tuple[str, int], LocatedSymbol] = {}
    for path, some in by_path.items():
        deadline.check()
        waiting = deque(defined[path])
        begun: list[LocatedSymbol] = []
        for line in sorted(some):
            while waiting and waiting[0].symbol.start_line <= line:
                begun.append(waiting.popleft())
            while begun and begun[-1].symbol.end_line < line:
                begun.pop()
            if begun:
                around[path, line] = begun[-1]
    return around


def symbol_key(at: LocatedSymbol) -> tuple[str, str, int]:
    """Identify a definition within its repository."""
    return at.path, at.symbol.qualified_name, at.symbol.start_line
