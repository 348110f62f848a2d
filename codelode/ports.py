"""The ports: interfaces to stores, models, and caches, stated as obligations to the implementer.

Write-side ports are synchronous (Celery tasks); ports of the read side alone are asynchronous (the
gateway). Every port has an in-memory twin in `backends/memory` or a built-in implementation, and
one contract suite in `tests/contracts/` that runs over all implementations. Implementations
translate the errors of their library into `codelode.errors`; `Unavailable` means that the same
call may work later. The ports of the job ledger are in `codelode.ledger`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import NewType, Protocol, runtime_checkable

from codelode.access import Visibility
from codelode.api_keys import ApiKey
from codelode.chunk_map import ChunkVector, MapState
from codelode.covers import Grouped
from codelode.disk_use import DiskPart
from codelode.grams import NOTHING, Grams
from codelode.host_permissions import (
    FoundTeams,
    HostPermissions,
    SyncDeclaration,
    SyncOutcome,
    SyncState,
)
from codelode.model import (
    BlobId,
    Candidate,
    Chunk,
    ChunkId,
    Edge,
    FileChunks,
    FileKey,
    FileQuery,
    FileText,
    HybridQuery,
    LocatedSymbol,
    RefName,
    RepositoryName,
    Revision,
    RunId,
    SourceFile,
    Symbol,
)
from codelode.regrouping import RegroupingState
from codelode.repository_sources import (
    FollowedRepository,
    Mode,
    SourceDeclaration,
    SourceOutcome,
    SourceState,
)
from codelode.vectors import Vector, Vectors


class ChunkStore(Protocol):
    """The write side of the chunk index. One process writes at a time."""

    def replace(self, files: Sequence[FileChunks]) -> None:
        """Replace the chunks of each file at the file's refs by the given ones.

        Stored chunks keep their other refs: refs are added to and removed from stored chunks, and
        a chunk without refs is deleted. New chunks become visible before old ones disappear, so a
        reader never finds the file missing. Idempotent; durable when it returns. A path may occur
        once per call.
        """

    def remove_repository(self, repository: RepositoryName) -> None:
        """Remove all chunks of the repository, if there are any."""

    def ids(self, repository: RepositoryName, ref: RefName) -> Iterator[ChunkId]:
        """Yield the ids of all chunks of the repository at the ref, in any order."""

    def maintain(self) -> None:
        """Optimise the index: merge recent writes and drop old versions.

        Searches are correct without it, only slower. May take seconds; safe during searches.
        """

    def close(self) -> None:
        """Release files and connections."""


class Inventory(Protocol):
    """The contents of the chunk index, file by file, for comparison with the ledger."""

    def repositories(self) -> frozenset[RepositoryName]:
        """Return the repositories that have a chunk."""

    def counts(
        self, repository: RepositoryName, paths: Collection[str] | None = None
    ) -> Mapping[str, Mapping[RefName, int]]:
        """Return the number of chunks at each ref, by path, for all files or the given ones.

        Omits files without chunks. The counts of a file that is being written are unreliable.
        """

    def vectors(
        self, repositories: Sequence[RepositoryName], ref: RefName, *, most: int
    ) -> Iterator[ChunkVector]:
        """Yield the chunks of the repositories at the ref that have a vector, in any order.

        At most `most` of them: those with the smallest ids.
        """

    def has_others(self, repository: RepositoryName, grouped: Grouped) -> bool:
        """Return whether a chunk of the repository lacks a group, or has only a former one.

        False if the store keeps no groups.
        """

    def sizes(self) -> Mapping[str, int] | None:
        """Return the bytes that each part of the index takes on disk; None: it cannot be known."""

    def close(self) -> None:
        """Release files and connections."""


class ChunkSearch(Protocol):
    """The read side of the chunk index."""

    async def hybrid(self, query: HybridQuery) -> Sequence[Candidate]:
        """Return up to `limit` keyword and `limit` vector results, each chunk once, in any order.

        A store that fuses both lists itself returns the best of the fused list. Filters and
        visibility are applied before ranking. Sees all `replace` calls that returned before, from
        this or another process. With `with_vectors` each candidate has the vector of its chunk if
        the store keeps one; without it a candidate may have one.
        """

    async def holding(self, query: FileQuery) -> Sequence[FileKey]:
        """Return the files at the ref that have the trigrams of the query, in order.

        The result is complete, but a few of its files may lack the trigrams; with NOTHING it has
        all files inside the filters. With `defines`, it has the files that define such a name; a
        few may not. Sees all `replace` calls that returned before, from this or another process.
        """

    async def files(
        self, places: Sequence[FileKey], ref: RefName
    ) -> Mapping[FileKey, tuple[Chunk, ...]]:
        """Return all chunks of each file at the ref, in file order, in one round trip.

        Every requested file is a key; a file that is not at the ref has no chunks.
        """

    async def texts(
        self, places: Sequence[FileKey], ref: RefName, needed: Grams = NOTHING
    ) -> Mapping[FileKey, FileText]:
        """Return the text of each file at the ref, in one round trip; files not there are left out.

        Cheaper than `files` if nothing else of the chunks is needed. `needed`: only lines that have
        all these trigrams are sure to be in the text; others may be blank or missing at its end,
        and files without such a line may be left out.
        """

    async def count(self, visible: Visibility) -> int:
        """Return the number of chunks of the visible repositories."""

    async def close(self) -> None:
        """Release files and connections."""


class Embedder(Protocol):
    """A model that turns text into vectors.

    `identity` names model, version, and dimensions; vectors of different identities are never
    compared. Reading `identity` or `dim` may call a server and raises the same errors as embedding.
    """

    @property
    def identity(self) -> str: ...

    @property
    def dim(self) -> int: ...

    def embed_documents(self, texts: Sequence[str]) -> Vectors:
        """Return one row per text, in order."""

    def embed_query(self, text: str) -> Vector:
        """Return the vector of a query, comparable with those of documents by cosine."""


@runtime_checkable
class QuickEmbedder(Protocol):
    """An embedder that can embed some queries faster than a thread switch takes."""

    def embed_at_once(self, text: str) -> Vector | None:
        """Return the vector of a query within two milliseconds, or None: call `embed_query`."""


@runtime_checkable
class Checked(Protocol):
    """A model behind a server that can be asked whether it answers."""

    def check(self) -> None:
        """Return if the server answers a single attempt, within seconds, without using the model.

        Otherwise raises the error that a use of the model would raise.
        """


class LanguageModel(Protocol):
    """A model that generates text. Reading `identity` may call a server."""

    @property
    def identity(self) -> str: ...

    def complete(self, prompt: str, *, max_tokens: int) -> str:
        """Return the model's answer without surrounding white space."""


