"""Read the bases, files, patches and images that kustomizations consist of.

A base is a file, or a folder with another kustomization. Inline patches are left out: their `path`
points into an object, and begins with a slash.
"""

from __future__ import annotations

import re

from workers.parse.ecosystems.statement import References

#: Fields whose items are files, or folders with a kustomization.
_BASES = frozenset({"resources", "bases", "components", "generators", "transformers", "validators"})
#: Fields whose items are files.
_FILES = frozenset({"patchesStrategicMerge", "crds", "configurations"})
#: Fields whose items name files among other things.
_NAMING = frozenset(
    {"patches", "patchesJson6902", "replacements", "openapi", "helmCharts"}
    | {"configMapGenerator", "secretGenerator"}
)

_FIELD = re.compile(
    r"^([A-Za-z]\w*):[ \t]*((?:#.*)?|\[[^\]]{0,1000}\][^\n]*)\n((?:(?:[ \t#-].*)?\n)*)",
    re.MULTILINE,
)
_VALUE = r"[\"']?([^\s\"'#\[\]{},|>&*][^\s\"'#,\]}]*)"
_ITEM = re.compile(rf"^([ \t]*)-[ \t]+{_VALUE}[\"']?[ \t]*(?:#.*)?$", re.MULTILINE)
_FLOW_ITEM = re.compile(rf"[\[,]\s*{_VALUE}")
_PATH = re.compile(
    rf"(?:^[ \t]*(?:-[ \t]+)?|[{{,][ \t]*)(?:path|valuesFile|env):[ \t]*{_VALUE}", re.MULTILINE
)
_SOURCES = re.compile(r"^[ \t]*(?:-[ \t]+)?(?:files|envs):[ \t]*\n((?:[ \t]+-.*\n)+)", re.MULTILINE)
_IMAGE = re.compile(
    rf"^(?:[ \t]*+-[ \t]++|[ \t]++)(name|newName):[ \t]*+{_VALUE}|^[ \t]*+(-)", re.MULTILINE
)


def references(text: str) -> References:
    """Read the references of a kustomization, of the kinds `base`, `file` and `image`."""
    for field in _FIELD.finditer(f"{text}\n"):
        name = field.group(1)
        if name in _BASES or name in _FILES:
            yield from _items(text, field, "base" if name in _BASES else "file")
        elif name == "images":
            yield from _images(text, field)
        elif name in _NAMING:
            yield from _named(text, field.start(3), field.end(3))


def _items(text: str, field: re.Match[str], kind: str) -> References:
    """Read the items of a list of paths, not lists inside an item, which are indented further."""
    for found in _FLOW_ITEM.finditer(text, field.start(2), field.end(2)):
        yield found.start(1), found.group(1), kind
    indent = None
    for found in _ITEM.finditer(text, field.start(3), field.end(3)):
        indent = found.group(1) if indent is None else indent
        if found.group(1) == indent and not found.group(2).endswith(":"):
            yield found.start(2), found.group(2), kind


def _named(text: str, start: int, end: int) -> References:
    """Read patches by path, and the files that config maps and secrets contain: `key=file`."""
    for found in _PATH.finditer(text, start, end):
        if not found.group(1).startswith("/"):
            yield found.start(1), found.group(1), "file"
    for block in _SOURCES.finditer(text, start, end):
        for item in _ITEM.finditer(text, block.start(1), block.end(1)):
            yield item.start(2), item.group(2).rpartition("=")[2], "file"


def _images(text: str, field: re.Match[str]) -> References:
    """Read the new name that each item gives its image, or else the image's name."""
    named: tuple[int, str, str] | None = None
    for found in _IMAGE.finditer(text, field.start(3), field.end(3)):
        if named and found.group(0).lstrip().startswith("-"):
            yield named
            named = None
        if found.group(1) and (named is None or found.group(1) == "newName"):
            named = found.start(2), found.group(2), "image"
    if named:
        yield named
