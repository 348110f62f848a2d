"""What a worker process works with: settings, backends, its name.

Every backend is made at first use, never before a fork and never shared with another process.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from codelode.backends import registry
from codelode.errors import SchemaMismatch, Unavailable
from codelode.ledger import Ledger
from codelode.ports import (
    ChunkStore,
    DependencyGraph,
    Derivations,
    Embedder,
    PackageIndex,
    ReferenceIndex,
    StageOutputs,
    SymbolTable,
)
from codelode.settings import Settings, load
from workers.enrich import Enricher
from workers.pull import GitBlobs, Mirrors
from workers.turns import Turns

if TYPE_CHECKING:
    from codelode.backends.redis.index_swap import RedisIndexSwap
    from codelode.backends.redis.queues import RedisQueues

#: How old a worker's knowledge may be of which index is the published one, seconds. A stage that
#: embeds for an old one is put right by the stage that stores.
FOLLOW_S = 2.0

#: The settings that shape an index; together with those that say where it is, a rebuild must have
#: the same as the workers.
SHAPING = (
    "store", "organisation", "language_model", "summary_model", "max_file_bytes", "queries",
)  # fmt: skip

settings = load()

#: Names this worker in claims; set before the pool forks, so that its children share it.
_identity = ""


def name_worker(name: str) -> None:
    global _identity
    _identity = name


def identity() -> str:
    return _identity


class Index:
    """The published index as this process knows it: an embedder and the store of its vectors."""

    def __init__(self, published: registry.Published) -> None:
        self.published = published
        self.known_since = time.monotonic()

    @cached_property
    def embedder(self) -> Embedder:
        return registry.embedder(self.published.settings)

    @cached_property
    def store(self) -> ChunkStore:
        return registry.chunk_store(self.published.settings, self.embedder)

    def close(self) -> None:
        if "store" in vars(self):
            self.store.close()


class Services:
    """The backends of this process, each made at first use: never before a fork, never shared."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.store_turns = Turns(store_writers(settings))  # alone: whoever does more than write
        self._looking = threading.Lock()
        self._index: Index | None = None
        self._looked_at = 0.0

    @property
    def index(self) -> Index:
        """What is published. Do not ask while one of `store_turns`."""
        with self._looking:
            now = before = self._index
            if now is None or time.monotonic() - self._looked_at > FOLLOW_S:
                now = self._index = self._look(before)
        if before is not None and before is not now:
            self._part_with(before)
        return now

    def invalidate(self, index: Index) -> None:
        """Have whoever asks for the index next ask the embedding model what it is.

        An index that is younger than FOLLOW_S is left alone: where the models of two workers
        differ for good, each file would invalidate it. Do not call it while holding `store_turns`.
        """
        with self._looking:
            if self._index is not index or time.monotonic() - index.known_since < FOLLOW_S:
                return
            self._index = Index(index.published)
        self._part_with(index)

    def _part_with(self, index: Index) -> None:
        with self.store_turns.alone():
            index.close()

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
        """The published index, which no other takes the place of meanwhile.

        Raises Unavailable when one has done so just before, or is about to.
        """
        index = self.index
        try:
            with self.swap.writing(identity()):
                yield index
        except SchemaMismatch as exc:
            self._looked_at = 0.0
            if self.index is index:
                raise
            raise Unavailable(f"the index was swapped; the job is repeated ({exc})") from exc

    def close(self) -> None:
        if self._index is not None:
            self._index.close()

    @cached_property
    def swap(self) -> RedisIndexSwap:
        return registry.index_swap(self.settings)

    @cached_property
    def mirrors(self) -> Mirrors:
        found = self.settings
        return Mirrors(
            found.mirrors_dir, timeout_s=found.git_timeout_s, local_paths=found.local_paths
        )

    @cached_property
    def blobs(self) -> GitBlobs:
        return GitBlobs(self.mirrors)

    @cached_property
    def ledger(self) -> Ledger:
        return registry.ledger(self.settings)

    @cached_property
    def stage_outputs(self) -> StageOutputs:
        return registry.stage_outputs(self.settings)

    @cached_property
    def queues(self) -> RedisQueues:
        return registry.queues(self.settings)

    @cached_property
    def derivations(self) -> Derivations:
        return registry.derivations(self.settings)

    @cached_property
    def enricher(self) -> Enricher | None:
        """None when no language model is configured."""
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


def store_writers(settings: Settings) -> int:
    """Return how many threads of a worker process may write to the chunk store at once."""
    return registry.STORES[settings.store].writers


def shaping(settings: Settings) -> dict[str, str]:
    """The settings that a rebuild of the index must share with the workers."""
    queries = settings.queries and str(Path(settings.queries).expanduser().resolve())
    placed = settings.model_copy(update={"data": settings.data_dir, "queries": queries})
    location = registry.STORES[settings.store].location
    return {name: str(getattr(placed, name)) for name in (*SHAPING, *location)}


_services: dict[int, Services] = {}


def services() -> Services:
    """The services of the calling process; a forked child gets its own."""
    pid = os.getpid()
    if pid not in _services:
        _services.clear()
        _services[pid] = Services(settings)
    return _services[pid]


def close_services() -> None:
    """Those of the calling process, if it has made any."""
    if found := _services.get(os.getpid()):
        found.close()
