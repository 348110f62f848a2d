"""Find the unchanged files whose imports a commit makes stale.

They import a file that was added or deleted, or their imports depend on a manifest that changed.
They become ordinary files of the run; their parse results are cached, so only storing them costs
time. A first run has none.
"""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from codelode.ledger import FileManifest
from codelode.model import Edge, FileRecord, FileState
from codelode.references import of_waiting
from workers.parse.ecosystems import jvm
from workers.parse.ecosystems.layout import Layout
from workers.parse.ecosystems.manifests import is_manifest
from workers.parse.ecosystems.resolution import keys_of_path
from workers.parse.language_rules import RULES

#: Extensions for which a name refers to the nearest file of that name.
_RIVALS = tuple({extension for rules in RULES.values() for extension in rules.rivals})


@dataclass(frozen=True, slots=True)
class IndexLookups:
    """Lookups in the index of the ref as it is before the run."""

    exists: Callable[[Sequence[str]], frozenset[str]]
    incoming: Callable[[Sequence[str]], Mapping[str, Sequence[Edge]]]
    waiting: Callable[[Sequence[str]], Collection[str]]  # files with one of these references
    records: Callable[[], Iterable[FileRecord]]
    fingerprints: Mapping[str, str]  # of the layout of the last run; empty on the first run


def concerns_others(manifest: FileManifest, known: IndexLookups) -> bool:
    """Return whether files are added or deleted, or manifests change.

    Other changes concern only the changed files themselves.
    """
    paths = [*(item.path for item in manifest.items), *(one.path for one in manifest.skipped)]
    if not paths:
        return False
    if not known.fingerprints or any(not item.blob for item in manifest.items):
        return True
    return any(map(is_manifest, paths)) or bool(frozenset(paths) - known.exists(paths))


def dependents(manifest: FileManifest, layout: Layout, known: IndexLookups) -> frozenset[str]:
    """Return the paths of the commit to add to the manifest because their imports are stale."""
    if not known.fingerprints:
        return frozenset()
    held = [item.path for item in manifest.items if item.blob]
    held += [record.path for record in manifest.skipped]
    added = frozenset(held) - known.exists(held) if held else frozenset()
    deleted = [item.path for item in manifest.items if not item.blob]
    found = _importers(deleted, known) | _waiting(added, layout, known)
    found |= _importers(_rivals(added, layout), known)
    found |= _of_languages(_changed(layout, known), known)
    listed = {item.path for item in manifest.items}
    return frozenset(path for path in found if path in layout and path not in listed)


def _importers(paths: Sequence[str], known: IndexLookups) -> set[str]:
    edges = known.incoming(paths).values() if paths else ()
    return {edge.source for some in edges for edge in some}


def _waiting(added: frozenset[str], layout: Layout, known: IndexLookups) -> set[str]:
    if not added:
        return set()
    before = Layout(layout.paths - added)
    new_folders = layout.folders - before.folders
    keys = {key for path in added for key in keys_of_path(path, new_folders=new_folders)}
    return set(known.waiting(sorted(map(of_waiting, keys))))


def _rivals(added: frozenset[str], layout: Layout) -> list[str]:
    """Return files whose importers may now refer to a new, nearer file instead.

    These are the files of the same name, and those of the same package if the new file is the first
    in its folder.
    """
    names = {posixpath.basename(path) for path in added if path.endswith(_RIVALS)}
    if not names:
        return []
    before = layout.paths - added
    folders = set(map(posixpath.dirname, before))
    comers = [path for path in added if path.endswith(jvm.EXTENSIONS)]
    packages = {_package(path) for path in comers if posixpath.dirname(path) not in folders}

    def is_rival(path: str) -> bool:
        is_of_package = path.endswith(jvm.EXTENSIONS) and _package(path) in packages
        return is_of_package or posixpath.basename(path) in names

    return list(filter(is_rival, before))


def _package(path: str) -> tuple[str, ...]:
    """Return the last two folders, which files of one package share in every source set."""
    return tuple(path.split("/")[-3:-1])


def _changed(layout: Layout, known: IndexLookups) -> set[str]:
    """Return the languages whose manifests changed."""
    now = layout.fingerprints()
    kinds = {
        kind
        for kind in {*now, *known.fingerprints}
        if now.get(kind) != known.fingerprints.get(kind)
    }
    return {name for name, rules in RULES.items() if kinds & set(rules.manifests)}


def _of_languages(languages: Collection[str], known: IndexLookups) -> set[str]:
    if not languages:
        return set()
    return {
        record.path
        for record in known.records()
        if record.state is FileState.INDEXED and record.language in languages
    }
