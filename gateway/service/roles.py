"""Say which role each service function requires, and refuse callers that lack it.

This is the only place that compares roles, for all faces. docs/security.md shows the table.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import wraps
from typing import Concatenate, ParamSpec, TypeVar

from codelode.access import Principal, Role
from codelode.errors import Denied
from gateway.service.dependencies import Dependencies

P = ParamSpec("P")
T = TypeVar("T")

#: The least role for each function of `gateway.service`; functions that lack a row cannot be
#: decorated with `permitted`.
ROLES: Mapping[str, Role] = {
    "search": Role.READER,
    "context": Role.READER,
    "similar": Role.READER,
    "explain": Role.READER,
    "graph": Role.READER,
    "repositories": Role.READER,
    "status": Role.READER,
    "failures": Role.READER,
    "watch": Role.READER,
    "register": Role.INDEXER,
    "start": Role.INDEXER,
    "cancel": Role.INDEXER,
    "retry_failures": Role.INDEXER,
    "enrich": Role.INDEXER,
    "set_default": Role.INDEXER,
    "remove": Role.ADMIN,
    "label": Role.ADMIN,
    "create_key": Role.ADMIN,
    "list_keys": Role.ADMIN,
    "revoke_key": Role.ADMIN,
    "permissions": Role.ADMIN,
    "sync_permissions": Role.ADMIN,
}


def permitted(
    function: Callable[Concatenate[Dependencies, Principal, P], T],
) -> Callable[Concatenate[Dependencies, Principal, P], T]:
    """Decorate a service function: raise Denied for a principal that lacks its role in ROLES."""
    name = function.__name__
    needed = ROLES[name]

    @wraps(function)
    def call(
        dependencies: Dependencies, principal: Principal, /, *args: P.args, **kwargs: P.kwargs
    ) -> T:
        require(principal, needed, what=name)
        return function(dependencies, principal, *args, **kwargs)

    return call


def require(principal: Principal, needed: Role, *, what: str) -> None:
    """Raise Denied, which names the remedy, unless the principal has the role."""
    if not principal.role.includes(needed):
        raise Denied(
            f"{what!r} requires the role {needed}, and {principal.name} has the role "
            f"{principal.role}; ask an admin to do it, or for a key with that role "
            f"(`codelode keys create NAME --role {needed}`)"
        )
