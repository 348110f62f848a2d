"""A real OpenID Connect provider: the npm package `oidc-provider`, installed once."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.guardian import GUARDIAN

PACKAGE = "oidc-provider"
VERSION = "9.13.3"  # MIT
INSTALL_S = 300.0

PROGRAM = Path(__file__).with_suffix(".mjs")


@contextmanager
def running_provider(folder: Path, **environment: str) -> Iterator[str]:
    """Runs the provider and yields its issuer; skips the test where it cannot be had."""
    node = shutil.which("node") or pytest.skip("no OpenID Connect provider: node is missing")
    program = folder / PROGRAM.name
    shutil.copy(PROGRAM, program)
    (folder / "node_modules").symlink_to(_installed() / "node_modules")
    process = GUARDIAN.popen(
        [node, program],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env={**os.environ, **environment},
    )
    try:
        issuer = process.stdout.readline().strip()
        assert issuer.startswith("http://127.0.0.1:"), "the provider does not start"
        yield issuer
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def _installed() -> Path:
    """The folder with the package, which is installed if necessary."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    folder = cache / "codelode" / "servers" / f"{PACKAGE}-{VERSION}"
    if folder.exists():
        return folder
    folder.parent.mkdir(parents=True, exist_ok=True)
    draft = tempfile.mkdtemp(dir=folder.parent)
    command = ["npm", "install", "--silent", "--prefix", draft, f"{PACKAGE}@{VERSION}"]
    try:
        subprocess.run(command, check=True, capture_output=True, timeout=INSTALL_S)
        Path(draft).rename(folder)
    except (OSError, subprocess.SubprocessError) as exc:
        shutil.rmtree(draft, ignore_errors=True)
        if not folder.exists():  # else another process was faster
            pytest.skip(f"no OpenID Connect provider: {exc}")
    return folder
