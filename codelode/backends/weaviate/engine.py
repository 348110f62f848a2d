"""Open the index in a Weaviate server for reading, writing, and operating on it."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from codelode.access import EVERYTHING
from codelode.backends.engine import PublishedIndex, VectorSpace
from codelode.backends.weaviate import versions
from codelode.backends.weaviate.backup import WeaviateBackup
from codelode.backends.weaviate.connection import Address
from codelode.backends.weaviate.inventory import WeaviateInventory
from codelode.backends.weaviate.schema import TenantIndex
from codelode.backends.weaviate.search import WeaviateChunkSearch
from codelode.backends.weaviate.shadow import WeaviateShadowIndex
from codelode.backends.weaviate.store import WeaviateChunkStore


class WeaviateEngine:
    """Implements `engine.StoreEngine` for the index of one tenant."""

    def __init__(self, address: Address, index: TenantIndex) -> None:
        self._address = address
        self._index = index

    def published(self) -> PublishedIndex:
        name, choice, version = versions.published(self._address, self._index)
        space = VectorSpace(version.embedder, version.dim) if version else None
        return PublishedIndex(name, choice, space)

    def writer(self, space: VectorSpace) -> WeaviateChunkStore:
        return WeaviateChunkStore(
            self._address, self._index, dim=space.dim, identity=space.identity
        )

    def reader(self, space: VectorSpace) -> WeaviateChunkSearch:
        return WeaviateChunkSearch(
            self._address, self._index, dim=space.dim, identity=space.identity
        )

    def check(self, space: VectorSpace) -> None:
        asyncio.run(_count(self.reader(space)))  # the reader checks with its first query

    def inventory(self) -> WeaviateInventory:
        return WeaviateInventory(self._address, self._index)

    def shadow_index(self, space: VectorSpace, choice: Mapping[str, object]) -> WeaviateShadowIndex:
        return WeaviateShadowIndex(
            self._address, self._index, dim=space.dim, identity=space.identity, choice=choice
        )

    def backup(self) -> WeaviateBackup:
        return WeaviateBackup(self._address, self._index)


async def _count(search: WeaviateChunkSearch) -> None:
    try:
        await search.count(EVERYTHING)
    finally:
        await search.close()
