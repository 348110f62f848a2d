"""Measure speed: indexing through the whole job chain, search over gRPC, memory by process.

    python tests/bench/load.py [--quick] [--json FILE] [REPOSITORY ...]

Without repositories, the corpus is real code that every machine has: the installed Python packages
and the standard library of the Python that runs this program, committed to temporary git
repositories. The packages differ between machines, so the report has their files, lines, and bytes.
Packages are not divided. Repositories are indexed, the largest last, until the index has enough
chunks.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import random
import shutil
import subprocess
import sysconfig
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import embedded

from codelode import settings
from codelode.backends.local.inventory import LocalInventory
from codelode.client import Client
from codelode.operations.evaluation.metrics import percentile

FIRST_LINES = 50_000
REPOSITORY_FILES = 1_200  # so many that the start and end of a run hardly affect files/s
SUFFIXES = frozenset({".py", ".pyi", ".pyx", ".c", ".h", ".cpp", ".hpp", ".js", ".ts"})
MAX_FILE_BYTES = 1_000_000
THREADS = 8
WARM_UP = 20  # searches
FRESH_SEARCHES = 30  # of each kind, before the index is optimised

#: Time limit for the optimisation of the index in the background, seconds; searches are timed
#: before and after it.
SETTLE_LIMIT_S = 120
IDLE_CPU = 0.1  # of one core

#: Fixes identity and date, so that equal files give equal commits.
GIT_ENVIRONMENT = {
    "LC_ALL": "C",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": os.devnull,
    **{f"GIT_{who}_NAME": "bench" for who in ("AUTHOR", "COMMITTER")},
    **{f"GIT_{who}_EMAIL": "bench@example.org" for who in ("AUTHOR", "COMMITTER")},
    **{f"GIT_{who}_DATE": "2024-01-01T00:00:00Z" for who in ("AUTHOR", "COMMITTER")},
}

#: Kinds of queries → pattern of the lines of the corpus that are used as such queries.
QUERY_KINDS = {
    "words": r"^ *(#|//|\"\"\"|\*) ?[A-Z][a-z]+( [a-z]+){3,9}[.]?$",
    "identifier": r"^ *(async )?(def|class|func|function|fn|struct|interface) +[A-Za-z_]{6,}",
    "code": r"^ +[A-Za-z_.]+ ?= ?[A-Za-z_.]{4,}\(.{4,60}\)$",
}


@dataclass(frozen=True, slots=True)
class Repository:
    """A git repository to index, and its size."""

    name: str
    path: Path
    files: int
    lines: int
    bytes: int


@dataclass(frozen=True, slots=True)
class Indexing:
    """The indexing of a repository, from the call until a search found something in it."""

    repository: Repository
    seconds: float
    files: int  # that passed through the chain
    skipped: int
    failed: int
    chunks: int


@dataclass(frozen=True, slots=True)
class Scale:
    """The extent of a measurement."""

    chunks: int
    queries: int
    limit_s: float  # no repository is started after this time


FULL = Scale(chunks=60_000, queries=600, limit_s=420)
QUICK = Scale(chunks=8_000, queries=150, limit_s=60)


def main(arguments: Sequence[str] | None = None) -> None:
    options = _options(arguments)
    scale = QUICK if options.quick else FULL
    with tempfile.TemporaryDirectory(prefix="codelode-bench-") as scratch:
        folder = Path(scratch)
        data = folder / "data"
        data.mkdir()
        corpus = given(options.repositories) or _from_python(folder / "corpus")
        local = ":".join([str(folder), *(str(path.resolve()) for path in options.repositories)])
        facts = embedded.machine()
        with (
            embedded.running(data, workers=options.workers, local_paths=local) as cluster,
            Client(cluster.address, timeout_s=60) as client,
        ):
            report = _measure(client, cluster, corpus, scale) | {"facts": facts}
    print(_text(report))
    if options.json:
        options.json.parent.mkdir(parents=True, exist_ok=True)
        options.json.write_text(json.dumps(report, indent=1, default=_name))


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("repositories", nargs="*", type=Path, help="git folders to use instead")
    parser.add_argument("--quick", action="store_true", help="two minutes instead of ten")
    parser.add_argument("--workers", type=int, default=0, help="of the embedded cluster")
    parser.add_argument("--json", type=Path, help="write the figures here as well")
    return parser.parse_args(arguments)


def _measure(
    client: Client, cluster: embedded.Cluster, corpus: Iterator[Repository], scale: Scale
) -> dict[str, Any]:
    started = time.monotonic()
    first = _index(client, next(corpus))
    unchanged_s = _unchanged(client, first.repository)
    again = _second_copy(client, first)
    more: list[Indexing] = []
    while time.monotonic() - started < scale.limit_s and client.status().chunks < scale.chunks:
        repository = next(corpus, None)
        if repository is None:
            break
        more.append(_index(client, repository))
    indexings = [first, *more]
    queries = queries_of([one.repository for one in indexings], scale.queries)
    fresh = _search(client, {kind: texts[:FRESH_SEARCHES] for kind, texts in queries.items()})
    settled_s = _settle(cluster)
    before = _gateway_cpu_s(cluster)
    search = _search(client, queries)
    spent_s = _gateway_cpu_s(cluster) - before
    return {
        "first": asdict(first),
        "unchanged_s": unchanged_s,
        "second_copy": {"seconds": again.seconds, "share": again.seconds / first.seconds},
        "indexings": [asdict(one) for one in indexings],
        "chunks": client.status().chunks,
        "search_fresh": fresh,
        "settled_s": settled_s,
        "search": search,
        "search_cpu_ms": 1_000 * spent_s / (search["all"]["n"] + WARM_UP),
        "throughput": _throughput(client, queries),
        "index_bytes": LocalInventory(cluster.data / "index").sizes(),
        "processes": [asdict(one) for one in embedded.processes(cluster.pid)],
    }


def _index(client: Client, repository: Repository) -> Indexing:
    before = client.status().chunks
    started = time.perf_counter()
    run = embedded.index(client, str(repository.path), name=repository.name, limit_s=600)
    if not client.search("open a file", repositories=[repository.name], skip_cache=True):
        raise SystemExit(f"{repository.name} was indexed but a search finds nothing in it")
    seconds = time.perf_counter() - started
    chunks = client.status().chunks - before
    return Indexing(repository, seconds, run.total, run.skipped, run.failed, chunks)


def _unchanged(client: Client, repository: Repository) -> float:
    started = time.perf_counter()
    run = embedded.index(client, str(repository.path), name=repository.name, limit_s=60)
    seconds = time.perf_counter() - started
    if run.total:
        raise SystemExit(f"{repository.name} is unchanged, yet {run.total} files were indexed")
    return seconds


def _second_copy(client: Client, first: Indexing) -> Indexing:
    """Index the same repository under another name; remove it, so that searches find it once."""
    name = f"{first.repository.name}-again"
    again = _index(client, replace(first.repository, name=name))
    if (again.files, again.chunks) != (first.files, first.chunks):
        raise SystemExit(f"{name} differs from its original: {again}, not {first}")
    client.remove(name)
    _await(lambda: client.status().chunks == first.chunks, f"{name} to be removed")
    return again


def _search(client: Client, queries: dict[str, list[str]]) -> dict[str, dict[str, float]]:
    """Return latencies at the caller by kind, ms: one search at a time, without the query cache."""
    timed = [(kind, text) for kind, texts in queries.items() for text in texts]
    random.Random(0).shuffle(timed)
    for _, text in timed[:WARM_UP]:
        client.search(text, skip_cache=True)
    by_kind: dict[str, list[float]] = defaultdict(list)
    for kind, text in timed:
        by_kind[kind].append(1_000 * _seconds(partial(client.search, text, skip_cache=True)))
    by_kind["all"] = [value for values in by_kind.values() for value in values]
    return {
        kind: {"n": len(values)} | {f"p{p}": percentile(values, p) for p in (50, 95, 99, 100)}
        for kind, values in by_kind.items()
    }


def _gateway_cpu_s(cluster: embedded.Cluster) -> float:
    return sum(one.cpu_s for one in embedded.processes(cluster.pid) if one.name == "gateway")


def _settle(cluster: embedded.Cluster) -> float:
    """Wait until the next optimisation was due and the cluster is idle; return the seconds."""
    started = time.monotonic()
    due = started + settings.load().maintain_interval_s
    while time.monotonic() < started + SETTLE_LIMIT_S:
        before = sum(one.cpu_s for one in embedded.processes(cluster.pid))
        time.sleep(2)
        spent = sum(one.cpu_s for one in embedded.processes(cluster.pid)) - before
        if time.monotonic() > due and spent < 2 * IDLE_CPU:
            break
    return time.monotonic() - started


def _await(condition: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + SETTLE_LIMIT_S
    while not condition():
        if time.monotonic() > deadline:
            raise SystemExit(f"{what} took longer than {SETTLE_LIMIT_S} s")
        time.sleep(embedded.POLL_S)


def _throughput(client: Client, queries: dict[str, list[str]]) -> dict[str, float]:
    """Return the number of searches per second with several callers at once."""
    texts = [text for texts in queries.values() for text in texts][::2]
    search = partial(client.search, skip_cache=True)
    with ThreadPoolExecutor(THREADS) as pool:
        seconds = _seconds(lambda: list(pool.map(search, texts)))
    return {"callers": THREADS, "searches": len(texts), "per_s": len(texts) / seconds}


def _seconds(action: Callable[[], object]) -> float:
    started = time.perf_counter()
    action()
    return time.perf_counter() - started


def queries_of(repositories: Sequence[Repository], count: int) -> dict[str, list[str]]:
    """Return the same number of queries of each kind, sampled from lines; deterministic."""
    draw = random.Random(0)
    found = {kind: _matching(repositories, pattern) for kind, pattern in QUERY_KINDS.items()}
    each = count // len(found)
    return {
        kind: [_query(kind, line) for line in draw.sample(lines, min(each, len(lines)))]
        for kind, lines in found.items()
    }


def _matching(repositories: Sequence[Repository], pattern: str) -> list[str]:
    lines: set[str] = set()
    for repository in repositories:
        out = _git(repository.path, "grep", "-h", "-I", "-E", "-e", pattern, "HEAD", check=False)
        lines.update(out.splitlines())
    return sorted(lines)


def _query(kind: str, line: str) -> str:
    if kind == "words":
        return line.strip(' #/"*.')
    if kind == "identifier":
        return line.split("(")[0].split(":")[0].split()[-1]
    return line.strip()


def given(paths: Sequence[Path]) -> Iterator[Repository] | None:
    return (_described(path.name, path.resolve()) for path in paths) if paths else None


def _from_python(folder: Path) -> Iterator[Repository]:
    """Yield a repository of about 50,000 lines, then repositories of whole packages."""
    pool = sorted(_python_sources(), key=lambda item: item[0])
    first = _first_lines(pool)
    yield _committed(folder / "first", first)
    taken = {label for label, _ in first}
    for number, batch in enumerate(_batches([item for item in pool if item[0] not in taken]), 1):
        yield _committed(folder / f"packages-{number}", batch)


def _python_sources() -> Iterator[tuple[str, Path]]:
    """Yield (path in the repository, file) for installed packages and the standard library."""
    for kind in ("purelib", "stdlib"):
        base = Path(sysconfig.get_path(kind))
        for file in base.rglob("*"):
            inside = file.relative_to(base)
            if kind == "stdlib" and "site-packages" in inside.parts:
                continue
            if file.suffix in SUFFIXES and file.is_file() and file.stat().st_size < MAX_FILE_BYTES:
                yield f"{kind}/{inside.as_posix()}", file


def _first_lines(pool: Sequence[tuple[str, Path]]) -> list[tuple[str, Path]]:
    """Return a random sample of files, by the hashes of their names, with enough lines."""
    chosen, lines = [], 0
    for label, file in sorted(pool, key=lambda item: hashlib.sha256(item[0].encode()).digest()):
        if lines >= FIRST_LINES:
            break
        chosen.append((label, file))
        lines += file.read_bytes().count(b"\n")
    return chosen


def _batches(pool: Sequence[tuple[str, Path]]) -> Iterator[list[tuple[str, Path]]]:
    packages: dict[str, list[tuple[str, Path]]] = defaultdict(list)
    for label, file in pool:
        packages["/".join(label.split("/")[:2])].append((label, file))
    batch: list[tuple[str, Path]] = []
    for package in sorted(packages):
        batch += packages[package]
        if len(batch) >= REPOSITORY_FILES:
            yield batch
            batch = []
    if batch:
        yield batch


def _committed(folder: Path, files: Sequence[tuple[str, Path]]) -> Repository:
    for label, file in files:
        target = folder / label
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(file, target)
    _git(folder, "init", "-q", "-b", "main")
    _git(folder, "add", "-A", "-f")
    _git(folder, "commit", "-q", "-m", "The code that is installed here")
    return _described(folder.name, folder)


def _name(repository: Path) -> str:
    """Return the name of a repository, from its folder."""
    return repository.name


def _described(name: str, path: Path) -> Repository:
    sizes = [
        int(fields[3])
        for line in _git(path, "ls-tree", "-r", "-l", "HEAD").splitlines()
        if (fields := line.split(maxsplit=4))[3].isdigit()
    ]
    empty_tree = _git(path, "hash-object", "-t", "tree", os.devnull).strip()
    changes = _git(path, "diff", "--shortstat", empty_tree, "HEAD")
    lines = next((int(part.split()[0]) for part in changes.split(",") if "insertion" in part), 0)
    return Repository(name, path, files=len(sizes), lines=lines, bytes=sum(sizes))


def _git(folder: Path, *arguments: str, check: bool = True) -> str:
    return subprocess.run(
        ["git", "-C", str(folder), *arguments],
        capture_output=True,
        check=check,
        env=os.environ | GIT_ENVIRONMENT,
    ).stdout.decode(errors="replace")


def _text(report: dict[str, Any]) -> str:
    first = report["first"]
    large = [one for one in report["indexings"] if one["files"] >= 500]
    rows: dict[str, object] = {
        f"{first['repository']['lines']:,} lines, index to searchable": f"{first['seconds']:.1f} s",
        "unchanged again": f"{report['unchanged_s']:.2f} s",
        "second copy": "{seconds:.1f} s, {share:.2f} of the first's".format(
            **report["second_copy"]
        ),
        "files through the chain": _rate(large, "files"),
        "chunks through the chain": _rate(large, "chunks"),
        f"search, {report['chunks']:,} chunks, cache off": _latency(report["search"]["all"]),
        "  right after indexing": _latency(report["search_fresh"]["all"]),
    }
    rows |= {
        f"  {kind}": _latency(values) for kind, values in report["search"].items() if kind != "all"
    }
    rows["  processor time of the gateway"] = f"{report['search_cpu_ms']:.1f} ms a search"
    source = sum(one["repository"]["bytes"] for one in report["indexings"])
    rows["index, times the size of the files"] = ", ".join(
        f"{part} {size / source:.2f}" for part, size in report["index_bytes"].items()
    )
    rows["search, several callers"] = "{callers} callers: {per_s:.0f}/s".format(
        **report["throughput"]
    )
    rows |= _costs(report["processes"])
    for one in report["indexings"]:
        rows[f"corpus {one['repository']['name']}"] = (
            "{files:,} files, {lines:,} lines, {bytes:,} bytes".format(**one["repository"])
            + f" → {one['chunks']:,} chunks in {one['seconds']:.1f} s"
            + f" ({one['skipped']} skipped, {one['failed']} failed)"
        )
    return embedded.table(rows | report["facts"])


def _costs(processes: Sequence[dict[str, Any]]) -> dict[str, object]:
    """Return memory and CPU by name; processes with the same name share a row."""
    by_name: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for one in processes:
        by_name[one["name"]].append(one)
    return {
        f"process {name}" + (f" ×{len(group)}" if len(group) > 1 else ""): (
            f"{sum(one['pss'] for one in group) >> 20} MiB PSS, "
            f"{max(one['peak_rss'] for one in group) >> 20} MiB peak RSS of one, "
            f"{sum(one['cpu_s'] for one in group):.1f} s CPU"
        )
        for name, group in by_name.items()
    }


def _rate(indexings: Sequence[dict[str, Any]], unit: str) -> str:
    if not indexings:
        return "not measured: no repository of 500 files"
    total, seconds = sum(one[unit] for one in indexings), sum(one["seconds"] for one in indexings)
    return f"{total / seconds:.0f}/s ({total:,} in {seconds:.1f} s)"


def _latency(values: dict[str, float]) -> str:
    return "p50 {p50:.1f} ms, p95 {p95:.1f} ms, p99 {p99:.1f} ms, n {n}".format(**values)


if __name__ == "__main__":
    main()
