"""Retrieve the best rows by keywords, the nearest rows by vector, and files by trigrams.

Filters are a mask over the rows. Vectors are compared one by one, inside the mask only; of many,
only those that are probably near (`coarse_vectors`) and those that are too new for this. The
keyword index is queried without filters as long as enough of its hits are expected inside the mask,
because its own filters take longer than a few more hits; otherwise with the filters that it has as
fields, or with the row numbers themselves where that costs less than dropping the hits outside of
the mask.
The text of a file is read from the database, its refs and language from the columns.
"""

from __future__ import annotations

import math
import os
import sqlite3
from collections import defaultdict
from collections.abc import Mapping, Sequence
from itertools import islice
from operator import itemgetter

import numpy as np
import numpy.typing as npt
import simsimd
from tantivy import Query

from codelode import deadline
from codelode.backends import words
from codelode.backends.local import keyword_index, tables
from codelode.backends.local.column_table import ColumnTable, at_positions, clauses
from codelode.backends.local.dictionary import Mask
from codelode.backends.local.snapshots import Snapshot
from codelode.backends.local.tables import Piece
from codelode.file_text import raw_text
from codelode.grams import NOTHING, Grams
from codelode.model import (
    FileKey,
    FileQuery,
    FileText,
    HybridQuery,
    RefName,
    RepositoryName,
)
from codelode.vectors import Vector

#: Number of vectors found with 8 bits that are compared again with 16, relative to the limit.
REFINE = 1.1

#: The keyword index is asked for the limit divided by the share of rows inside the filters, times
#: the margin. Below this share, the clauses are added to the query.
MIN_SHARE = 1 / 8
MARGIN = 1.25

#: The time for a row number in a query, relative to that for a hit: 9 and 0.4 µs in a million rows.
ROW_COST = 20

#: Clauses of more values than this cost 2 ms, so they pay only below a lower share. With 1,000 of
#: 10,000 repositories visible a search takes 4.8 ms of processor time without clauses, 6.7 with.
MANY_VALUES = 500
MIN_SHARE_OF_MANY = 1 / 16

#: If too few hits are inside the filters, the next query asks for more hits by this factor.
WIDENING = 8

#: If less than this fraction of the rows is inside the filters, only their vectors are compared.
SPARSE = 1 / 4

#: Number of vectors that are found by their codes and compared again with 8 bits, relative to the
#: number that is wanted, and its minimum inside the filters. Of the 72 nearest of 109,000 vectors,
#: 0.01 % are missing, and 0.07 % with 7 instead of 15. Comparing more than the last fraction of all
#: would take longer than comparing all.
COARSE = 15
MIN_COARSE = 5
MAX_COARSE = 1 / 8

#: Minimum number of vectors for which several threads are used. One thread compares 121,000 in
#: 1.5 ms. Several would save no time there, because words are looked up on another core meanwhile.
MANY = 500_000
THREADS = min(4, os.cpu_count() or 1)

#: Maximum number of repositories that are searched one by one, which takes 0.05 ms each if few of
#: their chunks have the trigrams; the results are cached for the next files. More repositories are
#: searched together, which takes 0.5 ms.
MANY_REPOSITORIES = 8

#: Values per group; only the maximum of each group is compared to find a bound on the largest ones.
GROUP = 64

#: The key by which the pieces of files are ordered.
_IN_ORDER = itemgetter(2, 1)

#: The number of the file for pieces that are not at the ref.
_NO_FILE = -1

#: Scores by position in the columns.
Scores = dict[int, float]

_Floats = npt.NDArray[np.floating]


def nearest(columns: ColumnTable, vector: Vector, mask: Mask, count: int) -> list[int]:
    """Return the positions inside the mask with the largest 8-bit cosines, best first."""
    mask = mask & (columns.scales > 0)
    inside = int(np.count_nonzero(mask))
    if inside == 0:
        return []
    query = tables.quantised(vector[None])
    found = _worth_comparing(columns, vector, mask, count)
    if found is not None:
        cosines = _products(query, at_positions(columns.vectors, found)) * columns.scales[found]
        nearest = found[_largest(cosines, min(count, len(found)))]
    else:
        cosines = _products(query, columns.vectors) * columns.scales
        if inside < len(mask):
            np.copyto(cosines, -np.inf, where=~mask)
        nearest = _largest(cosines, min(count, inside))
    positions: list[int] = nearest.tolist()
    return positions


