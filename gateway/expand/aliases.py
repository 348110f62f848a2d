"""Find the uses of a definition, also under a name that an import gives it (`import a as b`).

For a renamed import, the reference index holds the name as written and the file that it comes from
(`codelode.references`). The name of a default export is looked up in the file that exports it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from codelode import references
from codelode.model import LocatedSymbol, Reference, ReferenceKind, RefName, RepositoryName
from codelode.ports import ReferenceIndex


class Use(NamedTuple):
    """A use of a definition in a file, under the definition's own name."""

    path: str
    reference: Reference
    source: str = ""  # the imported file, if the import renames the name


def uses_in(
    repository: RepositoryName,
    ref: RefName,
    paths: Sequence[str],
    kinds: Collection[ReferenceKind],
    index: ReferenceIndex,
) -> list[Use]:
    """Return the uses of these kinds in each file, in one or two round trips."""
    found = [use for use in _all_in(repository, ref, paths, index) if use.reference.kind in kinds]
    asked = {use.source for use in found if use.reference.name == references.DEFAULT}
    held = index.names(repository, ref, sorted(asked)) if asked else {}
    exports = {(path, references.default_of(names)) for path, names in held.items()}
    return [named for use in found for named in _by_exports(use, exports)]


def lines_in(
    repository: RepositoryName,
    ref: RefName,
    paths: Sequence[str],
    kinds: Collection[ReferenceKind],
    index: ReferenceIndex,
) -> dict[tuple[str, Reference], tuple[int, ...]]:
    """Return the lines of each use of these kinds in each file, by path and use."""
    found = uses_in(repository, ref, list(dict.fromkeys(paths)), kinds, index)
    return {(use.path, use.reference): use.reference.lines for use in found}


def uses_of(
    repository: RepositoryName,
    ref: RefName,
    names: Mapping[str, Sequence[LocatedSymbol]],
    kinds: Collection[ReferenceKind],
    index: ReferenceIndex,
) -> list[Use]:
    """Return the uses of the names in all files, given their definitions, in three round trips.

    Their lines are left out, because a name may be used in thousands of files. Only for the few
    files that rename one of the names, all uses are read.
    """
    wanted = dict.fromkeys(Reference(name, kind) for name in names for kind in kinds)
    plain = {references.of_use(use): use for use in wanted}
    defaults = {references.of_use(Reference(n, ReferenceKind.DEFAULT)): n for n in names}
    renamed = {references.of_use(replace(use, written=use.name)) for use in wanted}
    unnamed = {
        references.of_use(Reference(references.DEFAULT, kind, references.DEFAULT)) for kind in kinds
    }
    held = index.files(repository, ref, sorted({*plain, *defaults, *renamed, *unnamed}))
    exports = {
        (at.path, name)
        for mark, name in defaults.items()
        for at in names[name]
        if at.path in held[mark]
    }
    asked = renamed | unnamed if exports else renamed
    renaming = sorted({path for mark in asked for path in held[mark]})
    found = [
        named
        for use in _all_in(repository, ref, renaming, index)
        for named in _by_exports(use, exports)
    ]
    return [
        *(Use(path, use) for mark, use in plain.items() for path in held[mark]),
        *(u for u in found if u.source and replace(u.reference, written="") in wanted),
    ]


def _all_in(
    repository: RepositoryName, ref: RefName, paths: Sequence[str], index: ReferenceIndex
) -> Iterator[Use]:
    for path, names in index.names(repository, ref, paths).items():
        sources = references.sources(names)
        for use in references.uses(names):
            yield Use(path, use, references.source_of(use, sources))


def _by_exports(use: Use, exports: Iterable[tuple[str, str]]) -> Iterator[Use]:
    """Yield the use; for a default export, one use for each name that its file gives it."""
    if use.reference.name != references.DEFAULT:
        yield use
        return
    for path, name in exports:
        if path == use.source and name:
            yield use._replace(reference=replace(use.reference, name=name))
