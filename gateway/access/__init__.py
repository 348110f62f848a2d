"""Authenticate a call: map its credentials to the principal on whose behalf it reads.

This is the only place that constructs principals. Every face passes the credentials that it
received, and passes the principal on to the service layer.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress

from codelode.access import Principal
from codelode.errors import CodelodeError, Unauthenticated, Unavailable
from gateway.access.identity import Authenticator, Credentials
from gateway.access.shared_token import NO_TOKEN
from gateway.access.visibility import Visibilities
from gateway.sessions import Sessions

#: Interval at which the rights of the callers of streams are checked again, seconds.
RECHECK_S = 2.0

REDUCED = "your rights were reduced during the call; repeat it"


class WatchedRights:
    """The rights of a caller, as long as `checking` runs; its result or error tells their end."""

    def __init__(self, checking: asyncio.Task[CodelodeError]) -> None:
        self._checking = checking

    @asynccontextmanager
    async def held(self) -> AsyncIterator[None]:
        """End the block when the rights are reduced; see `Access.rechecked`."""

        def end_block(checking: asyncio.Task[CodelodeError]) -> None:
            if not checking.cancelled():
                with suppress(RuntimeError):  # the block has just ended by itself
                    limit.reschedule(0)

        checking = self._checking
        if checking.done():
            raise checking.result()
        try:
            async with asyncio.timeout(None) as limit:
                checking.add_done_callback(end_block)
                yield
        except TimeoutError:
            if not checking.done():
                raise
            raise checking.result() from None
        finally:
            checking.remove_done_callback(end_block)


class Access:
    """Finds the principal of a call by the first authenticator that knows its credentials."""

    def __init__(
        self,
        authenticators: Sequence[Authenticator],
        visibilities: Visibilities,
        sessions: Sessions | None = None,
    ) -> None:
        self._authenticators = tuple(authenticators)
        self._visibilities = visibilities
        self._sessions = sessions

    async def principal(self, credentials: Credentials) -> Principal:
        """Return the principal. Raises Unauthenticated, or Unavailable if it cannot be checked now.

        For a session, each call checks again the authorization with which the session was opened.
        """
        if credentials.session and self._sessions is not None:
            credentials = Credentials(await self._sessions.authorization(credentials.session))
        elif credentials.login is not None:
            credentials = Credentials(await credentials.login.authorization())
        for authenticator in self._authenticators:
            found = await authenticator.identity(credentials)
            if found is not None:
                role, visible = await self._visibilities.of(found)
                return Principal(found.name, role, visible, found.bounds, found.expires_at)
        raise Unauthenticated(NO_TOKEN)

    @asynccontextmanager
    async def rechecked(
        self, credentials: Credentials, principal: Principal
    ) -> AsyncIterator[None]:
        """Check the rights of the caller while the block runs, and end it when they are reduced.

        The block then raises Unauthenticated, or Unavailable if a repeated call would be admitted.
        An unexpected error of the check ends the block too, so that no call goes on unchecked.
        """
        async with self.watched(credentials, principal) as rights, rights.held():
            yield

    @asynccontextmanager
    async def watched(
        self, credentials: Credentials, principal: Principal
    ) -> AsyncIterator[WatchedRights]:
        """Check the rights of the caller every RECHECK_S while the block runs."""

        async def check() -> CodelodeError:
            while True:
                await asyncio.sleep(RECHECK_S)
                if lost := await self._lost(credentials, principal):
                    return lost

        checking = asyncio.create_task(check())
        try:
            yield WatchedRights(checking)
        finally:
            checking.cancel()

    async def _lost(self, credentials: Credentials, principal: Principal) -> CodelodeError | None:
        """Return the error that ends the call; None if the rights hold or cannot be checked now."""
        try:
            now = await self.principal(credentials)
        except Unauthenticated as error:
            return error
        except CodelodeError:
            return None
        return None if now.includes(principal) else Unavailable(REDUCED)