def _worth_comparing(
    columns: ColumnTable, vector: Vector, mask: Mask, count: int
) -> npt.NDArray[np.intp] | None:
    """Return the positions inside the mask that may be among the nearest, ascending; None: all.

    If the codes find few inside the mask, its vectors are less near than others, and are compared
    one by one.
    """
    share = float(np.count_nonzero(mask) / len(mask))
    if share < SPARSE:
        return np.flatnonzero(mask)
    wanted = math.ceil(COARSE * count / share)
    if columns.coarse is None or wanted > MAX_COARSE * len(mask):
        return None
    near = columns.coarse.near(vector, wanted)
    near = near[mask[near]]
    if len(near) < MIN_COARSE * count:
        return None
    later = np.flatnonzero(mask[len(columns.coarse) :]) + len(columns.coarse)
    return np.concatenate([near, later])


def _products(
    query: npt.NDArray[np.int8], parts: Sequence[npt.NDArray[np.int8]]
) -> npt.NDArray[np.float32]:
    """Return the products with all vectors of the parts, which are exact in 32 bits."""
    products = [_dot(query, part) for part in parts if len(part)]
    return products[0] if len(products) == 1 else np.concatenate(products)


def _dot(query: npt.NDArray[np.int8], vectors: npt.NDArray[np.int8]) -> npt.NDArray[np.float32]:
    # Not with `out`: simsimd 6.5 then returns None without counting the reference.
    threads = THREADS if len(vectors) >= MANY else 1
    made = simsimd.cdist(query, vectors, "dot", threads=threads, out_dtype="float32")
    products: npt.NDArray[np.float32] = np.asarray(made, np.float32)[0]
    return products


def _largest(values: _Floats, count: int) -> npt.NDArray[np.intp]:
    """Return the positions of the largest values, the largest first."""
    among = np.flatnonzero(values >= _lower_bound(values, count))
    largest = among[np.argpartition(values[among], -count)[-count:]]
    return largest[np.argsort(-values[largest], kind="stable")]


def _lower_bound(values: _Floats, count: int) -> float:
    """Return a lower bound on the `count`-th largest value: the `count`-th largest group maximum.

    Few more values reach it. Selecting among them takes a tenth of the time of selecting among all
    values.
    """
    width = len(values) // GROUP
    if width <= count:
        return -math.inf
    maxima = values[: width * GROUP].reshape(GROUP, width).max(axis=0)
    return float(np.partition(maxima, -count)[-count])


def keyword(snapshot: Snapshot, query: HybridQuery, mask: Mask) -> Scores:
    """Return the best `limit` positions inside the mask with their BM25 scores."""
    terms, inside = words.query_terms(query.text), int(np.count_nonzero(mask))
    if not terms or inside == 0:
        return {}
    wanted = keyword_index.matching(terms)
    limited, share = _limited(snapshot, query, mask, wanted)
    depth = query.limit if share >= 1 else math.ceil(query.limit / share * MARGIN)
    while True:
        deadline.check()
        depth = min(depth, snapshot.searcher.num_docs + 1)  # more than all
        if depth > query.limit + inside * ROW_COST:
            inner = snapshot.columns.rows[mask].tolist()
            limited, depth = keyword_index.inside(wanted, {}, rows=inner), query.limit
        rows, scores = keyword_index.top(snapshot.searcher, limited, depth)
        positions = snapshot.columns.positions(rows)
        found = mask[positions] & (snapshot.columns.rows[positions] == rows)
        if np.count_nonzero(found) >= query.limit or len(rows) < depth:
            best = zip(positions[found].tolist(), scores[found].tolist(), strict=True)
            return dict(islice(best, query.limit))
        depth *= WIDENING


