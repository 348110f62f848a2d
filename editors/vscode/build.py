"""Build the VS Code extension: `make vscode` writes dist/codelode.vsix beside this file."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.programs import npm

HERE = Path(__file__).parent


def build() -> Path:
    """Return the packed extension, built by the compiler and the packer of package-lock.json."""
    lock, installed = HERE / "package-lock.json", HERE / "node_modules" / ".package-lock.json"
    if not installed.exists() or installed.stat().st_mtime < lock.stat().st_mtime:
        npm(HERE, "ci", "--ignore-scripts")
    npm(HERE, "run", "package")
    return HERE / "dist" / "codelode.vsix"


if __name__ == "__main__":
    try:
        sys.stdout.write(f"{build()}\n")
    except subprocess.CalledProcessError as exc:
        sys.exit((exc.stdout + exc.stderr).decode(errors="replace"))
    except (pytest.skip.Exception, pytest.fail.Exception) as exc:  # Node cannot be installed
        sys.exit(str(exc))
