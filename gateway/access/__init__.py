"""Authenticate a call: map its credentials to the principal on whose behalf it reads.

This is the only place that constructs principals. Every face passes the credentials that it
received, and hands the principal on to the service layer. Today there is a single kind of
principal: every authenticated caller sees everything.
"""

from __future__ import annotations

import hmac
from dataclasses import dataclass

from codelode.access import EVERYTHING, Principal, Role
from codelode.errors import Unauthenticated

_REMEDY = (
    "set the environment variable CODELODE_TOKEN to the token of the gateway, or, for your own "
    "`codelode up --data FOLDER`, set CODELODE_DATA to that folder "
    "(without codelode's client: the header `authorization: Bearer TOKEN`)"
)
NO_TOKEN = f"this gateway requires a token: {_REMEDY}"
WRONG_TOKEN = f"the token of this call is wrong: {_REMEDY}"


@dataclass(frozen=True, slots=True)
class SharedToken:
    """Admits the callers that send the token; if the token is empty, admits all callers.

    Only a gateway on loopback that was not started by `codelode up` has an empty token.
    """

    token: str

    def principal(self, authorization: object) -> Principal:
        """Return the principal of an `authorization` header. Raises Unauthenticated."""
        if not self.token:
            return Principal("loopback", Role.ADMIN, EVERYTHING)
        if not isinstance(authorization, str):
            raise Unauthenticated(NO_TOKEN)
        if not hmac.compare_digest(authorization.encode(), f"Bearer {self.token}".encode()):
            raise Unauthenticated(WRONG_TOKEN)
        return Principal("token", Role.ADMIN, EVERYTHING)
