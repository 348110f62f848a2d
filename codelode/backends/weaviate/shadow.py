"""A new collection that is built beside the current one and then takes its place."""

from __future__ import annotations

from collections.abc import Mapping

from weaviate import WeaviateClient

from codelode.backends.weaviate import versions
from codelode.backends.weaviate.connection import Address, connect
from codelode.backends.weaviate.errors import translated
from codelode.backends.weaviate.schema import TenantIndex, Version
from codelode.backends.weaviate.search import FOLLOW_S
from codelode.backends.weaviate.store import WeaviateChunkStore
from codelode.errors import NotIndexed
from codelode.ports import ChunkStore


class WeaviateShadowIndex:
    """Implements `operating.ShadowIndex`. `choice`: the settings that name the embedder."""

    #: Readers keep to the collection that they know for so long, seconds.
    readers_follow_s = FOLLOW_S

    def __init__(
        self,
        address: Address,
        place: TenantIndex,
        *,
        dim: int,
        identity: str,
        choice: Mapping[str, object],
    ) -> None:
        self._address = address
        self._place = place
        self._version = Version(identity, dim)
        self._choice = choice
        self._client: WeaviateClient | None = None

    @property
    def name(self) -> str:
        return self._version.collection(self._place.alias)

    def is_published(self) -> bool:
        return self._current() == self._version

    def replaces(self) -> str:
        current = self._current()
        if current is None:
            raise NotIndexed(
                f"there is no index {self._place.alias} in Weaviate yet: set CODELODE_EMBEDDER "
                "instead"
            )
        return current.embedder

    def exists(self) -> bool:
        with translated():
            return self._connected().collections.exists(self.name) and versions.has_tenant(
                self._connected(), self.name, self._place
            )

    def open(self) -> ChunkStore:
        return WeaviateChunkStore(
            self._address,
            self._place,
            dim=self._version.dim,
            identity=self._version.embedder,
            beside=True,
            choice=self._choice,
        )

    def publish(self) -> None:
        with translated():
            versions.describe(self._connected(), self._place, self._version, self._choice)
            versions.publish(self._connected(), self._place, self._version)

    def others(self) -> list[str]:
        with translated():
            return versions.others(self._connected(), self._place)

    def drop(self, name: str) -> None:
        with translated():
            if name in versions.others(self._connected(), self._place):
                versions.drop(self._connected(), self._place, name)

    def close(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            client.close()

    def _current(self) -> Version | None:
        with translated():
            return versions.current(self._connected(), self._place)

    def _connected(self) -> WeaviateClient:
        if self._client is None:
            self._client = connect(self._address)
        return self._client
