"""Client certificates, which the listener has verified before a call arrives."""

from __future__ import annotations

from codelode.access import Role
from gateway.access.identity import Credentials, Identity


class ClientCertificates:
    """Names a caller after the first subject alternative name of its certificate."""

    async def identity(self, credentials: Credentials) -> Identity | None:
        if not credentials.certificate:
            return None
        return Identity(f"certificate:{credentials.certificate[0]}", Role.READER)
