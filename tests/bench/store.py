"""Measure the embedded chunk store alone: write rate, index time, search time, memory, recall.

    python tests/bench/store.py --chunks 60000

The corpus is synthetic and the same on every machine: 60 repositories, 1 kB of code-like text per
chunk, and words of a Zipf distribution with topics. The vector of a chunk is the weighted sum of
random vectors of its words, as that of a static embedder is. Searches run in a separate process, as
in the gateway; recall is relative to an exact comparison with every vector.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from pathlib import Path

import numpy as np

from codelode.access import EVERYTHING
from codelode.backends.local import LocalChunkSearch, LocalChunkStore
from codelode.model import (
    DEFAULT_REF,
    Category,
    Chunk,
    FileChunks,
    Filters,
    HybridQuery,
    Kind,
    RefName,
    RepositoryName,
    chunk_id,
)

DIM = 256
REPOSITORIES = 60
CHUNKS_PER_FILE = 8
FILES_PER_CALL = 128
TOPICS = 300
LETTERS = "abcdefghijklmnopqrstuvwxyz"
IDENTITY = "bench"
REFS = (DEFAULT_REF, RefName("main"))


@dataclass(frozen=True)
class Query:
    text: str
    vector: np.ndarray
    repository: RepositoryName


class Corpus:
    """Files of identifiers of one to three words, drawn by Zipf's law and the topic of the file."""

    def __init__(self, *, seed: int = 1, vocabulary: int = 20_000) -> None:
        self._rng = np.random.default_rng(seed)
        lengths = self._rng.integers(2, 8, 4_000)
        words = ["".join(self._rng.choice(list(LETTERS), n)) for n in lengths]
        counts = self._rng.integers(1, 4, vocabulary)
        self.words = np.array(["_".join(self._rng.choice(words, n)) for n in counts])
        share = 1 / np.arange(1, vocabulary + 1) ** 0.9
        self._share = share / share.sum()
        self._total = np.cumsum(self._share)
        self._weight = (np.log(self._share) ** 2).astype(np.float32)
        self._direction = self._rng.standard_normal((vocabulary, DIM), np.float32)
        self._topics = self._rng.integers(0, vocabulary, (TOPICS, 150))

    def files(
        self, chunks: int, *, per_file: int = CHUNKS_PER_FILE
    ) -> Iterator[tuple[FileChunks, list[np.ndarray]]]:
        files = chunks // per_file
        for number in range(files):
            drawn = [self._draw(number % TOPICS) for _ in range(per_file)]
            repository = RepositoryName(f"acme/r{number * REPOSITORIES // files}")
            path = f"src/{self.words[drawn[0][0]]}/{self.words[drawn[0][1]]}_{number}.py"
            made = [_chunk(repository, path, i, self.words[ids]) for i, ids in enumerate(drawn)]
            vectors = np.stack([self.vector(ids) for ids in drawn])
            yield FileChunks(repository, path, REFS, tuple(made), vectors), drawn

    def query(self, file: FileChunks, drawn: list[np.ndarray]) -> Query:
        ids = self._rng.choice(drawn[0], 5, replace=False)
        return Query(" ".join(self.words[ids]), self.vector(ids), file.repository)

    def vector(self, ids: np.ndarray) -> np.ndarray:
        total = (self._weight[ids, None] * self._direction[ids]).sum(axis=0)
        return total / np.linalg.norm(total)

    def _draw(self, topic: int) -> np.ndarray:
        common = np.searchsorted(self._total[:-1], self._rng.random(60), side="right")
        own = self._topics[topic][(self._rng.random(40) ** 2 * 150).astype(int)]
        return self._rng.permutation(np.concatenate([common, own]))


def _chunk(repository: RepositoryName, path: str, index: int, words: np.ndarray) -> Chunk:
    name = words[0]
    lines = [f"def {name}(self):"]
    lines += [f"    {a} = self.{b}({c}, {d})" for a, b, c, d in words.reshape(-1, 4)]
    start, content = index * 30 + 1, "\n".join(lines)
    return Chunk(
        id=chunk_id(repository, path, start, content),
        repository=repository,
        path=path,
        refs=REFS,
        language="python",
        category=Category.SOURCE,
        kind=Kind.FUNCTION,
        symbol=name,
        symbols=(name,),
        header=f"def {name}",
        start_line=start,
        end_line=start + len(lines) - 1,
        content=content,
    )


