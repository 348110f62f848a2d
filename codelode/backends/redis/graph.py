"""The dependency graph in Redis: packed adjacency lists in both directions.

Paths are mapped to integer ids per repository, and the edges of a node are one packed value in a
hash of 128 nodes. This takes 13 bytes per edge for both directions (`tests/bench/graph.py`), a
fifteenth of what sets of paths take. One script replaces the edges of a file.

The edges out of a file have a version for each set of refs at which they are the same, so that
another ref costs two bytes per file where nothing differs. The edges into a file are stored once
for all refs; a reader checks in the versions of each source which of them are at its ref.

A read takes two round trips for any number of paths, or three if more edges into a path than the
limit are at other refs. A script returns the packed edges of all paths; then plain commands look up
the ids, because a script that did this for a file with 20,000 importers would block all other
clients. This is safe because a path keeps its id until its repository is removed, at the cost of
about 200 bytes for each deleted path. A read that the removal of the repository interrupts is
repeated.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from codelode.backends.redis import keys, versions
from codelode.backends.redis.connection import translated
from codelode.errors import Corrupt, Unavailable
from codelode.graph import outgoing_edges
from codelode.model import Edge, EdgeKind, RefName, RepositoryName

#: The stored byte of each kind. Never renumber them: existing graphs contain these values.
KIND_CODES = {
    EdgeKind.IMPORTS: 0,
    EdgeKind.TESTS: 3,
}
_KINDS = {code: kind for kind, code in KIND_CODES.items()}

#: Attempts of a read that the removal of the repository interrupts.
READ_ATTEMPTS = 5

_PACKED = np.dtype([("id", "<u4"), ("kind", "u1")])

# As in graph.lua: the first byte of a node, and the two directions.
_FILE, _EXTERNAL = b"f", b"x"
_OUT, _IN = b"o", b"i"
BUCKET_NODES = 128

_Packed = npt.NDArray[Any]  # (edges,) of _PACKED
_End = tuple[str, EdgeKind, bool]  # the far end of an edge: name, kind, whether it is external


@dataclass(frozen=True, slots=True)
class _Lists:
    """The reply of the first script: the packed edges of each path, and the number of the ref."""

    births: frozenset[bytes]  # creation times of the graph, as seen by each batch
    ref: bytes  # empty: the graph has nothing of the ref
    packed: Sequence[bytes]


@dataclass(slots=True)
class _Nodes:
    """The replies to the later commands: the nodes of ids, and their outgoing edges."""

    births: set[bytes] = field(default_factory=set)
    names: dict[int, bytes | None] = field(default_factory=dict)
    outgoing: dict[int, bytes | None] = field(default_factory=dict)  # versions


class RedisGraph(versions.VersionedTable):
    """Implements the port DependencyGraph."""

    NAME = "graph"

    def replace(
        self,
        repository: RepositoryName,
        refs: Sequence[RefName],
        edges: Mapping[str, Sequence[Edge]],
    ) -> None:
        self._write(repository, refs, (_arguments(path, some) for path, some in edges.items()))

    def outgoing(
        self,
        repository: RepositoryName,
        ref: RefName,
        paths: Sequence[str],
        *,
        limit_per_path: int | None = None,
    ) -> Mapping[str, tuple[Edge, ...]]:
        def resolve(lists: _Lists, nodes: _Nodes) -> list[_Packed]:
            found = [_unpack(_version_at(raw, lists.ref))[:limit_per_path] for raw in lists.packed]
            self._load(nodes, base, _distinct_ids(found))
            return found

        base = self._base(repository)
        ends = self._consistently(base, ref, paths, _OUT, resolve)
        return {
            path: tuple(Edge(path, *end) for end in some)
            for path, some in zip(paths, ends, strict=True)
        }

    def incoming(
        self,
        repository: RepositoryName,
        ref: RefName,
        paths: Sequence[str],
        *,
        limit_per_path: int | None = None,
    ) -> Mapping[str, tuple[Edge, ...]]:
        base = self._base(repository)
        resolve = partial(self._into, base, limit_per_path)
        ends = self._consistently(base, ref, paths, _IN, resolve)
        return {
            path: tuple(Edge(source, path, kind) for source, kind, _ in some)
            for path, some in zip(paths, ends, strict=True)
        }

    def _into(self, base: str, limit: int | None, lists: _Lists, nodes: _Nodes) -> list[_Packed]:
        """Return the edges into each path at the ref, at most `limit` of each."""
        into = [(raw[:4], _unpack(raw[4:])) for raw in lists.packed]
        self._load(nodes, base, _distinct_ids([e[:limit] for _, e in into]), with_outgoing=True)
        found = [_at_ref(target, edges[:limit], lists.ref, nodes) for target, edges in into]
        if limit is None:
            return found
        short = [n for n, (_, edges) in enumerate(into) if len(found[n]) < limit < len(edges)]
        if short:  # some of the first edges are at other refs
            ids = _distinct_ids([into[n][1][limit:] for n in short])
            self._load(nodes, base, ids, with_outgoing=True)
        for n in short:
            found[n] = _at_ref(*into[n], lists.ref, nodes)[:limit]
        return found

    def _consistently(
        self,
        base: str,
        ref: RefName,
        paths: Sequence[str],
        side: bytes,
        resolve: Callable[[_Lists, _Nodes], list[_Packed]],
    ) -> list[list[_End]]:
        """Read edges and their nodes, again if the repository was removed meanwhile."""
        for _ in range(READ_ATTEMPTS):
            lists, nodes = self._lists(base, ref, paths, side), _Nodes()
            found = resolve(lists, nodes)
            if len(lists.births | nodes.births) <= 1:
                return [_ends(packed, nodes.names) for packed in found]
        raise Unavailable("the graph of a repository is being removed; try again")

    def _lists(self, base: str, ref: RefName, paths: Sequence[str], side: bytes) -> _Lists:
        asked = keys.encode(ref)
        calls = [(base, [side, asked, *map(_file, some)]) for some in versions.batches(paths)]
        with translated():
            replies = self._scripts["read"](calls)
        return _Lists(
            frozenset(born for born, *_ in replies),
            next((number for _, number, *_ in replies if number), b""),
            [raw for _, _, *raws in replies for raw in raws],
        )

    def _load(
        self, nodes: _Nodes, base: str, ids: Sequence[int], *, with_outgoing: bool = False
    ) -> None:
        """Read the nodes of the ids, and then the creation time of the graph."""
        pipe = self._client.pipeline(transaction=False)
        for some in versions.batches(ids):
            pipe.hmget(f"{base}:name", cast("list[str]", some))
        buckets = _buckets(ids) if with_outgoing else {}
        for number, inside in buckets.items():
            pipe.hmget(f"{base}:o:{number}", cast("list[str]", inside))
        pipe.hget(f"{base}:meta", "born")
        with translated():
            *replies, born = pipe.execute()
        values = [value for reply in replies for value in reply]
        nodes.births.add(born or b"")
        nodes.names.update(zip(ids, values, strict=False))
        bucketed = [id_ for inside in buckets.values() for id_ in inside]
        nodes.outgoing.update(zip(bucketed, values[len(ids) :], strict=True))


def _buckets(ids: Sequence[int]) -> dict[int, list[int]]:
    found: defaultdict[int, list[int]] = defaultdict(list)
    for id_ in ids:
        found[id_ // BUCKET_NODES].append(id_)
    return found


def versions_of(raw: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Yield the refs and the packed edges of each version of the edges out of a file."""
    at = 0
    while at < len(raw):
        members, at = versions.members(raw, at)
        length = int.from_bytes(raw[at : at + 4], "little")
        at += 4 + length
        yield members, raw[at - length : at]


