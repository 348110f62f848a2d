"""A query that asks who uses a name is answered with the users, not only the definition."""

from __future__ import annotations

import pytest

from codelode.access import EVERYTHING, Principal, Role, Visibility
from gateway import service
from gateway.analyze.used import MAX_CHARS, used
from gateway.service.requests import GivenFilters, SearchRequest
from tests.worlds import World

ASKING = Principal("ann", Role.READER, EVERYTHING)
PADDING = "".join(f"    step_{n} = prepare({n}, step={n})\n" for n in range(60))

FILES = {
    "README.md": "# Pools\n\nWho calls drain? `drain` is called by nobody.\n",
    "app/pool.py": (
        "class Pool:\n"
        '    """Callers of drain: who calls Pool.drain?"""\n\n'
        "    def drain(self):\n        return 0\n\n\n"
        "def open_pool(size):\n    return Pool()\n"
    ),
    "app/stop.py": (
        "from app.pool import Pool, open_pool\n\n\n"
        f"def stop(pool: Pool):\n{PADDING}    pool.drain()\n\n\n"
        "def start():\n    return open_pool(3)\n"
    ),
    "web/view.ts": "export function drain(): void {}\n\nexport function end() {\n  drain();\n}\n",
    "tests/test_pool.py": (
        "from app.pool import open_pool\n\n\ndef test_open_pool():\n    assert open_pool(1)\n"
    ),
}
ASKED = {
    "who calls Pool.drain": "Pool.drain",
    "Who calls the function `open_pool()`?": "open_pool",
    "what uses std::sort": "std.sort",
    "where is open_pool used?": "open_pool",
    "find all usages of Pool": "Pool",
    "callers of Pool#drain": "Pool.drain",
    "references to open_pool": "open_pool",
    "open_pool callers": "open_pool",
    "which functions call from": "",
    "how is the pool used in requests": "",
    "who calls the shots in this module": "",
    "usage": "",
    "open_pool": "",
    f"who calls {'x' * MAX_CHARS}": "",
}


@pytest.mark.parametrize(("text", "name"), ASKED.items(), ids=list(ASKED))
def test_only_questions_for_users_name_what_is_used(text, name):
    assert used(text) == name


@pytest.fixture
def world(settings):
    made = World(settings)
    made.index("acme/app", FILES)
    return made


@pytest.fixture
def answer(world):
    async def answered(text, principal=ASKING, *, explain=False, **filters):
        request = SearchRequest(query=text, filters=GivenFilters(**filters), explain=explain)
        return await service.search(world.dependencies, principal, request)

    return answered


@pytest.fixture
def search(answer):
    async def searched(*args, **options):
        return (await answer(*args, **options)).hits

    return searched


def places(hits):
    return [(hit.path, hit.symbol) for hit in hits]


async def test_callers_come_first_and_then_the_definition(search):
    found = places(await search("who calls open_pool"))
    assert [path for path, _ in found[:2]] == ["app/stop.py", "tests/test_pool.py"]
    assert "app/pool.py" in [path for path, _ in found[2:]]


async def test_a_long_function_that_calls_a_method_is_found_at_the_call(search):
    found = places(await search("callers of Pool.drain"))
    assert found[0][0] == "app/stop.py"
    assert ("web/view.ts", "end") not in found[:1]


async def test_the_score_of_a_use_has_a_part_for_it(search):
    first, *_ = await search("usages of open_pool", explain=True)
    assert sum(part.value for part in first.explain if part.name == "expand.use") > 0


async def test_users_outside_of_the_filters_are_left_out(search):
    found = await search("who calls open_pool", languages=("python",), paths=("tests/**",))
    assert {hit.path for hit in found} == {"tests/test_pool.py"}


async def test_a_name_that_nothing_defines_is_searched_like_any_query(search):
    assert places(await search("who calls nothing_of_this_name")) == places(
        await search("who  calls nothing_of_this_name")
    )


ABSENT = "no definition is named {}, and the name occurs nowhere there: the hits are only similar"


@pytest.mark.parametrize(
    ("text", "told", "is_unmatched"),
    [
        ("who calls frobnicate_pool", [ABSENT.format("'frobnicate_pool'")], True),
        ("usages of Pool.frobnicate", [ABSENT.format("'frobnicate'")], True),
        ("who uses frobnication", [ABSENT.format("'frobnication'")], True),
        ("opn_pool callers", [ABSENT.format("'opn_pool'") + "; did you mean 'open_pool'?"], True),
        ("who calls step_7", ["no definition is named 'step_7'"], False),
        ("who calls prepare", [], False),
        ("who calls open_pool", [], False),
        ("references to drain", [], False),
    ],
)
async def test_a_notice_says_that_a_name_that_nothing_defines_has_no_users(
    answer, text, told, is_unmatched
):
    found = await answer(text)
    assert found.hits
    assert (list(found.notices), found.unmatched) == (told, is_unmatched)


async def test_the_users_of_the_name_that_is_spelt_most_like_it_come_first(search):
    assert (await search("opn_pool callers"))[0].path == "app/stop.py"


async def test_a_name_that_the_caller_may_not_see_is_reported_as_absent(world, answer):
    world.index("secret/app", {"a.py": "def frobnicate_pool():\n    return 1\n"})
    one = Principal("bob", Role.READER, Visibility.of(["acme/app"]))
    asked = "who calls frobnicate_pool"
    assert list((await answer(asked, one)).notices) == [ABSENT.format("'frobnicate_pool'")]
    assert list((await answer(asked)).notices) == []


async def test_users_in_hidden_repositories_stay_hidden(world, search):
    world.index("secret/app", {path: text for path, text in FILES.items() if path != "README.md"})
    one = Principal("bob", Role.READER, Visibility.of(["acme/app"]))
    found = await search("who calls open_pool", one)
    assert {hit.repository for hit in found} == {"acme/app"}
