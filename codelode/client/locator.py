"""Name a repository so that a server on another machine, or in another folder, understands it."""

from __future__ import annotations

import os


def locator(url: str) -> str:
    """Return a local path as an absolute one, because the server runs elsewhere; keep URLs."""
    # An empty text would mean the current folder, but it is a variable that a script did not set.
    looks_local = url.startswith((".", "/", "~")) or os.path.exists(url)
    return os.path.realpath(os.path.expanduser(url)) if looks_local else url
