"""Define the result of resolving an import, and the keys under which unresolved imports wait.

An import that resolved to no file, or not to the likeliest one, is stored under a few short keys.
Every path has keys too: when a file is added, the files that wait for one of its keys are resolved
again. Importers of a removed file are known from its edges and need no key.

    =src/a/util     the module at this place: `src/a/util.ts`, `src/a/util/index.js`
    ^requests       a package of this name at some root: a new folder or module of that name
    b:util.h        a file of this name anywhere
    d:net/http      any file directly in this folder
    f:Formatters    any file directly in a folder of this name
"""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass

from codelode.model import Import
from workers.parse.ecosystems.layout import Layout, above

#: Names of files that stand for their folder.
_INDEX = frozenset({"__init__", "index", "mod", "lib", "main", "init", "package", "action"})


@dataclass(frozen=True, slots=True)
class Resolved:
    """The files of the repository that an import refers to, and the keys under which it waits.

    An import without targets is external to the repository, or its file is missing.
    """

    targets: tuple[str, ...] = ()
    keys: tuple[str, ...] = ()


EXTERNAL = Resolved()

#: An import, the path of its file, and the layout → the files that it refers to.
Resolver = Callable[[Import, str, Layout], Resolved]


def at(*stems: str) -> tuple[str, ...]:
    """Return the keys of modules at these places, which are paths without extension."""
    return tuple(f"={stem}" for stem in stems)


def first(layout: Layout, places: Iterable[str]) -> str | None:
    """Return the first of the places that is a file."""
    return next((path for place in places if (path := inside(place)) in layout), None)


def inside(path: str) -> str:
    """Return the path without `..`; empty if it leads out of the repository."""
    normal = posixpath.normpath(path)
    return "" if normal.startswith(("..", "/")) or normal == "." else normal


def beside(path: str, written: str) -> str | None:
    """Return `written` relative to the folder of `path`; None outside the repository.

    The root is the empty text.
    """
    base = posixpath.normpath(posixpath.join(posixpath.dirname(path), written))
    return None if base.startswith(("..", "/")) else "" if base == "." else base


def keys_of_path(path: str, *, new_folders: Collection[str]) -> frozenset[str]:
    """Return the keys of imports that a file at the path may satisfy.

    `new_folders` are the folders that hold only new files.
    """
    folder, name = posixpath.split(path)
    stem = name.split(".", 1)[0] if not name.startswith(".") else name
    keys = {f"b:{name}", f"={path}", "=" + posixpath.join(folder, stem), f"^{stem}", f"d:{folder}"}
    keys.add("=" + posixpath.splitext(path)[0])
    keys.add(f"f:{posixpath.basename(folder)}")
    if stem in _INDEX:
        keys.add(f"={folder}")
    for around in above(folder):
        if around and around in new_folders:
            keys |= {f"^{posixpath.basename(around)}", f"={around}"}
    return frozenset(keys)


def repository_key(name: str) -> str:
    """Return the package key of a repository: `git.acme.org/team/http` → `repo:team/http`."""
    return f"repo:{'/'.join(name.removesuffix('.git').lower().split('/')[-2:])}"
