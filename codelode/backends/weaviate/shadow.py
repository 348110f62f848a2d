"""A shadow index: a new collection, built while the current one is in use, then swapped in."""

from __future__ import annotations

from collections.abc import Mapping

from codelode.backends.weaviate import versions
from codelode.backends.weaviate.connection import Address, LazyClient
from codelode.backends.weaviate.errors import translated
from codelode.backends.weaviate.schema import TenantIndex, Version
from codelode.backends.weaviate.search import FOLLOW_S
from codelode.backends.weaviate.store import WeaviateChunkStore
from codelode.errors import NotIndexed
from codelode.ports import ChunkStore


class WeaviateShadowIndex:
    """Implements `engine.ShadowIndex`. `choice` has the settings that select the embedder."""

    #: How long readers may use the old collection after the swap, seconds.
    readers_follow_s = FOLLOW_S

    def __init__(
        self,
        address: Address,
        index: TenantIndex,
        *,
        dim: int,
        identity: str,
        choice: Mapping[str, object],
    ) -> None:
        self._address = address
        self._index = index
        self._version = Version(identity, dim)
        self._choice = choice
        self._client = LazyClient(address)

    @property
    def name(self) -> str:
        return self._version.collection(self._index.alias)

    def is_published(self) -> bool:
        return self._current() == self._version

    def replaces(self) -> str:
        current = self._current()
        if current is None:
            raise NotIndexed(
                f"there is no index {self._index.alias} in Weaviate yet: set CODELODE_EMBEDDER "
                "instead"
            )
        return current.embedder

    def exists(self) -> bool:
        with translated():
            return self._client().collections.exists(self.name) and versions.has_tenant(
                self._client(), self.name, self._index
            )

    def open(self) -> ChunkStore:
        return WeaviateChunkStore(
            self._address,
            self._index,
            dim=self._version.dim,
            identity=self._version.embedder,
            is_shadow=True,
            choice=self._choice,
        )

    def publish(self) -> None:
        with translated():
            versions.describe(self._client(), self._index, self._version, self._choice)
            versions.publish(self._client(), self._index, self._version)

    def others(self) -> list[str]:
        with translated():
            return versions.others(self._client(), self._index)

    def drop(self, name: str) -> None:
        with translated():
            if name in versions.others(self._client(), self._index):
                versions.drop(self._client(), self._index, name)

    def close(self) -> None:
        self._client.close()

    def _current(self) -> Version | None:
        with translated():
            return versions.current(self._client(), self._index)
