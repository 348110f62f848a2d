"""The backends that settings can choose: one record per chunk store and per model provider.

This is the only module that imports a backend. To add a chunk store, write its folder and a record
in STORES; to add a model provider, write its module in `models` and a record in PROVIDERS.

Every function imports its backend when it is called: a worker that parses never loads the index
engine, and a missing optional package only fails the process that needs it. Nothing is cached: the
caller owns the connection and closes it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from codelode.errors import Corrupt, Unavailable
from codelode.loopback import is_loopback

if TYPE_CHECKING:
    from redis import Redis

    from codelode.backends.engine import (
        IndexBackup,
        ShadowIndex,
        StoreEngine,
        VectorSpace,
    )
    from codelode.backends.models.ollama import Server
    from codelode.backends.models.served import Limits
    from codelode.backends.redis.dump import RedisKeys
    from codelode.backends.redis.index_swap import RedisIndexSwap
    from codelode.backends.redis.table_inventory import RedisTableInventory
    from codelode.backends.weaviate import Address, TenantIndex
    from codelode.ledger import Ledger
    from codelode.ports import (
        ApiKeys,
        CallLimits,
        ChunkMaps,
        ChunkSearch,
        ChunkStore,
        CrossEncoder,
        DependencyGraph,
        Derivations,
        DiskUse,
        Documents,
        Embedder,
        ExpiringValues,
        Inventory,
        LanguageModel,
        PackageIndex,
        PermissionStates,
        QueryCache,
        ReferenceIndex,
        RegroupingStates,
        SemanticQueryCache,
        SourceStates,
        StageOutputs,
        SummaryBudget,
        SymbolTable,
    )
    from codelode.settings import Settings

#: A worker counts as dead after this many missed heartbeats.
MISSED_HEARTBEATS = 3

#: Longest wait for Redis while its keys are saved or restored, seconds: one key may hold all
#: records of a repository.
SAVE_TIMEOUT_S = 120.0

#: The settings that name an embedder. Its server's address and key may differ between processes.
CHOICE = ("embedder", "embedding_model", "embedding_dim")


@dataclass(frozen=True, slots=True)
class Store:
    """A chunk store."""

    open: Callable[[Settings], StoreEngine]
    #: Settings that locate the index; all processes of a cluster need the same values.
    location: tuple[str, ...]
    #: Writer threads per worker process. An index in a local file allows one; with a server, one
    #: thread builds objects while the server stores those of another.
    writers: int
    #: Whether searches filter by the groups of repositories.
    has_groups: bool = False
    module: str = ""  # that `open` imports


@dataclass(frozen=True, slots=True)
class Provider:
    """A provider of models; None: it does not provide that kind of model."""

    embedder: Callable[[Settings], Embedder] | None = None
    language_model: Callable[[Settings], LanguageModel | None] | None = None
    cross_encoder: Callable[[Settings], CrossEncoder] | None = None
    #: Whether the models are behind a server, which may be unreachable or lack the model.
    is_remote: bool = False
    module: str = ""  # that the functions above import


def _local(settings: Settings) -> StoreEngine:
    from codelode.backends.local.engine import LocalEngine

    return LocalEngine(settings.index_dir)


def _weaviate(settings: Settings) -> StoreEngine:
    from codelode.backends.weaviate.engine import WeaviateEngine

    return WeaviateEngine(*weaviate_index(settings))


def weaviate_index(settings: Settings) -> tuple[Address, TenantIndex]:
    """Return the server and the index in it that the settings name."""
    from codelode.backends.weaviate import Address, TenantIndex

    key = settings.weaviate_api_key.get_secret_value()
    return (
        Address(settings.weaviate_url, settings.weaviate_grpc_port, key),
        TenantIndex(
            settings.weaviate_collection, settings.organisation, settings.weaviate_replicas
        ),
    )


def _static_embedder(_: Settings) -> Embedder:
    from codelode.backends.models.static import StaticEmbedder

    return StaticEmbedder()


def _ollama_embedder(settings: Settings) -> Embedder:
    from codelode.backends.models import ollama

    return ollama.embedder(
        _ollama_server(settings),
        model=settings.embedding_model or ollama.EMBEDDING_MODEL,
        limits=_limits(settings),
        dim=settings.embedding_dim,
    )


def _ollama_language_model(settings: Settings) -> LanguageModel:
    from codelode.backends.models import ollama

    return ollama.OllamaLanguageModel(
        _ollama_server(settings),
        model=settings.summary_model or ollama.LANGUAGE_MODEL,
        limits=_limits(settings),
    )


def _ollama_server(settings: Settings) -> Server:
    from codelode.backends.models.ollama import Server

    return Server(
        settings.ollama_url, may_pull=settings.ollama_pull, threads=settings.ollama_threads
    )


def _openai_embedder(settings: Settings) -> Embedder:
    from codelode.backends.models import openai

    return openai.embedder(
        openai.Endpoint(settings.openai_url, key=settings.openai_api_key),
        model=settings.embedding_model or openai.EMBEDDING_MODEL,
        limits=_limits(settings),
        dim=settings.embedding_dim,
    )


def _openai_language_model(settings: Settings) -> LanguageModel:
    from codelode.backends.models import openai

    return openai.OpenAiLanguageModel(
        openai.Endpoint(settings.openai_url, key=settings.openai_api_key),
        model=settings.summary_model or openai.LANGUAGE_MODEL,
        limits=_limits(settings),
    )


def _limits(settings: Settings) -> Limits:
    from codelode.backends.models.served import Limits

    return Limits(
        batch_tokens=settings.embed_batch_tokens,
        concurrency=settings.model_concurrency,
        timeout_s=settings.model_timeout_s,
        query_timeout_s=settings.query_timeout_s,
        retry_s=settings.model_retry_s,
    )


def _onnx_cross_encoder(settings: Settings) -> CrossEncoder:
    from codelode.backends.models.onnx import OnnxCrossEncoder

    return OnnxCrossEncoder(Path(settings.cross_encoder).expanduser())


def _redis_derivations(settings: Settings) -> Derivations:
    from codelode.backends.redis.connection import connect
    from codelode.backends.redis.derivations import RedisDerivations

    client = connect(settings.cache_url or settings.redis_url)
    return RedisDerivations(client, max_bytes=settings.derivations_mb * 1_000_000)


def _disk_derivations(settings: Settings) -> Derivations:
    from codelode.backends.sqlite import SqliteDerivations

    return SqliteDerivations(
        settings.derivations_file, max_bytes=settings.derivations_mb * 1_000_000
    )


def _no_derivations(_: Settings) -> Derivations:
    from codelode.backends.memory.derivations import MemoryDerivations

    return MemoryDerivations(max_bytes=0)


STORES: dict[str, Store] = {
    "local": Store(_local, location=("data",), writers=1, module="codelode.backends.local.engine"),
    "weaviate": Store(
        _weaviate,
        location=("weaviate_url", "weaviate_collection"),
        writers=2,
        has_groups=True,
        module="codelode.backends.weaviate.engine",
    ),
}

PROVIDERS: dict[str, Provider] = {
    "none": Provider(language_model=lambda _: None),
    "static": Provider(_static_embedder, module="codelode.backends.models.static"),
    "ollama": Provider(
        _ollama_embedder,
        _ollama_language_model,
        is_remote=True,
        module="codelode.backends.models.ollama",
    ),
    "openai": Provider(
        _openai_embedder,
        _openai_language_model,
        is_remote=True,
        module="codelode.backends.models.openai",
    ),
    "onnx": Provider(cross_encoder=_onnx_cross_encoder),
}

DERIVATIONS: dict[str, Callable[[Settings], Derivations]] = {
    "disk": _disk_derivations,
    "redis": _redis_derivations,
    "none": _no_derivations,
}


def choices(setting: str) -> tuple[str, ...]:
    """Return the values of a setting that names a backend."""
    return {
        "store": tuple(STORES),
        "embedder": tuple(name for name, one in PROVIDERS.items() if one.embedder),
        "language_model": tuple(name for name, one in PROVIDERS.items() if one.language_model),
        "derivations": tuple(DERIVATIONS),
    }[setting]


def modules(settings: Settings) -> list[str]:
    """Return the modules of the chosen store and models, which worker processes import."""
    chosen = (PROVIDERS[settings.embedder], PROVIDERS[settings.language_model])
    return [STORES[settings.store].module, *(one.module for one in chosen if one.module)]


# Models


def embedder(settings: Settings) -> Embedder:
    """Return the embedding model. Does not contact its server yet."""
    make = PROVIDERS[settings.embedder].embedder
    assert make is not None, "the settings are checked against `choices`"
    return make(settings)


def embeds_on_loopback(settings: Settings) -> bool:
    """Return whether a model server on this machine embeds."""
    servers = {"ollama": settings.ollama_url, "openai": settings.openai_url}
    url = servers.get(settings.embedder, "")
    return is_loopback(urlsplit(url).hostname or "")


def is_embedder_remote(settings: Settings) -> bool:
    """Return whether a model server embeds, and not the processes of a run."""
    return PROVIDERS[settings.embedder].is_remote


def search_embedder(index: Published) -> Embedder:
    """Return the embedding model for searches in an index.

    If the index names its embedder, the server of the model is not asked for its identity, so a
    gateway can start while that server is unreachable.
    """
    if index.space is None or not is_embedder_remote(index.settings):
        return embedder(index.settings)
    from codelode.backends.models.bound import BoundEmbedder

    return BoundEmbedder(lambda: embedder(index.settings), index.space)


def language_model(settings: Settings) -> LanguageModel | None:
    """Return the model that writes summaries; None: none is configured."""
    make = PROVIDERS[settings.language_model].language_model
    assert make is not None, "the settings are checked against `choices`"
    return make(settings)


def cross_encoder(settings: Settings) -> CrossEncoder | None:
    """Return the model that reads query and code together; None: none is configured."""
    return _onnx_cross_encoder(settings) if settings.cross_encoder else None


def prepare_models(settings: Settings, *, tell: Callable[[str], None] = lambda _: None) -> None:
    """Wait until the models behind servers answer; pull those that are missing.

    Raises the errors that using them would raise. An unreachable language model is only
    reported, because everything works without summaries.
    """
    if PROVIDERS[settings.embedder].is_remote:
        _ = embedder(settings).identity
    model = language_model(settings)
    try:
        _ = model.identity if model else ""
    except Unavailable as exc:
        tell(f"no summaries until the language model answers; then run `codelode enrich`: {exc}")


# The chunk index


@dataclass(frozen=True, slots=True)
class Published:
    """The published index, and settings that name its embedder."""

    name: str  # in the store; empty: there is none yet
    settings: Settings
    #: None: there is no index yet. Not compared: the first write does not make it another index.
    space: VectorSpace | None = field(default=None, compare=False)


def engine(settings: Settings) -> StoreEngine:
    """Return the chunk store that the settings choose."""
    return STORES[settings.store].open(settings)


def published(settings: Settings) -> Published:
    """Return the published index, with settings that name the embedder that it was built with.

    A process opens the index and its embedder from one result, so that they match. It calls this
    again when the index raises Superseded. Raises Unavailable when the store does not answer.
    """
    found = engine(settings).published()
    return Published(found.name, chosen(settings, found.choice), found.space)


def chunk_store(settings: Settings, model: Embedder | None = None) -> ChunkStore:
    """Open the index for writing. `model` is its embedder, if not that of the settings."""
    return engine(settings).writer(_space(model or embedder(settings)))


def chunk_search(settings: Settings, model: Embedder | None = None) -> ChunkSearch:
    """Open the index for searching. `model` is its embedder, if not that of the settings."""
    return engine(settings).reader(_space(model or embedder(settings)))


def require_matching_index(settings: Settings) -> None:
    """Raise SchemaMismatch when the published index has another schema or embedder.

    Raises Unavailable when the store does not answer.
    """
    engine(settings).check(_space(embedder(settings)))


def inventory(settings: Settings) -> Inventory:
    """Open the published index for counting, whatever its embedder is."""
    return engine(settings).inventory()


def shadow_index(settings: Settings) -> ShadowIndex:
    """Return the shadow index for the embedder of the settings."""
    choice = {name: getattr(settings, name) for name in CHOICE}
    return engine(settings).shadow_index(_space(embedder(settings)), choice)


def index_backup(settings: Settings) -> IndexBackup:
    """Return the object that saves and restores the published index."""
    return engine(settings).backup()


def chosen(settings: Settings, choice: Mapping[str, object]) -> Settings:
    """Return the settings with those that name an index's embedder replaced."""
    try:
        return settings.model_validate({**dict(settings), **choice}) if choice else settings
    except ValueError as exc:
        raise Corrupt(f"the index names an embedder that is unknown here: {choice}") from exc


