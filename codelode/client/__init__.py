"""The Python client of a codelode gateway: search, index, and see how indexing goes.

    with Client("127.0.0.1:50051") as client:
        for hit in client.search("retry with back-off", repositories=["acme/http"]):
            print(f"{hit.path}:{hit.start_line}-{hit.end_line}", hit.symbol)

Every failure is one of `codelode.errors`; no gRPC type leaves this package. A search is sent once
and fails at once when nobody answers, but `watch` outlives a gateway that restarts: a run goes on
in the workers whether or not somebody looks.
"""

from codelode.client.connection import DEFAULT_ADDRESS, Client
from codelode.client.graph import Graph, GraphLink, GraphPlace
from codelode.client.overview import FileFailure, IndexedRepository, Queue, Status
from codelode.client.results import (
    About,
    Context,
    Coverage,
    Definition,
    Duplicate,
    Entity,
    FoundFile,
    Hit,
    ImportLink,
    Passage,
    Related,
    SearchResult,
)

__all__ = [
    "DEFAULT_ADDRESS",
    "About",
    "Client",
    "Context",
    "Coverage",
    "Definition",
    "Duplicate",
    "Entity",
    "FileFailure",
    "FoundFile",
    "Graph",
    "GraphLink",
    "GraphPlace",
    "Hit",
    "ImportLink",
    "IndexedRepository",
    "Passage",
    "Queue",
    "Related",
    "SearchResult",
    "Status",
]
