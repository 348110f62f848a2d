"""Detect a search for something that exists nowhere, whose hits are only similar.

Vectors find something for every query, even for a misspelt name. So a query that is a name is
compared with the definitions in the candidates, and any other query with their words. Only if that
fails is the index asked: for a definition of the name, for its occurrence, and for similar names.
All of this happens inside the filters and the visibility of the search, at its ref. The symbol
table knows no filters, so definitions are looked up with the symbol filter of the chunk index.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from itertools import pairwise

from codelode import tokens
from codelode.model import Candidate, Filters, HybridQuery
from codelode.names import names_of, spelling
from codelode.ports import ChunkSearch
from codelode.vectors import Vector
from gateway.state import Analysis, Backends, EntityKind, QueryKind, SearchState

#: Least length of a name for which similar names are searched; shorter ones resemble too many.
MIN_CHARS = 4
#: Least length of a name that is split in three; a third of two characters is still rare enough.
MIN_THIRDS_CHARS = 6
#: Chunks with similar names that are read, by keywords and by vector each.
NEAR_CHUNKS = 100
#: Most chunks that define a similar name, by keywords and by vector each.
MAX_DEFINITIONS = 10
#: Least similarity of a suggested name, as difflib measures it: one edit in five characters.
MIN_RATIO = 0.8

NO_WORD = "no word of the query occurs in the searched code: the hits are only similar"


async def checked(state: SearchState, vector: Vector | None, backends: Backends) -> SearchState:
    """Add a remark if the name or every word of the query is missing from the searched code."""
    if not state.candidates and vector is not None:
        return state  # nothing is indexed inside the filters
    asking = _Asking(state, vector, backends)
    name, words = _name(state.analysis), state.analysis.words
    if name and _is_defined(name, state.candidates):
        return state
    if not (name and _is_code(name)) and _occurs(words, state.candidates):
        return state
    if name:
        return await _without(name, asking)
    if not words or await asking.occurs(" ".join(words)):
        return state
    return replace(state, is_unmatched=True).remarked(NO_WORD)


@dataclass(frozen=True, slots=True)
class _Asking:
    """A search under way, and the index to ask further questions about its query."""

    state: SearchState
    vector: Vector | None
    backends: Backends

    async def defines(self, name: str) -> bool:
        """Return whether a chunk defines the name in exactly this spelling."""
        return bool(await self._found(name, self._named(name), limit=1))

    async def definitions(self, name: str) -> Sequence[Candidate]:
        """Return some of the chunks that define the name."""
        return await self._found(name, self._named(name), limit=MAX_DEFINITIONS)

    async def occurs(self, text: str) -> bool:
        """Return whether a term of the text occurs in a chunk."""
        asked = self._query(text, self.state.query.filters, limit=1)
        return bool(await self.backends.chunks.hybrid(replace(asked, vector=None)))

    async def near(self, name: str) -> str:
        """Return the defined name that is spelt most like the name; empty if none is similar."""
        asked = self._query(name, self.state.query.filters, limit=NEAR_CHUNKS)
        return await similar_name(name, asked, self.backends.chunks, self.state.candidates)

    async def _found(self, text: str, filters: Filters, *, limit: int) -> Sequence[Candidate]:
        return await self.backends.chunks.hybrid(self._query(text, filters, limit=limit))

    def _named(self, *globs: str) -> Filters:
        return replace(self.state.query.filters, symbols=globs)

    def _query(self, text: str, filters: Filters, *, limit: int) -> HybridQuery:
        return HybridQuery(text, self.vector, filters, limit, visible=self.state.query.visible)


async def similar_name(
    name: str, asked: HybridQuery, chunks: ChunkSearch, known: Iterable[Candidate] = ()
) -> str:
    """Return the defined name that is spelt most like the name; empty if none is similar.

    `asked`: the name as a query, with the filters and the visibility in which to look. `known`:
    chunks that are looked at as well.
    """
    if len(name) < MIN_CHARS:
        return ""
    filters = replace(asked.filters, symbols=tuple(_pieces(name)))
    found = await chunks.hybrid(replace(asked, filters=filters, limit=NEAR_CHUNKS))
    return _most_similar(name, (*found, *known))


async def _without(name: str, asking: _Asking) -> SearchState:
    """Return the state with a remark, unless the index has a definition of the name."""
    is_defined, occurs, near = await asyncio.gather(
        asking.defines(name), asking.occurs(spelling(name)), asking.near(name)
    )
    if is_defined:
        return asking.state
    remark = f"no definition is named {name[:100]!r}"
    if asking.state.query.filters != Filters():
        remark += " inside the filters"
    if not occurs:
        remark += ", and the name occurs nowhere there: the hits are only similar"
    if near:
        remark += f"; did you mean {near!r}?"
    state = replace(asking.state, is_unmatched=not occurs).remarked(remark)
    return state if occurs or not near else await _corrected(state, near, asking)


async def _corrected(state: SearchState, near: str, asking: _Asking) -> SearchState:
    """Let the definitions of the similar name be found and ranked as if they had been asked for."""
    known = {candidate.chunk.id for candidate in state.candidates}
    added = [one for one in await asking.definitions(near) if one.chunk.id not in known]
    words = dict.fromkeys((*tokens.terms(near), *state.analysis.words))
    read = replace(state.analysis, identifiers=(near,), words=tuple(words))
    return replace(state, analysis=read, candidates=(*state.candidates, *added))


def _name(analysis: Analysis) -> str:
    """Return the last part of the name that the query is; empty if it is a path or no name."""
    is_path = any(entity.kind is EntityKind.PATH for entity in analysis.entities)
    if analysis.kind is not QueryKind.IDENTIFIER or is_path or not analysis.last_names:
        return ""
    name = analysis.last_names[0]
    return name if spelling(name) else ""


def _is_code(name: str) -> bool:
    """Return whether the name is written as in code; a plain word may be a one-word question."""
    return not (name.isalpha() and (name.islower() or name.istitle()))


def _is_defined(name: str, candidates: Iterable[Candidate]) -> bool:
    """Return whether a candidate defines the name, in any case, with or without underscores."""
    spelt = spelling(name)
    for one in candidates:
        names = one.names or names_of(one.chunk.symbol, one.chunk.symbols)
        if names.symbol == spelt or f"\n{spelt}\n" in names.defined:
            return True
    return False


def _occurs(words: Sequence[str], candidates: Iterable[Candidate]) -> bool:
    """Return whether keywords found a candidate with one of the words, also as a part of a word."""
    return any(word in text for text in map(_text, candidates) for word in words)


def _text(candidate: Candidate) -> str:
    if candidate.keyword_score is None:
        return ""
    chunk = candidate.chunk
    return "\n".join((chunk.content, chunk.path, *chunk.symbols, chunk.summary)).casefold()


def _pieces(name: str) -> Iterator[str]:
    """Yield globs of which at least one matches every name that is a typing error away.

    An error changes one half of a name, and two errors leave a third as it is.
    """
    count = 3 if len(name) >= MIN_THIRDS_CHARS else 2
    ends = [len(name) * number // count for number in range(count + 1)]
    yield f"{name[: ends[1]]}*"
    for start, end in pairwise(ends[1:]):
        yield f"*{name[start:end]}*"


def _most_similar(name: str, candidates: Iterable[Candidate]) -> str:
    names = {
        short.lower(): short
        for one in candidates
        for full in (one.chunk.symbol, *one.chunk.symbols)
        if (short := full.rpartition(".")[2])
    }
    close = get_close_matches(name.lower(), names, n=1, cutoff=MIN_RATIO)
    return names[close[0]] if close else ""
