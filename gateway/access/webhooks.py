"""Authenticate the deliveries of code hosts by the secrets that the sources file names.

The gateway reads the file itself, because secrets are kept in no store.
"""

from __future__ import annotations

import structlog

from codelode import sources
from codelode.access import Role
from codelode.errors import InvalidSettings, Unauthenticated
from codelode.sources import Connection
from gateway.access.followed import FollowedFile
from gateway.access.identity import Credentials, Identity
from gateway.throttle import Throttle

log = structlog.get_logger("gateway")

UNSIGNED = (
    "the signature of this delivery is wrong, or there is no such connection: give the host the "
    "secret that `webhook_secret` of the connection names in the file of CODELODE_SOURCES"
)

#: Shortest time between two log events about missing secrets, seconds.
LOG_INTERVAL_S = 10.0


class WebhookConnections:
    """The connections of the sources file that accept webhooks; none if the path is empty."""

    def __init__(self, path: str) -> None:
        self._file = FollowedFile(path, what="sources file", parse=sources.parse, empty=())
        self._logging = Throttle(LOG_INTERVAL_S)

    def find(self, name: str) -> tuple[Connection, bytes] | None:
        """Return the connection and its secret; None if it accepts no webhooks now. Blocks."""
        found = next((one for one in self._file.current() if one.name == name), None)
        if found is None or found.webhook_secret is None:
            return None
        try:
            return found, found.webhook_secret.value().encode()
        except InvalidSettings as exc:
            if self._logging.passes():  # anybody can cause this event
                log.error("webhook_secret_missing", connection=name, error=str(exc))
            return None


class Webhooks:
    """Admits the signed deliveries of connections, and refuses all others."""

    async def identity(self, credentials: Credentials) -> Identity | None:
        if credentials.webhook is None:
            return None
        if not credentials.webhook:
            raise Unauthenticated(UNSIGNED)
        return Identity(credentials.webhook, Role.READER)
