"""Serve the REST face in the event loop of the gateway."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Collection
from contextlib import AbstractContextManager, nullcontext

import uvicorn
from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from codelode.errors import Busy, InvalidSettings
from gateway.api.rest import problems

#: Maximum number of connections, to bound memory. While there are more, requests are refused, and
#: their connections closed.
MAX_CONNECTIONS = 1_000
#: Time after which a request that was refused for that reason may be repeated, seconds.
RETRY_S = 1.0
#: Longest time between two requests on a connection, seconds; load balancers wait less.
KEEP_ALIVE_S = 65
#: Time within which a connection must send the headers of its first request, and of a later one
#: that has begun, seconds. The server itself would wait forever.
HEADERS_S = 10.0


class HttpServer:
    """A server of an application, from `start` to `stop`."""

    def __init__(self, listen: str, *, share_port: bool = False) -> None:
        """Bind the address; with `share_port`, other servers may bind it too.

        Raises InvalidSettings if it cannot be bound.
        """
        self._socket = _bound(listen, share_port)
        self.port: int = self._socket.getsockname()[1]
        self._server: _Server | None = None
        self._serving: asyncio.Task[None] | None = None

    async def start(self, app: ASGIApp, context: ssl.SSLContext | None) -> None:
        """Serve the application, over TLS if there is a context."""
        bounded = _Bounded(app)
        self._server = server = _Server(_configuration(bounded, context))
        bounded.connections = server.server_state.connections
        self._serving = asyncio.create_task(server.serve(sockets=[self._socket]))
        await server.ready.wait()

    async def stop(self, grace_s: float) -> None:
        """Close the port, and the connections when their calls are over."""
        if self._server is None or self._serving is None:
            self._socket.close()
            return
        self._server.config.timeout_graceful_shutdown = max(1, round(grace_s))
        self._server.should_exit = True
        await self._serving


class _Server(uvicorn.Server):
    """A server that leaves signals to the gateway, and sets `ready` when it listens."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.ready = asyncio.Event()

    def capture_signals(self) -> AbstractContextManager[None]:  # type: ignore[override]
        return nullcontext()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.ready.set()


class _Bounded:
    """Refuses requests in place of an application while there are too many connections.

    The server itself can answer with 503, but not with the time after which to try again.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self.connections: Collection[object] = ()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if len(self.connections) <= MAX_CONNECTIONS:
            return await self._app(scope, receive, send)
        error = Busy(
            f"the gateway has more than {MAX_CONNECTIONS:,} connections; try again in "
            f"{RETRY_S:g} s, or run more gateways",
            retry_s=RETRY_S,
        )
        response = problems.response(problems.problem(error))
        response.headers["Connection"] = "close"
        return await response(scope, receive, send)


class _Protocol(H11Protocol):
    """A connection that is closed if it keeps the server waiting for the headers of a request."""

    _late: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._wait()

    def data_received(self, data: bytes) -> None:
        before = self.cycle
        super().data_received(data)
        if self.cycle is not before:
            self._stop_waiting()
        elif self._late is None and (before is None or before.response_complete):
            self._wait()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_waiting()
        super().connection_lost(exc)

    def _wait(self) -> None:
        self._late = self.loop.call_later(HEADERS_S, self.transport.close)

    def _stop_waiting(self) -> None:
        if self._late is not None:
            self._late.cancel()
            self._late = None


def _configuration(app: ASGIApp, context: ssl.SSLContext | None) -> uvicorn.Config:
    return uvicorn.Config(
        app,
        http=_Protocol,
        ws="none",
        log_config=None,
        log_level="error",  # the gateway logs each call itself
        access_log=False,
        lifespan="off",
        proxy_headers=False,  # the address of a caller is that of its connection
        server_header=False,
        timeout_keep_alive=KEEP_ALIVE_S,
        ssl_context_factory=None if context is None else lambda *_: context,
    )


def _bound(listen: str, share_port: bool) -> socket.socket:
    host, _, port = listen.rpartition(":")
    family = socket.AF_INET6 if host.startswith("[") else socket.AF_INET
    try:
        address = (host.strip("[]"), int(port))
        found = socket.create_server(address, family=family, reuse_port=share_port)
    except OSError as exc:
        raise InvalidSettings(
            f"CODELODE_HTTP_LISTEN={listen!r} cannot be bound; is another gateway running? ({exc})"
        ) from exc
    # Connections inherit this option. Without it, the body of an answer waits up to 40 ms until the
    # caller has acknowledged the headers; asyncio sets it only where the protocol is named.
    found.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return found
