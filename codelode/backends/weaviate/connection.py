"""Clients of a Weaviate server.

The library's checks at start are left out: one of them asks a package registry for its newest
version. It repeats a query that meets no server for a minute before it says so; who wants to know
earlier bounds the call (`patience`).
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

import httpx
import weaviate
from weaviate.classes.init import AdditionalConfig, Auth, Timeout
from weaviate.config import GrpcConfig

from codelode.errors import InvalidSettings

#: Longest wait for the answer to a query and to a batch, seconds.
QUERY_TIMEOUT_S = 10
WRITE_TIMEOUT_S = 90
CONNECT_TIMEOUT_S = 5

#: A channel that lost its server looks for it this often; the default grows to two minutes.
_CHANNEL = [
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 1_000),
]

# It logs objects that were refused, with the source text in them.
logging.getLogger("weaviate-client").setLevel(logging.CRITICAL)


@dataclass(frozen=True, slots=True)
class Address:
    """Where a server listens. `url` is that of its REST interface; gRPC is at the same host."""

    url: str
    grpc_port: int
    api_key: str = field(default="", repr=False)


def connect(address: Address) -> weaviate.WeaviateClient:
    """A connected client for threads. Raises what the library raises.

    Connect after a fork, never before: a child of a connected process cannot connect.
    """
    return weaviate.connect_to_custom(**_options(address))


async def connect_async(address: Address) -> weaviate.WeaviateAsyncClient:
    """The same for one event loop."""
    client = weaviate.use_async_with_custom(**_options(address))
    try:
        await client.connect()
    except BaseException:
        await client.close()
        raise
    return client


async def ready(address: Address) -> None:
    """Returns when the server takes requests now; raises what the HTTP library raises."""
    async with httpx.AsyncClient(trust_env=_is_secure(address)) as http:
        (await http.get(f"{address.url.rstrip('/')}/v1/.well-known/ready")).raise_for_status()


def _options(address: Address) -> dict[str, Any]:
    try:
        parts = urlsplit(address.url)
        host, port = parts.hostname, parts.port
    except ValueError as exc:
        raise _not_a_url(address.url) from exc
    if parts.scheme not in ("http", "https") or not host:
        raise _not_a_url(address.url)
    is_secure = _is_secure(address)
    return {
        "http_host": host,
        "http_port": port or (443 if is_secure else 80),
        "http_secure": is_secure,
        "grpc_host": host,
        "grpc_port": address.grpc_port,
        "grpc_secure": is_secure,
        "auth_credentials": Auth.api_key(address.api_key) if address.api_key else None,
        "skip_init_checks": True,
        "additional_config": AdditionalConfig(
            timeout=Timeout(query=QUERY_TIMEOUT_S, insert=WRITE_TIMEOUT_S, init=CONNECT_TIMEOUT_S),
            grpc_config=GrpcConfig(channel_options=_CHANNEL),
            trust_env=is_secure,  # else SSL_CERT_FILE, a company's own authority, is not read
        ),
    }


def _is_secure(address: Address) -> bool:
    return address.url.startswith("https:")


def _not_a_url(url: str) -> InvalidSettings:
    return InvalidSettings(
        f"CODELODE_WEAVIATE_URL={url!r} is no URL of a Weaviate server; "
        "for example http://127.0.0.1:8080"
    )
