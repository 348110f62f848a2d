"""List the repositories and files in the tables in Redis, for comparison with the ledger.

A scan of all keys finds the repositories; their files are read from the tables of each.
"""

from __future__ import annotations

import re
import struct
from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import cast
from urllib.parse import unquote_to_bytes

import redis

from codelode.backends.redis import graph, keys, versions
from codelode.backends.redis.connection import translated
from codelode.backends.redis.packages import repository_of
from codelode.model import RefName, RepositoryName, RunId

#: Keys per SCAN step, and per removal.
_STEP = 5_000

_IDS = struct.Struct("<I")


class RedisTableInventory:
    """Lists the contents of graph, symbol table, reference index, package index, stage outputs."""

    def __init__(self, client: redis.Redis, *, prefix: str = "codelode:") -> None:
        self._client = client
        self._prefix = prefix
        known = re.escape(prefix.encode())
        self._of_repository = re.compile(known + rb"(graph|symbols|references):\{(.*)\}:meta")
        self._of_run = re.compile(known + rb"handover:([^:]+):.*", re.DOTALL)

    def repositories(self) -> Mapping[RepositoryName, frozenset[str]]:
        """Return the repositories with data, each with the names of the tables that have some."""
        found: defaultdict[RepositoryName, set[str]] = defaultdict(set)
        with translated():
            for key in self._walk("*:meta"):
                if match := self._of_repository.fullmatch(key):
                    name = keys.decode(unquote_to_bytes(match[2]))
                    found[RepositoryName(name)].add(match[1].decode())
            for field in versions.fields(self._client, f"{self._prefix}packages:{{all}}:of"):
                found[repository_of(field)].add("packages")
        return {name: frozenset(tables) for name, tables in found.items()}

    def paths(self, repository: RepositoryName) -> Mapping[RefName, frozenset[str]]:
        """Return the files that the tables of a repository have at each ref."""
        found: defaultdict[RefName, set[str]] = defaultdict(set)
        with translated():
            for table, read in _RECORDS.items():
                base = self._table(table, repository)
                numbers = self._client.hgetall(f"{base}:ref")
                refs = {
                    versions.packed_number(number): RefName(keys.decode(ref))
                    for ref, number in cast("dict[bytes, bytes]", numbers).items()
                }
                for members, path in read(self._client, base):
                    for number in versions.numbers(members) & refs.keys():
                        found[refs[number]].add(path)
        return {ref: frozenset(files) for ref, files in found.items()}

    def stage_outputs(self) -> Mapping[RunId, tuple[bytes, ...]]:
        """Return the keys of the stage outputs of each run."""
        found: defaultdict[RunId, list[bytes]] = defaultdict(list)
        with translated():
            for key in self._walk("handover:*"):
                if match := self._of_run.fullmatch(key):
                    found[RunId(match[1].decode())].append(key)
        return {run: tuple(held) for run, held in found.items()}

    def drop(self, outputs: tuple[bytes, ...]) -> None:
        """Remove the stage outputs with these keys."""
        with translated():
            for start in range(0, len(outputs), _STEP):
                self._client.unlink(*outputs[start : start + _STEP])

    def _walk(self, pattern: str) -> Iterator[bytes]:
        yield from set(self._client.scan_iter(match=f"{self._prefix}{pattern}", count=_STEP))

    def _table(self, name: str, repository: RepositoryName) -> str:
        return keys.of_repository(self._prefix, name, repository)


_Records = Iterator[tuple[bytes, str]]  # numbers of refs, and a path that they have


def _graph_records(client: redis.Redis, base: str) -> _Records:
    nodes = {int(id_): node for id_, node in _items(client, f"{base}:name")}
    for bucket in {id_ // graph.BUCKET_NODES for id_ in nodes}:
        for id_, raw in _items(client, f"{base}:o:{bucket}"):
            path = keys.decode(nodes[int(id_)][1:])
            yield from ((members, path) for members, _ in graph.versions_of(raw))


def _symbol_records(client: redis.Redis, base: str) -> _Records:
    ids = (id_ for _, packed in _items(client, f"{base}:id") for (id_,) in _IDS.iter_unpack(packed))
    for some in versions.batches(ids):
        pipe = client.pipeline(transaction=False)
        for id_ in some:
            pipe.hget(f"{base}:file:{id_}", "/")
        yield from map(_record, filter(None, pipe.execute()))


def _reference_records(client: redis.Redis, base: str) -> _Records:
    return (_record(raw) for _, raw in _items(client, f"{base}:path"))


def _record(raw: bytes) -> tuple[bytes, str]:
    return versions.members(raw)[0], versions.path_of(raw)


def _items(client: redis.Redis, key: str) -> Iterator[tuple[bytes, bytes]]:
    return cast("Iterator[tuple[bytes, bytes]]", client.hscan_iter(key, count=_STEP))


_RECORDS = {
    "graph": _graph_records, "symbols": _symbol_records, "references": _reference_records,
}  # fmt: skip
