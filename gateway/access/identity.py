"""Define the credentials of a call, and the identity that an authenticator establishes from them.

The authenticator of client certificates is here too; each other authenticator has its own module.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

from codelode.access import Bounds, Role


class Login(Protocol):
    """A login that has yet to be completed, by a server or a store that is asked only once."""

    async def authorization(self) -> str:
        """Complete the login, and return the authorization that it gives.

        Raises Unauthenticated if it is wrong, Unavailable if it cannot be completed now.
        """


@dataclass(frozen=True, slots=True)
class Credentials:
    """The credentials of a call, as the face received them; empty fields are absent."""

    authorization: str = ""  # the header of that name
    certificate: tuple[str, ...] = ()  # alternative names of a verified client certificate
    #: The principal of the connection whose secret signed the webhook; empty: no secret did.
    #: None: the call is not a webhook.
    webhook: str | None = None
    session: str = ""  # id of a browser session, which has its own authorization
    login: Login | None = None  # of a browser that is being signed in


#: The credentials of a call that presents none.
NO_CREDENTIALS = Credentials()


@dataclass(frozen=True, slots=True)
class Identity:
    """The identity of a caller, and the rights that its credentials give."""

    name: str  # with the kind of credentials: `token`, `key:ci`, `user:ann@example.org`
    role: Role
    groups: frozenset[str] = frozenset()
    bounds: Bounds = ()  # limits of what is visible; empty: no limits
    expires_at: float = math.inf  # of the credentials, seconds since the epoch
    email: str = ""  # empty unless the issuer has verified the address
    claims: tuple[tuple[str, str], ...] = ()  # texts and whole numbers of a token


def bearer(authorization: str) -> str:
    """Return the token or key in a header `authorization`; "" if its scheme is not Bearer.

    Names of schemes are case-insensitive (RFC 9110, section 11.1).
    """
    scheme, _, given = authorization.partition(" ")
    return given.lstrip(" ") if scheme.lower() == "bearer" else ""


class Authenticator(Protocol):
    """Establishes identities from one kind of credentials."""

    async def identity(self, credentials: Credentials) -> Identity | None:
        """Return the identity, or None if the credentials are of another kind.

        Raises Unauthenticated if they are of this kind but wrong, Unavailable if they cannot be
        checked now.
        """


class ClientCertificates:
    """Names a caller after the first subject alternative name of its certificate.

    The listener has verified the certificate before the call arrives.
    """

    async def identity(self, credentials: Credentials) -> Identity | None:
        if not credentials.certificate:
            return None
        return Identity(f"certificate:{credentials.certificate[0]}", Role.READER)
