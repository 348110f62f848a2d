"""Resolve C# namespaces to the files of the folder that corresponds to them by convention."""

from __future__ import annotations

from collections.abc import Iterator

from codelode.model import Import
from workers.parse.ecosystems.layout import Layout, below, package_files
from workers.parse.ecosystems.resolution import EXTERNAL, Resolved
from workers.parse.ecosystems.statement import by_pattern

_PLATFORM = ("System", "Microsoft", "Windows", "Xunit", "NUnit")

statements = by_pattern(
    r"using\s+(?:static\s+)?(?:(?P<own>\w+)\s*=\s*)?(?:global::)?(?P<module>[\w.]+)"
)


def resolve(imp: Import, path: str, layout: Layout) -> Resolved:
    """Resolve a namespace: the root namespace of a project, then a folder for each part."""
    parts = imp.module.split(".")
    folders = list(dict.fromkeys(_folders(imp.module, layout)))
    keys = (*(f"d:{folder}" for folder in folders[:4]), f"f:{parts[-1]}")
    for folder in folders:
        files = package_files(layout.files(folder, ".cs"), but=path)
        if files:
            return Resolved(files, keys)
    return EXTERNAL if parts[0] in _PLATFORM else Resolved(keys=keys)


def _folders(namespace: str, layout: Layout) -> Iterator[str]:
    projects = [
        (folder, dict(facts.pairs).get("<root>", "")) for folder, facts in layout.of_kind("nuget")
    ]
    owners = [(folder, root) for folder, root in projects if root and _is_below(namespace, root)]
    for folder, root in sorted(owners, key=lambda owner: (-len(owner[1]), owner[0])):
        rest = namespace[len(root) :].strip(".")
        yield below(folder, rest.replace(".", "/"))
        if "." in rest:
            yield below(folder, rest)
    tail = namespace.replace(".", "/")
    if "/" in tail or not owners:
        found = [*layout.folders_ending(tail), *layout.folders_ending(namespace)]
        yield from sorted(found, key=lambda one: (len(one), one))


def _is_below(namespace: str, root: str) -> bool:
    return namespace == root or namespace.startswith(f"{root}.")
