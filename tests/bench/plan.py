"""Compare the estimate of `codelode plan` with the run after it.

    python tests/bench/plan.py GIT_DIR… [--json FILE]

Each repository is planned and then indexed twice: on a cluster that has indexed nothing yet, and on
one that has indexed those before it. The program prints the ratios of the plan to the run: files,
chunks, time, and processor time, which is that of all processes of the cluster and is more reliable
on a busy machine. A repository is a git directory, or a folder OWNER+NAME with one called repo.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from embedded import Cluster, machine, processes, running

from codelode.client import Client
from codelode.model import RunState

Figures = dict[str, object]

#: The ratios of plans to runs that are summed up.
_RATIOS = ("files", "chunks", "time", "processor")


@dataclass(frozen=True, slots=True)
class Compared:
    """A plan, the run of the same repository, and the ratios of the plan to the run."""

    repository: str
    plan: dict[str, float]
    run: dict[str, float]
    ratios: dict[str, float]
    is_within: bool  # the time of the run is between the plan's bounds


def compared(cluster: Cluster, place: Path) -> Compared:
    """Plan and index a repository."""
    client = Client(cluster.address)
    name = (place.parent if place.name == "repo" else place).name.replace("+", "/")
    url = str(place)
    plan = _plan(cluster, url)
    before = _processor_s(cluster)
    run = client.index(url, name=name)
    if run.state is not RunState.COMPLETE:
        raise SystemExit(f"{name}: {run.state}: {run.error}")
    used_s, took_s = _processor_s(cluster) - before, run.finished_at - run.started_at
    (chunks,) = (one.refs[0].chunks for one in client.repositories() if one.repository.name == name)
    done = {
        "files": run.done,
        "chunks": chunks,
        "seconds": round(took_s, 2),
        "processor": round(used_s, 2),
    }
    told = {**plan, "processor": round(plan["work_s"], 2)}
    ratios = {
        name: round(told[of] / done[of], 2)
        for name, of in zip(_RATIOS, ("files", "chunks", "seconds", "processor"), strict=True)
    }
    is_within = plan["seconds_least"] <= took_s <= plan["seconds_most"]
    return Compared(name, told, done, ratios, is_within)


def _plan(cluster: Cluster, url: str) -> dict[str, float]:
    """Return the plan as the command prints it."""
    command = [sys.executable, "-P", "-m", "codelode", "plan", url, "--json"]
    told = subprocess.run(
        [*command, f"--server={cluster.address}"], check=True, capture_output=True, text=True
    )
    (plan,) = json.loads(told.stdout)["plans"]
    wanted = ("files", "chunks", "work_s", "seconds", "seconds_least", "seconds_most", "pull_s")
    return {name: plan[name] for name in wanted}


def _processor_s(cluster: Cluster) -> float:
    """Return the processor time of all processes that work on a run."""
    return sum(one.cpu_s for one in processes(cluster.pid) if one.name not in ("flower", "up"))


def shown(which: str, found: Sequence[Compared]) -> Figures:
    """Print a line for each repository, and return the sums of all of them."""
    for one in found:
        ratios = "  ".join(f"{name} {one.ratios[name]:5.2f}" for name in _RATIOS)
        print(f"{which:5} {one.repository:40} {ratios}", flush=True)
    return {
        "repositories": [asdict(one) for one in found],
        "median": {name: statistics.median(one.ratios[name] for one in found) for name in _RATIOS},
        "within_a_fifth": {
            name: sum(1 / 1.2 <= one.ratios[name] <= 1.2 for one in found) for name in _RATIOS
        },
        "within_its_range": sum(one.is_within for one in found),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("repositories", type=Path, nargs="+")
    parser.add_argument("--json", type=Path, help="file to write the figures to")
    given = parser.parse_args()
    places = [one / "repo" if (one / "repo").is_dir() else one for one in given.repositories]
    results: Figures = machine()
    fresh: list[Compared] = []
    for place in places:
        with tempfile.TemporaryDirectory() as folder, running(Path(folder) / "data") as cluster:
            fresh.append(compared(cluster, place))
    results["fresh"] = shown("fresh", fresh)
    with tempfile.TemporaryDirectory() as folder, running(Path(folder) / "data") as cluster:
        warm = [compared(cluster, place) for place in places]
    results["warm"] = shown("warm", warm[1:])
    if given.json:
        given.json.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
