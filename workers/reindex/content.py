"""Load parsed files and their summaries for a rebuild, from the cache or by parsing again.

A grammar may loop or crash, so files are parsed in processes that can be killed; such a file is
left out with the reason. No language model is called for summaries that the cache has lost: the
published index may have them (`workers.reindex.stored_summaries`).

The queries of a ref are taken from its records in the ledger and not from its indexed revision: an
unfinished or abandoned run has recorded its own queries and parsed some files with them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, field, replace
from multiprocessing import get_context

from codelode.errors import NotFound, Rejected
from codelode.languages import QUERIES_FOLDER
from codelode.model import (
    NO_SUMMARIES,
    BlobId,
    Chunk,
    FileRecord,
    ParsedFile,
    RepositoryName,
    RunId,
    Summaries,
    locate,
)
from codelode.ports import BlobSource, Derivations
from workers import derivations, wire
from workers.enrich import Enricher
from workers.parse import OwnQueries, guard, own_queries, parse
from workers.pull import ignore
from workers.services import bound_memory

#: Number of processes that parse.
PARSERS = 2

#: Maximum time for the start of the first process, which imports all parsers, seconds.
START_S = 120

_NO_RUN = RunId("reindex")


@dataclass(frozen=True, slots=True)
class IndexedFile:
    """A file in the ledger."""

    repository: RepositoryName
    path: str
    blob: BlobId


@dataclass(frozen=True, slots=True)
class Content:
    """The parts of a file that are stored in the index."""

    parsed: ParsedFile
    summaries: Summaries = NO_SUMMARIES

    def filled(self, known: Sequence[Chunk]) -> Content:
        """Fill in missing summaries from the stored chunks of the file."""
        stored = {chunk.content: chunk.summary for chunk in known}
        chunks = locate(self.parsed, repository=RepositoryName(""), path="", refs=())
        texts = self.summaries.chunks or ("",) * len(chunks)
        pairs = zip(texts, chunks, strict=True)
        summaries = Summaries(
            tuple(text or stored.get(chunk.content, "") for text, chunk in pairs),
            self.summaries.file or next((c.file_summary for c in known if c.file_summary), ""),
        )
        return replace(self, summaries=summaries)


@dataclass(slots=True)
class Contents:
    """Loads the contents of files. `enricher` looks up summaries; no new ones are made.

    `operators`: the queries of the operator's folder.
    """

    known: Derivations
    blobs: BlobSource
    max_file_bytes: int
    timeout_s: float
    enricher: Enricher | None = None
    operators: OwnQueries = field(default_factory=dict)
    _pool: ProcessPoolExecutor | None = field(default=None, init=False)

    def of(
        self, files: Sequence[IndexedFile], *, queries: Sequence[FileRecord] = ()
    ) -> dict[IndexedFile, Content | str]:
        """Return the content of each file, or the reason why there is none.

        The files are of one repository; `queries`: records of its query files at the ref.
        """
        try:
            own = self._own(files[0].repository, queries) if files else own_queries.NONE
        except NotFound as exc:
            return dict.fromkeys(files, str(exc))
        parsed = self._parsed(files, own)
        ready = {file: found for file, found in parsed.items() if isinstance(found, ParsedFile)}
        summaries = self._summaries(ready)
        return {
            file: Content(found, summaries[file]) if isinstance(found, ParsedFile) else found
            for file, found in parsed.items()
        }

    def close(self) -> None:
        if self._pool is not None:
            _end(self._pool)
        self._pool = None

    def _own(self, repository: RepositoryName, queries: Sequence[FileRecord]) -> OwnQueries:
        files = (
            (one.path.removeprefix(QUERIES_FOLDER), self._source(repository, one))
            for one in queries
        )
        return own_queries.of_repository(files, operators=self.operators, name=repository)

    def _source(self, repository: RepositoryName, query: FileRecord) -> bytes:
        """Return the query's text; if it is too large, blanks that are too large as well."""
        limit = own_queries.MAX_QUERY_BYTES
        if query.reason == ignore.TOO_LARGE and self.max_file_bytes >= limit:
            return b" " * (limit + 1)
        return self.blobs.read(repository, query.blob)

    def _parsed(
        self, files: Sequence[IndexedFile], own: OwnQueries
    ) -> dict[IndexedFile, ParsedFile | str]:
        version = wire.parsed_by(own)
        keys = {f: derivations.of_parse(f.blob, f.path, version=version) for f in files}
        stored = zip(files, self.known.get(list(keys.values())), strict=True)
        found: dict[IndexedFile, ParsedFile | str] = {
            file: wire.load_parsed(data) for file, data in stored if data is not None
        }
        unknown = [file for file in files if file not in found]
        for start in range(0, len(unknown), PARSERS):
            made = self._parse(unknown[start : start + PARSERS], own)
            self.known.put({keys[file]: d for file, d in made.items() if isinstance(d, bytes)})
            found |= {
                f: wire.load_parsed(d) if isinstance(d, bytes) else d for f, d in made.items()
            }
        return found

    def _parse(
        self, files: Sequence[IndexedFile], own: OwnQueries
    ) -> dict[IndexedFile, bytes | str]:
        """Parse in processes that may die; after a crash, file by file. A `str` is an error."""
        read = {file: self._read(file) for file in files}
        asked = {f: self._ask(f, d, own) for f, d in read.items() if isinstance(d, bytes)}
        made: dict[IndexedFile, bytes | str] = {f: d for f, d in read.items() if isinstance(d, str)}
        for file, future in asked.items():
            try:
                made[file] = future.result(self.timeout_s)
            except TimeoutError:
                self.close()
                made[file] = f"parsing took longer than {self.timeout_s:.0f} s"
            except BrokenProcessPool:
                self.close()
                alone = len(asked) == 1
                made[file] = "its parser crashed" if alone else self._parse([file], own)[file]
        return made

    def _read(self, file: IndexedFile) -> bytes | str:
        try:
            data = self.blobs.read(file.repository, file.blob)
        except NotFound as exc:
            return str(exc)
        return guard(data, path=file.path, max_bytes=self.max_file_bytes) or data

    def _ask(self, file: IndexedFile, data: bytes, own: OwnQueries) -> Future[bytes | str]:
        """Send a file to a parser process. If none can start, the future raises the error."""
        try:
            return self._started_pool().submit(_parse, data, file.path, own, self.max_file_bytes)
        except BrokenProcessPool as exc:
            failed = Future[bytes | str]()
            failed.set_exception(exc)
            return failed

    def _started_pool(self) -> ProcessPoolExecutor:
        if self._pool is None:
            self._pool = ProcessPoolExecutor(
                PARSERS, mp_context=get_context("spawn"), initializer=bound_memory
            )
            # The time limit of a file begins when a process has started.
            wait([self._pool.submit(_started)], timeout=START_S)
        return self._pool

    def _summaries(self, files: Mapping[IndexedFile, ParsedFile]) -> dict[IndexedFile, Summaries]:
        if self.enricher is None or not files:
            return dict.fromkeys(files, NO_SUMMARIES)
        pairs = [(file.path, parsed) for file, parsed in files.items()]
        found = self.enricher(_NO_RUN, pairs, importers={})
        return {file: one.summaries for file, one in zip(files, found, strict=True)}


