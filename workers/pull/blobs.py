"""Read file contents by blob id from the mirrors; implements the port `BlobSource`."""

from __future__ import annotations

import os
import re
import threading
import time
from collections import OrderedDict
from collections.abc import Iterator, Sequence

from codelode.errors import NotFound, Unavailable
from codelode.model import BlobId, RepositoryName, Revision, SourceFile
from workers.pull import tree
from workers.pull.mirror import Mirrors
from workers.pull.objects import Objects

#: Maximum number of open readers; beyond it, the least recently used one is closed.
MAX_READERS = 8

#: Time after which an unused reader is closed, seconds: the reader of a removed repository keeps
#: the disk space of deleted packs in use.
IDLE_S = 30.0

REGULAR = 0o100000

_BLOB = re.compile(r"[0-9a-f]{40}")


class GitBlobs:
    """One long-lived reader per mirror, shared by threads. A forked process gets its own."""

    def __init__(
        self, mirrors: Mirrors, *, max_readers: int = MAX_READERS, idle_s: float = IDLE_S
    ) -> None:
        self._mirrors = mirrors
        self._max_readers = max_readers
        self._idle_s = idle_s
        self._start_empty()

    def _start_empty(self) -> None:
        self._pid = os.getpid()
        self._lock = threading.Lock()
        self._readers: OrderedDict[RepositoryName, Objects] = OrderedDict()
        self._read_at: dict[RepositoryName, float] = {}
        self._watch: threading.Timer | None = None

    def read(self, repository: RepositoryName, blob: BlobId) -> bytes:
        if not _BLOB.fullmatch(blob):
            raise NotFound(f"{blob!r} is not the id of a file's content")
        content = self._read_shared(repository, blob)
        if content is None:
            content = self._read_alone(repository, blob)
        if content is None:
            raise NotFound(f"the mirror of {repository} no longer has {blob}; index it again")
        return content

    def listing(self, repository: RepositoryName, revision: Revision) -> Iterator[SourceFile]:
        return tree.listing(self._mirrors.existing(repository), revision)

    def files(
        self,
        repository: RepositoryName,
        revision: Revision,
        paths: Sequence[str],
        *,
        max_bytes: int,
    ) -> Iterator[tuple[str, bytes]]:
        """Read the files among the paths; a too large one yields `max_bytes` + 1 blanks."""
        for file in tree.listing(self._mirrors.existing(repository), revision, only=paths):
            if file.mode & 0o170000 == REGULAR:
                is_large = file.size_bytes > max_bytes
                content = b" " * (max_bytes + 1) if is_large else self.read(repository, file.blob)
                yield file.path, content

    def close(self) -> None:
        """Close all readers. Later reads start new ones."""
        with self._lock:
            readers = list(self._readers.values())
            self._readers.clear()
            if self._watch is not None:
                self._watch.cancel()
                self._watch = None
        for reader in readers:
            reader.close()

    def _read_shared(self, repository: RepositoryName, blob: BlobId) -> bytes | None:
        try:
            return self._reader(repository).read(blob)
        except Unavailable:
            return None

    def _read_alone(self, repository: RepositoryName, blob: BlobId) -> bytes | None:
        """Read with a new reader.

        This is the second attempt: the shared reader may have been killed, closed because there
        were too many, or may have opened packs that were deleted since.
        """
        self._drop(repository)
        with Objects(self._mirrors.existing(repository)) as reader:
            return reader.read(blob)

    def _reader(self, repository: RepositoryName) -> Objects:
        if self._pid != os.getpid():
            self._start_empty()
        surplus = None
        with self._lock:
            reader = self._readers.get(repository)
            if reader is None:
                reader = self._readers[repository] = Objects(self._mirrors.existing(repository))
            self._readers.move_to_end(repository)
            self._read_at[repository] = time.monotonic()
            if self._watch is None:
                self._watch = self._later()
            if len(self._readers) > self._max_readers:
                surplus = self._readers.popitem(last=False)[1]
        if surplus is not None:
            surplus.close()
        return reader

    def _later(self) -> threading.Timer:
        watch = threading.Timer(self._idle_s, self._end_idle)
        watch.daemon = True
        watch.start()
        return watch

    def _end_idle(self) -> None:
        """Close the readers that were not used for `idle_s`."""
        before = time.monotonic() - self._idle_s
        with self._lock:
            names = [name for name in self._readers if self._read_at[name] <= before]
            idle = [self._readers.pop(name) for name in names]
            self._read_at = {name: self._read_at[name] for name in self._readers}
            self._watch = self._later() if self._readers else None
        for reader in idle:
            reader.close()

    def _drop(self, repository: RepositoryName) -> None:
        with self._lock:
            reader = self._readers.pop(repository, None)
        if reader is not None:
            reader.close()
