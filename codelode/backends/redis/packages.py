"""The package index in Redis: one table over all repositories, replaced per repository."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import cast

import redis

from codelode.backends.redis import keys, scripts
from codelode.backends.redis.connection import translated
from codelode.model import RepositoryName
from codelode.ports import PublishedPackages


class RedisPackageIndex:
    """Implements the port PackageIndex."""

    def __init__(self, client: redis.Redis, *, prefix: str = "codelode:") -> None:
        self._client = client
        self._base = f"{prefix}packages:{{all}}"
        self._publish = scripts.Bulk(client, scripts.load("packages.lua")["publish"])

    def publish(self, repository: RepositoryName, packages: PublishedPackages) -> None:
        said = {
            "keys": dict(sorted(packages.keys.items())),
            "fingerprints": dict(sorted(packages.fingerprints.items())),
        }
        listed = [keys.encode(part) for pair in said["keys"].items() for part in pair]
        value = json.dumps(said).encode()
        with translated():
            self._publish([(self._base, [keys.encode(repository), value, *listed])])

    def published_by(self, repository: RepositoryName) -> PublishedPackages:
        with translated():
            value = self._client.hget(f"{self._base}:of", cast("str", keys.encode(repository)))
        said = json.loads(cast("bytes", value)) if value else {"keys": {}, "fingerprints": {}}
        return PublishedPackages(said["keys"], said["fingerprints"])

    def publishers(
        self, keys_: Sequence[str]
    ) -> Mapping[str, tuple[tuple[RepositoryName, str], ...]]:
        if not keys_:
            return {}
        with translated():
            values = cast(
                "list[bytes | None]",
                self._client.hmget(f"{self._base}:by", [keys.encode(key) for key in keys_]),
            )
        return {
            key: tuple(sorted((RepositoryName(name), at) for name, at in json.loads(value).items()))
            for key, value in zip(keys_, values, strict=True)
            if value
        }

    def remove_repository(self, repository: RepositoryName) -> None:
        with translated():
            self._publish([(self._base, [keys.encode(repository), b""])])
