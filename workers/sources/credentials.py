"""Give git the token of the connection that a repository belongs to.

The token is in the environment of one git process, as a header for the address of the connection
alone. It is in no argument, URL, or file. Redirects are not followed (`workers.pull.git`).

A connection may read more than those who register repositories may see. So git gets its token only
for a repository that is followed, under the name under which it is followed.
"""

from __future__ import annotations

import base64
from collections.abc import Callable

import structlog

from codelode.errors import InvalidSettings
from codelode.host_permissions import address
from codelode.model import Repository
from codelode.sources import Connection, HostKind
from workers.sources.declared import SourcesFile, owner_of

log = structlog.get_logger("workers")

#: The user name that goes with a token as the password, as the documents of the hosts name it.
_USERS = {
    HostKind.GITHUB: "x-access-token",
    HostKind.GITLAB: "oauth2",
    HostKind.GITEA: "token",
    HostKind.BITBUCKET: "x-token-auth",
    HostKind.AZURE: "",
}


class GitCredentials:
    """The tokens of the connections whose repositories are followed."""

    def __init__(self, path: str, entrusted: Callable[[str, str], str]) -> None:
        self._file = SourcesFile(path)
        self._entrusted = entrusted  # see `SourceStates.entrusted`

    def __call__(self, repository: Repository) -> tuple[str, str] | None:
        """Return the address of the connection of a repository, and the header to send there.

        None: no connection with a token follows it. Raises InvalidSettings if the token is not
        where the sources file says; the log says where that is, because the message becomes that of
        the run, which others than admins read.
        """
        following = self._file.chosen(lambda one: one.repositories and one.token)
        owner = owner_of(repository.url, following.values())
        if owner is None or not self._follows(owner, repository):
            return None
        return f"{owner.url}/", f"Authorization: {_authorization(owner.kind, _secret(owner))}"

    def _follows(self, connection: Connection, repository: Repository) -> bool:
        url = self._entrusted(connection.name, repository.name)
        return bool(url) and address(url) == address(repository.url)


def _secret(connection: Connection) -> str:
    try:
        return connection.secret()
    except InvalidSettings as exc:
        log.error("token_missing", connection=connection.name, error=str(exc))
        raise InvalidSettings(
            "the worker has no token for this host; the log of the pull workers and, on their "
            "machine, `codelode sources check` say where it should be"
        ) from None


def _authorization(kind: HostKind, token: str) -> str:
    """Return how git presents a token to a kind of host: as a password, or else as it is."""
    if kind not in _USERS:
        return f"Bearer {token}"
    return f"Basic {base64.b64encode(f'{_USERS[kind]}:{token}'.encode()).decode()}"
