"""Define the nodes and links of graph answers."""

from __future__ import annotations

from dataclasses import dataclass

from codelode.model import LocatedSymbol, RepositoryName
from codelode.name_resolution import Confidence


@dataclass(frozen=True, slots=True)
class GraphNode:
    """A file, a symbol in a file, a package, a whole repository, or an external name."""

    repository: RepositoryName  # empty: external
    path: str = ""  # of a package: its folder; empty for a whole repository
    symbol: str = ""  # qualified name; for an external name, as it is imported
    line: int = 0  # 1-based; 0 for a file


@dataclass(frozen=True, slots=True)
class Link:
    """A dependency, from the dependent node to the node that it depends on."""

    relation: str
    source: GraphNode
    target: GraphNode
    depth: int  # steps from the subject, 1-based
    confidence: Confidence
    files: int = 0  # between repositories: number of files that import from the target


def node_of(located: LocatedSymbol) -> GraphNode:
    """Return the node of a symbol."""
    symbol = located.symbol
    return GraphNode(located.repository, located.path, symbol.qualified_name, symbol.start_line)
