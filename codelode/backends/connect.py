"""Settings → backends: the one place that chooses.

Every function imports its backend when it is called: a worker that parses never loads the index
engine, and a missing optional package is only missed by who asked for it. Nothing here is
cached: who calls owns the connection and closes it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from codelode.access import EVERYTHING
from codelode.backends.bound import BoundEmbedder, Made
from codelode.backends.operating import IndexBackup, ShadowIndex
from codelode.errors import Corrupt, Unavailable
from codelode.ledger import Ledger
from codelode.ports import (
    ChunkSearch,
    ChunkStore,
    CrossEncoder,
    DependencyGraph,
    Derivations,
    Embedder,
    Inventory,
    LanguageModel,
    PackageIndex,
    QueryCache,
    ReferenceIndex,
    SemanticQueryCache,
    StageOutputs,
    SummaryBudget,
    SymbolTable,
)
from codelode.settings import Settings

if TYPE_CHECKING:
    from codelode.backends.models.ollama import Server
    from codelode.backends.models.openai import Endpoint
    from codelode.backends.models.served import Limits
    from codelode.backends.redis.dump import RedisKeys
    from codelode.backends.redis.index_swap import RedisIndexSwap
    from codelode.backends.redis.queues import RedisQueues
    from codelode.backends.redis.table_inventory import RedisTableInventory
    from codelode.backends.weaviate import Address, TenantIndex

#: A worker is taken for dead after so many heartbeats that did not come.
MISSED_HEARTBEATS = 3

#: Longest wait for Redis while its keys are saved or restored, seconds: one may be all the records
#: of a repository.
SAVE_TIMEOUT_S = 120.0


#: The settings that name an embedder; where its server is and with which key stays each process's.
CHOICE = ("embedder", "embedding_model", "embedding_dim")


@dataclass(frozen=True, slots=True)
class Published:
    """Which index of the store is the published one, and settings whose embedder is its own."""

    name: str  # in the store; empty: there is none yet
    settings: Settings
    #: None: there is no index yet. Not compared: it is the same index when it is first written.
    made: Made | None = field(default=None, compare=False)


def published(settings: Settings) -> Published:
    """What the store publishes now; where a rebuild chose the embedder, the settings name that.

    A process takes its embedder and its side of the index from one answer, so that they fit; when
    the index raises Superseded it asks again. Raises Unavailable when the store is away.
    """
    if settings.store == "weaviate":
        from codelode.backends import weaviate

        name, choice, version = weaviate.published(*_weaviate(settings))
        made = Made(version.embedder, version.dim) if version else None
        return Published(name, chosen(settings, choice), made)
    from codelode.backends.local import published, signature

    found = published.read(settings.index_dir)
    return Published(
        found.folder.name, chosen(settings, found.choice), signature.made(found.folder)
    )


def beside(settings: Settings) -> ShadowIndex:
    """A new index for the embedder of the settings."""
    model = embedder(settings)
    choice = {name: getattr(settings, name) for name in CHOICE}
    if settings.store == "weaviate":
        from codelode.backends.weaviate import WeaviateShadowIndex

        return WeaviateShadowIndex(
            *_weaviate(settings), dim=model.dim, identity=model.identity, choice=choice
        )
    from codelode.backends.local import LocalShadowIndex

    return LocalShadowIndex(
        settings.index_dir, dim=model.dim, identity=model.identity, choice=choice
    )


def index_backup(settings: Settings) -> IndexBackup:
    """How the chunk index is saved."""
    if settings.store == "weaviate":
        from codelode.backends.weaviate.backup import WeaviateBackup

        return WeaviateBackup(*_weaviate(settings))
    from codelode.backends.local.backup import LocalBackup

    return LocalBackup(settings.index_dir)


def index_swap(settings: Settings) -> RedisIndexSwap:
    """How workers and a rebuild of the index keep out of each other's way."""
    from codelode.backends.redis.connection import connect
    from codelode.backends.redis.index_swap import RedisIndexSwap

    return RedisIndexSwap(connect(settings.redis_url))


def chunk_store(settings: Settings, model: Embedder | None = None) -> ChunkStore:
    """The write side of the chunk index; `model`: its embedder, if not that of the settings.

    Of an embedded one, one process writes at a time.
    """
    model = model or embedder(settings)
    if settings.store == "weaviate":
        from codelode.backends.weaviate import WeaviateChunkStore

        return WeaviateChunkStore(*_weaviate(settings), dim=model.dim, identity=model.identity)
    from codelode.backends.local import LocalChunkStore, published

    folder = published.read(settings.index_dir).folder
    return LocalChunkStore(folder, dim=model.dim, identity=model.identity)