class CrossEncoder(Protocol):
    """A model that reads query and text together. It is slow, so it scores only the top results."""

    @property
    def identity(self) -> str: ...

    def scores(self, query: str, texts: Sequence[str]) -> Sequence[float]:
        """Return how well each text answers the query, in [0, 1]."""


@runtime_checkable
class Tokeniser(Protocol):
    """An embedder that can count the tokens of a text."""

    def count_tokens(self, text: str) -> int:
        """Return the number of tokens in the text, however long it is."""


DerivationKey = NewType("DerivationKey", bytes)  # 32 bytes, made in `workers.derivations`


class Derivations(Protocol):
    """The derived-value cache: parsed files, summaries, and vectors by what they derive from.

    A key is a hash of the content and of everything else that determines the value, so values are
    never invalidated. An entry may be evicted at any time, oldest first; a failure of the cache
    counts as a miss and never fails a job.
    """

    def get(self, keys: Sequence[DerivationKey]) -> tuple[bytes | None, ...]:
        """Return the value of each key, or None, in one round trip."""

    def put(self, values: Mapping[DerivationKey, bytes]) -> None:
        """Store the values, in one round trip."""

    def close(self) -> None:
        """Release files and connections."""


#: Consecutive failed batches after which a run makes no more summaries.
FAILED_BATCHES_TO_STOP = 3


class SummaryBudget(Protocol):
    """The budget of language model calls for summaries, per run and per day (UTC) over all runs."""

    def take(self, run: RunId, wanted: int, *, share: float = 1.0) -> int:
        """Reserve up to `wanted` calls and return how many were reserved.

        The caller may use only the first `share` of the run's limit: summaries of low priority
        leave the rest to those of high priority. Reserves none after the run was stopped.
        """

    def settle(self, run: RunId, *, made: int, failed: int) -> bool:
        """Report the outcome of a batch; failed calls count against the budget as well.

        Returns whether the run makes no more summaries: it stops for good after
        FAILED_BATCHES_TO_STOP consecutive batches with failures and without a summary.
        """

    def is_stopped(self, run: RunId) -> bool:
        """Return whether the run makes no more summaries because batches failed."""


