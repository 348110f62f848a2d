"""The ports: what both sides ask of servers and engines, as obligations to the implementer.

Write-side ports are synchronous (Celery tasks), read-side ports are asynchronous (the gateway).
Every port has a twin in `backends/memory.py` and one contract suite in `tests/contracts/` that
runs over all of its implementations. Implementations translate their library's errors into
`codelode.errors`; `Unavailable` means that the same call may work later.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NewType, Protocol, runtime_checkable

from codelode.access import Visibility
from codelode.model import (
    BlobId,
    Candidate,
    Chunk,
    ChunkId,
    Edge,
    FileChunks,
    FileKey,
    HybridQuery,
    LocatedSymbol,
    RefName,
    RepositoryName,
    Revision,
    RunId,
    SourceFile,
    Symbol,
    Vector,
    Vectors,
)


class ChunkStore(Protocol):
    """The write side of the chunk index. One process writes at a time."""

    def replace(self, files: Sequence[FileChunks]) -> None:
        """Make each file's chunks at the file's refs exactly the given ones.

        A chunk of the file that is stored under other refs as well keeps those: refs are added
        to and taken from stored chunks, and a chunk without refs leaves. New chunks become
        visible before old ones leave, so a reader never finds the file missing. Idempotent;
        durable when it returns. A path may occur once per call.
        """

    def remove_repository(self, repository: RepositoryName) -> None:
        """Remove every chunk of the repository. Unknown names are not an error."""

    def ids(self, repository: RepositoryName, ref: RefName) -> Iterator[ChunkId]:
        """The ids of all chunks of the repository at the ref, in any order."""

    def maintain(self) -> None:
        """Fold what was written since into the indexes and drop old versions.

        Searches are correct without it, only slower. May take seconds; safe beside readers.
        """

    def close(self) -> None:
        """Release files and connections."""


class Inventory(Protocol):
    """What is stored in the chunk index, file by file: to compare it with the ledger."""

    def repositories(self) -> frozenset[RepositoryName]:
        """Those that have a chunk."""

    def counts(
        self, repository: RepositoryName, paths: Collection[str] | None = None
    ) -> Mapping[str, Mapping[RefName, int]]:
        """Path → how many chunks it has at each ref; of all its files, or of those named.

        Files without chunks are left out. What is being written is seen half.
        """

    def close(self) -> None:
        """Release files and connections."""


class ChunkSearch(Protocol):
    """The read side of the chunk index."""

    async def hybrid(self, query: HybridQuery) -> Sequence[Candidate]:
        """Up to `limit` candidates of each side, filters applied before either side ranks.

        The union of both sides, each chunk once, in any order; a store that fuses both to one list
        takes them from the best of both together. Sees all `replace` calls that
        returned before it was called, from this or another process. With `with_vectors` each
        candidate has its chunk's vector, as far as the store keeps one; otherwise it may.
        Chunks of repositories outside of the query's visibility are filtered out likewise.
        """

    async def files(
        self, places: Sequence[FileKey], ref: RefName
    ) -> Mapping[FileKey, tuple[Chunk, ...]]:
        """All chunks of each file at the ref, in file order, in one round trip.

        Every place is a key; a file that the ref does not hold has no chunks.
        """

    async def count(self, visible: Visibility) -> int:
        """How many chunks of the visible repositories are stored."""

    async def close(self) -> None:
        """Release files and connections."""


class Embedder(Protocol):
    """Text to vectors. `identity` names model, version and dimensions; vectors of two never mix.

    Reading `identity` or `dim` may ask a server: they raise what embedding raises.
    """

    @property
    def identity(self) -> str: ...

    @property
    def dim(self) -> int: ...

    def embed_documents(self, texts: Sequence[str]) -> Vectors:
        """One row per text, in order."""

    def embed_query(self, text: str) -> Vector:
        """The vector of a query, comparable with documents by cosine."""


@runtime_checkable
class QuickEmbedder(Protocol):
    """An embedder that has the vectors of some queries sooner than a thread would take over."""

    def embed_at_once(self, text: str) -> Vector | None:
        """The vector of a query, within a millisecond or two; None: ask `embed_query`."""


class LanguageModel(Protocol):
    """Text generation. Reading `identity` may ask a server."""

    @property
    def identity(self) -> str: ...

    def complete(self, prompt: str, *, max_tokens: int) -> str:
        """The model's answer, stripped."""


