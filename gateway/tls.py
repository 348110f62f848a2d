"""TLS of the gateway's listeners: certificates that are read again when their files change."""

from __future__ import annotations

import asyncio
import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path

import grpc
import structlog

from codelode.certificates import Certificate, read_certificate
from codelode.errors import InvalidSettings
from codelode.settings import Settings

#: How often the files are looked at besides the look at every new connection, seconds.
LOOK_S = 60.0

#: A certificate is reported when less than this is left, or less than a third of its whole time,
#: because those that live for days are renewed in their last third.
WARN_BEFORE = timedelta(days=14)
WARN_FRACTION = 3
#: How often it is reported.
WARN_EVERY = timedelta(days=1)

log = structlog.get_logger("gateway")


def server_certificate(settings: Settings) -> ServerCertificate | None:
    """Return the certificate of the settings, or None if they name none."""
    if not settings.tls_certificate:
        return None
    chain, key = Path(settings.tls_certificate), Path(settings.tls_key)
    return ServerCertificate(chain.expanduser(), key.expanduser())


class ServerCertificate:
    """The certificate of one listener, replaced when its files change.

    New files that cannot be used are reported, and the old certificate stays in use. Connections
    that are open stay open.
    """

    def __init__(self, chain: Path, key: Path) -> None:
        self._chain, self._key = chain, key
        self._lock = threading.Lock()  # gRPC asks from threads of its own
        self._stamps = self._stamped()
        self._current = self._given = self._read()
        self._warned_at: datetime | None = None

    def credentials(self) -> grpc.ServerCredentials:
        """Return the credentials of the listener. Call it once."""
        return grpc.dynamic_ssl_server_credentials(
            _configuration(self._current),
            self._replaced,  # type: ignore[arg-type]  # the stubs do not know that None is allowed
        )

    async def watch(self) -> None:
        """Look at the files for ever, so that trouble is reported before someone connects."""
        while True:
            await asyncio.to_thread(self.look)
            await asyncio.sleep(LOOK_S)

    def look(self) -> None:
        """Read the files again if they have changed, and report a certificate that ends soon."""
        with self._lock:
            self._reload()
            self._warn()

    def _replaced(self) -> grpc.ServerCertificateConfiguration | None:
        """Return what a new connection gets, or None for the same as the one before."""
        with self._lock:
            self._reload()
            if self._given is self._current:
                return None
            self._given = self._current
            return _configuration(self._current)

    def _reload(self) -> None:
        stamps = self._stamped()
        if stamps == self._stamps:
            return
        self._stamps = stamps
        try:
            self._current = self._read()
        except InvalidSettings as exc:
            log.error("certificate_not_replaced", reason=str(exc), until=_shown(self._current.ends))
            return
        self._warned_at = None
        log.info("certificate_replaced", until=_shown(self._current.ends))

    def _read(self) -> Certificate:
        return read_certificate(self._chain, self._key)

    def _stamped(self) -> tuple[tuple[int, ...], ...]:
        return tuple(map(_stamp, (self._chain, self._key)))

    def _warn(self) -> None:
        now, ends = datetime.now(UTC), self._current.ends
        notice = min(WARN_BEFORE, (ends - self._current.begins) / WARN_FRACTION)
        is_told = self._warned_at is not None and now - self._warned_at < WARN_EVERY
        if ends - now > notice or is_told:
            return
        self._warned_at = now
        event = "certificate_expires" if ends > now else "certificate_expired"
        log.warning(event, file=str(self._chain), until=_shown(ends))


def _configuration(found: Certificate) -> grpc.ServerCertificateConfiguration:
    return grpc.ssl_server_certificate_configuration([(found.key, found.chain)])


def _stamp(file: Path) -> tuple[int, ...]:
    """Return what changes when the file does; a file that is replaced has another inode."""
    try:
        found = file.stat()
    except OSError:
        return ()
    return (found.st_mtime_ns, found.st_size, found.st_ino)


def _shown(time: datetime) -> str:
    return time.isoformat(timespec="seconds")
