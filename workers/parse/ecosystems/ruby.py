"""Resolve Ruby files below the load paths around the file and below the `lib` of each gem."""

from __future__ import annotations

import posixpath
from collections.abc import Iterator

from codelode.model import Import
from workers.parse.ecosystems.layout import Layout, above, nearest_to
from workers.parse.ecosystems.resolution import EXTERNAL, Resolved, at, first, inside
from workers.parse.ecosystems.statement import QUOTED, Statement, Statements

_LOAD_PATHS = ("lib", "test", "spec", "")


def statements(text: str) -> Statements:
    """Read `require "a/b"` and `require_relative "b"`."""
    for module in QUOTED.findall(text)[:1]:
        is_relative = text.startswith("require_relative") and not module.startswith(".")
        yield Statement(f"./{module}" if is_relative else module)


def resolve(imp: Import, path: str, layout: Layout) -> Resolved:
    """Resolve a file by its path without extension."""
    module = imp.module.removesuffix(".rb")
    folder = posixpath.dirname(path)
    if module.startswith("."):
        place = inside(posixpath.join(folder, module))
        found = first(layout, (f"{place}.rb", place))
        return Resolved((found,)) if found else Resolved(keys=at(place) if place else ())
    if module.startswith("/"):
        return EXTERNAL
    roots = [posixpath.join(around, root) for around in above(folder) for root in _LOAD_PATHS]
    gems = [posixpath.join(place, "lib") for place, _ in layout.of_kind("gem")]
    found = first(layout, (posixpath.join(root, f"{module}.rb") for root in [*roots, *gems]))
    if found is None:
        found = nearest_to(path, layout.ending(f"lib/{module}.rb"))
    return Resolved((found,)) if found else Resolved(keys=(f"b:{posixpath.basename(module)}.rb",))


def packages(imp: Import) -> Iterator[str]:
    """Yield the gems that a required path may come from: `a/b` from `a` or `a-b`."""
    if imp.module[:1] not in "./":
        yield f"gem:{imp.module.split('/')[0]}"
        if "/" in imp.module:
            yield f"gem:{imp.module.replace('/', '-')}"