def _space(model: Embedder) -> VectorSpace:
    from codelode.backends.engine import VectorSpace

    return VectorSpace(model.identity, model.dim)


# What is kept in Redis


def derivations(settings: Settings) -> Derivations:
    """Return the cache of values derived from contents."""
    return DERIVATIONS[settings.derivations](settings)


def ledger(settings: Settings) -> Ledger:
    """Return the job ledger."""
    from codelode.backends.redis.ledger import RedisLedger

    return RedisLedger(
        _redis(settings),
        window=settings.window,
        requeue_s=settings.requeue_s,
        lease_s=settings.lease_s,
        worker_ttl_s=MISSED_HEARTBEATS * settings.heartbeat_s,
    )


def api_keys(settings: Settings) -> ApiKeys:
    """Return the API keys, which are kept with the ledger."""
    from codelode.backends.redis.api_keys import RedisApiKeys

    return RedisApiKeys(_redis(settings))


def permission_states(settings: Settings) -> PermissionStates:
    """Return the permissions of code hosts."""
    from codelode.backends.redis.permissions import RedisPermissionStates

    return RedisPermissionStates(_redis(settings))


def source_states(settings: Settings) -> SourceStates:
    """Return the followed repositories of code hosts."""
    from codelode.backends.redis.sources import RedisSourceStates

    return RedisSourceStates(_redis(settings))


