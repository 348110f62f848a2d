"""Give git the token or the ssh key of the connection that a repository belongs to.

A token is only in the environment of one git process, as a header for the address of the
connection. It is in no argument, URL, or file. Redirects are not followed (`workers.pull.git`).

A connection may read more than those who register repositories may see. So git gets its token only
for a followed repository, and only under the name by which it is followed.

The token of an app comes from the host. It is used for all runs that begin while it is valid for
long enough and the host accepts it. It can only read the content of repositories.
"""

from __future__ import annotations

import asyncio
import base64
import time
from collections.abc import Callable
from typing import TYPE_CHECKING
from urllib.parse import quote

import structlog

from codelode import sources
from codelode.errors import Denied, InvalidSettings, NotFound
from codelode.git_access import Header, SshIdentity
from codelode.host_permissions import address
from codelode.model import Repository
from codelode.sources import Connection, HostKind
from codelode.ssh_keys import check_private_key
from workers.sources.declared import SourcesFile, owner_of

if TYPE_CHECKING:
    from workers.sources import apps
    from workers.sources.http import Host

log = structlog.get_logger("workers")

#: Time until its expiry below which an app's token is not given to another run, seconds.
LEFT_S = 1_800.0

#: The error of a run whose credentials are missing.
_MISSING = (
    "the worker has no credentials for this host; the log of the pull workers and, on their "
    "machine, `codelode sources check` say where they should be"
)

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
        self._made: dict[tuple[Connection, str], apps.Token] = {}

    def __call__(
        self, repository: Repository, refused: Header | None = None
    ) -> Header | SshIdentity | None:
        """Return the header that git sends to the connection of a repository, or its ssh identity.

        None if no connection with a secret follows the repository. `refused`: a header that the
        host has refused; if it has the token of an app, another token is made.

        Raises InvalidSettings if the secret is not where the sources file says, and Denied or
        NotFound if the host gives an app no token. The log has more details than the error, because
        others than admins can read the error of a run. Raises Unavailable if the host does not
        answer an app.
        """
        following = self._file.chosen(lambda one: one.repositories and one.credential)
        owner = owner_of(repository.url, following.values())
        if owner is None or not self._follows(owner, repository):
            return None
        if owner.ssh:
            below, url = _over_ssh(owner, owner.ssh.url, repository.url)
            return SshIdentity(
                self._secret(owner, None), owner.ssh.known_hosts, below=below, url=url
            )
        return _header(owner, self._secret(owner, refused))

    def _secret(self, connection: Connection, refused: Header | None) -> str:
        """Return the token of a connection, or its ssh key."""
        try:
            if connection.ssh:
                key = connection.ssh.private_key.value()
                check_private_key(connection.ssh.private_key, key)
                return key
            secret = connection.secret()
            return self._of_app(connection, secret, refused) if connection.app else secret
        except (InvalidSettings, Denied, NotFound) as exc:
            log.error("token_missing", connection=connection.name, error=str(exc))
            raise type(exc)(_MISSING) from None

    def _of_app(self, connection: Connection, private_key: str, refused: Header | None) -> str:
        key, now = (connection, private_key), time.time()
        made = self._made.get(key)
        is_usable = made is not None and made.expires_at - now >= LEFT_S
        if made is None or not is_usable or _header(connection, made.text) == refused:
            made = asyncio.run(_made(connection, private_key, now))
            live = {of: one for of, one in self._made.items() if one.expires_at > now}
            self._made = {**live, key: made}
        return made.text

    def _follows(self, connection: Connection, repository: Repository) -> bool:
        url = self._entrusted(connection.name, repository.name)
        return bool(url) and address(url) == address(repository.url)


def _over_ssh(connection: Connection, ssh_url: str, url: str) -> tuple[str, str]:
    """Return a prefix of the URL of a repository, and what replaces it when git uses ssh."""
    if not ssh_url:
        return "", ""
    if connection.url != sources.AZURE_CLOUD:
        return f"{connection.root}/", f"{ssh_url}/"
    # Azure has other paths there, `v3/organisation/project/repository`, with the URL's escapes.
    path = url.removeprefix(f"{connection.root}/").replace("/_git/", "/", 1)
    return url, f"{ssh_url}/v3/{quote(path)}"


async def _made(connection: Connection, private_key: str, now: float) -> apps.Token:
    # Imported here, because they bring an HTTP client, and few workers ask a host for tokens.
    from workers.sources import apps, github
    from workers.sources.pages import Pages
    from workers.sources.reading import read_host

    async def request_token(host: Host) -> apps.Token:
        rest = github.rest(connection)
        wanted = {"contents": "read"}
        return await apps.token(
            host, connection, private_key, rest=rest, now=now, permissions=wanted
        )

    return await read_host(github.host(connection, private_key, Pages()), request_token)


def _header(connection: Connection, token: str) -> Header:
    return Header(f"{connection.url}/", f"Authorization: {_authorization(connection.kind, token)}")


def _authorization(kind: HostKind, token: str) -> str:
    """Return the header by which git presents a token to a kind of host: Basic or Bearer."""
    if kind not in _USERS:
        return f"Bearer {token}"
    return f"Basic {base64.b64encode(f'{_USERS[kind]}:{token}'.encode()).decode()}"
