"""Resolve Java, Kotlin, Scala and Groovy classes by package and file name, across source sets.

A wildcard import refers to all files of the package, which may be in several platforms and modules.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator, Sequence

from codelode.model import Import
from codelode.name_resolution import stem
from workers.parse.ecosystems.layout import (
    Layout,
    likely,
    nearest_to,
    package_files,
    parts_in_common,
)
from workers.parse.ecosystems.resolution import EXTERNAL, Resolved
from workers.parse.ecosystems.statement import by_pattern

EXTENSIONS = (".java", ".kt", ".scala", ".groovy", ".kts")
_PLATFORM = ("java.", "javax.", "kotlin.", "scala.", "jdk.", "sun.")
_WILDCARDS = ("*", "_")
#: Scala's wildcard for given instances, which may be in a list with names.
_GIVEN = "given"

#: Range of the number of parts of a package's name under which it is published, end exclusive.
_MIN_PARTS, _END_PARTS = 2, 5
_SOURCE_ROOT = re.compile(r"(?:^|/)src/(?:main|commonMain|jvmMain)/(?:java|kotlin|scala)/")

java = by_pattern(r"import\s+(?:static\s+)?(?P<module>[\w.*]+)")
kotlin = by_pattern(r"import\s+(?P<module>[\w.*`]+)(?:\s+as\s+(?P<own>\w+))?")


def resolve(imp: Import, path: str, layout: Layout) -> Resolved:
    """Resolve classes to the nearest file of their name, wildcards to a package."""
    written = imp.module.replace("`", "").rstrip(".")
    parts = [part for part in written.split(".") if part]
    if not parts or f"{written}.".startswith(_PLATFORM):
        return EXTERNAL
    is_wildcard = parts[-1] in (*_WILDCARDS, _GIVEN)
    if is_wildcard:
        parts = parts[:-1]
    members = [[*parts, name] for name in imp.names if name not in (*_WILDCARDS, _GIVEN)]
    if is_wildcard or any(name in _WILDCARDS for name in imp.names):
        return _package(parts, path, layout)
    targets: dict[str, None] = {}
    keys: list[str] = []
    for member in members or [parts]:
        found = _class(member, path, layout)
        targets |= dict.fromkeys([found] if found else ())
        if not found:
            keys += [f"b:{name}{ext}" for name in member[-2:] if name for ext in EXTENSIONS[:3]]
    return Resolved(tuple(targets), tuple(dict.fromkeys(keys)))


def packages(imp: Import) -> Iterator[str]:
    """Yield the package prefixes that a repository may publish."""
    if not f"{imp.module}.".startswith(("java.", "javax.", "kotlin.", "scala.")):
        parts = imp.module.split(".")
        ends = range(_MIN_PARTS, min(len(parts), _END_PARTS))
        yield from (f"jvm:{'.'.join(parts[:n])}" for n in ends)


def published(layout: Layout) -> Iterator[tuple[str, str]]:
    """Yield the package that all files of a source root share, with the root: `org.acme.http`."""
    shared: dict[str, list[str]] = {}
    for path in sorted(layout.paths):
        found = _SOURCE_ROOT.search(path)
        if not found:
            continue
        parts = posixpath.dirname(path[found.end() :]).split("/")
        root = path[: found.end()].rstrip("/")
        known = shared.setdefault(root, parts)
        shared[root] = [a for a, b in zip(known, parts, strict=False) if a == b]
    for root, parts in shared.items():
        if len(parts) >= _MIN_PARTS:
            yield f"jvm:{'.'.join(parts[: _END_PARTS - 1])}", root


def _class(parts: Sequence[str], path: str, layout: Layout) -> str | None:
    """Return the file of a class, or of the class that encloses the named class or member."""
    for length in range(len(parts), max(len(parts) - 3, 1), -1):
        if length < len(parts) and not parts[length - 1][:1].isupper():
            break  # a package: each of its members has its own file
        tail = "/".join(parts[:length])
        found = [file for ext in EXTENSIONS for file in layout.ending(tail + ext)]
        if found:
            return nearest_to(path, likely(path, found) or found)
    return _namesake(parts, path, layout)


def _namesake(parts: Sequence[str], path: str, layout: Layout) -> str | None:
    """Return the file in the package whose name is most similar to the member's.

    For `IntIdTable` that is `IdTable.kt`: in Kotlin and Scala, a file may have several classes and
    functions.
    """
    name = parts[-1].lower()
    found = [
        file
        for folder in likely(path, layout.folders_ending("/".join(parts[:-1])))
        for file in layout.files(folder, ".kt", ".scala")
        if (bare := _stem(file)) in name or name in bare
    ]
    if len(parts) < 3 or not found:
        return None
    heads = [file for file in found if name.endswith(_stem(file))] or found
    closest = min(abs(len(_stem(file)) - len(name)) for file in heads)
    return nearest_to(path, [f for f in heads if abs(len(_stem(f)) - len(name)) == closest])


def _stem(file: str) -> str:
    return stem(file).lower()


def _package(parts: Sequence[str], path: str, layout: Layout) -> Resolved:
    """Resolve `a.b.*`: members of the class `a.b`, else the files of the package.

    Files of the nearest source roots come first.
    """
    if len(parts) > 1 and parts[-1][:1].isupper():
        outer = _class(parts, path, layout)
        if outer:
            return Resolved((outer,))
    if len(parts) < 2:
        return EXTERNAL
    folders = layout.folders_ending("/".join(parts))
    ranked = sorted(likely(path, folders), key=lambda one: _rank(one, path))
    files = [file for folder in ranked for file in layout.files(folder, *EXTENSIONS)]
    if not files:  # an object of that name, or one in the package object
        in_package = layout.ending("/".join((*parts[:-1], "package.scala")))
        found = layout.ending("/".join(parts) + ".scala") or in_package
        files = [one for one in [nearest_to(path, likely(path, found))] if one]
    return Resolved(package_files(files, but=path), (f"f:{parts[-1]}",))


def _rank(folder: str, path: str) -> tuple[bool, bool, int, str]:
    """Order folders: common code first, then the file's own platform, then by nearness."""
    common = {"common", "commonMain", "main", "shared"}
    parts = set(folder.split("/"))
    own = parts & {"jvm", "js", "native", "posix", "jvmMain", "jsMain"} & set(path.split("/"))
    return not parts & common, not own, -parts_in_common(path, f"{folder}/_"), folder
