"""Make the JSON schema of the sources file, for editors. The parser decides what is accepted."""

from __future__ import annotations

from typing import Any

from codelode.access import Label
from codelode.repository_rules import MAX_REFS, MAX_WEIGHT, HostVisibility, RunPriority
from codelode.sources import FIELDS, HostKind

_TIME = {"type": "string", "pattern": "^[0-9]{1,6}[smhd]$", "examples": ["5m", "24h"]}
#: The fields that connections of each kind must have. A github connection also needs a token or an
#: app: see `_TOKEN_OR_APP`.
_REQUIRED = {
    HostKind.GITHUB: ("organisation",),
    **dict.fromkeys((HostKind.BITBUCKET, HostKind.AZURE), ("token", "organisation")),
    HostKind.GITLAB: ("token",),
    **dict.fromkeys((HostKind.GITEA, HostKind.BITBUCKET_SERVER), ("token", "url")),
    HostKind.URLS: ("urls",),
    HostKind.FOLDER: ("path",),
}

_TEXTS = {"type": "array", "items": {"type": "string"}}
_FLAG = {"type": "boolean"}
_WEIGHT = {"type": "integer", "minimum": 1, "maximum": MAX_WEIGHT}


def schema() -> dict[str, Any]:
    """Return the schema of the whole file, as JSON Schema draft 2020-12."""
    connections = {"type": "array", "items": {"oneOf": [_connection(kind) for kind in HostKind]}}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Sources of codelode",
        **_object({"connections": connections}),
    }


def _connection(kind: HostKind) -> dict[str, Any]:
    """Return the schema of the connections of a kind."""
    fields = {name: _FIELDS[name] for name in FIELDS[kind]}
    if kind is HostKind.URLS:
        fields["ssh"] = _SSH
    common = {"name": _NAME, "kind": {"const": kind.value}}
    made = _object({**common, **fields}, required=("name", "kind", *_REQUIRED[kind]))
    return {**made, "oneOf": _TOKEN_OR_APP} if kind is HostKind.GITHUB else made


def _object(properties: dict[str, Any], *, required: tuple[str, ...] = ()) -> dict[str, Any]:
    """Return the schema of a mapping that has these fields and no others."""
    made = {"type": "object", "properties": properties, "additionalProperties": False}
    return {**made, "required": list(required)} if required else made


def _described(schema: dict[str, Any], text: str) -> dict[str, Any]:
    return {**schema, "description": text}


