"""Measure exact search over real source trees: time of a search, and size of the index by part.

    python tests/bench/grep.py FOLDER… [--rg PATH] [--zoekt FOLDER] [--count N] [--keep FOLDER]

Each folder is indexed as a repository in an embedded store: its text files, cut by the parser, with
random vectors. A search is one call of the service function, from the checked request to the last
line, in this process; its processor time is that of all threads. With --rg, ripgrep searches the
same files in the same run, with its files in the page cache. With --zoekt, the folder of the
programs `zoekt-index` and `zoekt-webserver`, zoekt also searches them, over HTTP.

The first table has single searches. The second has percentiles over N words, and over N expressions
that begin with such a word. The words are drawn at random from the text of the trees, so frequent
words are drawn more often. codelode and zoekt stop at 1,000 lines; ripgrep does not.
"""

from __future__ import annotations

import argparse
import asyncio
import http.client
import json
import random
import re
import socket
import statistics
import subprocess
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np

from codelode.access import EVERYTHING, Principal, Role
from codelode.backends.local import LocalChunkSearch, LocalChunkStore
from codelode.model import (
    DEFAULT_REF,
    Chunk,
    FileChunks,
    RefName,
    Repository,
    RepositoryName,
    locate,
)
from codelode.operations.evaluation.metrics import percentile
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
SEED = 7

#: Matches the words of the second table, which are long enough for a trigram.
WORD = re.compile(r"[A-Za-z_]\w{3,}")
REFS = (DEFAULT_REF, RefName("main"))

#: The searches of the first table: name → request. Most stop at a limit, as on the command line.
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


def by_ripgrep(rg: str, folders: list[Path], request: GrepRequest, *, times: int = 5) -> float:
    """Return the median time of ripgrep for the same pattern, ms."""
    options = {"-F": request.literal, "-i": request.ignore_case, "-w": request.whole_word}
    options["-U"] = request.multiline
    given = [name for name, is_given in options.items() if is_given]
    command = [rg, "--no-config", "-n", *given, "-e", request.pattern, *map(str, folders)]
    taken = []
    for _ in range(times):
        started = time.perf_counter()
        subprocess.run(command, stdout=subprocess.DEVNULL, check=False)
        taken.append(1000 * (time.perf_counter() - started))
    return round(statistics.median(taken), 1)


def words(folders: list[Path], count: int) -> list[str]:
    """Return words of the trees, taken at random from their text."""
    rng, found = random.Random(SEED), dict[str, None]()
    files = [data for folder in folders for data in texts(folder).values() if data]
    while len(found) < count:
        (data,) = rng.choices(files, weights=[len(one) for one in files])
        held = WORD.findall(data.decode("utf-8", "replace"))
        if held:
            found[rng.choice(held)] = None
    return list(found)


def expression(word: str) -> str:
    """Return an expression for the word where it is called, assigned, or part of a longer name."""
    return rf"{word}\w*\s*[(=]"


