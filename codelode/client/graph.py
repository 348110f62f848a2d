"""Nodes and edges of the dependency graph, read from the messages of GraphService."""

from __future__ import annotations

from dataclasses import dataclass

from codelode.v1 import graph_pb2


@dataclass(frozen=True, slots=True)
class GraphPlace:
    """A file, a symbol in one, a package, or a name outside of all indexed repositories."""

    repository: str  # empty: outside
    path: str = ""  # of a package its folder
    symbol: str = ""  # qualified name; of what is outside, its name as it is imported
    line: int = 0  # 1-based; 0 for a file


@dataclass(frozen=True, slots=True)
class GraphLink:
    """One edge, from what depends to what it depends on."""

    relation: str  # imports, importers, calls, callers, …
    source: GraphPlace
    target: GraphPlace
    depth: int  # steps from the subject, from 1 on
    confidence: str  # exact, imported or name


@dataclass(frozen=True, slots=True)
class Graph:
    """The neighbourhood of a subject: grouped by relation, nearest first."""

    subject_kind: str  # file or symbol
    repository: str
    links: tuple[GraphLink, ...]
    notices: tuple[str, ...] = ()  # what was cut or is not configured


def graph(message: graph_pb2.GetGraphResponse) -> Graph:
    return Graph(
        subject_kind=message.subject_kind,
        repository=message.repository,
        links=tuple(map(_link, message.links)),
        notices=tuple(message.notices),
    )


def _link(message: graph_pb2.GraphLink) -> GraphLink:
    return GraphLink(
        relation=message.relation,
        source=_place(message.source),
        target=_place(message.target),
        depth=message.depth,
        confidence=message.confidence,
    )


def _place(message: graph_pb2.GraphPlace) -> GraphPlace:
    return GraphPlace(message.repository, message.path, message.symbol, message.line)