class DependencyGraph(Protocol):
    """The edges between the files of each repository at each ref, readable in both directions."""

    def replace(
        self,
        repository: RepositoryName,
        refs: Sequence[RefName],
        edges: Mapping[str, Sequence[Edge]],
    ) -> None:
        """Replace the edges that start at each path at the refs, in one round trip.

        Other refs keep theirs. Readers see either all old or all new edges of a path.
        """

    def outgoing(
        self,
        repository: RepositoryName,
        ref: RefName,
        paths: Sequence[str],
        *,
        limit_per_path: int | None = None,
    ) -> Mapping[str, tuple[Edge, ...]]:
        """Return the edges that start at each path at the ref, in two round trips.

        A path without edges maps to (). `limit_per_path`: at most this many edges of each path.
        """

    def incoming(
        self,
        repository: RepositoryName,
        ref: RefName,
        paths: Sequence[str],
        *,
        limit_per_path: int | None = None,
    ) -> Mapping[str, tuple[Edge, ...]]:
        """Return the edges that end at each path at the ref, in two round trips.

        A path without edges maps to (). `limit_per_path`: at most this many edges of each path.
        """

    def remove_ref(self, repository: RepositoryName, ref: RefName) -> None:
        """Remove all edges of the ref. Nothing may write to the ref meanwhile."""

    def remove_repository(self, repository: RepositoryName) -> None:
        """Remove all edges of the repository."""


class SymbolTable(Protocol):
    """The definitions of each file at each ref, found by name or by file."""

    def replace(
        self,
        repository: RepositoryName,
        refs: Sequence[RefName],
        symbols: Mapping[str, Sequence[Symbol]],
    ) -> None:
        """Replace the definitions in each file at the refs, by path, in one round trip.

        Other refs keep theirs.
        """

    def lookup(
        self, name: str, *, repositories: Sequence[RepositoryName], ref: RefName
    ) -> tuple[LocatedSymbol, ...]:
        """Return the definitions of exactly this name (case-sensitive) in the repositories.

        Ordered by repository, path, and line. Without repositories there are no results.
        """

    def lookup_all(
        self, names: Sequence[str], *, repository: RepositoryName, ref: RefName
    ) -> Mapping[str, tuple[LocatedSymbol, ...]]:
        """Return the definitions of each name in one repository, in one round trip."""

    def defined_in(
        self, repository: RepositoryName, ref: RefName, paths: Sequence[str]
    ) -> Mapping[str, tuple[LocatedSymbol, ...]]:
        """Return the definitions in each file, ordered by line, in one round trip."""

    def remove_ref(self, repository: RepositoryName, ref: RefName) -> None:
        """Remove all definitions of the ref. Nothing may write to the ref meanwhile."""

    def remove_repository(self, repository: RepositoryName) -> None:
        """Remove all definitions of the repository."""


class ReferenceIndex(Protocol):
    """The names that each file uses at each ref, found by name or by file.

    See `codelode.references`.
    """

    def replace(
        self,
        repository: RepositoryName,
        refs: Sequence[RefName],
        names: Mapping[str, Sequence[str]],
    ) -> None:
        """Replace the names of each file at the refs, by path, in one round trip.

        Other refs keep theirs.
        """

    def files(
        self, repository: RepositoryName, ref: RefName, names: Sequence[str]
    ) -> Mapping[str, tuple[str, ...]]:
        """Return the sorted paths of the files that use each name, in two round trips."""

    def holding(
        self, repositories: Sequence[RepositoryName], ref: RefName, names: Sequence[str]
    ) -> Mapping[RepositoryName, tuple[str, ...]]:
        """Return which of the names each repository that has the ref uses, at any of its refs.

        In one round trip for hundreds of repositories. Omits those that use none.
        """

    def names(
        self, repository: RepositoryName, ref: RefName, paths: Sequence[str]
    ) -> Mapping[str, tuple[str, ...]]:
        """Return the sorted names of each file, in one round trip."""

    def remove_ref(self, repository: RepositoryName, ref: RefName) -> None:
        """Remove all names of the ref. Nothing may write to the ref meanwhile."""

    def remove_repository(self, repository: RepositoryName) -> None:
        """Remove all names of the repository."""


