"""Read variables from a file that a shell would source."""

from __future__ import annotations

import shlex


def exported(file):
    """Return the variables of a file of `export NAME=value` lines; none if it does not exist."""
    lines = file.read_text().splitlines() if file.exists() else ()
    return dict(shlex.split(line)[1].split("=", 1) for line in lines)
