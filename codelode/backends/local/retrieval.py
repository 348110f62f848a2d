"""The two sides of a search: the best rows by words, the nearest ones by vector.

Filters are a mask over the rows. The vectors inside it are compared one by one. The keyword index
is asked without the mask as long as enough of its hits will be inside, because then it can skip
most of what matches; otherwise with those filters that it knows, and with the rows themselves
when they are few.
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from itertools import islice

import numpy as np
import numpy.typing as npt
import simsimd
from tantivy import Query

from codelode.backends import words
from codelode.backends.local import keyword_index, tables
from codelode.backends.local.column_table import ColumnTable, clauses
from codelode.backends.local.dictionary import Mask
from codelode.backends.local.snapshots import Snapshot
from codelode.model import Filters, HybridQuery, Vector

#: Vectors found in 8 bits are compared again in 16; this many times the limit are.
REFINE = 1.1

#: The keyword index is asked for the limit divided by the share of rows inside the filters, and
#: for a quarter more; for less than the least share it is given the filters instead.
LEAST_SHARE = 1 / 8
LEAST_SHARE_IN_CLAUSES = 1 / 32
MARGIN = 1.25

#: When hits inside the filters were too few, the next attempt takes this many times more.
WIDER = 8

#: Below this share of all rows the vectors inside the filters are copied out to be compared.
SPARSE = 1 / 4

#: So many vectors are compared on several cores, which takes 2 ms for 121,000 instead of 4. Fewer
#: are not: the threads wait for each other busily, which costs more on a machine with other work.
MANY = 100_000
THREADS = min(4, os.cpu_count() or 1)

#: Values of which one may stand for all when the largest are looked for.
GROUP = 64

#: By position in the columns.
Scores = dict[int, float]

_Floats = npt.NDArray[np.floating]


def nearest(columns: ColumnTable, vector: Vector, mask: Mask, count: int) -> list[int]:
    """The positions inside the mask whose 8-bit vectors have the largest cosine with the vector,
    best first.
    """
    mask = mask & (columns.scales > 0)
    inside = int(np.count_nonzero(mask))
    if inside == 0:
        return []
    query, found = tables.quantised(vector[None]), np.arange(len(mask))
    if inside < SPARSE * len(mask):
        found = np.flatnonzero(mask)
        cosines = _products(query, columns.vectors[found]) * columns.scales[found]
    else:
        cosines = _products(query, columns.vectors)
        cosines *= columns.scales
        np.copyto(cosines, -np.inf, where=~mask)
    positions: list[int] = found[_largest(cosines, min(count, inside))].tolist()
    return positions


def _products(query: npt.NDArray[np.int8], vectors: npt.NDArray[np.int8]) -> _Floats:
    threads = THREADS if len(vectors) >= MANY else 1
    products: _Floats = np.asarray(simsimd.cdist(query, vectors, "dot", threads=threads))[0]
    return products


def _largest(values: _Floats, count: int) -> npt.NDArray[np.intp]:
    """Where the largest values are, the largest first."""
    among = np.flatnonzero(values >= _below_the_largest(values, count))
    largest = among[np.argpartition(values[among], -count)[-count:]]
    return largest[np.argsort(-values[largest], kind="stable")]


def _below_the_largest(values: _Floats, count: int) -> float:
    """A bound that so many values reach, and not many more: of as many groups the maximum does.
    It saves nine tenths of what it takes to part all values.
    """
    width = len(values) // GROUP
    if width <= count:
        return -math.inf
    maxima = values[: width * GROUP].reshape(GROUP, width).max(axis=0)
    return float(np.partition(maxima, -count)[-count])


def keyword(snapshot: Snapshot, query: HybridQuery, mask: Mask) -> Scores:
    """The best `limit` positions inside the mask and their BM25 scores."""
    terms, inside = words.query_terms(query.text), int(np.count_nonzero(mask))
    if not terms or inside == 0:
        return {}
    asked, share = _limited(snapshot, query.filters, mask, keyword_index.matching(terms))
    depth = query.limit if share >= 1 else math.ceil(query.limit / share * MARGIN)
    while True:
        depth = min(depth, snapshot.searcher.num_docs + 1)  # one more than there are: all of them
        rows, scores = keyword_index.top(snapshot.searcher, asked, depth)
        positions = snapshot.columns.positions(rows)
        found = mask[positions] & (snapshot.columns.rows[positions] == rows)
        if np.count_nonzero(found) >= query.limit or len(rows) < depth:
            best = zip(positions[found].tolist(), scores[found].tolist(), strict=True)
            return dict(islice(best, query.limit))
        depth *= WIDER


def _limited(snapshot: Snapshot, filters: Filters, mask: Mask, query: Query) -> tuple[Query, float]:
    """The query with as much of the filters as pays, and the share of hits that will be inside."""
    columns, inside = snapshot.columns, np.count_nonzero(mask)
    share = float(inside / max(snapshot.searcher.num_docs, 1))
    if share >= LEAST_SHARE:
        return query, share
    limits = clauses(filters)
    share = float(inside / np.count_nonzero(columns.in_clauses(filters)))
    if share >= LEAST_SHARE_IN_CLAUSES:
        return keyword_index.inside(query, limits), share
    return keyword_index.inside(query, {}, rows=columns.rows[mask].tolist()), 1.0


def similarities(near: Mapping[int, bytes], query: HybridQuery) -> Scores:
    """The cosine of each vector and the query's; the best `limit` of them."""
    if query.vector is None or not near:
        return {}
    flat = np.frombuffer(b"".join(near.values()), "<f2").astype(np.float32)
    vectors = flat.reshape(len(near), -1)
    lengths = np.linalg.norm(vectors, axis=1) * np.linalg.norm(query.vector)
    cosines = (vectors @ query.vector / lengths).tolist()
    best = sorted(zip(near, cosines, strict=True), key=lambda item: (-item[1], item[0]))
    return dict(best[: query.limit])
