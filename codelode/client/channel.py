"""The address of a gateway, the options of a channel to it, and the token that it asks for."""

from __future__ import annotations

from pathlib import Path

from codelode.cluster import token_of
from codelode.environment import DEFAULT_SERVER, client_settings
from codelode.errors import InvalidSettings
from codelode.files import read_secret

DEFAULT_ADDRESS = DEFAULT_SERVER

#: Options of the channel, for both clients.
OPTIONS = (
    ("grpc.max_receive_message_length", 16 << 20),  # 200 hits of large chunks
    # Gateways are on the local network or loopback, which an HTTP proxy does not reach.
    ("grpc.enable_http_proxy", 0),
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 2_000),
    # A watch has no deadline, so only keepalive notices a gateway that vanished without closing.
    ("grpc.keepalive_time_ms", 60_000),
    ("grpc.keepalive_timeout_ms", 20_000),
)


def is_host_and_port(address: str, *, least_port: int = 1) -> bool:
    """Return whether the address is HOST:PORT; a URL is not."""
    host, _, port = address.rpartition(":")
    is_host = bool(host) and "://" not in host
    is_number = port.isascii() and port.isdecimal()
    return is_host and is_number and least_port <= int(port) < 65_536


def checked(address: str) -> str:
    """Return the address. Raises InvalidSettings unless it is HOST:PORT."""
    # gRPC itself would take port 99999 modulo 65536, and a bare host for port 443.
    if not is_host_and_port(address):
        raise InvalidSettings(
            f"{address!r} is not a gateway address; write HOST:PORT, for example {DEFAULT_ADDRESS}"
        )
    return address


def metadata(address: str, token: str | None) -> tuple[tuple[str, str], ...]:
    """Return the metadata of every call: the token, if there is one; None: look for it.

    Raises InvalidSettings if CODELODE_TOKEN_FILE names a file without one.
    """
    token = _found_token(address) if token is None else token
    return (("authorization", f"Bearer {token}"),) if token else ()


def _found_token(address: str) -> str:
    """Return the token of the environment, else that of this user's own cluster at the address."""
    found = client_settings()
    if found.token:
        return found.token
    if found.token_file:
        return read_secret(Path(found.token_file).expanduser())
    return token_of(address, found.data)