def regrouping_states(settings: Settings) -> RegroupingStates:
    """Return the state of regrouping."""
    from codelode.backends.redis.regrouping import RedisRegroupingStates

    return RedisRegroupingStates(_redis(settings))


def index_swap(settings: Settings) -> RedisIndexSwap:
    """Return the locks between writers of the index and whatever replaces it."""
    from codelode.backends.redis.index_swap import RedisIndexSwap

    return RedisIndexSwap(_redis(settings))


def summary_budget(settings: Settings) -> SummaryBudget:
    """Return the count of summaries that may still be written."""
    from codelode.backends.redis.budget import RedisBudget

    return RedisBudget(
        _redis(settings),
        per_run=settings.summaries_per_run,
        per_day=settings.summaries_per_day,
        organisation=settings.organisation,
    )


def query_cache(settings: Settings) -> QueryCache:
    """Return the query cache, which may have its own Redis."""
    from codelode.backends.redis.cache import RedisCache
    from codelode.backends.redis.connection import connect_async

    client = connect_async(settings.cache_url or settings.redis_url)
    return RedisCache(client, entries=settings.cache_entries)


def semantic_query_cache(settings: Settings) -> SemanticQueryCache:
    """Return the semantic query cache, which is kept with the query cache."""
    from codelode.backends.redis.connection import connect_async
    from codelode.backends.redis.semantic_cache import RedisSemanticQueryCache

    client = connect_async(settings.cache_url or settings.redis_url)
    return RedisSemanticQueryCache(client, entries=settings.cache_entries)


