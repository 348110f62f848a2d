"""Permissions are read from hosts, and kept or dropped when a host refuses."""

from __future__ import annotations

import json
import threading

import pytest
import structlog

from codelode.backends.memory.permissions import MemoryPermissionStates
from codelode.host_permissions import email_key
from tests.hosts import TOKEN, GitHub, GitLab
from workers.sources import github as github_
from workers.sources import gitlab as gitlab_
from workers.sources import http
from workers.sources.permissions import PermissionSync

NOW = 50_000.0


class World:
    """A sources file with one connection, and a clock that tests move."""

    def __init__(self, folder, host, kind, *, organisation="acme", emails=True):
        self.folder, self.path = folder, folder / "sources.yaml"
        self.host, self.now = host, NOW
        (folder / "token").write_text(TOKEN)
        below = f"\n    organisation: {organisation}" if organisation else ""
        self.path.write_text(
            f"connections:\n  - name: work\n    kind: {kind}\n    url: {host.url}{below}\n"
            f"    token: {{file: {folder / 'token'}}}\n"
            f"    permissions: {{every: 5m, max_age: 1h, emails: {str(emails).lower()}}}\n"
        )
        self.states = MemoryPermissionStates()
        self.sync = PermissionSync(str(self.path), self.states, now=lambda: self.now)

    def run(self):
        """Read once, as the workers do when it is due."""
        self.now += 300
        assert self.sync.due() == ("work",)
        with structlog.testing.capture_logs() as self.logged:
            self.sync.run("work")
        return self.outcome

    @property
    def outcome(self):
        (state,) = self.states.states()
        return state.outcome

    def readers(self):
        """Return the names of the repositories that each account reads."""
        found = self.states.permissions("work")
        names = [one[0].partition("/")[2] for one in found.addresses]
        return {
            account: {name for at, name in enumerate(names) if bits >> at & 1}
            for account, bits in found.readers.items()
        }


@pytest.fixture(autouse=True)
def _quick(monkeypatch):
    """Skip pauses that the host does not ask for, and use small pages."""
    for module in (github_, gitlab_):
        monkeypatch.setitem(module._PAGE, "per_page", 2)
    monkeypatch.setitem(gitlab_._BY_ID, "per_page", 2)
    monkeypatch.setattr(http, "FIRST_PAUSE_S", 0.0)
    monkeypatch.setattr("random.random", lambda: 0.0)


@pytest.fixture
def github():
    server = GitHub()
    yield server
    server.close()


@pytest.fixture
def gitlab():
    server = GitLab()
    yield server
    server.close()


@pytest.fixture
def world(tmp_path, github):
    return World(tmp_path, github, "github")


# GitHub

PRIVATE = {"acme/secret", "acme/tools"}


def test_github_owners_teams_collaborators_and_visibilities_give_rights(world):
    assert world.run().error == ""

    assert world.readers() == {
        "1": {"acme/secret", "acme/tools", "acme/open", "acme/inner"},
        "2": {"acme/secret", "acme/open", "acme/inner"},
        "3": {"acme/tools", "acme/open", "acme/inner"},
        "4": {"acme/secret", "acme/tools", "acme/open", "acme/inner"},
        "9": {"acme/tools", "acme/open"},  # an outside collaborator
    }
    found = world.states.permissions("work").accounts
    assert found == {email_key(f"user{id}@acme.example"): str(id) for id in (1, 2, 3, 4)}
    assert (world.outcome.repositories, world.outcome.accounts) == (4, 5)


def test_github_with_a_base_permission_lets_members_read_all_and_reads_no_team(world, github):
    github.base = "read"
    world.run()

    everything = {*PRIVATE, "acme/open", "acme/inner"}
    assert {id: world.readers()[id] for id in "1234"} == dict.fromkeys("1234", everything)
    assert world.readers()["9"] == {"acme/tools", "acme/open"}
    assert not [path for path in github.asked if "teams" in path]


def test_github_collaborators_beyond_the_first_page_are_read(world, github):
    github.repositories[11] = ("secret", "PRIVATE", [2, 3, 4, 9])
    github.teams = {}
    world.run()

    assert {id for id, names in world.readers().items() if "acme/secret" in names} == {*"12349"}


def test_a_right_that_is_lost_at_the_host_is_gone_after_the_next_reading(world, github):
    world.run()
    github.teams["readers"] = ([4], [11])
    world.run()

    assert "acme/secret" not in world.readers()["2"]
    del github.members[4]
    world.run()
    assert "4" not in world.readers()


