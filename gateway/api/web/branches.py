"""Nest the links of a graph: below each node are the nodes to which its links lead."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from codelode.counts import counted
from gateway.api.web.links import code_url, link
from gateway.expand.links import GraphNode, Link
from gateway.service.results import GraphAnswer

_TITLES = {
    "imports": "Imports",
    "calls": "Calls",
    "inherits": "Inherits from",
    "tests": "Tests",
    "cross_repository": "In other repositories",
    "importers": "Imported by",
    "callers": "Called by",
    "subclasses": "Inherited by",
}


@dataclass(frozen=True, slots=True)
class Node:
    """A node, with the URLs of its pages."""

    id: str
    label: str
    repository: str  # empty: external
    path: str
    symbol: str
    line: int
    is_home: bool  # whether it is in the repository of the subject
    is_repository: bool  # whether it is a whole repository
    code_url: str  # empty: it is not indexed
    graph_url: str


@dataclass(frozen=True, slots=True)
class Branch:
    """A node to which links lead, and the branches of its own links."""

    node: Node
    relation: str
    confidence: str
    by: tuple[str, ...]  # the definitions of the subject at which the links begin or end
    files: int  # between repositories: number of files that import
    inside: tuple[Branch, ...]


@dataclass(frozen=True, slots=True)
class Relation:
    """The branches of one relation."""

    title: str
    branches: tuple[Branch, ...]


@dataclass(frozen=True, slots=True)
class Side:
    """One direction: the dependencies of the subject, or its users."""

    id: str
    title: str
    empty: str
    relations: tuple[Relation, ...]
    reach: str  # files and repositories that the links reach; empty: none


def sides(forward: GraphAnswer, backward: GraphAnswer, subject: str, ref: str) -> tuple[Side, ...]:
    """Return both directions. Both answers have all links of tests; a side shows only its own."""
    paths = {subject} | {one.target.path for one in forward.links if one.relation == "definitions"}
    out = [one for one in forward.links if one.relation != "tests" or one.source.path in paths]
    into = [one for one in backward.links if one.relation != "tests" or one.target.path in paths]
    home = forward.repository
    return (
        Side(
            "depends",
            "Depends on",
            "It depends on nothing that is known.",
            _relations(out, home, ref, is_reverse=False),
            _reach(one.target for one in out),
        ),
        Side(
            "used",
            "Used by",
            "Nothing that you see depends on it.",
            _relations(into, home, ref, is_reverse=True),
            _reach(one.source for one in into),
        ),
    )


def _reach(ends: Iterable[GraphNode]) -> str:
    known = [one for one in ends if one.repository]
    files = {(one.repository, one.path) for one in known if one.path}
    repositories = counted(len({one.repository for one in known}), "repository")
    if files:
        return f"{counted(len(files), 'file')} in {repositories}"
    return repositories if known else ""


def node(at: GraphNode, home: str, ref: str) -> Node:
    """Return the node; `home` is the repository that has the ref."""
    is_home = at.repository == home
    place = {"repository": at.repository, "ref": ref if is_home else ""}
    lines = (at.line, at.line) if at.line else None
    is_file = bool(at.repository and at.path)
    is_repository = bool(at.repository) and not (at.path or at.symbol)
    subject = {"symbol": at.symbol} if at.symbol else {"path": at.path}
    return Node(
        id="\n".join((at.repository, at.path, at.symbol)),
        label=at.symbol or at.path.rpartition("/")[2] or at.repository,
        repository=at.repository,
        path=at.path,
        symbol=at.symbol,
        line=at.line,
        is_home=is_home,
        is_repository=is_repository,
        code_url=code_url(at.repository, at.path, place["ref"], lines)
        if is_file
        else link("/code", **place)
        if is_repository
        else "",
        graph_url=link("/graph", **place, **subject) if is_file or is_repository else "",
    )


def _relations(
    links: Iterable[Link], home: str, ref: str, *, is_reverse: bool
) -> tuple[Relation, ...]:
    by_relation: dict[str, list[Link]] = defaultdict(list)
    for one in links:
        if one.relation != "definitions":
            by_relation[one.relation].append(one)
    made = []
    for relation, found in by_relation.items():
        title = "Tested by" if is_reverse and relation == "tests" else _TITLES[relation]
        grown = _Nesting(_by_parent(found, is_reverse=is_reverse), home, ref, is_reverse)
        made.append(Relation(title, grown.branches([one for one in found if one.depth == 1])))
    return tuple(made)


def _by_parent(links: Iterable[Link], *, is_reverse: bool) -> Mapping[GraphNode, list[Link]]:
    found: dict[GraphNode, list[Link]] = defaultdict(list)
    for one in links:
        if one.depth > 1:
            found[one.target if is_reverse else one.source].append(one)
    return found


@dataclass(frozen=True, slots=True)
class _Nesting:
    """Nests links: below a link of depth `d` are the links of depth `d + 1` from its end.

    The depth increases with each level, so cycles are not nested without end.
    """

    by_parent: Mapping[GraphNode, list[Link]]
    home: str
    ref: str
    is_reverse: bool

    def branches(self, links: Iterable[Link]) -> tuple[Branch, ...]:
        ends: dict[GraphNode, list[Link]] = {}
        for one in links:
            ends.setdefault(one.source if self.is_reverse else one.target, []).append(one)
        return tuple(self._branch(end, found) for end, found in ends.items())

    def _branch(self, end: GraphNode, links: list[Link]) -> Branch:
        first = links[0]
        is_own = first.depth == 1 and first.relation != "cross_repository"
        own = (one.target.symbol if self.is_reverse else one.source.symbol for one in links)
        further = [one for one in self.by_parent.get(end, ()) if one.depth == first.depth + 1]
        return Branch(
            node(end, self.home, self.ref),
            first.relation,
            first.confidence,
            tuple(dict.fromkeys(filter(None, own))) if is_own else (),
            sum(one.files for one in links),
            self.branches(further),
        )
