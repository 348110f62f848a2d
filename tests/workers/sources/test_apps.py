"""A GitHub App reads an organisation with tokens that are made for it and never shown."""

from __future__ import annotations

import base64
import subprocess

import pytest
import structlog
from joserfc.jwk import RSAKey

from codelode.backends.memory.ledger import MemoryLedger
from codelode.backends.memory.permissions import MemoryPermissionStates
from codelode.backends.memory.sources import MemorySourceStates
from codelode.errors import Denied, InvalidSettings
from codelode.model import Repository, RepositoryName
from codelode.ports import PermissionStates
from tests.hosts import APP, GitHub
from workers.pull.mirror import Mirrors
from workers.sources import github as github_
from workers.sources.credentials import GitCredentials
from workers.sources.following import SourceSync
from workers.sources.permissions import PermissionSync

MINT = "POST /api/v3/app/installations/77/access_tokens"
NAMES = {"acme/secret", "acme/tools", "acme/open", "acme/inner"}


@pytest.fixture(scope="module")
def key():
    return RSAKey.generate_key(2_048)


@pytest.fixture
def github(key, monkeypatch):
    monkeypatch.setitem(github_._PAGE, "per_page", 1)
    server = GitHub()
    server.app = key
    yield server
    server.close()


@pytest.fixture
def file(tmp_path, github, key):
    """The sources file, with the private key beside it."""
    (tmp_path / "app.pem").write_bytes(key.as_pem(private=True))
    path = tmp_path / "sources.yaml"
    path.write_text(
        f"connections:\n  - name: work\n    kind: github\n    url: {github.url}\n"
        f"    organisation: acme\n    repositories: {{}}\n    permissions: {{emails: true}}\n"
        f"    app: {{id: {APP}, private_key: {{file: {tmp_path / 'app.pem'}}}}}\n"
    )
    return path


class Outbox:
    """Sends nothing."""

    def pull(self, run, *, is_late=False):
        """Send nothing."""

    def forget(self, name):
        """Send nothing."""


class Following:
    """Follows the organisation, and records what it reported."""

    def __init__(self, file):
        self.ledger, self.states = MemoryLedger(), MemorySourceStates()
        self.now = 0.0
        self._sync = SourceSync(str(file), self.states, self.ledger, now=lambda: self.now)

    def run(self):
        self.now += 3_600
        self._sync.due()
        with structlog.testing.capture_logs() as self.logged:
            self._sync.run("work", Outbox())
        (state,) = self.states.states()
        return state.outcome


@pytest.fixture
def following(file):
    return Following(file)


def told(following):
    """Return all that is stored, and all that is logged."""
    return repr((following.logged, following.states.states(), following.states.known("work")))


def test_an_organisation_is_listed_with_a_token_of_the_installation(following, github):
    outcome = following.run()

    assert (outcome.error, outcome.listed) == ("", 4)
    assert set(following.ledger.names()) == NAMES
    assert github.asked.count(MINT) == 1
    assert outcome.requests == len(github.asked)
    assert "ghs_" not in told(following)
    assert "PRIVATE KEY" not in told(following)


def test_a_token_that_expires_during_a_listing_is_renewed_once(following, github):
    answer = github.value

    def expiring(path, parameters, body):
        if parameters.get("page") == "2" and len(github.made) == 1:
            github.made = dict.fromkeys(github.made, 0)
            github.answers = [(401, {}, {"message": "Bad credentials"})]
        return answer(path, parameters, body)

    github.value = expiring
    outcome = following.run()

    assert (outcome.error, outcome.listed, github.asked.count(MINT)) == ("", 4, 2)


def test_a_token_is_renewed_before_it_expires(following, github):
    github.lifetime_s = 240
    outcome = following.run()

    pages = [one for one in github.asked if one.endswith("/repos")]
    assert (outcome.error, github.asked.count(MINT)) == ("", len(pages))


def test_a_token_that_stays_refused_is_reported_with_the_message_of_the_host(following, github):
    github.lifetime_s = -1
    outcome = following.run()

    assert "401 (Bad credentials)" in outcome.error
    assert outcome.requests == len(github.asked) <= 6


@pytest.mark.parametrize(
    ("breaks", "words"),
    [
        ("key", "401 (A JSON web token could not be decoded)"),
        ("id", "404 (Integration not found)"),
        ("installation", "404 (Not Found)"),
    ],
)
def test_a_refused_app_is_reported_with_a_remedy_and_changes_nothing(
    following, github, file, breaks, words
):
    following.run()
    if breaks == "key":
        github.app = RSAKey.generate_key(2_048)
    elif breaks == "id":
        file.write_text(file.read_text().replace(APP, "99"))
    else:
        github.is_installed = False
    outcome = following.run()

    assert words in outcome.error
    assert "check the id and the private key of the app" in outcome.error
    assert set(following.ledger.names()) == NAMES


