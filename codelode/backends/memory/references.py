"""Keep the reference index in a dictionary."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from codelode.model import RefName, RepositoryName
from codelode.references import distinct_names, lookup_key


class MemoryReferences:
    """Implements the port ReferenceIndex."""

    def __init__(self) -> None:
        self._names: dict[tuple[RepositoryName, RefName, str], tuple[str, ...]] = {}

    def replace(
        self,
        repository: RepositoryName,
        refs: Sequence[RefName],
        names: Mapping[str, Sequence[str]],
    ) -> None:
        for path, used in names.items():
            for ref in refs:
                self._names[repository, ref, path] = distinct_names(used)

    def files(
        self, repository: RepositoryName, ref: RefName, names: Sequence[str]
    ) -> Mapping[str, tuple[str, ...]]:
        held = [
            (path, set(map(lookup_key, used)))
            for (owner, at, path), used in list(self._names.items())
            if (owner, at) == (repository, ref)
        ]
        return {
            name: tuple(sorted(path for path, used in held if lookup_key(name) in used))
            for name in names
        }

    def holding(
        self, repositories: Sequence[RepositoryName], ref: RefName, names: Sequence[str]
    ) -> Mapping[RepositoryName, tuple[str, ...]]:
        found = {}
        for repository in repositories:
            held = self.files(repository, ref, names)
            found[repository] = tuple(name for name in names if held[name])
        return {repository: some for repository, some in found.items() if some}

    def names(
        self, repository: RepositoryName, ref: RefName, paths: Sequence[str]
    ) -> Mapping[str, tuple[str, ...]]:
        return {path: self._names.get((repository, ref, path), ()) for path in paths}

    def remove_ref(self, repository: RepositoryName, ref: RefName) -> None:
        self._remove(repository, ref)

    def remove_repository(self, repository: RepositoryName) -> None:
        self._remove(repository)

    def _remove(self, *start: str) -> None:
        for key in [key for key in self._names if key[: len(start)] == start]:
            del self._names[key]
