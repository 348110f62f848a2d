"""Searches of a monorepo inside a folder: processor time by the form of the path filter.

    python tests/bench/paths.py --files 1000000

The index is synthetic: one repository of 400 services, one chunk per file, 64 numbers per vector.
A glob is measured when it is new to the reader, which compares it with the paths, and when it is
known. Forms are measured in turns in one process, so a busy machine slows all of them alike.
"""

from __future__ import annotations

import argparse
import asyncio
import resource
import shutil
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

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

DIM = 64
SERVICES = 400
LAYERS = ("api", "store", "jobs", "web", "tests")
FILES_PER_CALL = 2_000
REPOSITORY = RepositoryName("acme/mono")
WORDS = 5_000

#: Forms of a path filter, about a service, which makes the glob a new one in each turn.
FORMS = {
    "no filter": None,
    "services/NAME/** (2,500 files)": "services/s{0}/**",
    "services/NAME?/** (25,000 files)": "services/s{0}?/**",
    "services/NAME/api/**/*.py": "services/s{0}/api/**/*.py",
    "**/NAME_*.py": "**/m{0}_*.py",
    "services/*/api/mN/**": "services/*/api/m{0}/**",
    "a whole path": "services/s{0}/api/m{0}/m{0}_{0}.py",
}


def files(count: int) -> Iterator[FileChunks]:
    rng = np.random.default_rng(1)
    for number in range(count):
        service, module = number % SERVICES, number % 1_009
        layer = LAYERS[number // SERVICES % len(LAYERS)]
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
        vector = rng.standard_normal((1, DIM), np.float32)
        yield FileChunks(REPOSITORY, path, (DEFAULT_REF,), (chunk,), vector)


def write(folder: Path, count: int) -> None:
    store = LocalChunkStore(folder, dim=DIM, identity="paths")
    made = files(count)
    while some := list(islice(made, FILES_PER_CALL)):
        store.replace(some)
    store.maintain()


async def search(folder: Path, turns: int) -> None:
    chunks = LocalChunkSearch(folder, dim=DIM, identity="paths")
    rng = np.random.default_rng(2)
    queries = [
        (" ".join(f"w{word}" for word in rng.integers(0, WORDS, 4)), vector)
        for vector in rng.standard_normal((turns + 1, DIM), np.float32)
    ]
    spent: defaultdict[str, list[float]] = defaultdict(list)
    for number, (text, vector) in enumerate(queries):
        for form, glob in FORMS.items():
            filters = Filters(paths=(glob.format(number + 7),)) if glob else Filters()
            asked = HybridQuery(text, vector, filters, 100, visible=EVERYTHING)
            for what in (f"{form}, new", f"{form}, known") if glob else (form,):
                spent[what].append(await used(chunks.hybrid(asked)))
        listed = FileQuery(
            NOTHING, Filters(paths=(f"services/s{number + 7}/**",)), visible=EVERYTHING
        )
        spent["files of services/NAME/**"].append(await used(chunks.holding(listed)))
    for what, times in spent.items():
        print(f"{what:44}{np.median(times[1:]) * 1e3:9.1f} ms", flush=True)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
    print(f"{'memory of the reader, at most':44}{peak:9} MB")


async def used(searching) -> float:
    started = time.process_time()
    await searching
    return time.process_time() - started


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--files", type=int, default=1_000_000)
    parser.add_argument("--turns", type=int, default=20)
    parser.add_argument("--folder", type=Path, help="keep the index here; default: none is kept")
    given = parser.parse_args()
    folder = given.folder or Path(tempfile.mkdtemp(prefix="paths-bench-"))
    try:
        if not folder.exists() or not any(folder.iterdir()):
            write(folder, given.files)
        asyncio.run(search(folder, given.turns))
    finally:
        if given.folder is None:
            shutil.rmtree(folder)


if __name__ == "__main__":
    main()
