"""Give git the token of the connection that a repository belongs to.

The token is in the environment of one git process, as a header for the address of the connection
alone. It is in no argument, URL, or file. Redirects are not followed (`workers.pull.git`).
"""

from __future__ import annotations

import base64

from codelode.sources import HostKind
from workers.sources.declared import SourcesFile, owner_of

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

    def __init__(self, path: str) -> None:
        self._file = SourcesFile(path)

    def __call__(self, url: str) -> tuple[str, str] | None:
        """Return the address of the connection of a repository, and the header to send there.

        None: it belongs to no connection with a token whose repositories are followed. Raises
        InvalidSettings if the token is not where the sources file says.
        """
        following = self._file.chosen(lambda one: one.repositories and one.token)
        owner = owner_of(url, following.values())
        if owner is None:
            return None
        return f"{owner.url}/", f"Authorization: {_authorization(owner.kind, owner.secret())}"


def _authorization(kind: HostKind, token: str) -> str:
    """Return how git presents a token to a kind of host: as a password, or else as it is."""
    if kind not in _USERS:
        return f"Bearer {token}"
    return f"Basic {base64.b64encode(f'{_USERS[kind]}:{token}'.encode()).decode()}"
