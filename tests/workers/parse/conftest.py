"""Files to parse: short ones that a test writes, long ones from the installed packages."""

import os
import sysconfig
from pathlib import Path

import pytest

SUFFIXES = {
    ".py",
    ".pyi",
    ".h",
    ".hpp",
    ".c",
    ".js",
    ".css",
    ".html",
    ".json",
    ".proto",
    ".md",
    ".sh",
}


@pytest.fixture(scope="session")
def real_files():
    """Return a few hundred files of many kinds, the same on every run in one environment."""
    root = Path(sysconfig.get_paths()["purelib"])
    found = sorted(
        Path(folder, name)
        for folder, _, names in os.walk(root)  # rglob takes several times as long
        for name in names
        if os.path.splitext(name)[1] in SUFFIXES
    )
    rare = [path for path in found if path.suffix not in (".py", ".pyi")][::23]
    chosen = [*found[:: max(1, len(found) // 200)], *rare[:100]]
    files = [(str(path.relative_to(root)), path.read_bytes()) for path in chosen]
    return [(path, data) for path, data in files if len(data) < 200_000]