@dataclass(frozen=True, slots=True)
class PublishedPackages:
    """The packages that a repository publishes, and the state of its manifests at the time."""

    keys: Mapping[str, str]  # package, as `npm:@acme/ui` → folder that it is published from
    fingerprints: Mapping[str, str]  # ecosystem → digest of the manifests


class PackageIndex(Protocol):
    """The packages that each repository publishes at each ref.

    Other repositories find only the packages at DEFAULT_REF.
    """

    def publish(
        self, repository: RepositoryName, refs: Sequence[RefName], packages: PublishedPackages
    ) -> None:
        """Replace the packages of the repository at the refs."""

    def published_by(self, repository: RepositoryName, ref: RefName) -> PublishedPackages:
        """Return the packages of the repository; none if it has not published any."""

    def published_by_all(
        self, repositories: Sequence[RepositoryName]
    ) -> Mapping[RepositoryName, PublishedPackages]:
        """Return what each repository publishes at DEFAULT_REF; omits those without packages.

        In one round trip for a thousand repositories.
        """

    def publishers(
        self, keys: Sequence[str]
    ) -> Mapping[str, tuple[tuple[RepositoryName, str], ...]]:
        """Return the publishers of each package: repository and folder, ordered by repository.

        In one round trip. Omits packages that no repository publishes at DEFAULT_REF.
        """

    def remove_ref(self, repository: RepositoryName, ref: RefName) -> None:
        """Remove the packages of the ref."""

    def remove_repository(self, repository: RepositoryName) -> None:
        """Remove the packages of the repository."""


class QueryCache(Protocol):
    """A cache of serialized answers. A failure of the cache counts as a miss.

    A key covers everything that determines the answer, including the index generation. Entries are
    therefore never invalidated: stale ones are not requested any more and expire.
    """

    async def get(self, key: str) -> bytes | None:
        """Return the stored value, or None."""

    async def put(self, key: str, value: bytes, *, ttl_s: int) -> None:
        """Store the value; beyond the bound, evict the entries stored least recently."""

    async def close(self) -> None:
        """Release connections."""


class SemanticQueryCache(Protocol):
    """The semantic query cache: finds answered queries by the similarity of their vectors.

    A bucket stands for everything that two queries must share to have the same answer: filters,
    visibility, options, and index generation. Each query is stored with its key in the QueryCache.
    A failure counts as a miss.
    """

    async def nearest(self, bucket: str, vector: Vector) -> tuple[str, float] | None:
        """Return key and cosine of the most similar query in the bucket, or None."""

    async def remember(self, bucket: str, vector: Vector, key: str, *, ttl_s: int) -> None:
        """Store the query; evict the queries stored least recently beyond the bound on all."""

    async def close(self) -> None:
        """Release connections."""


#: Time after which a call that was never released counts as over, seconds: longer than a connection
#: to the gateway lasts. It frees what the calls of a gateway that died have taken.
CALL_LEASE_S = 720.0


@dataclass(frozen=True, slots=True)
class CallLimit:
    """A limit on the rate of calls and on concurrent calls; 0: no limit."""

    per_minute: int = 0  # tokens that the bucket gains per minute
    burst: int = 1  # tokens that a full bucket has
    at_once: int = 0


class CallLimits(Protocol):
    """Token buckets and counts of active calls, by name. No error if a server fails."""

    async def take(self, name: str, call: str, limit: CallLimit) -> float | None:
        """Admit the call: take a token, and count the call as active until `release`.

        Returns 0 if it is admitted. Otherwise nothing changes; the result is the time in seconds
        until there is a token, or None if as many calls as allowed are active. A call whose
        `release` is missing counts for CALL_LEASE_S.
        """

    async def release(self, name: str, call: str) -> None:
        """Count the call as over. Ignores calls that are not active."""

    async def close(self) -> None:
        """Release connections."""