def _version_at(raw: bytes, ref: bytes) -> bytes:
    """Return the packed edges of the version that the ref has; empty if it has none."""
    return next((edges for members, edges in versions_of(raw) if versions.has(members, ref)), b"")


def _at_ref(target: bytes, packed: _Packed, ref: bytes, nodes: _Nodes) -> _Packed:
    """Return the edges into the target whose sources have them at the ref."""
    kept = [
        _has(_version_at(nodes.outgoing[id_] or b"", ref), target + bytes((code,)))
        for id_, code in packed.tolist()
    ]
    return cast("_Packed", packed[np.array(kept, dtype=bool)])


def _has(packed: bytes, entry: bytes) -> bool:
    at = packed.find(entry)
    while at % len(entry) and at >= 0:
        at = packed.find(entry, at + 1)
    return at >= 0


def _arguments(path: str, edges: Sequence[Edge]) -> list[bytes]:
    arguments = [_file(path)]
    for edge in outgoing_edges(path, edges):
        arguments += _target(edge), bytes((KIND_CODES[edge.kind],))
    return arguments


def _file(path: str) -> bytes:
    return _FILE + keys.encode(path)


def _target(edge: Edge) -> bytes:
    return (_EXTERNAL if edge.is_external else _FILE) + keys.encode(edge.target)


def _unpack(raw: bytes) -> _Packed:
    if len(raw) % _PACKED.itemsize:
        raise Corrupt(
            "a list of edges in Redis is truncated; remove and index the repository again"
        )
    return np.frombuffer(raw, dtype=_PACKED)


def _distinct_ids(lists: Sequence[_Packed]) -> list[int]:
    if not lists:
        return []
    return cast("list[int]", np.unique(np.concatenate([packed["id"] for packed in lists])).tolist())


def _ends(packed: _Packed, nodes: Mapping[int, bytes | None]) -> list[_End]:
    """Return the far ends of edges, in the order of `codelode.graph.in_order`."""
    return sorted(_end(nodes[id_], code) for id_, code in packed.tolist())


def _end(node: bytes | None, code: int) -> _End:
    if node is None:
        raise Corrupt(
            "an edge in Redis ends at an unknown node; remove and index the repository again"
        )
    return keys.decode(node[1:]), _kind(code), node[:1] == _EXTERNAL


def _kind(code: int) -> EdgeKind:
    if code not in _KINDS:
        raise Corrupt(
            f"Redis holds an edge of unknown kind {code}, perhaps written by a newer version of "
            "codelode; use that version, or remove and index the repository again"
        )
    return _KINDS[code]
