"""Compare the clustered chunk store with the client library's own calls, on one server.

    . .services/env && python tests/bench/clustered_store.py --chunks 100000,500000

The corpus is that of store.py, searched at each of these sizes. Up to the first size, writing
alternates between `replace` and the library's batch, which writes the same objects, made
beforehand, into another tenant. Searching alternates between our search and the library's hybrid
query, so that both meet the same load of the machine. The library's query has the text, fields,
filters, weights, and limit of ours, and returns the properties that ours reads.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from functools import partial
from itertools import islice, pairwise
from pathlib import Path
from types import MappingProxyType
from typing import Any
from uuid import uuid4

import numpy as np
from store import CHUNKS_PER_FILE, DIM, IDENTITY, Corpus, Query, load, peak_mb, report
from weaviate.classes.query import HybridFusion, MetadataQuery

from codelode.access import EVERYTHING
from codelode.backends import words
from codelode.backends.weaviate import (
    Address,
    TenantIndex,
    WeaviateChunkSearch,
    WeaviateChunkStore,
    intent_log,
    versions,
)
from codelode.backends.weaviate.codec import DISPLAYED, NewObject, encode
from codelode.backends.weaviate.connection import connect, connect_async
from codelode.backends.weaviate.filters import condition
from codelode.backends.weaviate.schema import VECTOR, Version
from codelode.backends.weaviate.search import FIELDS
from codelode.covers import Groups
from codelode.model import FileChunks, Filters, HybridQuery, RepositoryName

LIMIT = 100
VERSION = Version(IDENTITY, DIM)

#: Number of files per call of `replace`, of calls per turn, and of queries drawn from each turn.
FILES_PER_CALL = 32
TURN = 8
ASKED = 8
WARM_UP = 10
MOST_ASKED = 300

#: The library's default weight of the vector half.
ALPHA = 0.7


class Filling:
    """Writes the corpus into our tenant, and into theirs while both are compared."""

    def __init__(
        self, address: Address, ours: TenantIndex, theirs: TenantIndex, chunks: int
    ) -> None:
        self._address, self._ours, self._theirs = address, ours, theirs
        self._corpus = Corpus()
        self._files = self._corpus.files(chunks)
        self._left: list[Query] = []

    def queries(self) -> list[Query]:
        """Return the queries drawn from what was written since the last call."""
        drawn, self._left = self._left, []
        return drawn

    def write(self, chunks: int, *, is_compared: bool) -> None:
        """Write this many more chunks."""
        store = WeaviateChunkStore(self._address, self._ours, dim=DIM, identity=IDENTITY)
        store.replace([])
        with connect(self._address) as client, closing(store):
            name = versions.require(client, self._ours, VERSION)
            versions.add_tenant(client, name, self._theirs)
            objects = client.collections.use(name).with_tenant(self._theirs.tenant)
            spent = dict.fromkeys(["ours", "theirs"] if is_compared else ["ours"], 0.0)
            for number, turn in enumerate(self._turns(chunks)):
                steps = {"ours": partial(_replace, store, turn)}
                if is_compared:
                    steps["theirs"] = partial(library_batch, objects, _objects(turn))
                for side in sorted(steps, reverse=bool(number % 2)):
                    spent[side] += _seconds(steps[side])
        rates = {side: chunks / seconds for side, seconds in spent.items()}
        report("replace, fresh files", f"{rates['ours']:.0f} chunks/s, load {load():.1f}")
        if is_compared:
            report("the library's batch", f"{rates['theirs']:.0f} chunks/s")
            report("ratio", f"{rates['ours'] / rates['theirs']:.2f}")

    def _turns(self, chunks: int) -> Iterator[list[FileChunks]]:
        files = islice(self._files, chunks // CHUNKS_PER_FILE)
        while turn := list(islice(files, TURN * FILES_PER_CALL)):
            every = max(1, len(turn) // ASKED)
            self._left += [self._corpus.query(*drawn) for drawn in turn[::every]]
            yield [file for file, _ in turn]


def _replace(store: WeaviateChunkStore, files: list[FileChunks]) -> None:
    for start in range(0, len(files), FILES_PER_CALL):
        store.replace(files[start : start + FILES_PER_CALL])


def _objects(
    files: list[FileChunks], groups: Mapping[RepositoryName, Groups] = MappingProxyType({})
) -> list[Any]:
    return [
        encode(NewObject.of(chunk, vector, file.refs, groups=groups.get(file.repository, ())))
        for file in files
        for chunk, vector in zip(file.chunks, file.vectors, strict=True)
    ]


def library_batch(objects: Any, prepared: Iterable[Any]) -> None:
    """Write many objects with their vectors by the library's own batch."""
    with objects.batch.fixed_size(batch_size=200, concurrent_requests=2) as sending:
        for made in prepared:
            sending.add_object(properties=made.properties, uuid=made.uuid, vector=made.vector)
    assert not objects.batch.failed_objects


async def search(address: Address, place: TenantIndex, queries: list[Query]) -> None:
    ours = WeaviateChunkSearch(address, place, dim=DIM, identity=IDENTITY)
    client = await connect_async(address)
    try:
        name = (await client.alias.get(alias_name=place.alias)).collection
        objects = client.collections.use(name).with_tenant(place.tenant)
        shapes: dict[str, Callable[[Query], Filters]] = {
            "hybrid": lambda _: Filters(),
            "hybrid, one repository": lambda query: Filters(repositories=(query.repository,)),
            "hybrid, path glob": lambda _: Filters(paths=("src/**/*_1*.py",)),
        }
        for shape, filters in shapes.items():
            await _side_by_side(shape, ours, objects, queries, filters)
    finally:
        await ours.close()
        await client.close()


