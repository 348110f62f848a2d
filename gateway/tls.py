"""Serve TLS on the gateway's listeners, with certificates that are reloaded from changed files."""

from __future__ import annotations

import asyncio
import ssl
import threading
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import NamedTuple

import grpc
import structlog

from codelode.certificates import Certificate, read_authorities, read_certificate
from codelode.errors import InvalidSettings
from codelode.settings import Settings

#: Interval at which the files are checked, besides the check at every new connection, seconds.
LOOK_S = 60.0

#: A certificate is reported when less than this remains and less than a third of its life, because
#: certificates that live for days are renewed in their last third.
WARN_BEFORE = timedelta(days=14)
WARN_FRACTION = 3
#: Shortest time between two reports of the same certificate.
WARN_EVERY = timedelta(days=1)

log = structlog.get_logger("gateway")


def server_certificate(settings: Settings) -> ServerCertificate | None:
    """Return the certificate of the settings, or None if they name none."""
    if not settings.tls_certificate:
        return None
    files = (settings.tls_certificate, settings.tls_key, settings.tls_client_ca)
    return ServerCertificate(*(Path(file).expanduser() for file in files if file))


class _Material(NamedTuple):
    """The content of the files."""

    own: Certificate
    authorities: bytes | None  # certificates of the authorities of clients


class ServerCertificate:
    """The certificate of the listeners and the authorities of clients, reloaded from changed files.

    New files that cannot be used are reported, and the old certificate stays in use. Open
    connections stay open.
    """

    def __init__(self, chain: Path, key: Path, authorities: Path | None = None) -> None:
        self._chain, self._key, self._authorities = chain, key, authorities
        self._lock = threading.Lock()  # gRPC calls from its own threads
        self._stamps = self._stamped()
        self._current = self._read()
        self._warned_at: datetime | None = None
        self._is_refused = False  # the present files could not be used

    def credentials(self, *, verify_clients: bool = False) -> grpc.ServerCredentials:
        """Return the credentials of a listener, which may require certificates of its clients."""
        given = self._current

        def replaced() -> grpc.ServerCertificateConfiguration | None:
            """Return the configuration of a new connection, or None if it is unchanged."""
            nonlocal given
            with self._lock:
                self._reload()
                before, given = given, self._current
            return None if before is given else _configuration(given, verify_clients=verify_clients)

        return grpc.dynamic_ssl_server_credentials(
            _configuration(given, verify_clients=verify_clients),
            replaced,  # type: ignore[arg-type]  # the stubs do not know that None is allowed
            require_client_authentication=verify_clients,
        )

    def context(self) -> ssl.SSLContext:
        """Return the context of an HTTPS listener, whose new connections get the replaced files."""
        given, newest = self._current, _context(self._chain, self._key)

        def replaced(connection: ssl.SSLObject, _name: str | None, _: ssl.SSLContext) -> None:
            nonlocal given, newest
            with self._lock:
                self._reload()
                if self._current is not given:
                    with suppress(OSError):  # replaced again meanwhile; the next connection tries
                        newest = _context(self._chain, self._key)
                        given = self._current
                connection.context = newest

        listening = _context(self._chain, self._key)
        listening.sni_callback = replaced  # called without a name too
        return listening

    async def watch(self) -> None:
        """Check the files at intervals, so that errors are reported before someone connects."""
        while True:
            await asyncio.to_thread(self.look)
            await asyncio.sleep(LOOK_S)

    def look(self) -> None:
        """Read files that changed or could not be used; warn if a certificate expires soon."""
        with self._lock:
            if self._is_refused:
                self._stamps = ()
            self._reload()
            self._warn()

    def _reload(self) -> None:
        stamps = self._stamped()
        if stamps == self._stamps:
            return
        self._stamps = stamps
        self._is_refused = True
        try:
            self._current = self._read()
        except InvalidSettings as exc:
            log.error(
                "certificate_not_replaced", reason=str(exc), until=_shown(self._current.own.ends)
            )
            return
        self._is_refused, self._warned_at = False, None
        log.info("certificate_replaced", until=_shown(self._current.own.ends))

    def _read(self) -> _Material:
        authorities = read_authorities(self._authorities) if self._authorities else None
        return _Material(read_certificate(self._chain, self._key), authorities)

    def _stamped(self) -> tuple[tuple[int, ...], ...]:
        files = (self._chain, self._key, self._authorities)
        return tuple(_stamp(file) for file in files if file is not None)

    def _warn(self) -> None:
        now, ends = datetime.now(UTC), self._current.own.ends
        notice = min(WARN_BEFORE, (ends - self._current.own.begins) / WARN_FRACTION)
        is_told = self._warned_at is not None and now - self._warned_at < WARN_EVERY
        if ends - now > notice or is_told:
            return
        self._warned_at = now
        event = "certificate_expires" if ends > now else "certificate_expired"
        log.warning(event, file=str(self._chain), until=_shown(ends))


def _configuration(
    found: _Material, *, verify_clients: bool
) -> grpc.ServerCertificateConfiguration:
    pair = (found.own.key, found.own.chain)
    return grpc.ssl_server_certificate_configuration(
        [pair], root_certificates=found.authorities if verify_clients else None
    )


def _context(chain: Path, key: Path) -> ssl.SSLContext:
    made = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    made.load_cert_chain(chain, key)
    made.set_alpn_protocols(["http/1.1"])
    return made


def _stamp(file: Path) -> tuple[int, ...]:
    """Return a stamp that changes when the file does; a replaced file has another inode."""
    try:
        found = file.stat()
    except OSError:
        return ()
    return (found.st_mtime_ns, found.st_size, found.st_ino)


def _shown(time: datetime) -> str:
    return time.isoformat(timespec="seconds")
