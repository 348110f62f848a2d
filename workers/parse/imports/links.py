"""Make the edges of a parsed file, and its entries in the reference index.

See `codelode.references` for the entries.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import structlog

from codelode import deadline, modules
from codelode.errors import TimedOut
from codelode.model import Category, Edge, EdgeKind, Import, ParsedFile
from codelode.modules import Module
from codelode.name_resolution import stem
from codelode.references import (
    distinct_names,
    of_module,
    of_package,
    of_place,
    of_uses,
    of_waiting,
)
from workers.parse.ecosystems import dependencies
from workers.parse.ecosystems.layout import Layout
from workers.parse.ecosystems.resolution import EXTERNAL, Resolved
from workers.parse.imports.statements import is_sound
from workers.parse.imports.subjects import subjects_of
from workers.parse.language_rules import rules_of

#: Maximum number of names of an external import.
MAX_IMPORTED = 64

#: Time limit for resolving the imports of a file, seconds of processor time. Real files take
#: milliseconds, but one import may be compared with all files of its name, or with thousands of
#: rules in manifests.
RESOLVING_S = 2.0

log = structlog.get_logger("workers")


@dataclass(frozen=True, slots=True)
class Links:
    """The edges and reference-index entries of a file."""

    edges: tuple[Edge, ...] = ()  # sorted: files first, then external names
    names: tuple[str, ...] = ()  # sorted, distinct


def links(path: str, parsed: ParsedFile, *, layout: Layout, time_s: float = RESOLVING_S) -> Links:
    """Return one edge per distinct target and kind. A file never depends on itself.

    Imports that are not resolved within `time_s` of processor time are left out and logged.
    """
    with deadline.calling(min(time_s, RESOLVING_S), time.thread_time):
        resolved = _resolved(path, parsed, layout)
        imported = {target: None for _, found in resolved for target in found.targets}
        imported.pop(path, None)
        subjects, missing = _subjects(path, parsed, tuple(imported), layout)
    external = {imp.module for imp, found in resolved if not found.targets}
    edges = [Edge(path, target, EdgeKind.IMPORTS) for target in sorted(imported)]
    edges += [Edge(path, target, EdgeKind.TESTS) for target in sorted(subjects)]
    edges += [Edge(path, target, EdgeKind.IMPORTS, is_external=True) for target in sorted(external)]
    waiting = {of_waiting(f"b:{missing}")} if missing else set()
    return Links(tuple(edges), distinct_names(waiting | _names(path, parsed, resolved)))


def resolve(imp: Import, *, path: str, language: str, layout: Layout) -> Resolved:
    """Return the files that an import in the file at `path` refers to, possibly itself."""
    resolver = dependencies.resolve if _is_dependency(imp) else rules_of(language).resolve
    if resolver is None or not is_sound(imp):
        return EXTERNAL
    return resolver(imp, path, layout)


def packages(imp: Import, *, language: str) -> tuple[str, ...]:
    """Return the keys of the packages that an external import may come from."""
    keys = dependencies.packages if _is_dependency(imp) else rules_of(language).packages
    return tuple(keys(imp)) if keys else ()


def _is_dependency(imp: Import) -> bool:
    return imp.names[:1] == (dependencies.KIND,)


_Resolved = Sequence[tuple[Import, Resolved]]


def _resolved(path: str, parsed: ParsedFile, layout: Layout) -> _Resolved:
    """Resolve the imports of a file until the time limit is reached."""
    known: dict[tuple[str, tuple[str, ...]], Resolved] = {}
    resolved: list[tuple[Import, Resolved]] = []
    for imp in parsed.imports:
        key = (imp.module, imp.names)
        try:
            if key not in known:
                known[key] = resolve(imp, path=path, language=parsed.language, layout=layout)
        except TimedOut:
            left_out = len(parsed.imports) - len(resolved)
            log.warning("imports_left_out", path=path, imports=left_out)
            break
        resolved.append((imp, known[key]))
    return resolved


def _subjects(
    path: str, parsed: ParsedFile, imported: Sequence[str], layout: Layout
) -> tuple[tuple[str, ...], str]:
    """Return the files that a test is about; if there is none, the name that it would have."""
    if parsed.category is not Category.TEST:
        return (), ""
    try:
        return subjects_of(path, imported, layout)
    except TimedOut:
        return (), ""


def _names(path: str, parsed: ParsedFile, resolved: _Resolved) -> set[str]:
    """Return the entries of the file's imports and uses in the reference index."""
    names: set[str] = set()
    sources: dict[str, str] = {}
    for imp, found in resolved:
        names.update(map(of_waiting, found.keys))
        if found.targets:
            sources |= {own: _source(name, found.targets) for own, name in imp.renamed}
            continue
        keys = packages(imp, language=parsed.language)
        names.update(map(of_package, keys))
        names.update(map(of_module, _modules(imp, keys)))
    names.update(of_uses(parsed.references, sources))
    if rules_of(parsed.language).packages:
        names.update(map(of_place, modules.places(path)))
    return names


def _modules(imp: Import, keys: Sequence[str]) -> Iterator[Module]:
    """Yield each name that an external import names, or else the module itself."""
    ecosystem = keys[0].partition(":")[0] if keys else ""
    if ecosystem in modules.SEPARATORS:
        for name in imp.names[:MAX_IMPORTED] or ("",):
            yield modules.module(ecosystem, imp.module, name)


def _source(name: str, targets: Sequence[str]) -> str:
    """Return the target that defines an imported name: the file of that name, or the first."""
    return next((target for target in targets if stem(target) == name), targets[0])
