"""Time the first index of many repositories: to the first searchable one, to all, files per second.

    python tests/bench/first_index.py FOLDER [--repositories 50] [--most-files N] [--json FILE]

FOLDER has git directories: FOLDER/NAME, or FOLDER/OWNER+NAME/repo. If there are too few, or some
have too many files, the largest are divided: each folder at their root becomes a repository of one
commit. All runs are started at once, as for a new organisation. Processor time is that of all
processes of the cluster.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from embedded import machine, processes, running

from codelode.client import Client

REPOSITORIES = 50
MOST_FILES = 10_000
LIMIT_S = 3_600.0
POLL_S = 0.2
#: Minimum number of files of a folder that becomes a repository.
FEWEST_FILES = 30
#: Words that some file of every repository has.
WORDS = "return value if name"

Figures = dict[str, object]


def git(folder: Path, *arguments: str) -> str:
    who = ("-c", "user.name=T", "-c", "user.email=t@x")
    command = ["git", "-C", str(folder), *who, *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def repositories(folder: Path, number: int, most_files: int, scratch: Path) -> dict[str, Path]:
    """Return git directories by name: those of the folder, large ones possibly divided."""
    found = {_name(one): one for one in _in(folder)}
    sizes = {name: _files(at) for name, at in found.items()}
    for name in sorted(found, key=lambda name: -sizes[name]):
        if len(found) < number or sizes[name] > most_files:
            whole = found.pop(name)
            room = max(1, number - len(found))
            parts = _parts(whole, name, most_files, scratch)
            found.update(islice(parts, room))
    return dict(islice(found.items(), number))


def _name(place: Path) -> str:
    return (place.parent if place.name == "repo" else place).name.replace("+", "/")


def _in(folder: Path) -> Iterator[Path]:
    for one in sorted(folder.iterdir()):
        at = one / "repo" if (one / "repo").is_dir() else one
        if (at / "HEAD").exists() or (at / ".git").exists():
            yield at


def _files(repository: Path) -> int:
    return len(git(repository, "ls-tree", "-r", "--name-only", "HEAD").splitlines())


def _parts(
    repository: Path, name: str, most_files: int, scratch: Path
) -> Iterator[tuple[str, Path]]:
    """Yield a repository for each folder at the root that has enough files, the largest first."""
    paths = git(repository, "ls-tree", "-r", "--name-only", "HEAD").splitlines()
    sizes = Counter(path.partition("/")[0] for path in paths if "/" in path)
    for folder, files in sizes.most_common():
        if FEWEST_FILES <= files <= most_files:
            yield f"{name}/{folder}", _part(repository, folder, scratch / name / folder)


def _part(repository: Path, folder: str, place: Path) -> Path:
    """Make a repository of one commit with a folder of another."""
    place.mkdir(parents=True)
    git(place, "init", "--quiet", "--bare", "--initial-branch=main")
    objects = git(repository, "rev-parse", "--path-format=absolute", "--git-path", "objects")
    borrowed = place / "objects" / "info" / "alternates"
    borrowed.write_text(f"{objects}\n")
    tree = git(repository, "rev-parse", f"HEAD:{folder}")
    git(place, "update-ref", "refs/heads/main", git(place, "commit-tree", "-m", "x", tree))
    git(place, "repack", "-a", "-d", "--quiet")
    borrowed.unlink()
    return place


def measured(client: Client, places: dict[str, Path], pid: int, limit_s: float) -> Figures:
    """Index all repositories at once, and return when each was done."""
    before, began = _processor_s(pid), time.monotonic()
    for name, at in places.items():
        client.index(str(at), name=name, wait=False)
    done: dict[str, float] = {}
    files, first_s = 0, 0.0
    while len(done) < len(places) and time.monotonic() - began < limit_s:
        indexed = [one for one in client.repositories() if one.refs and one.refs[0].indexed]
        files = sum(one.refs[0].files for one in indexed)
        for one in indexed:
            done.setdefault(one.repository.name, time.monotonic() - began)
        if not first_s and client.search(WORDS).hits:
            first_s = time.monotonic() - began
        time.sleep(POLL_S)
    if not done:
        raise SystemExit("no repository was indexed in time")
    processor_s = _processor_s(pid) - before
    times = sorted(done.values())
    return {
        "repositories": len(places),
        "not_complete": sorted(places.keys() - done.keys()),
        "first_hit_s": round(first_s, 1),
        "first_repository_s": round(times[0], 1),
        "median_repository_s": round(statistics.median(times), 1),
        "all_s": round(times[-1], 1),
        "files": files,
        "files_per_s": round(files / times[-1], 1),
        "processor_s": round(processor_s, 1),
    }


def _processor_s(pid: int) -> float:
    return sum(one.cpu_s for one in processes(pid))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--repositories", type=int, default=REPOSITORIES)
    parser.add_argument("--most-files", type=int, default=MOST_FILES, help="of a repository")
    parser.add_argument("--seconds", type=float, default=LIMIT_S, help="time limit")
    parser.add_argument("--json", type=Path, help="file to write the figures to")
    given = parser.parse_args()
    results: Figures = machine()
    with tempfile.TemporaryDirectory(prefix="first-index-") as scratch:
        parts = Path(scratch) / "parts"
        places = repositories(given.folder, given.repositories, given.most_files, parts)
        with running(Path(scratch) / "data") as cluster:
            client = Client(cluster.address)
            results |= measured(client, places, cluster.pid, given.seconds)
    print(json.dumps(results, indent=1))
    if given.json:
        given.json.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
