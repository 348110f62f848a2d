"""Hold the resources of a worker process: its settings, backends, and name.

Every backend is created at first use, never before a fork, and never shared with another process.
"""

from __future__ import annotations

import os
import resource
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from codelode.backends import registry
from codelode.covers import Groups
from codelode.errors import SchemaMismatch, Unavailable
from codelode.grouping import Rights, find_teams, rights
from codelode.host_permissions import HostPermissions
from codelode.ledger import Ledger
from codelode.model import EdgeKind, RefName, RepositoryName, Run
from codelode.ports import (
    ApiKeys,
    ChunkMaps,
    ChunkStore,
    DependencyGraph,
    Derivations,
    DiskUse,
    Embedder,
    PackageIndex,
    PermissionStates,
    ReferenceIndex,
    SourceStates,
    StageOutputs,
    SymbolTable,
)
from codelode.settings import Settings, load
from workers import wire
from workers.enrich import Enricher
from workers.parse import OwnQueries, imports, own_queries
from workers.pull import GitBlobs, Mirrors
from workers.regrouping import Regrouping
from workers.sources.credentials import GitCredentials
from workers.sources.refs import RefRules
from workers.store import refs_of

if TYPE_CHECKING:
    from codelode.backends.redis.index_swap import RedisIndexSwap
    from workers.sources.following import SourceSync
    from workers.sources.permissions import PermissionSync

#: Time after which a worker looks up again which index is published, seconds. If a stage embeds for
#: a superseded index, the store stage notices and sends the file back.
FOLLOW_S = 2.0

#: The settings that shape an index. A rebuild and the workers must have equal values of these, and
#: of the settings that locate the store.
SHAPING = (
    "store", "organisation", "language_model", "summary_model", "max_file_bytes", "queries",
)  # fmt: skip

#: Limit of the address space of a process that parses or plans, so that a huge file fails alone.
PARSE_MEMORY_BYTES = 4 << 30

settings = load()

#: The name of this worker in claims; set before the pool forks, so that its children share it.
_identity = ""


def name_worker(name: str) -> None:
    global _identity
    _identity = name


def identity() -> str:
    return _identity


class Index:
    """The published index as this process knows it: an embedder and the store of its vectors.

    A replaced index is closed when the last thread leaves `in_use`, because closing connections
    during a write would fail the files of the write.
    """

    def __init__(self, published: registry.Published) -> None:
        self.published = published
        self.known_since = time.monotonic()
        self._lock = threading.Lock()
        self._users = 0
        self._is_retired = False

    @cached_property
    def embedder(self) -> Embedder:
        return registry.embedder(self.published.settings)

    @cached_property
    def store(self) -> ChunkStore:
        return registry.chunk_store(self.published.settings, self.embedder)

    @contextmanager
    def in_use(self) -> Iterator[None]:
        """Keep the store open inside the context."""
        with self._lock:
            self._users += 1
        try:
            yield
        finally:
            self._leave()

    def retire(self) -> None:
        """Close the store as soon as no thread uses it."""
        with self._lock:
            self._is_retired = True
            is_unused = self._users == 0
        if is_unused:
            self._close()

    def _leave(self) -> None:
        with self._lock:
            self._users -= 1
            is_last = self._is_retired and self._users == 0
        if is_last:
            self._close()

    def _close(self) -> None:
        if "store" in vars(self):
            self.store.close()


