"""Build the gateway from settings, and start and stop its servers: gRPC and, optionally, HTTP.

The gateway is stateless: if it is killed, another one gives the same answers. Its shutdown loses no
call: the gateway reports that it is unhealthy, ends streams with an error that asks for a retry,
and lets the calls in flight finish. There is one event loop per process, because grpc.aio does not
support more.
"""

from __future__ import annotations

import asyncio
import signal
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

import grpc
import structlog
from grpc import aio
from grpc_health.v1 import health, health_pb2_grpc
from grpc_reflection.v1alpha import reflection

from codelode import garbage, logs, scopes
from codelode.backends import registry
from codelode.environment import UNUSABLE_SETTINGS
from codelode.errors import CodelodeError, InvalidSettings, Unavailable
from codelode.listeners import require_secure_listeners
from codelode.ports import Tokeniser
from codelode.scopes import NO_SCOPES
from codelode.settings import Settings, load
from codelode.v1 import (
    access_pb2,
    access_pb2_grpc,
    graph_pb2,
    graph_pb2_grpc,
    index_pb2,
    index_pb2_grpc,
    search_pb2,
    search_pb2_grpc,
)
from gateway.access import Access
from gateway.access.api_keys import KeyAuthenticator
from gateway.access.attempts import GuardedAccess
from gateway.access.followed import FollowedFile
from gateway.access.hosts import HostReader
from gateway.access.identity import Authenticator, ClientCertificates
from gateway.access.rules import AccessFile, Rules
from gateway.access.shared_token import SharedToken
from gateway.access.visibility import Visibilities
from gateway.access.webhooks import WebhookConnections, Webhooks
from gateway.api.rpc.interceptors import Interceptor
from gateway.api.rpc.services import AccessService, GraphService, IndexService, SearchService
from gateway.caching_embedder import CachingEmbedder
from gateway.calls import Calls
from gateway.health import Health
from gateway.highlighting import Highlighter
from gateway.jobs import CeleryJobs
from gateway.service import Dependencies, audit_log, limits
from gateway.service.coverage import CoverageReader
from gateway.service.published import Published
from gateway.service.sources import problems as source_problems
from gateway.sessions import sessions
from gateway.state import Backends, CommitTimes
from gateway.tls import ServerCertificate, server_certificate

if TYPE_CHECKING:
    from gateway.api.rest.server import HttpServer

log = structlog.get_logger("gateway")

#: Largest answer: 200 hits of large chunks.
MAX_ANSWER_BYTES = 16 << 20
#: Largest request, above all limits of the service layer. Decoding blocks the event loop for up to
#: 0.1 s for each MB.
MAX_REQUEST_BYTES = 1 << 19

#: Connections end after 10 minutes so that load balancers redistribute them; clients resume.
OPTIONS: tuple[tuple[str, int], ...] = (
    ("grpc.max_receive_message_length", MAX_REQUEST_BYTES),
    ("grpc.max_send_message_length", MAX_ANSWER_BYTES),
    # Tokens that list many groups exceed the default of 8 kB, above which gRPC refuses some calls.
    ("grpc.max_metadata_size", 16 << 10),
    ("grpc.absolute_max_metadata_size", 24 << 10),
    # Per connection; a client with more concurrent calls waits. The default is unlimited.
    ("grpc.max_concurrent_streams", 1_000),
    ("grpc.keepalive_time_ms", 60_000),
    ("grpc.keepalive_timeout_ms", 20_000),
    # Clients that ping more often are disconnected; the default of 5 minutes would affect ours.
    ("grpc.http2.min_recv_ping_interval_without_data_ms", 30_000),
    ("grpc.max_connection_age_ms", 600_000),
    ("grpc.max_connection_age_grace_ms", 60_000),
)

SEARCH = search_pb2.DESCRIPTOR.services_by_name["SearchService"]
INDEX = index_pb2.DESCRIPTOR.services_by_name["IndexService"]
GRAPH = graph_pb2.DESCRIPTOR.services_by_name["GraphService"]
ACCESS = access_pb2.DESCRIPTOR.services_by_name["AccessService"]
SERVICES = tuple(one.full_name for one in (SEARCH, INDEX, GRAPH, ACCESS))

#: How long calls in flight may take to finish when the gateway shuts down, seconds.
GRACE_S = 25.0
#: How long sending the answers to these calls may take, seconds.
FLUSH_S = 0.5
#: Threads for synchronous ports. They wait for Redis, so the number of cores does not matter.
THREADS = 32


def connected(settings: Settings) -> Dependencies:
    """Return the dependencies that the settings name; most backends connect at first use."""
    index = _Index(settings)
    ledger = registry.ledger(settings)
    coverage = CoverageReader(ledger)
    return Dependencies(
        published=Published(index.backends(coverage), index.look),
        ledger=ledger,
        cache=registry.query_cache(settings),
        semantic_cache=registry.semantic_query_cache(settings),
        jobs=CeleryJobs(settings),
        settings=settings,
        coverage=coverage,
        keys=registry.api_keys(settings),
        permissions=registry.permission_states(settings),
        regrouping=registry.regrouping_states(settings),
        disk_use=registry.disk_use(settings),
        sources=registry.source_states(settings),
        maps=registry.chunk_maps(settings),
        sessions=sessions(settings, registry.expiring_values(settings), registry.documents()),
        deliveries=registry.expiring_values(settings),
        call_limits=registry.call_limits(settings) if limits.are_on(settings) else None,
        audit_log=audit_log.opened(settings),
    )


