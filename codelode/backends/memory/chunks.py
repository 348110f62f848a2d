"""Keep the chunks in a dictionary. Every search scans all chunks, so results are exact."""

from __future__ import annotations

import heapq
import math
import threading
from collections import Counter, defaultdict
from collections.abc import Awaitable, Collection, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from codelode import globs, grams
from codelode.access import Visibility
from codelode.backends import words
from codelode.backends.chunk_stores import (
    by_file,
    chunk_vector,
    require_distinct,
    require_vectors,
)
from codelode.chunk_map import ChunkVector
from codelode.covers import Grouped, Groups
from codelode.file_text import file_text, text_by_file
from codelode.fusion import shortlist
from codelode.grams import NOTHING, Grams
from codelode.model import (
    Candidate,
    Chunk,
    ChunkId,
    FileChunks,
    FileKey,
    FileQuery,
    FileText,
    HybridQuery,
    RefName,
    RepositoryName,
)
from codelode.vectors import Vector

#: Saturation and length normalisation of BM25: the values of Lucene and tantivy.
K1 = 1.2
B = 0.75


class _Field(NamedTuple):
    weight: float
    frequencies: dict[str, int]  # by term
    terms: int


@dataclass(frozen=True, slots=True)
class _Entry:
    chunk: Chunk
    vector: Vector
    length: float  # of the vector
    fields: tuple[_Field, ...]
    groups: Groups = ()


class MemoryChunkStore:
    """Implements the ports ChunkStore, Inventory and ChunkSearch in one object."""

    def __init__(self, *, dim: int | None = None) -> None:
        self._dim = dim
        self._entries: dict[ChunkId, _Entry] = {}
        self._lock = threading.Lock()

    def replace(self, files: Sequence[FileChunks]) -> None:
        require_distinct(files)
        require_vectors(files, dim=self._dim)
        with self._lock:
            for file in files:
                self._replace_file(file)

    def remove_repository(self, repository: RepositoryName) -> None:
        with self._lock:
            for id, entry in list(self._entries.items()):
                if entry.chunk.repository == repository:
                    del self._entries[id]

    def ids(self, repository: RepositoryName, ref: RefName) -> Iterator[ChunkId]:
        for chunk in [entry.chunk for entry in self._snapshot()]:
            if chunk.repository == repository and ref in chunk.refs:
                yield chunk.id

    def repositories(self) -> frozenset[RepositoryName]:
        return frozenset(entry.chunk.repository for entry in self._snapshot())

    def counts(
        self, repository: RepositoryName, paths: Collection[str] | None = None
    ) -> Mapping[str, Mapping[RefName, int]]:
        counts: defaultdict[str, Counter[RefName]] = defaultdict(Counter)
        for chunk in (entry.chunk for entry in self._snapshot()):
            if chunk.repository == repository and (paths is None or chunk.path in paths):
                counts[chunk.path].update(chunk.refs)
        return counts

    def vectors(
        self, repositories: Sequence[RepositoryName], ref: RefName, *, most: int
    ) -> Iterator[ChunkVector]:
        inside = (
            entry
            for entry in self._snapshot()
            if entry.chunk.repository in repositories and ref in entry.chunk.refs and entry.length
        )
        for entry in heapq.nsmallest(most, inside, key=lambda one: one.chunk.id):
            yield chunk_vector(entry.chunk, entry.vector)

    def has_others(self, repository: RepositoryName, grouped: Grouped) -> bool:
        wanted, gone = {*grouped.written}, {*grouped.possible} - {*grouped.written}
        inside = (one for one in self._snapshot() if one.chunk.repository == repository)
        return any(wanted.difference(one.groups) or gone.intersection(one.groups) for one in inside)

    def sizes(self) -> Mapping[str, int] | None:
        """Return None: nothing is on a disk."""
        return None

    def maintain(self) -> None:
        """Do nothing: there is nothing to optimise."""

    async def hybrid(self, asked: HybridQuery) -> Sequence[Candidate]:
        query = asked.bounded()
        if query is None:
            return []
        entries = self._snapshot()
        admitted = {
            entry.chunk.id for entry in entries if globs.is_inside(entry.chunk, query.filters)
        }
        keyword = _best(_bm25(entries, words.query_terms(query.text)), admitted, query.limit)
        near = _best(_cosine(entries, query.vector), admitted, query.limit)
        found = {entry.chunk.id: entry for entry in entries}
        return [
            Candidate(
                found[id].chunk,
                keyword.get(id),
                near.get(id),
                found[id].vector if query.with_vectors else None,
            )
            for id in shortlist(
                [list(keyword), list(near)],
                query.total_limit,
                is_secondary=lambda id: found[id].chunk.category in query.secondary,
            )
        ]

    async def holding(self, asked: FileQuery) -> Sequence[FileKey]:
        query = asked.bounded()
        if query is None:
            return []
        admitted = [
            entry.chunk for entry in self._snapshot() if globs.is_inside(entry.chunk, query.filters)
        ]
        files = by_file(((chunk.repository, chunk.path) for chunk in admitted), admitted)
        return sorted(
            key
            for key, chunks in files.items()
            if grams.holds(query.grams, grams.folded(file_text(chunks)).__contains__)
        )

    async def files(
        self, places: Sequence[FileKey], ref: RefName
    ) -> Mapping[FileKey, tuple[Chunk, ...]]:
        chunks = (entry.chunk for entry in self._snapshot())
        return by_file(places, (chunk for chunk in chunks if ref in chunk.refs))

    async def texts(
        self, places: Sequence[FileKey], ref: RefName, needed: Grams = NOTHING
    ) -> Mapping[FileKey, FileText]:
        return text_by_file(await self.files(places, ref))

    async def count(self, visible: Visibility) -> int:
        return sum(entry.chunk.repository in visible for entry in self._snapshot())

    def close(self) -> Any:
        """Close the store. The result may be awaited, as ChunkSearch requires, or ignored."""
        return _Nothing()

    def _snapshot(self) -> list[_Entry]:
        with self._lock:
            return list(self._entries.values())

    def _replace_file(self, file: FileChunks) -> None:
        refs = frozenset(file.refs)
        before = {
            id: entry
            for id, entry in self._entries.items()
            if (entry.chunk.repository, entry.chunk.path) == (file.repository, file.path)
        }
        for chunk, vector in zip(file.chunks, file.vectors, strict=True):
            others = before[chunk.id].chunk.refs if chunk.id in before else ()
            entry = _entry(_under(chunk, refs.union(others)), vector)
            self._entries[chunk.id] = replace(entry, groups=file.groups)
        for id in before.keys() - {chunk.id for chunk in file.chunks}:
            self._reduce(before[id], refs)

    def _reduce(self, entry: _Entry, refs: frozenset[RefName]) -> None:
        remaining = frozenset(entry.chunk.refs) - refs
        if remaining:
            self._entries[entry.chunk.id] = replace(entry, chunk=_under(entry.chunk, remaining))
        else:
            del self._entries[entry.chunk.id]


