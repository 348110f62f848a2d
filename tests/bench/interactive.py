"""Time pushes of ten files on an idle cluster, and during the first index of a large repository.

    python tests/bench/interactive.py [--files N] [--pushes N] [--json FILE]

A push changes ten files of an indexed repository of 200. It is searchable when its run is complete
and a search finds a word of the last file. All files of the large repository have different code,
so that no result comes from a cache.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path

from embedded import index, machine, running
from fairness import commit, git

from codelode.client import Client
from codelode.model import RunState

FILES, PUSHED = 200, 10
PUSHES = 7
BACKFILL = 30_000
LINES = 40
LIMIT_S = 300
#: Number of files of the large repository that must be done before the first push.
LEAD = 300
POLL_S = 0.02


@dataclass(frozen=True, slots=True)
class Push:
    """Seconds after the request until a push was planned, and until it was searchable."""

    planned_s: float
    searchable_s: float


def text(name: str) -> str:
    body = "".join(f"    value_{line} = work_{name}(value, {line})\n" for line in range(LINES))
    return f"def task_{name}(value):\n{body}    return value\n"


def large(folder: Path, files: int) -> Path:
    folder.mkdir()
    return commit(folder, {f"d{at % 100}/f{at}.py": text(f"large_{at}") for at in range(files)})


def small(folder: Path) -> Path:
    folder.mkdir()
    return commit(folder, {f"src/{at}.py": text(f"first_{at}") for at in range(FILES)})


def push(client: Client, folder: Path, word: str) -> Push:
    """Commit ten changed files, and wait until the last of them is found."""
    for at in range(PUSHED):
        (folder / f"src/{at}.py").write_text(text(f"{word}x{at}"))
    git(folder, "commit", "--quiet", "--all", "--message=x")
    began, planned_s = time.monotonic(), 0.0
    for run in client.watch(client.index(str(folder), name="small", wait=False)):
        if not planned_s and run.state not in (RunState.QUEUED, RunState.PULLING):
            planned_s = time.monotonic() - began
    word = f"task_{word}x{PUSHED - 1}"
    while not any(word in hit.content for hit in client.search(word, repositories=["small"]).hits):
        time.sleep(POLL_S)
    return Push(planned_s, time.monotonic() - began)


def pushes(client: Client, folder: Path, word: str, number: int) -> list[Push]:
    found = []
    for at in range(number):
        found.append(push(client, folder, f"{word}{at}"))
        print(f"  {word} {found[-1].planned_s:6.2f} {found[-1].searchable_s:6.2f} s", flush=True)
    return found


def median_s(of: list[Push]) -> float:
    return statistics.median(one.searchable_s for one in of)


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    arguments.add_argument("--files", type=int, default=BACKFILL, help="of the large repository")
    arguments.add_argument("--pushes", type=int, default=PUSHES)
    arguments.add_argument("--json", type=Path, help="write the figures to this file")
    given = arguments.parse_args()
    with tempfile.TemporaryDirectory() as place, running(Path(place) / "data") as cluster:
        client, scratch = Client(cluster.address), Path(place)
        code, folder = large(scratch / "large", given.files), small(scratch / "small")
        index(client, str(folder), name="small", limit_s=LIMIT_S)
        pushes(client, folder, "warm", 2)
        idle = pushes(client, folder, "idle", given.pushes)
        run = client.index(str(code), name="large", wait=False)
        for seen in client.watch(run):
            if seen.done >= LEAD:
                break
        began, before = time.monotonic(), seen.done
        beside = pushes(client, folder, "beside", given.pushes)
        now = next(iter(client.watch(run)))
        rate = (now.done - before) / (time.monotonic() - began)
        client.cancel(run)
    ratio = median_s(beside) / median_s(idle)
    print(f"idle {median_s(idle):.2f} s, beside {median_s(beside):.2f} s, {ratio:.1f} x")
    print(f"the large repository had {now.done} of {now.total} files, {rate:.0f} files/s")
    if given.json:
        figures = {
            **machine(),
            "idle": [asdict(one) for one in idle],
            "beside": [asdict(one) for one in beside],
            "ratio": round(ratio, 2),
            "files_per_s_of_the_large_one": round(rate, 1),
        }
        given.json.write_text(json.dumps(figures, indent=2) + "\n")


if __name__ == "__main__":
    main()
