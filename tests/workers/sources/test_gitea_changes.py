"""Listings of a Gitea read only what has changed; a simulated server counts the requests.

`test_gitea.py` tests the same with a real server.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import count

import pytest

from codelode.repository_sources import Action, Mode
from tests.hosts import TOKEN, CodeHost
from tests.workers.sources.test_following import World, connection
from workers.sources.following import MOST_PARTIAL

#: Repositories of a large organisation.
MANY = 10_000
OWNER = 7


@dataclass
class Row:
    """A repository of the server; `updated`: seconds since the epoch."""

    id: int
    name: str
    updated: int
    topics: list[str] = field(default_factory=list)
    is_mirror: bool = False


class Gitea(CodeHost):
    """A server with the default maximum page size and the organisation `acme`."""

    def __init__(self, number):
        super().__init__()
        self.ids = count(1)
        self.rows = [self.row(f"r{one}") for one in range(number)]

    def row(self, name, **fields):
        id = next(self.ids)
        return Row(id, name, **{"updated": 1_000_000_000 + 1_000 * id, **fields})

    def push(self, row, *, at=0):
        row.updated = at or max(one.updated for one in self.rows) + 1_000

    def is_known(self, headers):
        return headers.get("Authorization") == f"token {TOKEN}"

    def value(self, path, parameters, body):
        if path == "/api/v1/orgs/acme":
            return {"id": OWNER}
        if path != "/api/v1/repos/search":
            raise KeyError(path)
        assert (parameters["uid"], parameters["exclusive"]) == (str(OWNER), "true")
        rows = [one for one in self.rows if one.is_mirror or parameters.get("mode") != "mirror"]
        keys = {"id": lambda one: one.id, "updated": lambda one: one.updated}
        rows.sort(key=keys[parameters["sort"]], reverse=parameters["order"] == "desc")
        return rows

    def _page(self, path, parameters, rows):
        size = min(50, int(parameters["limit"]))
        headers, found = super()._page(path, {**parameters, "per_page": size}, rows)
        data = [self._shown(one) for one in found]
        return {**headers, "X-Total-Count": str(len(rows))}, {"ok": True, "data": data}

    def _shown(self, row):
        flags = dict.fromkeys(("private", "internal", "fork", "archived", "empty"), False)
        at = datetime.fromtimestamp(row.updated, UTC).isoformat().replace("+00:00", "Z")
        return {
            **flags,
            "id": row.id,
            "full_name": f"acme/{row.name}",
            "owner": {"id": OWNER, "login": "acme"},
            "size": 7,
            "topics": row.topics,
            "mirror": row.is_mirror,
            "default_branch": "main",
            "updated_at": at,
        }


@pytest.fixture
def gitea():
    server = Gitea(120)
    yield server
    server.close()


@pytest.fixture
def world(tmp_path, gitea):
    rules = "{grace: 100h, every: 1h, at_least_every: 1h}"
    made = World(tmp_path, connection("gitea", gitea.url, rules))
    made.run()
    made.done()
    return made


COMPLETE = 1 + 3  # the organisation, and three pages of at most 50


def test_an_unchanged_organisation_costs_one_request_or_sometimes_a_complete_listing(world):
    found = [world.run() for _ in range(2 * (MOST_PARTIAL + 1))]

    assert [one.requests for one in found] == [*[1] * MOST_PARTIAL, COMPLETE] * 2
    assert {one.listed for one in found} == {120}
    assert world.outbox.runs == []


@pytest.mark.slow
def test_ten_thousand_unchanged_repositories_cost_one_request(tmp_path):
    server = Gitea(MANY)
    world = World(tmp_path, connection("gitea", server.url, "{include: [acme/r1]}"))
    try:
        assert (world.run().requests, world.outcome.listed) == (201, MANY)
        world.done()
        found = [world.run() for _ in range(MOST_PARTIAL)]
        assert {(one.requests, one.listed, one.error) for one in found} == {(1, MANY, "")}
    finally:
        server.close()


def test_pushes_are_found_by_reading_only_the_pages_with_them(world, gitea):
    for row in gitea.rows[:60]:
        gitea.push(row)
    assert world.run().requests == 2
    assert world.told() == {(Action.UPDATE, f"acme/r{one}") for one in range(60)}
    gitea.push(gitea.rows[0])
    gitea.rows.append(gitea.row("new", updated=gitea.rows[0].updated))
    assert world.run().requests == 1
    assert world.told() == {(Action.UPDATE, "acme/r0"), (Action.REGISTER, "acme/new")}


def test_a_push_that_the_server_shows_late_is_found(world, gitea):
    latest = max(one.updated for one in gitea.rows)
    for row in gitea.rows[:60]:
        gitea.push(row, at=latest - 30)
    world.run()
    assert len(world.told()) == 60


@pytest.mark.parametrize("is_replaced", [False, True])
def test_a_missing_repository_causes_a_complete_listing(world, gitea, is_replaced):
    del gitea.rows[0]
    if is_replaced:
        gitea.rows.append(gitea.row("new", updated=2_000_000_000))
    assert world.run().requests == 1 + COMPLETE
    added = {(Action.REGISTER, "acme/new")} if is_replaced else set()
    assert world.told() == {(Action.MISS, "acme/r0"), *added}
    assert world.run().requests == 1


def test_a_change_without_a_new_update_time_is_found_by_the_next_complete_listing(world, gitea):
    gitea.rows[0].name = "renamed"
    for _ in range(MOST_PARTIAL):
        world.run()
        assert world.told() == set()
    world.run()
    assert world.told() == {(Action.RENAME, "acme/renamed")}


def test_a_requested_sync_makes_a_complete_listing(world, gitea):
    gitea.rows[0].name = "renamed"
    assert world.run(Mode.SYNC).requests == COMPLETE
    assert world.told() == {(Action.RENAME, "acme/renamed")}


def test_changed_rules_cause_a_complete_listing(world, gitea):
    gitea.rows[0].topics = ["web"]
    world.path.write_text(world.path.read_text().replace("{grace", "{topics: [web], grace"))
    assert world.run().requests == COMPLETE
    assert "119 of 120 repositories" in world.outcome.waiting


def test_mirrors_are_listed_because_they_have_the_time_of_their_last_commit(world, gitea):
    mirror = gitea.row("mirror", updated=900_000_000, is_mirror=True)
    gitea.rows.append(mirror)
    assert world.run().requests == 1 + COMPLETE
    world.done()
    gitea.push(mirror, at=900_001_000)
    assert world.run().requests == 2
    assert world.told() == {(Action.UPDATE, "acme/mirror")}


def test_an_organisation_of_mirrors_is_listed(tmp_path):
    server = Gitea(0)
    server.rows = [server.row(f"m{one}", is_mirror=True) for one in range(3)]
    world = World(tmp_path, connection("gitea", server.url))
    try:
        assert [world.run().requests for _ in range(2)] == [2, 2]
    finally:
        server.close()


def test_a_failed_listing_changes_nothing_and_the_next_one_succeeds(world, gitea):
    gitea.push(gitea.rows[0])
    gitea.always = 401, {}, {"message": "no"}
    assert "401" in world.run().error
    gitea.always = None
    assert (world.run(after=300).requests, world.told()) == (1, {(Action.UPDATE, "acme/r0")})
