"""What is known about a file or a symbol, from the index, the symbol table and the graph.

A subject is a file when the index holds one of that path, else a symbol. The summary is put
together from what is stored: nothing is asked of a model for it.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from codelode import languages
from codelode.counts import counted
from codelode.errors import NotFound
from codelode.model import (
    Category,
    Chunk,
    Edge,
    EdgeKind,
    FileKey,
    Kind,
    LocatedSymbol,
    RefName,
    RepositoryName,
    Symbol,
)
from codelode.ports import DependencyGraph, SymbolTable
from gateway import summaries
from gateway.state import Backends

#: Files named of each relation.
MAX_PATHS = 100
#: Definitions told of a file or of a name that many define.
MAX_DEFINITIONS = 100
#: Files whose neighbours are told when a name is defined in several.
MAX_FILES = 10
MAX_SIGNATURE_CHARS = 200

NO_GRAPH = "no dependency graph is configured: imports and tests are missing"
NO_SYMBOLS = (
    "no symbol table is configured: only files can be explained, by what their chunks define"
)


@dataclass(frozen=True, slots=True)
class About:
    """What is known about a subject."""

    kind: str  # file or symbol
    summary: str
    definitions: tuple[LocatedSymbol, ...]
    imports: tuple[str, ...] = ()
    imported_by: tuple[str, ...] = ()
    tests: tuple[str, ...] = ()
    notices: tuple[str, ...] = ()


async def about(
    subject: str, *, repositories: Sequence[RepositoryName], ref: RefName, backends: Backends
) -> About:
    """The subject in the repositories the caller named or may see. NotFound: nothing has it."""
    places = [(repository, subject) for repository in repositories]
    held = await backends.chunks.files(places, ref)
    file = next((place for place in places if held[place]), None)
    if file is not None:
        return await _file(file, held[file], backends)
    return await _symbol(subject, repositories, ref, backends)


async def _file(file: FileKey, chunks: Sequence[Chunk], backends: Backends) -> About:
    near, notices = await _near([file], backends.graph)
    made = summaries.of_file(file[1], chunks)
    told = " ".join(line if line.endswith(".") else f"{line}." for line in made.splitlines())
    defined, missing = await _defined(file, chunks, backends.symbols)
    return About(
        kind="file",
        summary=f"{told} {_said(file[1], near)}".strip(),
        definitions=defined[:MAX_DEFINITIONS],
        notices=(*notices, *missing, *_cut(defined)),
        **_bounded(near),
    )


async def _symbol(
    name: str, repositories: Sequence[RepositoryName], ref: RefName, backends: Backends
) -> About:
    found = await asyncio.to_thread(_lookup, name, repositories, backends.symbols)
    places = list(dict.fromkeys((at.repository, at.path) for at in found))
    held = await backends.chunks.files(places, ref)
    found = tuple(at for at in found if held[at.repository, at.path])
    if not found:
        reason = f" ({NO_SYMBOLS})" if backends.symbols is None else ""
        raise NotFound(
            f"no file and no symbol {name[:100]!r} is indexed at this ref{reason}; "
            "`codelode search` finds names that are alike"
        )
    places = [place for place in places if held[place]]
    near, notices = await _near(places[:MAX_FILES], backends.graph)
    return About(
        kind="symbol",
        summary=f"{_told(name, found)} {_of_its_files(len(places), near)}".strip(),
        definitions=found[:MAX_DEFINITIONS],
        notices=(*notices, *_cut(found)),
        **_bounded(near),
    )


def _lookup(
    name: str, repositories: Sequence[RepositoryName], symbols: SymbolTable | None
) -> tuple[LocatedSymbol, ...]:
    """Definitions of a name or of a qualified name: `get`, `Client.get`."""
    if symbols is None:
        return ()
    last = name.rpartition(".")[2]
    found = symbols.lookup(last, repositories=repositories)
    return tuple(at for at in found if _is_named(at.symbol.qualified_name, name))


def _is_named(qualified: str, name: str) -> bool:
    return qualified == name or qualified.endswith(f".{name}")


def _told(name: str, found: Sequence[LocatedSymbol]) -> str:
    first = found[0]
    symbol = first.symbol
    doc = f" {symbol.doc.rstrip('.')}." if symbol.doc else ""
    more = f" {_others(len(found) - 1)}." if len(found) > 1 else ""
    place = f"{first.path}:{symbol.start_line}-{symbol.end_line}"
    return f"{name} is a {symbol.kind} in {place} of {first.repository}.{doc}{more}"


def _others(count: int) -> str:
    return f"{counted(count, 'more definition')} {'has' if count == 1 else 'have'} that name"


def _of_its_files(count: int, near: Mapping[str, Sequence[str]]) -> str:
    if count == 1:
        return _said("Its file", near)
    which = f"The first {MAX_FILES} of its {count:,}" if count > MAX_FILES else f"Its {count}"
    return _said(f"{which} files", near, are_many=True)


def _said(who: str, near: Mapping[str, Sequence[str]], *, are_many: bool = False) -> str:
    if not any(near.values()):
        return ""
    # Not all imports are files: packages of others are among them.
    imports = counted(len(near["imports"]), "import")
    importers = counted(len(near["imported_by"]), "file")
    have, are = ("have", "are") if are_many else ("has", "is")
    return (
        f"{who} {have} {imports}, {are} imported by {importers} and "
        f"tested by {len(near['tests']):,}."
    )


async def _defined(
    file: FileKey, chunks: Sequence[Chunk], symbols: SymbolTable | None
) -> tuple[tuple[LocatedSymbol, ...], tuple[str, ...]]:
    """The definitions in the file by line; a notice where they are only what its chunks tell.

    The table has the file as it is at the ref that was indexed last. Where that is another file
    than the one asked about, the chunks tell too.
    """
    if symbols is None:
        return tuple(_definitions(chunks)), (NO_SYMBOLS,)
    repository, path = file
    found = (await asyncio.to_thread(symbols.defined_in, repository, [path]))[path]
    return (found if _are_of(chunks, found) else tuple(_definitions(chunks))), ()


def _are_of(chunks: Sequence[Chunk], found: Sequence[LocatedSymbol]) -> bool:
    """Whether these are the definitions that begin in the chunks, each where it does."""
    places: dict[str, list[range]] = defaultdict(list)
    for chunk in chunks:
        for name in chunk.symbols:
            places[name].append(range(chunk.start_line, chunk.end_line + 1))
    return places.keys() == {at.symbol.name for at in found} and all(
        any(at.symbol.start_line in lines for lines in places[at.symbol.name]) for at in found
    )


def _cut(definitions: Sequence[LocatedSymbol]) -> tuple[str, ...]:
    if len(definitions) <= MAX_DEFINITIONS:
        return ()
    return (f"the first {MAX_DEFINITIONS} of {len(definitions):,} definitions are listed",)


def _definitions(chunks: Iterable[Chunk]) -> Iterable[LocatedSymbol]:
    """One for each chunk that defines something; parts of a long one count once."""
    seen: set[str] = set()
    for chunk in chunks:
        if not chunk.symbol or chunk.symbol in seen or chunk.kind in (Kind.BLOCK, Kind.TEXT):
            continue
        seen.add(chunk.symbol)
        last = chunk.symbol.rpartition(".")[2]
        end = max(other.end_line for other in chunks if other.symbol == chunk.symbol)
        symbol = Symbol(
            name=last,
            qualified_name=chunk.symbol,
            kind=chunk.kind,
            signature=_signature(chunk.content, last),
            start_line=chunk.start_line,
            end_line=end,
            is_exported=not last.startswith("_"),
        )
        yield LocatedSymbol(chunk.repository, chunk.path, symbol)


def _signature(content: str, name: str) -> str:
    """The first line that holds the name."""
    naming = (line.strip() for line in content.splitlines() if name in line)
    return next(naming, "")[:MAX_SIGNATURE_CHARS]


async def _near(
    places: Sequence[FileKey], graph: DependencyGraph | None
) -> tuple[dict[str, tuple[str, ...]], tuple[str, ...]]:
    """Paths by relation, sorted."""
    if graph is None:
        return {"imports": (), "imported_by": (), "tests": ()}, (NO_GRAPH,)
    imports: set[str] = set()
    importers: set[str] = set()
    tests: set[str] = set()
    for repository, path in places:
        out, into = await asyncio.to_thread(_edges, graph, repository, path)
        imports |= {edge.target for edge in out if edge.kind is EdgeKind.IMPORTS}
        sources = {edge.source for edge in into if edge.kind is EdgeKind.IMPORTS}
        named = {edge.source for edge in into if edge.kind is EdgeKind.TESTS}
        tests |= named | {one for one in sources if languages.category(one) is Category.TEST}
        importers |= sources
    found = {"imports": imports, "imported_by": importers - tests, "tests": tests}
    return {name: tuple(sorted(paths)) for name, paths in found.items()}, ()


def _bounded(near: Mapping[str, tuple[str, ...]]) -> dict[str, tuple[str, ...]]:
    return {name: paths[:MAX_PATHS] for name, paths in near.items()}


def _edges(
    graph: DependencyGraph, repository: RepositoryName, path: str
) -> tuple[Sequence[Edge], Sequence[Edge]]:
    return (
        graph.outgoing(repository, [path])[path],
        graph.incoming(repository, [path])[path],
    )
