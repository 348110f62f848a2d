"""List the capabilities of the product: one row per service function, for all faces.

This is the only place that compares roles. docs/security.md shows the table.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from functools import wraps
from typing import Any, Concatenate, ParamSpec, TypeVar

from codelode.access import Principal, Role
from codelode.addresses import default_name
from codelode.errors import Denied, InvalidQuery
from gateway.service import audit

D = TypeVar("D")
P = ParamSpec("P")
T = TypeVar("T")

#: Matches the part of a URL before the host: `https://user:password@host/path`, `git@host:path`.
_CREDENTIALS = re.compile(r"^(\w+://)?.*@", re.DOTALL)


class Kind(StrEnum):
    """The kinds of calls, each with its own limit."""

    SEARCH = "search"
    CONTEXT = "context"  # calls that read a lot for one answer
    WRITE = "write"
    STREAM = "stream"


@dataclass(frozen=True, slots=True)
class Capability:
    """A capability: who may use it, its kind, and which repositories its request names.

    `call` is its name in the APIs: the gRPC method, and the operation in the OpenAPI document.
    """

    call: str  # empty: it is not a call of the APIs
    role: Role  # the minimum role
    kind: Kind
    named: Callable[..., Iterable[str]] = lambda *_: ()  # names and globs, as the caller wrote them


def _own(request: Any) -> Iterable[str]:
    return (request.repository,)


def _several(request: Any) -> Iterable[str]:
    return tuple(request.repositories)


def _first(name: str, *_: object) -> Iterable[str]:
    return (name,)


def _filtered(request: Any) -> Iterable[str]:
    return (name for name in request.filters.repositories if not name.startswith("!"))


def _registered(request: Any) -> Iterable[str]:
    return (request.name or _default_name(request.url),)


def _default_name(url: str) -> str:
    """Return the default name of the repository at the URL, without user and password."""
    with suppress(InvalidQuery):
        return default_name(_CREDENTIALS.sub(r"\1", url))
    return ""


#: One row per function of `gateway.service`, by its name. A function without a row cannot be
#: decorated with `permitted`.
CAPABILITIES: Mapping[str, Capability] = {
    "search": Capability("Search", Role.READER, Kind.SEARCH, _filtered),
    "context": Capability("Context", Role.READER, Kind.CONTEXT, _filtered),
    "similar": Capability(
        "Similar", Role.READER, Kind.SEARCH, lambda asked: (*_own(asked), *_filtered(asked))
    ),
    "grep": Capability("Grep", Role.READER, Kind.CONTEXT, _filtered),
    "symbols": Capability("ListSymbols", Role.READER, Kind.CONTEXT, _filtered),
    "references": Capability("ListReferences", Role.READER, Kind.CONTEXT, _filtered),
    "read": Capability("ReadFile", Role.READER, Kind.SEARCH, _own),
    "files": Capability("ListFiles", Role.READER, Kind.SEARCH, _own),
    "explain": Capability("Explain", Role.READER, Kind.CONTEXT, _own),
    "graph": Capability("GetGraph", Role.READER, Kind.CONTEXT, _own),
    "chunk_map": Capability("GetMap", Role.READER, Kind.CONTEXT, _several),
    "map_places": Capability("ListMapPlaces", Role.READER, Kind.SEARCH, _several),
    "make_map": Capability("MakeMap", Role.INDEXER, Kind.WRITE, _several),
    "repositories": Capability("ListRepositories", Role.READER, Kind.SEARCH),
    "scopes": Capability("ListScopes", Role.READER, Kind.SEARCH),
    "status": Capability("GetStatus", Role.READER, Kind.SEARCH),
    "failures": Capability("ListFailures", Role.READER, Kind.SEARCH, _own),
    "watch": Capability("WatchRun", Role.READER, Kind.STREAM),
    "sign_in": Capability("", Role.READER, Kind.SEARCH),
    "sign_in_link": Capability("", Role.READER, Kind.SEARCH),
    "register": Capability("", Role.INDEXER, Kind.WRITE, _registered),
    "start": Capability("StartRun", Role.INDEXER, Kind.WRITE, _registered),
    "cancel": Capability("CancelRun", Role.INDEXER, Kind.WRITE),
    "retry_failures": Capability("RetryFailures", Role.INDEXER, Kind.WRITE, _first),
    "enrich": Capability("EnrichRepository", Role.INDEXER, Kind.WRITE, _first),
    "set_default": Capability("SetDefaultRef", Role.INDEXER, Kind.WRITE, _first),
    "remove": Capability("RemoveRepository", Role.ADMIN, Kind.WRITE, _first),
    "label": Capability("SetLabel", Role.ADMIN, Kind.WRITE, _first),
    "create_key": Capability(
        "CreateKey", Role.ADMIN, Kind.WRITE, lambda asked: tuple(asked.repositories)
    ),
    "list_keys": Capability("ListKeys", Role.ADMIN, Kind.SEARCH),
    "revoke_key": Capability("RevokeKey", Role.ADMIN, Kind.WRITE),
    "permissions": Capability("ListPermissions", Role.ADMIN, Kind.SEARCH),
    "sync_permissions": Capability("SyncPermissions", Role.ADMIN, Kind.WRITE),
    "sources": Capability("ListSources", Role.ADMIN, Kind.SEARCH),
    "sync_sources": Capability("SyncSources", Role.ADMIN, Kind.WRITE),
    "deliver": Capability("", Role.READER, Kind.WRITE),  # of webhooks, only for code hosts
}

#: The service function of each call of an API.
FUNCTIONS: Mapping[str, str] = {one.call: name for name, one in CAPABILITIES.items() if one.call}


def permitted(
    function: Callable[Concatenate[D, Principal, P], T],
) -> Callable[Concatenate[D, Principal, P], T]:
    """Decorate a service function to raise Denied for a principal that lacks its role.

    The repositories that the request names are added to the audit record first.
    """
    name = function.__name__
    named = CAPABILITIES[name].named

    @wraps(function)
    def call(dependencies: D, principal: Principal, /, *args: P.args, **kwargs: P.kwargs) -> T:
        audit.involve(filter(None, named(*args, **kwargs)))
        require(principal, name)
        return function(dependencies, principal, *args, **kwargs)

    return call


def may(principal: Principal, function: str) -> bool:
    """Return whether the role of the principal allows the service function."""
    return principal.role.includes(CAPABILITIES[function].role)


def require(principal: Principal, function: str, *, what: str = "this") -> None:
    """Raise Denied, with the remedy, unless the principal may call the service function.

    `what`: a phrase for what requires the role; each face has another name for the function.
    """
    needed = CAPABILITIES[function].role
    if not may(principal, function):
        raise Denied(
            f"{what} requires the role {needed}, and {principal.name} has the role "
            f"{principal.role}; ask an admin to do it, or for a key with that role "
            f"(`codelode keys create NAME --role {needed}`)"
        )
