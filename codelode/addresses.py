"""Validate repository URLs, names, and refs that callers give, for gateway and workers.

A URL reaches git's transports, which can run programs and read files, so only forms known to be
harmless are accepted: https, ssh, `user@host:path`, http to this machine, and the path of a local
repository that the settings of the server allow (see `local_repositories`).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple, NoReturn
from urllib.parse import SplitResult, unquote, urlsplit

from codelode import local_repositories
from codelode.errors import InvalidQuery
from codelode.loopback import is_loopback
from codelode.model import RefName, RepositoryName

MAX_URL_CHARS = 2_000
MAX_NAME_CHARS = 200
MAX_REF_CHARS = 250

#: The remedy in the message of a rejected address.
FORMS = "give https://host/owner/repository, git@host:owner/repository or an absolute path"

_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_SCHEME = re.compile(r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*)://")
_HOST = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?\.?|[0-9A-Fa-f:.]+")
_USER = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._+-]*")
_SCP = re.compile(r"(?P<user>[^@/:]*)@(?P<host>[^@/:]+):(?P<path>.+)")
#: The same form as code hosts print it; the user may be missing.
_REMOTE_SCP = re.compile(r"(?:[^@/]+@)?(?P<host>[^@:/]+):(?P<path>.+)")
#: Account names of ssh hosts: `git`, `org-123`, and the key ids of AWS CodeCommit.
_ACCOUNT = re.compile(r"[a-z_][a-z0-9._+-]{0,23}|APKA[A-Z0-9]{12,28}")
#: The beginnings of access tokens of code hosts.
_TOKENS = ("ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_", "glpat-", "gldt-", "glrt-")
_NAME = re.compile(r"[A-Za-z0-9._/-]+")
#: A part of a path that every code host takes as it is. Some take `..;` and `..\` for `..`.
_PLAIN_PART = re.compile(r"(?![. ]*$)[\w .~@+()-]+")
_REF_FORBIDDEN = re.compile(r"[\x00-\x20\x7f~^:?*\[\\]|\.\.|@\{|//")


def check_url(url: str, *, local_paths: str) -> str:
    """Return the normalised URL, or the resolved path of a local repository.

    `local_paths` is the setting of that name: empty allows no local repository, `owned` those
    that the user of this process owns, anything else lists allowed folders, separated by `:`.
    `"HTTPS://Host/a/b.git/"` → `"https://host/a/b.git"`. Raises InvalidQuery("url").
    """
    url = normal_url(url)
    if is_local(url):
        return str(local_repositories.check(Path(url), local_paths=local_paths))
    return url


def normal_url(url: str) -> str:
    """Return the normalised URL, or the resolved path of a local repository, which may not exist.

    Unlike those of `check_url`, the errors reveal nothing about local folders. Raises
    InvalidQuery("url").
    """
    _check_characters(url)
    if _SCHEME.match(url):
        return _check_remote(url)
    if url.startswith("/"):
        return str(local_repositories.resolve(Path(url)))
    if "@" in url.split("/", 1)[0] and ":" in url:
        return _check_scp(url)
    return _refuse(f"{_shown(url)!r} is neither a URL nor an absolute path; {FORMS}")


def is_local(url: str) -> bool:
    """Return whether a checked URL is the path of a repository on this machine."""
    return url.startswith("/")


class Remote(NamedTuple):
    """The parts of the URL of a repository on a host."""

    scheme: str
    host: str  # in lower case
    port: int | None
    path: str

    @property
    def place(self) -> str:
        """Return the decoded path without the `/` around it and `.git` at its end."""
        return unquote(self.path).strip("/").removesuffix(".git")


def remote(url: str) -> Remote | None:
    """Return the parts of a repository's URL; None if it has none, such as a local path."""
    if is_local(url):
        return None
    if "://" not in url:
        scp = _REMOTE_SCP.fullmatch(url)
        return Remote("ssh", scp["host"].lower(), None, scp["path"]) if scp else None
    parts = urlsplit(url)
    return Remote(parts.scheme, parts.hostname or "", parts.port, parts.path)


