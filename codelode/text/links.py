"""Write edges, and what surrounds the hits of a search, as lines."""

from __future__ import annotations

from typing import TYPE_CHECKING

from codelode.counts import counted
from codelode.display import quoted

if TYPE_CHECKING:
    from codelode.client import GraphLink, GraphNode, ImportLink, SearchResult


def around(result: SearchResult) -> str:
    """Return related files, import chains, and duplicates, one per line; empty without any."""
    lines = [
        *(
            f"related  {quoted(one.path)} ({one.relation} {quoted(one.of)})"
            for one in result.related
        ),
        *(f"import   {'  ' * (one.depth - 1)}{_link(one)}" for one in result.imports),
        *(
            f"duplicate {quoted(one.path)}:{one.start_line} of hit {one.of_rank}"
            for one in result.duplicates
        ),
    ]
    return "\n".join(lines)


def _link(link: ImportLink) -> str:
    mark = "" if link.mark == "internal" else f" ({link.mark})"
    return f"{quoted(link.path)} → {quoted(link.target)}{mark}"


def link_ends(link: GraphLink, home: str) -> str:
    """Return `source → target` of an edge, or the target alone if it is what the source defines."""
    source, target = _node(link.source, home), _node(link.target, home)
    files = f" ({counted(link.files, 'file')})" if link.files else ""
    return target if link.relation == "definitions" else f"{source} → {target}{files}"


def _node(node: GraphNode, home: str) -> str:
    """Return `src/a.py:12 Client.get`, after the repository's name if it is not `home`."""
    if not node.repository:
        return f"{quoted(node.symbol)} (external)"
    if not (node.path or node.symbol):
        return quoted(node.repository)
    at = f"{quoted(node.path)}:{node.line}" if node.line else quoted(node.path)
    where = () if node.repository == home else (quoted(node.repository),)
    return " ".join(filter(None, (*where, at, quoted(node.symbol))))
