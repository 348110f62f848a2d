"""Exact search over real source trees: time of a search, and the size of the index, part by part.

    python tests/bench/grep.py FOLDER… [--rg PATH] [--keep FOLDER]

Each folder is indexed as a repository in an embedded store, with its text files as the parser cuts
them and with random vectors. A search is one call of the service function, from the checked
request to the last line, in this process; its processor time is that of all threads. With --rg,
ripgrep searches the same files in the same run, with its files in the page cache.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import subprocess
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import numpy as np

from codelode.access import EVERYTHING, Principal, Role
from codelode.backends.local import LocalChunkSearch, LocalChunkStore
from codelode.model import (
    DEFAULT_REF,
    FileChunks,
    RefName,
    Repository,
    RepositoryName,
    locate,
)
from codelode.settings import Settings
from gateway import service
from gateway.service.published import Published
from gateway.service.requests import GrepRequest
from gateway.service.results import GrepSummary, grep_answer
from tests.worlds import World
from workers.parse import parse

DIM, IDENTITY = 256, "bench"
MAX_FILE_BYTES = 1_000_000
FILES_PER_CALL = 100
REPEATS = 15
REFS = (DEFAULT_REF, RefName("main"))

#: What is searched: name → request. Those with a limit stop there, as on the command line.
SEARCHES = {
    "rare literal": GrepRequest("processCommandAndResetClient", literal=True),
    "literal": GrepRequest("unsafe.Pointer", literal=True, limit=100_000),
    "literal, first 1,000 lines": GrepRequest("unsafe.Pointer", literal=True),
    "absent literal": GrepRequest("no such text in here", literal=True),
    "literal without case": GrepRequest("iswhitespace", literal=True, ignore_case=True),
    "word": GrepRequest("mutex", whole_word=True),
    "selective regex": GrepRequest(r"func \w+Reader\(r io\.Reader"),
    "regex of two words": GrepRequest(r"errno\s*==\s*EAGAIN"),
    "alternatives": GrepRequest(r"(EWOULDBLOCK|ECONNABORTED)"),
    "common regex, first 1,000 lines": GrepRequest(r"return nil, err$"),
    "common regex, all lines": GrepRequest(r"return nil, err$", limit=100_000),
    "multiline": GrepRequest(r"else \{\n\s+panic\(", multiline=True),
}


def texts(folder: Path) -> dict[str, bytes]:
    """Return the text files of the folder, by path."""
    found = {}
    for path in sorted(folder.rglob("*")):
        if path.is_file() and not path.is_symlink() and path.stat().st_size <= MAX_FILE_BYTES:
            data = path.read_bytes()
            if b"\0" not in data:
                found[str(path.relative_to(folder))] = data
    return found


def write(store: LocalChunkStore, name: RepositoryName, files: dict[str, bytes]) -> int:
    """Store the files of a repository, and return the number of chunks."""
    rng, chunks = np.random.default_rng(1), 0
    batch: list[FileChunks] = []
    for path, data in files.items():
        made = locate(parse(data, path=path), repository=name, path=path, refs=REFS)
        chunks += len(made)
        vectors = rng.standard_normal((len(made), DIM)).astype(np.float32)
        batch.append(FileChunks(name, path, REFS, made, vectors))
        if len(batch) == FILES_PER_CALL:
            store.replace(batch)
            batch = []
    store.replace(batch)
    return chunks


def parts(folder: Path) -> dict[str, float]:
    """Return the size of each part of the index on disk, MB."""
    sizes: dict[str, float] = {}
    for path in folder.rglob("*"):
        if path.is_file():
            part = path.relative_to(folder).parts[0]
            sizes[part] = sizes.get(part, 0) + path.stat().st_size / 1e6
    return {name: round(size, 1) for name, size in sorted(sizes.items())}


async def asked(world: World, request: GrepRequest) -> tuple[float, GrepSummary]:
    principal = Principal("bench", Role.READER, EVERYTHING)
    started = time.perf_counter()
    parts = [one async for one in service.grep(world.dependencies, principal, request)]
    return 1000 * (time.perf_counter() - started), grep_answer(parts).summary


async def measured(world: World, request: GrepRequest) -> dict[str, object]:
    times, processor = [], []
    for _ in range(REPEATS):
        before = time.process_time()
        took_ms, summary = await asked(world, request)
        times.append(took_ms)
        processor.append(1000 * (time.process_time() - before))
    return {
        "p50_ms": round(statistics.median(times), 1),
        "processor_ms": round(statistics.median(processor), 1),
        "first_ms": round(times[0], 1),
        "lines": summary.count,
        "files": summary.files,
        "read": summary.read_files,
        "complete": summary.complete,
    }


def by_ripgrep(rg: str, folders: list[Path], request: GrepRequest) -> float:
    """Return the median time of ripgrep for the same pattern, ms."""
    options = {"-F": request.literal, "-i": request.ignore_case, "-w": request.whole_word}
    options["-U"] = request.multiline
    given = [name for name, is_given in options.items() if is_given]
    command = [rg, "--no-config", "-n", *given, "-e", request.pattern, *map(str, folders)]
    times = []
    for _ in range(5):
        started = time.perf_counter()
        subprocess.run(command, stdout=subprocess.DEVNULL, check=False)
        times.append(1000 * (time.perf_counter() - started))
    return round(statistics.median(times), 1)


def trigrams_bytes(folder: Path) -> float:
    """Return the size of a keyword index of the trigrams alone, MB."""
    from codelode.backends.local import database, keyword_index, tables

    with tempfile.TemporaryDirectory() as made:
        keyword_index.create(Path(made) / "grams")
        writer = keyword_index.Writer(Path(made) / "grams")
        connection = database.connect(folder, is_writer=False)
        rows = [row for (row,) in connection.execute("SELECT row FROM chunks ORDER BY row")]
        for start in range(0, len(rows), 5_000):
            some = rows[start : start + 5_000]
            found = tables.texts_by_first(connection, some)
            blank = [
                (row, chunk._replace(content="", overlap="", symbol="", symbols=(), path="a"))
                for row, chunk in tables.chunks(connection, [*found])
            ]
            writer.add(blank, found)
        writer.commit()
        writer.close()
        return sum(parts(Path(made) / "grams").values())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folders", nargs="+", type=Path)
    parser.add_argument("--rg", default="")
    parser.add_argument("--keep", type=Path)
    given = parser.parse_args()
    index = given.keep or Path(tempfile.mkdtemp())
    world = World(Settings(data=index / "data"))
    store = LocalChunkStore(index / "index", dim=DIM, identity=IDENTITY)
    chunks = size = count = 0
    started = time.perf_counter()
    for folder in given.folders:
        name, files = RepositoryName(folder.name), texts(folder)
        world.ledger.register(Repository(name, f"https://host.example/{name}"))
        chunks += write(store, name, files)
        size, count = size + sum(map(len, files.values())), count + len(files)
    took_s = time.perf_counter() - started
    store.maintain()
    store.close()
    search = LocalChunkSearch(index / "index", dim=DIM, identity=IDENTITY)
    backends = replace(world.dependencies.published.backends, chunks=search)
    world.dependencies = replace(world.dependencies, published=Published(backends))
    report = {
        "files": count,
        "chunks": chunks,
        "source_mb": round(size / 1e6, 1),
        "written_s": round(took_s, 1),
        "index_mb": parts(index / "index"),
        "trigrams_mb": round(trigrams_bytes(index / "index"), 1),
    }
    print(json.dumps(report))
    for label, request in SEARCHES.items():
        row = asyncio.run(measured(world, request))
        if given.rg:
            row["rg_ms"] = by_ripgrep(given.rg, given.folders, request)
        print(json.dumps({"search": label, **row}), flush=True)


if __name__ == "__main__":
    main()
