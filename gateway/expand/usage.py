"""Find the files that a file calls or inherits from, and the files that call or inherit from it.

These relations are not stored: each query resolves the names that files use. A match by name alone
does not relate two files.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence

from codelode.model import FileKey, ReferenceKind, RefName, RepositoryName
from codelode.name_resolution import Confidence
from gateway.expand.callees import resolve_uses
from gateway.expand.callers import exported, users
from gateway.expand.subject import CALLS
from gateway.state import Backends, FileRelation

_KINDS = (*CALLS, ReferenceKind.IMPLEMENTATION)

#: Number of the first definitions of a file whose users are looked up. Chosen by hand.
MAX_NAMES = 50


def related_by_use(
    files: Sequence[FileKey], ref: RefName, backends: Backends
) -> dict[FileKey, list[tuple[FileRelation, str]]]:
    """Return the files that each file calls or inherits from, or that call or inherit from it."""
    found: dict[FileKey, list[tuple[FileRelation, str]]] = {file: [] for file in files}
    if backends.references is None or backends.symbols is None:
        return found
    paths: dict[RepositoryName, list[str]] = defaultdict(list)
    for repository, path in files:
        paths[repository].append(path)
    for repository, some in paths.items():
        for user, kind, used in (
            *_used(repository, ref, some, backends),
            *_using(repository, ref, some, backends),
        ):
            for path, other in ((user, used), (used, user)):
                if path in some and path != other:
                    found[repository, path].append((_relation(kind), other))
    return found


def _relation(kind: ReferenceKind) -> FileRelation:
    is_base = kind is ReferenceKind.IMPLEMENTATION
    return FileRelation.INTERFACE_OF if is_base else FileRelation.CALLS


def _used(
    repository: RepositoryName, ref: RefName, paths: Sequence[str], backends: Backends
) -> Iterator[tuple[str, ReferenceKind, str]]:
    """Yield using file, kind, and used file for each use in the files."""
    for path, uses in resolve_uses(repository, ref, paths, _KINDS, backends).items():
        for use, meanings in uses.items():
            for one in meanings:
                if one.confidence is not Confidence.NAME:
                    yield path, use.kind, one.definition.path


def _using(
    repository: RepositoryName, ref: RefName, paths: Sequence[str], backends: Backends
) -> Iterator[tuple[str, ReferenceKind, str]]:
    """Yield using file, kind, and used file for each use of what the files define."""
    assert backends.symbols is not None
    defined = backends.symbols.defined_in(repository, ref, paths)
    names = exported(at for some in defined.values() for at in some[:MAX_NAMES])
    for one in users(repository, ref, names, _KINDS, backends):
        if one.confidence is not Confidence.NAME:
            yield one.path, one.use.kind, one.of.path
