"""Measure the rate and times of searches with one gateway and with several (`up --gateways N`).

    python tests/bench/quality.py --eval DIR --corpora FOLDER --data DATA
    python tests/bench/gateways.py --eval DIR --data DATA [--counts 1,2] [--callers 4]

Sends the judged queries to the index that `quality.py` left in DATA, without the query cache. Each
caller is a process with its own connection, because a connection stays with one gateway. The
numbers of gateways are measured in turns, so that the load of the machine affects them alike. Times
are those of the callers, first of one caller alone, then of all callers at once. Memory is the
proportional set size, in which memory that processes share counts once for all of them.
"""

from __future__ import annotations

import argparse
import os
import random
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from pathlib import Path

import embedded
import quality

from codelode.client import Client
from codelode.operations.evaluation.metrics import percentile

ROUNDS = 2
WARM_S = 3.0


def main(arguments: Sequence[str] | None = None) -> None:
    options = _options(arguments)
    entries = quality.judged_entries(options.eval)
    texts = [query["query"] for entry in entries for query in entry["queries"]]
    rows: dict[str, object] = {}
    for turn in range(1, ROUNDS + 1):
        for count in options.counts:
            load = os.getloadavg()[0]
            measured = _measure(count, texts, options)
            rows[f"gateways {count}, round {turn}"] = f"{measured}, load before {load:.1f}"
    print(embedded.table(rows | embedded.machine()))


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--eval", type=Path, required=True, help="annotations, or their folder")
    parser.add_argument("--data", type=Path, required=True, help="data folder with an index")
    parser.add_argument("--counts", type=_numbers, default=(1, 2), help="numbers of gateways")
    parser.add_argument("--callers", type=int, default=4, help="processes that call")
    parser.add_argument("--seconds", type=float, default=10, help="of each measurement")
    return parser.parse_args(arguments)


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(map(int, text.split(",")))


def _measure(count: int, texts: Sequence[str], options: argparse.Namespace) -> str:
    with embedded.running(options.data.resolve(), workers=1, gateways=count) as cluster:
        call = partial(_times, cluster.address, texts, options.seconds)
        callers = range(options.callers)
        with ProcessPoolExecutor(options.callers, mp_context=get_context("spawn")) as pool:
            list(pool.map(partial(_times, cluster.address, texts, WARM_S), callers))
            alone = pool.submit(call, options.callers).result()
            before = _cpu_s(cluster)
            taken = [one for times in pool.map(call, callers) for one in times]
            spent_s = _cpu_s(cluster) - before
        gateways = [one for one in embedded.processes(cluster.pid) if one.name == "gateway"]
    return (
        f"alone {_percentiles(alone)}; {options.callers} callers {_percentiles(taken)}, "
        f"{len(taken) / options.seconds:.0f} searches/s, "
        f"{1_000 * spent_s / len(taken):.1f} ms of processor time a search; "
        f"memory {', '.join(f'{one.pss / 1e6:.0f}' for one in gateways)} MB"
    )


def _times(address: str, texts: Sequence[str], seconds: float, seed: int) -> list[float]:
    """Search for this many seconds; return the time of each search, ms."""
    shuffled = random.Random(seed).sample(texts, len(texts))
    ends_at, times = time.monotonic() + seconds, list[float]()
    with Client(address, timeout_s=60) as client:
        while time.monotonic() < ends_at:
            started = time.perf_counter()
            client.search(shuffled[len(times) % len(shuffled)], skip_cache=True)
            times.append(1_000 * (time.perf_counter() - started))
    return times


def _percentiles(milliseconds: Sequence[float]) -> str:
    found = (f"p{p} {percentile(milliseconds, p):.1f}" for p in (50, 95, 99))
    return f"{', '.join(found)} ms"


def _cpu_s(cluster: embedded.Cluster) -> float:
    """Return the processor time of all gateways since they started, seconds."""
    return sum(one.cpu_s for one in embedded.processes(cluster.pid) if one.name == "gateway")


if __name__ == "__main__":
    main()
