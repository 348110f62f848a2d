"""The vocabulary of the reference index: one text per use, its kind told by the first characters.

c load      calls a function of this name        m load      calls a member of this name
n Client    makes one of this class              i Base      inherits or implements it
> =src/x    waits for a file                     p npm:react takes from a published package
"""

from __future__ import annotations

from collections.abc import Iterable

from codelode.model import Reference, ReferenceKind

#: Names of one file; a file with more is a table of data.
MAX_NAMES = 4_000

_MARKS = {
    ReferenceKind.CALL: "c",
    ReferenceKind.MEMBER: "m",
    ReferenceKind.CLASS: "n",
    ReferenceKind.IMPLEMENTATION: "i",
}
_KINDS = {mark: kind for kind, mark in _MARKS.items()}


def of_use(reference: Reference) -> str:
    """`Reference("load", MEMBER)` → `m load`."""
    return f"{_MARKS[reference.kind]} {reference.name}"


def of_waiting(key: str) -> str:
    """The name under which a file waits for another."""
    return f"> {key}"


def of_package(key: str) -> str:
    """The name under which a file takes from a package: `npm:react` → `p npm:react`."""
    return f"p {key}"


def uses_of(name: str) -> tuple[str, ...]:
    """Every way in which a symbol may be used."""
    return tuple(f"{mark} {name}" for mark in _KINDS)


def uses(names: Iterable[str]) -> tuple[Reference, ...]:
    """Those of a file's names that are uses of symbols."""
    return tuple(Reference(name[2:], _KINDS[name[0]]) for name in names if name[:1] in _KINDS)


def packages(names: Iterable[str]) -> tuple[str, ...]:
    """Those of a file's names that are packages: `npm:react`."""
    return tuple(name[2:] for name in names if name.startswith("p "))


def distinct_names(names: Iterable[str]) -> tuple[str, ...]:
    """The names as an index keeps them: sorted, each once, one line each, not too many."""
    return tuple(sorted({name for name in names if "\n" not in name})[:MAX_NAMES])
