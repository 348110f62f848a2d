"""Add the context of the hits: users of a name, related files, import chains, and more lines.

Everything is read from the index, at the searched ref and in the repositories of the hits, which
the caller may see; never from a work tree, which may have changed since. Users are put first if
the query asks for them; everything else is off by default.
"""

from __future__ import annotations

from dataclasses import replace

from codelode.model import FileKey
from gateway.expand.imports import chains
from gateway.expand.passages import passages
from gateway.expand.related import related
from gateway.expand.users import users_first
from gateway.state import Backends, SearchState

NO_GRAPH = "related files and import chains are missing: no dependency graph is configured"


async def expand(state: SearchState, backends: Backends) -> SearchState:
    """Add what the query and the options ask for."""
    options = state.query.options.expand
    if state.analysis.used and state.ranking:
        state = await users_first(state, backends)
    if not state.page:
        return state
    if options.enclosing or options.before_lines or options.after_lines:
        state = replace(state, passages=await passages(state, backends.chunks))
    if not options.related and not options.imports:
        return state
    if backends.graph is None:
        return state.noticed(NO_GRAPH)
    files = _files(state)
    if options.related:
        near = await related(files, state.query, backends)
        state = replace(state, related=near)
    if options.imports:
        links, remarks = await chains(
            files, state.query.filters.ref, backends.graph, depth=options.imports
        )
        state = replace(state, imports=links).remarked(*remarks)
    return state


def _files(state: SearchState) -> tuple[FileKey, ...]:
    """Return the files of the page, best first."""
    chunks = (entry.candidate.chunk for entry in state.page)
    return tuple(dict.fromkeys((chunk.repository, chunk.path) for chunk in chunks))
