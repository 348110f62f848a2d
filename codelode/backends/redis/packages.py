"""The package index in Redis: one table over all repositories, replaced per repository and ref."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import cast

import redis

from codelode.backends.redis import keys, scripts, versions
from codelode.backends.redis.connection import translated
from codelode.model import DEFAULT_REF, RefName, RepositoryName
from codelode.ports import PublishedPackages


class RedisPackageIndex:
    """Implements the port PackageIndex."""

    def __init__(self, client: redis.Redis, *, prefix: str = "codelode:") -> None:
        self._client = client
        self._base = f"{prefix}packages:{{all}}"
        sources = scripts.load("packages.lua")
        self._publish = scripts.Bulk(client, sources["publish"])
        self._withdraw = client.register_script(sources["withdraw"])
        self._remove = client.register_script(sources["remove"])

    def publish(
        self, repository: RepositoryName, refs: Sequence[RefName], packages: PublishedPackages
    ) -> None:
        said = {
            "keys": dict(sorted(packages.keys.items())),
            "fingerprints": dict(sorted(packages.fingerprints.items())),
        }
        listed = [keys.encode(part) for pair in said["keys"].items() for part in pair]
        value = json.dumps(said).encode()
        with translated():
            self._publish([(self._base, [_field(repository, ref), value, *listed]) for ref in refs])

    def published_by(self, repository: RepositoryName, ref: RefName) -> PublishedPackages:
        with translated():
            value = self._client.hget(f"{self._base}:of", cast("str", _field(repository, ref)))
        return _packages(cast("bytes", value) or b'{"keys": {}, "fingerprints": {}}')

    def published_by_all(
        self, repositories: Sequence[RepositoryName]
    ) -> Mapping[RepositoryName, PublishedPackages]:
        found: dict[RepositoryName, PublishedPackages] = {}
        for some in versions.batches(repositories):
            with translated():
                values = cast(
                    "list[bytes | None]",
                    self._client.hmget(
                        f"{self._base}:of",
                        cast("list[str]", [_field(one, DEFAULT_REF) for one in some]),
                    ),
                )
            said = zip(some, values, strict=True)
            found.update((name, _packages(value)) for name, value in said if value)
        return {name: one for name, one in found.items() if one.keys}

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

    def remove_ref(self, repository: RepositoryName, ref: RefName) -> None:
        with translated():
            self._withdraw(keys=[self._base], args=[_field(repository, ref)])

    def remove_repository(self, repository: RepositoryName) -> None:
        with translated():
            self._remove(keys=[self._base], args=[keys.encode(repository)])


def _packages(value: bytes) -> PublishedPackages:
    said = json.loads(value)
    return PublishedPackages(said["keys"], said["fingerprints"])


def repository_of(field: bytes) -> RepositoryName:
    """Return the repository that a field of the hash `:of` belongs to."""
    return RepositoryName(keys.decode(field.partition(b"\0")[0]))


def _field(repository: RepositoryName, ref: RefName) -> bytes:
    return keys.encode(repository if ref == DEFAULT_REF else f"{repository}\0{ref}")
