"""Follow an organisation of many repositories for a day, while workers are killed at random.

    python tests/bench/organisation.py [--repositories N] [--days N] [--kill-every S] [--json FILE]

The host is the GitHub of the tests, in a separate process; the repositories are small, and share
their objects. A cluster discovers and indexes them. In a day, a tenth of them is pushed to, and a
hundredth each is renamed, deleted, and created. All of this happens at once, and a worker is killed
every few seconds until the index matches the host. At the end, the index is compared with that of a
new cluster: the commits of all repositories, and all stored data of some. The processor time of a
killed worker is counted with that of its parent, `worker fork`.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import random
import signal
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import NamedTuple

from embedded import Cluster, machine, processes, running

from codelode.client import Client
from codelode.cluster import running_cluster
from codelode.errors import CodelodeError
from codelode.repository_sources import Mode
from codelode.settings import Settings, load
from tests.end_to_end.stored import differences, read
from tests.hosts import TOKEN
from tests.organisations import Organisation, indexed, sources

REPOSITORIES, DAYS = 5_000, 1
#: Shares of the repositories that are pushed to in a day, and renamed, deleted, and created.
PUSHED, OTHERS = 0.1, 0.01
#: Number of repositories whose stored data is compared completely.
COMPARED = 100
KILLED = ("pull", "parse", "embed", "store")
POLL_S = 2.0
#: Settings with which the jobs of a killed worker are sent again sooner than usual.
RECOVERY = {
    "heartbeat_s": "1",
    "reap_interval_s": "2",
    "requeue_s": "10",
    "visibility_timeout_s": "20",
}

Figures = dict[str, object]
Commits = dict[str, str]


class Times(NamedTuple):
    """The intervals of a measurement, and its maximum wait for an index, seconds."""

    kill_every: float
    list_every: float
    limit: float


def serve(folder: Path, repositories: int, pipe: Connection) -> None:
    """Serve the host until a false message comes on the pipe; each true one makes a day pass."""
    dice = random.Random(22)
    organisation = Organisation(folder, dice, repositories)
    text = sources(organisation, folder / "token")
    (folder / "token").write_text(TOKEN)
    pipe.send((text, organisation.commits()))
    while pipe.recv():
        few = max(1, int(OTHERS * repositories))
        pushed = int(PUSHED * repositories)
        organisation.change(pushed=pushed, renamed=few, deleted=few, created=few)
        pipe.send(organisation.commits())
    organisation.close()


@dataclass(frozen=True, slots=True)
class Stores:
    """The stores of a running cluster, as the tests read them."""

    data: Path

    def settings(self) -> Settings:
        found = running_cluster(self.data)
        assert found is not None
        return load(data=self.data, redis_url=found.redis)


def awaited(
    cluster: Cluster, wanted: Commits, times: Times, *, meanwhile: Callable[[], None]
) -> Figures:
    """Wait until the index matches the host, and return the time and processor time."""
    began, before, asked_at = time.monotonic(), processor_s(cluster), -times.list_every
    missing = len(wanted)
    with Client(cluster.address) as client:
        while missing:
            passed_s = time.monotonic() - began
            if passed_s > times.limit:
                raise SystemExit(f"{missing} repositories are not as at the host: {_wrong(client)}")
            with suppress(CodelodeError):  # an answer may be lost with a killed worker
                if (
                    passed_s - asked_at > times.list_every
                ):  # a second listing removes repositories that the host deleted
                    client.sync_sources("work", mode=Mode.CONFIRM)
                    asked_at = passed_s
                missing = len(indexed(client).items() ^ wanted.items())
            print(f"  {passed_s:6.0f} s, {missing} differ", flush=True)
            meanwhile()
            time.sleep(POLL_S)
    return {
        "seconds": round(time.monotonic() - began, 1),
        "processor_s": {
            name: round(used_s, 1)
            for name, used_s in (processor_s(cluster) - before).items()
            if used_s >= 1
        },
    }


def _wrong(client: Client) -> str:
    runs = Counter(str(run.state) for run in client.status().runs)
    (source,) = client.sources().sources
    return f"runs {dict(runs)}, error {source.error!r}, waiting {source.waiting!r}"


def processor_s(cluster: Cluster) -> Counter[str]:
    """Return the processor time of the processes of the cluster, by name."""
    found: Counter[str] = Counter()
    for one in processes(cluster.pid):
        found[one.name] += one.cpu_s
    return found


def memory_mb(cluster: Cluster) -> dict[str, int]:
    """Return the memory of the processes of the cluster, by name."""
    found: Counter[str] = Counter()
    for one in processes(cluster.pid):
        found[one.name] += one.pss >> 20
    return dict(found)


class Killer:
    """Kills a random worker every few seconds."""

    def __init__(self, data: Path, *, every_s: float) -> None:
        self._run, self._dice, self._every_s = data / "run", random.Random(5), every_s
        self._last, self.killed = time.monotonic(), 0

    def __call__(self) -> None:
        if time.monotonic() - self._last < self._every_s:
            return
        self._last = time.monotonic()
        file = self._run / f"{self._dice.choice(KILLED)}.pid"
        with suppress(FileNotFoundError, ProcessLookupError, IndexError):
            os.kill(int(file.read_text().split()[0]), signal.SIGKILL)
            self.killed += 1


def measured(repositories: int, days: int, times: Times, scratch: Path) -> Figures:
    """Return the figures of the first index, the days, and the new index, and the differences."""
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe()
    (scratch / "git").mkdir()
    given = (scratch / "git", repositories, there)
    context.Process(target=serve, args=given, daemon=True).start()
    text, wanted = here.recv()
    (scratch / "sources.yaml").write_text(text)
    followed = {"sources": str(scratch / "sources.yaml"), **RECOVERY}
    found: Figures = {"repositories": repositories, "times_s": times._asdict()}
    (scratch / "old").mkdir()
    (scratch / "new").mkdir()
    with running(scratch / "old" / "data", **followed) as cluster:
        print("first index", flush=True)
        found["first"] = awaited(cluster, wanted, times, meanwhile=lambda: None)
        killer = Killer(cluster.data, every_s=times.kill_every)
        for day in range(1, days + 1):
            print(f"day {day}", flush=True)
            here.send(True)
            wanted = here.recv()
            found[f"day_{day}"] = awaited(cluster, wanted, times, meanwhile=killer)
        found["killed"], found["memory_mb"] = killer.killed, memory_mb(cluster)
        with running(scratch / "new" / "data", **followed) as fresh:
            print("fresh index", flush=True)
            found["fresh"] = awaited(fresh, wanted, times, meanwhile=lambda: None)
            found |= _differences(Stores(cluster.data), Stores(fresh.data), wanted)
    here.send(False)
    return found


def _differences(one: Stores, other: Stores, wanted: Commits) -> Figures:
    names = random.Random(1).sample(sorted(wanted), min(COMPARED, len(wanted)))
    apart = {name: sorted(differences(read(one, name), read(other, name))) for name in names}
    return {"compared": len(names), "differ": {name: of for name, of in apart.items() if of}}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repositories", type=int, default=REPOSITORIES)
    parser.add_argument("--days", type=int, default=DAYS)
    parser.add_argument("--kill-every", type=float, default=20.0, help="seconds between kills")
    parser.add_argument("--list-every", type=float, default=30.0, help="seconds between listings")
    parser.add_argument("--seconds", type=float, default=3_600.0, help="longest wait for an index")
    parser.add_argument("--json", type=Path, help="file to write the figures to")
    given = parser.parse_args()
    times = Times(given.kill_every, given.list_every, given.seconds)
    results: Figures = machine()
    with tempfile.TemporaryDirectory(prefix="organisation-") as scratch:
        results |= measured(given.repositories, given.days, times, Path(scratch))
    print(json.dumps(results, indent=1))
    if given.json:
        given.json.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
