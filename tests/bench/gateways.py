"""Searches per second with one gateway and with several, `codelode up --gateways N`.

    python tests/bench/quality.py --eval DIR --corpora FOLDER --data DATA
    python tests/bench/gateways.py --eval DIR --data DATA [--counts 1,2] [--callers 4]

Asks the judged queries from the index that `quality.py` left in DATA, the query cache left out.
Each caller is a process with a connection of its own, because a connection stays with one gateway.
The numbers of gateways take turns, so that a busy machine is as busy for each of them.
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

ROUNDS = 2


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
        call = partial(_searches, cluster.address, texts, options.seconds)
        with ProcessPoolExecutor(options.callers, mp_context=get_context("spawn")) as pool:
            list(pool.map(partial(_searches, cluster.address, texts, 1.0), range(options.callers)))
            before = _cpu_s(cluster)
            searches = sum(pool.map(call, range(options.callers)))
            spent_s = _cpu_s(cluster) - before
    return (
        f"{searches / options.seconds:.0f} searches/s, "
        f"{1_000 * spent_s / searches:.1f} ms of processor time a search"
    )


def _searches(address: str, texts: Sequence[str], seconds: float, seed: int) -> int:
    """Count the searches that one caller has answered in this time."""
    shuffled = random.Random(seed).sample(texts, len(texts))
    ends_at, count = time.monotonic() + seconds, 0
    with Client(address, timeout_s=60) as client:
        while time.monotonic() < ends_at:
            client.search(shuffled[count % len(shuffled)], skip_cache=True)
            count += 1
    return count


def _cpu_s(cluster: embedded.Cluster) -> float:
    """Return the processor time of all gateways since they started, seconds."""
    return sum(one.cpu_s for one in embedded.processes(cluster.pid) if one.name == "gateway")


if __name__ == "__main__":
    main()
