"""Resolve Go packages: a package is a folder with all files in it.

Every file of a package is compiled, so an edge to a single one would be wrong. Tests are left out;
of a folder with more than MAX_PACKAGE_FILES files, only the first ones count.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterator

from codelode.model import Import
from workers.parse.ecosystems.layout import Layout, below, package_files
from workers.parse.ecosystems.resolution import EXTERNAL, Resolved
from workers.parse.ecosystems.statement import by_pattern

statements = by_pattern(r"(?:(?<!\w)(?P<own>[^\W_]\w*+|_\w++)\s*+)?[\"`](?P<module>[^\"`]+)[\"`]")


def resolve(imp: Import, path: str, layout: Layout) -> Resolved:
    """Resolve a package by the longest module path that go.mod files declare, or a replacement."""
    folder = _folder(imp.module, path, layout)
    if folder is None:
        return EXTERNAL
    files = [file for file in layout.files(folder, ".go") if not file.endswith("_test.go")]
    return Resolved(package_files(files, but=path), (f"d:{folder}",))


def packages(imp: Import) -> Iterator[str]:
    """Yield every prefix that may be a module's path; the import does not show which one is."""
    parts = imp.module.split("/")
    if "." in parts[0]:
        yield from (f"go:{'/'.join(parts[:n])}" for n in range(2, min(len(parts), 6) + 1))


def _folder(module: str, path: str, layout: Layout) -> str | None:
    near = layout.nearest("go", path)
    if near:
        for name, place in near[1].pairs:
            if _is_below(module, name):
                base = posixpath.normpath(posixpath.join(near[0], place))
                if not base.startswith(".."):
                    return below(base, module[len(name) :])
    owners = [(folder, facts.name) for folder, facts in layout.of_kind("go")]
    owners = [(folder, name) for folder, name in owners if _is_below(module, name)]
    if not owners:
        return None
    folder, name = max(owners, key=lambda owner: len(owner[1]))
    return below(folder, module[len(name) :])


def _is_below(module: str, name: str) -> bool:
    return module == name or module.startswith(f"{name}/")
