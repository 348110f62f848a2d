"""Resolve Python modules below the roots that the interpreter would have in its path.

A root never lies inside a package: `import json` in `flask/app.py` is not `flask/json`. Modules of
the standard library are external even if the repository has one of the same name.
"""

from __future__ import annotations

import posixpath
import re
import sys
from collections.abc import Iterator

from codelode.model import Import
from codelode.references import MODULE
from workers.parse.ecosystems.layout import Layout, above, per_layout
from workers.parse.ecosystems.resolution import EXTERNAL, Resolved, at
from workers.parse.ecosystems.statement import Statement, Statements, names, renamed

_FILES = ("/__init__.py", ".py", "/__init__.pyi", ".pyi", ".pyx", ".pxd")
_INSIDE = ("__init__.py",)  # of the root
_CUSTOMARY_ROOTS = ("src", "lib", "python")

#: Maximum number of imported names that are looked up as modules; further names are ignored.
MAX_NAMES = 64

_COMMENT = re.compile(r"#[^\n]*")


def statements(text: str) -> Statements:
    """Read `import a, b as c` and `from a import b as c`."""
    text = _COMMENT.sub("", text)
    found = re.match(r"from\s+(\S+)\s+import\b(.*)", text, re.DOTALL)
    if found:
        listed = found.group(2)
        yield Statement(found.group(1), names(listed, r"\s+as\s"), renamed(listed))
        return
    for part in text.removeprefix("import").split(","):
        module, _, own = (side.strip(" ()\n\t\\") for side in part.partition(" as "))
        if module:
            yield Statement(module, (), ((own, MODULE),) if own else ())


def resolve(imp: Import, path: str, layout: Layout) -> Resolved:
    """Resolve the named submodules, and the module itself if a name is not a submodule."""
    module = imp.module.lstrip(".")
    level = len(imp.module) - len(module)
    parts = module.split(".") if module else []
    folder = posixpath.dirname(path)
    if level:
        base = posixpath.normpath(posixpath.join(folder, *[".."] * (level - 1), *parts))
        return EXTERNAL if base.startswith("..") else _named(imp, _plain(base), layout)
    if not parts or parts[0] in sys.stdlib_module_names:
        return EXTERNAL
    inner = "/".join(parts)
    for prefix in _roots(layout, folder):
        base = prefix + inner
        if _module(base, layout) or (imp.names and _submodules(imp, base, layout)):
            return _named(imp, base, layout)
    return Resolved(keys=(f"^{parts[0]}", *_partly(imp, parts, folder, layout)))


def _plain(path: str) -> str:
    return "" if path == "." else path


def _named(imp: Import, base: str, layout: Layout) -> Resolved:
    module = _module(base, layout)
    submodules = _submodules(imp, base, layout)
    targets = dict.fromkeys(submodules.values())
    if module and (not submodules or len(submodules) < len(imp.names)):
        targets[module] = None
    if module is not None and not module.startswith(f"{base}/__init__."):
        return Resolved(tuple(targets))
    prefix = f"{base}/" if base else ""
    missing = (name for name in imp.names[:MAX_NAMES] if name != "*" and name not in submodules)
    keys = at(*(prefix + name for name in missing))
    return Resolved(tuple(targets), (*keys, *(() if module else at(base))))


def _submodules(imp: Import, base: str, layout: Layout) -> dict[str, str]:
    """Return the imported names that are modules of the package, with their files."""
    if not imp.names or (base and base not in layout.folders):
        return {}
    prefix = f"{base}/" if base else ""
    found = {name: _module(prefix + name, layout) for name in imp.names[:MAX_NAMES]}
    return {name: path for name, path in found.items() if path and name != "*"}


def _module(base: str, layout: Layout) -> str | None:
    paths = layout.paths
    for suffix in _FILES if base else _INSIDE:
        if base + suffix in paths:
            return base + suffix
    return None


@per_layout
def _roots(layout: Layout, folder: str) -> tuple[str, ...]:
    """Return path prefixes of roots: folders above the file that are not packages, and `src`."""
    roots: dict[str, None] = {}
    for around in above(folder):
        if posixpath.join(around, "__init__.py") not in layout:
            roots[around] = None
        for custom in _CUSTOMARY_ROOTS:
            inner = posixpath.join(around, custom)
            if inner in layout.folders and f"{inner}/__init__.py" not in layout:
                roots[inner] = None
    for place, _ in layout.of_kind("pypi"):
        roots |= dict.fromkeys((place, posixpath.join(place, "src")))
    return tuple(f"{root}/" if root else "" for root in roots)


def _partly(imp: Import, parts: list[str], folder: str, layout: Layout) -> tuple[str, ...]:
    """Return keys of a missing module in a package that exists, and of its names."""
    inner = "/".join(parts)
    roots = [prefix for prefix in _roots(layout, folder) if prefix + parts[0] in layout.folders]
    imported = [name for name in imp.names[:MAX_NAMES] if name != "*"]
    tails = ("", *(f"/{name}" for name in imported))
    return at(*(f"{prefix}{inner}{tail}" for prefix in roots for tail in tails))


def packages(imp: Import) -> Iterator[str]:
    """Yield the top-level package of a module outside the standard library."""
    first = imp.module.split(".")[0]
    if first and first not in sys.stdlib_module_names:
        yield f"py:{first}"


def published(layout: Layout) -> Iterator[tuple[str, str]]:
    """Yield the keys of packages that other repositories may import, with their folders."""
    for path in layout.ending("__init__.py"):
        folder = posixpath.dirname(path)
        around, _, name = folder.rpartition("/")
        is_inner = posixpath.join(around, "__init__.py") in layout
        if folder and not is_inner and (around == "" or _is_root(around, layout)):
            yield f"py:{name}", folder


def _is_root(folder: str, layout: Layout) -> bool:
    places = {place for place, _ in layout.of_kind("pypi")}
    outer, _, last = folder.rpartition("/")
    return folder in places or (last in _CUSTOMARY_ROOTS and (outer in places or not outer))
