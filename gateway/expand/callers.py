"""Find the users of the subject (callers, references, subclasses), most certain matches first."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from codelode.model import Chunk, LocatedSymbol, ReferenceKind
from codelode.name_resolution import Confidence, resolve_use
from gateway.expand.aliases import uses_of
from gateway.expand.links import GraphNode, Link
from gateway.expand.subject import CALLS, SubjectQuery, files_imported, stored_chunks, symbol_key
from gateway.state import Backends

#: Most files whose text is read to find the line of a use. Chosen by hand.
MAX_FILES = 200
#: Most lines listed for one name in one file. Chosen by hand.
MAX_LINES = 5


async def callers(query: SubjectQuery, backends: Backends, *, relation: str) -> list[Link]:
    """Return where the symbols of the subject are used, most certain matches first.

    For a file these are the symbols that it exports.
    """
    kinds = CALLS if relation == "callers" else (*CALLS, ReferenceKind.IMPLEMENTATION)
    return await _users(query, backends, kinds=kinds, relation=relation)


async def subclasses(query: SubjectQuery, backends: Backends) -> list[Link]:
    """Return the classes that inherit or implement the subject."""
    kinds = (ReferenceKind.IMPLEMENTATION,)
    return await _users(query, backends, kinds=kinds, relation="subclasses")


async def _users(
    query: SubjectQuery, backends: Backends, *, kinds: Sequence[ReferenceKind], relation: str
) -> list[Link]:
    if backends.references is None or backends.symbols is None:
        return []
    names = await _defined_names(query, backends)
    found = await asyncio.to_thread(_using_files, query, names, kinds, backends)
    order = list(Confidence)
    found = sorted(found, key=lambda one: (order.index(one.confidence), one.path, one.name))
    found = found[:MAX_FILES]
    paths = [one.path for one in found]
    texts, defined = await asyncio.gather(
        stored_chunks(query, paths, backends), _defined(query, paths, backends)
    )
    links: list[Link] = []
    for one in found:
        target = GraphNode(
            query.repository, one.of.path, one.of.symbol.qualified_name, one.of.symbol.start_line
        )
        links += [
            Link(relation, source, target, 1, one.confidence)
            for source in _nodes(one, texts[one.path], defined[one.path])
        ]
        if len(links) >= query.limit:
            break
    return links[: query.limit]


async def _defined_names(
    query: SubjectQuery, backends: Backends
) -> Mapping[str, tuple[LocatedSymbol, ...]]:
    """Return the names that the subject defines, with its definitions of each."""
    if query.definitions:
        return {query.name: query.definitions}
    found = await _defined(query, query.paths, backends)
    names: dict[str, tuple[LocatedSymbol, ...]] = {}
    for at in (at for some in found.values() for at in some if at.symbol.is_exported):
        names[at.symbol.name] = (*names.get(at.symbol.name, ()), at)
    return names


async def _defined(
    query: SubjectQuery, paths: Sequence[str], backends: Backends
) -> Mapping[str, tuple[LocatedSymbol, ...]]:
    assert backends.symbols is not None
    distinct = list(dict.fromkeys(paths))
    return await asyncio.to_thread(backends.symbols.defined_in, query.repository, distinct)


@dataclass(frozen=True, slots=True)
class _User:
    """A file that uses a name which means one of the subject's definitions."""

    path: str
    name: str  # as the file writes it
    of: LocatedSymbol
    confidence: Confidence


def _using_files(
    query: SubjectQuery,
    names: Mapping[str, tuple[LocatedSymbol, ...]],
    kinds: Sequence[ReferenceKind],
    backends: Backends,
) -> list[_User]:
    """Return the files with a use of a name that may resolve to the subject."""
    assert backends.references is not None
    assert backends.symbols is not None
    left_out = () if query.definitions else query.paths
    using = uses_of(query.repository, names, kinds, backends.references)
    using = [use for use in using if use.path not in left_out]
    paths = sorted({use.path for use in using})
    imported = files_imported(query.repository, paths, backends)
    definitions = backends.symbols.lookup_all(sorted(names), repository=query.repository)
    found: dict[tuple[str, str], _User] = {}
    for path, use, source in using:
        if path not in imported:
            continue
        own = names[use.name]
        meanings = resolve_use(
            use,
            path=path,
            imported=imported[path],
            definitions=_own_first(definitions[use.name], own),
            source=source,
        )
        mine = next((m for m in meanings if _is_of(m.definition, own)), None)
        if mine is not None:
            user = _User(path, use.written or use.name, mine.definition, mine.confidence)
            found.setdefault((path, user.name), user)
    return list(found.values())


def _own_first(all_: Sequence[LocatedSymbol], own: Sequence[LocatedSymbol]) -> list[LocatedSymbol]:
    """Order the subject's definitions first, so that a bound on their number keeps them."""
    keys = {symbol_key(at) for at in own}
    return sorted(all_, key=lambda at: symbol_key(at) not in keys)


def _is_of(at: LocatedSymbol, own: Iterable[LocatedSymbol]) -> bool:
    return any(symbol_key(at) == symbol_key(one) for one in own)


def _nodes(
    user: _User, chunks: Sequence[Chunk], defined: Sequence[LocatedSymbol]
) -> list[GraphNode]:
    """Return the uses of the name in the file, each with the definition around it."""
    repository = user.of.repository
    lines = [number for number, _ in _lines_with(user, chunks)][:MAX_LINES]
    if not lines:
        return [GraphNode(repository, user.path)] if chunks else []
    return [GraphNode(repository, user.path, _around(line, defined), line) for line in lines]


def _lines_with(user: _User, chunks: Sequence[Chunk]) -> Iterator[tuple[int, str]]:
    name = re.escape(user.name)
    if user.name != user.of.symbol.name:
        name = f"(?<! as ){name}"  # not the import that renames it, over several lines
    expression = re.compile(rf"(?<![\w$]){name}(?![\w$])")
    for chunk in chunks:
        if user.name not in chunk.content:
            continue
        for number, line in enumerate(chunk.content.splitlines(), chunk.start_line):
            is_definition = user.of.path == user.path and number == user.of.symbol.start_line
            if not is_definition and expression.search(line) and not _IMPORTING.match(line):
                yield number, line


def _around(line: int, defined: Sequence[LocatedSymbol]) -> str:
    """Return the innermost definition around the line; `defined` is ordered by first line."""
    around = [at.symbol for at in defined if at.symbol.start_line <= line <= at.symbol.end_line]
    return around[-1].qualified_name if around else ""


_IMPORTING = re.compile(
    r"\s*(?:from\s+\S+\s+import|import\b|use\b|using\b|#\s*include|require\b"
    r"|(?:const|let|var)\b[^=]*=\s*require\b)"
)
