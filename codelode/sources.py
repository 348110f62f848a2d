"""The sources file: the code hosts of an organisation, and what codelode reads from each.

    connections:
      - name: work
        kind: gitea
        url: https://git.example.com
        token: {env: GITEA_TOKEN}
        webhook_secret: {env: GITEA_WEBHOOK_SECRET}
        permissions:
          every: 5m
          max_age: 24h
          emails: true
          claim: gitea_id
        repositories:
          exclude: ["acme/archive-*"]
          every: 15m

Credentials are never in the file: it names an environment variable or a file that holds them. The
path of such a file starts at the folder of the sources file, unless it begins with / or ~.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from urllib.parse import urlsplit

import yaml

from codelode import declarations, environment, repository_rules, ssh_keys
from codelode.addresses import check_url, is_server_url
from codelode.declarations import Wrong, flag, items, line, sequence, text, time_s
from codelode.errors import InvalidQuery, InvalidSettings
from codelode.files import read_secret
from codelode.host_permissions import address
from codelode.loopback import is_confidential
from codelode.repository_rules import RepositoryRules

_SECTIONS = ("connections",)
_HOST_FIELDS = ("url", "organisation", "token", "webhook_secret", "permissions")
_APP = ("id", "private_key", "installation")
_SSH = ("private_key", "known_hosts")
_SSH_OF_HOST = (*_SSH, "url")
_PERMISSIONS = ("every", "max_age", "emails", "claim")
NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,31}")
_ORGANISATION = re.compile(r"[A-Za-z0-9._/-]{1,200}")
_SSH_URL = re.compile(r"ssh://[A-Za-z0-9._-]+@[A-Za-z0-9.-]+(:[0-9]{1,5})?")
#: The number of an app or an installation, or the client id of an app.
_APP_ID = re.compile(r"[A-Za-z0-9._-]{1,64}")


class HostKind(StrEnum):
    """The kinds of code hosts, and of places that only hold repositories."""

    GITHUB = "github"
    GITLAB = "gitlab"
    GITEA = "gitea"
    BITBUCKET = "bitbucket"  # Cloud
    BITBUCKET_SERVER = "bitbucket-server"  # Data Center
    AZURE = "azure"  # Azure DevOps
    URLS = "urls"
    FOLDER = "folder"


#: The fields of each kind of connection, besides its name and kind.
FIELDS: Mapping[HostKind, tuple[str, ...]] = {
    HostKind.GITHUB: (*_HOST_FIELDS, "app", "ssh", "repositories"),
    **dict.fromkeys((HostKind.GITLAB, HostKind.GITEA), (*_HOST_FIELDS, "ssh", "repositories")),
    **dict.fromkeys(
        (HostKind.BITBUCKET, HostKind.BITBUCKET_SERVER, HostKind.AZURE),
        ("url", "organisation", "token", "webhook_secret", "ssh", "repositories"),
    ),
    HostKind.URLS: ("urls", "ssh", "repositories"),
    HostKind.FOLDER: ("path", "repositories"),
}
_FIELDS = tuple(dict.fromkeys(("name", "kind", *(one for of in FIELDS.values() for one in of))))

AZURE_CLOUD = "https://dev.azure.com"
#: Addresses of the hosts that are services; others need a URL.
_URLS = {
    HostKind.GITHUB: "https://github.com",
    HostKind.GITLAB: "https://gitlab.com",
    HostKind.BITBUCKET: "https://bitbucket.org",
    HostKind.AZURE: AZURE_CLOUD,
}

#: Hosts for ssh that differ from the host of the URL.
_SSH_HOSTS = {AZURE_CLOUD: "ssh.dev.azure.com"}
#: Default ports for ssh other than 22.
_SSH_PORTS = {HostKind.BITBUCKET_SERVER: 7_999}

#: The kinds whose repositories are only listed by organisation.
_ORGANISED = (HostKind.GITHUB, HostKind.BITBUCKET, HostKind.AZURE)


@dataclass(frozen=True, slots=True)
class Secret:
    """The place of a secret: an environment variable, or a file."""

    env: str = ""
    file: str = ""
    line: int = field(default=0, compare=False)  # of the sources file

    @property
    def place(self) -> str:
        return self.file or f"the environment variable {self.env}"

    def value(self) -> str:
        """Return the secret as it is now. Raises InvalidSettings that names where it should be."""
        if self.file:
            return read_secret(Path(self.file))
        found = environment.variable(self.env).strip()
        if not found:
            raise InvalidSettings(
                f"the environment variable {self.env} is not set; set it to the secret"
            )
        return found


@dataclass(frozen=True, slots=True)
class App:
    """A GitHub App, which gets tokens for its installation; they are valid for an hour."""

    id: str
    private_key: Secret = field(repr=False)
    installation: str = ""  # empty: the host is asked for it


@dataclass(frozen=True, slots=True)
class Ssh:
    """The key with which git reads repositories over ssh, and the keys of their hosts."""

    private_key: Secret = field(repr=False)
    known_hosts: str  # lines as in the file of that name
    url: str = ""  # of a code host, without a slash at the end; empty: the repositories have it


@dataclass(frozen=True, slots=True)
class PermissionSync:
    """The way to read the permissions of a host, and to match its accounts with callers."""

    every_s: int = 300
    max_age_s: int = 86_400
    emails: bool = False  # match verified e-mail addresses
    claim: str = ""  # of a token, which holds the id of the caller's account; empty: none


@dataclass(frozen=True, slots=True)
class Connection:
    """A code host, or one organisation on it, or another place that holds repositories."""

    name: str
    kind: HostKind
    url: str  # without a slash at the end; empty for `urls`, the path for `folder`
    token: Secret | None = field(repr=False)  # None: the place needs none, or there is an app
    organisation: str = ""  # a group of GitLab may have several parts
    webhook_secret: Secret | None = field(default=None, repr=False)  # None: takes no webhooks
    permissions: PermissionSync | None = None  # None: not synchronised
    repositories: RepositoryRules | None = None  # None: its repositories are not followed
    urls: tuple[str, ...] = ()
    app: App | None = None
    ssh: Ssh | None = None

    @property
    def principal(self) -> str:
        """Return the name of the caller of its webhooks."""
        return f"webhook:{self.name}"

    @property
    def prefix(self) -> str:
        """Return the beginning of the addresses of its repositories (see `host_permissions`)."""
        return f"{address(f'{self.root}/{self.organisation}').rstrip('/')}/"

    @property
    def root(self) -> str:
        """Return the beginning of the URLs of its repositories, without a slash at the end."""
        return f"{self.url}/scm" if self.kind is HostKind.BITBUCKET_SERVER else self.url

    @property
    def rules_digest(self) -> str:
        """Return a digest of the rules, by which a change of the file takes effect at once."""
        return hashlib.sha256(repr((self.repositories, self.urls)).encode()).hexdigest()[:16]

    @property
    def credential(self) -> Secret | None:
        """Return the place of the secret with which repositories are listed; None: it needs none.

        A code host is asked with a token or the key of an app, even if git has an ssh key for it.
        """
        keys = (one.private_key for one in (self.app, self.ssh) if one and not self.token)
        return next(keys, self.token)

    @property
    def secrets(self) -> tuple[Secret, ...]:
        """Return the places of its secrets."""
        key = self.ssh.private_key if self.ssh and self.kind is not HostKind.URLS else None
        return tuple(one for one in (self.credential, key, self.webhook_secret) if one)

    def secret(self) -> str:
        """Return the token, or the private key, as it is now; empty: none is needed.

        Raises InvalidSettings.
        """
        return self.credential.value() if self.credential else ""


def read(path: Path) -> tuple[Connection, ...]:
    """Return the connections in a file. Raises InvalidSettings with the line of what is wrong."""
    return parse(declarations.read_text(path, what="sources file"), file=str(path))


def parse(content: str, *, file: str) -> tuple[Connection, ...]:
    """Return the connections. Raises InvalidSettings with the line of what is wrong."""
    found = declarations.parsed(content, _connections, file=file, empty="connections: []")
    return tuple(_placed(one, Path(file).expanduser().absolute().parent) for one in found)


def _placed(one: Connection, folder: Path) -> Connection:
    """Return the connection with the relative paths of its secrets resolved from the folder."""

    def placed(secret: Secret) -> Secret:
        file = secret.file and str(folder / os.path.expanduser(secret.file))
        return replace(secret, file=file)

    return replace(
        one,
        token=one.token and placed(one.token),
        webhook_secret=one.webhook_secret and placed(one.webhook_secret),
        app=one.app and replace(one.app, private_key=placed(one.app.private_key)),
        ssh=one.ssh and replace(one.ssh, private_key=placed(one.ssh.private_key)),
    )


def _connections(root: yaml.Node) -> tuple[Connection, ...]:
    found: dict[str, Connection] = {}
    listed = dict(items(root, "the file", known=_SECTIONS)).get("connections")
    form = ": `- name: …`"
    for node in sequence(listed, "connections", form=form) if listed is not None else ():
        one = _connection(node)
        if one.name in found:
            raise Wrong(line(node), f"two connections have the name {one.name!r}; rename one")
        found[one.name] = one
    return tuple(found.values())


def _connection(node: yaml.Node) -> Connection:
    fields = dict(items(node, "a connection", known=_FIELDS))
    _require(node, fields, ("name", "kind"))
    kind = _kind(fields["kind"])
    for name, value in fields.items():
        if name not in ("name", "kind", *FIELDS[kind]):
            allowed = ", ".join(FIELDS[kind])
            raise Wrong(
                line(value),
                f"a connection of kind {kind} has no field {name!r}; it may have: {allowed}",
            )
    if kind is HostKind.URLS:
        _require(node, fields, ("urls",))
        ssh = _ssh(fields["ssh"]) if "ssh" in fields else None
        return _place(kind, fields, urls=_urls(fields["urls"]), ssh=ssh)
    if kind is HostKind.FOLDER:
        _require(node, fields, ("path",))
        return _place(kind, fields, url=_folder(fields["path"]))
    return _host(kind, fields, node)


def _require(node: yaml.Node, fields: Mapping[str, yaml.Node], names: Sequence[str]) -> None:
    if missing := [one for one in names if one not in fields]:
        raise Wrong(line(node), f"the connection lacks {' and '.join(missing)}")


def _place(
    kind: HostKind,
    fields: Mapping[str, yaml.Node],
    *,
    url: str = "",
    urls: tuple[str, ...] = (),
    ssh: Ssh | None = None,
) -> Connection:
    """Return a connection that is not a code host; its repositories are always followed."""
    rules = _repositories(fields.get("repositories")) or RepositoryRules()
    name = _name(fields["name"])
    return Connection(name, kind, url, None, repositories=rules, urls=urls, ssh=ssh)


def _host(kind: HostKind, fields: Mapping[str, yaml.Node], node: yaml.Node) -> Connection:
    if "app" not in fields and "token" not in fields:
        needed = "token or app" if "app" in FIELDS[kind] else "token"
        raise Wrong(line(node), f"the connection lacks {needed}")
    if "app" in fields and "token" in fields:
        raise Wrong(line(fields["token"]), "the connection has a token and an app; remove one")
    organisation = _organisation(fields.get("organisation"))
    if kind in _ORGANISED and not organisation:
        raise Wrong(line(node), f"a connection of kind {kind} needs its organisation")
    url = _url(fields["url"]) if "url" in fields else _default_url(kind, node)
    return Connection(
        name=_name(fields["name"]),
        kind=kind,
        url=url,
        token=_secret(fields["token"], "token") if "token" in fields else None,
        app=_app(fields["app"]) if "app" in fields else None,
        organisation=organisation,
        webhook_secret=_webhook_secret(fields.get("webhook_secret")),
        permissions=_permissions(fields["permissions"]) if "permissions" in fields else None,
        repositories=_repositories(fields.get("repositories")),
        ssh=_ssh_of_host(fields["ssh"], kind, url) if "ssh" in fields else None,
    )


def _repositories(node: yaml.Node | None) -> RepositoryRules | None:
    return None if node is None else repository_rules.parsed(node)


def _urls(node: yaml.Node) -> tuple[str, ...]:
    found = sequence(node, "urls", form=": [https://git.example.com/acme/app]")
    return tuple(_checked(one, text(one, "an entry of urls")) for one in found)


def _checked(node: yaml.Node, url: str) -> str:
    if url.startswith("/"):
        raise Wrong(line(node), "urls holds a path; write a connection of kind folder for it")
    try:
        return check_url(url, local_paths="")
    except InvalidQuery as exc:
        raise Wrong(line(node), f"the url is not accepted: {exc.message}") from None


def _folder(node: yaml.Node) -> str:
    path = text(node, "path")
    if not path.startswith("/"):
        raise Wrong(line(node), "path must be the path of a folder from the root: /srv/git")
    return path.rstrip("/") or "/"


def _name(node: yaml.Node) -> str:
    name = text(node, "name")
    if not NAME.fullmatch(name):
        raise Wrong(
            line(node),
            f"the name {name!r} must have 1 to 32 characters of a-z, 0-9, and -; rename it",
        )
    return name


def _kind(node: yaml.Node) -> HostKind:
    kind = text(node, "kind")
    if kind not in tuple(HostKind):
        raise Wrong(line(node), f"there is no kind {kind!r}; there are: {', '.join(HostKind)}")
    return HostKind(kind)


def _organisation(node: yaml.Node | None) -> str:
    organisation = text(node, "organisation").strip("/") if node is not None else ""
    if node is not None and not _ORGANISATION.fullmatch(organisation):
        raise Wrong(line(node), "organisation must be its name in the URLs of the host")
    return organisation


def _default_url(kind: HostKind, node: yaml.Node) -> str:
    if kind not in _URLS:
        raise Wrong(line(node), f"a connection of kind {kind} needs the url of the host")
    return _URLS[kind]


def _url(node: yaml.Node) -> str:
    url = text(node, "url").rstrip("/")
    if not is_server_url(url, ("http", "https")) or urlsplit(url).username is not None:
        raise Wrong(line(node), "url must be the URL of a host, such as https://git.example.com")
    if not is_confidential(url):
        raise Wrong(line(node), "url must start with https://, because a token is sent to it")
    return next((one for one in _URLS.values() if _is_service(url, one)), url)


def _is_service(url: str, service: str) -> bool:
    """Return whether a URL is another spelling of the URL of a service."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.hostname}{parts.path}" == service and parts.port in (None, 443)