@pytest.mark.parametrize("content", ["canary-that-is-no-key", ""])
def test_a_key_that_cannot_be_read_is_named_and_never_quoted(following, tmp_path, content):
    (tmp_path / "app.pem").write_text(content)
    outcome = following.run()

    assert str(tmp_path / "app.pem") in outcome.error
    assert "canary" not in told(following)


def test_a_public_key_is_refused_as_the_key_of_an_app(following, tmp_path, key):
    (tmp_path / "app.pem").write_bytes(key.as_pem(private=False))

    assert "holds no private RSA key" in following.run().error


def test_an_installation_id_in_the_file_is_not_requested_from_the_host(following, github, file):
    file.write_text(file.read_text().replace(f"id: {APP}", f"id: {APP}, installation: 77"))

    assert following.run().listed == 4
    assert github.asked[0] == MINT


def test_permissions_are_read_with_a_token_of_the_installation(file, github):
    states: PermissionStates = MemoryPermissionStates()
    sync = PermissionSync(str(file), states)
    assert sync.due() == ("work",)
    sync.run("work")

    (state,) = states.states()
    assert (state.outcome.error, state.outcome.repositories) == ("", 4)
    assert github.asked.count(MINT) == 1


def pair(credentials, repository):
    """Return the user and the password that git gets."""
    header = credentials(repository)
    return base64.b64decode(header.text.removeprefix("Authorization: Basic ")).decode()


@pytest.fixture
def credentials(file):
    """Return what git gets for repositories, each of which is followed under its URL."""
    return GitCredentials(str(file), lambda _, name: name)


@pytest.fixture
def repository(github):
    url = f"{github.url}/acme/open.git"
    return Repository(RepositoryName(url), url)


def test_git_gets_a_token_with_enough_time_left_for_a_run(credentials, repository, github):
    github.lifetime_s = 1_700
    assert pair(credentials, repository) == "x-access-token:ghs_canary0of-an-app"

    github.lifetime_s = 3_600
    again = pair(credentials, repository), pair(credentials, repository)
    assert again == ("x-access-token:ghs_canary1of-an-app",) * 2


def test_the_token_of_git_reads_content_alone(credentials, repository, github):
    pair(credentials, repository)

    assert list(github.permissions.values()) == [{"contents": "read"}]


def test_an_app_without_read_access_is_reported_at_once_with_the_remedy(
    credentials, repository, github
):
    github.granted = {"metadata"}
    with structlog.testing.capture_logs() as logged, pytest.raises(Denied):
        credentials(repository)

    assert "422 (The permissions requested are not granted" in logged[-1]["error"]
    assert "contents: read" in logged[-1]["error"]
    assert github.asked.count(MINT) == 1  # nothing is gained by asking again


@pytest.fixture
def cloned(credentials, repository, github, tmp_path):
    """Mirrors that have read the repository once, as the app."""
    github.git = tmp_path / "git"
    bare = github.git / "acme" / "open.git"
    subprocess.run(["git", "init", "-q", "--bare", "-b", "main", bare], check=True)
    made = Mirrors(tmp_path / "mirrors", credentials=credentials)
    made.sync(repository)
    return made


def test_a_token_that_the_host_refuses_to_git_is_renewed_once(cloned, repository, github):
    github.made = dict.fromkeys(github.made, 0)  # as after the app was installed again
    cloned.sync(repository)
    assert github.asked.count(MINT) == 2

    github.lifetime_s = -1
    github.made = dict.fromkeys(github.made, 0)
    with pytest.raises(Denied):
        cloned.sync(repository)
    assert github.asked.count(MINT) == 3


def test_no_token_is_asked_for_after_a_transfer(cloned, repository, github):
    """The host may be away by then, and the address alone is checked again."""
    github.lifetime_s = 1_700  # too little for another run
    github.made = dict.fromkeys(github.made, 0)
    cloned.sync(repository)
    before = github.asked.count(MINT)
    cloned.sync(repository)

    assert github.asked.count(MINT) == before + 1


def test_why_git_gets_no_token_is_in_the_log_and_not_in_the_error(
    credentials, repository, github, tmp_path
):
    """The error is shown as that of the run to everyone who sees the repository."""
    github.app = RSAKey.generate_key(2_048)
    with structlog.testing.capture_logs() as logged, pytest.raises(Denied) as refused:
        credentials(repository)
    (tmp_path / "app.pem").unlink()
    with structlog.testing.capture_logs() as later, pytest.raises(InvalidSettings) as missing:
        credentials(repository)

    assert "could not be decoded" in logged[-1]["error"]
    assert "cannot read the secret" in later[-1]["error"]
    assert "the log of the pull workers" in str(refused.value) == str(missing.value)
