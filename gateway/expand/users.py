"""Put the users of a name first if the query asks for them: `who calls Client.get`.

The users come from the reference index, so they are found whatever their rank. The name is looked
up in the repositories of the ranking, best first; links across repositories lead only to these.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace

from codelode import globs
from codelode.errors import NotFound
from codelode.model import Candidate, Category, Chunk, ChunkId, FileKey, RepositoryName
from gateway.expand.graph import GraphQuery, GraphResult, Relation, graph
from gateway.expand.links import GraphNode
from gateway.state import Backends, Ranked, SearchState

#: Maximum number of users of each relation that are put first, and of repositories in which the
#: name is looked up. Chosen by hand.
MAX_USERS = 50
MAX_REPOSITORIES = 20

_PART = "expand.use"


async def users_first(state: SearchState, backends: Backends) -> SearchState:
    """Move the chunks that use the name to the front, most certain ones first."""
    try:
        found = await graph(_asked(state), backends)
    except NotFound:
        return state
    nodes = _nodes(found)
    keys = [(node.repository, node.path) for node in nodes]
    held = await backends.chunks.files(list(dict.fromkeys(keys)), state.query.filters.ref)
    defined = {(link.target.repository, link.target.path, link.target.line) for link in found.links}
    name = state.analysis.used.rpartition(".")[2]
    folded = {copy.chunk.id for copies in state.copies.values() for copy in copies}
    using = {
        chunk.id: chunk
        for node in nodes
        for chunk in _chunks(node, held, name)
        if chunk.id not in folded
        and globs.is_inside(chunk, state.query.filters)
        and not _defines(chunk, defined)
    }
    return replace(state, ranking=_raised(state.ranking, using))


def _asked(state: SearchState) -> GraphQuery:
    chunks = (entry.candidate.chunk for entry in state.ranking)
    repositories = tuple(dict.fromkeys(chunk.repository for chunk in chunks))[:MAX_REPOSITORIES]
    return GraphQuery(
        subject=state.analysis.used,
        repositories=repositories,
        visible=repositories,
        relations=(Relation.REFERENCES, Relation.CROSS_REPOSITORY),
        depth=1,
        reverse=True,
        limit=MAX_USERS,
        ref=state.query.filters.ref,
    )


def _nodes(found: GraphResult) -> list[GraphNode]:
    """Return the users of a symbol; none if the name is that of a file."""
    if found.kind != "symbol":
        return []
    return [link.source for link in found.links if link.source.repository and link.source.path]


def _chunks(node: GraphNode, held: Mapping[FileKey, Sequence[Chunk]], name: str) -> Iterator[Chunk]:
    """Yield the chunks with the line of the node, or if it has none, those with the name."""
    written = re.compile(rf"\b{re.escape(name)}\b")
    for chunk in held[node.repository, node.path]:
        if node.line:
            if chunk.start_line <= node.line <= chunk.end_line:
                yield chunk
        elif written.search(chunk.content):
            yield chunk


def _defines(chunk: Chunk, defined: Collection[tuple[RepositoryName, str, int]]) -> bool:
    return any(
        (chunk.repository, chunk.path) == (repository, path)
        and chunk.start_line <= line <= chunk.end_line
        for repository, path, line in defined
    )


def _raised(ranking: Sequence[Ranked], using: Mapping[ChunkId, Chunk]) -> tuple[Ranked, ...]:
    """Put the users first: source code before other categories, each by its former rank."""
    if not using or not ranking:
        return tuple(ranking)
    ranked = {entry.candidate.chunk.id: at for at, entry in enumerate(ranking)}
    order = sorted(
        using.values(),
        key=lambda chunk: (
            chunk.category is not Category.SOURCE,
            ranked.get(chunk.id, len(ranking)),
        ),
    )
    best = ranking[0].score
    first = [
        _entry(ranking, ranked.get(chunk.id), chunk, score=best + len(order) - at)
        for at, chunk in enumerate(order)
    ]
    return (*first, *(entry for entry in ranking if entry.candidate.chunk.id not in using))


def _entry(ranking: Sequence[Ranked], at: int | None, chunk: Chunk, *, score: float) -> Ranked:
    known = Ranked(Candidate(chunk, 0.0, None), 0.0, (), ()) if at is None else ranking[at]
    return known.raised(score, _PART)
