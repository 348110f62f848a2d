"""Files by their summaries first, then the chunks inside them.

The files are those of the hybrid index's candidates. Each is compared by the cosine of its
summary and the query; the chunks of those that are near enough by theirs. Both thresholds are
cosines: a fused score ends at 2/61 and would never pass one. What they are, unless the request
says so, is the embedder's (`scale`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import accumulate

import numpy as np

from codelode.counts import counted
from codelode.errors import Unavailable
from codelode.model import Candidate, Chunk, FileKey, HybridQuery, RepositoryName
from codelode.ports import DependencyGraph, Embedder
from codelode.vectors import Vector
from gateway import summaries
from gateway.options import Retrieve
from gateway.retrieve.hybrid import candidates
from gateway.retrieve.scale import Scale, scale
from gateway.state import Backends, FoundFile, SearchQuery, SearchState, estimated_tokens

#: Files whose summaries are made and compared; the best candidates' come first.
MAX_FILES_READ = 50

#: Tokens of the found files beyond which reading them whole is no longer sensible.
MAX_TOKENS = 100_000

#: Names shown of a file.
MAX_SYMBOLS = 50

NO_VECTOR = "staged retrieval needs vectors, which could not be made: chunks were searched alone"


async def staged(state: SearchState, vector: Vector | None, backends: Backends) -> SearchState:
    """Adds the files found, and the candidates inside them. Other wordings are not searched."""
    query, state = state.query, replace(state, alternates=())
    seeds = await candidates(
        query.text, vector, query=query, analysis=state.analysis, chunks=backends.chunks
    )
    if vector is None:
        return _unstaged(state, seeds)
    held = await backends.chunks.files(_places(seeds), query.filters.ref)
    try:
        compared = await _compared(held, vector, backends)
        least = await asyncio.to_thread(_least, query.options.retrieve, backends.embedder)
    except Unavailable:
        return _unstaged(state, seeds)
    limit = query.options.retrieve.max_files
    files, notices = near_files(compared, least=least.file, limit=limit)
    inside, missed = await _inside(files, vector, query, backends, least=least.chunk)
    found = replace(state, files=files, candidates=inside)
    return found.remarked(*notices, *missed, *too_much(files))


def near_files(
    compared: Sequence[FoundFile], *, least: float, limit: int
) -> tuple[tuple[FoundFile, ...], tuple[str, ...]]:
    """The files that are similar enough, best first, and why there are none."""
    ordered = sorted(compared, key=lambda file: (-file.similarity, file.repository, file.path))
    near = [file for file in ordered if file.similarity >= least]
    if ordered and not near:
        return (), (_none_near("file", ordered[0].similarity, least, "file_similarity"),)
    return tuple(near[:limit]), ()


async def _inside(
    files: Sequence[FoundFile],
    vector: Vector,
    query: SearchQuery,
    backends: Backends,
    *,
    least: float,
) -> tuple[tuple[Candidate, ...], tuple[str, ...]]:
    """The chunks of the files that are similar enough, and why there are none."""
    if not files:
        return (), ()
    options = query.options.retrieve
    filters = replace(
        query.filters,
        repositories=tuple(dict.fromkeys(file.repository for file in files)),
        paths=tuple(dict.fromkeys(file.path for file in files)),
    )
    asked = HybridQuery(
        query.text,
        vector,
        filters,
        options.max_chunks,
        alpha=1.0,  # what words alone find goes below
        with_vectors=query.options.rank.duplicate_similarity < 1,
        visible=query.visible,
    )
    wanted = {(file.repository, file.path) for file in files}
    # A path is asked for as a glob, and one path may be in several of the repositories.
    found = [one for one in await backends.chunks.hybrid(asked) if _place(one.chunk) in wanted]
    found.sort(key=lambda one: -_similarity(one))
    near = [one for one in found if _similarity(one) >= least]
    if found and not near:
        best = _similarity(found[0])
        return (), (_none_near("chunk of them", best, least, "chunk_similarity"),)
    return tuple(near[: options.max_chunks]), ()


def _least(options: Retrieve, embedder: Embedder) -> Scale:
    """The thresholds that the request sets, the embedder's where it sets none."""
    usual = scale(embedder.identity)
    file, chunk = options.file_similarity, options.chunk_similarity
    return Scale(usual.file if file is None else file, usual.chunk if chunk is None else chunk)


async def _compared(
    held: Mapping[FileKey, Sequence[Chunk]], vector: Vector, backends: Backends
) -> list[FoundFile]:
    """Every file with its summary's cosine to the query."""
    imports = await asyncio.to_thread(_imports, list(held), backends.graph)
    texts = [
        summaries.of_file(place[1], chunks, imports.get(place, ()))
        for place, chunks in held.items()
    ]
    similarities = await asyncio.to_thread(_cosines, texts, vector, backends.embedder)
    return [
        FoundFile(
            *place,
            similarity=similarity,
            summary=text,
            symbols=summaries.exported(chunks)[:MAX_SYMBOLS],
            tokens=sum(estimated_tokens(chunk.content) for chunk in chunks),
        )
        for (place, chunks), text, similarity in zip(held.items(), texts, similarities, strict=True)
        if chunks
    ]


def _cosines(texts: Sequence[str], vector: Vector, embedder: Embedder) -> list[float]:
    if not texts:
        return []
    rows = embedder.embed_documents(texts)
    lengths = np.linalg.norm(rows, axis=1) * np.linalg.norm(vector)
    cosines: list[float] = (rows @ vector / np.where(lengths > 0, lengths, 1)).tolist()
    return cosines


def _imports(places: Iterable[FileKey], graph: DependencyGraph | None) -> dict[FileKey, list[str]]:
    """What each file imports, by repository one read."""
    if graph is None:
        return {}
    paths: dict[RepositoryName, list[str]] = {}
    for repository, path in places:
        paths.setdefault(repository, []).append(path)
    return {
        (repository, path): [edge.target for edge in edges]
        for repository, wanted in paths.items()
        for path, edges in graph.outgoing(repository, wanted).items()
    }


def _places(seeds: Sequence[Candidate]) -> list[FileKey]:
    """The files of the candidates, those with the most similar chunk first."""
    best = sorted(seeds, key=lambda seed: (-_similarity(seed), -(seed.keyword_score or 0.0)))
    return list(dict.fromkeys(_place(seed.chunk) for seed in best))[:MAX_FILES_READ]


def _place(chunk: Chunk) -> FileKey:
    return (chunk.repository, chunk.path)


def _similarity(candidate: Candidate) -> float:
    return -1.0 if candidate.similarity is None else candidate.similarity


def _unstaged(state: SearchState, seeds: tuple[Candidate, ...]) -> SearchState:
    return replace(state, candidates=seeds).noticed(NO_VECTOR)


def _none_near(what: str, best: float, least: float, option: str) -> str:
    return (
        f"no {what} is as similar as {least:.2f}, the nearest has {best:.2f}; "
        f"lower options.retrieve.{option}, or search in hybrid mode"
    )


def too_much(files: Sequence[FoundFile]) -> tuple[str, ...]:
    """The warning that the files are more than a language model reads, and what to do."""
    totals = list(accumulate(file.tokens for file in files))
    if not totals or totals[-1] <= MAX_TOKENS:
        return ()
    fitting = max(1, sum(total <= MAX_TOKENS for total in totals))
    return (
        f"{counted(len(files), 'file')} of about {totals[-1]:,} tokens, more than {MAX_TOKENS:,}: "
        f"read the hits, or set options.retrieve.max_files to {fitting}",
    )
