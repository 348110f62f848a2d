"""Measure the processor time of searches in a folder of a monorepo, by the form of the path filter.

    python tests/bench/paths.py --files 1000000
    . .services/env && python tests/bench/paths.py --files 100000 --store weaviate --pid-file PID

The index is synthetic: one repository of 400 services, one chunk per file, vectors of 64 numbers.
Weaviate stores vectors so slowly that `--keywords` is needed to measure many files there.
A glob is measured when it is new to the reader, which then compares it with the paths, and when it
is known. Forms are measured in turns in one process, so load of the machine affects them alike. For
Weaviate, the processor time is that of this process and of the server. The number of results is
printed too: Weaviate's conditions admit more than a glob, so a search is repeated if the globs
leave too few results.
"""

from __future__ import annotations

import argparse
import asyncio
import resource
import shutil
import tempfile
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterator, Sized
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from codelode.access import EVERYTHING
from codelode.backends.local import LocalChunkSearch, LocalChunkStore
from codelode.grams import NOTHING
from codelode.model import (
    DEFAULT_REF,
    Category,
    Chunk,
    FileChunks,
    FileQuery,
    Filters,
    HybridQuery,
    Kind,
    RepositoryName,
    chunk_id,
)
from codelode.ports import ChunkSearch

DIM = 64
SERVICES = 400
LAYERS = ("api", "store", "jobs", "web", "tests")
FILES_PER_CALL = 2_000
REPOSITORY = RepositoryName("acme/mono")
WORDS = 5_000

#: Forms of a path filter for a service. Each turn uses another service, so that the glob is new.
FORMS = {
    "no filter": None,
    "services/NAME/** (2,500 files)": "services/s{0}/**",
    "services/NAME?/** (25,000 files)": "services/s{0}?/**",
    "services/NAME/api/**/*.py": "services/s{0}/api/**/*.py",
    "**/NAME_*.py": "**/m{0}_*.py",
    "services/*/api/mN/**": "services/*/api/m{0}/**",
    "a whole path": "services/s{0}/api/m{0}/m{0}_{0}.py",
}


def files(given: argparse.Namespace) -> Iterator[FileChunks]:
    rng = np.random.default_rng(1)
    for number in range(given.files):
        folder = number // given.per_folder
        service, module = folder % SERVICES, folder % 1_009
        layer = LAYERS[folder // SERVICES % len(LAYERS)]
        path = f"services/s{service}/{layer}/m{module}/m{module}_{number}.py"
        content = " ".join(f"w{word}" for word in rng.integers(0, WORDS, 12))
        chunk = Chunk(
            id=chunk_id(REPOSITORY, path, 1, content),
            repository=REPOSITORY,
            path=path,
            refs=(DEFAULT_REF,),
            language="python",
            category=Category.SOURCE,
            kind=Kind.FUNCTION,
            symbol=f"f{number}",
            symbols=(f"f{number}",),
            header="",
            start_line=1,
            end_line=1,
            content=content,
        )
        vector = rng.standard_normal((1, DIM), np.float32) * (not given.keywords)
        yield FileChunks(REPOSITORY, path, (DEFAULT_REF,), (chunk,), vector)


def write(folder: Path, given: argparse.Namespace) -> None:
    store = LocalChunkStore(folder, dim=DIM, identity="paths")
    made = files(given)
    while some := list(islice(made, FILES_PER_CALL)):
        store.replace(some)
    store.maintain()


async def search(
    chunks: ChunkSearch, given: argparse.Namespace, processor_s: Callable[[], float]
) -> None:
    async def used(searching: Awaitable[Sized]) -> tuple[float, float, int]:
        started, spent = time.perf_counter(), processor_s()
        found = len(await searching)
        return processor_s() - spent, time.perf_counter() - started, found

    rng = np.random.default_rng(2)
    queries = [
        (" ".join(f"w{word}" for word in rng.integers(0, WORDS, 4)), vector)
        for vector in rng.standard_normal((given.turns + 1, DIM), np.float32)
    ]
    spent: defaultdict[str, list[tuple[float, float, int]]] = defaultdict(list)
    for number, (text, vector) in enumerate(queries):
        for form, glob in FORMS.items():
            filters = Filters(paths=(glob.format(number + 7),)) if glob else Filters()
            meant = None if given.keywords else vector
            asked = HybridQuery(text, meant, filters, 100, visible=EVERYTHING)
            for what in (f"{form}, new", f"{form}, known") if glob else (form,):
                spent[what].append(await used(chunks.hybrid(asked)))
        listed = FileQuery(
            NOTHING, Filters(paths=(f"services/s{number + 7}/**",)), visible=EVERYTHING
        )
        spent["files of services/NAME/**"].append(await used(chunks.holding(listed)))
    for what, calls in spent.items():
        used_s, took_s, found = np.array(calls[1:]).T
        # The clock of the server ticks every 10 ms, so its mean is more precise than its median.
        print(
            f"{what:44}{np.median(used_s) * 1e3:9.1f} ms ({used_s.mean() * 1e3:.1f} on average), "
            f"{np.median(took_s) * 1e3:.1f} ms waited, {found.mean():.0f} found",
            flush=True,
        )
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
    print(f"{'memory of the reader, at most':44}{peak:9} MB")


async def embedded(folder: Path, given: argparse.Namespace) -> None:
    if not folder.exists() or not any(folder.iterdir()):
        write(folder, given)
    chunks = LocalChunkSearch(folder, dim=DIM, identity="paths")
    await search(chunks, given, time.process_time)


def _object(file: FileChunks) -> Any:
    """Return the object of a file with one chunk, with the properties that lists of files need."""
    from codelode.backends.weaviate.codec import NewObject, encode, grams_text

    [chunk], [vector] = file.chunks, file.vectors
    return encode(NewObject.of(chunk, vector, file.refs, partial(grams_text, chunk.content)))


async def clustered(given: argparse.Namespace) -> None:
    import clustered_store

    from codelode.backends.weaviate import WeaviateChunkSearch
    from codelode.backends.weaviate.schema import Version

    address = clustered_store.address_of_services()
    with clustered_store.passing_index(address, Version("paths", DIM)) as (place, objects):
        made = files(given)
        while some := list(islice(made, FILES_PER_CALL)):
            clustered_store.library_batch(objects, map(_object, some))
        chunks = WeaviateChunkSearch(address, place, dim=DIM, identity="paths")
        try:
            await search(chunks, given, partial(clustered_store.processor_s, given.pid_file))
        finally:
            await chunks.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--files", type=int, default=1_000_000)
    parser.add_argument("--per-folder", type=int, default=1, help="files in each folder")
    parser.add_argument("--keywords", action="store_true", help="store and compare no vectors")
    parser.add_argument("--turns", type=int, default=20)
    parser.add_argument("--store", choices=["local", "weaviate"], default="local")
    parser.add_argument("--pid-file", type=Path, help="of the server of Weaviate")
    parser.add_argument("--folder", type=Path, help="keep the index here; default: none is kept")
    given = parser.parse_args()
    if given.store == "weaviate":
        asyncio.run(clustered(given))
        return
    folder = given.folder or Path(tempfile.mkdtemp(prefix="paths-bench-"))
    try:
        asyncio.run(embedded(folder, given))
    finally:
        if given.folder is None:
            shutil.rmtree(folder)


if __name__ == "__main__":
    main()