def _app(node: yaml.Node) -> App:
    fields = dict(items(node, "the app", known=_APP))
    if missing := [name for name in ("id", "private_key") if name not in fields]:
        raise Wrong(line(node), f"the app lacks {' and '.join(missing)}")
    given = {name: _app_id(value, name) for name, value in fields.items() if name != "private_key"}
    return App(**given, private_key=_secret(fields["private_key"], "private_key"))


def _app_id(node: yaml.Node, name: str) -> str:
    if not isinstance(node, yaml.ScalarNode) or not _APP_ID.fullmatch(node.value):
        raise Wrong(
            line(node), f"{name} must be the number that the settings of the app show, as 123456"
        )
    return str(node.value)


def _ssh_of_host(node: yaml.Node, kind: HostKind, url: str) -> Ssh:
    """Return how git reaches a code host over ssh: at its usual address, if none is given."""
    found, port = _ssh(node, known=_SSH_OF_HOST), _SSH_PORTS.get(kind)
    host = _SSH_HOSTS.get(url) or urlsplit(url).hostname
    usual = f"ssh://git@{host}{f':{port}' if port else ''}"
    given = (found.url or usual).rstrip("/")
    if not _SSH_URL.fullmatch(given):
        raise Wrong(line(node), "the url of ssh must have the form ssh://git@HOST:PORT")
    return replace(found, url=given)


