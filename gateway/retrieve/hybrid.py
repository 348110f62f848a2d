"""Retrieve the keyword and vector candidates of one text.

Synonyms are searched by keywords alone and scored separately, so that they count less than the
words of the query: a chunk that only a synonym found never has a higher keyword score than a chunk
that contains a word of the query.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from codelode.errors import Unavailable
from codelode.model import Candidate, HybridQuery
from codelode.ports import ChunkSearch, Embedder, QuickEmbedder
from codelode.vectors import Vector
from gateway.options import Retrieve
from gateway.state import Analysis, SearchQuery

KEYWORDS_ONLY = "the query could not be embedded: ranked by keywords alone"

#: Weight of a synonym's score relative to that of a word of the query. Chosen by hand.
SYNONYM_WEIGHT = 0.3

#: Window and number of candidates of a query that asks how something works, with the default
#: options and no filter by path. They gained .0053 NDCG@10 in whole repositories and .0048 in all
#: repositories together. They lost .0008 below a path, and .0052 for the engineers' questions that
#: ask who or where (docs/ranking.md).
HOW = Retrieve(window=200, max_chunks=115)

#: If, because of copies, the number of different texts is below MIN_DISTINCT of the limit, the
#: candidates are retrieved again with WIDENING times the limits, up to MAX_WINDOW results of each
#: kind. Chosen by hand.
WIDENING = 4
MIN_DISTINCT = 0.5
MAX_WINDOW = 1_600

#: Maximum score that synonyms add, as a share of the lowest score of the query's own words. Chosen
#: by hand.
SYNONYM_SHARE = 0.5


async def embed(text: str, embedder: Embedder) -> tuple[Vector | None, tuple[str, ...]]:
    """Return the query's vector; None if it has no words to embed or the embedder does not answer.

    An embedder that is faster than the start of a call in a thread (0.4 ms) runs in this thread.
    """
    vector = embedder.embed_at_once(text) if isinstance(embedder, QuickEmbedder) else None
    if vector is None:
        try:
            vector = await asyncio.to_thread(embedder.embed_query, text)
        except Unavailable:
            return None, (KEYWORDS_ONLY,)
    return (vector if vector.any() else None), ()


async def candidates(
    text: str,
    vector: Vector | None,
    *,
    query: SearchQuery,
    analysis: Analysis,
    chunks: ChunkSearch,
) -> tuple[Candidate, ...]:
    """Return the keyword and vector candidates of the text, inside the query's filters."""
    options = query.options
    limits = _limits(query, analysis)
    synonyms = analysis.synonyms
    asked = HybridQuery(
        text=text,
        vector=vector,
        filters=query.filters,
        limit=max(limits.window, query.top_k),
        alpha=analysis.alpha(options.retrieve.alpha),
        with_vectors=options.rank.duplicate_similarity < 1,
        total_limit=max(limits.max_chunks, query.top_k),
        secondary=analysis.unasked,
        visible=query.visible,
    )
    retrieve = chunks.hybrid if not options.rank.collapse_copies else partial(_varied, chunks)
    if not synonyms:
        return tuple(await retrieve(asked))
    wider = replace(asked, text=" ".join(synonyms), vector=None)
    found, others = await asyncio.gather(retrieve(asked), chunks.hybrid(wider))
    return widened(found, others)


def _limits(query: SearchQuery, analysis: Analysis) -> Retrieve:
    """Return the options with the window and the number of candidates of this query."""
    given = query.options.retrieve
    is_wide = analysis.asks_how and given == Retrieve() and not query.filters.paths
    return HOW if is_wide else given


async def _varied(chunks: ChunkSearch, asked: HybridQuery) -> Sequence[Candidate]:
    """Return the candidates; more if copies in other repositories fill the limit."""
    total = asked.total_limit or asked.limit
    wanted = MIN_DISTINCT * total
    while True:
        found = await chunks.hybrid(asked)
        is_all = len(found) < total or asked.limit * WIDENING > MAX_WINDOW
        if is_all or _texts(found) >= wanted:
            return found
        total *= WIDENING
        asked = replace(asked, limit=asked.limit * WIDENING, total_limit=total)


def _texts(found: Sequence[Candidate]) -> int:
    """Return the number of different texts; if all are of one repository, that of chunks."""
    if len({candidate.chunk.repository for candidate in found}) < 2:
        return len(found)
    return len({candidate.chunk.content for candidate in found})


def widened(found: Sequence[Candidate], others: Sequence[Candidate]) -> tuple[Candidate, ...]:
    """Add the candidates of the synonyms, with scores below those of the query's own words."""
    own = [candidate.keyword_score for candidate in found if candidate.keyword_score]
    most = SYNONYM_SHARE * min(own) if own else float("inf")
    added = {
        other.chunk.id: min(SYNONYM_WEIGHT * (other.keyword_score or 0.0), most) for other in others
    }
    known = {candidate.chunk.id for candidate in found}
    return (
        *(_raised(candidate, added.get(candidate.chunk.id)) for candidate in found),
        *(
            other._replace(keyword_score=added[other.chunk.id])
            for other in others
            if other.chunk.id not in known
        ),
    )


def _raised(candidate: Candidate, by: float | None) -> Candidate:
    if by is None:
        return candidate
    return candidate._replace(keyword_score=(candidate.keyword_score or 0.0) + by)
