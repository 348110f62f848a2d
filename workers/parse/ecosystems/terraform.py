"""Resolve Terraform modules: local ones are folders; others are in git or in a registry."""

from __future__ import annotations

import re
from collections.abc import Iterator

from codelode.model import Import
from workers.parse.ecosystems.layout import MAX_PACKAGE_FILES, Layout
from workers.parse.ecosystems.resolution import EXTERNAL, Resolved, beside, repository_key
from workers.parse.ecosystems.statement import References

#: Number of characters of a module block in which its source is searched.
_MAX_SOURCE_CHARS = 4_000
_MODULE = re.compile(r"^module\s+\"[^\"]*\"\s*\{", re.MULTILINE)
_SOURCE = re.compile(r"^[^\S\n]*+source\s*+=\s*+\"([^\"]++)\"", re.MULTILINE)
_REGISTRY = re.compile(r"^(?:(?=[^/.]++\.)[\w.-]++/)?([\w-]+)/([\w-]+)/([\w-]+)$")


def references(text: str) -> References:
    """Read the source of each module block."""
    for block in _MODULE.finditer(text):
        found = _SOURCE.search(text, block.end(), block.end() + _MAX_SOURCE_CHARS)
        if found:
            yield found.start(1), found.group(1), ""


def resolve(imp: Import, path: str, layout: Layout) -> Resolved:
    """Resolve a local module to the files of its folder."""
    folder = beside(path, imp.module) if imp.module.startswith(".") else None
    if folder is None:
        return EXTERNAL
    files = [file for file in layout.files(folder, ".tf", ".hcl") if file != path]
    return Resolved(tuple(files[:MAX_PACKAGE_FILES]), (f"d:{folder}",))


def packages(imp: Import) -> Iterator[str]:
    """Yield the repository of a git address, or that of a registry module, by its naming rule."""
    source = imp.module.split("?")[0]
    if source.startswith("."):
        return
    found = _REGISTRY.match(source.split("//")[0])
    if found and not source.startswith(("git", "http")):
        namespace, name, provider = found.groups()
        yield f"repo:{namespace}/terraform-{provider}-{name}".lower()
        return
    address = re.sub(r"^(?:git::)?(?:\w+://)?(?:[^@/]+@)?", "", source).split("//")[0]
    yield repository_key(address.replace(":", "/"))