def call_limits(settings: Settings) -> CallLimits:
    """Return the counts of calls, which all gateways share."""
    from codelode.backends.memory.call_limits import MemoryCallLimits
    from codelode.backends.redis.call_limits import RedisCallLimits
    from codelode.backends.redis.connection import connect_async

    client = connect_async(settings.redis_url)
    return RedisCallLimits(client, MemoryCallLimits(), organisation=settings.organisation)


def expiring_values(settings: Settings) -> ExpiringValues:
    """Return the values that expire, which all gateways share."""
    from codelode.backends.redis.connection import connect_async
    from codelode.backends.redis.expiring_values import RedisExpiringValues

    return RedisExpiringValues(connect_async(settings.redis_url))


def stage_outputs(settings: Settings) -> StageOutputs:
    """Return the outputs that one stage leaves for the next."""
    from codelode.backends.redis.stage_outputs import RedisStageOutputs

    return RedisStageOutputs(_redis(settings))


def graph(settings: Settings) -> DependencyGraph:
    """Return the dependency graph."""
    from codelode.backends.redis.graph import RedisGraph

    return RedisGraph(_redis(settings))


def symbols(settings: Settings) -> SymbolTable:
    """Return the symbol table."""
    from codelode.backends.redis.symbols import RedisSymbols

    return RedisSymbols(_redis(settings))


