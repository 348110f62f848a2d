"""Authenticate by tokens of OpenID Connect issuers: JSON Web Tokens that identify the caller."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from dataclasses import dataclass

from joserfc import jwt
from joserfc.errors import JoseError
from joserfc.jws import JWSRegistry

from codelode.access import Role
from codelode.errors import Unauthenticated
from codelode.ports import Documents
from codelode.settings import Settings, listed
from gateway.access.identity import Credentials, Identity, bearer
from gateway.access.signing_keys import SigningKeys

#: Longest token, characters. gRPC itself refuses headers of more than 16 kB together.
MAX_TOKEN_CHARS = 12_000
#: Longest name of a caller, characters.
MAX_NAME_CHARS = 256

#: Values of the header `typ` of tokens that identify a caller (RFC 9068 for the last two); tokens
#: for other purposes, such as logout, have others.
TYPES = ("jwt", "at+jwt", "application/at+jwt")

#: The beginning, in base64url, of every JSON object that has no space after its first brace.
_OBJECT = "eyJ"


@dataclass(frozen=True, slots=True)
class Rules:
    """The rules by which tokens are accepted and their claims are read."""

    audience: str
    algorithms: tuple[str, ...]
    skew_s: int
    name_claim: str
    groups_claim: str
    indexers: frozenset[str]  # groups whose members may index
    admins: frozenset[str]

    @classmethod
    def of(cls, settings: Settings) -> Rules:
        """Return the rules in the settings."""
        return cls(
            audience=settings.oidc_audience,
            algorithms=listed(settings.oidc_algorithms),
            skew_s=settings.oidc_skew_s,
            name_claim=settings.oidc_name_claim,
            groups_claim=settings.oidc_groups_claim,
            indexers=frozenset(listed(settings.oidc_indexers)),
            admins=frozenset(listed(settings.oidc_admins)),
        )


class OpenIdConnect:
    """Establishes identities from tokens of the issuers."""

    def __init__(self, issuers: Mapping[str, SigningKeys], rules: Rules) -> None:
        self._issuers, self._rules = dict(issuers), rules

    @classmethod
    def of(cls, settings: Settings, documents: Documents) -> OpenIdConnect:
        """Return the authenticator for tokens of the issuers in the settings."""
        issuers = {url: SigningKeys(url, documents) for url in listed(settings.oidc_issuers)}
        return cls(issuers, Rules.of(settings))

    async def identity(self, credentials: Credentials) -> Identity | None:
        token = _token(credentials.authorization)
        if token is None:
            return None
        try:
            claims = await self._verified(token)
            return _identity(claims, self._rules)
        except _Refused as exc:
            raise Unauthenticated(f"the token of this call is not accepted: {exc}") from exc
        except JoseError as exc:
            raise Unauthenticated(
                f"the token of this call is not accepted: {exc.description or exc.error}"
            ) from exc

    async def _verified(self, token: str) -> Mapping[str, object]:
        """Return the claims if signature, issuer, audience, and times are valid."""
        header, claims = _unverified(token)
        issuer = claims.get("iss")
        keys = self._issuers.get(issuer) if isinstance(issuer, str) else None
        if keys is None:
            raise _Refused("it is of an issuer that this gateway does not know")
        _check_header(header, self._rules)
        name = header.get("kid")
        key = await keys.key(name if isinstance(name, str) else None)
        verified = jwt.decode(
            token, key, list(self._rules.algorithms), JWSRegistry(strict_check_header=False)
        )
        _registry(str(issuer), self._rules).validate(verified.claims)
        return verified.claims


class _Refused(Exception):
    """The token cannot be accepted; the message says why."""


def _token(authorization: str) -> str | None:
    """Return the token of the header if it looks like a JSON Web Token."""
    token = bearer(authorization).strip()
    return token if token.startswith(_OBJECT) and token.count(".") == 2 else None


def _unverified(token: str) -> tuple[dict[str, object], dict[str, object]]:
    """Return the unverified header and claims, which name the issuer and its key."""
    if len(token) > MAX_TOKEN_CHARS:
        raise _Refused(f"it is longer than {MAX_TOKEN_CHARS} characters")
    header, claims, _ = token.split(".")
    return _object(header), _object(claims)


def _object(part: str) -> dict[str, object]:
    try:
        found = json.loads(base64.b64decode(part + "=" * (-len(part) % 4), "-_", validate=True))
    except (ValueError, RecursionError) as exc:
        raise _Refused("it is malformed") from exc
    if not isinstance(found, dict):
        raise _Refused("it is malformed")
    return found


def _check_header(header: Mapping[str, object], rules: Rules) -> None:
    if header.get("alg") not in rules.algorithms:
        raise _Refused(f"its algorithm is not one of {', '.join(rules.algorithms)}")
    kind = header.get("typ", TYPES[0])
    if not isinstance(kind, str) or kind.lower() not in TYPES:
        raise _Refused("it is of a type that does not identify a caller")


def _registry(issuer: str, rules: Rules) -> jwt.JWTClaimsRegistry:
    return jwt.JWTClaimsRegistry(
        leeway=rules.skew_s,
        iss={"essential": True, "value": issuer},
        aud={"essential": True, "value": rules.audience},
        exp={"essential": True},
    )


def _identity(claims: Mapping[str, object], rules: Rules) -> Identity:
    """Return the identity that verified claims give."""
    name, groups = _name(claims, rules.name_claim), _groups(claims, rules.groups_claim)
    if groups & rules.admins:
        role = Role.ADMIN
    else:
        role = Role.INDEXER if groups & rules.indexers else Role.READER
    return Identity(f"user:{name}", role, groups, email=_email(claims), claims=_plain(claims))


def _email(claims: Mapping[str, object]) -> str:
    """Return the e-mail address if the token states that it is verified."""
    email = claims.get("email")
    return email if isinstance(email, str) and claims.get("email_verified") is True else ""


def _plain(claims: Mapping[str, object]) -> tuple[tuple[str, str], ...]:
    return tuple(
        (name, str(value))
        for name, value in claims.items()
        if isinstance(value, str | int) and not isinstance(value, bool)
    )


def _name(claims: Mapping[str, object], claim: str) -> str:
    name = claims.get(claim)
    if not isinstance(name, str) or not 0 < len(name) <= MAX_NAME_CHARS or not name.isprintable():
        raise _Refused(f"it has no usable claim {claim!r} (CODELODE_OIDC_NAME_CLAIM)")
    if claim == "email" and claims.get("email_verified") is not True:
        raise _Refused(
            "its issuer does not state that the e-mail address is verified (email_verified); if it "
            "never does, set CODELODE_OIDC_NAME_CLAIM to another claim, such as sub"
        )
    return name


def _groups(claims: Mapping[str, object], claim: str) -> frozenset[str]:
    found = claims.get(claim)
    listed = [found] if isinstance(found, str) else found if isinstance(found, list) else []
    return frozenset(one for one in listed if isinstance(one, str))
