"""Connections to a Weaviate server.

The library's checks at start-up are skipped: one of them asks a package registry for the newest
version. The library retries a query without a server for a minute; searches bound that with
`circuit_breaker`.
"""

from __future__ import annotations

import logging
import os
from dataclasses import dataclass, field
from http.client import HTTPConnection, HTTPSConnection
from typing import Any
from urllib.parse import urlsplit

import httpx
import weaviate
from weaviate import WeaviateClient
from weaviate.classes.init import AdditionalConfig, Auth, Timeout
from weaviate.config import GrpcConfig

from codelode.errors import InvalidSettings

#: Longest wait for the answer to a query, to a batch, and for a connection, seconds.
QUERY_TIMEOUT_S = 10
WRITE_TIMEOUT_S = 90
CONNECT_TIMEOUT_S = 5

#: How often a channel without a server tries to reconnect; by default the interval grows to two
#: minutes.
_CHANNEL = [
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 1_000),
]

# The library logs refused objects with the source text in them.
logging.getLogger("weaviate-client").setLevel(logging.CRITICAL)


@dataclass(frozen=True, slots=True)
class Address:
    """Address of a server. `url` is the REST interface; gRPC is at the same host."""

    url: str
    grpc_port: int
    api_key: str = field(default="", repr=False)

    @property
    def is_secure(self) -> bool:
        return self.url.startswith("https:")


class LazyClient:
    """A client for threads that connects at the first call, once in each process.

    It may be created before a fork: the child of a connected process cannot use its client.
    """

    def __init__(self, address: Address) -> None:
        self._address = address
        self._client: WeaviateClient | None = None
        self._pid = 0

    def __call__(self) -> WeaviateClient:
        """Return the client of this process. Raises what the library raises."""
        if self._client is None or self._pid != os.getpid():
            self._client, self._pid = connect(self._address), os.getpid()
        return self._client

    def close(self) -> None:
        client, self._client = self._client, None
        if client is not None and self._pid == os.getpid():
            client.close()


def connect(address: Address) -> WeaviateClient:
    """Return a connected client for threads. Raises what the library raises.

    Connect after a fork, never before: a child of a connected process cannot connect.
    """
    return weaviate.connect_to_custom(**_options(address))


async def connect_async(address: Address) -> weaviate.WeaviateAsyncClient:
    """Return a connected client for one event loop. Raises what the library raises."""
    client = weaviate.use_async_with_custom(**_options(address))
    try:
        await client.connect()
    except BaseException:
        await client.close()
        raise
    return client


def http_connection(address: Address) -> HTTPConnection:
    """Return one plain connection to the REST interface, not opened yet."""
    kind = HTTPSConnection if address.is_secure else HTTPConnection
    return kind(urlsplit(address.url).netloc, timeout=CONNECT_TIMEOUT_S)


async def ready(address: Address) -> None:
    """Return if the server accepts requests now; raise what the HTTP library raises otherwise."""
    async with httpx.AsyncClient(trust_env=address.is_secure) as http:
        (await http.get(f"{address.url.rstrip('/')}/v1/.well-known/ready")).raise_for_status()


def _options(address: Address) -> dict[str, Any]:
    try:
        parts = urlsplit(address.url)
        host, port = parts.hostname, parts.port
    except ValueError as exc:
        raise _not_a_url(address.url) from exc
    if parts.scheme not in ("http", "https") or not host:
        raise _not_a_url(address.url)
    return {
        "http_host": host,
        "http_port": port or (443 if address.is_secure else 80),
        "http_secure": address.is_secure,
        "grpc_host": host,
        "grpc_port": address.grpc_port,
        "grpc_secure": address.is_secure,
        "auth_credentials": Auth.api_key(address.api_key) if address.api_key else None,
        "skip_init_checks": True,
        "additional_config": AdditionalConfig(
            timeout=Timeout(query=QUERY_TIMEOUT_S, insert=WRITE_TIMEOUT_S, init=CONNECT_TIMEOUT_S),
            grpc_config=GrpcConfig(channel_options=_CHANNEL),
            # Otherwise SSL_CERT_FILE, with which a company names its own authority, is ignored.
            trust_env=address.is_secure,
        ),
    }


def _not_a_url(url: str) -> InvalidSettings:
    return InvalidSettings(
        f"CODELODE_WEAVIATE_URL={url!r} is not the URL of a Weaviate server; "
        "for example http://127.0.0.1:8080"
    )
