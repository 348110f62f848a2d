"""The reference index in a dictionary."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from codelode.model import FileKey, RepositoryName
from codelode.references import distinct_names, lookup_key


class MemoryReferences:
    """Implements the port ReferenceIndex."""

    def __init__(self) -> None:
        self._names: dict[FileKey, tuple[str, ...]] = {}

    def replace(self, repository: RepositoryName, names: Mapping[str, Sequence[str]]) -> None:
        for path, used in names.items():
            self._names[repository, path] = distinct_names(used)

    def files(
        self, repository: RepositoryName, names: Sequence[str]
    ) -> Mapping[str, tuple[str, ...]]:
        held = [
            (path, set(map(lookup_key, used)))
            for (at, path), used in list(self._names.items())
            if at == repository
        ]
        return {
            name: tuple(sorted(path for path, used in held if lookup_key(name) in used))
            for name in names
        }

    def names(
        self, repository: RepositoryName, paths: Sequence[str]
    ) -> Mapping[str, tuple[str, ...]]:
        return {path: self._names.get((repository, path), ()) for path in paths}

    def remove_repository(self, repository: RepositoryName) -> None:
        for key in [key for key in self._names if key[0] == repository]:
            del self._names[key]
