"""Retrieve files by their summaries first, then the chunks inside them.

The files are those of the candidates of a hybrid search. A file is kept if the cosine of its
summary and the query reaches a threshold, and of its chunks those whose own cosine does. The
thresholds apply to cosines and not to fused scores, which are at most 2/61. Unless the request sets
them, they depend on the embedder.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate

import numpy as np

from codelode.counts import counted
from codelode.errors import Unavailable
from codelode.graph import edges_of_files
from codelode.model import Candidate, Chunk, FileKey, HybridQuery, RefName
from codelode.ports import DependencyGraph, Embedder
from codelode.vectors import Vector
from gateway import summaries
from gateway.options import Retrieve
from gateway.retrieve.hybrid import candidates
from gateway.state import Backends, FoundFile, SearchQuery, SearchState, estimated_tokens

#: Maximum number of files whose summaries are compared: those of the best candidates. Chosen by
#: hand.
MAX_FILES_READ = 50

#: Maximum number of tokens of the found files that most language models can read. Chosen by hand.
MAX_TOKENS = 100_000

#: Maximum number of names shown for a file. Chosen by hand.
MAX_SYMBOLS = 50


@dataclass(frozen=True, slots=True)
class Thresholds:
    """The minimum cosines of staged retrieval."""

    file: float
    chunk: float


#: The usual values for transformers.
USUAL = Thresholds(file=0.70, chunk=0.75)

#: Thresholds by the prefix of an embedder's identity. Cosines of different models cannot be
#: compared: a transformer tuned for retrieval gives 0.6 to unrelated texts, a sum of token vectors
#: gives 0.3 to an answer. With the built-in embedder, over 614 annotated queries in source folders,
#: staged retrieval has NDCG@10 .807 without thresholds and .803 with these; 4 % of the relevant
#: files and 18 % of the others are below them. Thresholds of 0.15 lose .02 more, of 0.20 .03, and
#: USUAL .78.
THRESHOLDS = {"codelode-static-": Thresholds(file=0.10, chunk=0.10)}

NO_VECTOR = (
    "staged retrieval needs vectors, and the query could not be embedded: only chunks were searched"
)


async def staged(state: SearchState, vector: Vector | None, backends: Backends) -> SearchState:
    """Add the files found and the candidates inside them."""
    query = state.query
    seeds = await candidates(
        query.text, vector, query=query, analysis=state.analysis, chunks=backends.chunks
    )
    if vector is None:
        return _unstaged(state, seeds)
    held = await backends.chunks.files(_files_of(seeds), query.filters.ref)
    try:
        compared = await _compared(held, vector, query.filters.ref, backends)
        least = await asyncio.to_thread(_thresholds, query.options.retrieve, backends.embedder)
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
    """Return the files that reach the threshold, best first, or a notice why there are none."""
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
    """Return the chunks of the files that reach the threshold, or a notice why there are none."""
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
        alpha=1.0,  # chunks that only keywords find would be dropped below
        with_vectors=query.options.rank.duplicate_similarity < 1,
        visible=query.visible,
    )
    kept_files = {(file.repository, file.path) for file in files}
    # The paths are globs, and several of the repositories may have a file of one path.
    found = [
        one for one in await backends.chunks.hybrid(asked) if _file_of(one.chunk) in kept_files
    ]
    found.sort(key=lambda one: -_similarity(one))
    near = [one for one in found if _similarity(one) >= least]
    if found and not near:
        best = _similarity(found[0])
        return (), (_none_near("chunk of these files", best, least, "chunk_similarity"),)
    return tuple(near[: options.max_chunks]), ()


def _thresholds(options: Retrieve, embedder: Embedder) -> Thresholds:
    """Return the thresholds that the request sets, or those of the embedder."""
    identity = embedder.identity
    own = next((of for start, of in THRESHOLDS.items() if identity.startswith(start)), USUAL)
    file, chunk = options.file_similarity, options.chunk_similarity
    return Thresholds(own.file if file is None else file, own.chunk if chunk is None else chunk)


async def _compared(
    held: Mapping[FileKey, Sequence[Chunk]], vector: Vector, ref: RefName, backends: Backends
) -> list[FoundFile]:
    """Return every file with the cosine of its summary and the query."""
    imports = await asyncio.to_thread(_imports, list(held), ref, backends.graph)
    texts = [
        summaries.of_file(file[1], chunks, imports.get(file, ())) for file, chunks in held.items()
    ]
    similarities = await asyncio.to_thread(_cosines, texts, vector, backends.embedder)
    return [
        FoundFile(
            *file,
            similarity=similarity,
            summary=text,
            symbols=summaries.exported(chunks)[:MAX_SYMBOLS],
            tokens=sum(estimated_tokens(chunk.content) for chunk in chunks),
        )
        for (file, chunks), text, similarity in zip(held.items(), texts, similarities, strict=True)
        if chunks
    ]


def _cosines(texts: Sequence[str], vector: Vector, embedder: Embedder) -> list[float]:
    if not texts:
        return []
    rows = embedder.embed_documents(texts)
    lengths = np.linalg.norm(rows, axis=1) * np.linalg.norm(vector)
    cosines: list[float] = (rows @ vector / np.where(lengths > 0, lengths, 1)).tolist()
    return cosines


def _imports(
    files: Iterable[FileKey], ref: RefName, graph: DependencyGraph | None
) -> dict[FileKey, list[str]]:
    """Return the targets of each file's edges in the graph."""
    if graph is None:
        return {}
    found = edges_of_files(graph.outgoing, ref, files)
    return {file: [edge.target for edge in edges] for file, edges in found.items()}


def _files_of(seeds: Sequence[Candidate]) -> list[FileKey]:
    """Return the files of the candidates, those with the most similar chunk first."""
    best = sorted(seeds, key=lambda seed: (-_similarity(seed), -(seed.keyword_score or 0.0)))
    return list(dict.fromkeys(_file_of(seed.chunk) for seed in best))[:MAX_FILES_READ]


def _file_of(chunk: Chunk) -> FileKey:
    return (chunk.repository, chunk.path)


def _similarity(candidate: Candidate) -> float:
    return -1.0 if candidate.similarity is None else candidate.similarity


def _unstaged(state: SearchState, seeds: tuple[Candidate, ...]) -> SearchState:
    return replace(state, candidates=seeds).noticed(NO_VECTOR)


def _none_near(what: str, best: float, least: float, option: str) -> str:
    return (
        f"no {what} has a similarity of {least:.2f}, the best has {best:.2f}; "
        f"lower options.retrieve.{option}, or search in hybrid mode"
    )


def too_much(files: Sequence[FoundFile]) -> tuple[str, ...]:
    """Return a notice with the remedy if a language model could not read all of the files."""
    totals = list(accumulate(file.tokens for file in files))
    if not totals or totals[-1] <= MAX_TOKENS:
        return ()
    fitting = max(1, sum(total <= MAX_TOKENS for total in totals))
    return (
        f"{counted(len(files), 'file')} of about {totals[-1]:,} tokens, more than {MAX_TOKENS:,}: "
        f"read the hits, or set options.retrieve.max_files to {fitting}",
    )
