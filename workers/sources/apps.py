"""Get tokens with which a GitHub App reads an organisation; each is valid for an hour.

The app signs a token for itself, for which the host returns a token of the installation. That token
is kept only in memory.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from urllib.parse import quote

from codelode.github_apps import signed
from codelode.sources import Connection
from workers.sources.http import Host, Missing, Refused, Unprocessable

#: A token that expires sooner is renewed before a request, seconds.
LEFT_S = 300.0


@dataclass(frozen=True, slots=True)
class Token:
    """A token of an installation."""

    text: str = field(repr=False)
    expires_at: float  # seconds since the epoch


async def token(
    host: Host,
    connection: Connection,
    private_key: str,
    *,
    rest: str,
    now: float,
    permissions: Mapping[str, str] | None = None,
) -> Token:
    """Request a token from the host. `rest`: the prefix of the paths of its REST API.

    `permissions`: those of the app that the token gets, besides reading metadata; None: all.
    Raises Refused, Missing, Unavailable, and InvalidSettings.
    """
    assert connection.app is not None
    as_app = f"Bearer {signed(connection.app, private_key, now=now)}"
    try:
        installation = connection.app.installation
        if not installation:
            path = f"{rest}/orgs/{quote(connection.organisation, safe='')}/installation"
            installation = str((await host.ask_as(as_app, "GET", path))["id"])
        path = f"{rest}/app/installations/{quote(installation, safe='')}/access_tokens"
        body = {"permissions": dict(permissions)} if permissions else None
        made = await host.ask_as(as_app, "POST", path, body)
    except (Refused, Missing, Unprocessable) as exc:  # 422: the app lacks the permissions
        raise (Missing if isinstance(exc, Missing) else Refused)(
            f"{exc}; check the id and the private key of the app, that it is installed in the "
            f"organisation {connection.organisation}, and that it has the permission contents: read"
        ) from exc
    return Token(made["token"], datetime.fromisoformat(made["expires_at"]).timestamp())


class Authorization:
    """Adds a valid token to each request, and a new one after the host has refused one."""

    def __init__(
        self,
        connection: Connection,
        private_key: str,
        *,
        rest: str,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._connection, self._private_key = connection, private_key
        self._rest, self._now = rest, now
        self._renewing = asyncio.Lock()
        self._token = Token("", 0.0)

    async def __call__(self, host: Host, refused: str) -> str:
        """Return the header of a request. `refused`: the one that the host has refused, if any."""
        async with self._renewing:
            now = self._now()
            if self._token.expires_at - now < LEFT_S or refused == self._header:
                self._token = await token(
                    host, self._connection, self._private_key, rest=self._rest, now=now
                )
            return self._header

    @property
    def _header(self) -> str:
        return f"Bearer {self._token.text}"
