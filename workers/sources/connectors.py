"""Define a connector for each kind of code host."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass

from codelode.host_permissions import HostPermissions
from codelode.repository_rules import ListedRepository
from codelode.sources import Connection, HostKind
from workers.sources import azure, bitbucket, gitea, github, gitlab
from workers.sources.http import Host
from workers.sources.pages import Pages


@dataclass(frozen=True, slots=True)
class Connector:
    """The functions that read one kind of host."""

    host: Callable[[Connection, str, Pages], Host]
    repositories: Callable[[Host, Connection], AsyncIterator[ListedRepository]]
    permissions: Callable[[Host, Connection], Awaitable[HostPermissions]] | None = None
    #: Returns the repositories, given those of the last listing, without listing all; None if all
    #: must be listed. It may miss changes, which the next complete listing shows.
    changed: (
        Callable[
            [Host, Connection, Sequence[ListedRepository]],
            Awaitable[Sequence[ListedRepository] | None],
        ]
        | None
    ) = None


CONNECTORS: Mapping[HostKind, Connector] = {
    HostKind.GITHUB: Connector(github.host, github.repositories, github.permissions),
    HostKind.GITLAB: Connector(gitlab.host, gitlab.repositories, gitlab.permissions),
    HostKind.GITEA: Connector(gitea.host, gitea.repositories, gitea.permissions, gitea.changed),
    HostKind.BITBUCKET: Connector(bitbucket.host, bitbucket.repositories),
    HostKind.BITBUCKET_SERVER: Connector(bitbucket.server, bitbucket.repositories_of_server),
    HostKind.AZURE: Connector(azure.host, azure.repositories),
}
