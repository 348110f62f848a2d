"""Repositories through the whole job chain into Weaviate, again under another name, and searched.

    . .services/env && python tests/bench/clustered_chain.py GIT_DIR...
    … --embedder ollama --model all-minilm GIT_DIR...

Beside it, in the same run, the client library's own batch writes the same objects, vectors and all,
into another tenant. The second copy compares with that: its files are parsed and its vectors known,
so the chain does nothing but pull and insert. The first one also parses and embeds, on the same
cores. Searches go through the gateway, cache off, and in turn to the same collection as the
library's own hybrid query, whose vector was made beforehand.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from uuid import uuid4

import embedded
from clustered_store import address_of_services, batch, their_hybrid
from load import given as described
from load import queries_of
from store import Query, load, report

from codelode import settings
from codelode.backends.connect import embedder as embedder_of
from codelode.backends.weaviate import Address, Place
from codelode.backends.weaviate.connection import connect, connect_async
from codelode.client import Client
from codelode.evaluation import percentile
from codelode.model import Filters, RepositoryName

LIMIT_S = 3_600
POLL_S = 0.2
SEARCHES, WARM_UP = 300, 20


def main() -> None:
    given = _options()
    address = address_of_services()
    place = Place(f"Bench{uuid4().hex[:8]}", "bench")
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
                rates = _chain(client, given.repositories)
                asyncio.run(_searches(client, address, place, _queries(given)))
        theirs = _library(address, place)
        report("the library's batch", f"{theirs:.0f} chunks/s, load {load():.1f}")
        for what, rate in rates.items():
            report(what, f"{rate:.0f} chunks/s, {rate / theirs:.2f} of the library's")
    finally:
        _clean(address, place)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("repositories", nargs="+", type=lambda text: Path(text).resolve())
    parser.add_argument("--embedder", default="static")
    parser.add_argument("--model", help="of the embedder")
    return parser.parse_args()


def _chain(client: Client, repositories: Sequence[Path]) -> dict[str, float]:
    """Chunks per second of all first indexings together, and of all second ones."""
    chunks, spent_s, again_s = 0, 0.0, 0.0
    for path in repositories:
        name = path.stem
        first = _index(client, path, name)
        made = client.status().chunks - chunks
        again = _index(client, path, f"{name}-again")
        client.remove(f"{name}-again")
        chunks, spent_s, again_s = chunks + made, spent_s + first, again_s + again
        _await_chunks(client, chunks)
        report(name, f"{made:,} chunks in {first:.1f} s, {made / first:.0f}/s, load {load():.1f}")
        report("  under another name", f"{again:.2f} s, {again / first:.3f} of it")
    return {"through the job chain": chunks / spent_s, "  when all is known": chunks / again_s}


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
    client: Client, address: Address, place: Place, queries: Sequence[Query]
) -> None:
    """Both in turn, each one search at a time."""
    library = await connect_async(address)
    try:
        name = (await library.alias.get(alias_name=place.alias)).collection
        objects = library.collections.use(name).with_tenant(place.tenant)
        ours, theirs = [], []
        for query in queries:
            started = time.perf_counter()
            client.search(query.text, skip_cache=True)
            between = time.perf_counter()
            await their_hybrid(objects, query, Filters())
            ours.append(1_000 * (between - started))
            theirs.append(1_000 * (time.perf_counter() - between))
    finally:
        await library.close()
    for what, taken in (("search, gateway", ours), ("the library's hybrid", theirs)):
        p50, p99 = (percentile(taken[WARM_UP:], at) for at in (50, 99))
        report(what, f"p50 {p50:.1f} ms, p99 {p99:.1f} ms, load {load():.1f}")
    ratio = percentile(ours[WARM_UP:], 50) / percentile(theirs[WARM_UP:], 50)
    report("  ratio of p50", f"{ratio:.2f} at {client.status().chunks:,} chunks")


def _library(address: Address, place: Place) -> float:
    """Chunks per second of the library's batch, of all objects in the place."""
    other = Place(place.alias, "theirs")
    with connect(address) as client:
        collection = client.collections.use(client.alias.get(alias_name=place.alias).collection)
        objects = list(collection.with_tenant(place.tenant).iterator(include_vector=True))
        collection.tenants.create(other.tenant)
        started = time.perf_counter()
        batch(collection.with_tenant(other.tenant), objects)
        return len(objects) / (time.perf_counter() - started)


def _clean(address: Address, place: Place) -> None:
    with connect(address) as client:
        for name in client.collections.list_all():
            if name.startswith(place.alias):
                client.collections.delete(name)
        client.alias.delete(alias_name=place.alias)


if __name__ == "__main__":
    main()
