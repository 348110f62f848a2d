"""Maps of chunks are made by a worker, and shown to callers who see all their repositories."""

from __future__ import annotations

import asyncio
import time

import numpy as np
import pytest

from codelode.access import EVERYTHING, Principal, Role, Visibility
from codelode.chunk_map import LOST_AFTER_S, MAX_REPOSITORIES, MapState, Progress
from codelode.errors import InvalidQuery, NotFound, Unavailable
from codelode.settings import Settings
from gateway import service
from gateway.service.maps import MAX_PLACES
from gateway.service.requests import MapPlacesRequest, MapRequest
from tests.worlds import World, blob

APP = {f"src/part{number}.py": f"def part{number}():\n    return {number}\n" for number in range(6)}
LIB = {"lib.go": "package lib\n\nfunc Load() {}\n", "docs/guide.md": "# Guide\n\nLoad it.\n"}
BOTH = ("acme/app", "acme/lib")


@pytest.fixture
def world(tmp_path):
    made = World(Settings(data=tmp_path))
    made.index("acme/app", APP)
    made.index("acme/lib", LIB)
    return made


@pytest.fixture
def ask(world):
    """`ask(function, repositories, …)` asks the service, as an indexer of what `visible` says."""

    def asked(function, *repositories, visible=EVERYTHING, **given):
        kind = MapPlacesRequest if function is service.map_places else MapRequest
        principal = Principal("somebody", Role.INDEXER, visible)
        request = kind(repositories, **given)
        return asyncio.run(function(world.dependencies, principal, request))

    return asked


def points(answer):
    return np.frombuffer(answer.points, "<u2").reshape(-1, 5)


def test_a_map_is_requested_made_and_shown(world, ask):
    before = ask(service.chunk_map, *BOTH)
    assert (before.status, before.points) == (None, b"")
    assert before.expected_s > 1

    assert ask(service.make_map, *BOTH).progress == "waiting"
    assert world.jobs.sent[-1] == ("map", BOTH)
    world.map(*BOTH)

    answer = ask(service.chunk_map, *reversed(BOTH))
    assert (answer.status.progress, answer.status.is_current) == ("ready", True)
    found = points(answer)
    assert len(found) == answer.status.points == answer.status.chunks
    assert answer.point_repositories == BOTH  # the one with most points first
    assert set(answer.languages) == {"python", "go", "markdown"}
    assert (found[:, 2] == 0).sum() == len(APP)
    assert found[:, :2].max() == 65_535


def test_points_lead_to_chunks(world, ask):
    world.map(*BOTH)
    answer = ask(service.chunk_map, *BOTH)

    places = ask(service.map_places, *BOTH, points=range(len(points(answer)))).places

    assert {one.path for one in places} == {*APP, *LIB}
    for one, (_, _, repository, *_) in zip(places, points(answer), strict=True):
        assert one.repository == answer.point_repositories[repository]
        assert 1 <= one.start_line <= one.end_line


def test_a_map_that_is_being_made_is_not_made_twice(world, ask):
    for _ in range(2):
        assert ask(service.make_map, *BOTH).progress == "waiting"
    assert [one for one in world.jobs.sent if one[0] == "map"] == [("map", BOTH)]


def test_a_map_without_progress_counts_as_failed_and_can_be_made_again(world, ask):
    names = tuple(sorted(BOTH))
    begun = MapState(names, Progress.PLACING, time.time() - LOST_AFTER_S - 1)
    world.dependencies.maps.begin(begun)

    (shown,) = ask(service.chunk_map).maps
    assert shown.progress == "failed"
    assert shown.error == "no worker has reported progress for 120 s; have it made again"
    assert ask(service.make_map, *BOTH).progress == "waiting"


def test_a_map_tells_that_the_index_has_changed_since(world, ask):
    world.map(*BOTH)
    run = world.index("acme/lib", LIB | {"new.go": "package lib\n"})
    assert run.revision == blob("acme/lib")  # the commit is the same
    assert ask(service.chunk_map, *BOTH).status.is_current

    world.ledger.unregister("acme/lib")
    world.index("acme/lib", LIB, ref="other")
    world.dependencies.maps.remove_repository("acme/lib")
    assert ask(service.chunk_map, *BOTH).status is None


def test_a_broker_that_is_away_leaves_no_map_waiting(world, ask):
    world.jobs.is_away = True
    with pytest.raises(Unavailable):
        ask(service.make_map, *BOTH)

    assert ask(service.chunk_map, *BOTH).status.progress == "failed"


@pytest.mark.parametrize(
    ("function", "repositories", "given", "error", "says"),
    [
        (service.make_map, (), {}, InvalidQuery, "repositories: is empty; name the repositories"),
        (service.make_map, ("acme/ap",), {}, InvalidQuery, "did you mean 'acme/app'"),
        (service.chunk_map, ("acme/ap",), {}, InvalidQuery, "did you mean 'acme/app'"),
        (
            service.chunk_map,
            ("acme/app",) * (MAX_REPOSITORIES + 1),
            {},
            InvalidQuery,
            "a map shows 50 at most",
        ),
        (service.map_places, ("acme/app",), {"points": [1]}, NotFound, "have it made first"),
        (service.map_places, BOTH, {"points": [-1]}, InvalidQuery, "points: has -1; the map has"),
        (service.map_places, BOTH, {"points": [999]}, InvalidQuery, "points: has 999"),
        (
            service.map_places,
            BOTH,
            {"points": [0] * (MAX_PLACES + 1)},
            InvalidQuery,
            "ask for 200 at most",
        ),
    ],
)
def test_the_error_says_why_a_map_cannot_be_shown(
    world, ask, function, repositories, given, error, says
):
    world.map(*BOTH)
    with pytest.raises(error) as refused:
        ask(function, *repositories, **given)
    assert says in str(refused.value)


def test_a_repository_without_chunks_has_no_map(world, ask):
    world.index("acme/empty", {})
    with pytest.raises(InvalidQuery, match="no indexed chunk yet"):
        ask(service.make_map, "acme/empty")


def test_a_map_with_a_hidden_repository_is_reported_like_a_missing_one(world, ask):
    seen = Visibility.of(["acme/app"])
    world.map("acme/app")
    alone = ask(service.chunk_map, "acme/app").points
    world.map(*BOTH)

    (shown,) = ask(service.chunk_map, visible=seen).maps
    assert shown.repositories == ("acme/app",)
    assert ask(service.chunk_map, "acme/app", visible=seen).points == alone
    told = set()
    for name in ("acme/lib", "acme/lxx"):
        for function in (service.chunk_map, service.make_map, service.map_places):
            with pytest.raises(InvalidQuery) as refused:
                ask(function, "acme/app", name, visible=seen)
            told.add(str(refused.value).replace(name, "NAME"))
    assert len(told) == 1