class Nothing:
    """A summary budget that grants no calls."""

    def take(self, run: RunId, wanted: int, *, share: float = 1.0) -> int:
        return 0

    def settle(self, run: RunId, *, made: int, failed: int) -> bool:
        return failed > 0

    def is_stopped(self, run: RunId) -> bool:
        return False


def is_query(record: FileRecord) -> bool:
    """Return whether the file is one of the repository's own queries, indexed or not."""
    is_file = bool(record.blob) and record.reason not in ignore.NO_FILE
    return is_file and record.path.startswith(QUERIES_FOLDER)


def _started() -> None:
    """Do nothing. Calling it in another process imports this module there."""


def _parse(data: bytes, path: str, own: OwnQueries, max_file_bytes: int) -> bytes | str:
    try:
        parsed = parse(data, path=path, own=own)
        return wire.dump_parsed(parsed, max_file_bytes=max_file_bytes)
    except Rejected as exc:
        return str(exc)
    except Exception as exc:  # noqa: BLE001 - any error is a reason to leave the file out
        return f"{type(exc).__name__}: {exc}"


def _end(pool: ProcessPoolExecutor) -> None:
    """Kill the processes of the pool, including those that hang."""
    for process in list((pool._processes or {}).values()):
        process.kill()
    pool.shutdown(wait=True, cancel_futures=True)