def chunk_search(settings: Settings, model: Embedder | None = None) -> ChunkSearch:
    """The read side of the chunk index; `model`: its embedder, if not that of the settings."""
    model = model or embedder(settings)
    if settings.store == "weaviate":
        from codelode.backends.weaviate import WeaviateChunkSearch

        return WeaviateChunkSearch(*_weaviate(settings), dim=model.dim, identity=model.identity)
    from codelode.backends.local import LocalChunkSearch, published

    folder = published.read(settings.index_dir).folder
    return LocalChunkSearch(folder, dim=model.dim, identity=model.identity)


def require_fitting(settings: Settings) -> None:
    """Raise SchemaMismatch when what is published is of another schema or embedder.

    Raises Unavailable when the store is away.
    """
    search = chunk_search(settings)  # the embedded one looks when it is made
    if settings.store == "weaviate":
        asyncio.run(_looked_at(search))


async def _looked_at(search: ChunkSearch) -> None:
    try:
        await search.count(EVERYTHING)
    finally:
        await search.close()


def inventory(settings: Settings) -> Inventory:
    """What is stored in the published index, whatever embedder it is of."""
    if settings.store == "weaviate":
        from codelode.backends.weaviate.inventory import WeaviateInventory

        return WeaviateInventory(*_weaviate(settings))
    from codelode.backends.local import published
    from codelode.backends.local.inventory import LocalInventory

    return LocalInventory(published.read(settings.index_dir).folder)


def embedder(settings: Settings) -> Embedder:
    """The embedding model. One behind a server is not asked for anything yet."""
    if settings.embedder == "ollama":
        from codelode.backends.models import ollama

        return ollama.embedder(
            _ollama(settings),
            model=settings.embedding_model or ollama.EMBEDDING_MODEL,
            limits=_limits(settings),
            dim=settings.embedding_dim,
        )
    if settings.embedder == "openai":
        from codelode.backends.models import openai

        return openai.embedder(
            _endpoint(settings),
            model=settings.embedding_model or openai.EMBEDDING_MODEL,
            limits=_limits(settings),
            dim=settings.embedding_dim,
        )
    from codelode.backends.models.static import StaticEmbedder

    return StaticEmbedder()


def searching_embedder(index: Published) -> Embedder:
    """The embedding model for searches in an index.

    Where there is one already, a model behind a server is not asked for its identity.
    """
    if index.made is None or index.settings.embedder == "static":
        return embedder(index.settings)
    return BoundEmbedder(lambda: embedder(index.settings), index.made)


def language_model(settings: Settings) -> LanguageModel | None:
    """The model that writes summaries; None: none is configured."""
    if settings.language_model == "ollama":
        from codelode.backends.models import ollama

        return ollama.OllamaLanguageModel(
            _ollama(settings),
            model=settings.summary_model or ollama.LANGUAGE_MODEL,
            limits=_limits(settings),
        )
    if settings.language_model == "openai":
        from codelode.backends.models import openai

        return openai.OpenAiLanguageModel(
            _endpoint(settings),
            model=settings.summary_model or openai.LANGUAGE_MODEL,
            limits=_limits(settings),
        )
    return None


def prepare_models(settings: Settings, *, tell: Callable[[str], None] = lambda _: None) -> None:
    """Returns when the models behind servers answer; pulls those that are missing.

    Raises what using them would raise, but for a language model that is away, which is only told:
    everything works without summaries.
    """
    if settings.embedder != "static":
        _ = embedder(settings).identity
    model = language_model(settings)
    try:
        _ = model.identity if model else ""
    except Unavailable as exc:
        tell(f"no summaries until the language model is back, `codelode enrich` then: {exc}")


def derivations(settings: Settings) -> Derivations:
    """What was computed from contents."""
    max_bytes = settings.derivations_mb * 1_000_000
    if settings.derivations == "redis":
        from codelode.backends.redis.connection import connect
        from codelode.backends.redis.derivations import RedisDerivations

        client = connect(settings.cache_url or settings.redis_url)
        return RedisDerivations(client, max_bytes=max_bytes)
    if settings.derivations == "disk":
        from codelode.backends.sqlite import SqliteDerivations

        return SqliteDerivations(settings.derivations_file, max_bytes=max_bytes)
    from codelode.backends.memory.derivations import MemoryDerivations

    return MemoryDerivations(max_bytes=0)


