"""Nodes and edges of the dependency graph, read from the messages of GraphService."""

from __future__ import annotations

from dataclasses import dataclass

from codelode.client.results import Coverage


@dataclass(frozen=True, slots=True)
class GraphNode:
    """A file, a symbol, a package, a repository, or an imported name that no repository has."""

    repository: str  # empty: none has it
    path: str = ""  # of a package: its folder; empty for a whole repository
    symbol: str = ""  # qualified name; without a repository, the name as it is imported
    line: int = 0  # 1-based; 0 for a file


@dataclass(frozen=True, slots=True)
class GraphLink:
    """One edge, from the dependent node to its dependency."""

    relation: str  # imports, importers, calls, callers, …
    source: GraphNode
    target: GraphNode
    depth: int  # steps from the subject, from 1 on
    confidence: str  # exact, imported or name
    files: int = 0  # between repositories: how many files of the source import from the target


@dataclass(frozen=True, slots=True)
class Graph:
    """The neighbourhood of a subject: grouped by relation, nearest first."""

    subject_kind: str  # file, symbol, or repository
    repository: str
    links: tuple[GraphLink, ...]
    notices: tuple[str, ...] = ()  # what was cut or is not configured
    coverage: tuple[Coverage, ...] = ()
