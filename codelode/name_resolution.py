"""Resolve uses of names to definitions, by what the using file imports.

Names are resolved when they are queried, not when a file is stored, so that answers do not depend
on the order in which files were indexed, and storing stays cheap. Types are unknown: a call of a
member may mean every member of that name, and its confidence says so. A member that the built-in
types have too is sure only on the code's own object or an imported module.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache

from codelode import languages
from codelode.builtin_members import BUILTIN_MEMBERS
from codelode.language_table import Scope
from codelode.model import Category, Kind, LocatedSymbol, Reference, ReferenceKind


class Confidence(StrEnum):
    """The certainty of a resolution, most certain first."""

    EXACT = "exact"  # defined in the same file, or imported and defined nowhere else
    IMPORTED = "imported"  # defined in a file or package that is imported, or linked by its name
    NAME = "name"  # has the name, and nothing rules it out


#: Maximum number of definitions of a use that are returned if only the name matches.
MAX_BY_NAME = 5

_TYPES = frozenset({Kind.CLASS, Kind.INTERFACE, Kind.STRUCT, Kind.ENUM, Kind.TRAIT, Kind.TYPE})
_CALLED = frozenset({Kind.FUNCTION, Kind.METHOD, Kind.MACRO, Kind.CLASS, Kind.STRUCT, Kind.TYPE})
_KINDS = {
    ReferenceKind.CALL: _CALLED,
    ReferenceKind.MEMBER: _CALLED,
    ReferenceKind.OWN: _CALLED,
    ReferenceKind.CLASS: _TYPES | {Kind.MODULE},
    ReferenceKind.IMPLEMENTATION: _TYPES | {Kind.MODULE},
    ReferenceKind.DEFAULT: _CALLED | _TYPES,
}
#: Kinds that may hold a function or a class where the language has function values.
_VALUES = frozenset({Kind.CONSTANT, Kind.FUNCTION})
#: Languages whose calls the linker resolves: a function has its name in all files.
_LINKED = frozenset({"c"})

#: Separators of the parts of a name in some languages; the symbol table separates them with dots.
_JOINT = re.compile(r"(?<=[\w$*?])(?:::|->|#)(?=[\w$*?~@])")


@dataclass(frozen=True, slots=True)
class ResolvedUse:
    """A definition that a use may mean, with the confidence."""

    definition: LocatedSymbol
    confidence: Confidence


def resolve_use(
    use: Reference,
    *,
    path: str,
    imported: Collection[str],
    definitions: Sequence[LocatedSymbol],
    source: str = "",
) -> tuple[ResolvedUse, ...]:
    """Return the definitions that a use in the file may mean, those of the best confidence only.

    `imported` are the files that it imports, with files that those re-export. `source` is the file
    whose import gives the use the name under which it is written, if any; the using file's own
    definitions are then ruled out.
    """
    possible = [at for at in definitions if _fits(use, path, at)]
    if is_builtin_member(use, path):
        seen = [at for at in possible if at.path == path or _is_near(path, at, imported)]
        return tuple(ResolvedUse(at, Confidence.NAME) for at in seen[:MAX_BY_NAME])
    own = [at for at in possible if at.path == path]
    if own and source in ("", path):
        return tuple(ResolvedUse(at, Confidence.EXACT) for at in own)
    others = [at for at in possible if at.path != path]
    near = [at for at in others if _is_from(source, at)] or [
        at for at in others if _is_near(path, at, imported)
    ]
    if near:
        is_only = len({at.path for at in possible}) == 1 and use.kind is not ReferenceKind.MEMBER
        sure = Confidence.EXACT if is_only else Confidence.IMPORTED
        return tuple(ResolvedUse(at, sure) for at in near)
    named = [at for at in others if at.symbol.kind in _KINDS[use.kind] and _is_linkable(use, at)]
    if len({at.path for at in named}) == 1 and _is_linked(use, named[0]):
        return tuple(ResolvedUse(at, Confidence.IMPORTED) for at in named)
    return tuple(ResolvedUse(at, Confidence.NAME) for at in named[:MAX_BY_NAME])


def _fits(use: Reference, path: str, at: LocatedSymbol) -> bool:
    kind, own = at.symbol.kind, scope(path)
    if own is not scope(at.path):
        return False
    if kind not in _KINDS[use.kind] and not (own.has_function_values and kind in _VALUES):
        return False
    if use.kind is ReferenceKind.CALL and kind is Kind.METHOD and not own.has_implicit_receiver:
        return False
    return separate_category(at.path) in ("", separate_category(path))


def is_builtin_member(use: Reference, path: str) -> bool:
    """Return whether built-in types of the language have a member of that name, too."""
    return (
        use.kind is ReferenceKind.MEMBER
        and not use.written
        and use.name in BUILTIN_MEMBERS.get(scope(path).name, ())
    )


def _is_near(path: str, at: LocatedSymbol, imported: Collection[str]) -> bool:
    return at.path in imported or is_same_package(path, at.path)


def _is_linked(use: Reference, at: LocatedSymbol) -> bool:
    return use.kind is ReferenceKind.CALL and languages.detect(at.path).name in _LINKED


def _is_linkable(use: Reference, at: LocatedSymbol) -> bool:
    """Return whether a file can use a definition that it does not include: in C, if not static.

    `is_exported` is false also for a function that a syntax error puts into the one before it.
    """
    return not _is_linked(use, at) or "static" not in at.symbol.signature.partition("(")[0].split()


def _is_from(source: str, at: LocatedSymbol) -> bool:
    """Return whether the definition is in the source file, or in its package."""
    return at.path == source or (bool(source) and is_same_package(source, at.path))


@lru_cache(maxsize=65_536)
def separate_category(path: str) -> str:
    """Return the category if only files of the same category see its names, else the empty text."""
    category = languages.category(path)
    return str(category) if category in _SEPARATE else ""


_SEPARATE = (Category.TEST, Category.VENDORED, Category.GENERATED)


@lru_cache(maxsize=65_536)
def scope(path: str) -> Scope:
    """Return the scope of a file's language, by its path."""
    return languages.detect(path).scope