def _limited(
    snapshot: Snapshot, asked: HybridQuery, mask: Mask, query: Query
) -> tuple[Query, float]:
    """Add the clauses of the filters if they pay; return the query and the share inside."""
    columns, inside = snapshot.columns, np.count_nonzero(mask)
    share = float(inside / max(snapshot.searcher.num_docs, 1))
    limits = clauses(asked.filters, asked.visible)
    has_many = any(len(values) > MANY_VALUES for values in limits.values())
    if share >= (MIN_SHARE_OF_MANY if has_many else MIN_SHARE):
        return query, share
    in_clauses = columns.visible(columns.in_clauses(asked.filters), asked.visible)
    share = float(inside / np.count_nonzero(in_clauses))
    return keyword_index.inside(query, limits), share


def files(snapshot: Snapshot, query: FileQuery) -> list[FileKey]:
    """Return the files inside the filters that have the trigrams of the query, in order."""
    columns = snapshot.columns
    mask = columns.inside(query.filters, query.visible)
    if query.grams == NOTHING or not len(columns.rows):
        inside = np.flatnonzero(mask)
    else:
        rows = keyword_index.holding(snapshot.searcher, query.grams)
        positions = columns.positions(rows)
        inside = positions[mask[positions] & (columns.rows[positions] == rows)]
    deadline.check()
    return columns.places(inside)


def texts(
    connection: sqlite3.Connection,
    snapshot: Snapshot,
    places: Sequence[FileKey],
    ref: RefName,
    needed: Grams,
) -> dict[FileKey, FileText]:
    """Return the text of each file at the ref; unknown files are left out.

    Files and parts of files that cannot have a line with the needed trigrams are left out too.
    """
    columns = snapshot.columns
    if needed == NOTHING:
        pieces = tables.pieces_of_files(connection, places)
    else:
        pieces = _pieces_holding(connection, snapshot, places, ref, needed)
    pieces.sort(key=_IN_ORDER)
    positions = columns.positions(np.array([row for row, *_ in pieces], np.int64))
    files = np.where(columns.at_ref(ref)[positions], columns.files_at(positions), _NO_FILE)
    of_file: defaultdict[int, list[Piece]] = defaultdict(list)
    for file, piece in zip(files.tolist(), pieces, strict=True):
        of_file[file].append(piece)
    of_file.pop(_NO_FILE, None)
    rows = np.array([held[0][0] for held in of_file.values()], np.int64)
    repositories, paths, languages = (
        columns.texts_at(name, columns.positions(rows).tolist())
        for name in ("repositories", "paths", "languages")
    )
    return {
        (RepositoryName(repository), path): FileText(language, raw_text([one[2:] for one in held]))
        for held, repository, path, language in zip(
            of_file.values(), repositories, paths, languages, strict=True
        )
    }


def _pieces_holding(
    connection: sqlite3.Connection,
    snapshot: Snapshot,
    places: Sequence[FileKey],
    ref: RefName,
    needed: Grams,
) -> list[Piece]:
    """Return the pieces with the trigrams, and all pieces of files where pieces share lines."""
    columns, files = snapshot.columns, snapshot.columns.numbered(places)
    is_at_ref = columns.at_ref(ref)
    sharing = snapshot.sharing_lines().among(files)
    numbers = columns.files_at(sharing[is_at_ref[sharing]])
    whole = [files.pop(number) for number in set(numbers.tolist())]
    repositories = sorted({repository for repository, _ in places})
    is_many = len(repositories) > MANY_REPOSITORIES
    groups = [tuple(repositories)] if is_many else [(one,) for one in repositories]
    found = np.concatenate(
        [snapshot.chunks_holding(needed, group).among(files) for group in groups]
    )
    pieces = tables.pieces(connection, columns.rows[found[is_at_ref[found]]].tolist())
    return pieces + tables.pieces_of_files(connection, whole)


def similarities(near: Mapping[int, bytes], query: HybridQuery) -> Scores:
    """Return the exact cosines with the query's vector, the best `limit` of them."""
    if query.vector is None or not near:
        return {}
    flat = np.frombuffer(b"".join(near.values()), "<f2").astype(np.float32)
    vectors = flat.reshape(len(near), -1)
    lengths = np.linalg.norm(vectors, axis=1) * np.linalg.norm(query.vector)
    cosines = (vectors @ query.vector / lengths).tolist()
    best = sorted(zip(near, cosines, strict=True), key=lambda item: (-item[1], item[0]))
    return dict(best[: query.limit])
