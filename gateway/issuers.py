"""Request discovery documents and tokens from the issuers of OpenID Connect tokens.

Callers that are not signed in can cause these requests, so only a few run at once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

import structlog

from codelode.errors import Unauthenticated, Unavailable
from codelode.openid_flow import endpoint, refresh_form, refusal, revocation_form
from codelode.ports import Documents
from codelode.settings import Settings, listed
from gateway.fresh import FreshCache

#: Maximum number of requests for tokens at once, each of which takes a thread until the issuer
#: answers.
AT_ONCE = 4

_log = structlog.get_logger("gateway")


class Issuers:
    """The issuers to which the web page sends browsers, in the order of the settings."""

    def __init__(self, settings: Settings, documents: Documents) -> None:
        self.urls = listed(settings.oidc_issuers)
        self.client_id = settings.oidc_client()
        self.scope = settings.oidc_scopes
        secret = settings.oidc_client_secret.get_secret_value()
        self._secret = {"client_secret": secret} if secret else {}
        self._documents = documents
        self._descriptions = FreshCache(self._read, entries=max(1, len(self.urls)))
        self._asking = asyncio.Semaphore(AT_ONCE)

    async def described(self, issuer: str) -> Mapping[str, object]:
        """Return the issuer's discovery document. Raises Unavailable."""
        return await self._descriptions.get(issuer)

    async def answer(self, issuer: str, form: Mapping[str, str]) -> Mapping[str, object]:
        """Return the answer of the issuer's token endpoint, which may be a refusal.

        Raises Unavailable.
        """
        url = endpoint(await self.described(issuer), "token_endpoint")
        async with self._asking:
            return await asyncio.to_thread(self._documents.post, url, {**form, **self._secret})

    async def renewed(self, issuer: str, refresh_token: str) -> tuple[str, str]:
        """Return the next token and refresh token. Raises Unavailable, or Unauthenticated."""
        answer = await self.answer(issuer, refresh_form(refresh_token, self.client_id))
        token = answer.get("id_token")
        if not isinstance(token, str):
            raise Unauthenticated(refusal(answer, "id token"))
        return token, str(answer.get("refresh_token") or refresh_token)

    async def revoke(self, issuer: str, refresh_token: str) -> None:
        """Revoke a refresh token if the issuer has an endpoint for it; a failure is logged."""
        try:
            url = (await self.described(issuer)).get("revocation_endpoint")
            if isinstance(url, str):
                form = {**revocation_form(refresh_token, self.client_id), **self._secret}
                async with self._asking:
                    await asyncio.to_thread(self._documents.tell, url, form)
        except Unavailable as error:
            _log.warning("token_not_revoked", issuer=issuer, error=str(error))

    def _read(self, issuer: str) -> Mapping[str, object]:
        url = f"{issuer.rstrip('/')}/.well-known/openid-configuration"
        found = self._documents.get(url)
        if found.get("issuer") != issuer:
            raise Unavailable(f"{url} describes another issuer, {found.get('issuer')!r}")
        return found
