"""Groups of repositories, from the teams of a real Gitea to the chunks in a real Weaviate."""

from __future__ import annotations

from contextlib import closing
from typing import Any
from urllib.parse import quote

import pytest

from codelode.backends import registry
from codelode.backends.weaviate.connection import connect
from codelode.model import RunState
from tests.end_to_end.test_permission_sync import WORD, Served
from tests.gitea import PASSWORD, Gitea
from tests.waiting import wait_until

pytestmark = pytest.mark.parametrize("store", ["weaviate"], indirect=True)

RED, BLUE = ("r1", "r3"), ("r2", "r4")


class World:
    """Two teams of one person each, who read two private repositories each."""

    def __init__(self, gitea):
        self.gitea = gitea
        self.accounts = {name: gitea.user(name) for name in ("red", "blue")}
        content = f"def {WORD}():\n    return 1\n"
        self.urls = {
            name: gitea.repository(f"acme/{name}", content=content) for name in (*RED, *BLUE)
        }
        self.teams = {
            team: gitea.team("acme", team, repositories=names, members=[team])
            for team, names in {"red": places(RED), "blue": places(BLUE)}.items()
        }


def places(names):
    return [f"acme/{name}" for name in names]


class GroupedServed(Served):
    """A cluster that has read the permissions before it indexes the repositories."""

    def start(self):
        self.cluster.start()
        wait_until(self.has_read_permissions, "the permissions to be read")
        with self.cluster.client() as admin:
            for name in self.world.accounts:
                self.keys[name] = admin.create_key(name).text
        for name in self.world.urls:
            self.index(name)

    def has_read_permissions(self):
        """Return whether the permissions are read; at first, no connection is known."""
        with self.cluster.client() as admin:
            return [one.repositories for one in admin.permissions().connections] == [4]

    def index(self, name):
        with self.cluster.client() as admin:
            run = admin.index(self.world.urls[name], name=f"acme/{name}")
            assert run.state is RunState.COMPLETE

    def groups(self):
        found = registry.ledger(self.cluster.settings()).groups()
        return {name.removeprefix("acme/"): group for name, ((group,), _) in found.items()}

    def stored(self, address):
        """Return the groups in the chunks of each repository."""
        settings = self.cluster.settings()
        found = {}
        with closing(connect(address)) as client:
            chunks: Any = client.collections.use(settings.weaviate_collection)
            chunks = chunks.with_tenant(settings.organisation)
            for one in chunks.iterator(return_properties=["repository", "prefixes"]):
                name = one.properties["repository"].removeprefix("acme/")
                found.setdefault(name, set()).update(one.properties["prefixes"][1:])
        return found


@pytest.fixture(scope="module")
def served(tmp_path_factory, program_of, store, cluster_at):
    folder = tmp_path_factory.mktemp("grouped")
    gitea = Gitea(program_of("gitea"), tmp_path_factory.mktemp("gitea"))
    gitea.start()
    gitea.call("POST", "/orgs", username="acme", visibility="public")
    host = gitea.url.removeprefix("http://")
    (folder / "credentials").write_text(f"http://root:{quote(PASSWORD)}@{host}\n")
    helper = f"[credential]\n\thelper = store --file={folder / 'credentials'}\n"
    (folder / ".gitconfig").write_text(helper)
    settings = {"sources": str(folder / "sources.yaml"), "access_file": str(folder / "access.yaml")}
    cluster = cluster_at(folder / "data", **settings, **store())
    made = GroupedServed(cluster, World(gitea), folder)
    try:
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("HOME", str(folder))
            made.start()
        yield made
    finally:
        cluster.kill()
        gitea.stop()


def test_groups_are_those_of_the_first_readers_and_grant_no_rights(
    served, wait_for, weaviate_address
):
    gitea, teams = served.world.gitea, served.world.teams
    groups = served.groups()
    assert groups.keys() == {*RED, *BLUE}
    assert groups["r1"] == groups["r3"] != groups["r2"] == groups["r4"]
    assert served.stored(weaviate_address) == {name: {group} for name, group in groups.items()}
    wait_for(lambda: served.sees("red") == set(RED), "red to find what the team reads")
    assert served.sees("blue") == set(BLUE)

    gitea.call("DELETE", f"/teams/{teams['red']}/repos/acme/r3")
    gitea.call("PUT", f"/teams/{teams['red']}/repos/acme/r2")
    served.synced(wait_for)
    wait_for(lambda: served.sees("red") == {"r1", "r2"}, "red to find what it reads now")
    assert served.sees("blue") == set(BLUE)
    gitea.write("acme/r2", "more.py", f"def more_{WORD}():\n    return 2\n")
    served.index("r2")
    assert served.groups() == groups
    assert served.stored(weaviate_address)["r2"] == {groups["r2"]}

    with served.cluster.client() as admin:
        admin.remove("acme/r2")
    served.index("r2")
    again = served.groups()
    assert again["r2"] not in groups.values()  # both teams read it now
    assert again == {**groups, "r2": again["r2"]}
    assert served.stored(weaviate_address)["r2"] == {again["r2"]}
    wait_for(lambda: served.sees("red") == {"r1", "r2"}, "red to find it again")
    assert served.sees("blue") == set(BLUE)