class _Index:
    """Remembers the published index, to detect when another one is published."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        try:
            self._published = registry.published(settings)
        except Unavailable:  # `look` reads it again when a search finds another embedder
            self._published = registry.Published("", settings)

    def backends(self, history: CommitTimes) -> Backends:
        """Return all backends, including the published index and its embedder."""
        settings = self._settings
        return replace(
            _of(self._published),
            graph=registry.graph(settings),
            symbols=registry.symbols(settings),
            language_model=registry.language_model(settings),
            cross_encoder=registry.cross_encoder(settings),
            references=registry.references(settings),
            packages=registry.packages(settings),
            history=history,
        )

    def look(self, before: Backends) -> Backends | None:
        """Return the backends with the index published now, or None if they already have it."""
        found, known = registry.published(self._settings), self._published
        if (found, found.space) == (known, known.space):
            return None
        now = _of(found)
        self._published = found
        log.info("index_followed", index=found.name, embedder=now.embedder.identity)
        return replace(before, chunks=now.chunks, embedder=now.embedder, tokeniser=now.tokeniser)


def _of(index: registry.Published) -> Backends:
    """Return backends with the index and its embedder, for reading."""
    embedder = registry.search_embedder(index)
    return Backends(
        chunks=registry.chunk_search(index.settings, embedder),
        embedder=CachingEmbedder(embedder),
        tokeniser=embedder if isinstance(embedder, Tokeniser) else None,
    )


class Gateway:
    """The servers over the services, from `start` to `stop`."""

    def __init__(self, dependencies: Dependencies) -> None:
        self._access_file = AccessFile(dependencies.settings.access_file)
        self._scopes_file = FollowedFile(
            dependencies.settings.scopes, what="scopes file", parse=scopes.parse, empty=NO_SCOPES
        )
        self._scopes_file.require()
        hosts = HostReader(dependencies.permissions)
        visibilities = Visibilities(
            dependencies.ledger, self._access_file.current, hosts, dependencies.regrouping
        )
        self._dependencies = replace(
            dependencies,
            scopes=self._scopes_file.current,
            problems=lambda: (
                *self._access_file.problems(),
                *self._scopes_file.problems(),
                *hosts.problems(),
                *visibilities.problems(),
                *source_problems(dependencies.sources),
            ),
        )
        self._settings = dependencies.settings
        self._health = Health(self._dependencies, SERVICES)
        self._calls = Calls(
            _access(dependencies, visibilities),
            limits.limiter(self._settings, dependencies.call_limits),
            dependencies.audit_log,
        )
        self._following: list[asyncio.Task[None]] = []  # tasks that follow the files of operators
        interceptor = Interceptor(self._calls, with_certificates=bool(self._settings.listen_mtls))
        # Unless ports are shared, a second server on the port must fail.
        sharing = ("grpc.so_reuseport", int(self._settings.share_ports))
        self._server = aio.server(interceptors=[interceptor], options=(*OPTIONS, sharing))
        self._renewal: asyncio.Task[None] | None = None  # the task that renews the certificate
        self.port = 0  # the bound port, also if `listen` has port 0
        self.mtls_port = 0  # the bound port of `listen_mtls`
        self._http: HttpServer | None = None
        self._highlighter = Highlighter()

    async def start(self) -> None:
        """Start serving. Raises InvalidSettings for a forbidden, malformed, or occupied address."""
        require_secure_listeners(self._settings)
        self._add_services()
        certificate = server_certificate(self._settings)
        self._bind(certificate)
        await self._health.begin()
        await self._server.start()
        if self._http is not None:
            await self._start_http(self._http, certificate)
        await self._health.start()
        self._following = [
            asyncio.create_task(self._access_file.follow(self._announce)),
            asyncio.create_task(self._scopes_file.follow()),
        ]
        if certificate is not None:
            self._renewal = asyncio.create_task(certificate.watch())
        log.info(
            "gateway_started",
            listen=self._settings.listen,
            port=self.port,
            http_port=self.http_port,
            health_port=self._health.port,
        )

    @property
    def health_port(self) -> int:
        """Return the port of the process that answers probes; 0 if there is none."""
        return self._health.port

    @property
    def http_port(self) -> int:
        """Return the bound port of `http_listen`; 0 if there is none."""
        return self._http.port if self._http is not None else 0

    def _bind(self, certificate: ServerCertificate | None) -> None:
        settings, server = self._settings, self._server
        credentials = certificate.credentials() if certificate is not None else None
        self.port = _bind(server, "LISTEN", settings.listen, credentials)
        if certificate is not None and settings.listen_mtls:
            credentials = certificate.credentials(verify_clients=True)
            self.mtls_port = _bind(server, "LISTEN_MTLS", settings.listen_mtls, credentials)
        if settings.http_listen:
            from gateway.api.rest.server import HttpServer  # takes 0.5 s

            self._http = HttpServer(settings.http_listen, share_port=settings.share_ports)

    async def _start_http(self, http: HttpServer, certificate: ServerCertificate | None) -> None:
        from gateway.api.rest import calls
        from gateway.api.web.app import application

        face = calls.Face(
            self._dependencies,
            self._calls,
            lambda: self._health.is_healthy,
            WebhookConnections(self._settings.sources),
            self._highlighter,
        )
        context = certificate.context() if certificate is not None else None
        await http.start(calls.Faced(application(), face), context)

    def _announce(self, rules: Rules) -> None:
        """Store, for the workers, the globs of the access file that form groups of repositories."""
        self._dependencies.ledger.set_access_globs(rules.groupings())

    async def stop(self, *, grace_s: float = GRACE_S) -> None:
        """Shut down: report unhealthy, let load balancers react, end streams, finish calls."""
        for following in self._following:
            following.cancel()
        if self._renewal is not None:
            self._renewal.cancel()
        await self._health.drain()
        await asyncio.sleep(self._settings.drain_settle_s)
        self._dependencies.draining.set()
        await self._finish_calls(grace_s)
        await self._highlighter.close()
        await self._health.stop()
        log.info("gateway_stopped")

    async def _finish_calls(self, grace_s: float) -> None:
        """Close the servers when all calls but health watches, which never end, have finished."""
        closing = [asyncio.create_task(self._server.stop(grace_s))]
        if self._http is not None:
            closing.append(asyncio.create_task(self._http.stop(grace_s)))
        with suppress(TimeoutError):
            await asyncio.wait_for(self._calls.idle.wait(), grace_s)
        await self._server.stop(FLUSH_S)
        await asyncio.gather(*closing)

    def _add_services(self) -> None:
        given = self._dependencies
        search_pb2_grpc.add_SearchServiceServicer_to_server(SearchService(given), self._server)
        graph_pb2_grpc.add_GraphServiceServicer_to_server(GraphService(given), self._server)
        index_pb2_grpc.add_IndexServiceServicer_to_server(IndexService(given), self._server)
        access_pb2_grpc.add_AccessServiceServicer_to_server(AccessService(given), self._server)
        health_pb2_grpc.add_HealthServicer_to_server(self._health.servicer, self._server)
        names = (*SERVICES, health.SERVICE_NAME, reflection.SERVICE_NAME)
        reflection.enable_server_reflection(names, self._server)


def _access(dependencies: Dependencies, visibilities: Visibilities) -> GuardedAccess:
    settings = dependencies.settings
    authenticators: list[Authenticator] = [
        KeyAuthenticator(dependencies.keys),
        Webhooks(),
        *_authenticators(settings),
    ]
    access = Access(authenticators, visibilities, dependencies.sessions)
    return GuardedAccess(access, dependencies.call_limits, limits.wrong_credentials(settings))


def _authenticators(settings: Settings) -> list[Authenticator]:
    """Return the authenticators; if one is configured, calls without credentials are refused."""
    token = SharedToken(settings.shared_token())
    known: list[Authenticator] = []
    if settings.oidc_issuers:
        from gateway.access.openid import OpenIdConnect  # takes 0.2 s

        known.append(OpenIdConnect.of(settings, registry.documents()))
    if token.token:
        known.append(token)
    if settings.listen_mtls:
        known.append(ClientCertificates())
    return known or [token]


def _bind(
    server: aio.Server, name: str, listen: str, credentials: grpc.ServerCredentials | None
) -> int:
    try:
        if credentials is None or listen.startswith("unix:"):
            return server.add_insecure_port(listen)
        return server.add_secure_port(listen, credentials)
    except RuntimeError as exc:
        raise InvalidSettings(
            f"CODELODE_{name}={listen!r} cannot be bound; is another gateway running? ({exc})"
        ) from exc


async def serve(settings: Settings) -> None:
    """Serve until SIGTERM or SIGINT."""
    require_secure_listeners(settings)
    loop = asyncio.get_running_loop()
    loop.set_default_executor(ThreadPoolExecutor(THREADS, thread_name_prefix="port"))
    asked_to_stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, asked_to_stop.set)
    with garbage.postponed():
        dependencies = connected(settings)
        gateway = Gateway(dependencies)
    try:
        with garbage.postponed():  # imports the faces over HTTP
            await gateway.start()
        garbage.settle()
        await asked_to_stop.wait()
        await gateway.stop()
    finally:
        await dependencies.close()


def main(**overrides: object) -> None:
    """Serve with the settings of the environment; `overrides` replace some of them.

    If that fails, print a one-line error and exit, with a special status for unusable settings.
    """
    try:
        settings = load(**overrides)
        logs.configure(settings)
        asyncio.run(serve(settings))
    except CodelodeError as exc:
        sys.stderr.write(f"gateway: {exc}\n")
        sys.exit(UNUSABLE_SETTINGS if isinstance(exc, InvalidSettings) else 1)