async def _side_by_side(
    shape: str,
    ours: WeaviateChunkSearch,
    objects: Any,
    queries: list[Query],
    filters: Callable[[Query], Filters],
) -> None:
    times: dict[str, list[float]] = {"ours": [], "theirs": []}
    for query in queries[:WARM_UP]:
        await ours.hybrid(_hybrid(query, filters(query)))
        await their_hybrid(objects, query, filters(query))
    for query in queries[WARM_UP:]:
        within = filters(query)
        times["ours"].append(await _milliseconds(ours.hybrid(_hybrid(query, within))))
        times["theirs"].append(await _milliseconds(their_hybrid(objects, query, within)))
    p50 = {side: float(np.median(taken)) for side, taken in times.items()}
    p99 = {side: float(np.percentile(taken, 99)) for side, taken in times.items()}
    report(shape, f"p50 {p50['ours']:.1f} ms, p99 {p99['ours']:.1f} ms, load {load():.1f}")
    report("  the library's hybrid", f"p50 {p50['theirs']:.1f} ms, p99 {p99['theirs']:.1f} ms")
    report("  ratio of p50", f"{p50['ours'] / p50['theirs']:.2f}")


async def their_hybrid(objects: Any, query: Query, filters: Filters) -> Any:
    """Run the library's own hybrid query for the properties that ours reads."""
    return await objects.query.hybrid(
        " ".join(words.query_terms(query.text)),
        vector={VECTOR: query.vector.tolist()},  # because the library formats arrays slowly
        target_vector=VECTOR,
        alpha=ALPHA,
        fusion_type=HybridFusion.RELATIVE_SCORE,
        query_properties=FIELDS,
        filters=condition(filters),
        limit=LIMIT,
        return_metadata=MetadataQuery(score=True, explain_score=True),
        return_properties=DISPLAYED,
    )


def _hybrid(query: Query, filters: Filters) -> HybridQuery:
    return HybridQuery(query.text, query.vector, filters, LIMIT, alpha=ALPHA, visible=EVERYTHING)


async def _milliseconds(call: Awaitable[Any]) -> float:
    start = time.perf_counter()
    await call
    return (time.perf_counter() - start) * 1e3


def _seconds(action: Callable[[], None]) -> float:
    start = time.perf_counter()
    action()
    return time.perf_counter() - start


@contextmanager
def passing_index(address: Address, version: Version) -> Iterator[tuple[TenantIndex, Any]]:
    """Yield a new index and the objects of its tenant, and remove the index."""
    place = TenantIndex(f"Bench{uuid4().hex[:8]}", "bench")
    with connect(address) as client:
        try:
            name = versions.require(client, place, version)
            yield place, client.collections.use(name).with_tenant(place.tenant)
        finally:
            for found in client.collections.list_all(simple=True):
                if found.startswith(place.alias):
                    client.collections.delete(found)
            client.alias.delete(alias_name=place.alias)


def processor_s(pid_file: Path | None) -> float:
    """Return the processor time of this process and of the server, seconds."""
    own = time.process_time()
    if pid_file is None:
        return own
    stat = Path(f"/proc/{pid_file.read_text().strip()}/stat").read_text().rpartition(")")[2].split()
    return own + sum(map(int, stat[11:13])) / os.sysconf("SC_CLK_TCK")


def server_memory(pid_file: Path | None) -> None:
    if pid_file is None:
        return
    lines = Path(f"/proc/{pid_file.read_text().strip()}/status").read_text().splitlines()
    found = {line.split(":")[0]: int(line.split()[1]) // 1024 for line in lines if "kB" in line}
    report("memory of the server", f"{found['VmRSS']} MB, {found['RssAnon']} MB its own")


def address_of_services() -> Address:
    """Return the address of the server that the environment names."""
    try:
        url, port = (os.environ[f"CODELODE_WEAVIATE_{part}"] for part in ("URL", "GRPC_PORT"))
    except KeyError as exc:
        raise SystemExit(f"{exc} is not set: `make services`, then `. .services/env`") from exc
    return Address(url, int(port), os.environ.get("CODELODE_WEAVIATE_API_KEY", ""))


def sizes(text: str) -> list[int]:
    return sorted(map(int, text.split(",")))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--chunks", type=sizes, default=[20_000], help="sizes by comma, ascending")
    parser.add_argument("--pid-file", type=Path, help="of the server, to report its memory")
    parser.add_argument("--keep", metavar="ALIAS", help="leave the index behind, under this name")
    given = parser.parse_args()
    address = address_of_services()
    alias = given.keep or f"Bench{uuid4().hex[:8]}"
    ours, theirs = TenantIndex(alias, "ours"), TenantIndex(alias, "theirs")
    try:
        filling = Filling(address, ours, theirs, given.chunks[-1])
        for before, chunks in pairwise([0, *given.chunks]):
            report("chunks", f"{chunks}")
            filling.write(chunks - before, is_compared=before == 0)
            asyncio.run(search(address, ours, filling.queries()[-MOST_ASKED:]))
            server_memory(given.pid_file)
            report("memory of this program", f"{peak_mb()} MB at most")
    finally:
        if not given.keep:
            with connect(address) as client:
                client.collections.delete(VERSION.collection(alias))
                client.collections.delete(intent_log.collection_name(ours))
                client.alias.delete(alias_name=alias)


if __name__ == "__main__":
    main()