def references(settings: Settings) -> ReferenceIndex:
    """Return the index of the names that files use."""
    from codelode.backends.redis.references import RedisReferences

    return RedisReferences(_redis(settings))


def packages(settings: Settings) -> PackageIndex:
    """Return the index of the packages that repositories publish."""
    from codelode.backends.redis.packages import RedisPackageIndex

    return RedisPackageIndex(_redis(settings))


def chunk_maps(settings: Settings) -> ChunkMaps:
    """Return the maps of chunks."""
    from codelode.backends.redis.chunk_maps import RedisChunkMaps

    return RedisChunkMaps(_redis(settings))


def disk_use(settings: Settings) -> DiskUse:
    """Return the sizes that the workers measured last."""
    from codelode.backends.redis.disk_use import RedisDiskUse

    return RedisDiskUse(_redis(settings))


def redis_memory(url: str) -> int:
    """Return the bytes of memory that a Redis server uses for its data."""
    from codelode.backends.redis.disk_use import used_memory

    return used_memory(url)


def table_inventory(settings: Settings) -> RedisTableInventory:
    """Return the inventory of graph, symbol table, and the other tables in Redis."""
    from codelode.backends.redis.table_inventory import RedisTableInventory

    return RedisTableInventory(_redis(settings))


def redis_keys(settings: Settings) -> RedisKeys:
    """Return everything that the cluster keeps in Redis, to be saved and restored."""
    from codelode.backends.redis.dump import RedisKeys

    return RedisKeys(_redis(settings, timeout_s=SAVE_TIMEOUT_S))


def documents() -> Documents:
    """Return the client that fetches JSON documents from web servers."""
    from codelode.backends.documents import WebDocuments

    return WebDocuments()


def ping_redis(url: str) -> None:
    """Raise Unavailable unless the Redis server answers and has loaded its data."""
    from codelode.backends.redis.connection import ping

    ping(url)


def _redis(settings: Settings, timeout_s: float | None = None) -> Redis:
    from codelode.backends.redis.connection import REPLY_TIMEOUT_S, connect

    return connect(settings.redis_url, timeout_s=timeout_s or REPLY_TIMEOUT_S)
