"""The connection of a client: address, options of the channel, TLS, and token."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import grpc

from codelode.cluster import own_cluster, token_of
from codelode.environment import DEFAULT_SERVER, ClientSettings, client_settings
from codelode.errors import InvalidSettings
from codelode.files import read_secret
from codelode.loopback import is_on_loopback

DEFAULT_ADDRESS = DEFAULT_SERVER

#: Options of the channel, for both clients.
OPTIONS: tuple[tuple[str, int | str], ...] = (
    ("grpc.max_receive_message_length", 16 << 20),  # 200 hits of large chunks
    # Gateways are on the local network or loopback, which an HTTP proxy does not reach.
    ("grpc.enable_http_proxy", 0),
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 2_000),
    # A watch has no deadline, so only keepalive notices a gateway that vanished without closing.
    ("grpc.keepalive_time_ms", 60_000),
    ("grpc.keepalive_timeout_ms", 20_000),
)


#: What the address of a gateway with TLS starts with.
TLS = "grpcs://"

Option = tuple[str, int | str]


@dataclass(frozen=True, slots=True)
class Connection:
    """Holds what both clients need to open a channel and to send calls through it."""

    target: str  # HOST:PORT
    credentials: grpc.ChannelCredentials | None  # None: no TLS
    options: tuple[Option, ...]
    metadata: tuple[tuple[str, str], ...]


def is_host_and_port(address: str, *, least_port: int = 1) -> bool:
    """Return whether the address is HOST:PORT; a URL is not."""
    host, _, port = address.rpartition(":")
    is_host = bool(host) and "://" not in host
    is_number = port.isascii() and port.isdecimal()
    return is_host and is_number and least_port <= int(port) < 65_536


def connection(address: str, token: str | None, *, tls_ca: str, tls_name: str) -> Connection:
    """Return how to connect; the arguments are those of `Client`. Raises InvalidSettings."""
    target, found = _target(address), client_settings()
    token = _found_token(address, found) if token is None else token
    if not address.startswith(TLS):
        _check_plaintext(address, token, found)
        return Connection(target, None, OPTIONS, _metadata(token))
    cluster = own_cluster(address, found.data)
    if cluster is not None and not tls_ca:
        tls_ca, tls_name = cluster.certificate, tls_name or cluster.tls_name
    name = (("grpc.ssl_target_name_override", tls_name),) if tls_name else ()
    return Connection(
        target, _credentials(tls_ca or found.tls_ca), (*OPTIONS, *name), _metadata(token)
    )


def _target(address: str) -> str:
    """Return HOST:PORT. Raises InvalidSettings if the address is none."""
    target = address.removeprefix(TLS)
    # gRPC itself would take port 99999 modulo 65536, and a bare host for port 443.
    if not is_host_and_port(target):
        raise InvalidSettings(
            f"{address!r} is not a gateway address; write HOST:PORT, for example "
            f"{DEFAULT_ADDRESS}, or {TLS}HOST:PORT if the gateway uses TLS"
        )
    return target


def _metadata(token: str) -> tuple[tuple[str, str], ...]:
    return (("authorization", f"Bearer {token}"),) if token else ()


def _check_plaintext(address: str, token: str, found: ClientSettings) -> None:
    """Raise InvalidSettings if the token would cross a network that others may listen to."""
    if token and not found.token_without_tls and not is_on_loopback(address):
        raise InvalidSettings(
            f"the token is not sent to {address} without TLS: write {TLS}{address}, or, if nobody "
            "can listen on the way, set CODELODE_TOKEN_WITHOUT_TLS=true"
        )


def _credentials(authorities: str) -> grpc.ChannelCredentials:
    """Return credentials that trust the authorities in a file; "": the public ones."""
    if not authorities:
        return grpc.ssl_channel_credentials()
    from codelode.certificates import read_authorities

    return grpc.ssl_channel_credentials(read_authorities(Path(authorities).expanduser()))


def _found_token(address: str, found: ClientSettings) -> str:
    """Return the token of the environment, else that of this user's own cluster at the address."""
    if found.token:
        return found.token
    if found.token_file:
        return read_secret(Path(found.token_file).expanduser())
    return token_of(address, found.data)