class CrossEncoder(Protocol):
    """A model that reads query and text together. Slow, so only the best candidates are asked."""

    @property
    def identity(self) -> str: ...

    def scores(self, query: str, texts: Sequence[str]) -> Sequence[float]:
        """How well each text answers the query, in [0, 1]."""


@runtime_checkable
class Tokeniser(Protocol):
    """What an embedder that knows its own tokens can do besides."""

    def count_tokens(self, text: str) -> int:
        """How many tokens the text has, however long it is."""


DerivationKey = NewType("DerivationKey", bytes)  # 32 bytes, made in `workers.derivations`


class Derivations(Protocol):
    """What was computed from contents, by a key of everything that shaped it.

    A cache: an entry may be gone at any time, the oldest ones first when the bound is reached,
    and a failure reads as a miss and never fails a job.
    """

    def get(self, keys: Sequence[DerivationKey]) -> tuple[bytes | None, ...]:
        """The value of each key, None where there is none, in one round trip."""

    def put(self, values: Mapping[DerivationKey, bytes]) -> None:
        """Keep the values, in one round trip."""

    def close(self) -> None:
        """Release files and connections."""


#: Batches of which all calls failed, in a row, that end the enrichment of a run.
FAILED_BATCHES_TO_STOP = 3


class SummaryBudget(Protocol):
    """How many calls of the language model may still be made, and when a run makes no more.

    Calls are limited per run and, over all runs, per day (UTC).
    """

    def take(self, run: RunId, wanted: int, *, share: float = 1.0) -> int:
        """Reserve up to `wanted` calls; returns how many.

        Only the first `share` of the run's limit is open to the caller: what is wanted less
        leaves the rest for what is wanted more. None when the run was stopped.
        """

    def settle(self, run: RunId, *, made: int, failed: int) -> bool:
        """Say how the calls of a batch went; those that failed were paid for all the same.

        Returns whether enrichment of the run is over: it stops for good after
        FAILED_BATCHES_TO_STOP batches in a row with failures and nothing made.
        """

    def is_stopped(self, run: RunId) -> bool:
        """Whether enrichment of the run was stopped."""


class DependencyGraph(Protocol):
    """Edges between files, both directions, per repository."""

    def replace(self, repository: RepositoryName, edges: Mapping[str, Sequence[Edge]]) -> None:
        """Make the edges that start at each path exactly these.

        Readers see a path's old or new edges, whole. In one round trip.
        """

    def outgoing(
        self, repository: RepositoryName, paths: Sequence[str], *, limit_per_path: int | None = None
    ) -> Mapping[str, tuple[Edge, ...]]:
        """Edges that start at each path, in one round trip. Paths without edges map to ().

        `limit_per_path`: at most this many edges of each path, any of them.
        """

    def incoming(
        self, repository: RepositoryName, paths: Sequence[str], *, limit_per_path: int | None = None
    ) -> Mapping[str, tuple[Edge, ...]]:
        """Edges that end at each path, in one round trip. Paths without edges map to ().

        `limit_per_path`: at most this many edges of each path, any of them.
        """

    def remove_repository(self, repository: RepositoryName) -> None:
        """Remove all edges of the repository."""


class SymbolTable(Protocol):
    """Where names are defined."""

    def replace(self, repository: RepositoryName, symbols: Mapping[str, Sequence[Symbol]]) -> None:
        """Make the definitions in each file exactly these; by path. In one round trip."""

    def lookup(
        self, name: str, *, repositories: Sequence[RepositoryName]
    ) -> tuple[LocatedSymbol, ...]:
        """Definitions whose name, case-sensitive, is `name`, in the named repositories.

        Ordered by repository, path, line. No repositories named: no results.
        """

    def lookup_all(
        self, names: Sequence[str], *, repository: RepositoryName
    ) -> Mapping[str, tuple[LocatedSymbol, ...]]:
        """The definitions of each name in one repository, in one round trip."""

    def defined_in(
        self, repository: RepositoryName, paths: Sequence[str]
    ) -> Mapping[str, tuple[LocatedSymbol, ...]]:
        """The definitions in each file, by line, in one round trip."""

    def remove_repository(self, repository: RepositoryName) -> None:
        """Remove all definitions of the repository."""


