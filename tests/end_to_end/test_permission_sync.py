"""Permission sync with a real Gitea: searches follow the rights of people at the host."""

from __future__ import annotations

from urllib.parse import quote

import pytest

from codelode.client import Client
from codelode.errors import InvalidQuery
from codelode.model import RunState
from tests.gitea import PASSWORD, Gitea

#: One store suffices, because contract tests check visibilities for every store.
pytestmark = pytest.mark.parametrize("store", ["local"], indirect=True)

WORD = "lantern"
MAX_AGE_S = 20
SECRET = "of-the-webhooks"


@pytest.fixture(scope="module")
def gitea(tmp_path_factory, program_of):
    server = Gitea(program_of("gitea"), tmp_path_factory.mktemp("gitea"))
    server.start()
    server.call("POST", "/orgs", username="acme", visibility="public")
    yield server
    server.stop()


@pytest.fixture(scope="module")
def world(gitea):
    """The accounts with their initial rights; each test restores what it changes."""
    return World(gitea)


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
        # This team sees the repository and its issues, but not its code.
        seen = {"repositories": ["acme/secret"], "members": ["bob"]}
        self.issues = gitea.team("acme", "issues", units=["repo.issues"], **seen)
        gitea.call("PUT", "/repos/acme/tools/collaborators/carl", permission="read")


class Served:
    """A cluster with permission sync, and an API key for each account."""

    def __init__(self, cluster, world, folder):
        self.cluster, self.world = cluster, world
        self.token = folder / "token"
        self.token.write_text(world.gitea.admin_token)
        (folder / "secret").write_text(SECRET)
        self.sources = folder / "sources.yaml"
        self.sources.write_text(
            f"connections:\n- name: work\n  kind: gitea\n  url: {world.gitea.url}\n"
            f"  token: {{file: {self.token}}}\n"
            f"  webhook_secret: {{file: {folder / 'secret'}}}\n"
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
        """Return the repositories whose code the account finds."""
        with Client(self.cluster.facts["grpc"], token=self.keys[name]) as client:
            found = client.search(WORD, top_k=20)
            return {hit.repository.removeprefix("acme/") for hit in found.hits}

    def state(self):
        with self.cluster.client() as admin:
            (one,) = admin.permissions().connections
            return one

    def synced(self, wait_for):
        """Wait for a sync that begins after this call."""
        before = self.state()
        with self.cluster.client() as admin:
            admin.sync_permissions("work")
        wait_for(lambda: self.state().attempted_at > before.attempted_at, "a sync")
        with self.cluster.client() as admin:
            admin.sync_permissions("work")
        after = self.state()
        wait_for(lambda: self.state().attempted_at > after.attempted_at, "another sync")


@pytest.fixture(scope="module")
def served(tmp_path_factory, store, cluster_at, world):
    """A cluster whose git reads the private repositories with the password of the admin."""
    folder = tmp_path_factory.mktemp("served")
    host = world.gitea.url.removeprefix("http://")
    (folder / "credentials").write_text(f"http://root:{quote(PASSWORD)}@{host}\n")
    helper = f"[credential]\n\thelper = store --file={folder / 'credentials'}\n"
    (folder / ".gitconfig").write_text(helper)
    settings = {"sources": str(folder / "sources.yaml"), "access_file": str(folder / "access.yaml")}
    cluster = cluster_at(folder / "data", **settings, **store())
    made = Served(cluster, world, folder)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HOME", str(folder))
        made.start()
    yield made
    cluster.kill()


def test_people_find_code_until_they_lose_the_right_to_read_it_at_the_host(served, wait_for):
    gitea, world = served.world.gitea, served.world
    served.synced(wait_for)  # gateways use its result within a second

    wait_for(lambda: served.sees("ann") == {"secret", "open"}, "ann to find what she may read")
    assert served.sees("bob") == {"open"}  # a member of a team without access to code
    assert served.sees("carl") == {"tools", "open"}
    assert "secret" not in served.sees("rita")
    state = served.state()
    assert (state.error, state.closed_because, state.repositories) == ("", "", 3)

    gitea.call("DELETE", f"/teams/{world.readers}/members/ann")
    gitea.call("DELETE", "/repos/acme/tools/collaborators/carl")
    served.synced(wait_for)
    wait_for(lambda: served.sees("ann") == {"open"}, "ann to lose the right")
    wait_for(lambda: served.sees("carl") == {"open"}, "carl to lose the right")
    client = Client(served.cluster.facts["grpc"], token=served.keys["ann"])
    with client, pytest.raises(InvalidQuery, match="there is no repository"):
        client.search(WORD, repositories=["acme/secret"])

    gitea.call("PUT", f"/teams/{world.readers}/members/bob")
    served.synced(wait_for)
    wait_for(lambda: served.sees("bob") == {"secret", "open"}, "bob to get the right")

    gitea.call("DELETE", f"/teams/{world.readers}/members/bob")
    gitea.call("PUT", f"/teams/{world.readers}/members/ann")
    gitea.call("PUT", "/repos/acme/tools/collaborators/carl", permission="read")


def test_permissions_of_a_host_that_is_down_apply_until_the_age_limit(served, wait_for):
    served.synced(wait_for)
    wait_for(lambda: served.sees("ann") == {"secret", "open"}, "ann to find it again")
    served.world.gitea.stop()
    try:
        wait_for(lambda: "does not answer" in served.state().error, "the failure to be reported")
        state = served.state()
        if not state.closed_because:  # else this took longer than the age limit
            seen = served.sees("ann")
            assert seen == {"secret", "open"} or served.state().closed_because

        wait_for(lambda: served.sees("ann") == set(), "all repositories to be hidden")
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
    wait_for(lambda: served.sees("ann") == {"secret", "open"}, "the permissions to apply again")


def test_a_token_that_the_host_refuses_hides_its_repositories_at_once(served, wait_for):
    served.synced(wait_for)
    assert served.sees("ann") == {"secret", "open"}
    served.token.write_text("0" * 40)
    served.synced(wait_for)

    wait_for(lambda: served.sees("ann") == set(), "all repositories to be hidden")
    assert "401" in served.state().error
    served.token.write_text(served.world.gitea.admin_token)
    served.synced(wait_for)
    wait_for(lambda: served.sees("ann") == {"secret", "open"}, "the new token to be used")


def test_pushes_and_changes_of_rights_are_applied_at_once_through_webhooks(served, wait_for):
    """Must be the last test, because it removes a repository."""
    gitea = served.world.gitea
    text = served.sources.read_text()
    served.sources.write_text(text.replace(f"1s, max_age: {MAX_AGE_S}s", "1h, max_age: 24h"))
    wait_for(lambda: served.state().every_s == 3_600, "the interval of syncs to become long")
    served.synced(wait_for)
    assert served.sees("carl") == {"tools", "open"}
    gitea.webhook("acme", f"{served.cluster.facts['http']}/webhooks/work", SECRET)

    gitea.write("acme/open", "more.py", "def beacon():\n    return 2\n")

    def found():
        with served.cluster.client() as admin:
            return [hit.path for hit in admin.search("beacon", repositories=["acme/open"]).hits]

    wait_for(lambda: "more.py" in found(), "the push to be indexed")
    gitea.call("DELETE", "/repos/acme/tools")
    wait_for(lambda: served.state().repositories == 2, "the deletion to be read")
    wait_for(lambda: served.sees("carl") == {"open"}, "carl not to find the repository any more")