def path_of(url: str) -> str:
    """Return the path of a checked URL at its host, or on this machine, without `.git` at its end.

    `"git@host:/acme/team/app.git"` → `"acme/team/app"`. Empty if parts such as `..` or unusual
    characters may lead to the path of another repository.
    """
    found = remote(url)
    if found is None:  # links and parts such as `..` are resolved already
        return url.strip("/").removesuffix(".git").rstrip("/")
    path = found.place.rstrip("/")
    return path if all(map(_PLAIN_PART.fullmatch, path.split("/"))) else ""


def default_name(url: str) -> RepositoryName:
    """Derive the name of a repository from its URL.

    `"https://host/owner/repo.git"` → `"owner/repo"`, `"/home/me/repo"` → `"repo"`. Characters that
    are not allowed in a name become `-`. Raises InvalidQuery("name") if nothing is left.
    """
    if is_local(url):
        folder = Path(url)
        parts = [folder.parent.name if folder.name == ".git" else folder.name]
    else:
        path = (
            url.partition("://")[2].partition("/")[2]
            if _SCHEME.match(url)
            else url.partition(":")[2]
        )
        # `_git` is a constant part of the URLs of Azure DevOps.
        parts = [part for part in unquote(path).split("/") if part not in ("", "_git")][-2:]
    return _named(parts, url)


def hosted_name(path: str) -> RepositoryName:
    """Return the name of a repository, made from all parts of its path at the code host.

    `"acme/team/app"` → itself. Raises InvalidQuery("name") as `default_name` does.
    """
    return _named([part for part in path.split("/") if part], path)


def _named(parts: Sequence[str], url: str) -> RepositoryName:
    name = "/".join(re.sub(r"[^A-Za-z0-9._-]+|\.\.+", "-", part).lstrip("-.") for part in parts)
    name = name.removesuffix(".git").strip("/")[:MAX_NAME_CHARS]
    if not name:
        raise InvalidQuery("name", f"no name can be made from {url!r}; give one")
    return check_name(name)


def check_name(name: str) -> RepositoryName:
    """Return the name of a repository unchanged, or raise InvalidQuery("name")."""
    if not name or len(name) > MAX_NAME_CHARS:
        raise InvalidQuery(
            "name", f"a name has 1 to {MAX_NAME_CHARS} characters; this has {len(name)}"
        )
    if not _NAME.fullmatch(name):
        raise InvalidQuery("name", f"{name!r} may contain only letters, digits and . _ - /")
    if name[0] in "-/" or name.endswith("/") or "//" in name:
        raise InvalidQuery("name", f"{name!r} may not start with - or /, end with / or contain //")
    if ".." in name or "." in name.split("/"):
        raise InvalidQuery("name", f"{name!r} may not contain .. or a part that is a dot")
    return RepositoryName(name)


def check_ref(ref: str) -> RefName:
    """Return a branch, tag, or full commit id unchanged, or raise InvalidQuery("ref").

    The rules are those of `git check-ref-format --allow-onelevel`; a leading dash is not allowed.
    """
    if not ref or len(ref) > MAX_REF_CHARS:
        raise InvalidQuery("ref", f"a ref has 1 to {MAX_REF_CHARS} characters; this has {len(ref)}")
    if (
        ref.startswith("-")
        or ref == "@"
        or ref[0] == "/"
        or ref[-1] in "/."
        or _REF_FORBIDDEN.search(ref)
    ):
        raise InvalidQuery(
            "ref", f"{ref!r} cannot be a branch, tag or commit; give one as git prints it"
        )
    if any(part.startswith(".") or part.endswith(".lock") for part in ref.split("/")):
        raise InvalidQuery("ref", f"no part of {ref!r} may start with a dot or end with .lock")
    return RefName(ref)


def _refuse(message: str) -> NoReturn:
    raise InvalidQuery("url", message)


