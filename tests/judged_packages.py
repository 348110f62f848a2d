"""The installed packages that the bundled judged queries are about, as repositories."""

from __future__ import annotations

import shutil
import subprocess
import sysconfig
from pathlib import Path

JUDGED = Path(__file__).parent / "end_to_end" / "judged"
QUERIES = JUDGED / "queries.json"

#: Queries like those of engineers: messages, traces, keys, lines of code, misspelt names, callers.
ENGINEERS = JUDGED / "engineers.json"

#: Repository → packages. Of mypyc only `lib-rt`, its C code: the rest is compiled or not C.
PACKAGES = {
    "judged/celery": ("celery",),
    "judged/kombu": ("kombu",),
    "judged/click": ("click",),
    "judged/httpx": ("httpx", "httpcore"),
    "judged/structlog": ("structlog",),
    "judged/flower": ("flower",),
    "judged/mypyc": ("mypyc/lib-rt",),
}

LEFT_OUT = shutil.ignore_patterns("__pycache__", "*.so", "*.min.*", "base64")


def commit_packages(folder: Path) -> None:
    """Make a repository for each name, below the folder."""
    installed = Path(sysconfig.get_path("purelib"))
    for name, packages in PACKAGES.items():
        for package in packages:
            shutil.copytree(installed / package, folder / name / package, ignore=LEFT_OUT)
        _commit(folder / name)


def _commit(folder: Path) -> None:
    who = ("-c", "user.name=Test", "-c", "user.email=test@example.org", "-c", "commit.gpgsign=no")
    for command in (("init", "-q"), ("add", "--all"), ("commit", "-q", "-m", "as installed")):
        subprocess.run(["git", *who, *command], cwd=folder, check=True, capture_output=True)
