"""The vocabulary of the reference index: one text per use, its kind told by the first characters.

c load      calls a function of this name        m load      calls a member of this name
n Client    makes one of this class              i Base      inherits or implements it
d load      exports it by default
> =src/x    waits for a file                     p npm:react takes from a published package

A use under a name that an import of the file gives has the mark as a capital, and two more texts
that say how it is written and where what is imported lies. Of what lies outside of the repository
nothing is kept but that the name is used:

C load      calls it under another name          = c load read     written `read`
M run       calls it as a member of what is      = m run u.run     written `u.run`
            imported under another name          @ u src/util.py   which this file is
x norm      any of these, of a package
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping

from codelode.model import Reference, ReferenceKind
from codelode.relations import stem

#: Names of one file; a file with more is a table of data.
MAX_NAMES = 4_000

_MARKS = {
    ReferenceKind.CALL: "c",
    ReferenceKind.MEMBER: "m",
    ReferenceKind.CLASS: "n",
    ReferenceKind.IMPLEMENTATION: "i",
    ReferenceKind.DEFAULT: "d",
}
_KINDS = {mark: kind for kind, mark in _MARKS.items()}
#: What an import may give a name besides single names: the module itself, or its default export.
MODULE, DEFAULT = "*", "default"

_FIRST = re.compile(r"[\w$]+")


def of_use(reference: Reference) -> str:
    """`Reference("load", MEMBER)` → `m load`, and `M load` where it is written another way."""
    mark = _MARKS[reference.kind]
    return f"{mark.upper() if reference.written else mark} {reference.name}"


def of_uses(uses: Iterable[Reference], sources: Mapping[str, str]) -> Iterator[str]:
    """All that is kept of a file's uses.

    `sources`: names that its imports give, with the file of the repository that each is from.
    """
    for use in uses:
        if not use.written:
            yield of_use(use)
            continue
        own = given(use)
        if own not in sources:
            yield f"x {use.name}"
            continue
        if use.name == DEFAULT and stem(sources[own]) == own:
            continue  # the definition has the name of its file
        yield of_use(use)
        yield f"= {_MARKS[use.kind]} {use.name} {use.written}"
        yield f"@ {own} {sources[own]}"


def given(use: Reference) -> str:
    """The name that an import gives, with which a use begins: `np.load` → `np`."""
    found = _FIRST.match(use.written)
    return found.group() if found else ""


def sources(names: Iterable[str]) -> dict[str, str]:
    """What a file's names say of names that its imports give: the file that each is from."""
    found = (name.split(" ", 2) for name in names if name.startswith("@ "))
    return {own: path for _, own, path in found}


def default_of(names: Iterable[str]) -> str:
    """What a file with these names exports by default; empty when that has no name."""
    return next((name[2:] for name in names if name.startswith("d ")), "")


def source_of(use: Reference, files: Mapping[str, str]) -> str:
    """The file that a use is from by its import, of `sources`; empty where none renames it."""
    return files.get(given(use), "") if use.written else ""


def of_waiting(key: str) -> str:
    """The name under which a file waits for another."""
    return f"> {key}"


def of_package(key: str) -> str:
    """The name under which a file takes from a package: `npm:react` → `p npm:react`."""
    return f"p {key}"


def uses_of(name: str) -> tuple[str, ...]:
    """Every way in which a symbol may be used."""
    marks = (*_KINDS, *map(str.upper, _KINDS), "x")
    return tuple(f"{mark} {name}" for mark in marks)


def uses(names: Iterable[str]) -> tuple[Reference, ...]:
    """Those of a file's names that are uses of symbols."""
    found: list[Reference] = []
    for name in names:
        if name[:1] in _KINDS:
            found.append(Reference(name[2:], _KINDS[name[0]]))
        elif name.startswith("= "):
            _, mark, used, written = name.split(" ", 3)
            found.append(Reference(used, _KINDS[mark], written))
    return tuple(found)


def packages(names: Iterable[str]) -> tuple[str, ...]:
    """Those of a file's names that are packages: `npm:react`."""
    return tuple(name[2:] for name in names if name.startswith("p "))


def distinct_names(names: Iterable[str]) -> tuple[str, ...]:
    """The names as an index keeps them: sorted, each once, one line each, not too many."""
    return tuple(sorted({name for name in names if "\n" not in name})[:MAX_NAMES])
