"""Back up the index in Weaviate with the server's own backup, in the server's own backup folder.

Our backup holds only the name of the server's. A collection may be shared by several organisations:
all of it is saved, and it is never overwritten while others are in it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

from weaviate.backup import BackupStorage
from weaviate.exceptions import UnexpectedStatusCodeError

from codelode.backends.weaviate import versions
from codelode.backends.weaviate.connection import Address, LazyClient
from codelode.backends.weaviate.errors import translated
from codelode.backends.weaviate.schema import SCHEMA_VERSION, TenantIndex, Version, choice_from
from codelode.errors import InvalidSettings, NotFound, NotIndexed, SchemaMismatch

_WHERE = BackupStorage.FILESYSTEM


class WeaviateBackup:
    """Implements `engine.IndexBackup`."""

    def __init__(self, address: Address, index: TenantIndex) -> None:
        self._index = index
        self._client = LazyClient(address)

    def begin(self) -> dict[str, Any]:
        with _translated():
            client = self._client()
            version = versions.current(client, self._index)
            name = versions.target(client, self._index)
            if version is None or name is None:
                raise NotIndexed(f"there is no index {self._index.alias} in Weaviate yet")
            backup = f"codelode-{uuid4().hex}"
            client.backup.create(backup, _WHERE, [name], wait_for_completion=True)
            config = client.collections.use(name).config.get(simple=True)
        return {
            "schema": version.schema,
            "embedder": version.embedder,
            "dim": version.dim,
            "choice": dict(choice_from(config.description)),
            "backup": backup,
            "collection": name,
            "alias": self._index.alias,
        }

    def save(self, folder: Path) -> None:
        """Do nothing: `begin` made the server save the collection."""

    def chunks(self) -> int:
        with _translated():
            client = self._client()
            name = versions.target(client, self._index)
            if name is None or not client.collections.exists(name):
                return 0
            if not versions.has_tenant(client, name, self._index):
                return 0
            objects = client.collections.use(name).with_tenant(self._index.tenant)
            return objects.aggregate.over_all(total_count=True).total_count or 0

    def check(self, facts: Mapping[str, Any]) -> None:
        if facts["schema"] != SCHEMA_VERSION:
            raise SchemaMismatch(
                f"the backup has an index in Weaviate of schema {facts['schema']}, this version "
                f"has {SCHEMA_VERSION}: restore it with the version that made it"
            )
        if facts["alias"] != self._index.alias:
            raise InvalidSettings(
                f"the backup is of CODELODE_WEAVIATE_COLLECTION={facts['alias']}, this command "
                f"runs with {self._index.alias}: set it to the same"
            )
        with _translated():
            found = {one.backup_id.lower() for one in self._client().backup.list_backups(_WHERE)}
            if facts["backup"] not in found:
                raise NotFound(
                    f"Weaviate has no backup {facts['backup']}: put it back into the server's "
                    "BACKUP_FILESYSTEM_PATH"
                )
            self._require_own(str(facts["collection"]))

    def restore(self, folder: Path, facts: Mapping[str, Any]) -> None:
        name = str(facts["collection"])
        with _translated():
            client = self._client()
            if client.collections.exists(name):
                client.collections.delete(name)
            client.backup.restore(str(facts["backup"]), _WHERE, [name], wait_for_completion=True)
            versions.create_intent_log(client, self._index)
            version = Version(str(facts["embedder"]), int(facts["dim"]), int(facts["schema"]))
            versions.publish(client, self._index, version)

    def close(self) -> None:
        self._client.close()

    def _require_own(self, name: str) -> None:
        """Raise InvalidSettings when another organisation would lose its objects."""
        client = self._client()
        if client.collections.exists(name):
            tenants = set(client.collections.use(name).tenants.get()) - {self._index.tenant}
            if tenants:
                raise InvalidSettings(
                    f"other organisations are in {name} ({len(tenants)}), which Weaviate can only "
                    "restore as a whole: restore to another server"
                )


@contextmanager
def _translated() -> Iterator[None]:
    """Translate errors, and name the server's setting when its backup module is off."""
    with translated():
        try:
            yield
        except UnexpectedStatusCodeError as exc:
            if "no backup backend" not in str(exc):
                raise
            raise InvalidSettings(
                "Weaviate runs without its module for backups: set ENABLE_MODULES="
                "backup-filesystem and BACKUP_FILESYSTEM_PATH for the server"
            ) from exc