def is_same_package(path: str, other: str) -> bool:
    """Return whether the files see each other's names without an import."""
    return (
        scope(path).is_folder and posixpath.dirname(path) == posixpath.dirname(other)
    ) or _package_path(path) == _package_path(other) != ""


def _package_path(path: str) -> str:
    """Return the folder below a source root: `x/src/test/java/a/b/C.java` → `a/b`.

    Tests are in the same package as what they test, below another root.
    """
    cut = (f"/{path}".partition(f"/{root}/") for root in scope(path).source_roots)
    return next((posixpath.dirname(inner) for _, found, inner in cut if found), "")


#: Names of files that re-export what they import: `__init__.py`, `index.ts`, `mod.rs`, `lib.rs`.
_REEXPORTING = ("__init__", "index", "mod", "lib", "prelude")


def reexports(path: str) -> bool:
    """Return whether a file that imports this one also gets what this one imports."""
    return stem(path) in _REEXPORTING


def stem(path: str) -> str:
    """Return the name of a file up to its first dot: `src/http/client.test.ts` → `client`."""
    return posixpath.basename(path).partition(".")[0]


def dotted(name: str) -> str:
    """Return a qualified name joined by dots, as the symbol table has it: `a::b` → `a.b`."""
    return _JOINT.sub(".", name)


def is_named(qualified: str, name: str) -> bool:
    """Return whether a qualified name ends with the name: `Client.get` does with `get`."""
    return qualified == name or qualified.endswith(f".{name}")


def by_confidence(found: Iterable[ResolvedUse]) -> list[ResolvedUse]:
    """Sort by confidence, the surest first, then by path and line."""
    order = list(Confidence)
    return sorted(
        found,
        key=lambda one: (
            order.index(one.confidence),
            one.definition.path,
            one.definition.symbol.start_line,
        ),
    )
