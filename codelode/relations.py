"""Who is meant by a name: definitions of it, weighed by what the file that uses it imports.

Names are resolved when they are asked for and not when a file is stored, so that an answer is true
in whatever order files were indexed, and storing stays cheap. There are no types here: a call of a
member is every member of that name, and its confidence says how much that is worth.
"""

from __future__ import annotations

import posixpath
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache

from codelode import languages
from codelode.language_table import Scope
from codelode.model import Category, Kind, LocatedSymbol, Reference, ReferenceKind


class Confidence(StrEnum):
    """How sure it is that a definition is meant; the surest first."""

    EXACT = "exact"  # defined in the same file, or nowhere else and imported
    IMPORTED = "imported"  # in a file or package that is imported
    NAME = "name"  # it has the name, and nothing speaks against it


#: Definitions told of a name that nothing but the name points to.
MAX_BY_NAME = 5

_TYPES = frozenset({Kind.CLASS, Kind.INTERFACE, Kind.STRUCT, Kind.ENUM, Kind.TRAIT, Kind.TYPE})
_CALLED = frozenset({Kind.FUNCTION, Kind.METHOD, Kind.MACRO, Kind.CLASS, Kind.STRUCT, Kind.TYPE})
_MEANT = {
    ReferenceKind.CALL: _CALLED,
    ReferenceKind.MEMBER: _CALLED,
    ReferenceKind.CLASS: _TYPES | {Kind.MODULE},
    ReferenceKind.IMPLEMENTATION: _TYPES | {Kind.MODULE},
    ReferenceKind.DEFAULT: _CALLED | _TYPES,
}
#: Kinds that may hold a function or a class where the language has function values.
_VALUES = frozenset({Kind.CONSTANT, Kind.FUNCTION})


@dataclass(frozen=True, slots=True)
class Meant:
    """A definition that a use may mean."""

    definition: LocatedSymbol
    confidence: Confidence


def meant(
    use: Reference,
    *,
    path: str,
    imported: Collection[str],
    definitions: Sequence[LocatedSymbol],
    source: str = "",
) -> tuple[Meant, ...]:
    """The definitions that a use in the file may mean: those of the best confidence only.

    `imported`: files that it imports, those that they pass on among them. `source`: the one that
    gives the use the name under which it is written, if any does; then the file's own definitions
    are not meant.
    """
    possible = [at for at in definitions if _fits(use, path, at)]
    own = [at for at in possible if at.path == path]
    if own and source in ("", path):
        return tuple(Meant(at, Confidence.EXACT) for at in own)
    others = [at for at in possible if at.path != path]
    near = [at for at in others if _is_from(source, at)] or [
        at for at in others if at.path in imported or is_same_package(path, at.path)
    ]
    if near:
        is_only = len({at.path for at in possible}) == 1 and use.kind is not ReferenceKind.MEMBER
        sure = Confidence.EXACT if is_only else Confidence.IMPORTED
        return tuple(Meant(at, sure) for at in near)
    named = [at for at in others if at.symbol.kind in _MEANT[use.kind]]
    return tuple(Meant(at, Confidence.NAME) for at in named[:MAX_BY_NAME])


def _fits(use: Reference, path: str, at: LocatedSymbol) -> bool:
    kind, own = at.symbol.kind, scope(path)
    if own is not scope(at.path):
        return False
    if kind not in _MEANT[use.kind] and not (own.has_function_values and kind in _VALUES):
        return False
    if use.kind is ReferenceKind.CALL and kind is Kind.METHOD and not own.has_implicit_receiver:
        return False
    return apart(at.path) in ("", apart(path))


def _is_from(source: str, at: LocatedSymbol) -> bool:
    """Whether it lies in the file, or in the package of the file where that is what is imported."""
    return at.path == source or (bool(source) and is_same_package(source, at.path))


@lru_cache(maxsize=65_536)
def apart(path: str) -> str:
    """`test`, `vendored` or `generated` for files of which only their like mean the names."""
    category = languages.category(path)
    return str(category) if category in _APART else ""


_APART = (Category.TEST, Category.VENDORED, Category.GENERATED)


@lru_cache(maxsize=65_536)
def scope(path: str) -> Scope:
    """Return the scope of a file's language, by its path."""
    return languages.detect(path).scope


def is_same_package(path: str, other: str) -> bool:
    """Whether the files see one another without an import."""
    return (
        scope(path).is_folder and posixpath.dirname(path) == posixpath.dirname(other)
    ) or _package_path(path) == _package_path(other) != ""


def _package_path(path: str) -> str:
    """`x/src/test/java/a/b/C.java` → `a/b`: tests lie in the package of what they test."""
    cut = (f"/{path}".partition(f"/{root}/") for root in scope(path).source_roots)
    return next((posixpath.dirname(inner) for _, found, inner in cut if found), "")


#: Files that pass on what they import: `__init__.py`, `index.ts`, `mod.rs`, `lib.rs`.
_PASSING = ("__init__", "index", "mod", "lib", "prelude")


def passes_on(path: str) -> bool:
    """Whether importing the file is to import what it imports."""
    return stem(path) in _PASSING


def stem(path: str) -> str:
    """The name of a file up to its first full stop: `src/http/client.test.ts` → `client`."""
    return posixpath.basename(path).partition(".")[0]


def is_called(kind: Kind) -> bool:
    """Whether a symbol of the kind can be called or made."""
    return kind in _CALLED


def named(qualified: str, name: str) -> bool:
    """Whether a symbol goes by the name: `Client.get` by `get` and by `Client.get`."""
    return qualified == name or qualified.endswith(f".{name}")


def best(found: Iterable[Meant]) -> list[Meant]:
    """Surest first, then by place."""
    order = list(Confidence)
    return sorted(
        found,
        key=lambda one: (
            order.index(one.confidence),
            one.definition.path,
            one.definition.symbol.start_line,
        ),
    )
