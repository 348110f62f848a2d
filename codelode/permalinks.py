"""Link to the lines of a commit in the web pages of a code host, by the repository's URL.

A self-hosted server is recognised by its name alone (`gitlab.example.com`), because asking it would
send requests of callers to other machines. For a local path, and for a host of unknown kind, there
is no link.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from typing import NamedTuple
from urllib.parse import quote

from codelode.addresses import remote

_AZURE_SSH = "ssh.dev.azure.com"


class _Source(NamedTuple):
    """The lines to link to, with every text quoted for a URL."""

    web: str  # `https://host`
    repository: str  # `owner/name`
    revision: str
    path: str
    start: int
    end: int


def permalink(url: str, revision: str, path: str, start_line: int, end_line: int) -> str:
    """Return the link to these lines; empty if the host or the commit is unknown.

    `("git@github.com:acme/http.git", "1a2b", "a b.py", 3, 5)` →
    `"https://github.com/acme/http/blob/1a2b/a%20b.py#L3-L5"`.
    """
    found = _web_of(url)
    if found is None or not revision:
        return ""
    link, web, repository = found
    return link(_Source(web, repository, revision, quote(path), start_line, end_line))


@lru_cache(maxsize=1024)
def _web_of(url: str) -> tuple[Callable[[_Source], str], str, str] | None:
    """Return the function that makes links of the host, its URL, and the repository's path there.

    Cached, because it is called for every hit of a search.
    """
    found = remote(url)
    if found is None:
        return None
    link = next((link for name, link in _HOSTS if _is_of(found.host, name)), None)
    repository = found.path.strip("/").removesuffix(".git")
    if link is None or not repository:
        return None
    # The port for ssh is not that of the web pages.
    port = f":{found.port}" if found.port and found.scheme != "ssh" else ""
    web = f"{'http' if found.scheme == 'http' else 'https'}://{found.host}{port}"
    return link, web, quote(repository, safe="/%~")


def _is_of(host: str, name: str) -> bool:
    """Return whether the host has the name, or a label with the name: `gitlab.acme.com`."""
    return host == name or host.endswith(f".{name}") or name in re.split(r"[.-]", host)


def _github(at: _Source) -> str:
    return f"{at.web}/{at.repository}/blob/{at.revision}/{at.path}#L{at.start}-L{at.end}"


def _gitlab(at: _Source) -> str:
    return f"{at.web}/{at.repository}/-/blob/{at.revision}/{at.path}#L{at.start}-{at.end}"


def _gitea(at: _Source) -> str:
    return f"{at.web}/{at.repository}/src/commit/{at.revision}/{at.path}#L{at.start}-L{at.end}"


def _bitbucket(at: _Source) -> str:
    lines = f"#lines-{at.start}:{at.end}"
    return f"{at.web}/{at.repository}/src/{at.revision}/{at.path}{lines}"


def _bitbucket_server(at: _Source) -> str:
    project, _, name = at.repository.removeprefix("scm/").partition("/")
    lines = f"?at={at.revision}#{at.start}-{at.end}"
    return f"{at.web}/projects/{project}/repos/{name}/browse/{at.path}{lines}"


def _azure(at: _Source) -> str:
    # The end is exclusive: the first column of the line after the last one.
    lines = f"line={at.start}&lineEnd={at.end + 1}&lineStartColumn=1&lineEndColumn=1"
    return f"{at.web}/{at.repository}?path=/{at.path}&version=GC{at.revision}&{lines}&_a=contents"


def _azure_ssh(at: _Source) -> str:
    owner, _, name = at.repository.removeprefix("v3/").rpartition("/")
    return _azure(at._replace(web="https://dev.azure.com", repository=f"{owner}/_git/{name}"))


#: The first row that fits a host decides.
_HOSTS: tuple[tuple[str, Callable[[_Source], str]], ...] = (
    (_AZURE_SSH, _azure_ssh),
    ("dev.azure.com", _azure),
    ("visualstudio.com", _azure),
    ("bitbucket.org", _bitbucket),
    ("codeberg.org", _gitea),
    ("github", _github),
    ("gitlab", _gitlab),
    ("gitea", _gitea),
    ("forgejo", _gitea),
    ("bitbucket", _bitbucket_server),
)
