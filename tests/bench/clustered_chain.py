"""Index repositories into Weaviate through the whole job chain, and search them.

    . .services/env && python tests/bench/clustered_chain.py GIT_DIR...
    … --embedder ollama --model all-minilm GIT_DIR...
    … --chunks 100000,500000 --pid-file .services/weaviate.pid GIT_DIR...

Each repository is indexed twice, the second time under another name. After each time, the client
library's own batch writes the same objects, with their vectors, into another tenant of the same
size. The second time, all derived values are cached, so the chain only pulls and inserts; the first
time, it also parses and embeds, on the same cores.

Searches alternate between the gateway, with its cache off, and the library's own hybrid query to
the same collection, whose vector was computed before. They start when the machine is idle, after as
many searches as a warm-up. They are repeated whenever further copies have filled the index up to
one of the given sizes.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import count
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4, uuid5

import embedded
from clustered_store import address_of_services, library_batch, server_memory, sizes, their_hybrid
from load import given as described
from load import queries_of
from store import Query, load, report
from weaviate.classes.data import DataObject
from weaviate.collections import Collection

from codelode import settings
from codelode.backends.registry import embedder as embedder_of
from codelode.backends.weaviate import Address, TenantIndex, batch
from codelode.backends.weaviate.connection import connect, connect_async
from codelode.backends.weaviate.filters import equals
from codelode.client import Client
from codelode.model import Filters, RepositoryName
from codelode.operations.evaluation.metrics import percentile

LIMIT_S = 3_600
POLL_S = 0.2
#: Number of searches; the first half is a warm-up.
SEARCHES = 600


def main() -> None:
    given = _options()
    address = address_of_services()
    place = TenantIndex(f"Bench{uuid4().hex[:8]}", "bench")
    chosen = {
        "store": "weaviate",
        "weaviate_collection": place.alias,
        "organisation": place.tenant,
        "local_paths": ":".join(str(path) for path in given.repositories),
        "embedder": given.embedder,
    }
    if given.model:
        chosen["embedding_model"] = given.model
    for what, value in embedded.machine().items():
        report(what, str(value))
    try:
        with tempfile.TemporaryDirectory(prefix="codelode-bench-") as scratch:
            data = Path(scratch) / "data"
            with (
                embedded.running(data, **chosen) as cluster,
                Client(cluster.address, timeout_s=60) as client,
            ):
                _chain(client, given.repositories, address, place)
                queries = _queries(given)
                asyncio.run(_searches(client, address, place, queries))
                copies = ((path, number) for number in count(2) for path in given.repositories)
                for chunks in given.chunks:
                    _fill(client, copies, chunks)
                    asyncio.run(_searches(client, address, place, queries))
                    _memory(cluster, given.pid_file)
    finally:
        clean(address, place)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("repositories", nargs="+", type=lambda text: Path(text).resolve())
    parser.add_argument("--embedder", default="static")
    parser.add_argument("--model", help="model of the embedder")
    parser.add_argument("--chunks", type=sizes, default=[], help="sizes by comma, ascending")
    parser.add_argument("--pid-file", type=Path, help="of the server, to report its memory")
    return parser.parse_args()


@dataclass
class _Spent:
    """Seconds for all repositories."""

    chain: float = 0.0
    library: float = 0.0


def _chain(
    client: Client, repositories: Sequence[Path], address: Address, place: TenantIndex
) -> None:
    chunks = 0
    all_first, all_again = _Spent(), _Spent()
    with _Theirs(address, place) as theirs:
        for path in repositories:
            name = path.stem
            first = _index(client, path, name)
            made = client.status().chunks - chunks
            objects = theirs.objects_of(name)
            their_first = theirs.write(objects)
            again = _index(client, path, f"{name}-again")
            copies = [_copy(one) for one in objects]
            their_again = theirs.write(copies)
            client.remove(f"{name}-again")
            theirs.remove(copies)
            chunks += made
            _await_chunks(client, chunks)
            report(
                name, f"{made:,} chunks in {first:.1f} s, {made / first:.0f}/s, load {load():.1f}"
            )
            report("  the library's batch", f"{their_first:.1f} s, {made / their_first:.0f}/s")
            report("  under another name", f"{again:.2f} s, {again / first:.3f} of it")
            report("  the library's batch", f"{their_again:.1f} s, {made / their_again:.0f}/s")
            all_first.chain += first
            all_first.library += their_first
            all_again.chain += again
            all_again.library += their_again
    for what, spent in (("through the job chain", all_first), ("  when all is known", all_again)):
        ratio = spent.library / spent.chain
        report(what, f"{chunks / spent.chain:.0f} chunks/s, {ratio:.2f} of the library's")


def _fill(client: Client, copies: Iterator[tuple[Path, int]], chunks: int) -> None:
    """Index copies until there are this many chunks."""
    before, started = client.status().chunks, time.perf_counter()
    while (held := client.status().chunks) < chunks:
        path, number = next(copies)
        _index(client, path, f"{path.stem}-{number}")
    rate = (held - before) / (time.perf_counter() - started)
    report("copies", f"{held - before:,} more chunks, {rate:.0f}/s")


def _memory(cluster: embedded.Cluster, pid_file: Path | None) -> None:
    """Report the memory of each process of the cluster, and of the server."""
    for one in embedded.processes(cluster.pid):
        report(f"  {one.name}", f"{one.pss >> 20} MB, {one.peak_rss >> 20} MB at most")
    server_memory(pid_file)


class _Theirs:
    """The tenant that the library's batch writes to."""

    def __init__(self, address: Address, place: TenantIndex) -> None:
        self._place = place
        self._client = connect(address)

    @cached_property
    def _collection(self) -> Collection[Any, Any]:
        """Return the collection, which the first indexing creates."""
        name = self._client.alias.get(alias_name=self._place.alias).collection
        return self._client.collections.use(name)

    @cached_property
    def _ours(self) -> Collection[Any, Any]:
        return self._collection.with_tenant(self._place.tenant)

    @cached_property
    def _theirs(self) -> Collection[Any, Any]:
        self._collection.tenants.create("theirs")
        return self._collection.with_tenant("theirs")

    def __enter__(self) -> _Theirs:
        return self

    def __exit__(self, *_: object) -> None:
        self._collection.tenants.remove("theirs")
        self._client.close()

    def objects_of(self, repository: str) -> list[DataObject[Any, Any]]:
        """Return the chunks of a repository as objects to write, with their vectors."""
        found = batch.every(self._ours, equals("repository", repository), [])
        ids = [one.uuid for one in found]
        properties = [one.name for one in self._ours.config.get().properties]
        read = batch.by_ids(self._ours, ids, properties)
        return [
            DataObject(uuid=one.uuid, properties=one.properties, vector=one.vector) for one in read
        ]

    def write(self, objects: Sequence[DataObject[Any, Any]]) -> float:
        """Write the objects, and return how long it took, seconds."""
        started = time.perf_counter()
        library_batch(self._theirs, objects)
        return time.perf_counter() - started

    def remove(self, objects: Sequence[DataObject[Any, Any]]) -> None:
        batch.delete(self._theirs, [UUID(str(one.uuid)) for one in objects])