class ReferenceIndex(Protocol):
    """Which names a file uses, and which files use a name; see `codelode.references`."""

    def replace(self, repository: RepositoryName, names: Mapping[str, Sequence[str]]) -> None:
        """Make the names of each file exactly these; by path. In one round trip."""

    def files(
        self, repository: RepositoryName, names: Sequence[str]
    ) -> Mapping[str, tuple[str, ...]]:
        """The paths of the files that have each name, sorted; in two round trips."""

    def names(
        self, repository: RepositoryName, paths: Sequence[str]
    ) -> Mapping[str, tuple[str, ...]]:
        """The names of each file, sorted, in one round trip."""

    def remove_repository(self, repository: RepositoryName) -> None:
        """Remove all names of the repository."""


@dataclass(frozen=True, slots=True)
class PublishedPackages:
    """What a repository is known by to others, and what its manifests said when it was resolved."""

    keys: Mapping[str, str]  # `npm:@acme/ui` → the folder that it is published from
    fingerprints: Mapping[str, str]  # ecosystem → what names all that its manifests say


class PackageIndex(Protocol):
    """What repositories publish, over all of them."""

    def publish(self, repository: RepositoryName, packages: PublishedPackages) -> None:
        """Make what the repository publishes exactly this."""

    def published_by(self, repository: RepositoryName) -> PublishedPackages:
        """What it publishes; of one that published nothing yet, nothing."""

    def publishers(
        self, keys: Sequence[str]
    ) -> Mapping[str, tuple[tuple[RepositoryName, str], ...]]:
        """Repository and folder for each key that any publishes, by repository; one round trip."""

    def remove_repository(self, repository: RepositoryName) -> None:
        """Withdraw what the repository publishes."""


class QueryCache(Protocol):
    """Answers by key, for a while. A cache failure never fails a query: it reads as a miss.

    The key holds everything that shapes the answer, the index generation among it, so nothing
    is ever invalidated: stale entries are no longer asked for and age out.
    """

    async def get(self, key: str) -> bytes | None:
        """The stored value, or None."""

    async def put(self, key: str, value: bytes, *, ttl_s: int) -> None:
        """Store the value; beyond the bound on entries, those least recently stored go."""

    async def close(self) -> None:
        """Release connections."""


class SemanticQueryCache(Protocol):
    """Which queries were answered before, by meaning. A failure reads as a miss.

    A bucket holds what two queries must have in common to have the same answer: filters,
    visibility, options, index generation. What it names is a key of the QueryCache.
    """

    async def nearest(self, bucket: str, vector: Vector) -> tuple[str, float] | None:
        """The key of the nearest remembered query of the bucket and its cosine, or None."""

    async def remember(self, bucket: str, vector: Vector, key: str, *, ttl_s: int) -> None:
        """Keep the query; beyond the bound on all of them, those least recently kept go."""

    async def close(self) -> None:
        """Release connections."""


class StageOutputs(Protocol):
    """What one stage leaves for the next, per file of a run. Bounded by time and by `drop`."""

    def put(self, run: RunId, parts: Mapping[str, Mapping[str, bytes]]) -> None:
        """Store parts: path → part name → bytes, in one round trip."""

    def get(self, run: RunId, paths: Sequence[str], part: str) -> tuple[bytes | None, ...]:
        """One part of each path, None where it is gone, in one round trip."""

    def drop(self, run: RunId, paths: Sequence[str]) -> None:
        """Forget all parts of the paths."""


class BlobSource(Protocol):
    """Content by blob id."""

    def read(self, repository: RepositoryName, blob: BlobId) -> bytes:
        """The blob's bytes. Raises NotFound when the mirror no longer has it."""

    def listing(self, repository: RepositoryName, revision: Revision) -> Iterator[SourceFile]:
        """Every entry of the commit's tree."""
