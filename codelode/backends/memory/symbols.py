"""Keep the symbol table in a dictionary."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from codelode.model import LocatedSymbol, RefName, RepositoryName, Symbol


class MemorySymbols:
    """Implements the port SymbolTable."""

    def __init__(self) -> None:
        self._files: dict[tuple[RepositoryName, RefName, str], tuple[Symbol, ...]] = {}

    def replace(
        self,
        repository: RepositoryName,
        refs: Sequence[RefName],
        symbols: Mapping[str, Sequence[Symbol]],
    ) -> None:
        for path, defined in symbols.items():
            for ref in refs:
                self._files[repository, ref, path] = tuple(defined)

    def lookup(
        self, name: str, *, repositories: Sequence[RepositoryName], ref: RefName
    ) -> tuple[LocatedSymbol, ...]:
        found = [
            LocatedSymbol(repository, path, symbol)
            for (repository, at, path), symbols in list(self._files.items())
            if repository in repositories and at == ref
            for symbol in symbols
            if symbol.name == name
        ]
        return tuple(sorted(found, key=lambda at: (at.repository, at.path, at.symbol.start_line)))

    def lookup_all(
        self, names: Sequence[str], *, repository: RepositoryName, ref: RefName
    ) -> Mapping[str, tuple[LocatedSymbol, ...]]:
        return {name: self.lookup(name, repositories=[repository], ref=ref) for name in names}

    def defined_in(
        self, repository: RepositoryName, ref: RefName, paths: Sequence[str]
    ) -> Mapping[str, tuple[LocatedSymbol, ...]]:
        return {
            path: tuple(
                LocatedSymbol(repository, path, symbol)
                for symbol in sorted(
                    self._files.get((repository, ref, path), ()),
                    key=lambda symbol: (symbol.start_line, symbol.qualified_name),
                )
            )
            for path in paths
        }

    def remove_ref(self, repository: RepositoryName, ref: RefName) -> None:
        self._remove(repository, ref)

    def remove_repository(self, repository: RepositoryName) -> None:
        self._remove(repository)

    def _remove(self, *start: str) -> None:
        for key in [key for key in self._files if key[: len(start)] == start]:
            del self._files[key]
