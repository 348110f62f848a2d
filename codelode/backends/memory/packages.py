"""The package index in a dictionary."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from codelode.model import RepositoryName
from codelode.ports import PublishedPackages


class MemoryPackageIndex:
    """Implements the port PackageIndex."""

    def __init__(self) -> None:
        self._of: dict[RepositoryName, PublishedPackages] = {}

    def publish(self, repository: RepositoryName, packages: PublishedPackages) -> None:
        self._of[repository] = packages

    def published_by(self, repository: RepositoryName) -> PublishedPackages:
        return self._of.get(repository, PublishedPackages({}, {}))

    def publishers(
        self, keys: Sequence[str]
    ) -> Mapping[str, tuple[tuple[RepositoryName, str], ...]]:
        found: dict[str, tuple[tuple[RepositoryName, str], ...]] = {}
        for key in keys:
            published = sorted(
                (name, said.keys[key]) for name, said in list(self._of.items()) if key in said.keys
            )
            if published:
                found[key] = tuple(published)
        return found

    def remove_repository(self, repository: RepositoryName) -> None:
        self._of.pop(repository, None)
