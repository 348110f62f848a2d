"""Reading back what a shell would source."""

from __future__ import annotations

import shlex


def exported(file):
    """The variables of a file of `export NAME=value`; none where there is no file."""
    lines = file.read_text().splitlines() if file.exists() else ()
    return dict(shlex.split(line)[1].split("=", 1) for line in lines)
