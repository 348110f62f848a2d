"""Following the repositories of a real Gitea: many pages, private ones, renames, and deletions."""

from __future__ import annotations

import base64
from itertools import count

import pytest

from codelode.errors import Denied, NotFound
from codelode.model import Repository, RepositoryName
from codelode.repository_sources import Action
from tests.gitea import Gitea
from tests.workers.sources.test_following import World
from workers.pull import Mirrors
from workers.sources.credentials import GitCredentials

pytestmark = pytest.mark.server

#: More than the largest page, which has 50 unless the server allows more.
MANY = 53


@pytest.fixture(scope="module")
def gitea(tmp_path_factory, program_of):
    server = Gitea(program_of("gitea"), tmp_path_factory.mktemp("gitea"))
    server.start()
    for name in ("acme", "other"):
        server.call("POST", "/orgs", username=name, visibility="public")
    for number in range(MANY):
        server.call("POST", "/orgs/acme/repos", name=f"r{number:02}", private=number % 2 == 0)
    for name in ("acme/app", "acme/lib", "other/tool"):
        server.repository(name)
    yield server
    server.stop()


@pytest.fixture
def world(tmp_path, gitea):
    return following(tmp_path, gitea)


def following(folder, gitea, token="", rules="{grace: 2h}"):
    """A connection that follows the organisation `acme`."""
    made = World(
        folder,
        f"connections:\n  - name: work\n    kind: gitea\n    url: {gitea.url}\n"
        f"    organisation: acme\n    token: TOKEN\n    repositories: {rules}\n",
    )
    (folder / "token").write_text(token or gitea.admin_token)
    return made


def test_all_repositories_of_an_organisation_are_listed_page_by_page(world, gitea, monkeypatch):
    monkeypatch.setattr("workers.sources.gitea._LATE_S", 0.0)  # they were made within a minute
    outcome = world.run()

    assert outcome.error == ""
    assert (outcome.listed, outcome.requests) == (MANY + 2, 3)  # the organisation, two pages
    assert set(world.ledger.names()) == {"acme/app", "acme/lib"}  # the others have no commits
    world.done()
    assert (world.run().changes, world.outcome.requests) == ((), 1)


def test_pages_are_as_large_as_the_server_allows(world, gitea):
    gitea.stop()
    gitea.allow_pages(of=100)
    gitea.start()
    try:
        outcome = world.run()
    finally:
        gitea.stop()
        gitea.allow_pages(of=50)
        gitea.start()

    assert (outcome.error, outcome.listed >= MANY, outcome.requests) == ("", True, 2)


def test_a_push_and_the_first_commit_of_an_empty_repository_are_found_in_the_list(world, gitea):
    world.run()
    world.done()
    gitea.write("acme/r00", "first.py", "def first():\n    return 1\n")
    world.run()
    assert world.told() == {(Action.REGISTER, "acme/r00")}
    numbers, before = count(), gitea.call("GET", "/repos/acme/lib")["updated_at"]
    while gitea.call("GET", "/repos/acme/lib")["updated_at"] == before:  # it has whole seconds
        gitea.write("acme/lib", f"more{next(numbers)}.py", "x = 1\n")
    world.done()
    world.run()
    assert (Action.UPDATE, "acme/lib") in world.told()


def test_a_repository_that_is_renamed_transferred_and_deleted_is_followed(world, gitea):
    gitea.repository("acme/moving")
    world.run()
    world.done()
    gitea.call("PATCH", "/repos/acme/moving", name="moved")
    world.run()
    assert (Action.RENAME, "acme/moved") in world.told()
    world.done()
    world.sync.run("work", world.outbox)
    assert "acme/moving" not in world.ledger.names()

    gitea.call("POST", "/repos/acme/moved/transfer", new_owner="other")
    world.run()
    assert (Action.MISS, "acme/moved") in world.told()
    gitea.call("POST", "/repos/other/moved/transfer", new_owner="acme")
    world.run()
    assert "acme/moved" in world.ledger.names()
    gitea.call("DELETE", "/repos/acme/moved")
    for _ in range(3):
        world.run()
    assert "acme/moved" not in world.ledger.names()
    assert "acme/app" in world.ledger.names()


def test_a_private_repository_is_cloned_with_the_token_of_its_connection(world, gitea, tmp_path):
    world.run()
    app = RepositoryName("acme/app")
    url = world.ledger.get(app).url
    credentials = GitCredentials(str(world.path), world.states.entrusted)
    Mirrors(tmp_path / "mirrors", credentials=credentials).sync(Repository(app, url))

    mirror = Mirrors(tmp_path / "mirrors").git_dir(app)
    texts = [path.read_bytes() for path in mirror.rglob("*") if path.is_file()]
    secrets = (gitea.admin_token.encode(), base64.b64encode(f"token:{gitea.admin_token}".encode()))
    assert not [text for text in texts for secret in secrets if secret in text]
    with pytest.raises((Denied, NotFound)) as refused:
        Mirrors(tmp_path / "others").sync(Repository(app, url))
    (tmp_path / "token").write_text("0" * 40)
    with pytest.raises((Denied, NotFound)) as wrong:
        Mirrors(tmp_path / "others", credentials=credentials).sync(Repository(app, url))
    assert "0" * 40 not in str((refused.value, wrong.value))


def test_the_token_serves_only_what_the_connection_follows_and_only_under_its_name(gitea, tmp_path):
    world = following(tmp_path, gitea, rules="{exclude: [acme/lib]}")
    world.run()
    credentials = GitCredentials(str(world.path), world.states.entrusted)
    mirrors = Mirrors(tmp_path / "mirrors", credentials=credentials)
    mirrors.sync(world.ledger.get(RepositoryName("acme/app")))

    for name, place in (("acme/lib", "acme/lib"), ("team/app", "acme/app")):
        by_hand = Repository(RepositoryName(name), f"{gitea.url}/{place}.git")
        with pytest.raises((Denied, NotFound)):
            mirrors.sync(by_hand)


def test_a_wrong_token_is_reported_and_changes_nothing(world, tmp_path):
    world.run()
    names = world.ledger.names()
    (tmp_path / "token").write_text("0" * 40)

    assert "401" in world.run().error
    assert world.ledger.names() == names


def test_a_connection_can_follow_a_whole_server_or_one_user(tmp_path, gitea):
    world = following(tmp_path, gitea)
    text = world.path.read_text()
    world.path.write_text(text.replace("    organisation: acme\n", ""))
    world.run()
    assert {"acme/app", "other/tool"} <= set(world.ledger.names())

    world.path.write_text(text.replace("acme", "root"))
    gitea.call("POST", "/user/repos", name="own", auto_init=True)
    assert world.run(after=0).listed == 1
    assert "root/own" in world.ledger.names()
