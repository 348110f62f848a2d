"""Provide the capabilities of the product as async functions on plain values.

Each function takes the dependencies, the principal on whose behalf it reads, and the request of a
caller (`requests`); it returns an answer (`results`) or raises a CodelodeError. Checks and limits,
visibility, caching, coverage, paging, notices, and the fields of the log line are applied here,
once for all faces.
"""

from gateway.service.dependencies import Dependencies
from gateway.service.files import files, read
from gateway.service.grep import grep
from gateway.service.keys import create_key, list_keys, revoke_key, sign_in, sign_in_link
from gateway.service.maps import chunk_map, make_map, map_places
from gateway.service.names import references, symbols
from gateway.service.permissions import permissions, sync_permissions
from gateway.service.repositories import label, register, remove, repositories
from gateway.service.runs import cancel, enrich, retry_failures, set_default, start, watch
from gateway.service.scopes import scopes
from gateway.service.search import context, search, similar
from gateway.service.sources import sources, sync_sources
from gateway.service.status import failures, status
from gateway.service.subjects import explain, graph
from gateway.service.webhooks import deliver

__all__ = [
    "Dependencies",
    "cancel",
    "chunk_map",
    "context",
    "create_key",
    "deliver",
    "enrich",
    "explain",
    "failures",
    "files",
    "graph",
    "grep",
    "label",
    "list_keys",
    "make_map",
    "map_places",
    "permissions",
    "read",
    "references",
    "register",
    "remove",
    "repositories",
    "retry_failures",
    "revoke_key",
    "scopes",
    "search",
    "set_default",
    "sign_in",
    "sign_in_link",
    "similar",
    "sources",
    "start",
    "status",
    "symbols",
    "sync_permissions",
    "sync_sources",
    "watch",
]