def summary_budget(settings: Settings) -> SummaryBudget:
    """How many summaries may still be written."""
    from codelode.backends.redis.budget import RedisBudget
    from codelode.backends.redis.connection import connect

    return RedisBudget(
        connect(settings.redis_url),
        per_run=settings.summaries_per_run,
        per_day=settings.summaries_per_day,
        organisation=settings.organisation,
    )


def query_cache(settings: Settings) -> QueryCache:
    """The query cache; its Redis may be another one than the ledger's."""
    from codelode.backends.redis.cache import RedisCache
    from codelode.backends.redis.connection import connect_async

    client = connect_async(settings.cache_url or settings.redis_url)
    return RedisCache(client, entries=settings.cache_entries)


def semantic_query_cache(settings: Settings) -> SemanticQueryCache:
    """Which queries were answered before, beside their answers."""
    from codelode.backends.redis.connection import connect_async
    from codelode.backends.redis.semantic_cache import RedisSemanticQueryCache

    client = connect_async(settings.cache_url or settings.redis_url)
    return RedisSemanticQueryCache(client, entries=settings.cache_entries)


def cross_encoder(settings: Settings) -> CrossEncoder | None:
    """The model that reads query and code together; None: none is configured."""
    if not settings.cross_encoder:
        return None
    from codelode.backends.models.onnx import OnnxCrossEncoder

    return OnnxCrossEncoder(Path(settings.cross_encoder).expanduser())


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


def stage_outputs(settings: Settings) -> StageOutputs:
    """What one stage leaves for the next."""
    from codelode.backends.redis.connection import connect
    from codelode.backends.redis.stage_outputs import RedisStageOutputs

    return RedisStageOutputs(connect(settings.redis_url))


def queues(settings: Settings) -> RedisQueues:
    """Where messages for workers go."""
    from codelode.backends.redis.connection import connect
    from codelode.backends.redis.queues import RedisQueues

    return RedisQueues(connect(settings.redis_url))


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


def references(settings: Settings) -> ReferenceIndex:
    """Which names files use."""
    from codelode.backends.redis.connection import connect
    from codelode.backends.redis.references import RedisReferences

    return RedisReferences(connect(settings.redis_url))


def table_inventory(settings: Settings) -> RedisTableInventory:
    """Which repositories and files graph, symbol table and the other tables speak of."""
    from codelode.backends.redis.connection import connect
    from codelode.backends.redis.table_inventory import RedisTableInventory

    return RedisTableInventory(connect(settings.redis_url))


def redis_keys(settings: Settings) -> RedisKeys:
    """All that the cluster keeps in Redis, to save it and bring it back."""
    from codelode.backends.redis.connection import connect
    from codelode.backends.redis.dump import RedisKeys

    return RedisKeys(connect(settings.redis_url, timeout_s=SAVE_TIMEOUT_S))


def packages(settings: Settings) -> PackageIndex:
    """What repositories publish."""
    from codelode.backends.redis.connection import connect
    from codelode.backends.redis.packages import RedisPackageIndex

    return RedisPackageIndex(connect(settings.redis_url))


def chosen(settings: Settings, choice: Mapping[str, object]) -> Settings:
    """The settings with those of an index that names its embedder."""
    try:
        return Settings.model_validate({**dict(settings), **choice}) if choice else settings
    except ValueError as exc:
        raise Corrupt(f"the index names an embedder that is unknown here: {choice}") from exc


def _weaviate(settings: Settings) -> tuple[Address, TenantIndex]:
    from codelode.backends.weaviate import Address, TenantIndex

    key = settings.weaviate_api_key.get_secret_value()
    return (
        Address(settings.weaviate_url, settings.weaviate_grpc_port, key),
        TenantIndex(
            settings.weaviate_collection, settings.organisation, settings.weaviate_replicas
        ),
    )


def _ollama(settings: Settings) -> Server:
    from codelode.backends.models.ollama import Server

    return Server(
        settings.ollama_url, may_pull=settings.ollama_pull, threads=settings.ollama_threads
    )


def _endpoint(settings: Settings) -> Endpoint:
    from codelode.backends.models.openai import Endpoint

    return Endpoint(settings.openai_url, key=settings.openai_api_key)


def _limits(settings: Settings) -> Limits:
    from codelode.backends.models.served import Limits

    return Limits(
        batch_tokens=settings.embed_batch_tokens,
        concurrency=settings.model_concurrency,
        timeout_s=settings.model_timeout_s,
        query_timeout_s=settings.query_timeout_s,
        retry_s=settings.model_retry_s,
    )