def _ssh(node: yaml.Node, *, known: Sequence[str] = _SSH) -> Ssh:
    fields = dict(items(node, "ssh", known=known))
    if missing := [name for name in _SSH if name not in fields]:
        raise Wrong(line(node), f"ssh lacks {' and '.join(missing)}")
    hosts = fields["known_hosts"]
    known_hosts = text(hosts, "known_hosts")
    if reason := ssh_keys.wrong_host_key(known_hosts):
        raise Wrong(line(hosts), f"{reason}; write lines as `ssh-keyscan HOST` prints them")
    url = text(fields["url"], "the url of ssh") if "url" in fields else ""
    return Ssh(_secret(fields["private_key"], "private_key"), known_hosts, url)


def _webhook_secret(node: yaml.Node | None) -> Secret | None:
    return None if node is None else _secret(node, "webhook_secret")


def _secret(node: yaml.Node, field: str) -> Secret:
    form = (
        f"write {field}: {{env: VARIABLE}} or {field}: {{file: PATH}}; "
        f"the file never holds the {field.rpartition('_')[2]}"
    )
    if isinstance(node, yaml.ScalarNode):
        raise Wrong(line(node), form)
    given = {name: text(value, name) for name, value in items(node, field, known=("env", "file"))}
    if len(given) != 1 or not all(given.values()):
        raise Wrong(line(node), form)
    return Secret(**given, line=line(node))


def _permissions(node: yaml.Node) -> PermissionSync:
    fields = dict(items(node, "permissions", known=_PERMISSIONS))
    usual = PermissionSync()
    found = PermissionSync(
        every_s=time_s(fields["every"], "every") if "every" in fields else usual.every_s,
        max_age_s=time_s(fields["max_age"], "max_age") if "max_age" in fields else usual.max_age_s,
        emails=flag(fields["emails"], "emails") if "emails" in fields else usual.emails,
        claim=text(fields["claim"], "claim") if "claim" in fields else usual.claim,
    )
    if found.max_age_s <= found.every_s:
        raise Wrong(
            line(node),
            "max_age must be longer than every; otherwise the permissions expire between two syncs",
        )
    return found
