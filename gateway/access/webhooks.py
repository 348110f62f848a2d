"""Authenticate the deliveries of code hosts by the secret that the sources file names.

The gateway reads the file itself, because the secrets are in no store.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from pathlib import Path

import structlog

from codelode import sources
from codelode.access import Role
from codelode.errors import InvalidSettings
from codelode.sources import Connection
from gateway.access.identity import Credentials, Identity

log = structlog.get_logger("gateway")


class WebhookConnections:
    """The connections of the sources file that take webhooks; an empty path: there are none.

    Its method blocks. A file that cannot be used leaves its last good version in force.
    """

    def __init__(self, path: str) -> None:
        self._path = Path(path).expanduser() if path else None
        self._lock = threading.Lock()
        self._read_at: tuple[int, int] | None = None  # time of change and size of the file
        self._known: Mapping[str, Connection] = {}

    def find(self, name: str) -> tuple[Connection, bytes] | None:
        """Return the connection and its secret; None if it takes no webhooks now."""
        found = self._current().get(name)
        if found is None or found.webhook_secret is None:
            return None
        try:
            return found, found.webhook_secret.value().encode()
        except InvalidSettings as exc:
            log.error("webhook_secret_missing", connection=name, error=str(exc))
            return None

    def _current(self) -> Mapping[str, Connection]:
        if self._path is None:
            return {}
        with self._lock:
            try:
                state = self._path.stat()
                version = (state.st_mtime_ns, state.st_size)
                if version != self._read_at:
                    self._read_at = version  # a file that cannot be used is reported once
                    self._known = {one.name: one for one in sources.read(self._path)}
            except (OSError, InvalidSettings) as exc:
                log.error("sources_file_rejected", error=str(exc))
            return self._known


class Webhooks:
    """Admits the signed deliveries of connections."""

    async def identity(self, credentials: Credentials) -> Identity | None:
        if not credentials.webhook:
            return None
        return Identity(credentials.webhook, Role.READER)
