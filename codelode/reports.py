"""Define the values in which the gateway reports the parts of a cluster to its clients."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Queue:
    """A queue of jobs."""

    name: str
    messages: int  # number of waiting messages
    workers: int  # number of its workers; -1: unknown


@dataclass(frozen=True, slots=True)
class Server:
    """The store or a model, and whether it answers. Those inside the gateway always do."""

    role: str  # store, embedder, or language model
    name: str  # of the store, or the identity of the model; empty: not known yet
    problem: str  # why it does not answer; empty if it answers


@dataclass(frozen=True, slots=True)
class FileFailure:
    """A file that is missing from the index or only partly indexed."""

    repository: str
    ref: str
    path: str
    state: str  # failed or skipped; of an indexed file, its health
    reason: str


@dataclass(frozen=True, slots=True)
class MapStatus:
    """The progress of the map of some repositories."""

    repositories: tuple[str, ...]  # in order
    progress: str  # waiting, reading vectors, placing points, ready, or failed
    share: float  # of the work that is done
    error: str  # why it failed
    at: float  # when this was reported, seconds since the epoch
    points: int  # of a map that is ready
    chunks: int  # of the repositories when it was made
    took_s: float
    is_current: bool  # whether it was made from the commits that are indexed now

    @property
    def is_over(self) -> bool:
        return self.progress in ("ready", "failed")


@dataclass(frozen=True, slots=True)
class ConnectionPermissions:
    """The permission sync of a code host. Times are seconds since the epoch; 0: never."""

    connection: str
    kind: str
    prefix: str  # the beginning of the URLs of its repositories, without scheme
    synced_at: float  # when the last successful attempt began
    attempted_at: float
    every_s: int
    max_age_s: int
    repositories: int
    accounts: int
    requests: int  # number in the last attempt
    error: str  # of the last attempt
    notice: str  # what the last attempt could not read although it succeeded
    closed_because: str  # empty: the repositories are open to their readers
    is_due: bool  # whether one was requested, or is due, and is not done yet
    requests_allowed: int  # per period, as the host last reported; 0: not reported
    requests_left: int
    resets_at: float  # when the next period begins; 0: not reported


@dataclass(frozen=True, slots=True)
class Permissions:
    """The permission sync of all code hosts, by name."""

    connections: tuple[ConnectionPermissions, ...]
    problem: str  # why the file that declares them cannot be used; empty if it can be used


@dataclass(frozen=True, slots=True)
class SourceChange:
    """An action on a repository that was taken, or is planned, and its reason."""

    action: str
    repository: str
    reason: str


@dataclass(frozen=True, slots=True)
class Source:
    """A connection whose repositories are followed. Times are seconds since the epoch; 0: never."""

    connection: str
    kind: str
    prefix: str  # the beginning of the URLs of its repositories; of a folder, its path
    every_s: int  # the present interval of listings
    synced_at: float  # when the last successful listing began
    attempted_at: float
    planned_at: float  # when the last plan without effect was made
    listed: int  # number of repositories that the host lists
    repositories: int  # number of repositories that are followed
    requests: int  # number in the last attempt
    error: str  # of the last attempt
    waiting: str  # why repositories that would be removed wait for a confirmation
    changes: tuple[SourceChange, ...]  # in the last attempt or plan; the first 1,000
    is_due: bool  # whether one was requested, or is due, and is not done yet
    requests_allowed: int  # per period, as the host last reported; 0: not reported
    requests_left: int
    resets_at: float  # when the next period begins; 0: not reported


@dataclass(frozen=True, slots=True)
class Sources:
    """All connections whose repositories are followed, by name."""

    sources: tuple[Source, ...]
    problem: str  # why the file that declares them cannot be used; empty if it can be used
