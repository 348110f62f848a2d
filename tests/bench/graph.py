"""Measure memory and time of the dependency graph and the symbol table in Redis.

    python tests/bench/graph.py [--edges 1000000] [--seconds 300]

Fills a new server with a power-law graph (few files that most others import, as in real
repositories), then reports bytes per edge, writes per second, and how long walks take. Stops
filling after `--seconds`; every figure is reported with the number of edges at that time.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from codelode.backends.redis.connection import connect
from codelode.backends.redis.graph import RedisGraph
from codelode.backends.redis.symbols import RedisSymbols
from codelode.cli import redis_server
from codelode.graph import walk
from codelode.model import DEFAULT_REF, Edge, EdgeKind, Kind, Symbol

REPO = "bench/monorepo"
EDGES_PER_FILE = 10
SYMBOLS_PER_FILE = 20
SYMBOL_FILES = 5_000
WALKS = 200
SEED = 1


def main(argv=None):
    arguments = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    arguments.add_argument("--edges", type=int, default=1_000_000)
    arguments.add_argument("--seconds", type=float, default=300.0)
    options = arguments.parse_args(argv)
    with (
        tempfile.TemporaryDirectory() as folder,
        redis_server.place_in(Path(folder)) as place,
    ):
        command = redis_server.command(place, binary=redis_server.locate())
        with subprocess.Popen(command, stdout=subprocess.DEVNULL) as server:
            try:
                redis_server.wait_ready(redis_server.url(place))
                with connect(redis_server.url(place)) as client:
                    report = {
                        "machine": f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}",
                        "graph": graph_figures(client, options.edges, options.seconds),
                        "symbols": symbol_figures(client),
                    }
            finally:
                server.terminate()
    json.dump(report, sys.stdout, indent=2)
    print()


def graph_figures(client, edges, seconds):
    graph = RedisGraph(client)
    files = [path_of(number) for number in range(edges // EDGES_PER_FILE)]
    before = used(client)
    written, distinct, took = fill(graph, files, seconds)
    total = used(client) - before
    adjacency = sum(
        client.memory_usage(key, samples=0)
        for side in "oi"
        for key in client.scan_iter(f"codelode:graph:{{{REPO}}}:{side}:*", count=1000)
    )
    return {
        "files": written,
        "edges": distinct,
        "bytes_per_edge_adjacency": round(adjacency / distinct, 1),
        "bytes_per_edge_with_names": round(total / distinct, 1),
        "files_replaced_per_s": round(written / took),
        "unchanged_replaced_per_s": round(rate_of_repeats(graph, files, written)),
        "walks_ms": {
            f"{'incoming' if reverse else 'outgoing'} depth {depth}": walk_times(
                graph, files[:written], depth, reverse
            )
            for reverse in (True, False)
            for depth in (1, 2, 3)
        },
        "hub_incoming_ms": hub_time(graph, files[0]),
    }


def fill(graph, files, seconds):
    started, distinct = time.perf_counter(), 0
    for number, path in enumerate(files):
        edges = edges_of(number, files)
        graph.replace(REPO, [DEFAULT_REF], {path: edges})
        distinct += len(edges)
        if time.perf_counter() - started > seconds:
            break
    return number + 1, distinct, time.perf_counter() - started


def edges_of(number, files):
    """Return targets drawn by a power law, always the same for the same file."""
    chance = random.Random(SEED * 1_000_003 + number)
    targets = {int(len(files) * chance.random() ** 4) for _ in range(EDGES_PER_FILE)}
    return [Edge(files[number], files[target], EdgeKind.IMPORTS) for target in sorted(targets)]


def rate_of_repeats(graph, files, written):
    count = min(2000, written)
    started = time.perf_counter()
    for number in range(count):
        graph.replace(REPO, [DEFAULT_REF], {files[number]: edges_of(number, files)})
    return count / (time.perf_counter() - started)


def walk_times(graph, files, depth, reverse):
    chance, times, found = random.Random(SEED), [], []
    for _ in range(WALKS):
        start = [chance.choice(files)]
        started = time.perf_counter()
        reached, _ = walk(graph, REPO, DEFAULT_REF, start, depth=depth, reverse=reverse, limit=200)
        times.append((time.perf_counter() - started) * 1000)
        found.append(len(reached))
    return {**percentiles(times), "edges_mean": round(statistics.mean(found), 1)}


def hub_time(graph, path):
    started = time.perf_counter()
    edges = graph.incoming(REPO, DEFAULT_REF, [path])[path]
    return {"in_degree": len(edges), "ms": round((time.perf_counter() - started) * 1000, 1)}


def symbol_figures(client):
    table, chance = RedisSymbols(client), random.Random(SEED)
    before, started = used(client), time.perf_counter()
    for number in range(SYMBOL_FILES):
        table.replace(REPO, [DEFAULT_REF], {path_of(number): symbols_of(number, chance)})
    took = time.perf_counter() - started
    total = used(client) - before
    rare = lookup_times(table, [f"load_{chance.randrange(SYMBOL_FILES)}_3" for _ in range(WALKS)])
    common = lookup_times(table, ["__init__"] * 5)
    return {
        "symbols": SYMBOL_FILES * SYMBOLS_PER_FILE,
        "bytes_per_symbol": round(total / (SYMBOL_FILES * SYMBOLS_PER_FILE)),
        "files_replaced_per_s": round(SYMBOL_FILES / took),
        "lookup_rare_ms": rare,
        f"lookup_of_a_name_in_{SYMBOL_FILES}_files_ms": common,
    }


def symbols_of(number, chance):
    names = ["__init__", *(f"load_{number}_{place}" for place in range(1, SYMBOLS_PER_FILE))]
    return [
        Symbol(
            name=name,
            qualified_name=f"Repository{number}.{name}",
            kind=Kind.METHOD,
            signature=f"def {name}(self, path: str, *, timeout_s: float = 3.0) -> tuple[str, ...]",
            start_line=10 * place + 1,
            end_line=10 * place + 1 + chance.randrange(9),
            is_exported=True,
            doc="The entries below the path, oldest first.",
        )
        for place, name in enumerate(names)
    ]


def lookup_times(table, names):
    times = []
    for name in names:
        started = time.perf_counter()
        table.lookup(name, repositories=[REPO], ref=DEFAULT_REF)
        times.append((time.perf_counter() - started) * 1000)
    return percentiles(times)


def percentiles(times):
    times = sorted(times)
    return {
        "p50": round(times[len(times) // 2], 2),
        "p95": round(times[int(len(times) * 0.95)], 2),
    }


def path_of(number):
    return f"src/area{number % 97}/package{number % 1009}/module_{number}.py"


def used(client):
    return client.info("memory")["used_memory"]


if __name__ == "__main__":
    main()
