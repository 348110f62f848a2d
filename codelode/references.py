"""The entries of the reference index: one text per use, whose first character is its kind.

c load      calls a function of this name        m load      calls a member of this name
n Client    instantiates this class              i Base      inherits or implements it
d load      exports it by default                o load      calls a member of its own object
> =src/x    waits for a file                     p npm:react imports from a published package
w src/x     is found by other repositories here (`codelode.modules`)
u py a/load imports this module, or this name in it, from a package

After a use and the byte 0 come the lines of the use: `c load`, 0, `12 40`. The index is searched
for what is before that byte (`lookup_key`).

A use under a name that an import gives has a capital letter, and two more entries that say how it
is written and which file the name is from. If that is outside the repository, only the name is
stored:

C load      calls it under another name          = c load read     is written `read`
M run       calls it as a member of an import    = m run u.run     is written `u.run`
            with another name                    @ u src/util.py   `u` is this file
x norm      uses it in one of these ways, from a package
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping

from codelode.model import Reference, ReferenceKind
from codelode.modules import Module
from codelode.name_resolution import stem

#: Maximum number of entries of one file; a file with more is a table of data.
MAX_NAMES = 4_000

_MARKS = {
    ReferenceKind.CALL: "c",
    ReferenceKind.MEMBER: "m",
    ReferenceKind.OWN: "o",
    ReferenceKind.CLASS: "n",
    ReferenceKind.IMPLEMENTATION: "i",
    ReferenceKind.DEFAULT: "d",
}
_KINDS = {mark: kind for kind, mark in _MARKS.items()}
#: Imported names that stand for the module itself, and for its default export.
MODULE, DEFAULT = "*", "default"

#: Separates the lookup key of an entry from the lines of the use.
_LINES = "\0"

_FIRST = re.compile(r"[\w$]+")


def lookup_key(entry: str) -> str:
    """Return the text by which an entry is found: the entry without the lines."""
    return entry.partition(_LINES)[0]


def of_use(reference: Reference) -> str:
    """Return the entry of a use: `m load`, or `M load` if it is written under another name."""
    mark = _MARKS[reference.kind]
    return f"{mark.upper() if reference.written else mark} {reference.name}"


def of_uses(uses: Iterable[Reference], sources: Mapping[str, str]) -> Iterator[str]:
    """Yield all entries of a file's uses.

    `sources` maps each name that its imports give to the file of the repository that it is from.
    """
    for use in uses:
        if not use.written:
            yield _with_lines(of_use(use), use)
            continue
        own = given(use)
        if own not in sources:
            yield f"x {use.name}"
            continue
        if use.name == DEFAULT and stem(sources[own]) == own:
            continue  # the default export has the name of its file
        yield of_use(use)
        yield _with_lines(f"= {_MARKS[use.kind]} {use.name} {use.written}", use)
        yield f"@ {own} {sources[own]}"


def _with_lines(entry: str, use: Reference) -> str:
    return f"{entry}{_LINES}{' '.join(map(str, use.lines))}" if use.lines else entry


def given(use: Reference) -> str:
    """Return the name from an import that a use begins with: `np.load` → `np`."""
    found = _FIRST.match(use.written)
    return found.group() if found else ""


def sources(names: Iterable[str]) -> dict[str, str]:
    """Return the file of each name that a file's imports give, by the file's entries."""
    found = (name.split(" ", 2) for name in names if name.startswith("@ "))
    return {own: path for _, own, path in found}


def default_of(names: Iterable[str]) -> str:
    """Return what a file with these entries exports by default; empty if that has no name."""
    return next((name[2:] for name in names if name.startswith("d ")), "")


def source_of(use: Reference, files: Mapping[str, str]) -> str:
    """Return the file that a use's import names, from `sources`; empty if no import renames it."""
    return files.get(given(use), "") if use.written else ""


def of_waiting(key: str) -> str:
    """Return the entry of a file that waits for another file."""
    return f"> {key}"


def of_package(key: str) -> str:
    """Return the entry of a file that imports from a package: `npm:react` → `p npm:react`."""
    return f"p {key}"


def of_place(place: str) -> str:
    """Return the entry of a file at a place, where other repositories find it."""
    return f"w {place}"


def of_module(module: Module) -> str:
    """Return the entry of a file that imports a module from a package."""
    return f"u {module.ecosystem} {'/'.join(module.parts)}"


def modules(names: Iterable[str]) -> tuple[Module, ...]:
    """Return the modules of packages among a file's entries."""
    found = (name.split(" ", 2) for name in names if name.startswith("u "))
    return tuple(Module(ecosystem, tuple(path.split("/"))) for _, ecosystem, path in found)


def uses_of(name: str) -> tuple[str, ...]:
    """Return the entries of every way in which a symbol may be used."""
    marks = (*_KINDS, *map(str.upper, _KINDS), "x")
    return tuple(f"{mark} {name}" for mark in marks)


def uses(names: Iterable[str]) -> tuple[Reference, ...]:
    """Return the uses of symbols among a file's entries."""
    found: list[Reference] = []
    for entry in names:
        name, _, listed = entry.partition(_LINES)
        lines = tuple(map(int, listed.split()))
        if name[:1] in _KINDS:
            found.append(Reference(name[2:], _KINDS[name[0]], "", lines))
        elif name.startswith("= "):
            _, mark, used, written = name.split(" ", 3)
            found.append(Reference(used, _KINDS[mark], written, lines))
    return tuple(found)


def packages(names: Iterable[str]) -> tuple[str, ...]:
    """Return the packages among a file's entries: `npm:react`."""
    return tuple(name[2:] for name in names if name.startswith("p "))


def distinct_names(names: Iterable[str]) -> tuple[str, ...]:
    """Return the entries that an index stores: sorted, distinct, one line each, up to MAX_NAMES."""
    distinct = {lookup_key(name): name for name in sorted(names) if "\n" not in name}
    return tuple(sorted(distinct.values())[:MAX_NAMES])
