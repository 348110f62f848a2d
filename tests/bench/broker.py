"""Measure the memory of the job broker while repositories of different sizes are indexed.

    python tests/bench/broker.py [--files N …] [--seconds S] [--json FILE]

Each repository is indexed by an embedded cluster. For some time after its plan is stored, the
program counts the messages in Redis, waiting and taken ones, and the memory of their keys. Then it
cancels the run: a window of files is in flight, and refilled, so a longer run has no more messages.
It also reports the memory that Redis needs for the plan of the run, which is in the ledger.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

from embedded import machine, running
from redis import Redis

from codelode import stages
from codelode.client import Client
from codelode.cluster import running_cluster
from codelode.model import RunState

FILES = (1_000, 10_000, 100_000)
SECONDS = 45.0
POLL_S = 0.25
PLAN_LIMIT_S = 300.0
_QUEUES = "|".join(stages.queues())
#: Lists of waiting messages, with a suffix for their priority, and hashes of taken ones.
_MESSAGES = re.compile(rf"(.*:)?({_QUEUES})(\W.*)?|.*unacked.*")

Figures = dict[str, object]


def repository(folder: Path, files: int) -> Path:
    """Make a repository of small, different files. This is faster than `git add`."""
    subprocess.run(["git", "init", "--quiet", "--bare", folder], check=True)
    lines = ["commit refs/heads/main", "committer T <t@x> 1700000000 +0000", "data 1", "x"]
    for at in range(files):
        text = f"def task_{files}_{at}(value):\n    return value + {at}\n"
        lines += [f"M 100644 inline d{at % 100}/f{at}.py", f"data {len(text)}", text]
    given = "\n".join(lines).encode()
    importing = ["git", "-C", str(folder), "fast-import", "--quiet"]
    subprocess.run(importing, input=given, check=True)
    subprocess.run(["git", "-C", folder, "symbolic-ref", "HEAD", "refs/heads/main"], check=True)
    return folder


def measured(client: Client, broker: Any, folder: Path, files: int, seconds: float) -> Figures:
    """Return the maximum of messages and memory in the broker while the repository is indexed."""
    before = _used(broker)
    run = client.index(str(repository(folder, files)), name=f"r{files}", wait=False)
    for now in client.watch(run):
        if now.state not in (RunState.QUEUED, RunState.PULLING):
            break
    planned, ends_at = _used(broker), time.monotonic() + seconds
    most: dict[str, int] = {"messages": 0, "message_bytes": 0}
    while time.monotonic() < ends_at:
        held = _held(broker)
        most = {name: max(value, held[name]) for name, value in most.items()}
        time.sleep(POLL_S)
    done = client.cancel(run).done
    return {
        "files": files,
        "done_then": done,
        "messages": most["messages"],
        "messages_kb": round(most["message_bytes"] / 1e3),
        "redis_after_the_plan_mb": round((planned - before) / 1e6, 1),
    }


def _held(broker: Any) -> dict[str, int]:
    """Return the number of messages, and the memory of their keys."""
    keys = [key for key in broker.scan_iter(count=5_000) if _MESSAGES.fullmatch(key.decode())]
    sizes = [broker.memory_usage(key, samples=0) or 0 for key in keys]
    counts = [broker.llen(key) if broker.type(key) == b"list" else 0 for key in keys]
    taken = [broker.hlen(key) for key in keys if broker.type(key) == b"hash"]
    return {"messages": sum(counts) + sum(taken), "message_bytes": sum(sizes)}


def _used(broker: Any) -> int:
    return int(broker.info("memory")["used_memory"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--files", type=int, nargs="+", default=FILES)
    parser.add_argument("--seconds", type=float, default=SECONDS)
    parser.add_argument("--json", type=Path, help="file to write the figures to")
    given = parser.parse_args()
    results: Figures = machine()
    with tempfile.TemporaryDirectory() as folder, running(Path(folder) / "data") as cluster:
        found = running_cluster(cluster.data)
        assert found is not None
        broker: Any = Redis.from_url(found.redis)
        client = Client(cluster.address)
        for files in given.files:
            one = measured(client, broker, Path(folder) / f"r{files}", files, given.seconds)
            print(json.dumps(one), flush=True)
            results[f"{files} files"] = one
    if given.json:
        given.json.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