class ExpiringValues(Protocol):
    """Values that expire, by name: sessions, single-use links, known deliveries."""

    async def put(self, name: str, value: bytes, *, ttl_s: float) -> None:
        """Store the value in place of an earlier one. Raises Busy if there is no memory for it."""

    async def add(self, name: str, value: bytes, *, ttl_s: float) -> bool:
        """Store the value and return True, or return False if the name has one."""

    async def replace(self, name: str, value: bytes) -> None:
        """Replace the value if the name has one; it expires when the earlier one would have."""

    async def get(self, name: str) -> bytes | None:
        """Return the value, or None if there is none or it has expired."""

    async def take(self, name: str) -> bytes | None:
        """Remove the value and return it; of concurrent callers, one gets it."""

    async def close(self) -> None:
        """Release connections."""


class StageOutputs(Protocol):
    """The results that stages leave for later stages, per file of a run.

    They expire after some hours; `drop` removes them earlier.
    """

    def put(self, run: RunId, parts: Mapping[str, Mapping[str, bytes]]) -> None:
        """Store the parts (path → part name → bytes), in one round trip."""

    def get(
        self, run: RunId, paths: Sequence[str], parts: Sequence[str]
    ) -> tuple[Mapping[str, bytes], ...]:
        """Return the parts that are stored for each path, in one round trip."""

    def drop(self, run: RunId, paths: Sequence[str]) -> None:
        """Remove all parts of the paths."""


class BlobSource(Protocol):
    """The contents of files, by blob id."""

    def read(self, repository: RepositoryName, blob: BlobId) -> bytes:
        """Return the bytes of the blob. Raises NotFound if the mirror no longer has it."""

    def listing(self, repository: RepositoryName, revision: Revision) -> Iterator[SourceFile]:
        """Yield every entry of the commit's tree."""


class ApiKeys(Protocol):
    """The API keys, without their secrets. Names are unique. Its methods block."""

    def add(self, key: ApiKey) -> bool:
        """Store the key; return False, and store nothing, if its name is taken."""

    def get(self, id: str) -> ApiKey | None:
        """Return the key of that id, even if it has expired."""

    def all(self) -> tuple[ApiKey, ...]:
        """Return all keys, by name."""

    def remove(self, id: str) -> None:
        """Remove the key, if it exists. Works also when no memory is left."""

    def used(self, id: str, at: float) -> None:
        """Record the time of a use, unless the last recorded one is less than USE_INTERVAL_S ago.

        Has no effect on a key that was removed.
        """


class DiskUse(Protocol):
    """The sizes of the parts of the cluster, as they were measured last. Its methods block."""

    def record(self, group: str, parts: Sequence[DiskPart]) -> None:
        """Replace the parts of a group (`disk_use.GROUPS`)."""

    def parts(self) -> tuple[DiskPart, ...]:
        """Return the parts of all groups, in the order of the groups, in one round trip."""


class ChunkMaps(Protocol):
    """Maps of chunks in two dimensions, one for each set of repositories. Its methods block.

    The latest `chunk_map.MAX_MAPS` finished maps are kept.
    """

    def begin(self, state: MapState) -> bool:
        """Store the state of a map to make; return False if a worker is making it already.

        An earlier map stays readable until the new one is there.
        """

    def report(self, state: MapState, packed: bytes | None = None) -> bool:
        """Store the state of a map, and the map once it is ready.

        Returns False, and stores nothing, if it is no longer wanted: if it was removed, or is ready
        or failed already because its job was delivered twice.
        """

    def states(self) -> tuple[MapState, ...]:
        """Return the state of each map, the most recently reported one first."""

    def made_at(self, repositories: Sequence[RepositoryName]) -> float | None:
        """Return when the last map of exactly these repositories was made; None: there is none."""

    def packed(self, repositories: Sequence[RepositoryName]) -> bytes | None:
        """Return the last map of exactly these repositories, in order, or None."""

    def remove_repository(self, name: RepositoryName) -> None:
        """Remove all maps of the repository; those that are being made are no longer wanted."""


class Documents(Protocol):
    """JSON documents of web servers, such as issuers of tokens."""

    def get(self, url: str) -> dict[str, object]:
        """Return the JSON object at the URL. Raises Unavailable if it cannot be fetched."""

    def post(self, url: str, form: Mapping[str, str]) -> dict[str, object]:
        """Post a form and return the JSON object of the answer, even of a refusal (status 4xx).

        Raises Unavailable if there is no such answer.
        """

    def tell(self, url: str, form: Mapping[str, str]) -> None:
        """Post a form whose answer has no content. Raises Unavailable if it is not accepted."""


