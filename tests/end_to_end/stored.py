"""Everything that is stored of a repository, read through every port that can list a part of it."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from codelode.access import EVERYTHING
from codelode.backends import registry
from codelode.backends.redis.graph import RedisGraph
from codelode.backends.redis.ledger import RedisLedger
from codelode.backends.redis.packages import RedisPackageIndex
from codelode.backends.redis.references import RedisReferences
from codelode.backends.redis.symbols import RedisSymbols
from codelode.backends.redis.table_inventory import RedisTableInventory
from codelode.model import (
    DEFAULT_REF,
    Chunk,
    ChunkId,
    Edge,
    FileRecord,
    Filters,
    HybridQuery,
    LocatedSymbol,
    RepositoryName,
)
from codelode.vectors import Vector
from tests.waiting import answered

#: Maximum number of chunks in one search by vector, which is how vectors are read.
MOST_CHUNKS = 10_000

#: Maximum difference of two vectors of one text; stores round them to a few bits.
ROUNDING = 0.01


class Stored(NamedTuple):
    """Everything that was read. Symbols and names were read by file and, separately, by name."""

    ids: frozenset[ChunkId]  # as the write side lists the chunks
    chunks: frozenset[Chunk]
    outgoing: frozenset[Edge]
    incoming: frozenset[Edge]
    symbols: frozenset[LocatedSymbol]
    symbols_by_name: frozenset[LocatedSymbol]
    names: frozenset[tuple[str, str]]
    names_by_name: frozenset[tuple[str, str]]
    published: frozenset[tuple[str, str]]  # packages for other repositories; few have manifests
    records: frozenset[FileRecord]
    vectors: Mapping[ChunkId, Vector]  # of chunks that have words


def read(cluster, repository):
    """Return what the cluster's stores have of the repository at its default ref."""
    settings, name = cluster.settings(), RepositoryName(repository)
    model = registry.embedder(settings)
    with cluster.redis() as redis:
        ledger = RedisLedger(redis)
        (status,) = ledger.refs(name)
        records = frozenset(ledger.all(name, status.ref))
        # Includes files that only a table knows.
        paths = sorted(
            {record.path for record in records}
            | frozenset().union(*RedisTableInventory(redis).paths(name).values())
        )
        tables = (
            *_edges(RedisGraph(redis), name, paths),
            *_symbols(RedisSymbols(redis), name, paths),
            *_names(RedisReferences(redis), name, paths),
            _published(RedisPackageIndex(redis), name),
        )
    search = registry.chunk_search(settings, model)
    chunks, vectors = asyncio.run(_found(search, model, name, paths))
    ids = _ids(settings, model, name)
    # The types do not have the lengths of the tuples.
    return Stored(ids, chunks, *tables, records, vectors)  # type: ignore[call-arg]


def assert_same(found, expected):
    """Check that both are equal, and that no expected part is empty, which would prove nothing."""
    assert all(expected._replace(published=True))
    apart = differences(found, expected)
    assert not apart, apart
    assert found.vectors.keys() == expected.vectors.keys()
    for id, vector in found.vectors.items():
        np.testing.assert_allclose(vector, expected.vectors[id], atol=ROUNDING)


def differences(found, expected):
    """Return what only one of them has, by part."""
    parts = [part for part in Stored._fields if part != "vectors"]
    apart = {part: getattr(found, part) ^ getattr(expected, part) for part in parts}
    return {part: some for part, some in apart.items() if some}


def _ids(settings, model, name):
    store = registry.chunk_store(settings, model)
    try:
        return frozenset(store.ids(name, DEFAULT_REF))
    finally:
        store.close()


async def _found(search, model, name, paths):
    """Return the chunks of the files, and the vectors by chunk id."""
    anything = np.full(model.dim, model.dim**-0.5, np.float32)
    query = HybridQuery(
        "",
        anything,
        Filters(repositories=(name,)),
        limit=MOST_CHUNKS,
        with_vectors=True,
        visible=EVERYTHING,
    )
    try:
        held = await answered(lambda: search.files([(name, path) for path in paths], DEFAULT_REF))
        near = await answered(lambda: search.hybrid(query))
    finally:
        await search.close()
    vectors = {hit.chunk.id: hit.vector for hit in near if hit.vector is not None}
    return frozenset(chunk for some in held.values() for chunk in some), vectors


def _edges(graph, name, paths):
    return _all(graph.outgoing(name, DEFAULT_REF, paths)), _all(
        graph.incoming(name, DEFAULT_REF, paths)
    )


def _symbols(table, name, paths):
    defined = _all(table.defined_in(name, DEFAULT_REF, paths))
    names = sorted({at.symbol.name for at in defined})
    return defined, _all(table.lookup_all(names, repository=name, ref=DEFAULT_REF))


def _names(index, name, paths):
    used = frozenset(
        (path, text)
        for path, some in index.names(name, DEFAULT_REF, paths).items()
        for text in some
    )
    files = index.files(name, DEFAULT_REF, sorted({text for _, text in used}))
    return used, frozenset((path, text) for text, some in files.items() for path in some)


def _published(packages, name):
    """Return the packages, without fingerprints, which a death may invalidate for a while."""
    return frozenset(packages.published_by(name, DEFAULT_REF).keys.items())


def _all(by_key):
    return frozenset(one for some in by_key.values() for one in some)
