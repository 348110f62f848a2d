"""Make the JSON schema of the sources file, for editors. The parser decides what is accepted."""

from __future__ import annotations

from typing import Any

from codelode.access import Label
from codelode.repository_rules import MAX_REFS, MAX_WEIGHT, HostVisibility, RunPriority
from codelode.sources import FIELDS, HostKind

_TIME = {"type": "string", "pattern": "^[0-9]{1,6}[smhd]$", "examples": ["5m", "24h"]}
#: The fields that connections of each kind need; github needs a token or an app besides.
_NEEDED = {
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
    """Return the schema, in the form of draft 2020-12."""
    connections = [_connection(kind) for kind in HostKind]
    listed = {"type": "array", "items": {"oneOf": connections}}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Sources of codelode",
        **_object({"connections": listed}),
    }


def _connection(kind: HostKind) -> dict[str, Any]:
    """Return the schema of the connections of a kind."""
    fields = {name: _FIELDS[name] for name in FIELDS[kind]}
    if kind is HostKind.URLS:
        fields["ssh"] = _SSH
    own = {"name": _NAME, "kind": {"const": kind.value}}
    found = _object({**own, **fields}, required=("name", "kind", *_NEEDED[kind]))
    return {**found, "oneOf": _TOKEN_OR_APP} if kind is HostKind.GITHUB else found


def _object(properties: dict[str, Any], *, required: tuple[str, ...] = ()) -> dict[str, Any]:
    found = {"type": "object", "properties": properties, "additionalProperties": False}
    return {**found, "required": list(required)} if required else found


def _described(schema: dict[str, Any], text: str) -> dict[str, Any]:
    return {**schema, "description": text}


_NAME = {"type": "string", "pattern": "^[a-z0-9][a-z0-9-]{0,31}$"}
_ENV = _described({"type": "string"}, "The environment variable that holds it.")
_FILE = _described({"type": "string"}, "The file that holds it, from the folder of this file.")
_SECRET = {
    "oneOf": [
        _object({name: value}, required=(name,)) for name, value in (("env", _ENV), ("file", _FILE))
    ]
}
_TOKEN_OR_APP = [{"required": [name]} for name in ("token", "app")]
_ID = {"anyOf": [{"type": "integer"}, {"type": "string", "pattern": "^[A-Za-z0-9._-]{1,64}$"}]}
_APP = _object(
    {
        "id": _described(_ID, "The number or the client id of the app."),
        "private_key": _described(_SECRET, "Where its private key is; it is never in this file."),
        "installation": _described(_ID, "The number of its installation; default: ask the host."),
    },
    required=("id", "private_key"),
)
_SSH_FIELDS = {
    "private_key": _described(_SECRET, "Where the private key is; it is never in this file."),
    "known_hosts": _described({"type": "string"}, "The keys of the hosts, one in a line."),
}
_SSH = _described(
    _object(_SSH_FIELDS, required=tuple(_SSH_FIELDS)), "How git reads the URLs that go over ssh."
)
_SSH_URL = _described({"type": "string"}, "ssh://git@HOST:PORT; default: the host of the url.")
_SSH_OF_HOST = _object({**_SSH_FIELDS, "url": _SSH_URL}, required=tuple(_SSH_FIELDS))
_PERMISSIONS = _object(
    {
        "every": _described(_TIME, "How often they are read."),
        "max_age": _described(_TIME, "Older ones count as none."),
        "emails": _described(_FLAG, "Match verified e-mail addresses."),
        "claim": _described({"type": "string"}, "Claim of tokens with the id of the account."),
    }
)
_REPOSITORIES = _object(
    {
        "include": _described(_TEXTS, "Globs over names, one of which must match."),
        "exclude": _described(_TEXTS, "Globs over names, none of which may match."),
        "topics": _described(_TEXTS, "Topics, one of which is required."),
        "visibility": _described(
            {"type": "array", "items": {"enum": [*HostVisibility]}}, "One of these is required."
        ),
        "forks": _described(_FLAG, "Whether forks are followed; the default is true."),
        "archived": _described(_FLAG, "Whether archived ones are followed; the default is true."),
        "max_size": _described(
            {"type": "string", "pattern": "^[0-9]{1,6}(MB|GB)$"}, "Larger ones are left out."
        ),
        "branches": _described(_TEXTS, "Globs over branches to index besides the default one."),
        "tags": _described(_TEXTS, "Globs over tags to index, the newest ones."),
        "newest_tags": _described(
            {"type": "integer", "minimum": 1, "maximum": MAX_REFS}, "How many tags; default: 10."
        ),
        "label": _described({"enum": [*Label]}, "Who sees the repositories."),
        "every": _described(_TIME, "How often they are listed; the default is 1h."),
        "at_least_every": _described(
            _TIME, "How often while the host has no news; the default is four times `every`."
        ),
        "grace": _described(_TIME, "How long one is kept after its listing ends; default: 7d."),
        "paused": _described(_TEXTS, "Globs over names; these repositories stay as they are."),
        "priority": _described(
            {"enum": [*RunPriority]}, "Whether runs go before others, or give way; default: normal."
        ),
        "weights": _described(
            {"type": "object", "additionalProperties": _WEIGHT},
            "Globs over names, and how much of the workers these get; default: 1.",
        ),
    }
)
_FIELDS: dict[str, Any] = {
    "url": _described({"type": "string", "format": "uri"}, "The address of the host."),
    "organisation": _described({"type": "string"}, "An organisation, a group, or an owner."),
    "token": _described(_SECRET, "Where the token is; it is never in this file."),
    "app": _described(_APP, "The GitHub App that reads the organisation, instead of a token."),
    "webhook_secret": _described(_SECRET, "Where the secret of the webhooks is."),
    "permissions": _described(_PERMISSIONS, "Let the host decide who sees its repositories."),
    "repositories": _described(_REPOSITORIES, "Follow the repositories."),
    "ssh": _described(_SSH_OF_HOST, "How git reads over ssh, instead of with the token."),
    "urls": _described(_TEXTS, "URLs of repositories."),
    "path": _described({"type": "string"}, "A folder that holds repositories."),
}
