"""What resolving gives, and the keys by which a file that comes later finds who waits for it.

An import that found nothing, or not the likeliest place, is kept under a few short keys; a path
that appears has keys of its own, and files that hold one of them are resolved again. Files whose
target disappears are known by their edges and need no key.

    =src/a/util     the module at this place: `src/a/util.ts`, `src/a/util/index.js`
    ^requests       a package of this name at some root: any new folder or module of the name
    b:util.h        a file of this name anywhere
    d:net/http      any file directly in this folder
    f:Formatters    any file directly in a folder of this name
"""

from __future__ import annotations

import posixpath
from collections.abc import Collection, Iterable
from dataclasses import dataclass

#: Names of files that stand for their folder.
_INDEX = frozenset({"__init__", "index", "mod", "lib", "main", "init", "package", "action"})


@dataclass(frozen=True, slots=True)
class Resolved:
    """Files of the repository that an import means, none: it is external; and its keys."""

    targets: tuple[str, ...] = ()
    keys: tuple[str, ...] = ()


EXTERNAL = Resolved()


def at(*stems: str) -> tuple[str, ...]:
    """Keys of modules at places, without extension."""
    return tuple(f"={stem}" for stem in stems)


def keys_of_path(path: str, *, new_folders: Collection[str]) -> frozenset[str]:
    """The keys of imports that a file at the path may satisfy.

    `new_folders`: folders that hold nothing but what is new.
    """
    folder, name = posixpath.split(path)
    stem = name.split(".", 1)[0] if not name.startswith(".") else name
    keys = {f"b:{name}", f"={path}", "=" + posixpath.join(folder, stem), f"^{stem}", f"d:{folder}"}
    keys.add("=" + posixpath.splitext(path)[0])
    keys.add(f"f:{posixpath.basename(folder)}")
    if stem in _INDEX:
        keys.add(f"={folder}")
    for around in _around(folder):
        if around in new_folders:
            keys |= {f"^{posixpath.basename(around)}", f"={around}"}
    return frozenset(keys)


def _around(folder: str) -> Iterable[str]:
    while folder:
        yield folder
        folder = folder.rpartition("/")[0]
