"""Edges of a parsed file, and its entries in the reference index (`codelode.references`)."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import structlog

from codelode import modules
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
from workers.parse.ecosystems.layout import Layout
from workers.parse.ecosystems.resolution import Resolved
from workers.parse.imports.resolve import packages, resolve
from workers.parse.imports.subjects import subjects_of
from workers.parse.language_table import rules_of

#: Most names of one external import.
MAX_IMPORTED = 64

#: Longest time for resolving the imports of a file, seconds of processor time. Files of real
#: repositories take milliseconds; one import may be looked for among all files of its name.
RESOLVING_S = 2.0

log = structlog.get_logger("workers")


@dataclass(frozen=True, slots=True)
class Links:
    """The edges and reference-index entries of a file."""

    edges: tuple[Edge, ...] = ()  # sorted: files first, then external names
    names: tuple[str, ...] = ()  # sorted, distinct


def links(path: str, parsed: ParsedFile, *, layout: Layout) -> Links:
    """Return one edge per distinct target and kind. A file never depends on itself.

    Imports that are not resolved in time are left out, which is logged.
    """
    imported: dict[str, None] = {}
    external: dict[str, None] = {}
    names: set[str] = set()
    sources: dict[str, str] = {}
    for imp, found in _resolved(path, parsed, layout):
        imported |= dict.fromkeys(found.targets)
        if found.targets:
            sources |= {own: _source(name, found.targets) for own, name in imp.renamed}
        names.update(map(of_waiting, found.keys))
        if not found.targets:
            external[imp.module] = None
            keys = packages(imp, language=parsed.language)
            names.update(map(of_package, keys))
            names.update(map(of_module, _modules(imp, keys)))
    names.update(of_uses(parsed.references, sources))
    if rules_of(parsed.language).packages:
        names.update(map(of_place, modules.places(path)))
    imported.pop(path, None)
    subjects: tuple[str, ...] = ()
    if parsed.category is Category.TEST:
        subjects, missing = subjects_of(path, tuple(imported), layout)
        names |= {of_waiting(f"b:{missing}")} if missing else set()
    edges = [Edge(path, target, EdgeKind.IMPORTS) for target in sorted(imported)]
    edges += [Edge(path, target, EdgeKind.TESTS) for target in sorted(subjects)]
    edges += [Edge(path, target, EdgeKind.IMPORTS, is_external=True) for target in sorted(external)]
    return Links(tuple(edges), distinct_names(names))


def _resolved(path: str, parsed: ParsedFile, layout: Layout) -> Iterator[tuple[Import, Resolved]]:
    """Yield the imports of a file with what they mean, until the time for resolving is over."""
    known: dict[tuple[str, tuple[str, ...]], Resolved] = {}
    spent_s = 0.0
    for number, imp in enumerate(parsed.imports):
        if spent_s > RESOLVING_S:
            left_out = len(parsed.imports) - number
            log.warning("imports_left_out", path=path, imports=left_out, after_s=RESOLVING_S)
            return
        key = (imp.module, imp.names)
        if key not in known:
            started = time.thread_time()
            known[key] = resolve(imp, path=path, language=parsed.language, layout=layout)
            spent_s += time.thread_time() - started
        yield imp, known[key]


def _modules(imp: Import, keys: Sequence[str]) -> Iterator[Module]:
    """Yield what an external import names: each imported name, or else the module."""
    ecosystem = keys[0].partition(":")[0] if keys else ""
    if ecosystem in modules.SEPARATORS:
        for name in imp.names[:MAX_IMPORTED] or ("",):
            yield modules.module(ecosystem, imp.module, name)


def _source(name: str, targets: Sequence[str]) -> str:
    """Return the target that an imported name comes from: the file of that name, or the first."""
    return next((target for target in targets if stem(target) == name), targets[0])
