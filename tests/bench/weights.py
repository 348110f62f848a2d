"""Index two repositories with different weights at once, and compare their progress.

    python tests/bench/weights.py [--files N] [--weight N] [--json FILE]

Both have the same number of files, all with different code, so that no result comes from a cache.
Their progress is compared while the one with the greater weight goes from a fifth to four fifths of
its files, because only then do both have files at all stages.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from pathlib import Path

from embedded import machine, running
from fairness import commit
from interactive import text

from codelode.client import Client
from codelode.model import Run

FILES = 1_500
WEIGHT = 3


def repository(folder: Path, name: str, files: int) -> str:
    (folder / name).mkdir(parents=True)
    texts = {f"d{at % 100}/f{at}.py": text(f"{name}_{at}") for at in range(files)}
    return str(commit(folder / name, texts))


def done(client: Client, runs: dict[str, Run], of_heavy: int) -> dict[str, int]:
    """Return the number of files done of each run, once `of_heavy` are done of the heavy one."""
    for seen in client.watch(runs["heavy"]):
        if seen.done >= of_heavy:
            break
    return {name: next(iter(client.watch(run))).done for name, run in runs.items()}


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    arguments.add_argument("--files", type=int, default=FILES, help="of each repository")
    arguments.add_argument("--weight", type=int, default=WEIGHT, help="of the heavy one")
    arguments.add_argument("--json", type=Path, help="write the figures to this file")
    given = arguments.parse_args()
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place).resolve()
        names = ("light", "heavy")
        urls = {name: repository(folder / "git", name, given.files) for name in names}
        rules = {"include": ["none"], "weights": {"heavy": given.weight}}
        connection = {"name": "here", "kind": "folder", "path": str(folder / "git")}
        declared = {"connections": [{**connection, "repositories": rules}]}
        sources = folder / "sources.yaml"
        sources.write_text(json.dumps(declared))
        with running(folder / "data", sources=str(sources)) as cluster:
            client = Client(cluster.address)
            runs = {name: client.index(url, name=name, wait=False) for name, url in urls.items()}
            begin, end = (done(client, runs, given.files * part // 5) for part in (1, 4))
            for run in runs.values():
                client.cancel(run)
    heavy, light = (end[name] - begin[name] for name in ("heavy", "light"))
    ratio = heavy / light
    print(f"heavy {heavy}, light {light}: {ratio:.2f} x")
    if given.json:
        figures = {
            **machine(),
            "weight": given.weight,
            "heavy": heavy,
            "light": light,
            "ratio": round(ratio, 2),
        }
        given.json.write_text(json.dumps(figures, indent=2) + "\n")


if __name__ == "__main__":
    main()
