"""Name modules across repositories, to find the file of a package that another repository imports.

A file is found by its place: its path without extension, source roots, and a name that stands for
its folder, such as `mod`. `tokio/src/net/mod.rs` and the module `net` of the crate in `tokio` have
the place `tokio/net`. A place depends only on the path, so it never becomes stale.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterator
from typing import NamedTuple

from codelode.name_resolution import scope, stem

#: Ecosystem → the separator of its modules. Elsewhere, imports are known by their package only.
SEPARATORS = {"crate": "::", "py": ".", "npm": "/", "go": "/", "jvm": "."}

#: Folders that the names of modules leave out, and files that stand for their folder.
_ROOTS = frozenset({"src", "lib", "python", "main", "java", "kotlin", "scala"})
_INDEXES = frozenset({"__init__", "index", "mod", "lib", "main"})

#: Maximum number of parts of a module that name its package.
_KEY_PARTS = 6


class Module(NamedTuple):
    """A module of a package, or a name in one: `("crate", ("tokio", "net", "TcpListener"))`."""

    ecosystem: str
    parts: tuple[str, ...]

    def packages(self) -> Iterator[tuple[str, tuple[str, ...]]]:
        """Yield the keys of packages that may contain it, longest first, with the parts inside.

        A JVM package is published with its source root, so all of the parts are inside.
        """
        join = "." if self.ecosystem == "jvm" else "/"
        for count in range(min(len(self.parts), _KEY_PARTS), 0, -1):
            inside = self.parts if self.ecosystem == "jvm" else self.parts[count:]
            yield f"{self.ecosystem}:{join.join(self.parts[:count])}", inside


def module(ecosystem: str, written: str, name: str = "") -> Module:
    """Return the module of an import as written, or of a name that is imported from it."""
    parts = [*written.split(SEPARATORS[ecosystem]), name]
    return Module(ecosystem, tuple(part for part in parts if part not in ("", "*", "self")))


def place(folder: str, *parts: str) -> str:
    """Return the place of a module in a folder."""
    found = [part for part in (*folder.split("/"), *parts) if part and part not in _ROOTS]
    return "/".join(found)


def places(path: str) -> tuple[str, ...]:
    """Return the places of a file; where a package is a folder, the folder is one too."""
    folder = posixpath.dirname(path)
    own = place(folder) if stem(path) in _INDEXES else place(folder, stem(path))
    return tuple(dict.fromkeys((own, place(folder)))) if scope(path).is_folder else (own,)


def is_below(path: str, of: str) -> bool:
    """Return whether a file is at a place or below it."""
    own = places(path)[0]
    return not of or own == of or own.startswith(f"{of}/")
