"""Which unchanged files a commit makes resolve anew: they import what came, what left, or by rules
of a manifest that changed.

They join the run as work like any other; their contents are known, so that storing is all they
cost. A first run has none.
"""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from codelode.model import Edge, FileRecord, FileState
from codelode.ports import FileManifest
from codelode.references import of_waiting
from workers.parse.imports.compiled import JVM_FILES
from workers.parse.imports.layout import Layout
from workers.parse.imports.manifests import is_manifest
from workers.parse.imports.resolve import LANGUAGES_OF
from workers.parse.imports.resolved import keys_of_path

#: Languages of which the nearest file is meant where several have the name.
_NEAREST = (*JVM_FILES, ".rb", ".lua", ".php")


@dataclass(frozen=True, slots=True)
class Known:
    """What the index knows of the ref before the run: how to ask."""

    exists: Callable[[Sequence[str]], frozenset[str]]
    incoming: Callable[[Sequence[str]], Mapping[str, Sequence[Edge]]]
    waiting: Callable[[Sequence[str]], Collection[str]]  # files that have one of the names
    records: Callable[[], Iterable[FileRecord]]
    fingerprints: Mapping[str, str]  # of the layout that was resolved against; empty: none was


def concerns_others(manifest: FileManifest, known: Known) -> bool:
    """Whether files come or leave, or manifests change: contents alone concern nobody else."""
    paths = [*(item.path for item in manifest.items), *(one.path for one in manifest.skipped)]
    if not paths:
        return False
    if not known.fingerprints or any(not item.blob for item in manifest.items):
        return True
    return any(map(is_manifest, paths)) or bool(frozenset(paths) - known.exists(paths))


def dependents(manifest: FileManifest, layout: Layout, known: Known) -> frozenset[str]:
    """Paths of the commit that are not in the manifest and have to be."""
    if not known.fingerprints:
        return frozenset()
    held = [item.path for item in manifest.items if item.blob]
    held += [record.path for record in manifest.skipped]
    arrived = frozenset(held) - known.exists(held) if held else frozenset()
    gone = [item.path for item in manifest.items if not item.blob]
    found = _importers(gone, known) | _waiting(arrived, layout, known)
    found |= _importers(_rivals(arrived, layout), known)
    found |= _of_languages(_changed(layout, known), known)
    listed = {item.path for item in manifest.items}
    return frozenset(path for path in found if path in layout and path not in listed)


def _importers(paths: Sequence[str], known: Known) -> set[str]:
    edges = known.incoming(paths).values() if paths else ()
    return {edge.source for some in edges for edge in some}


def _waiting(arrived: frozenset[str], layout: Layout, known: Known) -> set[str]:
    if not arrived:
        return set()
    before = Layout(layout.paths - arrived)
    new_folders = layout.folders - before.folders
    keys = {key for path in arrived for key in keys_of_path(path, new_folders=new_folders)}
    return set(known.waiting(sorted(map(of_waiting, keys))))


def _rivals(arrived: frozenset[str], layout: Layout) -> list[str]:
    """Files that one which arrived may be nearer than to those who import them: files of its name,
    and those of its package where it is the first in a folder of its own.
    """
    names = {posixpath.basename(path) for path in arrived if path.endswith(_NEAREST)}
    if not names:
        return []
    before = layout.paths - arrived
    folders = set(map(posixpath.dirname, before))
    comers = [path for path in arrived if path.endswith(JVM_FILES)]
    packages = {_package(path) for path in comers if posixpath.dirname(path) not in folders}

    def is_rival(path: str) -> bool:
        is_of_package = path.endswith(JVM_FILES) and _package(path) in packages
        return is_of_package or posixpath.basename(path) in names

    return list(filter(is_rival, before))


def _package(path: str) -> tuple[str, ...]:
    """The end of its name, which files of one package share in every source set."""
    return tuple(path.split("/")[-3:-1])


def _changed(layout: Layout, known: Known) -> set[str]:
    """Languages whose manifests say something else now."""
    now = layout.fingerprints()
    kinds = {
        kind
        for kind in {*now, *known.fingerprints}
        if now.get(kind) != known.fingerprints.get(kind)
    }
    return {language for kind in kinds for language in LANGUAGES_OF.get(kind, ())}


def _of_languages(languages: Collection[str], known: Known) -> set[str]:
    if not languages:
        return set()
    return {
        record.path
        for record in known.records()
        if record.state is FileState.INDEXED and record.language in languages
    }
