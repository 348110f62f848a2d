"""Git reads exactly the repositories of a connection with its token."""

from __future__ import annotations

import base64

import pytest

from codelode.errors import InvalidSettings
from workers.sources.credentials import GitCredentials

GITEA = "https://g.example:8443/sub/"
FILE = """
connections:
  - name: all
    kind: gitea
    url: https://g.example:8443/sub
    token: {env: ALL}
    repositories: {}
  - name: one
    kind: gitea
    url: https://g.example:8443/sub
    organisation: Acme
    token: {env: ONE}
    repositories: {}
  - {name: rights, kind: gitlab, url: "https://lab.example", token: {env: ALL}, permissions: {}}
  - {name: hub, kind: github, organisation: acme, token: {env: HUB}, repositories: {}}
  - {name: list, kind: urls, urls: ["https://other.example/a/b"]}
"""


@pytest.fixture
def credentials(tmp_path, monkeypatch):
    for name in ("ALL", "ONE", "HUB"):
        monkeypatch.setenv(name, f"token-{name}")
    (tmp_path / "sources.yaml").write_text(FILE)
    return GitCredentials(str(tmp_path / "sources.yaml"))


def pair(header):
    """Return the user and the password in a header."""
    return base64.b64decode(header.removeprefix("Authorization: Basic ")).decode()


@pytest.mark.parametrize(
    ("url", "below", "user"),
    [
        (f"{GITEA}acme/app.git", GITEA, "token:token-ONE"),
        (f"{GITEA}other/app", GITEA, "token:token-ALL"),
        ("https://github.com/acme/app", "https://github.com/", "x-access-token:token-HUB"),
    ],
)
def test_a_repository_is_read_with_the_token_of_the_nearest_connection(
    credentials, url, below, user
):
    address, header = credentials(url)

    assert (address, pair(header)) == (below, user)


@pytest.mark.parametrize(
    "url",
    [
        *("https://g.example/sub/acme/app", "http://g.example:8443/sub/acme/app"),
        *("https://g.example:8443/subway/acme/app", "https://g.example:8443.evil/sub/acme/app"),
        *("git@git.example:sub/acme/app", "ssh://git@g.example:8443/sub/acme/app"),
        *("https://lab.example/a/b", "https://github.com/acme2/app", "https://github.com/acme"),
        *("https://other.example/a/b", "/srv/git/app"),
    ],
)
def test_no_other_address_gets_a_token(credentials, url):
    assert credentials(url) is None


def test_a_token_that_is_not_there_is_named(credentials, monkeypatch):
    monkeypatch.delenv("HUB")

    with pytest.raises(InvalidSettings, match="HUB is not set"):
        credentials("https://github.com/acme/app")


def test_without_a_file_git_gets_no_token():
    assert GitCredentials("")("https://github.com/acme/app") is None