def test_pages_that_did_not_change_are_not_sent_again(world, github):
    version = world.run().version
    assert github.unchanged == 0
    sent = len(github.asked)
    github.teams["readers"][0].append(3)
    world.run()

    # Three members of a team are two pages, of which the first one did not change, but was full.
    assert len(github.asked) == 2 * sent + 1
    full = ("teams/readers/members", "teams/leads/repos", "orgs/acme/teams")
    rest = [path for path in github.asked[:sent] if "/v3/" in path and not path.endswith(full)]
    assert github.unchanged == len(rest) > 0
    assert world.outcome.version != version
    assert "acme/secret" in world.readers()["3"]


def test_an_organisation_that_the_token_does_not_see_revokes(tmp_path, github):
    world = World(tmp_path, github, "github", organisation="other")

    assert "Could not resolve" in world.run().error
    assert world.outcome.synced_at == 0


# GitLab


def test_gitlab_members_with_the_level_of_a_reporter_read_code(tmp_path, gitlab):
    world = World(tmp_path, gitlab, "gitlab", organisation="")
    assert world.run().error == ""

    assert world.readers() == {
        "1": {"acme/secret", "acme/sub/inner", "other/open"},
        "2": {"acme/sub/inner", "other/open"},  # external, and a guest of the secret project
        "4": {"acme/sub/inner", "other/open", "acme/docs"},
    }
    # An address that is not confirmed matches nobody.
    assert set(world.states.permissions("work").accounts.values()) == {"1", "2"}


def test_gitlab_for_a_group_lists_no_accounts_of_the_server_unless_addresses_match(
    tmp_path, gitlab
):
    world = World(tmp_path, gitlab, "gitlab", emails=False)
    world.run()

    assert world.readers() == {
        "1": {"acme/secret"},
        "2": {"acme/sub/inner"},
        "4": {"acme/docs"},
    }
    assert not [path for path in gitlab.asked if "users" in path]


def test_hidden_members_of_gitlab_projects_get_no_rights(tmp_path, gitlab):
    world = World(tmp_path, gitlab, "gitlab", organisation="")
    gitlab.hidden = {21}
    outcome = world.run()

    assert outcome.error == ""
    assert "1 list of readers could not be read" in outcome.notice
    assert "/projects/21/members/all with 404" in outcome.notice
    assert "acme/secret" not in world.readers()["1"]
    gitlab.hidden = set()
    assert world.run().notice == ""
    assert "acme/secret" in world.readers()["1"]


# What a host refuses, and when it is away


@pytest.mark.parametrize("status", [401, 403, 404])
def test_a_refusal_revokes_at_once(world, github, status):
    world.run()
    github.always = (status, {}, {"message": "Bad credentials"})
    outcome = world.run()

    assert f"answers /graphql with {status} (Bad credentials)" in outcome.error
    assert outcome.synced_at == 0
    assert world.readers() == {}
    github.always = None
    assert world.run().error == ""
    assert len(world.readers()) == 5


LIMITED = {"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": "99999999999"}


@pytest.mark.parametrize(
    "answer",
    [
        (500, {}, b"oops"),
        (503, {}, {"message": "maintenance"}),
        (422, {}, {"message": "Validation Failed"}),
        (429, {"Retry-After": "0"}, {}),
        (403, {"Retry-After": "0"}, {"message": "secondary rate limit"}),
        (403, LIMITED, {"message": "API rate limit exceeded"}),
        (302, {"Location": "https://elsewhere.example/"}, b""),
        (200, {}, b"<html>"),
        (200, {}, {"data": None}),
        (200, {}, []),
        (200, {}, {"errors": [{"type": "RATE_LIMITED", "message": "limited"}]}),
    ],
    ids=lambda answer: f"{answer[0]} {json.dumps(str(answer[2]))[:30]}",
)
def test_a_host_that_is_away_changes_nothing(world, github, answer):
    before = world.run()
    github.always = answer
    after = world.run()

    assert after.error
    assert after.version == before.version
    assert after.synced_at == before.synced_at
    assert after.attempted_at == world.now
    assert len(world.readers()) == 5


def test_a_host_that_does_not_answer_changes_nothing(world, github):
    before = world.run()
    github.close()

    assert "does not answer" in world.run().error
    assert world.outcome.version == before.version


