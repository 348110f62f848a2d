"""Git reads exactly the repositories of a connection with its token."""

from __future__ import annotations

import base64

import pytest
import structlog

from codelode.errors import InvalidSettings
from codelode.model import Repository, RepositoryName
from tests.ssh_keys import new_ssh_key
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
    return GitCredentials(str(tmp_path / "sources.yaml"), followed)


def followed(connection, name):
    """Return the URL of a repository that is followed, as the tests name them: by its URL."""
    return name


def repository(url):
    return Repository(RepositoryName(url), url)


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
    given = credentials(repository(url))

    assert (given.below, pair(given.text)) == (below, user)


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
    assert credentials(repository(url)) is None


def test_only_what_is_followed_is_read_with_a_token_and_only_under_its_name(
    credentials, tmp_path, monkeypatch
):
    """Otherwise, whoever registers names below another glob could read all that the token reads."""
    url = "https://github.com/acme/app"
    assert credentials(Repository(RepositoryName("team/mine"), f"{url}.git")) is None
    asked = []
    nothing = GitCredentials(str(tmp_path / "sources.yaml"), lambda *of: asked.append(of) or "")
    assert nothing(repository(url)) is None
    assert asked == [("hub", url)]
    assert credentials(Repository(RepositoryName(url), f"{url}.git")) is not None


def test_the_variable_of_a_missing_token_is_in_the_log_and_not_in_the_error(
    credentials, monkeypatch
):
    """The error is shown as that of the run to everyone who sees the repository."""
    monkeypatch.delenv("HUB")

    with structlog.testing.capture_logs() as logged, pytest.raises(InvalidSettings) as error:
        credentials(repository("https://github.com/acme/app"))
    assert "HUB" not in str(error.value)
    assert "hub" not in str(error.value)
    assert error.value.__cause__ is None
    (line,) = logged
    assert (line["connection"], "HUB is not set" in line["error"]) == ("hub", True)


def test_without_a_file_git_gets_no_token():
    assert GitCredentials("", followed)(repository("https://github.com/acme/app")) is None


def test_azure_has_other_paths_over_ssh_which_keep_their_escapes(tmp_path, monkeypatch):
    private, public = new_ssh_key()
    monkeypatch.setenv("KEY", private)
    ssh = f"{{private_key: {{env: KEY}}, known_hosts: 'ssh.dev.azure.com {public}'}}"
    (tmp_path / "azure.yaml").write_text(
        "connections:\n  - {name: cloud, kind: azure, organisation: acme, token: {env: ALL}, "
        f"repositories: {{}}, ssh: {ssh}}}\n  - {{name: own, kind: azure, organisation: acme, "
        f"url: 'https://h.example/tfs', token: {{env: ALL}}, repositories: {{}}, ssh: {ssh}}}\n"
    )
    credentials = GitCredentials(str(tmp_path / "azure.yaml"), followed)
    url = "https://dev.azure.com/acme/Web%20Shop/_git/My%20App"
    cloud = credentials(repository(url))
    own = credentials(repository("https://h.example/tfs/acme/Shop/_git/app"))

    # git removes one level of escapes from URLs of ssh, and the host wants the other one.
    shown = "ssh://git@ssh.dev.azure.com/v3/acme/Web%2520Shop/My%2520App"
    assert (cloud.below, cloud.url) == (url, shown)
    assert (own.below, own.url) == ("https://h.example/tfs/", "ssh://git@h.example/")
