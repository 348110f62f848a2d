"""Permission sync with a real Gitea: who loses a right at the host finds nothing any more."""

from __future__ import annotations

from urllib.parse import quote

import pytest

from codelode.client import Client
from codelode.errors import InvalidQuery
from codelode.model import RunState
from tests.gitea import PASSWORD, Gitea

#: One store suffices: permissions become visibilities, and stores have contracts for those.
pytestmark = pytest.mark.parametrize("store", ["local"], indirect=True)

WORD = "lantern"
MAX_AGE_S = 20


@pytest.fixture(scope="module")
def gitea(tmp_path_factory, program_of):
    server = Gitea(program_of("gitea"), tmp_path_factory.mktemp("gitea"))
    server.start()
    server.call("POST", "/orgs", username="acme", visibility="public")
    yield server
    server.stop()


@pytest.fixture
def reset(gitea):
    """Reset what all accounts may read, before each test."""
    made = World(gitea)
    yield made
    made.remove()


class World:
    """Two private repositories and a public one, a team, a collaborator, and accounts."""

    def __init__(self, gitea):
        self.gitea = gitea
        self.accounts = {name: gitea.user(name) for name in ("ann", "bob", "carl")}
        self.accounts["rita"] = gitea.user("rita", restricted=True)
        content = f"def {WORD}():\n    return 1\n"
        self.urls = {
            name: gitea.repository(f"acme/{name}", private=name != "open", content=content)
            for name in ("secret", "tools", "open")
        }
        reads = {"repositories": ["acme/secret"], "members": ["ann"]}
        self.readers = gitea.team("acme", "readers", **reads)
        # This team sees the repository's issues, and so lists the repository, but no code.
        seen = {"repositories": ["acme/secret"], "members": ["bob"]}
        self.issues = gitea.team("acme", "issues", units=["repo.issues"], **seen)
        gitea.call("PUT", "/repos/acme/tools/collaborators/carl", permission="read")

    def remove(self):
        for name in self.urls:
            self.gitea.call("DELETE", f"/repos/acme/{name}")
        for team in (self.readers, self.issues):
            self.gitea.call("DELETE", f"/teams/{team}")
        for name in self.accounts:
            self.gitea.call("DELETE", f"/admin/users/{name}?purge=true")


class Served:
    """A cluster under permission sync, and the keys of the accounts."""

    def __init__(self, cluster, world, folder):
        self.cluster, self.world = cluster, world
        self.token = folder / "token"
        self.token.write_text(world.gitea.admin_token)
        self.sources = folder / "sources.yaml"
        self.sources.write_text(
            f"connections:\n- name: work\n  kind: gitea\n  url: {world.gitea.url}\n"
            f"  token: {{file: {self.token}}}\n"
            f"  permissions: {{every: 1s, max_age: {MAX_AGE_S}s}}\n"
        )
        people = "".join(
            f'  "key:{name}":\n    accounts: {{work: "{id}"}}\n'
            for name, id in world.accounts.items()
        )
        self.access = folder / "access.yaml"
        self.access.write_text(f"people:\n{people}")
        self.keys = {}

    def start(self):
        self.cluster.start()
        with self.cluster.client() as admin:
            for name, url in self.world.urls.items():
                assert admin.index(url, name=f"acme/{name}").state is RunState.COMPLETE
            for name in self.world.accounts:
                self.keys[name] = admin.create_key(name).text

    def sees(self, name):
        """The repositories whose code a search of the account finds."""
        with Client(self.cluster.facts["grpc"], token=self.keys[name]) as client:
            found = client.search(WORD, top_k=20)
            return {hit.repository.removeprefix("acme/") for hit in found.hits}

    def state(self):
        with self.cluster.client() as admin:
            (one,) = admin.permissions().connections
            return one

    def synced(self, wait_for):
        """Wait for a reading that began from now on."""
        before = self.state()
        with self.cluster.client() as admin:
            admin.sync_permissions("work")
        wait_for(lambda: self.state().attempted_at > before.attempted_at, "a reading")
        with self.cluster.client() as admin:
            admin.sync_permissions("work")
        after = self.state()
        wait_for(lambda: self.state().attempted_at > after.attempted_at, "another reading")


