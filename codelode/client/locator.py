"""Name a repository in a form that a server in another folder, or on another machine, accepts."""

from __future__ import annotations

import os


def locator(url: str) -> str:
    """Return a local path as an absolute one, because the server runs elsewhere; keep URLs."""
    # Do not read an empty text as the current folder: it is a variable that a script did not set.
    looks_local = url.startswith((".", "/", "~")) or os.path.exists(url)
    return os.path.realpath(os.path.expanduser(url)) if looks_local else url
