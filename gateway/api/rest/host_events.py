"""Read the webhooks of each kind of code host: their signatures, and the events they report.

Sources: the pages "Webhook events and payloads" of GitHub, "Webhook events" and "System hooks" of
GitLab, and "Webhooks" of Gitea, as of November 2026.
"""

from __future__ import annotations

import hmac
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from codelode.sources import Connection, HostKind
from gateway.service.requests import HostEvent

#: What reading a payload raises that lacks a field, or has it in another form.
MALFORMED = (KeyError, TypeError, AttributeError, ValueError, RecursionError)

#: The kind whose rules a delivery for an unknown connection is checked by.
ANY = HostKind.GITHUB

_BRANCH, _TAG = "refs/heads/", "refs/tags/"

Payload = Mapping[str, Any]
Headers = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Host:
    """The way a kind of host signs deliveries, and its names of events."""

    given: Callable[[Headers], str]  # the signature of a delivery; empty: none
    expected: Callable[[bytes, bytes], str]  # the right one, of secret and body
    event: Callable[[Headers, Payload], str]  # its name
    delivery: str  # the header with the id
    pushes: frozenset[str]
    deletions: frozenset[str]  # of a branch or tag, where they are no pushes
    rights: frozenset[str]
    repositories: frozenset[str]  # of repositories that came, changed, or went


def event(connection: Connection, headers: Headers, payload: Payload) -> HostEvent | None:
    """Return the event; None if it asks for nothing. Raises one of MALFORMED."""
    host = HOSTS[connection.kind]
    name = host.event(headers, payload)
    is_deletion = name in host.deletions
    is_push = (is_deletion or name in host.pushes) and not _is_paused(connection, payload)
    changes_rights = name in host.rights
    changes_repositories = name in host.repositories or (is_push and _is_first(payload))
    if not (is_push or changes_rights or changes_repositories):
        return None
    return HostEvent(
        connection=connection.name,
        principal=connection.principal,
        prefix=connection.prefix,
        delivery=headers.get(host.delivery, ""),
        urls=_urls(payload) if is_push else (),
        ref=_ref(payload["ref"]) if is_push else "",
        is_deletion=is_push and (is_deletion or _is_nothing(payload.get("after", ""))),
        brings_ref=is_push and _is_named(connection, payload),
        changes_rights=changes_rights,
        changes_repositories=changes_repositories,
    )


def _is_paused(connection: Connection, payload: Payload) -> bool:
    """Return whether the rules of the connection keep the repository as it is."""
    place = payload.get("repository") or {}
    name = (payload.get("project") or {}).get("path_with_namespace") or place.get("full_name")
    return bool(connection.repositories and name and connection.repositories.is_paused(str(name)))


def _urls(payload: Payload) -> tuple[str, ...]:
    """Return the URLs of the repository, whatever the host calls them."""
    repository = payload.get("repository") or {}
    project = payload.get("project") or {}
    found = (
        *(repository.get(name) for name in ("html_url", "clone_url", "ssh_url")),
        *(project.get(name) for name in ("web_url", "git_http_url", "git_ssh_url")),
    )
    return tuple(url for url in found if isinstance(url, str) and url)


def _ref(ref: str) -> str:
    return ref.removeprefix(_BRANCH).removeprefix(_TAG)


def _is_nothing(commit: str) -> bool:
    """Return whether the commit after a push is the id of zeros: the ref was deleted."""
    return bool(commit) and not commit.strip("0")


def _is_first(payload: Payload) -> bool:
    """Return whether a push made the default branch: an empty repository got its first commits."""
    place = payload.get("repository") or {}
    default = (payload.get("project") or place).get("default_branch")
    return (
        bool(default)
        and _is_nothing(payload.get("before", ""))
        and (payload["ref"] == f"{_BRANCH}{default}")
    )


def _is_named(connection: Connection, payload: Payload) -> bool:
    """Return whether a push made a branch or tag that the rules of the connection name."""
    rules, ref = connection.repositories, payload["ref"]
    if rules is None or not _is_nothing(payload.get("before", "")):
        return False
    return rules.names_ref(_ref(ref), is_tag=ref.startswith(_TAG))


def _sha256(secret: bytes, body: bytes) -> str:
    return hmac.digest(secret, body, "sha256").hex()


def _header(name: str) -> Callable[[Headers], str]:
    return lambda headers: headers.get(name, "")


def _gitlab_event(headers: Headers, payload: Payload) -> str:
    """Return the name in the payload: several events share a name in the header."""
    return str(payload.get("event_name") or payload.get("object_kind") or "")


HOSTS: Mapping[HostKind, Host] = {
    HostKind.GITHUB: Host(
        given=_header("x-hub-signature-256"),
        expected=lambda secret, body: f"sha256={_sha256(secret, body)}",
        event=lambda headers, _: headers.get("x-github-event", ""),
        delivery="x-github-delivery",
        pushes=frozenset({"push"}),
        deletions=frozenset(),  # it reports a push, too
        rights=frozenset(
            {"repository", "public", "member", "membership", "team", "team_add", "organization"}
        ),
        repositories=frozenset({"repository", "public"}),
    ),
    HostKind.GITEA: Host(
        given=_header("x-gitea-signature"),
        expected=_sha256,
        event=lambda headers, _: headers.get("x-gitea-event", ""),
        delivery="x-gitea-delivery",
        pushes=frozenset({"push"}),
        deletions=frozenset({"delete"}),
        rights=frozenset({"repository"}),  # it reports nothing about teams and collaborators
        repositories=frozenset({"repository"}),  # nothing about renamed and archived ones, either
    ),
    HostKind.GITLAB: Host(
        given=_header("x-gitlab-token"),  # the secret itself
        expected=lambda secret, _: secret.decode(),
        event=_gitlab_event,
        delivery="idempotency-key",
        pushes=frozenset({"push", "tag_push"}),
        deletions=frozenset(),
        rights=frozenset(
            {
                *("project_create", "project_destroy", "project_rename", "project_transfer"),
                "project_update",
                *("user_add_to_team", "user_update_for_team", "user_remove_from_team"),
                *("user_add_to_group", "user_update_for_group", "user_remove_from_group"),
                *("group_create", "group_destroy", "group_rename"),
                *("subgroup_create", "subgroup_destroy"),
                *("user_create", "user_destroy", "user_rename"),
            }
        ),
        repositories=frozenset(
            {
                *("project_create", "project_destroy", "project_rename", "project_transfer"),
                *("project_update", "group_rename", "group_destroy", "subgroup_destroy"),
            }
        ),
    ),
}
