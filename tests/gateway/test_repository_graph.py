"""The graph of whole repositories reads many repositories at once, and says where it stopped."""

from __future__ import annotations

from dataclasses import replace

import pytest

from codelode.backends.memory.packages import MemoryPackageIndex
from codelode.backends.memory.references import MemoryReferences
from codelode.backends.redis.packages import RedisPackageIndex
from codelode.backends.redis.references import RedisReferences
from codelode.model import DEFAULT_REF
from codelode.ports import PublishedPackages
from gateway.expand import repositories
from gateway.expand.repositories import RepositoryQuery, around

#: Repositories: each publishes a package, and some import that of another one.
USES = {3: 0, 4: 0, 5: 0, 6: 3, 7: 3, 8: 4}


def name(number):
    return f"acme/r{number:04}"


@pytest.fixture(params=["memory", pytest.param("redis", marks=pytest.mark.server)])
def indexes(request):
    if request.param == "memory":
        return MemoryReferences(), MemoryPackageIndex()
    client = request.getfixturevalue("redis")
    return RedisReferences(client), RedisPackageIndex(client)


class Counting:
    """A port that counts its calls."""

    def __init__(self, port):
        self.port = port
        self.calls = 0

    def __getattr__(self, method):
        self.calls += 1
        return getattr(self.port, method)


@pytest.fixture
def ask(backends, indexes):
    counted = [Counting(one) for one in indexes]
    some = replace(backends, references=counted[0], packages=counted[1])

    async def asked(count, number, *, reverse, depth=2, limit=100, others=0):
        """Ask for the links of a repository that publishes so many packages without users."""
        references, packages = indexes
        for at in range(count):
            keys = [f"npm:p{at}", *(f"npm:q{one}" for one in range(others) if at == number)]
            published = PublishedPackages(dict.fromkeys(keys, ""), {})
            packages.publish(name(at), [DEFAULT_REF], published)
            used = [f"p npm:p{USES[at]}"] if at in USES else ["c run"]
            files = {f"{file}.js": used for file in range(1 + at % 3)}
            references.replace(name(at), [DEFAULT_REF], files)
        visible = [name(at) for at in range(count)]
        query = RepositoryQuery(name(number), DEFAULT_REF, visible, depth, reverse, limit)
        before = [one.calls for one in counted]
        links, notices = await around(query, some)
        calls = sum(one.calls for one in counted) - sum(before)
        found = [
            f"{link.source.repository[-1]}→{link.target.repository[-1]} {link.depth} {link.files}"
            for link in links
        ]
        return found, list(notices), calls

    return asked


async def test_users_are_found_in_many_repositories_with_few_reads(ask):
    links, notices, few = await ask(10, 0, reverse=True)
    assert links == ["5→0 1 3", "4→0 1 2", "3→0 1 1", "8→4 2 3", "7→3 2 2", "6→3 2 1"]
    assert notices == []

    again, _, many = await ask(300, 0, reverse=True)
    assert again == links
    assert many == few


async def test_providers_are_found_with_few_reads(ask):
    assert (await ask(10, 8, reverse=False))[0] == ["8→4 1 3", "4→0 2 2"]

    links, notices, calls = await ask(300, 8, reverse=False)
    assert (links, notices) == (["8→4 1 3", "4→0 2 2"], [])
    assert calls < 12


async def test_a_level_that_is_too_large_is_followed_in_part_and_reported(ask, monkeypatch):
    monkeypatch.setattr(repositories, "MAX_LOOKUPS", 25)

    links, notices, _ = await ask(10, 0, reverse=True)

    assert links == ["5→0 1 3", "4→0 1 2", "3→0 1 1", "8→4 2 3"]
    assert notices == [
        "only 2 of 3 repositories at distance 1 were followed, because more would take too long"
    ]


@pytest.mark.parametrize(
    ("number", "reverse", "most", "told"),
    [(0, True, 30, "3 of 5"), (8, False, 12, "12 of 14")],
)
async def test_a_repository_with_too_many_packages_is_followed_in_part_and_reported(
    ask, monkeypatch, number, reverse, most, told
):
    monkeypatch.setattr(repositories, "MAX_LOOKUPS", most)

    links, notices, _ = await ask(10, number, reverse=reverse, depth=1, others=4)

    assert links == (["5→0 1 3", "4→0 1 2", "3→0 1 1"] if reverse else ["8→4 1 3"])
    assert notices == [
        f"only {told} packages were looked up at distance 0, because more would take too long"
    ]
