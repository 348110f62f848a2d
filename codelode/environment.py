"""Read the environment variables of a client, without the validation that a server needs.

`codelode.settings` describes and checks every setting, but importing the validation takes longer
than a search does. A client needs few of them.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

PREFIX = "CODELODE_"

#: Set in the processes that `codelode up` starts, and inherited by theirs, to the data folder.
MARKER = f"{PREFIX}CLUSTER"

#: Only the gateway and its clients use it.
TOKEN = f"{PREFIX}TOKEN"

#: Exit status of a server that cannot start because of its settings or a file that they name, so
#: that another attempt is useless: EX_CONFIG of sysexits.h.
UNUSABLE_SETTINGS = 78

#: The texts that the settings read as true, in lower case.
_TRUE = ("1", "true", "t", "yes", "y", "on")

DEFAULT_SERVER = "127.0.0.1:50051"

#: The port at which `codelode up` serves the web page and the REST API.
HTTP_PORT = 50_080
DEFAULT_DATA = "~/.local/share/codelode"


class ClientSettings(NamedTuple):
    """The settings of a client. Each has the meaning of the field of that name in `Settings`."""

    server: str | None  # None: not set
    token: str
    token_file: str
    token_without_tls: bool
    tls_ca: str
    tls_client: tuple[str, str]  # the files of certificate and key
    data: Path


def wants_colours(environment: Mapping[str, str] = os.environ) -> bool:
    """Return whether output to a terminal may have colours: see https://no-color.org."""
    return not environment.get("NO_COLOR") and environment.get("TERM") != "dumb"


def client_settings(environment: Mapping[str, str] = os.environ) -> ClientSettings:
    """Read a client's settings; the names of variables are not case-sensitive."""
    found = {name.upper(): value for name, value in environment.items()}
    return ClientSettings(
        server=found.get(f"{PREFIX}SERVER"),
        token=found.get(TOKEN, ""),
        token_file=found.get(f"{PREFIX}TOKEN_FILE", ""),
        token_without_tls=found.get(f"{PREFIX}TOKEN_WITHOUT_TLS", "").lower() in _TRUE,
        tls_ca=found.get(f"{PREFIX}TLS_CA", ""),
        tls_client=(
            found.get(f"{PREFIX}TLS_CLIENT_CERTIFICATE", ""),
            found.get(f"{PREFIX}TLS_CLIENT_KEY", ""),
        ),
        data=Path(found.get(f"{PREFIX}DATA", DEFAULT_DATA)).expanduser().resolve(),
    )


#: The variables of a client that hold no secret.
_SHOWN = (
    *("DATA", "SERVER", "TOKEN_FILE", "TOKEN_WITHOUT_TLS"),
    *("TLS_CA", "TLS_CLIENT_CERTIFICATE", "TLS_CLIENT_KEY"),
)


def client_variables(environment: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Return the variables of a client that are set and may be written to a file: no secrets."""
    found = {name.upper(): value for name, value in environment.items()}
    names = (f"{PREFIX}{name}" for name in _SHOWN)
    return {name: found[name] for name in names if found.get(name)}


def variable(name: str, environment: Mapping[str, str] = os.environ) -> str:
    """Return a variable that a configuration file names; empty if it is not set."""
    return environment.get(name, "")


def without_settings(environment: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Return the environment for a foreign program, without settings: they hold tokens and keys."""
    return {
        name: value
        for name, value in environment.items()
        if name == MARKER or not name.upper().startswith(PREFIX)
    }


#: Variables by which git tells its hooks and aliases which repository they run in: the output of
#: `git rev-parse --local-env-vars`, except those that hold configuration.
_OF_REPOSITORY = frozenset(
    f"GIT_{name}"
    for name in (
        *("ALTERNATE_OBJECT_DIRECTORIES", "COMMON_DIR", "DIR", "GRAFT_FILE", "IMPLICIT_WORK_TREE"),
        *("INDEX_FILE", "OBJECT_DIRECTORY", "PREFIX", "SHALLOW_FILE", "WORK_TREE"),
    )
)


def without_repository(environment: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Return the environment for git if it is to find the repository of its working directory."""
    kept = without_settings(environment)
    return {name: value for name, value in kept.items() if name not in _OF_REPOSITORY}


def without_token(environment: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Return the environment for a program of ours that does not check the token of callers."""
    return {name: value for name, value in environment.items() if name.upper() != TOKEN}
