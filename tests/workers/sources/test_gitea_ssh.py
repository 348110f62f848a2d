"""Git reads a real code host over ssh, with a key and the pinned key of the host."""

from __future__ import annotations

import shutil

import pytest

from codelode.errors import Denied, Rejected, Unavailable
from codelode.model import Repository, RepositoryName
from tests.gitea import Gitea
from tests.ssh_keys import new_ssh_key
from workers.pull.mirror import Mirrors
from workers.sources.credentials import GitCredentials

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(shutil.which("ssh") is None, reason="no ssh: install openssh-client"),
]

NAME = RepositoryName("acme/secret")


@pytest.fixture(scope="module")
def gitea(tmp_path_factory, program_of):
    server = Gitea(program_of("gitea"), tmp_path_factory.mktemp("gitea"), has_ssh=True)
    server.start()
    server.call("POST", "/orgs", username="acme", visibility="private")
    server.repository(NAME, private=True)
    yield server
    server.stop()


@pytest.fixture(scope="module")
def key(gitea):
    """The private key of the administrator, whose public key the server knows."""
    private, public = new_ssh_key()
    gitea.call("POST", "/user/keys", title="codelode", key=public)
    return private


@pytest.fixture
def mirrors(tmp_path, gitea, key):
    """Return a function that makes mirrors which know the host by these keys."""
    (tmp_path / "token").write_text("a-token-that-reads-nothing")
    (tmp_path / "key").write_text(key)

    def made(known_hosts):
        (tmp_path / "sources.yaml").write_text(
            f"connections:\n  - name: work\n    kind: gitea\n    url: {gitea.url}\n"
            f"    token: {{file: {tmp_path}/token}}\n    repositories: {{}}\n"
            f"    ssh:\n      url: ssh://git@127.0.0.1:{gitea.ssh_port}\n"
            f"      private_key: {{file: {tmp_path}/key}}\n      known_hosts: '{known_hosts}'\n"
        )
        credentials = GitCredentials(str(tmp_path / "sources.yaml"), lambda *_: url(gitea))
        return Mirrors(tmp_path / "mirrors", credentials=credentials)

    return made


def url(gitea):
    return f"{gitea.url}/{NAME}.git"


def test_a_private_repository_is_read_over_ssh_under_its_usual_url(gitea, mirrors):
    made = mirrors(gitea.known_hosts)
    made.sync(Repository(NAME, url(gitea)))

    ref, revision = made.resolve(NAME)
    assert (ref, len(revision)) == ("main", 40)


def test_a_host_with_another_key_is_refused(gitea, mirrors):
    _, public = new_ssh_key()
    with pytest.raises((Denied, Rejected, Unavailable)) as refused:
        mirrors(f"[127.0.0.1]:{gitea.ssh_port} {public}").sync(Repository(NAME, url(gitea)))

    assert "key" in str(refused.value)