_NAME = {"type": "string", "pattern": "^[a-z0-9][a-z0-9-]{0,31}$"}
_ENV = _described({"type": "string"}, "The environment variable that holds the secret.")
_FILE = _described(
    {"type": "string"}, "The file that holds the secret, relative to the folder of this file."
)
_SECRET = {
    "oneOf": [
        _object({name: value}, required=(name,)) for name, value in (("env", _ENV), ("file", _FILE))
    ]
}
_TOKEN_OR_APP = [{"required": [name]} for name in ("token", "app")]
_ID = {"anyOf": [{"type": "integer"}, {"type": "string", "pattern": "^[A-Za-z0-9._-]{1,64}$"}]}
_APP = _object(
    {
        "id": _described(_ID, "The app id or the client id of the app."),
        "private_key": _described(_SECRET, "Where the private key is; it is never in this file."),
        "installation": _described(
            _ID, "The id of the app's installation; by default the host is asked for it."
        ),
    },
    required=("id", "private_key"),
)
_SSH_FIELDS = {
    "private_key": _described(_SECRET, "Where the private key is; it is never in this file."),
    "known_hosts": _described(
        {"type": "string"},
        "The public keys of the hosts, one per line, as ssh-keyscan prints them.",
    ),
}
_SSH = _described(
    _object(_SSH_FIELDS, required=tuple(_SSH_FIELDS)), "How git reads the ssh URLs of the list."
)
_SSH_URL = _described(
    {"type": "string"}, "ssh://git@HOST:PORT; the default is the host of the connection's url."
)
_SSH_OF_HOST = _object({**_SSH_FIELDS, "url": _SSH_URL}, required=tuple(_SSH_FIELDS))
_PERMISSIONS = _object(
    {
        "every": _described(_TIME, "How often the permissions are read."),
        "max_age": _described(
            _TIME, "Permissions that are older do not count: only admins see the repositories."
        ),
        "emails": _described(
            _FLAG, "Whether callers are matched with accounts by verified e-mail addresses."
        ),
        "claim": _described(
            {"type": "string"}, "Claim of OpenID Connect tokens that has the id of the account."
        ),
    }
)
_REPOSITORIES = _object(
    {
        "include": _described(
            _TEXTS, "Globs over names at the host; only repositories that match one are followed."
        ),
        "exclude": _described(
            _TEXTS, "Globs over names at the host; repositories that match one are left out."
        ),
        "topics": _described(
            _TEXTS, "Topics; only repositories that have at least one of them are followed."
        ),
        "visibility": _described(
            {"type": "array", "items": {"enum": [*HostVisibility]}},
            "Visibilities at the host; only repositories that have one of them are followed.",
        ),
        "forks": _described(_FLAG, "Whether forks are followed; the default is true."),
        "archived": _described(
            _FLAG, "Whether archived repositories are followed; the default is true."
        ),
        "max_size": _described(
            {"type": "string", "pattern": "^[0-9]{1,6}(MB|GB)$"},
            "Repositories that are larger at the host are left out.",
        ),
        "branches": _described(
            _TEXTS, "Globs over branches that are indexed besides the default branch."
        ),
        "tags": _described(_TEXTS, "Globs over tags; the newest tags that match one are indexed."),
        "newest_tags": _described(
            {"type": "integer", "minimum": 1, "maximum": MAX_REFS},
            "How many of the tags that match are indexed, newest first; the default is 10.",
        ),
        "label": _described(
            {"enum": [*Label]}, "The label of new repositories, which decides who sees them."
        ),
        "every": _described(_TIME, "How often repositories are listed; the default is 1h."),
        "at_least_every": _described(
            _TIME,
            "How often repositories are listed while there is no news at the host; the default is "
            "four times `every`.",
        ),
        "grace": _described(
            _TIME,
            "How long a repository is kept after the host stops listing it; the default is 7d.",
        ),
        "paused": _described(
            _TEXTS,
            "Globs over names at the host; repositories that match one are searched as they are, "
            "and not updated, renamed, or removed.",
        ),
        "priority": _described(
            {"enum": [*RunPriority]},
            "Whether runs give way to others always (low), never (high), or if they are large "
            "(normal, the default).",
        ),
        "weights": _described(
            {"type": "object", "additionalProperties": _WEIGHT},
            "Globs over names in codelode, and the weight by which the time of the workers is "
            "divided; the default is 1.",
        ),
    }
)
_FIELDS: dict[str, Any] = {
    "url": _described({"type": "string", "format": "uri"}, "The address of the code host."),
    "organisation": _described(
        {"type": "string"}, "An organisation, group, owner, workspace, or project of the host."
    ),
    "token": _described(_SECRET, "Where the token is; it is never in this file."),
    "app": _described(_APP, "The GitHub App whose tokens are used instead of `token`."),
    "webhook_secret": _described(_SECRET, "Where the secret that verifies webhooks is."),
    "permissions": _described(_PERMISSIONS, "Let the host decide who sees its repositories."),
    "repositories": _described(
        _REPOSITORIES, "Index, rename, and remove repositories as they change at the host."
    ),
    "ssh": _described(_SSH_OF_HOST, "How git reads over ssh, instead of with the token."),
    "urls": _described(_TEXTS, "URLs of repositories."),
    "path": _described({"type": "string"}, "A folder that directly contains repositories."),
}