class Zoekt:
    """Searches the folders with zoekt, whose server runs until `close`."""

    def __init__(self, programs: Path, folders: list[Path]) -> None:
        self._index = tempfile.TemporaryDirectory()
        for folder in folders:
            command = [programs / "zoekt-index", "-index", self._index.name, folder]
            subprocess.run(command, check=True, capture_output=True)
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        listen = ["-index", self._index.name, "-listen", f"127.0.0.1:{port}", "-rpc"]
        self._server = subprocess.Popen(
            [programs / "zoekt-webserver", *listen],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        self._connection = http.client.HTTPConnection("127.0.0.1", port)
        self._await_shards(len(folders))

    def close(self) -> None:
        self._connection.close()
        self._server.terminate()
        self._server.wait()
        self._index.cleanup()

    def size_mb(self) -> float:
        return sum(parts(Path(self._index.name)).values())

    def search(self, pattern: str, *, is_literal: bool) -> None:
        quoted = json.dumps(re.escape(pattern) if is_literal else pattern)
        self._ask({"Q": f"regex:{quoted} case:yes", "Opts": {"TotalMaxMatchCount": 1_000}})

    def _ask(self, request: dict[str, object]) -> Any:
        body = json.dumps(request)
        self._connection.request("POST", "/api/search", body, {"Content-Type": "application/json"})
        answer = self._connection.getresponse()
        held = answer.read()
        if answer.status != 200:
            raise SystemExit(f"zoekt: {answer.status} {held[:200]!r}")
        return json.loads(held)

    def _await_shards(self, count: int) -> None:
        for _ in range(300):
            with suppress(OSError, http.client.HTTPException):
                found = self._ask({"Q": "type:repo .", "Opts": {}})
                if len(found["Result"]["Files"] or ()) >= count:
                    return
            self._connection.close()
            time.sleep(0.1)
        raise SystemExit("zoekt did not load its index in time")


def compared(world: World, given: argparse.Namespace) -> None:
    """Print the percentiles of the time of each tool over the same words and expressions."""
    known = words(given.folders, given.count)
    sets = {
        "words": [(word, True) for word in known],
        "expressions": [(expression(word), False) for word in known],
    }
    zoekt = Zoekt(given.zoekt, given.folders) if given.zoekt else None
    if zoekt:
        print(json.dumps({"zoekt_index_mb": round(zoekt.size_mb(), 1)}))
    for name, patterns in sets.items():
        taken: defaultdict[str, list[float]] = defaultdict(list)
        for pattern, is_literal in patterns:  # the tools take turns, so that load affects all alike
            for tool, took_ms in by_each(world, given, zoekt, pattern, is_literal=is_literal):
                taken[tool].append(took_ms)
        for tool, times in taken.items():
            found = {f"p{p}_ms": round(percentile(times, p), 1) for p in (50, 95, 99)}
            print(
                json.dumps({"over": name, "tool": tool, "count": len(times), **found}), flush=True
            )
    if zoekt:
        zoekt.close()


def by_each(
    world: World, given: argparse.Namespace, zoekt: Zoekt | None, pattern: str, *, is_literal: bool
) -> Iterator[tuple[str, float]]:
    """Yield the time of each tool for one pattern, ms."""
    request = GrepRequest(pattern, literal=is_literal)
    before = time.process_time()
    took_ms, summary = asyncio.run(asked(world, request))
    yield "codelode, processor time", 1_000 * (time.process_time() - before)
    yield "codelode", took_ms
    if summary.complete:
        yield "codelode, complete answers", took_ms
    if given.rg:
        yield "ripgrep", by_ripgrep(given.rg, given.folders, request, times=1)
    if zoekt:
        started = time.perf_counter()
        zoekt.search(pattern, is_literal=is_literal)
        yield "zoekt", 1_000 * (time.perf_counter() - started)


def trigrams_bytes(folder: Path) -> float:
    """Return the size of a keyword index of the trigrams alone, MB."""
    from codelode.backends import words
    from codelode.backends.local import database, keyword_index, tables

    def no_terms(_: Chunk) -> str:
        return ""

    with tempfile.TemporaryDirectory() as made:
        keyword_index.create(Path(made) / "grams")
        writer = keyword_index.Writer(Path(made) / "grams")
        connection = database.connect(folder, is_writer=False)
        rows = [row for (row,) in connection.execute("SELECT row FROM chunks ORDER BY row")]
        for start in range(0, len(rows), 5_000):
            some = rows[start : start + 5_000]
            found = tables.by_first(connection, some)
            with mock.patch.multiple(
                words, name_terms=no_terms, content_terms=no_terms, summary_terms=no_terms
            ):
                writer.add(tables.chunks(connection, some), found)
        writer.commit()
        writer.close()
        return sum(parts(Path(made) / "grams").values())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folders", nargs="+", type=Path)
    parser.add_argument("--rg", default="")
    parser.add_argument("--zoekt", type=Path, help="folder of the programs of zoekt")
    parser.add_argument("--count", type=int, default=200, help="words, and expressions, to compare")
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
    compared(world, given)


if __name__ == "__main__":
    main()
