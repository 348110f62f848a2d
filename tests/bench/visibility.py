"""Compare searches of a caller who sees half of the repositories with those of one who sees all.

    python tests/bench/visibility.py --repositories 10,1000,10000
    . .services/env && python tests/bench/visibility.py --store weaviate --pid-file PID

The corpus is that of store.py with two chunks per file, divided into the given number of
repositories; the total number of chunks does not depend on that number. A caller who sees
everything alternates with other callers who send the same queries, so that the load of the machine
affects all alike. The others see: a random half, tenth, and hundredth; the repositories of every
other of 97 teams; and these without 3 % that are private.

`--names` decides how names show the team: it is the owner, or the first word of names of four
owners, or does not appear in them (flat). `--groups` gives the repositories groups: as permission
sync does, by the team alone, whose members are then the readers, or by the set of these callers
that read them; or as an access file does, in which each of these callers has as many entries as its
names need. With `--readers`, the callers are instead three of the people of a code host (see
readers.py), who read nearly half of the repositories each, and the groups are those of its readers
and teams; `--drift` is the share of what these callers read that has changed since. Each caller is
then measured a second time as if the repositories had no groups. With `--regrouped`, the chunks are
first written as if there were no rights, then all of them again with the groups, as by
`codelode regroup`.

Besides the time that a caller waits, the program reports processor time, which depends less on that
load: its own and, if the file with the process id is given, that of the Weaviate server. Then
follow the other costs of a call that may depend on the number of repositories: the visibility
itself, and what the service layer reads from a ledger in a separate Redis.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from calls import redis
from embedded import machine
from readers import PEOPLE, grouped_by_readers, read_by
from store import DIM, IDENTITY, Corpus, Query, load

from codelode.access import EVERYTHING, Label, Visibility
from codelode.backends import registry
from codelode.backends.local import LocalChunkSearch, LocalChunkStore
from codelode.covers import Grouped, Groups, Known, group_of
from codelode.grouping import Rights, undescribed
from codelode.ledger import FileManifest
from codelode.model import (
    FileChunks,
    Filters,
    HybridQuery,
    RefName,
    Repository,
    RepositoryName,
    Revision,
    chunk_id,
)
from codelode.ports import ChunkStore
from codelode.repository_globs import MAX_GLOBS
from codelode.settings import Settings
from gateway.service.catalog import VisibleCatalog

WARM_UP = 20
LIMIT = 100
CHUNKS_PER_FILE = 2
FILES_PER_CALL = 128
SHARES = {"half": 0.5, "tenth": 0.1, "hundredth": 0.01}
TEAMS = 97
PRIVATE = 0.03

#: Functions that derive the name of a repository from its number.
NAMES: dict[str, Callable[[int], str]] = {
    "owners": lambda n: f"team{n % TEAMS}/r{n}",
    "words": lambda n: f"acme{n % 4}/team{n % TEAMS}-r{n}",
    "flat": lambda n: f"acme{n % 4}/r{n}",
}

Figures = dict[str, object]


def files(names: list[RepositoryName], chunks: int) -> Iterator[tuple[FileChunks, Query]]:
    """Yield the files of the corpus, distributed over the repositories, each with a query."""
    corpus = Corpus()
    for number, (file, drawn) in enumerate(corpus.files(chunks, per_file=CHUNKS_PER_FILE)):
        name = names[number % len(names)]
        yield _moved(file, name), replace(corpus.query(file, drawn), repository=name)


def _moved(file: FileChunks, name: RepositoryName) -> FileChunks:
    held = tuple(
        chunk._replace(
            repository=name, id=chunk_id(name, chunk.path, chunk.start_line, chunk.content)
        )
        for chunk in file.chunks
    )
    return replace(file, repository=name, chunks=held)


def filled(
    write: Callable[[list[FileChunks]], None],
    names: list[RepositoryName],
    chunks: int,
    queries: int,
) -> list[Query]:
    """Write the corpus; return queries about files from all parts of it."""
    asked: list[Query] = []
    every = max(1, chunks // CHUNKS_PER_FILE // (queries + WARM_UP))
    written = files(names, chunks)
    while batch := list(islice(written, FILES_PER_CALL)):
        write([file for file, _ in batch])
        asked += [query for _, query in batch]
    return asked[::every]


def named(repositories: int, how: str) -> list[RepositoryName]:
    return [RepositoryName(NAMES[how](number)) for number in range(repositories)]


def seen_by(names: list[RepositoryName]) -> dict[str, list[RepositoryName]]:
    """Return the repositories of each caller who does not see everything."""
    drawn = random.Random(len(names))
    seen = {
        who: drawn.sample(names, max(1, int(len(names) * share))) for who, share in SHARES.items()
    }
    seen["teams"] = [name for number, name in enumerate(names) if number % TEAMS % 2]
    seen["most of teams"] = [name for name in seen["teams"] if drawn.random() > PRIVATE]
    return seen


def grouped(names: list[RepositoryName], by: str) -> dict[RepositoryName, Groups]:
    """Return the groups of each repository, by its readers."""
    if by == "teams":
        return {name: (group_of([str(number % TEAMS)]),) for number, name in enumerate(names)}
    if by == "callers":
        readers: dict[RepositoryName, list[str]] = {name: [] for name in names}
        for who, seen in seen_by(names).items():
            for name in seen:
                readers[name].append(who)
        return {name: (group_of(found),) for name, found in readers.items()}
    if by == "access file":
        rights = Rights(lists=undescribed(entries(names)))
        return {name: rights.groups_of(repository(name)) for name in names}
    return {}


def repository(name: RepositoryName) -> Repository:
    return Repository(name, f"https://git.example/{name}", label=Label.INTERNAL)


def reading(
    names: list[RepositoryName], given: argparse.Namespace
) -> tuple[dict[RepositoryName, Groups], dict[str, Visibility]]:
    """Return the groups of each repository, and the visibility of three people who read half."""
    reads, drawn = read_by(names, given.readers), random.Random(1)
    groups = grouped_by_readers([repository(name) for name in names], reads)
    found = {name: Grouped(some) for name, some in groups.items()}
    ways = {
        "": Known(frozenset(names), found),
        " without groups": Known(frozenset(names)),
    }
    near = sorted(reads, key=lambda one: abs(len(reads[one]) - len(names) / 2))[:3]
    seen: dict[str, Visibility] = {"all": EVERYTHING}
    for one in near:
        hidden = sorted({*names} - reads[one])
        moved = int(given.drift * len(reads[one]) / 2)
        gone, come = drawn.sample(sorted(reads[one]), moved), drawn.sample(hidden, moved)
        visible = (reads[one] - {*gone}) | {*come}
        for way, known in ways.items():
            seen[f"{one}{way}"] = Visibility.of(visible, known=known)
    return groups, seen


def entries(names: list[RepositoryName]) -> Iterator[list[RepositoryName]]:
    """Yield the entries of an access file that grant each caller what it sees."""
    for seen in seen_by(names).values():
        yield from (seen[start : start + MAX_GLOBS] for start in range(0, len(seen), MAX_GLOBS))


def callers(names: list[RepositoryName], groups: str = "") -> dict[str, Visibility]:
    """Return the visibility of each caller."""
    found = {name: Grouped(some) for name, some in grouped(names, groups).items()}
    ways = {"": Known(frozenset(names), found)}
    if groups:
        ways[" without groups"] = Known(frozenset(names))
    seen = seen_by(names).items()
    return {"all": EVERYTHING} | {
        who + way: Visibility.of(some, known=known)
        for who, some in seen
        for way, known in ways.items()
    }


async def taking_turns(
    calls: Mapping[str, Callable[[Query], Awaitable[Any]]],
    queries: list[Query],
    processor_s: Callable[[], float],
) -> Figures:
    """Return the times of each call, and their ratios to those of the first one."""
    times: dict[str, list[float]] = {who: [] for who in calls}
    order = list(calls)
    spent = dict.fromkeys(calls, 0.0)
    for number, query in enumerate(queries):
        order.append(order.pop(0))
        for who in order:
            started, used = time.perf_counter(), processor_s()
            await calls[who](query)
            if number >= WARM_UP:
                times[who].append((time.perf_counter() - started) * 1e3)
                spent[who] += processor_s() - used
    p50 = {who: float(np.median(taken)) for who, taken in times.items()}
    first = next(iter(calls))
    return {
        who: {
            "p50_ms": round(p50[who], 2),
            "p99_ms": round(float(np.percentile(taken, 99)), 2),
            "ratio_of_p50": round(p50[who] / p50[first], 2),
            "processor_ms": round(spent[who] / len(taken) * 1e3, 2),
            "ratio_of_processor_time": round(spent[who] / spent[first], 2),
        }
        for who, taken in times.items()
    }


def of_the_store(search: Any, seen: Mapping[str, Visibility]) -> dict[str, Any]:
    def call(visible: Visibility) -> Callable[[Query], Awaitable[Any]]:
        return lambda query: search.hybrid(
            HybridQuery(
                query.text,
                query.vector,
                Filters(),
                LIMIT,
                alpha=0.7,
                total_limit=LIMIT,
                visible=visible,
            )
        )

    return {who: call(visible) for who, visible in seen.items()}


async def measured(
    search: Any,
    seen: Mapping[str, Visibility],
    queries: list[Query],
    processor_s: Callable[[], float],
) -> Figures:
    figures = await taking_turns(of_the_store(search, seen), queries, processor_s)
    covers = {who: visible.cover() for who, visible in seen.items()}
    terms = {who: sum(map(len, found)) for who, found in covers.items() if found}
    return {**figures, "terms instead of names": terms}


async def embedded(given: argparse.Namespace, names: list[RepositoryName]) -> Figures:
    with tempfile.TemporaryDirectory(prefix="visibility-") as folder:
        at = Path(folder) / "index"
        store = LocalChunkStore(at, dim=DIM, identity=IDENTITY)
        asked = filled(store.replace, names, given.chunks, given.queries)
        store.maintain()
        search = LocalChunkSearch(at, dim=DIM, identity=IDENTITY)
        try:
            return await measured(search, callers(names), asked, time.process_time)
        finally:
            await search.close()


async def clustered(given: argparse.Namespace, names: list[RepositoryName]) -> Figures:
    import clustered_store
    from clustered_store import library_batch

    from codelode.backends.weaviate import WeaviateChunkSearch, WeaviateChunkStore

    address = clustered_store.address_of_services()
    with clustered_store.passing_index(address, clustered_store.VERSION) as (place, objects):
        search = WeaviateChunkSearch(address, place, dim=DIM, identity=IDENTITY)
        try:
            groups = grouped(names, given.groups)
            seen = callers(names, given.groups)
            if given.readers:
                groups, seen = reading(names, given)
            first = {name: Rights().groups_of(repository(name)) for name in names}
            asked = filled(
                # This is many times faster than `replace`, which first reads each repository.
                lambda files: library_batch(
                    objects,
                    clustered_store._objects(files, first if given.regrouped else groups),
                ),
                names,
                given.chunks,
                given.queries,
            )
            if given.regrouped:
                store = WeaviateChunkStore(address, place, dim=DIM, identity=IDENTITY)
                regroup(store, given.chunks, names, groups)
            both = partial(clustered_store.processor_s, given.pid_file)
            return await measured(search, seen, asked, both)
        finally:
            await search.close()


def regroup(
    store: ChunkStore,
    chunks: int,
    names: list[RepositoryName],
    groups: Mapping[RepositoryName, Groups],
) -> None:
    """Write all chunks again with their groups."""
    started = time.perf_counter()
    written = (replace(file, groups=groups[file.repository]) for file, _ in files(names, chunks))
    while batch := list(islice(written, FILES_PER_CALL)):
        store.replace(batch)
    store.close()
    took_s = time.perf_counter() - started
    print(f"written again: {chunks / took_s:.0f} chunks/s, load {load():.1f}", flush=True)


def other_costs(names: list[RepositoryName]) -> Figures:
    """Return the milliseconds of other parts of a call besides the search, by caller."""
    seen = callers(names)
    found: Figures = {
        "Visibility.of": {
            who: _ms(partial(Visibility.of, visible.names), 20)
            for who, visible in seen.items()
            if visible.names is not None
        }
    }
    with tempfile.TemporaryDirectory(prefix="visibility-") as folder, redis(Path(folder)) as url:
        ledger = registry.ledger(Settings(redis_url=url))
        for name in names:
            ledger.register(Repository(name, f"https://host/{name}", RefName("main")))
            run = ledger.create(name, RefName("main"))
            assert ledger.claim(run.id, worker="bench")
            plan = FileManifest(Revision("1" * 40), ())
            ledger.plan(run.id, plan, ref=RefName("main"), fingerprint="bench")
        first = {who: next(iter(visible.ordered), names[-1]) for who, visible in seen.items()}
        catalogs = {who: VisibleCatalog(ledger, visible) for who, visible in seen.items()}
        reads: dict[str, Callable[[str], Any]] = {
            "one named repository": lambda who: catalogs[who].known([first[who]]),
            "names of all (explain, graph)": lambda who: catalogs[who].names(),
            "recent runs (status)": lambda who: catalogs[who].recent(20),
            "a ref of all (filter by ref alone)": lambda who: catalogs[who].ref("main"),
        }
        for what, read in reads.items():
            found[what] = {who: _ms(partial(read, who), 5) for who in seen}
    return found


def _ms(call: Callable[[], Any], times: int) -> float:
    """Return the median time of the call, milliseconds."""
    taken = []
    for _ in range(times):
        started = time.perf_counter()
        call()
        taken.append((time.perf_counter() - started) * 1e3)
    return round(float(np.median(taken)), 3)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--store", choices=("local", "weaviate"), default="local")
    parser.add_argument("--repositories", default="10,1000,10000", help="by comma")
    parser.add_argument("--names", choices=tuple(NAMES), default="owners")
    parser.add_argument("--groups", choices=("", "teams", "callers", "access file"), default="")
    parser.add_argument("--readers", choices=("", *PEOPLE), default="", help="with Weaviate")
    parser.add_argument("--drift", type=float, default=0.0, help="share of what the callers read")
    parser.add_argument("--regrouped", action="store_true")
    parser.add_argument("--chunks", type=int, default=20_000)
    parser.add_argument("--queries", type=int, default=200)
    parser.add_argument("--pid-file", type=Path, help="of the Weaviate server")
    parser.add_argument("--json", type=Path, help="file to write the figures to")
    given = parser.parse_args()
    measure = embedded if given.store == "local" else clustered
    shape = {
        "names": given.names,
        "groups": given.groups,
        "readers": given.readers,
        "drift": given.drift,
        "regrouped": given.regrouped,
        "chunks": given.chunks,
    }
    facts = {**machine(), "store": given.store, **shape}
    results: Figures = {}
    for repositories in map(int, given.repositories.split(",")):
        names = named(repositories, given.names)
        found = {"search": asyncio.run(measure(given, names))}
        if given.store == "local":
            found["other costs, ms"] = other_costs(names)
        results[f"{repositories} repositories"] = found
        print(repositories, json.dumps(found, indent=1), f"load {load():.1f}", flush=True)
    if given.json:
        given.json.write_text(json.dumps({**facts, **results}, indent=1) + "\n")


if __name__ == "__main__":
    main()
