"""What an index holds of a repository, read by a search."""

from __future__ import annotations

import asyncio

import numpy as np

from codelode.backends import connect
from codelode.model import Filters, HybridQuery, RepositoryName


def found_by_vector(cluster, repository):
    """Chunk id → chunk and vector, of what a search by vector finds: the store may hold more."""
    settings = cluster.settings()
    dim = connect.embedder(settings).dim
    filters = Filters(repositories=(RepositoryName(repository),))
    anything = np.full(dim, dim**-0.5, np.float32)
    query = HybridQuery("", anything, filters, limit=10_000, with_vectors=True)

    async def found():
        search = connect.chunk_search(settings)
        try:
            return {hit.chunk.id: (hit.chunk, hit.vector) for hit in await search.hybrid(query)}
        finally:
            await search.close()

    return asyncio.run(found())


def assert_same(found, expected):
    """Of two such readings."""
    assert found.keys() == expected.keys()
    for id, (chunk, vector) in found.items():
        assert chunk == expected[id][0]
        np.testing.assert_allclose(vector, expected[id][1], atol=0.01)  # kept in few bits
