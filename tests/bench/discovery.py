"""Measure the discovery of the repositories of a code host, and the listings after it.

    python tests/bench/discovery.py

The host is the GitHub of the tests, in a separate process. Its answers take hardly any time, so the
figures are those of the worker; a real host adds the time of its answers. The repositories are
listed for the first time, when nothing has changed, and after eight hours in which some were pushed
to, renamed, and deleted. The catalog and the state of the connection are in memory.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import random
import resource
import tempfile
import time
from collections import Counter
from multiprocessing.connection import Connection
from pathlib import Path

import structlog
from embedded import machine

from codelode.backends.memory.ledger import MemoryLedger
from codelode.backends.memory.sources import MemorySourceStates
from codelode.ledger import FileManifest
from codelode.model import DEFAULT_REF, RefName, RepositoryName, Revision, Run
from tests.hosts import TOKEN, GitHub
from workers.sources.following import SourceSync

#: Share of the repositories that is pushed to, renamed, and deleted within the day.
PUSHED, RENAMED, DELETED = 0.1, 0.01, 0.01
FIRST_REPOSITORY = 100_000
DAY_S = 8 * 3_600  # a working day; unchanged repositories are checked once in 24 hours

Figures = dict[str, object]


class Organisation(GitHub):
    """The organisation `acme` with many repositories, some of which `pass_a_day` changes."""

    def __init__(self, repositories: int) -> None:
        super().__init__()
        ids = range(FIRST_REPOSITORY, FIRST_REPOSITORY + repositories)
        self.repositories = {id: (f"r{id}", "PRIVATE", []) for id in ids}

    def pass_a_day(self) -> None:
        dice, ids = random.Random(1), sorted(self.repositories)
        for id in dice.sample(ids, int(PUSHED * len(ids))):
            self.details[id] = {"pushed_at": "2026-11-02T00:00:00Z"}
        renamed = dice.sample(ids, int((RENAMED + DELETED) * len(ids)))
        for id in renamed[: int(RENAMED * len(ids))]:
            self.repositories[id] = (f"renamed{id}", "PRIVATE", [])
        for id in renamed[int(RENAMED * len(ids)) :]:
            del self.repositories[id]


class Outbox:
    """Completes each run at once, as if its repository were empty."""

    def __init__(self, ledger: MemoryLedger) -> None:
        self._ledger = ledger
        self.runs = 0

    def pull(self, run: Run, *, is_late: bool = False) -> None:
        assert is_late
        self.runs += 1
        ref = RefName("main") if run.ref == DEFAULT_REF else run.ref
        manifest = FileManifest(Revision("a" * 40), (), makes_default=run.ref == DEFAULT_REF)
        self._ledger.plan(run.id, manifest, ref=ref, fingerprint="f")

    def forget(self, name: RepositoryName) -> None:
        """Leave the index as it is; there is none."""


def serve(repositories: int, pipe: Connection) -> None:
    """Serve the host until a false message comes on the pipe; each true one makes a day pass."""
    host = Organisation(repositories)
    pipe.send(host.url)
    while pipe.recv():
        host.pass_a_day()
        pipe.send(True)
    host.close()


def measured(repositories: int) -> Figures:
    """Return the cost of each listing."""
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe()
    process = context.Process(target=serve, args=(repositories, there), daemon=True)
    process.start()
    url = here.recv()
    ledger, states, clock = MemoryLedger(), MemorySourceStates(), [time.time()]
    outbox = Outbox(ledger)
    found: Figures = {}
    with tempfile.TemporaryDirectory(prefix="discovery-") as folder:
        sources = Path(folder) / "sources.yaml"
        (Path(folder) / "token").write_text(TOKEN)
        sources.write_text(
            f"connections:\n  - name: work\n    kind: github\n    url: {url}\n"
            f"    organisation: acme\n    token: {{file: {folder}/token}}\n"
            "    repositories: {every: 1h}\n"
        )
        sync = SourceSync(str(sources), states, ledger, now=lambda: clock[0])
        for which in ("first", "unchanged", "after eight hours", "unchanged again"):
            if which == "after eight hours":
                here.send(True)
                here.recv()
                clock[0] += DAY_S - 7_200  # two hours have passed already
            found[which] = listing(sync, states, outbox)
            clock[0] += 3_600
    here.send(False)
    process.join()
    return found


def listing(sync: SourceSync, states: MemorySourceStates, outbox: Outbox) -> Figures:
    sync.due()
    before, outbox.runs = _peak_mb(), 0
    started, used = time.perf_counter(), time.process_time()
    sync.run("work", outbox)
    passed, spent = time.perf_counter() - started, time.process_time() - used
    (state,) = states.states()
    assert not state.outcome.error, state.outcome.error
    return {
        "wall_s": round(passed, 2),
        "processor_s": round(spent, 2),
        "memory_mb": round(_peak_mb() - before),
        "requests": state.outcome.requests,
        "listed": state.outcome.listed,
        "changes": dict(Counter(str(one.action) for one in state.outcome.changes)),
        "runs": outbox.runs,
    }


def _peak_mb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repositories", type=int, default=5_000)
    parser.add_argument("--json", type=Path, help="file to write the figures to")
    given = parser.parse_args()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(40))
    results: Figures = {**machine(), **measured(given.repositories)}
    print(json.dumps(results, indent=1))
    if given.json:
        given.json.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
