"""The connection of a client: address, options of the channel, TLS, and token."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import grpc

from codelode.cluster import login_file, own_cluster, token_of
from codelode.environment import DEFAULT_SERVER, ClientSettings, client_settings
from codelode.errors import InvalidSettings
from codelode.files import read_secret
from codelode.loopback import is_on_loopback

DEFAULT_ADDRESS = DEFAULT_SERVER

#: Options of the gRPC channel of both clients.
OPTIONS: tuple[tuple[str, int | str], ...] = (
    ("grpc.max_receive_message_length", 16 << 20),  # 200 hits of large chunks
    # Gateways are on the local network or on loopback, which an HTTP proxy does not reach.
    ("grpc.enable_http_proxy", 0),
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 2_000),
    # A watch has no deadline, so only keepalive notices a gateway that vanished without closing.
    ("grpc.keepalive_time_ms", 60_000),
    ("grpc.keepalive_timeout_ms", 20_000),
)


#: The beginning of the address of a gateway with TLS.
TLS = "grpcs://"

Option = tuple[str, int | str]


@dataclass(frozen=True, slots=True)
class Tls:
    """Files in PEM format, and a name, for an address with grpcs://.

    An empty file stands for the value of the variable in its comment.
    """

    ca: str = ""  # the authorities to trust: CODELODE_TLS_CA, else the public ones
    name: str = ""  # a name in the server's certificate, if the host of the address is not one
    certificate: str = ""  # of this client: CODELODE_TLS_CLIENT_CERTIFICATE
    key: str = ""  # of that certificate: CODELODE_TLS_CLIENT_KEY


#: Takes all files from the environment.
ENVIRONMENT = Tls()


@dataclass(frozen=True, slots=True)
class Connection:
    """The data with which both clients open a channel and send calls through it."""

    target: str  # HOST:PORT
    credentials: grpc.ChannelCredentials | None  # None: no TLS
    options: tuple[Option, ...]
    token: str
    login: tuple[str, Path] | None  # address and data folder of a login; None: a fixed token

    def metadata(self) -> tuple[tuple[str, str], ...]:
        """Return the metadata of a call that begins now: the token, if there is one.

        The token of a login may have to be renewed first, which waits for the issuer.
        """
        token = self.token
        if self.login is not None:
            from codelode.client.login import token_for

            token = token_for(*self.login)
        return (("authorization", f"Bearer {token}"),) if token else ()


def is_host_and_port(address: str, *, least_port: int = 1) -> bool:
    """Return whether the address is HOST:PORT; a URL is not."""
    host, _, port = address.rpartition(":")
    is_host = bool(host) and "://" not in host
    is_number = port.isascii() and port.isdecimal()
    return is_host and is_number and least_port <= int(port) < 65_536


def connection(address: str, token: str | None, tls: Tls) -> Connection:
    """Return the connection for the arguments of `Client`. Raises InvalidSettings."""
    target, found = _target(address), client_settings()
    login = None
    if token is None:
        token = _found_token(address, found)
        login = _found_login(address, found) if not token else None
    if not address.startswith(TLS):
        if token or login is not None:
            _check_plaintext(address, found)
        return Connection(target, None, OPTIONS, token, login)
    tls = _completed(tls, address, found)
    name = (("grpc.ssl_target_name_override", tls.name),) if tls.name else ()
    return Connection(target, _credentials(tls), (*OPTIONS, *name), token, login)


def checked(address: str) -> str:
    """Return the address. Raises InvalidSettings if it is malformed."""
    _target(address)
    return address


def _target(address: str) -> str:
    """Return HOST:PORT of the address. Raises InvalidSettings if it is malformed."""
    target = address.removeprefix(TLS)
    # gRPC itself would take port 99999 modulo 65536, and add port 443 to a bare host.
    if not is_host_and_port(target):
        raise InvalidSettings(
            f"{address!r} is not a gateway address; write HOST:PORT, for example "
            f"{DEFAULT_ADDRESS}, or {TLS}HOST:PORT if the gateway uses TLS"
        )
    return target


def _check_plaintext(address: str, found: ClientSettings) -> None:
    """Raise InvalidSettings if a token would cross a network that others may listen to."""
    if not found.token_without_tls and not is_on_loopback(address):
        raise InvalidSettings(
            f"the token is not sent to {address} without TLS: write {TLS}{address}, or, if nobody "
            "can read the traffic, set CODELODE_TOKEN_WITHOUT_TLS=true"
        )


def _completed(tls: Tls, address: str, found: ClientSettings) -> Tls:
    """Return `tls`, completed from the user's own cluster at the address, else the environment."""
    cluster = own_cluster(address, found.data) if not tls.ca else None
    own = Tls() if cluster is None else Tls(cluster.certificate, cluster.tls_name)
    own_pair = (tls.certificate, tls.key) if tls.certificate or tls.key else found.tls_client
    return Tls(tls.ca or own.ca or found.tls_ca, tls.name or own.name, *own_pair)


def _credentials(tls: Tls) -> grpc.ChannelCredentials:
    """Return the credentials of a channel. Raises InvalidSettings if a file cannot be used."""
    from codelode.certificates import read_authorities, read_certificate

    roots = read_authorities(Path(tls.ca).expanduser()) if tls.ca else None
    if not tls.certificate and not tls.key:
        return grpc.ssl_channel_credentials(roots)
    if not tls.certificate or not tls.key:
        raise InvalidSettings(
            "set both CODELODE_TLS_CLIENT_CERTIFICATE and CODELODE_TLS_CLIENT_KEY, or neither"
        )
    own = read_certificate(*(Path(file).expanduser() for file in (tls.certificate, tls.key)))
    return grpc.ssl_channel_credentials(roots, own.key, own.chain)


def _found_login(address: str, found: ClientSettings) -> tuple[str, Path] | None:
    """Return address and data folder of this user's login at the gateway; None: there is none."""
    if not os.access(login_file(found.data), os.R_OK):  # missing, or in another user's folder
        return None
    from codelode.client.login import logins  # loaded only now, because few users have a login

    return (address, found.data) if address in logins(found.data) else None


def _found_token(address: str, found: ClientSettings) -> str:
    """Return the token of the environment, else of the user's own cluster at the address, or ""."""
    if found.token:
        return found.token
    if found.token_file:
        return read_secret(Path(found.token_file).expanduser())
    return token_of(address, found.data)
