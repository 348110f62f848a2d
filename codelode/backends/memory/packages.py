"""What repositories publish, in a dictionary."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from codelode.model import RepositoryName
from codelode.ports import Publication


class MemoryPackages:
    """Implements the port Packages."""

    def __init__(self) -> None:
        self._of: dict[RepositoryName, Publication] = {}

    def publish(self, repository: RepositoryName, publication: Publication) -> None:
        self._of[repository] = publication

    def of(self, repository: RepositoryName) -> Publication:
        return self._of.get(repository, Publication({}, {}))

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
