"""Index the layout of one commit for lookups: its paths, and the facts of its manifests.

Imports are resolved against the layout alone, so the result does not depend on what is indexed. A
layout is built from one listing and the manifests in it, and takes about 250 bytes per path. Each
lookup checks `codelode.deadline`, so that the resolution of any import can be ended.
"""

from __future__ import annotations

import hashlib
import posixpath
import threading
from bisect import bisect_left
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import cached_property, lru_cache, wraps
from typing import Concatenate, ParamSpec, TypeVar, cast

from codelode import deadline
from codelode.model import BlobId, SourceFile
from workers.parse.ecosystems import manifests
from workers.parse.ecosystems.manifests import Facts

_REGULAR = 0o100000

#: Maximum number of files that an import of a package refers to: the first by name.
MAX_PACKAGE_FILES = 32

#: Maximum number of manifests that are read of a repository.
MAX_MANIFESTS = 20_000


class Layout:
    """The paths and manifest facts of one commit. Immutable; indexes are built on first use."""

    def __init__(
        self, paths: Iterable[str], facts: Mapping[str, Facts] | None = None, *, name: str = ""
    ) -> None:
        """Make a layout. `facts`: by path of the manifest; `name`: that of the repository."""
        self.name = name
        self.paths = frozenset(paths)
        self.facts = dict(sorted((facts or {}).items()))
        self.computed: dict[tuple[object, ...], object] = {}  # cached by `per_layout`

    def __contains__(self, path: str) -> bool:
        deadline.check()
        return path in self.paths

    @cached_property
    def _sorted(self) -> list[str]:
        return sorted(self.paths)

    @cached_property
    def _by_name(self) -> dict[str, list[str]]:
        found: defaultdict[str, list[str]] = defaultdict(list)
        for path in self._sorted:
            found[path.rpartition("/")[2]].append(path)
        return dict(found)

    @cached_property
    def _folders(self) -> dict[str, list[str]]:
        """Return the folders by their own names."""
        found: defaultdict[str, list[str]] = defaultdict(list)
        for folder in sorted(self.folders):
            found[folder.rpartition("/")[2]].append(folder)
        return dict(found)

    @cached_property
    def folders(self) -> frozenset[str]:
        """Return every folder with a file in it or below it, without the root."""
        found: set[str] = set()
        for path in self.paths:
            folder = path.rpartition("/")[0]
            while folder and folder not in found:
                found.add(folder)
                folder = folder.rpartition("/")[0]
        return frozenset(found)

    def files(self, folder: str, *extensions: str) -> list[str]:
        """Return the files directly in a folder with one of the extensions, by name."""
        prefix = f"{folder}/" if folder else ""
        return [
            path
            for path in self._below(prefix)
            if "/" not in path[len(prefix) :] and path.endswith(extensions)
        ]

    def _below(self, prefix: str) -> Iterator[str]:
        at = bisect_left(self._sorted, prefix)
        deadline.check()
        while at < len(self._sorted) and self._sorted[at].startswith(prefix):
            path = self._sorted[at]
            yield path
            rest = path[len(prefix) :]
            # Skip all of a deeper folder: `0` is the character after `/`.
            inner = rest.partition("/")
            at = bisect_left(self._sorted, f"{prefix}{inner[0]}0", at + 1) if inner[1] else at + 1

    def ending(self, tail: str) -> list[str]:
        """Return the files whose path is `tail` or ends with `/tail`."""
        deadline.check()
        return [
            path
            for path in self._by_name.get(tail.rpartition("/")[2], ())
            if path == tail or path.endswith(f"/{tail}")
        ]

    def folders_ending(self, tail: str) -> list[str]:
        """Return the folders whose path is `tail` or ends with `/tail`."""
        deadline.check()
        return [
            folder
            for folder in self._folders.get(tail.rpartition("/")[2], ())
            if folder == tail or folder.endswith(f"/{tail}")
        ]

    def of_kind(self, kind: str) -> list[tuple[str, Facts]]:
        """Return the folder and facts of each manifest of a kind: `npm`, `cargo` …"""
        deadline.check()
        return self._kinds.get(kind, [])

    @cached_property
    def _kinds(self) -> dict[str, list[tuple[str, Facts]]]:
        found: defaultdict[str, list[tuple[str, Facts]]] = defaultdict(list)
        for path, facts in self.facts.items():
            found[facts.kind].append((posixpath.dirname(path), facts))
        return dict(found)

    def nearest(self, kind: str, path: str) -> tuple[str, Facts] | None:
        """Return the manifest of the kind in the closest folder at or above the file."""
        by_folder = _first_of_kind(self, kind)
        for folder in above(posixpath.dirname(path)):
            if folder in by_folder:
                return folder, by_folder[folder]
        return None

    def fingerprints(self) -> dict[str, str]:
        """Return a digest of the facts of each kind; files are resolved again when one changes.

        Never empty, so that a layout without manifests differs from a missing one.
        """
        digests = {"layout": "1"}
        for kind, found in sorted(self._kinds.items()):
            said = [(folder, f.name, f.pairs, f.extends) for folder, f in found]
            digests[kind] = hashlib.sha256(repr(said).encode("utf-8", "replace")).hexdigest()[:16]
        return digests


