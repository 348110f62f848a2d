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


def created_key(message: access_pb2.CreateKeyResponse) -> CreatedKey:
    return CreatedKey(message.key, key(message.created), tuple(message.notices))


def key(message: access_pb2.ApiKey) -> Key:
    return value(Key, message, bounds=tuple(tuple(bound.globs) for bound in message.bounds))
