"""An index in Weaviate by the server's own backup, which it keeps in its own backup folder.

All that is kept beside the rest is the backup's name. A collection may be shared by several
organisations: all of it is saved, and none of it is overwritten while others are in it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

from weaviate import WeaviateClient
from weaviate.backup import BackupStorage
from weaviate.exceptions import UnexpectedStatusCodeError

from codelode.backends.weaviate import intent_log, versions
from codelode.backends.weaviate.connection import Address, connect
from codelode.backends.weaviate.errors import translated
from codelode.backends.weaviate.schema import SCHEMA_VERSION, TenantIndex, Version, choice_from
from codelode.errors import InvalidSettings, NotFound, NotIndexed, SchemaMismatch

_WHERE = BackupStorage.FILESYSTEM


class WeaviateBackup:
    """Implements `operating.IndexBackup`."""

    def __init__(self, address: Address, place: TenantIndex) -> None:
        self._address = address
        self._place = place
        self._client: WeaviateClient | None = None

    def begin(self) -> dict[str, Any]:
        with _translated():
            client = self._connected()
            version = versions.current(client, self._place)
            name = versions.target(client, self._place)
            if version is None or name is None:
                raise NotIndexed(f"there is no index {self._place.alias} in Weaviate yet")
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
            "alias": self._place.alias,
        }

    def save(self, folder: Path) -> None:
        """The server has done it."""

    def chunks(self) -> int:
        with _translated():
            client = self._connected()
            name = versions.target(client, self._place)
            if name is None or not client.collections.exists(name):
                return 0
            if not versions.has_tenant(client, name, self._place):
                return 0
            objects = client.collections.use(name).with_tenant(self._place.tenant)
            return objects.aggregate.over_all(total_count=True).total_count or 0

    def check(self, facts: Mapping[str, Any]) -> None:
        if facts["schema"] != SCHEMA_VERSION:
            raise SchemaMismatch(
                f"the backup has an index in Weaviate of schema {facts['schema']}, this version "
                f"has {SCHEMA_VERSION}: restore it with the version that made it"
            )
        if facts["alias"] != self._place.alias:
            raise InvalidSettings(
                f"the backup is of CODELODE_WEAVIATE_COLLECTION={facts['alias']}, this command "
                f"runs with {self._place.alias}: set it to the same"
            )
        with _translated():
            found = {one.backup_id.lower() for one in self._connected().backup.list_backups(_WHERE)}
            if facts["backup"] not in found:
                raise NotFound(
                    f"Weaviate has no backup {facts['backup']}: put it back into the server's "
                    "BACKUP_FILESYSTEM_PATH"
                )
            self._require_own(str(facts["collection"]))

    def restore(self, folder: Path, facts: Mapping[str, Any]) -> None:
        name = str(facts["collection"])
        with _translated():
            client = self._connected()
            if client.collections.exists(name):
                client.collections.delete(name)
            client.backup.restore(str(facts["backup"]), _WHERE, [name], wait_for_completion=True)
            notes = intent_log.name(self._place)
            if not client.collections.exists(notes):
                client.collections.create(notes, **intent_log.definition(self._place))
            version = Version(str(facts["embedder"]), int(facts["dim"]), int(facts["schema"]))
            versions.publish(client, self._place, version)

    def close(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            client.close()

    def _require_own(self, name: str) -> None:
        """Raise InvalidSettings when another organisation would lose what it has."""
        client = self._connected()
        if client.collections.exists(name):
            tenants = set(client.collections.use(name).tenants.get()) - {self._place.tenant}
            if tenants:
                raise InvalidSettings(
                    f"other organisations are in {name} ({len(tenants)}), which Weaviate can only "
                    "restore as a whole: restore to another server"
                )

    def _connected(self) -> WeaviateClient:
        if self._client is None:
            self._client = connect(self._address)
        return self._client


@contextmanager
def _translated() -> Iterator[None]:
    """As everywhere, but for what an operator has to switch on."""
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
