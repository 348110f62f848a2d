"""Ruby, PHP, Lua, shells and others: modules that are looked for below a list of folders."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import cast

from codelode.model import Import
from workers.parse.imports.layout import Layout, above, likely, nearest_to
from workers.parse.imports.resolved import EXTERNAL, Resolved, at

Resolver = Callable[[Import, str, Layout], Resolved]


def _normal(path: str) -> str:
    """Without `..`; empty outside the repository."""
    normal = posixpath.normpath(path)
    return "" if normal.startswith(("..", "/")) or normal == "." else normal


def first(layout: Layout, places: Iterable[str]) -> str | None:
    """The first of the places that is a file."""
    return next((path for place in places if (path := _normal(place)) in layout), None)


# Ruby

_RUBY_ROOTS = ("lib", "test", "spec", "")


def ruby(imp: Import, path: str, layout: Layout) -> Resolved:
    module = imp.module.removesuffix(".rb")
    folder = posixpath.dirname(path)
    if module.startswith("."):
        place = _normal(posixpath.join(folder, module))
        found = first(layout, (f"{place}.rb", place))
        return Resolved((found,)) if found else Resolved(keys=at(place) if place else ())
    if module.startswith("/"):
        return EXTERNAL
    roots = [posixpath.join(around, root) for around in above(folder) for root in _RUBY_ROOTS]
    gems = [posixpath.join(place, "lib") for place, _ in layout.of_kind("gem")]
    found = first(layout, (posixpath.join(root, f"{module}.rb") for root in [*roots, *gems]))
    if found is None:
        found = nearest_to(path, layout.ending(f"lib/{module}.rb"))
    return Resolved((found,)) if found else Resolved(keys=(f"b:{posixpath.basename(module)}.rb",))


# PHP


def php(imp: Import, path: str, layout: Layout) -> Resolved:
    if imp.module.endswith((".php", ".inc", ".phtml")):
        return _php_file(imp.module, path, layout)
    targets: dict[str, None] = {}
    keys: list[str] = []
    prefix = imp.module.strip("\\")
    for name in [f"{prefix}\\{one}" for one in imp.names] or [prefix]:
        places = list(_psr(name, layout))
        found = first(layout, places)
        if found is None and name.count("\\") > 1:
            tail = "/".join(name.split("\\")[-2:]) + ".php"
            found = nearest_to(path, likely(path, layout.ending(tail))) if not places else None
        targets |= dict.fromkeys([found] if found else ())
        if found is None:
            last = name.rpartition("\\")[2]
            keys += at(*(place.removesuffix(".php") for place in places)) or [f"b:{last}.php"]
    return Resolved(tuple(targets), tuple(dict.fromkeys(keys)))


def _psr(name: str, layout: Layout) -> Iterator[str]:
    """Places of a class by the autoload rules, the longest prefix first."""
    rules = _psr_rules(layout)
    parts = name.split("\\")
    for length in range(len(parts) - 1, -1, -1):
        prefix = "".join(f"{part}\\" for part in parts[:length])
        for folder in rules.get(prefix, ()):
            place = posixpath.join(folder, *parts[length:])
            yield _normal(f"{place}.php")
            if not parts[-1][:1].isupper():  # a function: of no class, in a file of them
                yield _normal(posixpath.join(posixpath.dirname(place), "functions.php"))


def _psr_rules(layout: Layout) -> dict[str, tuple[str, ...]]:
    """Prefix of namespaces → folders."""
    key = ("psr", "")
    if key not in layout.memo:
        rules: dict[str, tuple[str, ...]] = {}
        for folder, facts in layout.of_kind("composer"):
            for pair, to in facts.pairs:
                prefix = pair.rpartition(" ")[0]
                rules[prefix] = (*rules.get(prefix, ()), posixpath.join(folder, to))
        layout.memo[key] = rules
    return cast("dict[str, tuple[str, ...]]", layout.memo[key])


def _php_file(written: str, path: str, layout: Layout) -> Resolved:
    name = written.lstrip("/")
    place = _normal(posixpath.join(posixpath.dirname(path), name))
    found = first(layout, (place, name))
    return Resolved((found,)) if found else Resolved(keys=(f"b:{posixpath.basename(name)}",))


# Others


def dotted(*suffixes: str, roots: tuple[str, ...] = ()) -> Resolver:
    """Modules with dots for folders, anywhere in the repository: the nearest one."""

    def resolve(imp: Import, path: str, layout: Layout) -> Resolved:
        parts = [part for part in imp.module.replace("\\", ".").split(".") if part]
        targets: dict[str, None] = {}
        keys: list[str] = []
        for named in [[*parts, name] for name in imp.names[:16]] or [parts]:
            found = _by_tail("/".join(named), path, layout)
            targets |= dict.fromkeys([found] if found else ())
            keys += [] if found else [f"b:{named[-1]}{suffix}" for suffix in suffixes if named]
        return Resolved(tuple(targets), tuple(dict.fromkeys(keys)))

    def _by_tail(tail: str, path: str, layout: Layout) -> str | None:
        if not tail:
            return None
        if "/" not in tail:  # a name alone means a file of a root, not any file of that name
            folders = (*above(posixpath.dirname(path)), *roots)
            places = (posixpath.join(root, tail + end) for root in folders for end in suffixes)
            return first(layout, places)
        found = [file for end in suffixes for file in layout.ending(tail + end)]
        return nearest_to(path, likely(path, found))

    return resolve


def by_path(*suffixes: str, roots: tuple[str, ...] = ("",), anywhere: bool = False) -> Resolver:
    """Modules that are paths: beside the file, then below the roots, then anywhere."""

    def resolve(imp: Import, path: str, layout: Layout) -> Resolved:
        folder = posixpath.dirname(path)
        folders = (folder,) if imp.module.startswith(".") else (folder, *roots)
        places = [posixpath.join(root, imp.module) + end for root in folders for end in suffixes]
        found = first(layout, places)
        if found is None and anywhere and not imp.module.startswith("."):
            found = nearest_to(path, layout.ending(_normal(imp.module)))
        if found:
            return Resolved((found,))
        stems = {posixpath.splitext(place)[0] for one in places if (place := _normal(one))}
        return Resolved(keys=at(*sorted(stems)))

    return resolve


def zig(imp: Import, path: str, layout: Layout) -> Resolved:
    """A file, or the root file of a module of that name."""
    if imp.module in ("std", "builtin", "root"):
        return EXTERNAL
    if imp.module.endswith((".zig", ".zon")):
        return by_path("", roots=())(imp, path, layout)
    found = first(layout, (f"src/{imp.module}.zig", f"{imp.module}.zig"))
    return Resolved((found,)) if found else Resolved(keys=at(f"src/{imp.module}", imp.module))


_SHELL_VARIABLE = re.compile(r"^(?:\$\{[^}]*\}|\$\([^)]*\)|\$\w+|`[^`]*`)/")


def bash(imp: Import, path: str, layout: Layout) -> Resolved:
    """A leading variable stands for the script's folder or the repository's root."""
    module = _SHELL_VARIABLE.sub("", imp.module.strip("\"'"))
    if "$" in module or module.startswith("/"):
        return EXTERNAL
    return by_path("")(Import(module, imp.line), path, layout)


#: Folders below which a module's path begins, in projects and in what Phoenix generates.
_ELIXIR_ROOTS = ("lib/", "support/", "test/", "controllers/", "live/", "views/", "schemas/")


def elixir(imp: Import, path: str, layout: Layout) -> Resolved:
    """`Plug.Conn.Query` → `…/plug/conn/query.ex`."""
    targets: dict[str, None] = {}
    keys: list[str] = []
    prefix = imp.module.rstrip(".")
    for module in [f"{prefix}.{name}" for name in imp.names] or [prefix]:
        if not module[:1].isupper():
            continue
        parts = [_snake(part) for part in module.split(".")]
        found = _elixir_file(parts, path, layout)
        keys += [] if found else [f"b:{parts[-1]}.ex"]
        if found is None and len(parts) > 2:  # a module inside the file of another
            found = _elixir_file(parts[:-1], path, layout)
        targets |= dict.fromkeys([found] if found else ())
    return Resolved(tuple(targets), tuple(keys))


def _elixir_file(parts: Sequence[str], path: str, layout: Layout) -> str | None:
    tail = "/".join(parts)
    files = [
        file
        for end in (".ex", ".exs")
        for file in layout.ending(tail + end)
        if file.removesuffix(tail + end).endswith(_ELIXIR_ROOTS)
    ]
    return nearest_to(path, files)


def _snake(name: str) -> str:
    name = re.sub(r"([A-Z]+)([A-Z][a-z])", r"\1_\2", name)
    return re.sub(r"([a-z0-9])([A-Z])", r"\1_\2", name).lower()


def dart(imp: Import, path: str, layout: Layout) -> Resolved:
    if imp.module.startswith("dart:"):
        return EXTERNAL
    if not imp.module.startswith("package:"):
        return by_path("", roots=())(imp, path, layout)
    name, _, inner = imp.module.removeprefix("package:").partition("/")
    places = [
        posixpath.join(folder, "lib", inner)
        for folder, facts in layout.of_kind("pub")
        if facts.name == name
    ]
    found = first(layout, places)
    return Resolved((found,)) if found else Resolved(keys=(f"b:{posixpath.basename(inner)}",))