def _check_characters(url: str) -> None:
    if not url:
        _refuse(f"it is empty; {FORMS}")
    if len(url) > MAX_URL_CHARS:
        _refuse(f"it has {len(url)} characters; at most {MAX_URL_CHARS} are allowed")
    # Encoded ones too (%0a): git passes decoded parts to credential helpers, which read lines.
    if _CONTROL.search(url) or _CONTROL.search(unquote(url)):
        _refuse("it has control characters; remove them")
    if url.startswith("-"):
        _refuse(f"{_shown(url)!r} starts with a dash, which git takes for an option; {FORMS}")
    if "::" in url.split("/", 1)[0]:
        _refuse(f"transports as in NAME::ADDRESS run programs and are not allowed; {FORMS}")


def _check_remote(url: str) -> str:
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:  # its message may contain a password that was parsed as a port
        _refuse(f"it is not a valid URL; {FORMS}")
    _check_scheme(parts)
    _check_userinfo(parts)
    host = parts.hostname or ""
    if not _HOST.fullmatch(host):
        _refuse(f"{host!r} is not a host name; {FORMS}")
    if parts.query or parts.fragment or " " in url or "\\" in url:
        _refuse("a repository's URL has no query, fragment, space or backslash; remove it")
    path = parts.path.rstrip("/")
    if not path:
        _refuse(f"it names a host but no repository; {FORMS}")
    user = f"{parts.username}@" if parts.scheme == "ssh" and parts.username else ""
    host = f"[{host}]" if ":" in host else host
    return f"{parts.scheme}://{user}{host}{f':{port}' if port else ''}{path}"


def _check_scheme(parts: SplitResult) -> None:
    if parts.scheme == "file":
        _refuse(f"give the plain path instead of file://: {unquote(parts.path)!r}")
    if parts.scheme == "http" and not is_loopback(parts.hostname or ""):
        _refuse("http is not encrypted and is allowed to this machine only; use https")
    if parts.scheme not in ("https", "http", "ssh"):
        _refuse(f"{parts.scheme}:// is not allowed; {FORMS}")


def _check_userinfo(parts: SplitResult) -> None:
    """Refuse passwords and what may be a token.

    The caller drops the user name of an https URL, which hosts do not need.
    """
    if parts.password is not None:
        _refuse(
            "it holds a password or token, which would be stored; "
            "remove it and set up a git credential helper"
        )
    if parts.username is not None and not _USER.fullmatch(unquote(parts.username)):
        _refuse("its user name has unusual characters; remove it")
    if parts.scheme == "ssh" and parts.username is not None:
        _check_account(unquote(parts.username))


def _check_account(user: str) -> None:
    """Refuse what may be a token in the place of a user name, because user names are stored."""
    if not _ACCOUNT.fullmatch(user) or user.startswith(_TOKENS):
        _refuse(
            "its user name may be a password or token, which would be stored; give git@host:…, or "
            "set another user for the host in the ssh configuration (~/.ssh/config)"
        )


def is_server_url(url: str, schemes: Sequence[str], *, needs_host: bool = True) -> bool:
    """Return whether this is a URL with one of the schemes and a host, or a path for `unix`."""
    try:
        parts = urlsplit(url)
        is_port = parts.port != 0
    except ValueError:  # the port is not a number
        return False
    target = parts.path if parts.scheme == "unix" else parts.hostname or not needs_host
    is_one = "://" in url and len(url.split()) == 1
    return bool(parts.scheme in schemes and target and is_port and is_one)


def _check_scp(url: str) -> str:
    found = _SCP.fullmatch(url)
    if not found or not _HOST.fullmatch(found["host"]) or not _USER.fullmatch(found["user"]):
        _refuse(f"{_shown(url)!r} is not of the form git@host:owner/repository; {FORMS}")
    _check_account(found["user"])
    path = found["path"].rstrip("/")
    if not path or path.startswith("-") or "\\" in path or " " in path:
        _refuse(f"{found['path']!r} is not a repository's path on {found['host']}")
    return f"{found['user']}@{found['host'].lower()}:{path}"


def _shown(url: str) -> str:
    """Return the URL for a message: what is before the last `@` or in a query may be a password."""
    return url.rpartition("@")[2].partition("?")[0]
