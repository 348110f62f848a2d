"""Terraform, containers, pipelines, charts, manifests and prose: what refers to files by path.

A module of Terraform is a folder and means its files, as a package of Go does.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable
from typing import cast

from codelode.model import Import
from workers.parse.imports.layout import MAX_PACKAGE_FILES, Layout
from workers.parse.imports.resolved import EXTERNAL, Resolved, at
from workers.parse.imports.scripted import first


def _place(path: str, written: str) -> str | None:
    """The place from the file's folder on, None outside the repository."""
    base = posixpath.normpath(posixpath.join(posixpath.dirname(path), written))
    return None if base.startswith(("..", "/")) else "" if base == "." else base


def terraform(imp: Import, path: str, layout: Layout) -> Resolved:
    if not imp.module.startswith("."):
        return EXTERNAL
    folder = _place(path, imp.module)
    if folder is None:
        return EXTERNAL
    files = [file for file in layout.files(folder, ".tf", ".hcl") if file != path]
    return Resolved(tuple(files[:MAX_PACKAGE_FILES]), (f"d:{folder}",))


def dockerfile(imp: Import, path: str, layout: Layout) -> Resolved:
    return EXTERNAL


#: What a reference in YAML is → the files that a path may mean below it.
_INSIDE = {
    "build": ("Dockerfile", "Containerfile"),
    "uses": ("action.yml", "action.yaml", ""),
    "chart": ("Chart.yaml",),
    "file": ("",),
    "base": ("", "kustomization.yaml", "kustomization.yml", "Kustomization"),
}


def yaml(imp: Import, path: str, layout: Layout) -> Resolved:
    """By what it is: `imp.names` holds the kind of the reference."""
    kind = imp.names[0] if imp.names else ""
    if kind not in _INSIDE:
        return EXTERNAL
    written = imp.module.removeprefix("file://")
    if ":" in written:  # of another repository
        return EXTERNAL
    is_relative = written.startswith(".") or kind in ("build", "file", "base")
    if not is_relative and not written.startswith("/"):
        return EXTERNAL
    if kind == "uses" or written.startswith("/"):  # from the repository's root on
        base: str | None = posixpath.normpath(written.lstrip("/"))
    else:
        base = _place(path, written)
    if base is None or base.startswith(".."):
        return EXTERNAL
    found = first(layout, (posixpath.join(base, name) for name in _INSIDE[kind]))
    return Resolved((found,)) if found else Resolved(keys=(*at(base), f"d:{base}"))


_PICTURES = (".png", ".jpg", ".jpeg", ".gif", ".svg", ".webp", ".ico", ".mp4", ".pdf")


def markdown(imp: Import, path: str, layout: Layout) -> Resolved:
    """A link to a file; to a folder, its README."""
    written = re.split(r"[#?]", imp.module, maxsplit=1)[0]
    if not written or written.lower().endswith(_PICTURES):
        return EXTERNAL
    base = written.lstrip("/") if written.startswith("/") else _place(path, written)
    if base is None:
        return EXTERNAL
    names: Iterable[str] = (base, f"{base}.md", f"{base}/README.md", f"{base}/index.md")
    found = first(layout, names) if base else None
    return Resolved((found,)) if found else Resolved(keys=at(posixpath.splitext(base)[0]))


def package(imp: Import, path: str, layout: Layout) -> Resolved:
    """A dependency that a manifest declares: the manifest of the repository's own package."""
    key = ("packages", "")
    if key not in layout.memo:
        layout.memo[key] = {
            f"{facts.kind}:{facts.name}": manifest
            for manifest, facts in reversed(layout.facts.items())
            if facts.name
        }
    found = cast("dict[str, str]", layout.memo[key]).get(imp.module)
    return Resolved((found,) if found else ())
