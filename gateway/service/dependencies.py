"""Define the dependencies of the service functions, which are passed as their first argument."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from dataclasses import dataclass, field
from functools import wraps
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar

from codelode.ledger import Ledger
from codelode.model import RefName, RepositoryName, Run
from codelode.ports import (
    ApiKeys,
    CallLimits,
    ChunkMaps,
    DiskUse,
    ExpiringValues,
    PermissionStates,
    QueryCache,
    RegroupingStates,
    SemanticQueryCache,
    SourceStates,
)
from codelode.reports import Queue
from codelode.scopes import NO_SCOPES, Scopes
from codelode.settings import Settings
from gateway.service.audit_log import AuditLog
from gateway.service.coverage import CoverageReader
from gateway.service.folders import KnownFiles
from gateway.service.map_cache import KnownMaps
from gateway.service.published import Published
from gateway.service.servers import KnownServers
from gateway.sessions import Sessions
from gateway.state import Backends

P = ParamSpec("P")
T = TypeVar("T")


#: Stands for a number that cannot be determined now.
UNKNOWN = -1


class Jobs(Protocol):
    """Sends jobs to the workers. Raises Unavailable if the broker does not answer.

    Its methods block, so callers on the event loop use a thread.
    """

    def pull(self, run: Run) -> None:
        """Start an active run."""

    def remove(self, repository: RepositoryName) -> None:
        """Remove the repository from the index."""

    def remove_ref(self, repository: RepositoryName, ref: RefName) -> None:
        """Delete a removed ref from the index."""

    def read_permissions(self, connection: str) -> None:
        """Read the permissions of a code host, if they are due."""

    def read_source(self, connection: str) -> None:
        """List the repositories of a connection, if that is due."""

    def make_map(self, repositories: Sequence[RepositoryName]) -> None:
        """Make the map of the repositories."""

    def queues(self) -> tuple[Queue, ...]:
        """Return every queue, in pipeline order."""

    def close(self) -> None:
        """Release connections."""


@dataclass(frozen=True, slots=True)
class Dependencies:
    """The backends and settings of a gateway.

    `ledger` holds the state of all repositories. Service functions read it through
    `catalog.VisibleCatalog`, which bounds every read by the visibility of the principal.
    """

    published: Published
    ledger: Ledger
    cache: QueryCache
    semantic_cache: SemanticQueryCache
    jobs: Jobs
    settings: Settings
    coverage: CoverageReader
    keys: ApiKeys
    permissions: PermissionStates
    regrouping: RegroupingStates
    disk_use: DiskUse
    sources: SourceStates
    maps: ChunkMaps
    sessions: Sessions
    deliveries: ExpiringValues  # ids of the webhook deliveries that were handled
    call_limits: CallLimits | None = None  # counts calls; None: nothing is limited
    audit_log: AuditLog | None = None  # None: calls are not recorded
    problems: Callable[[], tuple[str, ...]] = lambda: ()  # of the configuration, for admins; blocks
    scopes: Callable[[], Scopes] = lambda: NO_SCOPES  # the scopes in force; blocks
    known_files: KnownFiles = field(default_factory=KnownFiles)
    known_maps: KnownMaps = field(default_factory=KnownMaps)
    known_servers: KnownServers = field(default_factory=KnownServers)
    draining: asyncio.Event = field(default_factory=asyncio.Event)  # when it is set, streams end

    async def close(self) -> None:
        await self.published.close()
        await self.cache.close()
        await self.semantic_cache.close()
        await self.sessions.release()
        await self.deliveries.close()
        if self.call_limits is not None:
            await self.call_limits.close()
        if self.audit_log is not None:
            self.audit_log.close()
        self.jobs.close()


def reads_index(
    function: Callable[Concatenate[Dependencies, Backends, P], Awaitable[T]],
) -> Callable[Concatenate[Dependencies, P], Coroutine[Any, Any, T]]:
    """Decorate a service function that reads the index to get the backends as second argument.

    The function is called with the backends of the published index, and again with the new ones if
    another index was published meanwhile (see `published`).
    """

    @wraps(function)
    async def call(dependencies: Dependencies, /, *args: P.args, **kwargs: P.kwargs) -> T:
        def read(backends: Backends) -> Awaitable[T]:
            return function(dependencies, backends, *args, **kwargs)

        return await dependencies.published.call(read)

    return call


def start_in_thread(call: Callable[[], T]) -> asyncio.Future[T]:
    """Run the blocking call in a thread, starting now.

    Awaiting the future raises an error of the call. If it is never awaited, the error is dropped
    without asyncio's warning.
    """
    started = asyncio.get_running_loop().run_in_executor(None, call)
    started.add_done_callback(lambda done: done.cancelled() or done.exception())
    return started