class PermissionStates(Protocol):
    """The permissions of code hosts, and the state of their sync. Its methods block.

    One worker at a time reads a connection: the one that holds it.
    """

    def declare(self, declared: Sequence[SyncDeclaration]) -> None:
        """Replace the declarations of the sources file.

        All that is stored of connections that it no longer has, or that now have another kind or
        address, is deleted.
        """

    def report(self, problem: str) -> None:
        """Store why the sources file cannot be used; empty: it can."""

    def problem(self) -> str:
        """Return the problem that was reported last."""

    def states(self) -> tuple[SyncState, ...]:
        """Return the state of each declared connection, by name, in one round trip."""

    def permissions(self, name: str) -> HostPermissions | None:
        """Return the stored permissions of a connection, or None."""

    def teams(self, name: str) -> FoundTeams | None:
        """Return the teams that were stored for a connection, or None."""

    def keep_teams(self, name: str, found: FoundTeams) -> None:
        """Store the teams of a connection; has no effect if it is not declared."""

    def want(self, name: str) -> None:
        """Ask for a read of a declared connection's permissions, even if a read is in progress."""

    def hold(self, name: str, owner: str, *, for_s: float) -> bool:
        """Take a connection, or keep it; return False if another owner holds it."""

    def release(self, name: str, owner: str) -> None:
        """Give up a connection; has no effect if another owner holds it."""

    def finish(self, name: str, owner: str, outcome: SyncOutcome, content: bytes | None) -> bool:
        """Store an outcome and, unless they are None, packed permissions.

        Returns False, and changes nothing, if the owner does not hold the connection.
        """


class SourceStates(Protocol):
    """The followed repositories of connections, and the state of following them.

    Its methods block. One worker at a time lists a connection: the one that holds it.
    """

    def declare(self, declared: Sequence[SourceDeclaration]) -> None:
        """Replace the declarations of the sources file.

        All that is stored of connections that it no longer has, or that now have another kind or
        address, is deleted.
        """

    def states(self) -> tuple[SourceState, ...]:
        """Return the state of each declared connection, by name, in one round trip."""

    def known(self, name: str) -> tuple[FollowedRepository, ...]:
        """Return the repositories that are followed for a connection."""

    def entrust(self, name: str, owner: str, urls: Mapping[str, str]) -> None:
        """Replace the URLs that git may read with a connection's token, by the repository's name.

        Has no effect if the owner does not hold the connection.
        """

    def entrusted(self, name: str, repository: str) -> str:
        """Return the URL at which git may read a repository with the token; empty: none."""

    def want(self, name: str, mode: Mode) -> None:
        """Ask for a listing of a declared connection, even if a listing is in progress.

        An earlier request that is not answered yet keeps its mode if that includes this one.
        """

    def hold(self, name: str, owner: str, *, for_s: float) -> bool:
        """Take a connection, or keep it; return False if another owner holds it."""

    def release(self, name: str, owner: str) -> None:
        """Give up a connection; has no effect if another owner holds it."""

    def finish(self, name: str, owner: str, outcome: SourceOutcome, content: bytes | None) -> bool:
        """Store an outcome and, unless they are None, packed repositories.

        Returns False, and changes nothing, if the owner does not hold the connection.
        """


class RegroupingStates(Protocol):
    """The state of regrouping, and what asks for it (see `codelode.regrouping`). Methods block."""

    def report_long(self, names: frozenset[RepositoryName]) -> None:
        """Store the repositories that a caller with a long filter may see.

        The latest MAX_FILTERS are kept, for KEPT_S.
        """

    def long_filters(self) -> tuple[frozenset[RepositoryName], ...]:
        """Return the repositories of each long filter that is kept."""

    def want(self) -> str:
        """Ask for a regrouping, even if one is under way; return the name of the request."""

    def wanted(self) -> str:
        """Return the latest request; empty: none."""

    def state(self) -> RegroupingState: ...

    def save(self, state: RegroupingState) -> None: ...

    def now(self) -> float:
        """Return the time of a clock that all processes share, in seconds."""

    def alone(self) -> AbstractContextManager[bool]:
        """Take the lock of regrouping inside the context; False: another worker holds it."""
