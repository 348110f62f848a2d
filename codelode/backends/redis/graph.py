"""The dependency graph in Redis: packed adjacency lists in both directions.

Paths are mapped to integer ids per repository, and the edges of a node are one packed value in a
hash of 128 nodes. This takes 13 bytes per edge for both directions (`tests/bench/graph.py`), a
fifteenth of sets of paths. One script replaces the edges of a file.

A read takes two round trips for any number of paths. A script returns the packed edges of all of
them; then plain commands look up the ids, because a script that did this for a file with 20,000
importers would block all other clients. This is safe because a path keeps its id until its
repository is removed, at the cost of about 200 bytes for each deleted path. A read that the removal
of the repository interrupts is repeated.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeVar, cast

import numpy as np
import numpy.typing as npt
import redis

from codelode.backends.redis import keys, scripts
from codelode.backends.redis.connection import translated
from codelode.errors import Corrupt, Unavailable
from codelode.graph import outgoing_edges
from codelode.model import Edge, EdgeKind, RepositoryName

#: The stored byte of each kind. Never renumber them: existing graphs contain these values.
KIND_CODES = {
    EdgeKind.IMPORTS: 0,
    EdgeKind.TESTS: 3,
}
_KINDS = {code: kind for kind, code in KIND_CODES.items()}

#: Values per command, so that no command blocks the server for more than about 1 ms.
BATCH = 1000

#: Attempts of a read that the removal of the repository interrupts.
READ_ATTEMPTS = 5

_PACKED = np.dtype([("id", "<u4"), ("kind", "u1")])

# As in graph.lua: the first byte of a node, and the two directions.
_FILE, _EXTERNAL = b"f", b"x"
_OUT, _IN = b"o", b"i"

_Packed = npt.NDArray[Any]  # (edges,) of _PACKED
_End = tuple[str, EdgeKind, bool]  # the far end of an edge: name, kind, whether it is external

T = TypeVar("T")


class RedisGraph:
    """Implements the port DependencyGraph."""

    def __init__(self, client: redis.Redis, *, prefix: str = "codelode:") -> None:
        self._client = client
        self._prefix = prefix
        sources = scripts.load("graph.lua", after=("packed.lua",))
        self._read = scripts.Bulk(client, sources["read"])
        self._replace = scripts.Bulk(client, sources["replace"])
        self._clear = client.register_script(sources["clear"])

    def replace(self, repository: RepositoryName, edges: Mapping[str, Sequence[Edge]]) -> None:
        base = self._base(repository)
        calls = [(base, _arguments(path, starting)) for path, starting in edges.items()]
        with translated():
            self._replace(calls)

    def outgoing(
        self, repository: RepositoryName, paths: Sequence[str], *, limit_per_path: int | None = None
    ) -> Mapping[str, tuple[Edge, ...]]:
        return {
            path: tuple(Edge(path, *end) for end in ends)
            for path, ends in self._ends(repository, paths, _OUT, limit_per_path).items()
        }

    def incoming(
        self, repository: RepositoryName, paths: Sequence[str], *, limit_per_path: int | None = None
    ) -> Mapping[str, tuple[Edge, ...]]:
        return {
            path: tuple(Edge(source, path, kind) for source, kind, _ in ends)
            for path, ends in self._ends(repository, paths, _IN, limit_per_path).items()
        }

    def remove_repository(self, repository: RepositoryName) -> None:
        with translated():
            self._clear(keys=[self._base(repository)])

    def _base(self, repository: RepositoryName) -> str:
        return keys.of_repository(self._prefix, "graph", repository)

    def _ends(
        self,
        repository: RepositoryName,
        paths: Sequence[str],
        side: bytes,
        limit_per_path: int | None,
    ) -> dict[str, list[_End]]:
        base = self._base(repository)
        for _ in range(READ_ATTEMPTS):
            births, lists = self._packed(base, paths, side)
            lists = [packed[:limit_per_path] for packed in lists]
            birth, nodes = self._nodes(base, _distinct_ids(lists))
            if births <= {birth}:
                return {
                    path: _ends(packed, nodes) for path, packed in zip(paths, lists, strict=True)
                }
        raise Unavailable(f"the graph of {repository} is being removed; try again")

    def _packed(
        self, base: str, paths: Sequence[str], side: bytes
    ) -> tuple[set[bytes], list[_Packed]]:
        """Return the creation time of the graph, as seen by each batch, and the edges per path."""
        calls = [(base, [side, *map(_file, batch)]) for batch in _batches(paths)]
        with translated():
            replies = self._read(calls)
        return {born for born, *_ in replies}, [
            _unpack(raw) for _, *raws in replies for raw in raws
        ]

    def _nodes(self, base: str, ids: Sequence[int]) -> tuple[bytes, dict[int, bytes | None]]:
        """Return the creation time of the graph, read last, and the node of each id."""
        pipe = self._client.pipeline(transaction=False)
        for batch in _batches(ids):
            pipe.hmget(f"{base}:name", cast("list[str]", batch))
        pipe.hget(f"{base}:meta", "born")
        with translated():
            *names, born = pipe.execute()
        return born or b"", dict(zip(ids, (name for batch in names for name in batch), strict=True))


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


def _batches(values: Sequence[T]) -> Iterator[Sequence[T]]:
    for start in range(0, len(values), BATCH):
        yield values[start : start + BATCH]
