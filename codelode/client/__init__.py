"""The Python client of a codelode gateway: search, index, and follow runs.

    with Client("127.0.0.1:50051") as client:
        for hit in client.search("retry with back-off", repositories=["acme/http"]):
            print(f"{hit.path}:{hit.start_line}-{hit.end_line}", hit.symbol)

    async with AsyncClient("127.0.0.1:50051") as client:
        result = await client.search("retry with back-off")

Both clients have the same methods with the same arguments. Every failure is one of
`codelode.errors`; no gRPC type leaves this package. A search is sent once and fails at once when
no gateway answers, but `watch` survives a restart of the gateway, because the run goes on in the
workers.

The package imports none of the server's libraries, and its names are loaded on first use: a
command that searches does not pay for the types of `status`.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from codelode.client.access import CreatedKey, Key
    from codelode.client.async_client import AsyncClient
    from codelode.client.channel import DEFAULT_ADDRESS, Tls
    from codelode.client.client import Client
    from codelode.client.graph import Graph, GraphLink, GraphNode
    from codelode.client.index import IndexedRepository, Status
    from codelode.client.results import (
        About,
        Context,
        Copy,
        Coverage,
        Definition,
        Duplicate,
        Entity,
        FileLines,
        Folder,
        FolderEntry,
        FoundFile,
        GrepSummary,
        Hit,
        ImportLink,
        Matches,
        MatchingFile,
        MatchingLine,
        MatchSpan,
        NamePlace,
        NameUse,
        Passage,
        ReferenceList,
        Related,
        Scope,
        SearchResult,
        SymbolList,
    )
    from codelode.reports import (
        ConnectionPermissions,
        FileFailure,
        Permissions,
        Queue,
        Server,
        Source,
        SourceChange,
        Sources,
    )

__all__ = [
    "DEFAULT_ADDRESS",
    "About",
    "AsyncClient",
    "Client",
    "ConnectionPermissions",
    "Context",
    "Copy",
    "Coverage",
    "CreatedKey",
    "Definition",
    "Duplicate",
    "Entity",
    "FileFailure",
    "FileLines",
    "Folder",
    "FolderEntry",
    "FoundFile",
    "Graph",
    "GraphLink",
    "GraphNode",
    "GrepSummary",
    "Hit",
    "ImportLink",
    "IndexedRepository",
    "Key",
    "MatchSpan",
    "Matches",
    "MatchingFile",
    "MatchingLine",
    "NamePlace",
    "NameUse",
    "Passage",
    "Permissions",
    "Queue",
    "ReferenceList",
    "Related",
    "Scope",
    "SearchResult",
    "Server",
    "Source",
    "SourceChange",
    "Sources",
    "Status",
    "SymbolList",
    "Tls",
]

#: The module of each name; those that are not listed are in `results`.
_MODULES = {
    "AsyncClient": "async_client",
    "Client": "client",
    **dict.fromkeys(("DEFAULT_ADDRESS", "Tls"), "channel"),
    **dict.fromkeys(("CreatedKey", "Key"), "access"),
    **dict.fromkeys(("Graph", "GraphLink", "GraphNode"), "graph"),
    **dict.fromkeys(("IndexedRepository", "Status"), "index"),
    **dict.fromkeys(("ConnectionPermissions", "FileFailure", "Permissions", "Queue"), ".reports"),
    **dict.fromkeys(("Server", "Source", "SourceChange", "Sources"), ".reports"),
}


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = import_module(f".{_MODULES.get(name, 'results')}", __name__)
    return globals().setdefault(name, getattr(module, name))
