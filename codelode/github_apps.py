"""Sign the tokens with which a GitHub App asks for the tokens of its installations.

https://docs.github.com/en/apps/creating-github-apps/authenticating-with-a-github-app
"""

from __future__ import annotations

from codelode.errors import InvalidSettings
from codelode.sources import App

#: Validity of a token, and allowance for a clock that differs from that of the host, seconds. The
#: host accepts at most ten minutes.
VALID_S, SKEW_S = 480, 60


def signed(app: App, private_key: str, *, now: float) -> str:
    """Return a token of the app. Raises InvalidSettings if the key is not a private RSA key."""
    from joserfc import jwt
    from joserfc.errors import JoseError
    from joserfc.jwk import RSAKey

    claims = {"iat": int(now) - SKEW_S, "exp": int(now) + VALID_S, "iss": app.id}
    try:
        key = RSAKey.import_key(private_key)
        if not key.is_private:
            raise ValueError
        return jwt.encode({"alg": "RS256", "typ": "JWT"}, claims, key, ["RS256"])
    except (JoseError, ValueError, TypeError):  # their messages could quote the key
        raise InvalidSettings(
            f"{app.private_key.place} holds no private RSA key in PEM format: make one in the "
            "settings of the app, and keep the file as it is downloaded"
        ) from None
