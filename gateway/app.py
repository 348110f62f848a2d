"""Wiring and life of the gateway: settings → backends → services → a grpc.aio server.

The gateway keeps no state of its own: killed at any moment, another one answers the same. It
reports itself healthy only while Redis answers and the store is open, and it leaves in the order
that loses nothing: unhealthy first, streams ended with the hint to come back, then the calls in
flight get their time. One event loop per process: grpc.aio does not support two.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import structlog
from grpc import aio
from grpc_health.v1 import health, health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection

from codelode import garbage, logs
from codelode.access import EVERYTHING
from codelode.backends import connect
from codelode.errors import CodelodeError, InvalidSettings, SchemaMismatch, Unavailable
from codelode.ledger import Ledger
from codelode.ports import QueryCache, SemanticQueryCache, Tokeniser
from codelode.settings import Settings, load, require_private
from codelode.v1 import (
    graph_pb2,
    graph_pb2_grpc,
    index_pb2,
    index_pb2_grpc,
    search_pb2,
    search_pb2_grpc,
)
from gateway.api.answers import Answers
from gateway.api.coverage import Coverage
from gateway.api.following import Following, Published
from gateway.api.graph import GraphService
from gateway.api.index import IndexService
from gateway.api.interceptors import Calls
from gateway.api.jobs import CeleryJobs, Jobs
from gateway.api.search import SearchService
from gateway.remembering import RememberingEmbedder
from gateway.state import Backends

log = structlog.get_logger("gateway")

MAX_MESSAGE_BYTES = 16 << 20

#: Connections end after 10 minutes so that load balancers spread them anew; watching resumes.
OPTIONS: tuple[tuple[str, int], ...] = (
    ("grpc.max_receive_message_length", MAX_MESSAGE_BYTES),
    ("grpc.max_send_message_length", MAX_MESSAGE_BYTES),
    ("grpc.keepalive_time_ms", 60_000),
    ("grpc.keepalive_timeout_ms", 20_000),
    # Clients that ping more often are sent away; the default of 5 minutes is stricter than theirs.
    ("grpc.http2.min_recv_ping_interval_without_data_ms", 30_000),
    ("grpc.max_connection_age_ms", 600_000),
    ("grpc.max_connection_age_grace_ms", 60_000),
    ("grpc.so_reuseport", 0),  # a second server on the port must fail, not share it
)

SEARCH = search_pb2.DESCRIPTOR.services_by_name["SearchService"]
INDEX = index_pb2.DESCRIPTOR.services_by_name["IndexService"]
GRAPH = graph_pb2.DESCRIPTOR.services_by_name["GraphService"]
SERVICES = (SEARCH.full_name, INDEX.full_name, GRAPH.full_name)

HEALTH_INTERVAL_S = 1.0
#: Calls in flight get so long to finish when the gateway leaves.
GRACE_S = 25.0
#: And what they have answered so long to get out.
FLUSH_S = 0.5
#: Threads for synchronous ports. They wait for Redis, so their number is no matter of cores.
THREADS = 32


@dataclass(frozen=True, slots=True)
class Services:
    """Everything the gateway talks to."""

    backends: Backends
    ledger: Ledger
    cache: QueryCache
    near: SemanticQueryCache
    jobs: Jobs
    look: Callable[[Backends], Backends | None] = lambda _: None  # see `Published`

    async def close(self) -> None:
        await self.backends.chunks.close()
        await self.cache.close()
        await self.near.close()
        self.jobs.close()


def connected(settings: Settings) -> Services:
    """The services that the settings name. Connects lazily where the backend can."""
    index = _Index(settings)
    return Services(
        backends=index.backends(),
        ledger=connect.ledger(settings),
        cache=connect.query_cache(settings),
        near=connect.semantic_query_cache(settings),
        jobs=CeleryJobs(settings),
        look=index.look,
    )


class _Index:
    """Which index was published when it was last looked at, and what belongs to it."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        try:
            self._published = connect.published(settings)
        except Unavailable:  # then the first search that finds another embedder looks again
            self._published = connect.Published("", settings)

    def backends(self) -> Backends:
        """All backends; of the index and its embedder those that are published."""
        settings = self._settings
        return replace(
            _of(self._published),
            graph=connect.graph(settings),
            symbols=connect.symbols(settings),
            language_model=connect.language_model(settings),
            cross_encoder=connect.cross_encoder(settings),
            references=connect.references(settings),
            packages=connect.packages(settings),
        )

    def look(self, before: Backends) -> Backends | None:
        """The same backends with index and embedder of now; None: those are the given ones."""
        found, known = connect.published(self._settings), self._published
        if (found, found.made) == (known, known.made):
            return None
        now = _of(found)
        self._published = found
        log.info("index_followed", index=found.name, embedder=now.embedder.identity)
        return replace(before, chunks=now.chunks, embedder=now.embedder, tokeniser=now.tokeniser)


def _of(index: connect.Published) -> Backends:
    """The read side of an index and its embedder."""
    embedder = connect.searching_embedder(index)
    return Backends(
        chunks=connect.chunk_search(index.settings, embedder),
        embedder=RememberingEmbedder(embedder),
        tokeniser=embedder if isinstance(embedder, Tokeniser) else None,
    )


