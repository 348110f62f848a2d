"""Make half of an organisation's repositories visible to a reader, and follow their regrouping.

    . .services/env && python tests/bench/regrouping.py [--repositories N] [--json FILE]

The host is the GitHub of the tests, in a separate process; each repository has one small file. A
cluster with Weaviate discovers and indexes them without labels. Then a random half of them becomes
internal, and a key that sees these searches, in turns with the admin. Because its filter is a long
list of names, the workers begin to regroup by themselves. The key goes on searching meanwhile. When
the regrouping has ended, both search in turns again.

Each query is the name of a function that one repository defines, and others have functions with
similar names. Every answer is checked: the reader gets hits in visible repositories only, and if it
sees the repository of the query, that one is first.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import random
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from uuid import uuid4

import numpy as np
from clustered_chain import clean
from clustered_store import address_of_services, processor_s
from embedded import machine, running
from organisation import Stores, Times, awaited, serve

from codelode.backends import registry
from codelode.backends.weaviate import TenantIndex
from codelode.client import Client
from codelode.regrouping import RegroupingState

SEARCHES, WARM_UP = 220, 20
TOP_K = 20
LABELLING = 32  # calls at once
POLL_S = 0.5

Figures = dict[str, object]


class Asking:
    """The searches of the admin and of a reader who sees some repositories, which are checked."""

    def __init__(self, admin: Client, reader: Client, numbers: Sequence[int], seen: set[int]):
        self._clients = {"admin": admin, "reader": reader}
        self._numbers, self._seen = numbers, sorted(seen)
        self._visible = {
            who: {*map(_name, some)} for who, some in (("admin", numbers), ("reader", seen))
        }
        self._dice = random.Random(3)
        self.wrong: list[str] = []

    def __call__(self, who: str, number: int) -> float:
        """Search for a function of the repository, and return the milliseconds it took."""
        started = time.perf_counter()
        found = self._clients[who].search(f"work_{number}_{number}", top_k=TOP_K, skip_cache=True)
        took_ms = (time.perf_counter() - started) * 1e3
        hits = [hit.repository for hit in found.hits]
        name, visible = _name(number), self._visible[who]
        copies = [copy.repository for hit in found.hits for copy in hit.copies]
        is_missed = name in visible and hits[:1] != [name]
        if is_missed or not visible.issuperset(hits + copies):
            self.wrong.append(f"{who}, {number}: {hits[:3]}")
        return took_ms

    def any(self, who: str) -> float:
        return self(who, self._dice.choice(self._numbers))

    def in_turns(self, pid_file: Path | None) -> Figures:
        """Return the times of both for queries about visible repositories, and their ratios.

        A search for a name that the caller does not see also looks for similar names.
        """
        took: dict[str, list[float]] = {who: [] for who in self._clients}
        used: dict[str, float] = dict.fromkeys(took, 0.0)
        for turn, number in enumerate(self._dice.choices(self._seen, k=SEARCHES)):
            for who in took if turn % 2 else reversed(took):
                before = processor_s(pid_file)
                took_ms = self(who, number)
                if turn >= WARM_UP:
                    took[who].append(took_ms)
                    used[who] += processor_s(pid_file) - before
        p50 = {who: float(np.median(some)) for who, some in took.items()}
        return {
            "p50_ms": {who: round(ms, 2) for who, ms in p50.items()},
            "ratio_of_p50": round(p50["reader"] / p50["admin"], 2),
            "ratio_of_processor_time": round(used["reader"] / used["admin"], 2),
        }


def _name(number: int) -> str:
    return f"acme/r{number}"


def followed(states: Stores, asking: Asking, limit_s: float) -> Iterator[RegroupingState]:
    """Yield the states of a regrouping until it ends, while the reader searches."""
    store = registry.regrouping_states(states.settings())
    deadline, has_begun = time.monotonic() + limit_s, False
    while time.monotonic() < deadline:
        state = store.state()
        yield state
        if has_begun and not state.is_active:
            return
        has_begun = has_begun or state.is_active
        asking.any("reader")
        time.sleep(POLL_S)
    raise SystemExit(f"the regrouping did not end in {limit_s:.0f} s")


def measured(given: argparse.Namespace, place: TenantIndex, scratch: Path) -> Figures:
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe()
    (scratch / "git").mkdir()
    context.Process(
        target=serve, args=(scratch / "git", given.repositories, there), daemon=True
    ).start()
    text, wanted = here.recv()
    (scratch / "sources.yaml").write_text(text)
    chosen = {
        "sources": str(scratch / "sources.yaml"),
        "store": "weaviate",
        "weaviate_collection": place.alias,
        "organisation": place.tenant,
    }
    found: Figures = {"repositories": given.repositories}
    numbers = range(1, given.repositories + 1)
    seen = random.Random(2).sample(numbers, given.repositories // 2)
    with running(scratch / "data", **chosen) as cluster, Client(cluster.address) as admin:
        times = Times(0, given.seconds, given.seconds)
        found["first_index"] = awaited(cluster, wanted, times, meanwhile=lambda: None)
        began = time.monotonic()
        with ThreadPoolExecutor(LABELLING) as pool:  # each call waits until it has taken effect
            list(pool.map(lambda number: admin.label(_name(number), "internal"), seen))
        found["labels_s"] = round(time.monotonic() - began, 1)
        key = admin.create_key("half", repositories=["**"]).text
        with Client(cluster.address, token=key) as reader:
            asking = Asking(admin, reader, numbers, {*seen})
            began, shown = time.monotonic(), None
            found["before"] = asking.in_turns(given.pid_file)
            for state in followed(Stores(cluster.data), asking, given.seconds):
                if shown != (shown := (state.is_active, state.done, state.total)):
                    print(f"  {time.monotonic() - began:6.0f} s, {shown}", flush=True)
            found["regrouped"] = {
                "seconds": round(time.monotonic() - began, 1),
                "repositories": state.done,
                "failed": len(state.left),
            }
            found["after"] = asking.in_turns(given.pid_file)
            found["wrong_answers"] = asking.wrong
    here.send(False)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repositories", type=int, default=10_000)
    parser.add_argument("--seconds", type=float, default=7_200.0, help="longest wait for a step")
    parser.add_argument("--pid-file", type=Path, help="of the Weaviate server")
    parser.add_argument("--json", type=Path, help="file to write the figures to")
    given = parser.parse_args()
    address = address_of_services()
    place = TenantIndex(f"Bench{uuid4().hex[:8]}", "bench")
    results: Figures = machine()
    try:
        with tempfile.TemporaryDirectory(prefix="regrouping-") as scratch:
            results |= measured(given, place, Path(scratch))
    finally:
        clean(address, place)
    print(json.dumps(results, indent=1))
    if given.json:
        given.json.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
