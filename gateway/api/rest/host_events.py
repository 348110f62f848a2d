"""Read the events that webhooks of each kind of code host report.

Sources: the pages "Webhook events and payloads" of GitHub, "Webhook events" and "System hooks" of
GitLab, "Webhooks" of Gitea, "Event payloads" of Bitbucket Cloud and of Bitbucket Data Center, and
"Service hook events" of Azure DevOps, as of November 2026.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple
from urllib.parse import quote

from codelode.sources import Connection, HostKind
from gateway.api.rest.host_signatures import Headers, Signed, by_digest, by_password, of_gitlab
from gateway.service.requests import HostEvent, PushedRef

#: The errors of reading a payload in which a field is missing or has another format.
MALFORMED = (KeyError, TypeError, AttributeError, ValueError, RecursionError)

#: A delivery for an unknown connection is checked like one of this kind of host.
ANY = HostKind.GITHUB

_BRANCH, _TAG = "refs/heads/", "refs/tags/"

Payload = Mapping[str, Any]


class Place(NamedTuple):
    """The repository in which something happened."""

    urls: tuple[str, ...]  # in all spellings that the host gives
    name: str  # as the host lists it; empty: the host does not say
    default: str = ""  # its default branch; empty: the host does not say


class Update(NamedTuple):
    """The effect of a push on one branch or tag."""

    ref: str  # its full name
    is_new: bool = False
    is_deleted: bool = False


@dataclass(frozen=True, slots=True)
class Host:
    """The way a kind of host signs deliveries, and its names of events."""

    is_signed: Signed
    event: Callable[[Headers, Payload], str]  # its name
    delivery: Callable[[Headers, Payload], str]  # its id; empty: none
    place: Callable[[Connection, Payload], Place]
    updates: Callable[[Payload], Iterable[Update]]  # by a push
    pushes: frozenset[str]
    repositories: frozenset[str]  # about created, changed, or deleted repositories
    rights: frozenset[str] = frozenset()  # about who may read repositories
    deletions: frozenset[str] = frozenset()  # of a branch or tag, if these are not pushes


def event(connection: Connection, headers: Headers, payload: Payload) -> HostEvent | None:
    """Return the event; None if it requires no action. Raises one of MALFORMED."""
    host = HOSTS[connection.kind]
    name = host.event(headers, payload)
    place, updates = _pushed(connection, host, name, payload)
    changes_rights, changes_repositories = name in host.rights, name in host.repositories
    if not (updates or changes_rights or changes_repositories):
        return None
    rules = connection.repositories
    may_be_first = any(one.is_new and _may_be_default(one, place) for one in updates)
    return HostEvent(
        connection=connection.name,
        principal=connection.principal,
        prefix=connection.prefix,
        delivery=host.delivery(headers, payload),
        urls=place.urls,
        refs=tuple(_ref(connection, one, place) for one in updates),
        changes_rights=changes_rights,
        changes_repositories=changes_repositories,
        may_be_first=may_be_first and not (rules and rules.name_left_out_because(place.name)),
    )


def _pushed(
    connection: Connection, host: Host, name: str, payload: Payload
) -> tuple[Place, tuple[Update, ...]]:
    """Return the repository and the updates of a push; none if the rules pause the repository."""
    is_deletion = name in host.deletions
    if not is_deletion and name not in host.pushes:
        return Place((), ""), ()
    place, rules = host.place(connection, payload), connection.repositories
    if rules and place.name and rules.is_paused(place.name):
        return Place((), ""), ()
    deleted = (Update(str(payload["ref"]), is_deleted=True),) if is_deletion else ()
    return place, deleted or tuple(host.updates(payload))


def _may_be_default(update: Update, place: Place) -> bool:
    """Return whether a branch may be the default one of a repository that was empty."""
    if not update.ref.startswith(_BRANCH):
        return False
    return not place.default or place.default == update.ref.removeprefix(_BRANCH)


def _ref(connection: Connection, update: Update, place: Place) -> PushedRef:
    rules, is_tag = connection.repositories, update.ref.startswith(_TAG)
    short = update.ref.removeprefix(_BRANCH).removeprefix(_TAG)
    is_named = rules is not None and update.is_new and rules.names_ref(short, is_tag=is_tag)
    is_default = bool(place.default) and update.ref == _BRANCH + place.default
    return PushedRef(short, update.is_deleted, brings_ref=is_named, is_default=is_default)


def _is_nothing(commit: str) -> bool:
    """Return whether the id is all zeros: the ref did not exist before, or does not exist now."""
    return bool(commit) and not commit.strip("0")


def _header(name: str) -> Callable[[Headers, Payload], str]:
    return lambda headers, _: headers.get(name, "")


def _place(connection: Connection, payload: Payload) -> Place:
    """Return the repository in a payload of GitHub, GitLab, or Gitea."""
    repository, project = payload.get("repository") or {}, payload.get("project") or {}
    found = (
        *(repository.get(name) for name in ("html_url", "clone_url", "ssh_url")),
        *(project.get(name) for name in ("web_url", "git_http_url", "git_ssh_url")),
    )
    urls = tuple(url for url in found if isinstance(url, str) and url)
    name = project.get("path_with_namespace") or repository.get("full_name") or ""
    return Place(urls, str(name), (project or repository).get("default_branch") or "")


def _updates(payload: Payload) -> Iterable[Update]:
    """Yield the only ref in a payload of GitHub, GitLab, or Gitea."""
    before, after = payload.get("before", ""), payload.get("after", "")
    yield Update(_text(payload["ref"]), _is_nothing(before), _is_nothing(after))


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is not a text")
    return value


def _gitlab_event(headers: Headers, payload: Payload) -> str:
    """Return the name of the event in the payload; in the header, several events share a name."""
    return str(payload.get("event_name") or payload.get("object_kind") or "")


def _gitlab_delivery(headers: Headers, payload: Payload) -> str:
    """Return the id that a signing token signs; other deliveries have only an idempotency key."""
    return headers.get("webhook-id") or headers.get("idempotency-key", "")


def _bitbucket_place(connection: Connection, payload: Payload) -> Place:
    name = _text(payload["repository"]["full_name"])
    return Place((f"{connection.root}/{name}",), name)


def _bitbucket_updates(payload: Payload) -> Iterable[Update]:
    """Return the refs of a push; a new one has no old state, and a deleted one no new state."""
    for change in payload["push"]["changes"]:
        old, new = change.get("old"), change.get("new")
        found = new or old
        prefix = _TAG if found["type"] == "tag" else _BRANCH
        yield Update(prefix + _text(found["name"]), is_new=not old, is_deleted=not new)


def _bitbucket_server_place(connection: Connection, payload: Payload) -> Place:
    repository = payload["repository"]
    name = f"{repository['project']['key'].lower()}/{repository['slug']}"
    return Place((f"{connection.root}/{name}",), name)


def _bitbucket_server_updates(payload: Payload) -> Iterable[Update]:
    for change in payload["changes"]:
        kind = change["type"]
        yield Update(_text(change["refId"]), kind == "ADD", kind == "DELETE")


def _azure_place(connection: Connection, payload: Payload) -> Place:
    repository = payload["resource"]["repository"]
    project, name = _text(repository["project"]["name"]), _text(repository["name"])
    path = f"{quote(project, safe='')}/_git/{quote(name, safe='')}"
    return Place(
        (f"{connection.root}/{connection.organisation}/{path}",),
        f"{connection.organisation}/{project}/{name}",
        (repository.get("defaultBranch") or "").removeprefix(_BRANCH),
    )


def _azure_updates(payload: Payload) -> Iterable[Update]:
    for one in payload["resource"]["refUpdates"]:
        is_new, is_deleted = _is_nothing(one["oldObjectId"]), _is_nothing(one["newObjectId"])
        yield Update(_text(one["name"]), is_new, is_deleted)


def _field(name: str) -> Callable[[Headers, Payload], str]:
    return lambda _, payload: str(payload.get(name) or "")


HOSTS: Mapping[HostKind, Host] = {
    HostKind.GITHUB: Host(
        is_signed=by_digest("x-hub-signature-256", prefix="sha256="),
        event=_header("x-github-event"),
        delivery=_header("x-github-delivery"),
        place=_place,
        updates=_updates,
        pushes=frozenset({"push"}),  # a deletion is one, too
        rights=frozenset(
            {"repository", "public", "member", "membership", "team", "team_add", "organization"}
        ),
        repositories=frozenset({"repository", "public"}),
    ),
    HostKind.GITEA: Host(  # Forgejo sends these headers, too
        is_signed=by_digest("x-gitea-signature"),
        event=_header("x-gitea-event"),
        delivery=_header("x-gitea-delivery"),
        place=_place,
        updates=_updates,
        pushes=frozenset({"push"}),
        deletions=frozenset({"delete"}),
        rights=frozenset({"repository"}),  # it reports nothing about teams and collaborators
        repositories=frozenset({"repository"}),  # nothing about renamed and archived ones, either
    ),
    HostKind.GITLAB: Host(
        is_signed=of_gitlab,
        event=_gitlab_event,
        delivery=_gitlab_delivery,
        place=_place,
        updates=_updates,
        pushes=frozenset({"push", "tag_push"}),
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
    HostKind.BITBUCKET: Host(
        is_signed=by_digest("x-hub-signature", prefix="sha256="),
        event=_header("x-event-key"),
        delivery=_header("x-request-uuid"),
        place=_bitbucket_place,
        updates=_bitbucket_updates,
        pushes=frozenset({"repo:push"}),
        repositories=frozenset(
            {
                *("repo:created", "repo:deleted", "repo:fork", "repo:imported"),
                *("repo:transfer", "repo:updated", "project:updated"),
            }
        ),
    ),
    HostKind.BITBUCKET_SERVER: Host(
        is_signed=by_digest("x-hub-signature", prefix="sha256="),
        event=_header("x-event-key"),
        delivery=_header("x-request-id"),
        place=_bitbucket_server_place,
        updates=_bitbucket_server_updates,
        pushes=frozenset({"repo:refs_changed"}),
        # It reports nothing about repositories that are created, moved, or deleted.
        repositories=frozenset(
            {"repo:modified", "repo:forked", "project:modified", "proj:modified"}
        ),
    ),
    HostKind.AZURE: Host(
        is_signed=by_password,
        event=_field("eventType"),
        delivery=_field("id"),
        place=_azure_place,
        updates=_azure_updates,
        pushes=frozenset({"git.push"}),
        repositories=frozenset(
            {
                *("git.repo.created", "git.repo.deleted", "git.repo.undeleted"),
                *("git.repo.forked", "git.repo.renamed", "git.repo.statuschanged"),
            }
        ),
    ),
}
