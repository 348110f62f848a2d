"""What is asked about uses, and what is read to answer it.

The text of the stored chunks says where a name stands and in which definition, so that nothing but
names is stored for it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from codelode import relations
from codelode.model import Chunk, EdgeKind, LocatedSymbol, ReferenceKind, RefName, RepositoryName
from gateway.expand.links import Place
from gateway.state import Backends

CALLS = (ReferenceKind.CALL, ReferenceKind.MEMBER, ReferenceKind.CLASS)


@dataclass(frozen=True, slots=True)
class Asked:
    """The subject, and how far to go."""

    repository: RepositoryName
    paths: tuple[str, ...]
    definitions: tuple[LocatedSymbol, ...]  # none: the subject is the files
    name: str
    depth: int
    limit: int
    ref: RefName


def files_imported(
    repository: RepositoryName, paths: Sequence[str], backends: Backends
) -> dict[str, set[str]]:
    """The files that each imports, and those that these pass on."""
    if backends.graph is None:
        return {path: set() for path in paths}
    out = backends.graph.outgoing(repository, paths)
    own = {
        path: {e.target for e in edges if e.kind is EdgeKind.IMPORTS and not e.is_external}
        for path, edges in out.items()
    }
    passing = sorted({t for some in own.values() for t in some if relations.passes_on(t)})
    further = backends.graph.outgoing(repository, passing)
    for some in own.values():
        for target in [one for one in some if one in further]:
            some |= {e.target for e in further[target] if not e.is_external}
    return own


async def stored(
    asked: Asked, paths: Sequence[str], backends: Backends
) -> dict[str, tuple[Chunk, ...]]:
    places = [(asked.repository, path) for path in dict.fromkeys(paths)]
    held = await backends.chunks.files(places, asked.ref)
    return {path: held[repository, path] for repository, path in places}


async def lines_of(
    asked: Asked, paths: Sequence[str], backends: Backends
) -> dict[str, dict[int, str]]:
    """The lines of each file, by number, as far as they are stored."""
    chunks = await stored(asked, paths, backends)
    return {
        path: {
            number: line
            for chunk in some
            for number, line in enumerate(chunk.content.splitlines(), chunk.start_line)
        }
        for path, some in chunks.items()
    }


def place_of(at: LocatedSymbol) -> Place:
    return Place(at.repository, at.path, at.symbol.qualified_name, at.symbol.start_line)


def key(at: LocatedSymbol) -> tuple[str, str, int]:
    return at.path, at.symbol.qualified_name, at.symbol.start_line
