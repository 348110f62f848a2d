"""Keep the package index in a dictionary."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from codelode.model import DEFAULT_REF, RefName, RepositoryName
from codelode.ports import PublishedPackages


class MemoryPackageIndex:
    """Implements the port PackageIndex."""

    def __init__(self) -> None:
        self._of: dict[tuple[RepositoryName, RefName], PublishedPackages] = {}

    def publish(
        self, repository: RepositoryName, refs: Sequence[RefName], packages: PublishedPackages
    ) -> None:
        for ref in refs:
            self._of[repository, ref] = packages

    def published_by(self, repository: RepositoryName, ref: RefName) -> PublishedPackages:
        return self._of.get((repository, ref), PublishedPackages({}, {}))

    def published_by_all(
        self, repositories: Sequence[RepositoryName]
    ) -> Mapping[RepositoryName, PublishedPackages]:
        said = {name: self.published_by(name, DEFAULT_REF) for name in repositories}
        return {name: one for name, one in said.items() if one.keys}

    def publishers(
        self, keys: Sequence[str]
    ) -> Mapping[str, tuple[tuple[RepositoryName, str], ...]]:
        found: dict[str, tuple[tuple[RepositoryName, str], ...]] = {}
        for key in keys:
            published = sorted(
                (name, said.keys[key])
                for (name, ref), said in list(self._of.items())
                if ref == DEFAULT_REF and key in said.keys
            )
            if published:
                found[key] = tuple(published)
        return found

    def remove_ref(self, repository: RepositoryName, ref: RefName) -> None:
        self._of.pop((repository, ref), None)

    def remove_repository(self, repository: RepositoryName) -> None:
        for key in [key for key in self._of if key[0] == repository]:
            del self._of[key]
