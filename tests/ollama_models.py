"""Install the test models in the Ollama servers of tests, of which each test process starts one.

Ollama takes 4 seconds of processor time to make them. Therefore the first server of a machine makes
them, and the others get copies, which are kept in the cache folder beside the servers.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from contextlib import suppress
from pathlib import Path

SCRIPT = Path(__file__).parents[1] / "deploy" / "test_models.py"


def make(url):
    """Make the models in a running server that lacks them."""
    subprocess.run([sys.executable, SCRIPT, url], check=True)


def provide(url, folder):
    """Install the models in a running server that stores its models in the folder."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache", "codelode", "models")
    cache.mkdir(parents=True, exist_ok=True)
    made = cache / f"made-{hashlib.sha256(SCRIPT.read_bytes()).hexdigest()[:16]}"
    with made.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if made.exists():
            shutil.copytree(made, folder, copy_function=_copy, dirs_exist_ok=True)
            return
        make(url)
        draft = Path(tempfile.mkdtemp(dir=cache))
        shutil.copytree(folder, draft, copy_function=_copy, dirs_exist_ok=True)
        draft.rename(made)


def _copy(source, target):
    """Link a blob, which Ollama never changes; copy a manifest, which it overwrites."""
    if Path(source).parent.name == "blobs":
        with suppress(OSError):  # the folders may be on two file systems
            os.link(source, target)
            return
    shutil.copy2(source, target)
