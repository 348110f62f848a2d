"""Time the index of a new repository of 20 files beside each hostile one, and on an idle cluster.

    python tests/bench/fairness.py [--only NAME …] [--json FILE]

Each hostile repository is first given to a running cluster. Once the cluster works on it, new
repositories are indexed one after another. Each has different code, so that no result comes from a
cache. Their median time is printed with its ratio to the median on the idle cluster.
"""

from __future__ import annotations

import argparse
import json
import socket
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from embedded import index, running

from codelode.client import Client

FILES = 20
FRESH = 5
LIMIT_S = 600
#: Time that a hostile repository has to reach the stage that it burdens, seconds.
LEAD_S = 5.0
UNANSWERED = 8

SLOW_QUERY = "(({} (_)* @a (_)* @b (_)* @c (_)* @d (_)* @e (_)* @f (_)* @name) @definition.class)"
#: Languages of the repository's own queries: the root of their trees, and their extension. A query
#: that is switched off as slow in one language is still tried in the next.
LANGUAGES = {
    "python": ("module", "py"),
    "ruby": ("program", "rb"),
    "lua": ("chunk", "lua"),
    "go": ("source_file", "go"),
    "rust": ("source_file", "rs"),
}
SLOW_TOML = "".join("a." * 900 + f"b{number} = 1\n" for number in range(500))


def commit(folder: Path, files: dict[str, str]) -> Path:
    for path, text in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text)
    git(folder, "init", "--quiet", "--initial-branch=main")
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "--message=x")
    return folder


def git(folder: Path, *arguments: str, stdin: str = "") -> str:
    who = ("-c", "user.name=T", "-c", "user.email=t@x")
    command = ["git", "-C", str(folder), *who, *arguments]
    done = subprocess.run(command, check=True, capture_output=True, text=True, input=stdin)
    return done.stdout.strip()


def fresh(folder: Path, number: int) -> Path:
    body = "".join(f"    value_{line} = work(value, {line})\n" for line in range(40))
    files = {
        f"src/{at}.py": f"def task_{number}_{at}(value):\n{body}    return value\n"
        for at in range(FILES)
    }
    return commit(folder, files)


@contextmanager
def slow_queries(folder: Path) -> Iterator[list[str]]:
    files = {
        f".codelode/queries/{language}.scm": SLOW_QUERY.format(root)
        for language, (root, _) in LANGUAGES.items()
    }
    files |= {
        f"{at}.{extension}": f"x = {at}\n" * 3_000
        for at in range(200)
        for _, extension in LANGUAGES.values()
    }
    yield [str(commit(folder, files))]


@contextmanager
def slow_files(folder: Path) -> Iterator[list[str]]:
    """Yield a repository of files that are slow to parse: each has nearly the maximum size."""
    files = {f"{at}.py": f"x_{at} = f(1, [2, 3])\n" * 45_000 for at in range(120)}
    yield [str(commit(folder, files))]


@contextmanager
def manifests(folder: Path) -> Iterator[list[str]]:
    yield [str(commit(folder, {f"{at}/pyproject.toml": SLOW_TOML for at in range(50)}))]


@contextmanager
def many_paths(folder: Path) -> Iterator[list[str]]:
    """Yield a repository with a million paths of one blob."""
    commit(folder, {"a.py": "x = 1\n"})
    entry, kind = git(folder, "rev-parse", "main:a.py"), "100644 blob"
    for _ in range(3):
        rows = "".join(f"{kind} {entry}\tf{at}.py\n" for at in range(100))
        entry, kind = git(folder, "mktree", stdin=rows), "040000 tree"
    git(folder, "update-ref", "refs/heads/main", git(folder, "commit-tree", "-m", "x", entry))
    yield [str(folder)]


@contextmanager
def unanswered(folder: Path) -> Iterator[list[str]]:
    """Yield repositories at an address that accepts connections and never answers."""
    with socket.create_server(("127.0.0.1", 0), backlog=100) as server:
        at = f"http://127.0.0.1:{server.getsockname()[1]}"
        yield [f"{at}/silent/{number}" for number in range(UNANSWERED)]


HOSTILE = {
    "own queries of 2 s a file": slow_queries,
    "files of 1 MB": slow_files,
    "manifests of 10 s each": manifests,
    "a million paths": many_paths,
    f"{UNANSWERED} hosts that never answer": unanswered,
}


def median_s(client: Client, scratch: Path, name: str) -> float:
    times = []
    for number in range(FRESH):
        folder = scratch / f"fresh-{name}-{number}"
        folder.mkdir()
        fresh(folder, hash((name, number)))
        began = time.monotonic()
        index(client, str(folder), name=f"{name}-{number}", limit_s=LIMIT_S)
        times.append(time.monotonic() - began)
    return statistics.median(times)


def beside(client: Client, scratch: Path, name: str, make: Callable[..., object]) -> float:
    """Return the median time beside a hostile repository, which is removed afterwards."""
    slug = "".join(one if one.isalnum() else "-" for one in name)
    folder = scratch / slug
    folder.mkdir()
    with ExitStack() as ends:
        for number, url in enumerate(ends.enter_context(make(folder))):
            run = client.index(url, name=f"hostile-{slug}-{number}", wait=False)
            ends.callback(client.cancel, run)
        time.sleep(LEAD_S)
        return median_s(client, scratch, slug)


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    arguments.add_argument("--only", nargs="*", default=[], help="words of the names to measure")
    arguments.add_argument("--json", type=Path, help="write the figures to this file")
    given = arguments.parse_args()
    figures = {}
    with tempfile.TemporaryDirectory() as folder, running(Path(folder) / "data") as cluster:
        client = Client(cluster.address)
        scratch = Path(folder)
        median_s(client, scratch, "warm-up")
        idle = figures["idle"] = median_s(client, scratch, "idle")
        print(f"{'idle':32} {idle:7.2f} s")
        for name, make in HOSTILE.items():
            if given.only and not any(word in name for word in given.only):
                continue
            took = figures[name] = beside(client, scratch, name, make)
            print(f"{name:32} {took:7.2f} s   {took / idle:5.1f} x")
    if given.json:
        given.json.write_text(json.dumps(figures, indent=2) + "\n")


if __name__ == "__main__":
    main()
