"""Resolve modules that are paths or dotted names below a list of folders.

The languages are Bash, CSS, Dart, Haskell, Lua, Protocol Buffers and Zig.
"""

from __future__ import annotations

import posixpath
import re

from codelode.model import Import
from workers.parse.ecosystems.layout import Layout, above, likely, nearest_to
from workers.parse.ecosystems.resolution import EXTERNAL, Resolved, Resolver, at, first, inside

#: Maximum number of imported names that are looked up as modules; further names are ignored.
_MAX_NAMES = 16


def dotted(*suffixes: str, roots: tuple[str, ...] = ()) -> Resolver:
    """Make a resolver of modules with dots for folders: the nearest one in the repository."""

    def resolve(imp: Import, path: str, layout: Layout) -> Resolved:
        parts = [part for part in imp.module.replace("\\", ".").split(".") if part]
        targets: dict[str, None] = {}
        keys: list[str] = []
        for named in [[*parts, name] for name in imp.names[:_MAX_NAMES]] or [parts]:
            found = _by_tail("/".join(named), path, layout)
            targets |= dict.fromkeys([found] if found else ())
            keys += [] if found else [f"b:{named[-1]}{suffix}" for suffix in suffixes if named]
        return Resolved(tuple(targets), tuple(dict.fromkeys(keys)))

    def _by_tail(tail: str, path: str, layout: Layout) -> str | None:
        if not tail:
            return None
        if "/" not in tail:  # a name alone refers to a file of a root, not any file of that name
            folders = (*above(posixpath.dirname(path)), *roots)
            places = (posixpath.join(root, tail + end) for root in folders for end in suffixes)
            return first(layout, places)
        found = [file for end in suffixes for file in layout.ending(tail + end)]
        return nearest_to(path, likely(path, found))

    return resolve


def by_path(*suffixes: str, roots: tuple[str, ...] = ("",), anywhere: bool = False) -> Resolver:
    """Make a resolver of paths: next to the file, then below the roots, then anywhere."""

    def resolve(imp: Import, path: str, layout: Layout) -> Resolved:
        folder = posixpath.dirname(path)
        folders = (folder,) if imp.module.startswith(".") else (folder, *roots)
        places = [posixpath.join(root, imp.module) + end for root in folders for end in suffixes]
        found = first(layout, places)
        if found is None and anywhere and not imp.module.startswith("."):
            found = nearest_to(path, layout.ending(inside(imp.module)))
        if found:
            return Resolved((found,))
        stems = {posixpath.splitext(place)[0] for one in places if (place := inside(one))}
        return Resolved(keys=at(*sorted(stems)))

    return resolve


_beside = by_path("", roots=())
_beside_or_root = by_path("")


def zig(imp: Import, path: str, layout: Layout) -> Resolved:
    """Resolve a file, or the root file of a module of that name."""
    if imp.module in ("std", "builtin", "root"):
        return EXTERNAL
    if imp.module.endswith((".zig", ".zon")):
        return _beside(imp, path, layout)
    found = first(layout, (f"src/{imp.module}.zig", f"{imp.module}.zig"))
    return Resolved((found,)) if found else Resolved(keys=at(f"src/{imp.module}", imp.module))


_SHELL_VARIABLE = re.compile(r"^(?:\$\{[^}]*\}|\$\([^)]*\)|\$\w+|`[^`]*`)/")


def bash(imp: Import, path: str, layout: Layout) -> Resolved:
    """Resolve a script; a leading variable stands for the script's folder or the root."""
    module = _SHELL_VARIABLE.sub("", imp.module.strip("\"'"))
    if "$" in module or module.startswith("/"):
        return EXTERNAL
    return _beside_or_root(Import(module, imp.line), path, layout)


def dart(imp: Import, path: str, layout: Layout) -> Resolved:
    """Resolve a file, or one below the `lib` of a package of the repository."""
    if imp.module.startswith("dart:"):
        return EXTERNAL
    if not imp.module.startswith("package:"):
        return _beside(imp, path, layout)
    name, _, inner = imp.module.removeprefix("package:").partition("/")
    places = [
        posixpath.join(folder, "lib", inner)
        for folder, facts in layout.of_kind("pub")
        if facts.name == name
    ]
    found = first(layout, places)
    return Resolved((found,)) if found else Resolved(keys=(f"b:{posixpath.basename(inner)}",))