def write(folder: Path, chunks: int, queries: int) -> None:
    """Fill the store; save queries and their exact results in the folder."""
    corpus, store = Corpus(), LocalChunkStore(folder / "index", dim=DIM, identity=IDENTITY)
    asked: list[Query] = []
    ids, vectors, batch, calls = [], [], [], []
    every = max(1, chunks // CHUNKS_PER_FILE // (2 * queries))
    for number, (file, drawn) in enumerate(corpus.files(chunks)):
        ids += [chunk.id for chunk in file.chunks]
        vectors.append(file.vectors)
        batch.append(file)
        if number % every == 0 and len(asked) < 2 * queries:
            asked.append(corpus.query(file, drawn))
        if len(batch) == FILES_PER_CALL:
            calls.append(_timed(partial(store.replace, batch)))
            batch = []
    calls.append(_timed(partial(store.replace, batch)))
    spent, used = np.sum(calls, axis=0)
    report("replace, fresh files", f"{len(ids) / spent:.0f} chunks/s, load {load():.1f}")
    report("processor time of it", f"{used / len(ids) * 1e3:.2f} ms/chunk")
    report("longest replace", f"{max(calls)[0] * 1e3:.0f} ms")
    report("size of the index", f"{_size_mb(folder / 'index')} MB")
    report("memory after writing", f"{peak_mb()} MB at most")
    _truth(folder, asked, ids, np.concatenate(vectors))


def fold(folder: Path, chunks: int) -> None:
    """Measure maintenance: of all rows, after a change of 1 % of the files, and with few rows."""
    store = LocalChunkStore(folder / "index", dim=DIM, identity=IDENTITY)
    report("maintain, all rows new", _spent(store.maintain))
    report("maintain, nothing new", _spent(store.maintain))
    some = max(1, chunks // CHUNKS_PER_FILE // 100)
    files = [file for file, _ in islice(Corpus().files(chunks), some)]
    changed = list(map(_changed, files))
    report(f"replace, {some} changed files", _spent(partial(store.replace, changed)))
    report(f"replace, {some} same files", _spent(partial(store.replace, changed)))
    store.replace(files)
    report("maintain, few rows left", _spent(store.maintain))
    report("memory of the writer", f"{peak_mb()} MB at most")


def _changed(file: FileChunks) -> FileChunks:
    """Return the file with another line in each chunk."""
    contents = [f"{chunk.content}\n    return changed" for chunk in file.chunks]
    chunks = tuple(
        chunk._replace(
            id=chunk_id(chunk.repository, chunk.path, chunk.start_line, content),
            content=content,
        )
        for chunk, content in zip(file.chunks, contents, strict=True)
    )
    return replace(file, chunks=chunks)


def search(folder: Path) -> None:
    asyncio.run(_search(folder))


async def _search(folder: Path) -> None:
    chunks = LocalChunkSearch(folder / "index", dim=DIM, identity=IDENTITY)
    queries, unseen = _halves(_queries(folder))
    truth = json.loads((folder / "truth.json").read_text())
    for query in queries[:20]:
        await chunks.hybrid(_hybrid(query, Filters()))
    recall = []
    for query, exact in zip(queries, truth[::2], strict=True):
        found = await chunks.hybrid(_hybrid(query, Filters()))
        near = {hit.chunk.id for hit in found if hit.similarity is not None}
        recall.append(len(near.intersection(exact)) / len(exact))
    report("recall@100 of the vectors", f"{np.mean(recall):.3f}")
    shapes = {
        "hybrid": lambda q: _hybrid(q, Filters()),
        "hybrid, one repository": lambda q: _hybrid(q, Filters(repositories=(q.repository,))),
        "hybrid, path glob": lambda q: _hybrid(q, Filters(paths=("src/**/*_1*.py",))),
        "hybrid, symbol glob": lambda q: _hybrid(q, Filters(symbols=("a*",))),
        "keywords only": lambda q: HybridQuery(q.text, None, Filters(), 100, visible=EVERYTHING),
        "vector only": lambda q: HybridQuery("", q.vector, Filters(), 100, visible=EVERYTHING),
        "hybrid, 64 terms": lambda q: HybridQuery(
            " ".join(other.text for other in queries[:13]),
            q.vector,
            Filters(),
            100,
            visible=EVERYTHING,
        ),
    }
    for name, shape in shapes.items():
        used = time.process_time()
        times = [await _milliseconds(chunks, shape(query)) for query in unseen]
        used = (time.process_time() - used) / len(unseen) * 1e3
        p50, p99 = np.percentile(times, (50, 99))
        report(name, f"p50 {p50:.1f} ms, p99 {p99:.1f} ms, {used:.1f} ms of processor time")
    report("memory of the searcher", f"{peak_mb()} MB at most, {_anonymous_mb()} MB its own now")


def _halves(queries: list[Query]) -> tuple[list[Query], list[Query]]:
    """Return every other query, for recall and warm-up, and the rest, to be timed."""
    return queries[::2], queries[1::2]


async def _milliseconds(chunks: LocalChunkSearch, query: HybridQuery) -> float:
    start = time.perf_counter()
    await chunks.hybrid(query)
    return (time.perf_counter() - start) * 1e3


def _hybrid(query: Query, filters: Filters) -> HybridQuery:
    return HybridQuery(query.text, query.vector, filters, 100, visible=EVERYTHING)


def _truth(folder: Path, queries: list[Query], ids: list[str], vectors: np.ndarray) -> None:
    asked = np.stack([query.vector for query in queries])
    nearest = np.argsort(-(asked @ vectors.T), axis=1)[:, :100]
    np.save(folder / "asked.npy", asked)
    (folder / "truth.json").write_text(json.dumps([[ids[i] for i in row] for row in nearest]))
    words = [(query.text, query.repository) for query in queries]
    (folder / "queries.json").write_text(json.dumps(words))


def _queries(folder: Path) -> list[Query]:
    asked = np.load(folder / "asked.npy")
    words = json.loads((folder / "queries.json").read_text())
    return [Query(text, v, RepositoryName(r)) for (text, r), v in zip(words, asked, strict=True)]


def _timed(action) -> tuple[float, float]:
    """Return the elapsed time and the processor time, seconds."""
    start, used = time.perf_counter(), time.process_time()
    action()
    return time.perf_counter() - start, time.process_time() - used


def _spent(action) -> str:
    passed, used = _timed(action)
    return f"{passed * 1e3:.0f} ms, {used * 1e3:.0f} ms of processor time"


def _size_mb(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()) >> 20


def peak_mb() -> int:
    return _status("VmHWM")


def _anonymous_mb() -> int:
    return _status("RssAnon")


def _status(field: str) -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) // 1024 for line in lines if line.startswith(field))


def load() -> float:
    """Return the load of the machine; if it exceeds the cores, times mean little."""
    return os.getloadavg()[0]


def report(what: str, value: str) -> None:
    print(f"{what:28}{value}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--chunks", type=int, default=60_000)
    parser.add_argument("--queries", type=int, default=200)
    parser.add_argument("--folder", type=Path, help="keep the index here; default: none is kept")
    parser.add_argument("--step", choices=("write", "fold", "search"), help="one step only")
    given = parser.parse_args()
    folder = given.folder or Path(tempfile.mkdtemp(prefix="store-bench-"))
    folder.mkdir(parents=True, exist_ok=True)
    try:
        _run(given, folder)
    finally:
        if given.folder is None:
            shutil.rmtree(folder)


def _run(given: argparse.Namespace, folder: Path) -> None:
    steps = {
        "write": lambda: write(folder, given.chunks, given.queries),
        "fold": lambda: fold(folder, given.chunks),
        "search": lambda: search(folder),
    }
    if given.step:
        steps[given.step]()
        return
    for step in steps:  # in separate processes, because their memory is measured
        passed = ["--folder", str(folder), "--chunks", str(given.chunks), "--step", step]
        subprocess.run([sys.executable, __file__, *passed], check=True)


if __name__ == "__main__":
    main()
