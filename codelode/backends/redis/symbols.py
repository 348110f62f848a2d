"""The symbol table in Redis: from a name to the files that define it, then to the definitions.

The definitions of a file are a hash with a field per name, so that a lookup reads only what it
returns. Compressing all definitions of a file together would take less memory, but the lookup of a
name like `main` would then decompress every file that defines it. Refs at which a file has the same
definitions share them.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from codelode.backends.redis import keys, versions
from codelode.backends.redis.connection import translated
from codelode.errors import Corrupt
from codelode.model import Kind, LocatedSymbol, RefName, RepositoryName, Symbol

_JSON = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))


class RedisSymbols(versions.VersionedTable):
    """Implements the port SymbolTable."""

    NAME = "symbols"
    LIBRARIES = (*versions.VersionedTable.LIBRARIES, "placed.lua")

    def replace(
        self,
        repository: RepositoryName,
        refs: Sequence[RefName],
        symbols: Mapping[str, Sequence[Symbol]],
    ) -> None:
        self._write(repository, refs, (_arguments(path, some) for path, some in symbols.items()))

    def lookup(
        self, name: str, *, repositories: Sequence[RepositoryName], ref: RefName
    ) -> tuple[LocatedSymbol, ...]:
        distinct = tuple(dict.fromkeys(repositories))
        asked = [keys.encode(ref), keys.encode(name)]
        calls = [(self._base(repository), asked) for repository in distinct]
        with translated():
            replies = self._scripts["lookup"](calls)
        found = [
            at
            for repository, flat in zip(distinct, replies, strict=True)
            for at in _located(name, repository, flat)
        ]
        return tuple(sorted(found, key=lambda at: at.repository))

    def lookup_all(
        self, names: Sequence[str], *, repository: RepositoryName, ref: RefName
    ) -> Mapping[str, tuple[LocatedSymbol, ...]]:
        base, at = self._base(repository), keys.encode(ref)
        calls = [(base, [at, keys.encode(name)]) for name in names]
        with translated():
            replies = self._scripts["lookup"](calls) if calls else []
        return {
            name: _located(name, repository, flat)
            for name, flat in zip(names, replies, strict=True)
        }

    def defined_in(
        self, repository: RepositoryName, ref: RefName, paths: Sequence[str]
    ) -> Mapping[str, tuple[LocatedSymbol, ...]]:
        base, at = self._base(repository), keys.encode(ref)
        calls = [(base, [at, keys.encode(path)]) for path in paths]
        with translated():
            replies = self._scripts["defined"](calls) if calls else []
        return {
            path: _in_file(repository, path, flat)
            for path, (flat,) in zip(paths, replies, strict=True)
        }


def _located(
    name: str, repository: RepositoryName, flat: Sequence[bytes]
) -> tuple[LocatedSymbol, ...]:
    """Decode definitions, ordered by path and line, from alternating paths and packed values."""
    found = [
        LocatedSymbol(repository, keys.decode(path), symbol)
        for path, packed in zip(flat[::2], flat[1::2], strict=True)
        for symbol in _unpacked(name, packed)
    ]
    return tuple(sorted(found, key=lambda at: (at.path, at.symbol.start_line)))


def _in_file(
    repository: RepositoryName, path: str, flat: Sequence[bytes]
) -> tuple[LocatedSymbol, ...]:
    """Decode the definitions of a file, ordered by line, from alternating fields and values."""
    found = [
        LocatedSymbol(repository, path, symbol)
        for field, packed in zip(flat[::2], flat[1::2], strict=True)
        if field != b"/"
        for symbol in _unpacked(keys.decode(field[1:]), packed)
    ]
    return tuple(sorted(found, key=lambda at: (at.symbol.start_line, at.symbol.qualified_name)))


def _arguments(path: str, symbols: Sequence[Symbol]) -> list[bytes]:
    by_name: defaultdict[str, list[Symbol]] = defaultdict(list)
    for symbol in symbols:
        by_name[symbol.name].append(symbol)
    arguments = [keys.encode(path)]
    for name, definitions in by_name.items():
        arguments += keys.encode(name), _packed(definitions)
    return arguments


def _packed(definitions: Iterable[Symbol]) -> bytes:
    rows = [
        (
            symbol.qualified_name,
            symbol.kind,
            symbol.signature,
            symbol.start_line,
            symbol.end_line,
            symbol.is_exported,
            symbol.doc,
        )
        for symbol in definitions
    ]
    return keys.encode(_JSON.encode(rows))


def _unpacked(name: str, raw: bytes) -> list[Symbol]:
    try:
        return [
            Symbol(name, qualified_name, Kind(kind), *rest)
            for qualified_name, kind, *rest in json.loads(keys.decode(raw))
        ]
    except (ValueError, TypeError) as exc:
        raise Corrupt(
            f"the definitions of {name!r} in Redis cannot be read, perhaps because another version "
            f"wrote them; remove and index the repository again ({exc})"
        ) from exc
