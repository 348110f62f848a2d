"""The repositories and files that appear in the tables in Redis, for comparison with the ledger.

A scan of all keys finds the repositories; their files are read from the tables of each.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import cast
from urllib.parse import unquote_to_bytes

import redis

from codelode.backends.redis import keys
from codelode.backends.redis.connection import translated
from codelode.model import RepositoryName, RunId

#: Keys per SCAN step, and per removal.
_STEP = 5_000

#: The first byte of a graph node that is a file.
_FILE = b"f"


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
            for packed in self._fields(f"{self._prefix}packages:{{all}}:of"):
                found[RepositoryName(keys.decode(packed))].add("packages")
        return {name: frozenset(tables) for name, tables in found.items()}

    def paths(self, repository: RepositoryName) -> frozenset[str]:
        """Return the files in the tables of a repository; some tables keep deleted files."""
        tables = ("symbols", "references", "graph")
        symbols, references, graph = (self._table(table, repository) for table in tables)
        with translated():
            files = {*self._fields(f"{symbols}:id"), *self._fields(f"{references}:id")}
            nodes = self._fields(f"{graph}:id")
            files |= {node[1:] for node in nodes if node.startswith(_FILE)}
        return frozenset(map(keys.decode, files))

    def defining(self, repository: RepositoryName) -> frozenset[str]:
        """Return the files of which the symbol table has definitions."""
        with translated():
            fields = self._fields(f"{self._table('symbols', repository)}:id")
            return frozenset(map(keys.decode, fields))

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

    def _fields(self, key: str) -> Iterator[bytes]:
        for field, _ in cast(
            "Iterator[tuple[bytes, bytes]]", self._client.hscan_iter(key, count=_STEP)
        ):
            yield field

    def _table(self, name: str, repository: RepositoryName) -> str:
        return keys.of_repository(self._prefix, name, repository)