class _Nothing(Awaitable[None]):
    def __await__(self) -> Generator[Any, Any, None]:
        yield from ()


def _entry(chunk: Chunk, vector: Vector) -> _Entry:
    fields = (
        _field(words.NAME_WEIGHT, words.name_terms(chunk)),
        _field(1.0, words.content_terms(chunk)),
        _field(words.SUMMARY_WEIGHT, words.summary_terms(chunk)),
    )
    return _Entry(chunk, vector, float(np.linalg.norm(vector)), fields)


def _field(weight: float, text: str) -> _Field:
    terms = text.split()
    return _Field(weight, dict(Counter(terms)), len(terms))


def _under(chunk: Chunk, refs: frozenset[RefName]) -> Chunk:
    return chunk._replace(refs=tuple(sorted(refs)))


def _best(
    scores: Mapping[ChunkId, float], admitted: set[ChunkId], limit: int
) -> dict[ChunkId, float]:
    inside = [(id, score) for id, score in scores.items() if id in admitted]
    return dict(sorted(inside, key=lambda item: (-item[1], item[0]))[:limit])


def _cosine(entries: Sequence[_Entry], query: Vector | None) -> dict[ChunkId, float]:
    if query is None or not query.any():
        return {}
    length = float(np.linalg.norm(query))
    return {
        entry.chunk.id: float(entry.vector @ query) / (length * entry.length)
        for entry in entries
        if entry.length
    }


def _bm25(entries: Sequence[_Entry], terms: Sequence[str]) -> dict[ChunkId, float]:
    """Return the weighted sum of the BM25 scores of all fields, for chunks with a query term.


    Robertson and Zaragoza, "The Probabilistic Relevance Framework", 2009; the idf of Lucene,
    which is never negative.
    """
    scores: defaultdict[ChunkId, float] = defaultdict(float)
    for index in range(3):
        fields = [entry.fields[index] for entry in entries]
        mean = sum(field.terms for field in fields) / max(len(fields), 1)
        for term in terms:
            holders = [at for at, field in enumerate(fields) if term in field.frequencies]
            idf = math.log(1 + (len(fields) - len(holders) + 0.5) / (len(holders) + 0.5))
            for at in holders:
                frequency, field = fields[at].frequencies[term], fields[at]
                norm = K1 * (1 - B + B * field.terms / mean)
                gain = frequency * (K1 + 1) / (frequency + norm)
                scores[entries[at].chunk.id] += field.weight * idf * gain
    return scores