class Services:
    """The backends of this process, each created at first use."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self._looking = threading.Lock()
        self._index: Index | None = None
        self._looked_at = 0.0
        self.layouts = imports.Layouts()
        self._held = threading.local()
        self.queries = lru_cache(maxsize=64)(self._queries)
        self.parse_version = lru_cache(maxsize=64)(self._parse_version)
        self.refs = lru_cache(maxsize=256)(self._refs)
        self.groups = lru_cache(maxsize=256)(self._groups)
        self.permissions = lru_cache(maxsize=4)(self._permissions)

    @property
    def index(self) -> Index:
        """Return the published index; inside `writing`, the index that is being written to."""
        held: Index | None = getattr(self._held, "index", None)
        if held is not None:
            return held
        with self._looking:
            now = before = self._index
            if now is None or time.monotonic() - self._looked_at > FOLLOW_S:
                now = self._index = self._look(before)
        if before is not None and before is not now:
            before.retire()
        return now

    def invalidate(self, index: Index) -> None:
        """Reopen the index at its next use, so that the embedding model is asked for its identity.

        An index that was opened less than FOLLOW_S ago stays open: if two workers have different
        models all the time, every file would invalidate it.
        """
        with self._looking:
            if self._index is not index or time.monotonic() - index.known_since < FOLLOW_S:
                return
            self._index = Index(index.published)
        index.retire()

    def _look(self, known: Index | None) -> Index:
        try:
            found = registry.published(self.settings)
        except Unavailable:
            if known is None:
                raise
            return known
        self._looked_at = time.monotonic()
        return known if known is not None and known.published == found else Index(found)

    @contextmanager
    def writing(self) -> Iterator[Index]:
        """Return the published index; it cannot be replaced inside the context.

        Raises Unavailable if it has just been replaced or is about to be.
        """
        index = self.index
        try:
            with self.swap.writing(identity()), index.in_use():
                self._held.index = index
                try:
                    yield index
                finally:
                    self._held.index = None
        except SchemaMismatch as exc:
            self._looked_at = 0.0
            if self.index is index:
                raise
            raise Unavailable(f"the index was replaced; the job is repeated ({exc})") from exc

    def close(self) -> None:
        if self._index is not None:
            self._index.retire()

    # Facts about a commit that several stages need

    @cached_property
    def operators_queries(self) -> OwnQueries:
        """Return the queries in the folder that the settings name; it is read once."""
        return own_queries.of_operator(self.settings.queries)

    def _queries(self, run: Run) -> OwnQueries:
        """Return the queries that replace built-in ones: the repository's, then the operator's."""
        if run.revision is None:
            return self.operators_queries
        files = self.blobs.files(
            run.repository,
            run.revision,
            own_queries.PATHS,
            max_bytes=own_queries.MAX_QUERY_BYTES,
        )
        return own_queries.of_repository(
            files, operators=self.operators_queries, name=run.repository
        )

    def _parse_version(self, run: Run) -> str:
        """Return the version of everything that parsing depends on besides the file. Cached."""
        return wire.parsed_by(self.queries(run))

    def _refs(self, run: Run) -> tuple[RefName, ...]:
        """Return the ref of the run, with DEFAULT_REF if it is the repository's default."""
        repository = self.ledger.get(run.repository)
        return refs_of(run.resolved, default=repository.default_ref if repository else "")

    def _groups(self, run: Run) -> Groups:
        """Return the groups of the repository of a planned run, which do not change. Cached."""
        return self.ledger.groups_of(run.repository)

    def _permissions(self, name: str, version: str) -> HostPermissions | None:
        """Return the permissions of a connection. Cached by version: unpacking takes long."""
        return self.permission_states.permissions(name)

    def rights(self, *, finds_teams: bool = False) -> Rights:
        """Return the rights that are in force now, with teams if the store has groups.

        Teams are found if none are known; with `finds_teams`, they are found again.
        """
        states, of = self.permission_states, self.permissions
        if has_groups(self.settings):
            find_teams(states, of, are_wanted_again=finds_teams)
        return rights(self.ledger, self.api_keys, states, of)

    def importers(
        self, repository: RepositoryName, ref: RefName, paths: Sequence[str]
    ) -> dict[str, int]:
        """Count the stored files that import each path at the ref."""
        incoming = self.graph.incoming(repository, ref, paths)
        return {
            path: sum(edge.kind is EdgeKind.IMPORTS for edge in edges)
            for path, edges in incoming.items()
        }

    # Backends

    @cached_property
    def swap(self) -> RedisIndexSwap:
        return registry.index_swap(self.settings)

    @cached_property
    def mirrors(self) -> Mirrors:
        found = self.settings
        return Mirrors(
            found.mirrors_dir,
            timeout_s=found.git_timeout_s,
            local_paths=found.local_paths,
            max_refs=found.max_refs,
            git_memory_bytes=found.git_memory_mb << 20,
            credentials=GitCredentials(found.sources, self.source_states.entrusted),
        )

    @cached_property
    def blobs(self) -> GitBlobs:
        return GitBlobs(self.mirrors)

    @cached_property
    def ledger(self) -> Ledger:
        return registry.ledger(self.settings)

    @cached_property
    def chunk_maps(self) -> ChunkMaps:
        return registry.chunk_maps(self.settings)

    @cached_property
    def disk_use(self) -> DiskUse:
        return registry.disk_use(self.settings)

    @cached_property
    def permission_states(self) -> PermissionStates:
        return registry.permission_states(self.settings)

    @cached_property
    def api_keys(self) -> ApiKeys:
        return registry.api_keys(self.settings)

    @cached_property
    def permission_sync(self) -> PermissionSync:
        # Imported here, because it brings an HTTP client that the workers of files do not need.
        from workers.sources.permissions import PermissionSync

        return PermissionSync(self.settings.sources, self.permission_states)

    @cached_property
    def regrouping(self) -> Regrouping:
        return Regrouping(
            self.ledger,
            registry.regrouping_states(self.settings),
            inventory=lambda: registry.inventory(self.settings),
            flush=self.flush,
            rights=self.rights,
        )

    def flush(self) -> None:
        """Return when no ended run writes to the index any more."""
        with self.swap.alone():
            pass  # taking the lock waits for the writes in progress

    @cached_property
    def source_states(self) -> SourceStates:
        return registry.source_states(self.settings)

    @cached_property
    def source_sync(self) -> SourceSync:
        from workers.sources.following import SourceSync  # imported here for the same reason

        return SourceSync(
            self.settings.sources,
            self.source_states,
            self.ledger,
            local_paths=self.settings.local_paths,
        )

    @cached_property
    def ref_rules(self) -> RefRules:
        return RefRules(self.settings.sources)

    @cached_property
    def stage_outputs(self) -> StageOutputs:
        return registry.stage_outputs(self.settings)

    @cached_property
    def derivations(self) -> Derivations:
        return registry.derivations(self.settings)

    @cached_property
    def enricher(self) -> Enricher | None:
        """Return the enricher, or None if no language model is configured."""
        model = registry.language_model(self.settings)
        if model is None:
            return None
        return Enricher(
            model,
            self.derivations,
            registry.summary_budget(self.settings),
            concurrency=self.settings.model_concurrency,
            pause_s=self.settings.model_retry_s,
        )

    @cached_property
    def graph(self) -> DependencyGraph:
        return registry.graph(self.settings)

    @cached_property
    def symbols(self) -> SymbolTable:
        return registry.symbols(self.settings)

    @cached_property
    def references(self) -> ReferenceIndex:
        return registry.references(self.settings)

    @cached_property
    def packages(self) -> PackageIndex:
        return registry.packages(self.settings)