@pytest.fixture
def served(tmp_path, store, cluster_at, reset, monkeypatch):
    """A cluster whose git reads the private repositories with the password of the admin."""
    host = reset.gitea.url.removeprefix("http://")
    (tmp_path / "credentials").write_text(f"http://root:{quote(PASSWORD)}@{host}\n")
    helper = f"[credential]\n\thelper = store --file={tmp_path / 'credentials'}\n"
    (tmp_path / ".gitconfig").write_text(helper)
    monkeypatch.setenv("HOME", str(tmp_path))
    settings = {
        "sources": str(tmp_path / "sources.yaml"),
        "access_file": str(tmp_path / "access.yaml"),
    }
    cluster = cluster_at(tmp_path / "data", **settings, **store())
    made = Served(cluster, reset, tmp_path)
    made.start()
    yield made
    cluster.kill()


def test_people_find_what_they_may_read_at_the_host_until_they_lose_the_right(served, wait_for):
    gitea, world = served.world.gitea, served.world
    served.synced(wait_for)

    assert served.sees("ann") == {"secret", "open"}
    assert served.sees("bob") == {"open"}  # a member of a team without the unit of the code
    assert served.sees("carl") == {"tools", "open"}
    assert "secret" not in served.sees("rita")
    state = served.state()
    assert (state.error, state.closed_because, state.repositories) == ("", "", 3)

    gitea.call("DELETE", f"/teams/{world.readers}/members/ann")
    gitea.call("DELETE", "/repos/acme/tools/collaborators/carl")
    served.synced(wait_for)
    wait_for(lambda: served.sees("ann") == {"open"}, "ann to find nothing of it any more")
    wait_for(lambda: served.sees("carl") == {"open"}, "carl likewise")
    client = Client(served.cluster.facts["grpc"], token=served.keys["ann"])
    with client, pytest.raises(InvalidQuery, match="there is no repository"):
        client.search(WORD, repositories=["acme/secret"])

    gitea.call("PUT", f"/teams/{world.readers}/members/bob")
    served.synced(wait_for)
    wait_for(lambda: served.sees("bob") == {"secret", "open"}, "bob to find it now")


def test_a_host_that_is_down_is_believed_until_the_age_limit(served, wait_for):
    served.synced(wait_for)
    assert served.sees("ann") == {"secret", "open"}
    served.world.gitea.stop()
    try:
        wait_for(lambda: "does not answer" in served.state().error, "the failure to be told")
        believed = served.state()
        if not believed.closed_because:  # else this took longer than the age limit
            seen = served.sees("ann")
            assert seen == {"secret", "open"} or served.state().closed_because

        wait_for(lambda: served.sees("ann") == set(), "all to be closed")
        assert "max_age is" in served.state().closed_because
        with served.cluster.client() as admin:
            assert len(admin.repositories()) == 3
            assert {hit.repository for hit in admin.search(WORD).hits} == {
                "acme/secret",
                "acme/tools",
                "acme/open",
            }
            assert any("permissions of work" in problem for problem in admin.status().problems)
    finally:
        served.world.gitea.start()
    served.synced(wait_for)
    wait_for(lambda: served.sees("ann") == {"secret", "open"}, "the host to be believed again")


def test_a_token_that_the_host_refuses_closes_all_of_it_at_once(served, wait_for):
    served.synced(wait_for)
    assert served.sees("ann") == {"secret", "open"}
    served.token.write_text("0" * 40)
    served.synced(wait_for)

    wait_for(lambda: served.sees("ann") == set(), "all to be closed")
    assert "401" in served.state().error
    served.token.write_text(served.world.gitea.admin_token)
    served.synced(wait_for)
    wait_for(lambda: served.sees("ann") == {"secret", "open"}, "the new token to be used")
