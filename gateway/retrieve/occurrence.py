"""Detect a search for something that exists nowhere, whose hits are only similar.

Vectors find something for every query, even for a misspelt name. A query that is a name, or asks
for the users of one, is therefore compared with the definitions in the candidates, and any other
query with their words. If nothing matches, the index is searched for a definition of the name, for
an occurrence of it, and for similar names. All of this happens inside the filters and the
visibility of the search, at its ref. The symbol table has no filters, so definitions are looked up
with the symbol filter of the chunk index.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from itertools import pairwise

from codelode import tokens
from codelode.globs import longest_literal
from codelode.model import Candidate, Filters, HybridQuery
from codelode.names import names_of, spelling
from codelode.ports import ChunkSearch
from codelode.vectors import Vector
from gateway.state import Analysis, Backends, EntityKind, QueryKind, SearchState

#: Minimum length of a name for which similar names are searched; shorter ones resemble too many.
MIN_CHARS = 4
#: Minimum length of a name that is split in three; thirds of two characters are rare enough.
MIN_THIRDS_CHARS = 6
#: Maximum number of chunks with similar names that are read, by keywords and by vector each.
NEAR_CHUNKS = 100
#: Maximum number of chunks that define a similar name, by keywords and by vector each.
MAX_DEFINITIONS = 10
#: Maximum number of names that are suggested for a glob.
MAX_NEAR = 3
#: Minimum similarity of a suggested name, as difflib measures it: one edit in five characters.
MIN_RATIO = 0.8

NO_WORD = "no word of the query occurs in the searched code: the hits are only similar"


async def checked(state: SearchState, vector: Vector | None, backends: Backends) -> SearchState:
    """Add a remark if the name or every word of the query is missing from the searched code."""
    if not state.candidates and vector is not None:
        return state  # nothing is indexed inside the filters
    asking = _Asking(state, vector, backends)
    name = _name(state.analysis)
    words = tokens.terms(name) if name and state.analysis.used else state.analysis.words
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
    """A running search, and the backends that answer further questions about its query."""

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

    `known`: chunks to consider as well; `asked`: see `similar_names`.
    """
    near = await similar_names(name, asked, chunks, known)
    return near[0] if near else ""


async def similar_names(
    glob: str, asked: HybridQuery, chunks: ChunkSearch, known: Iterable[Candidate] = ()
) -> Sequence[str]:
    """Return defined names that match the glob except for a typing error, most similar first.

    The longest part of the glob without wildcards is compared with the same part of each name.
    `asked`: that part as a query, with the filters and the visibility of the search.
    """
    literal = longest_literal(glob)
    if len(literal) < MIN_CHARS:
        return ()
    pieces = _pieces(literal, is_inner=not glob.startswith(literal))
    filters = replace(asked.filters, symbols=tuple(pieces))
    found = await chunks.hybrid(replace(asked, filters=filters, limit=NEAR_CHUNKS))
    return await asyncio.to_thread(_most_similar, glob, literal, (*found, *known))


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
    """Add definitions of the similar name, and rank as if the query had asked for it.

    If the query asks for users of the name, those of the similar name come first.
    """
    known = {candidate.chunk.id for candidate in state.candidates}
    added = [one for one in await asking.definitions(near) if one.chunk.id not in known]
    words = dict.fromkeys((*tokens.terms(near), *state.analysis.words))
    used = near if state.analysis.used else ""
    read = replace(state.analysis, identifiers=(near,), words=tuple(words), used=used)
    return replace(state, analysis=read, candidates=(*state.candidates, *added))


def _name(analysis: Analysis) -> str:
    """Return the last part of the name that the query is, or whose users it asks for.

    Empty if the query is a path or not a name.
    """
    is_path = any(entity.kind is EntityKind.PATH for entity in analysis.entities)
    names = analysis.last_names if analysis.kind is QueryKind.IDENTIFIER else ()
    if analysis.used:
        names = (analysis.used.rpartition(".")[2],)
    return names[0] if names and not is_path and spelling(names[0]) else ""


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
    """Return whether a candidate of the keyword search has one of the words, perhaps in another."""
    return any(word in text for text in map(_text, candidates) for word in words)


def _text(candidate: Candidate) -> str:
    if candidate.keyword_score is None:
        return ""
    chunk = candidate.chunk
    return "\n".join((chunk.content, chunk.path, *chunk.symbols, chunk.summary)).casefold()


def _pieces(name: str, *, is_inner: bool = False) -> Iterator[str]:
    """Yield globs, of which at least one matches any name that is a typing error away.

    `is_inner`: the given name may be a part of these names.
    """
    first, *others = _parts(name)
    yield f"*{first}*" if is_inner else f"{first}*"
    yield from (f"*{part}*" for part in others)


def _parts(name: str) -> list[str]:
    """Return halves or thirds of a name: one error leaves a half unchanged, two leave a third."""
    count = 3 if len(name) >= MIN_THIRDS_CHARS else 2
    ends = [len(name) * number // count for number in range(count + 1)]
    return [name[start:end] for start, end in pairwise(ends)]


def _most_similar(glob: str, literal: str, candidates: Iterable[Candidate]) -> Sequence[str]:
    names = {
        short
        for one in candidates
        for full in (one.chunk.symbol, *one.chunk.symbols)
        if _has_piece(short := full.rpartition(".")[2], literal)
    }
    parts: dict[str, list[str]] = {}
    for name in sorted(names):
        for part in _compared(glob, literal, name):
            parts.setdefault(part.lower(), []).append(name)
    close = get_close_matches(literal.lower(), parts, n=MAX_NEAR * 8, cutoff=MIN_RATIO)
    return list(dict.fromkeys(name for part in close for name in parts[part]))[:MAX_NEAR]


def _has_piece(name: str, literal: str) -> bool:
    folded = name.lower()
    return any(part in folded for part in _parts(literal.lower()))


def _compared(glob: str, literal: str, name: str) -> Iterator[str]:
    """Yield the parts of a name where the literal may be according to the glob.

    They are as long as the literal, or one character shorter or longer, for a character that was
    added or left out.
    """
    if glob == literal:
        yield name
        return
    for size in {min(len(name), len(literal) + more) for more in (-1, 0, 1)}:
        last = len(name) - size
        starts = range(last + 1)
        if glob.startswith(literal):
            starts = range(1)
        elif glob.endswith(literal):
            starts = range(last, last + 1)
        yield from (name[start : start + size] for start in starts)