_Arguments = ParamSpec("_Arguments")
_Value = TypeVar("_Value")


def per_layout(
    compute: Callable[Concatenate[Layout, _Arguments], _Value],
) -> Callable[Concatenate[Layout, _Arguments], _Value]:
    """Cache the results of a function of a layout, by its arguments, with the layout."""

    @wraps(compute)
    def computed(layout: Layout, /, *args: _Arguments.args, **kwargs: _Arguments.kwargs) -> _Value:
        key = (compute, *args)
        if key not in layout.computed:
            layout.computed[key] = compute(layout, *args, **kwargs)
        return cast("_Value", layout.computed[key])

    return computed


@per_layout
def _first_of_kind(layout: Layout, kind: str) -> Mapping[str, Facts]:
    """Return the first manifest of a kind in each folder."""
    return dict(reversed(layout.of_kind(kind)))


class Layouts:
    """A thread-safe cache of the layouts used last, with at most `max_paths` paths in total."""

    def __init__(self, *, max_paths: int = 1_000_000) -> None:
        self._max_paths = max_paths
        self._held: OrderedDict[tuple[str, str], Layout] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, repository: str, revision: str, make: Callable[[], Layout]) -> Layout:
        """Return the layout of the commit; concurrent callers wait for the one that builds it."""
        with self._lock:
            key = (repository, revision)
            if key not in self._held:
                self._held[key] = make()
            self._held.move_to_end(key)
            while len(self._held) > 1 and self._size() > self._max_paths:
                self._held.popitem(last=False)
            return self._held[key]

    def _size(self) -> int:
        return sum(len(layout.paths) for layout in self._held.values())


def above(folder: str) -> Iterator[str]:
    """Yield the folder and its ancestors, the root (the empty text) last."""
    while folder:
        yield folder
        folder = folder.rpartition("/")[0]
    yield ""


def read(
    listing: Iterable[SourceFile], content: Callable[[BlobId], bytes], *, name: str = ""
) -> Layout:
    """Build the layout of a commit, without its submodules and links.

    Raises what `content` raises.
    """
    files = [file for file in listing if file.mode & 0o170000 == _REGULAR]
    listed = [file for file in files if manifests.is_manifest(file.path) and _is_read(file)]
    facts = {file.path: _facts(file, content) for file in listed[:MAX_MANIFESTS]}
    return Layout(
        (file.path for file in files),
        {path: found for path, found in facts.items() if found},
        name=name,
    )


#: Folders of third-party code, whose manifests do not describe this repository.
_FOREIGN = ("node_modules/", "vendor/", "third_party/", ".venv/", "site-packages/")


def _is_read(file: SourceFile) -> bool:
    is_foreign = any(f"/{folder}" in f"/{file.path}" for folder in _FOREIGN)
    return not is_foreign and file.size_bytes <= manifests.MAX_MANIFEST_BYTES


def _facts(file: SourceFile, content: Callable[[BlobId], bytes]) -> Facts | None:
    return manifests.read(file.path, content(file.blob).decode("utf-8", "replace"))


def below(folder: str, rest: str) -> str:
    """Return the path of `rest` below a folder; the root is the empty text."""
    path = posixpath.normpath(posixpath.join(folder, rest.strip("/")))
    return "" if path == "." else path


def package_files(files: Sequence[str], *, but: str) -> tuple[str, ...]:
    """Return the files of a package that an import refers to, without the importing file."""
    return tuple(file for file in files if file != but)[:MAX_PACKAGE_FILES]


@lru_cache(maxsize=4_096)
def parts_in_common(path: str, other: str) -> int:
    """Count the folders that two paths share from the root on, a measure of nearness."""
    count = 0
    for mine, theirs in zip(path.split("/")[:-1], other.split("/")[:-1], strict=False):
        if mine != theirs:
            break
        count += 1
    return count


#: Folders whose files are imported only by files in such folders.
_APART = ("test", "tests", "spec", "testing", "fixtures", "testdata", "mock", "mocks", "examples")


def likely(path: str, found: Sequence[str]) -> Sequence[str]:
    """Return the files that are not tests or fixtures; all of them if `path` is one itself."""
    if _is_apart(path):
        return found
    return [one for one in found if not _is_apart(one)]


def _is_apart(path: str) -> bool:
    return any(part in _APART for part in path.lower().split("/")[:-1])


def nearest_to(path: str, found: Collection[str]) -> str | None:
    """Return the path that shares the most folders with `path`; of several, the shortest."""
    if not found:
        return None
    return min(found, key=lambda one: (-parts_in_common(path, one), len(one), one))
