"""Find the repositories that a request names, for the audit record of a call however it ends."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from typing import Any

from codelode.addresses import default_name
from codelode.errors import InvalidQuery

#: What comes before the host of a URL: `https://user:password@host/path`, `git@host:path`.
_CREDENTIALS = re.compile(r"^(\w+://)?.*@", re.DOTALL)

#: The repositories in the request of each service function; the other functions name none.
_IN_REQUEST: Mapping[str, Callable[[Any], Iterable[str]]] = {
    "search": lambda request: _filtered(request),
    "context": lambda request: _filtered(request.search),
    "similar": lambda request: (request.repository, *_filtered(request)),
    "explain": lambda request: (request.repository,),
    "graph": lambda request: (request.repository,),
    "failures": lambda request: (request.repository,),
    "start": lambda request: (request.name or _default_name(request.url),),
    "remove": lambda request: (request.name,),
    "set_default": lambda request: (request.repository,),
    "retry_failures": lambda request: (request.repository,),
    "enrich": lambda request: (request.repository,),
    "label": lambda request: (request.repository,),
    "create_key": lambda request: request.repositories,
}


def repositories_in(request: Any, function: str) -> tuple[str, ...]:
    """Return the names and globs of repositories, as the caller wrote them."""
    return tuple(filter(None, _IN_REQUEST.get(function, lambda _: ())(request)))


def _filtered(request: Any) -> Iterable[str]:
    return (name for name in request.filters.repositories if not name.startswith("!"))


def _default_name(url: str) -> str:
    """Return the name that the URL gives a repository, made without a user and a password in it."""
    with suppress(InvalidQuery):
        return default_name(_CREDENTIALS.sub(r"\1", url))
    return ""
