"""Authenticate a call: map its credentials to the principal on whose behalf it reads.

This is the only place that constructs principals. Every face passes the credentials that it
received, and hands the principal on to the service layer. Today every authenticated caller sees
everything.
"""

from __future__ import annotations

from collections.abc import Sequence

from codelode.access import EVERYTHING, Principal
from codelode.errors import Unauthenticated
from gateway.access.identity import Authenticator, Credentials
from gateway.access.shared_token import NO_TOKEN


class Access:
    """Finds the principal of a call by the first authenticator that knows its credentials."""

    def __init__(self, authenticators: Sequence[Authenticator]) -> None:
        self._authenticators = tuple(authenticators)

    async def principal(self, credentials: Credentials) -> Principal:
        """Return the principal. Raises Unauthenticated, or Unavailable if it cannot be checked."""
        for authenticator in self._authenticators:
            identity = await authenticator.identity(credentials)
            if identity is not None:
                return Principal(identity.name, identity.role, EVERYTHING)
        raise Unauthenticated(NO_TOKEN)