def has_groups(settings: Settings) -> bool:
    """Return whether the chunk store filters by groups of repositories."""
    return registry.STORES[settings.store].has_groups


def store_writers(settings: Settings) -> int:
    """Return how many threads of a worker process may write to the chunk store at once."""
    return registry.STORES[settings.store].writers


def shaping(settings: Settings) -> dict[str, str]:
    """Return the settings that a rebuild of the index must share with the workers."""
    queries = settings.queries and str(Path(settings.queries).expanduser().resolve())
    placed = settings.model_copy(update={"data": settings.data_dir, "queries": queries})
    location = registry.STORES[settings.store].location
    return {name: str(getattr(placed, name)) for name in (*SHAPING, *location)}


_services: dict[int, Services] = {}


def services() -> Services:
    """Return the services of the calling process; a forked child gets its own."""
    pid = os.getpid()
    if pid not in _services:
        _services.clear()
        _services[pid] = Services(settings)
    return _services[pid]


def close_services() -> None:
    """Close the backends that the calling process has opened."""
    if found := _services.get(os.getpid()):
        found.close()


def bound_memory() -> None:
    """Limit the address space of the calling process, which parses."""
    resource.setrlimit(resource.RLIMIT_AS, (PARSE_MEMORY_BYTES, PARSE_MEMORY_BYTES))
