"""List what folders contain, from the records of the files of a ref.

The ledger has one record for each file. Reading those of 100,000 files takes about a second, so
they are cached until the state of the ref changes. A listing then takes time linear in the number
of files at any depth below its folder.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import takewhile
from threading import Lock
from typing import NamedTuple

from codelode import deadline
from codelode.model import FileRecord, RefStatus, RepositoryName

#: Maximum number of cached files of all refs together; each takes about 300 bytes.
MAX_KEPT = 100_000


class KnownFile(NamedTuple):
    """A file as a listing shows it."""

    path: str
    state: str
    language: str


@dataclass(frozen=True, slots=True)
class FolderEntry:
    """A file or a folder in a folder."""

    name: str
    is_folder: bool
    state: str = ""  # of a file; only an indexed one can be read
    language: str = ""


@dataclass(slots=True)
class KnownFiles:
    """Caches the files of the most recently listed refs. Thread-safe."""

    most: int = MAX_KEPT
    _kept: OrderedDict[tuple[RepositoryName, RefStatus], Sequence[KnownFile]] = field(
        default_factory=OrderedDict
    )
    _lock: Lock = field(default_factory=Lock)

    def get(
        self, name: RepositoryName, at: RefStatus, records: Callable[[], Iterable[FileRecord]]
    ) -> Sequence[KnownFile]:
        """Return the files of a ref in this state, by path; `records` reads their records."""
        with self._lock:
            found = self._kept.pop((name, at), None)
        known = sorted(_known(records())) if found is None else found
        with self._lock:
            self._kept[name, at] = known
            while sum(map(len, self._kept.values())) > self.most:
                self._kept.popitem(last=False)
        return known


def entries(files: Sequence[KnownFile], folder: str) -> list[FolderEntry]:
    """Return what the folder contains: folders first, each kind by name; the root is ""."""
    prefix = f"{folder}/" if folder else ""
    below = files[bisect_left(files, (prefix,)) :] if prefix else files
    found: dict[str, FolderEntry] = {}
    for file in takewhile(lambda one: one.path.startswith(prefix), below):
        deadline.check()
        name, slash, _ = file.path[len(prefix) :].partition("/")
        found[name] = (
            FolderEntry(name, True)
            if slash
            else FolderEntry(name, False, file.state, file.language)
        )
    return sorted(found.values(), key=order)


def has_file(files: Sequence[KnownFile], path: str) -> bool:
    """Return whether a file has exactly this path."""
    at = bisect_left(files, (path,))
    return at < len(files) and files[at].path == path


def order(entry: FolderEntry) -> tuple[str, str]:
    """Return the sort key of an entry."""
    return ("file" if not entry.is_folder else "", entry.name)


def _known(records: Iterable[FileRecord]) -> Iterator[KnownFile]:
    """Yield the files of the ref, without those that are about to be removed."""
    for record in records:
        deadline.check()
        if record.blob:
            yield KnownFile(record.path, record.state.value, record.language)
