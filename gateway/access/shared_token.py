"""Authenticate by the token that all callers of a gateway share."""

from __future__ import annotations

import hmac
from dataclasses import dataclass

from codelode.access import Role
from codelode.errors import Unauthenticated
from gateway.access.identity import Credentials, Identity, bearer

REMEDY = (
    "set the environment variable CODELODE_TOKEN to the token of the gateway, or, for your own "
    "`codelode up --data FOLDER`, set CODELODE_DATA to that folder "
    "(without codelode's client: the header `authorization: Bearer TOKEN`)"
)
NO_TOKEN = f"this gateway requires a token: {REMEDY}; for one of an issuer, run `codelode login`"
WRONG_TOKEN = f"the token of this call is wrong: {REMEDY}"


@dataclass(frozen=True, slots=True)
class SharedToken:
    """Admits the callers that send the token; if the token is empty, admits all callers.

    Only a gateway on loopback that was not started by `codelode up` has an empty token.
    """

    token: str

    async def identity(self, credentials: Credentials) -> Identity | None:
        if not self.token:
            return Identity("loopback", Role.ADMIN)
        if not credentials.authorization:
            return None
        given = bearer(credentials.authorization)
        if not hmac.compare_digest(given.encode(), self.token.encode()):
            raise Unauthenticated(WRONG_TOKEN)
        return Identity("token", Role.ADMIN)
