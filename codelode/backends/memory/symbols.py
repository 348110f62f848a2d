"""The symbol table in a dictionary."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from codelode.model import FileKey, LocatedSymbol, RepositoryName, Symbol


class MemorySymbols:
    """Implements the port SymbolTable."""

    def __init__(self) -> None:
        self._files: dict[FileKey, tuple[Symbol, ...]] = {}

    def replace(self, repository: RepositoryName, symbols: Mapping[str, Sequence[Symbol]]) -> None:
        for path, defined in symbols.items():
            self._files[repository, path] = tuple(defined)

    def lookup(
        self, name: str, *, repositories: Sequence[RepositoryName]
    ) -> tuple[LocatedSymbol, ...]:
        found = [
            LocatedSymbol(repository, path, symbol)
            for (repository, path), symbols in list(self._files.items())
            if repository in repositories
            for symbol in symbols
            if symbol.name == name
        ]
        return tuple(sorted(found, key=lambda at: (at.repository, at.path, at.symbol.start_line)))

    def lookup_all(
        self, names: Sequence[str], *, repository: RepositoryName
    ) -> Mapping[str, tuple[LocatedSymbol, ...]]:
        return {name: self.lookup(name, repositories=[repository]) for name in names}

    def defined_in(
        self,
        repository: RepositoryName,
        paths: Sequence[str],
        *,
        names: Collection[str] | None = None,
    ) -> Mapping[str, tuple[LocatedSymbol, ...]]:
        return {
            path: tuple(
                LocatedSymbol(repository, path, symbol)
                for symbol in sorted(
                    self._files.get((repository, path), ()),
                    key=lambda symbol: (symbol.start_line, symbol.qualified_name),
                )
                if names is None or symbol.name in names
            )
            for path in paths
        }

    def remove_repository(self, repository: RepositoryName) -> None:
        for key in [key for key in self._files if key[0] == repository]:
            del self._files[key]
