"""Settings → backends: the one place that chooses.

Every function imports its backend when it is called: a worker that parses never loads the index
engine, and a missing optional package is only missed by who asked for it. Nothing here is
cached: who calls owns the connection and closes it.
"""

from __future__ import annotations

from typing import Protocol

from codelode.ports import (
    Catalog,
    ChunkSearch,
    ChunkStore,
    DependencyGraph,
    Embedder,
    Feeder,
    Files,
    Handover,
    QueryCache,
    Runs,
    SymbolTable,
)
from codelode.settings import Settings

#: A worker is taken for dead after so many heartbeats that did not come.
MISSED_HEARTBEATS = 3


class Ledger(Catalog, Runs, Feeder, Files, Protocol):
    """The job ledger: one object, four ports."""


def chunk_store(settings: Settings) -> ChunkStore:
    """The write side of the chunk index. One process writes at a time."""
    from codelode.backends.lance import LanceChunkStore

    model = embedder(settings)
    return LanceChunkStore(settings.index_dir, dim=model.dim, identity=model.identity)


def chunk_search(settings: Settings) -> ChunkSearch:
    """The read side of the chunk index."""
    from codelode.backends.lance import LanceChunkSearch

    model = embedder(settings)
    return LanceChunkSearch(settings.index_dir, dim=model.dim, identity=model.identity)


def embedder(settings: Settings) -> Embedder:
    """The embedding model."""
    from codelode.backends.static import StaticEmbedder

    return StaticEmbedder()


def query_cache(settings: Settings) -> QueryCache:
    """The query cache; its Redis may be another one than the ledger's."""
    from codelode.backends.redis.cache import RedisCache
    from codelode.backends.redis.connection import connect_async

    client = connect_async(settings.cache_url or settings.redis_url)
    return RedisCache(client, entries=settings.cache_entries)


def ledger(settings: Settings) -> Ledger:
    """The job ledger."""
    from codelode.backends.redis.connection import connect
    from codelode.backends.redis.ledger import RedisLedger

    return RedisLedger(
        connect(settings.redis_url),
        window=settings.window,
        requeue_s=settings.requeue_s,
        lease_s=settings.lease_s,
        worker_ttl_s=MISSED_HEARTBEATS * settings.heartbeat_s,
    )


def handover(settings: Settings) -> Handover:
    """What one stage leaves for the next."""
    from codelode.backends.redis.connection import connect
    from codelode.backends.redis.handover import RedisHandover

    return RedisHandover(connect(settings.redis_url))


def graph(settings: Settings) -> DependencyGraph:
    """The dependency graph."""
    from codelode.backends.redis.connection import connect
    from codelode.backends.redis.graph import RedisGraph

    return RedisGraph(connect(settings.redis_url))


def symbols(settings: Settings) -> SymbolTable:
    """Where names are defined."""
    from codelode.backends.redis.connection import connect
    from codelode.backends.redis.symbols import RedisSymbols

    return RedisSymbols(connect(settings.redis_url))