def _copy(one: DataObject[Any, Any]) -> DataObject[Any, Any]:
    """Return the object with another id."""
    id = uuid5(UUID(str(one.uuid)), "again")
    return DataObject(uuid=id, properties=one.properties, vector=one.vector)


def _await_chunks(client: Client, count: int) -> None:
    while client.status().chunks != count:
        time.sleep(POLL_S)


def _index(client: Client, path: Path, name: str) -> float:
    started = time.perf_counter()
    embedded.index(client, str(path), name=name, limit_s=LIMIT_S)
    return time.perf_counter() - started


def _queries(given: argparse.Namespace) -> list[Query]:
    options = {"embedding_model": given.model} if given.model else {}
    embedder = embedder_of(settings.load(embedder=given.embedder, **options))
    kinds = queries_of(list(described(given.repositories) or ()), SEARCHES)
    texts = [text for some in kinds.values() for text in some]
    random.Random(0).shuffle(texts)
    return [Query(text, embedder.embed_query(text), RepositoryName("")) for text in texts]


async def _searches(
    client: Client, address: Address, place: TenantIndex, queries: Sequence[Query]
) -> None:
    """Alternate between both, one search at a time; take turns in going first."""
    embedded.await_rest()
    library = await connect_async(address)
    try:
        name = (await library.alias.get(alias_name=place.alias)).collection
        objects = library.collections.use(name).with_tenant(place.tenant)
        ours, theirs = [], []

        async def search(query: Query) -> None:
            started = time.perf_counter()
            client.search(query.text, skip_cache=True)
            ours.append(1_000 * (time.perf_counter() - started))

        async def ask(query: Query) -> None:
            started = time.perf_counter()
            await their_hybrid(objects, query, Filters())
            theirs.append(1_000 * (time.perf_counter() - started))

        for number, query in enumerate(queries):
            for call in (search, ask) if number % 2 else (ask, search):
                await call(query)
    finally:
        await library.close()
    before = len(queries) // 2
    for what, taken in (("search, gateway", ours), ("the library's hybrid", theirs)):
        p50, p99 = (percentile(taken[before:], at) for at in (50, 99))
        report(what, f"p50 {p50:.1f} ms, p99 {p99:.1f} ms, load {load():.1f}")
    cold = percentile(ours[:before], 50) / percentile(theirs[:before], 50)
    ratio = percentile(ours[before:], 50) / percentile(theirs[before:], 50)
    at = f"{client.status().chunks:,} chunks"
    report("  ratio of p50", f"{ratio:.2f} at {at}; of the {before} searches before {cold:.2f}")


def clean(address: Address, place: TenantIndex) -> None:
    with connect(address) as client:
        for name in client.collections.list_all():
            if name.startswith(place.alias):
                client.collections.delete(name)
        client.alias.delete(alias_name=place.alias)


if __name__ == "__main__":
    main()