class Gateway:
    """A gRPC server over the services, from `start` to `stop`."""

    def __init__(self, services: Services, settings: Settings) -> None:
        self._services = services
        self._settings = settings
        self._published = Published(services.backends, services.look)
        self._health = health.aio.HealthServicer()
        self._draining = asyncio.Event()
        self._calls = Calls(token=settings.token.get_secret_value())
        self._server = aio.server(interceptors=[self._calls], options=OPTIONS)
        self._is_healthy: bool | None = None  # as last reported
        self._is_open = False  # the store answered once
        self._watch: asyncio.Task[None] | None = None
        self.port = 0  # the bound port, also when `listen` asked for any

    async def start(self) -> None:
        """Listen. Raises InvalidSettings when `listen` is not allowed, malformed or taken."""
        require_private(self._settings)
        await self._report(is_healthy=False, reason="starting")
        self._add_services()
        self.port = _bind(self._server, self._settings.listen)
        await self._server.start()
        await self._observe()
        self._watch = asyncio.create_task(self._keep_observing())
        log.info("gateway_started", listen=self._settings.listen, port=self.port)

    async def stop(self, *, grace_s: float = GRACE_S) -> None:
        """Leave: unhealthy, settle, end the streams, finish the calls in flight."""
        if self._watch is not None:
            self._watch.cancel()
            with suppress(asyncio.CancelledError):
                await self._watch
        await self._health.enter_graceful_shutdown()
        await asyncio.sleep(self._settings.drain_settle_s)
        self._draining.set()
        await self._finish_calls(grace_s)
        await self._published.close()
        log.info("gateway_stopped")

    async def _finish_calls(self, grace_s: float) -> None:
        """Close when our own calls are through: a watch of health would outlast any grace."""
        closing = asyncio.create_task(self._server.stop(grace_s))
        with suppress(TimeoutError):
            await asyncio.wait_for(self._calls.idle.wait(), grace_s)
        await self._server.stop(FLUSH_S)
        await closing

    def _add_services(self) -> None:
        """Those that search are made anew for each index that is published."""
        search: Any = Following(SEARCH, self._published, self._search_service)
        index: Any = Following(INDEX, self._published, self._index_service)
        graph: Any = Following(GRAPH, self._published, self._graph_service)
        search_pb2_grpc.add_SearchServiceServicer_to_server(search, self._server)
        graph_pb2_grpc.add_GraphServiceServicer_to_server(graph, self._server)
        index_pb2_grpc.add_IndexServiceServicer_to_server(index, self._server)
        health_pb2_grpc.add_HealthServicer_to_server(self._health, self._server)
        names = (*SERVICES, health.SERVICE_NAME, reflection.SERVICE_NAME)
        reflection.enable_server_reflection(names, self._server)

    def _search_service(self, backends: Backends) -> SearchService:
        services, settings = self._services, self._settings
        return SearchService(
            backends=backends,
            ledger=services.ledger,
            answers=Answers(
                cache=services.cache,
                near=services.near,
                store=settings.store,
                embedder=backends.embedder,
                ttl_s=settings.cache_ttl_s,
                least=settings.cache_similarity,
            ),
            coverage=Coverage(services.ledger),
        )

    def _graph_service(self, backends: Backends) -> GraphService:
        return GraphService(backends=backends, ledger=self._services.ledger)

    def _index_service(self, backends: Backends) -> IndexService:
        services, settings = self._services, self._settings
        return IndexService(
            ledger=services.ledger,
            jobs=services.jobs,
            chunks=backends.chunks,
            embedder=backends.embedder.identity,
            store=settings.store,
            local_paths=settings.local_paths,
            language_model=settings.language_model,
            draining=self._draining,
        )

    async def _keep_observing(self) -> None:
        while True:
            await asyncio.sleep(HEALTH_INTERVAL_S)
            await self._observe()

    async def _observe(self) -> None:
        try:
            await asyncio.to_thread(self._services.ledger.generation)
            if not self._is_open:
                await self._open()
                self._is_open = True
        except CodelodeError as exc:
            await self._report(is_healthy=False, reason=str(exc))
        else:
            await self._report(is_healthy=True)

    async def _open(self) -> None:
        """Returns when the published index answers."""
        backends = self._published.backends
        try:
            await backends.chunks.count(EVERYTHING)
        except SchemaMismatch:
            if not await self._published.follow(backends):
                raise
            await self._published.backends.chunks.count(EVERYTHING)

    async def _report(self, *, is_healthy: bool, reason: str = "") -> None:
        """Tell who asks, and the log when it changed."""
        if is_healthy != self._is_healthy:
            self._is_healthy = is_healthy
            log.info("health", is_healthy=is_healthy, reason=reason)
        status = health_pb2.HealthCheckResponse
        now = status.SERVING if is_healthy else status.NOT_SERVING
        for name in (health.OVERALL_HEALTH, *SERVICES):
            await self._health.set(name, now)


def _bind(server: aio.Server, listen: str) -> int:
    try:
        return server.add_insecure_port(listen)
    except RuntimeError as exc:
        raise InvalidSettings(
            f"CODELODE_LISTEN={listen!r} cannot be listened on; is another gateway running? ({exc})"
        ) from exc


async def serve(settings: Settings) -> None:
    """Serve until SIGTERM or SIGINT."""
    require_private(settings)
    loop = asyncio.get_running_loop()
    loop.set_default_executor(ThreadPoolExecutor(THREADS, thread_name_prefix="port"))
    asked_to_stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, asked_to_stop.set)
    services = connected(settings)
    gateway = Gateway(services, settings)
    try:
        await gateway.start()
        garbage.settle()
        await asked_to_stop.wait()
        await gateway.stop()
    finally:
        await services.close()


def main() -> None:
    """Serve with the settings of the environment; what prevents it is told in one line."""
    try:
        settings = load()
        logs.configure(settings)
        asyncio.run(serve(settings))
    except CodelodeError as exc:
        raise SystemExit(f"gateway: {exc}") from None