def test_a_failure_in_the_middle_stores_nothing_of_the_rest(world, github):
    before = world.run()
    github.members[5] = "MEMBER"
    github.PAGE = 100
    good, sent = github.value, []

    def value(path, *rest):
        sent.append(path)
        if "teams" in path:
            github.answers.append((502, {}, b""))
        return good(path, *rest)

    github.value = value
    github.answers = []
    limit = http.ATTEMPTS
    try:
        http.ATTEMPTS = 1
        outcome = world.run()
    finally:
        http.ATTEMPTS = limit

    assert "502" in outcome.error
    assert outcome.version == before.version
    assert "5" not in world.readers()


def test_a_request_that_fails_a_few_times_is_repeated(world, github):
    github.answers = [(502, {}, b""), (429, {"Retry-After": "0"}, {}), (500, {}, b"")]

    assert world.run().error == ""
    assert world.outcome.requests == len(github.asked)


def test_a_missing_token_changes_nothing_and_is_reported(world):
    before = world.run()
    (world.folder / "token").unlink()

    assert "cannot read the secret" in world.run().error
    assert world.outcome.version == before.version


def test_an_answer_that_is_too_large_is_an_error(world, github, monkeypatch):
    monkeypatch.setattr(http, "MAX_BYTES", 1_000)
    github.always = (200, {}, b"[" + b" " * 2_000 + b"]")

    assert "more than 1000 bytes" in world.run().error


def test_too_many_requests_are_an_error(world, monkeypatch):
    monkeypatch.setattr(http, "MAX_REQUESTS", 5)

    assert "more than 5 requests" in world.run().error


def test_the_token_appears_nowhere(world, github):
    texts = []
    for given in (None, (401, {}, {"message": "no"}), (500, {}, b"")):
        github.always = given
        texts += [repr(world.run()), repr(world.logged)]
    texts += [repr(world.states.states()), repr(world.states.permissions("work"))]
    texts += [repr(world.sync._file.current()), *github.asked]

    assert not [text for text in texts if TOKEN in text]


# When permissions are read


def test_permissions_are_read_when_they_are_due_and_not_before(world):
    world.run()

    assert world.sync.due() == ()
    world.now += 299
    asked = len(world.host.asked)
    world.sync.run("work")
    assert len(world.host.asked) == asked
    world.states.want("work")
    assert world.sync.due() == ("work",)
    world.sync.run("work")
    assert world.sync.due() == ()


def test_two_workers_do_not_read_the_same_host_at_once(world, wait_for):
    answering, released = threading.Event(), threading.Event()
    good = world.host.value

    def value(*given):
        answering.set()
        released.wait(60)
        return good(*given)

    world.host.value = value
    world.sync.due()
    first = threading.Thread(target=world.sync.run, args=("work",))
    first.start()
    assert answering.wait(60)
    other = PermissionSync(str(world.path), world.states, now=lambda: world.now)
    other.run("work")

    assert world.outcome.attempted_at == 0  # the second one did nothing, and did not wait
    released.set()
    first.join()
    assert world.outcome.version


def test_a_worker_that_lost_a_connection_stores_nothing(world, monkeypatch):
    monkeypatch.setattr("workers.sources.reading.RENEW_S", 0.0)
    good = world.host.value

    def value(*given):
        """Let another worker take over while this one waits for the host, as after a long pause."""
        world.states._holders["work"] = ("other", float("inf"))
        return good(*given)

    world.host.value = value
    world.run()

    assert world.outcome.version == ""
    assert world.states.permissions("work") is None


def test_a_broken_file_keeps_the_last_good_version(world):
    world.run()
    good = world.path.read_text()
    world.path.write_text(good.replace("github", "gitbub"))
    with structlog.testing.capture_logs() as logs:
        world.run()
        world.run()

    assert world.outcome.error == ""
    assert [line["event"] for line in logs].count("sources_file_rejected") == 1
    assert f"{world.path}:3: there is no kind 'gitbub'" in world.states.problem()
    world.path.write_text(good)
    world.run()
    assert world.states.problem() == ""


def test_a_worker_without_a_file_declares_nothing_and_logs_it(world):
    PermissionSync("", world.states).due()
    assert (world.states.states(), world.states.problem()) == ((), "")
    world.run()

    assert PermissionSync("", world.states).due() == ()
    assert [one.declared.name for one in world.states.states()] == ["work"]
    assert "without CODELODE_SOURCES" in world.states.problem()


def test_a_file_without_connections_ends_the_permission_sync(world):
    world.run()
    world.path.write_text("connections: []\n")

    assert world.sync.due() == ()
    assert world.states.states() == ()


def test_a_connection_without_permissions_is_not_read(world):
    text = world.path.read_text()
    world.path.write_text(text[: text.index("    permissions")])

    assert world.sync.due() == ()
    world.sync.run("work")
    assert world.host.asked == []
