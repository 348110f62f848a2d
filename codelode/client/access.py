"""API keys and permissions of code hosts, read from the messages of AccessService."""

from __future__ import annotations

from dataclasses import dataclass, field

from codelode.client.reading import value
from codelode.v1 import access_pb2


@dataclass(frozen=True, slots=True)
class Key:
    """An API key without its text. Times are seconds since the epoch; 0: never."""

    id: str
    name: str
    role: str
    #: Lists of globs; the key sees no repository that does not match a glob of each list.
    bounds: tuple[tuple[str, ...], ...]
    created_at: float
    created_by: str
    expires_at: float
    used_at: float


@dataclass(frozen=True, slots=True)
class CreatedKey:
    """A new API key and its text, which callers send as their token."""

    text: str = field(repr=False)
    key: Key
    notices: tuple[str, ...] = ()  # name repositories that match its globs but that it cannot see


@dataclass(frozen=True, slots=True)
class ConnectionPermissions:
    """The permission sync of a code host. Times are seconds since the epoch; 0: never."""

    connection: str
    kind: str
    #: The beginning of the URLs of the repositories under permission sync, without the scheme.
    prefix: str
    synced_at: float  # when the last successful attempt began
    attempted_at: float
    every_s: int
    max_age_s: int
    repositories: int
    accounts: int
    requests: int  # of the last attempt
    error: str  # of the last attempt
    notice: str  # what the last attempt could not read although it was successful
    closed_because: str  # why only admins see the repositories; empty: their readers do too
    is_due: bool  # a sync was requested, or is due, and is not done yet
    requests_allowed: int  # in a period, as the host last reported; 0: it does not say
    requests_left: int
    resets_at: float  # when the next period begins; 0: the host does not say


@dataclass(frozen=True, slots=True)
class Permissions:
    """The permission sync of all code hosts, by name."""

    connections: tuple[ConnectionPermissions, ...]
    problem: str  # why the sources file cannot be used; empty: it can


def created_key(message: access_pb2.CreateKeyResponse) -> CreatedKey:
    return CreatedKey(message.key, key(message.created), tuple(message.notices))


def key(message: access_pb2.ApiKey) -> Key:
    return value(Key, message, bounds=tuple(tuple(bound.globs) for bound in message.bounds))
