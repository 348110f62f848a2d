"""Read the environment variables of a client, without the validation that a server needs.

`codelode.settings` describes and checks every setting, but importing the validation takes longer
than a search does. A client needs three of them.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

PREFIX = "CODELODE_"

DEFAULT_SERVER = "127.0.0.1:50051"
DEFAULT_DATA = "~/.local/share/codelode"


class ClientSettings(NamedTuple):
    """The settings of a client. Each has the meaning of the field of that name in `Settings`."""

    server: str | None  # None: not set
    token: str
    data: Path


def wants_colours(environment: Mapping[str, str] = os.environ) -> bool:
    """Return whether a terminal may be sent colours: see https://no-color.org."""
    return not environment.get("NO_COLOR") and environment.get("TERM") != "dumb"


def client_settings(environment: Mapping[str, str] = os.environ) -> ClientSettings:
    """Read a client's settings; the names of variables are not case-sensitive."""
    found = {name.upper(): value for name, value in environment.items()}
    return ClientSettings(
        server=found.get(f"{PREFIX}SERVER"),
        token=found.get(f"{PREFIX}TOKEN", ""),
        data=Path(found.get(f"{PREFIX}DATA", DEFAULT_DATA)).expanduser().resolve(),
    )
