"""Lists have the definitions of names, and the uses of a name, in all repositories of a caller."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from codelode import grams
from codelode.access import EVERYTHING, Principal, Role, Visibility
from codelode.errors import InvalidQuery
from gateway import service
from gateway.exact.names import name_pattern
from gateway.service import queries
from gateway.service.requests import GivenFilters, ReferencesRequest, SymbolsRequest
from tests.worlds import World

LIB = {
    "package.json": '{"name": "@acme/http"}',
    "src/index.js": "export { Client } from './client'\n",
    "src/client.js": "import { retry } from './retry'\n\n"
    "export class Client {\n  get(url) {\n    return retry(() => fetch(url))\n  }\n"
    "  retryAll(urls) {\n    return urls.map((url) => this.get(url))\n  }\n}\n",
    "src/retry.js": "export function retry(call) {\n  return call()\n}\n",
}
APP = {
    "src/app.js": "import { Client } from '@acme/http'\n\n"
    "export function start() {\n  return new Client().get('/')\n}\n",
    "src/other.js": "// retry is not used here\n"
    "export function again(box) {\n  return retry(box)\n}\n",
    "tool/again.py": "def again(box):\n    return retry(box)\n",
}
STORE = {
    "store.py": "class Store:\n    def get(self):\n        return load(2)\n\n\n"
    "def load(key):\n    return parse(key)\n\n\nclass Reader:\n    def get(self):\n        pass\n",
    "use.py": "from store import load as fetch\n\n\n"
    "def run():\n    fetch(1)\n    return fetch(2)\n",
}


@pytest.fixture
def world(settings):
    made = World(settings)
    made.index("acme/app", APP)
    made.index("acme/http", LIB)
    made.index("acme/store", STORE)
    return made


@pytest.fixture
def symbols(world):
    async def listed(name, *, visible=EVERYTHING, limit=None, literal=False, **filters):
        request = SymbolsRequest(name, GivenFilters(**filters), literal, limit)
        principal = Principal("ann", Role.READER, visible)
        answer = await service.symbols(world.dependencies, principal, request)
        return [f"{one.path}:{one.start_line} {one.name}" for one in answer.symbols], answer

    return listed


@pytest.fixture
def references(world):
    async def listed(name, *, visible=EVERYTHING, limit=None, **filters):
        request = ReferencesRequest(name, GivenFilters(**filters), limit)
        principal = Principal("ann", Role.READER, visible)
        answer = await service.references(world.dependencies, principal, request)
        found = [
            f"{one.repository} {one.path}:{one.line} {one.symbol} {one.confidence}"
            for one in answer.references
        ]
        return found, answer

    return listed


# Definitions


async def test_a_glob_lists_all_definitions_by_place_with_kind_and_signature(symbols):
    found, answer = await symbols("ret*")

    assert found == ["src/client.js:7 Client.retryAll", "src/retry.js:1 retry"]
    assert [one.kind for one in answer.symbols] == ["method", "function"]
    assert answer.symbols[1].signature == "export function retry(call)"
    assert answer.notices == ()
    assert [one.repository for one in answer.coverage] == ["acme/http"]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("get", ["src/client.js:4 Client.get", "store.py:2 Store.get", "store.py:11 Reader.get"]),
        ("Client.get", ["src/client.js:4 Client.get"]),
        ("Client::get", ["src/client.js:4 Client.get"]),
        ("Store.*", ["store.py:2 Store.get"]),
        ("?tore.g*", ["store.py:2 Store.get"]),
        ("GET", []),
        ("retry*All", ["src/client.js:7 Client.retryAll"]),
    ],
)
async def test_names_are_compared_whole_and_in_their_case(symbols, name, expected):
    assert (await symbols(name))[0] == expected


async def test_filters_are_about_the_definitions_and_their_files(symbols):
    assert (await symbols("*", kinds=("class",)))[0] == [
        *("src/client.js:3 Client", "store.py:1 Store", "store.py:10 Reader")
    ]
    assert (await symbols("again", languages=("python",)))[0] == ["tool/again.py:1 again"]
    assert (await symbols("again", not_paths=("tool/**",)))[0] == ["src/other.js:2 again"]
    assert (await symbols("*", symbols=("Re*",), repositories=("acme/store",)))[0] == [
        "store.py:10 Reader"
    ]
    with pytest.raises(InvalidQuery, match="block_types"):
        await symbols("*", block_types=("resource",))


@pytest.mark.parametrize(
    ("filters", "said"),
    [
        ({"paths": ("nowhere/**",)}, "filters.paths: 'nowhere/**' matches no indexed code"),
        ({"paths": ("*.js",)}, "files of any folder are '**/*.js'"),
        ({"languages": ("go",)}, "filters.languages: 'go' matches no indexed code"),
        ({"not_paths": ("nowhere/**",)}, "matches no indexed file and leaves nothing out"),
    ],
)
async def test_a_filter_that_matches_nothing_is_named(symbols, references, filters, said):
    for listed in (await symbols("retry", **filters), await references("retry", **filters)):
        assert [said in notice for notice in listed[1].notices].count(True) == 1


async def test_a_definition_without_uses_says_what_counts_as_a_use(references):
    found, answer = await references("again")

    assert found == []
    assert answer.notices == (
        "only calls, instantiations, decorators, and inherited bases count as uses; an exact "
        "search for the whole word finds every line that has the name",
    )


async def test_a_notice_says_that_a_list_was_cut(symbols):
    found, answer = await symbols("get", limit=2)

    assert len(found) == 2
    assert answer.notices == (
        "only the first 2 definitions are shown; raise `limit`, or add filters",
    )


async def test_a_name_is_literal_on_request(symbols):
    assert (await symbols("ge?"))[0] != []
    assert (await symbols("ge?", literal=True))[0] == []


async def test_a_misspelt_name_finds_its_neighbour_where_the_caller_may_see_it(symbols):
    _, answer = await symbols("retryAl")
    assert answer.notices == ("no definition is named 'retryAl'; did you mean 'retryAll'?",)

    _, answer = await symbols("retryAl", visible=Visibility.of(["acme/store"]))
    assert answer.notices == ("no definition is named 'retryAl'",)


@pytest.mark.parametrize(
    ("glob", "near"),
    [
        ("retrAl*", "'retryAll'"),
        ("*etryAlll", "'retryAll'"),
        ("*tryAkl*", "'retryAll'"),
        ("Clint.retry*", "'retry' or 'retryAll'"),
        ("Client.retrAl*", "'retryAll'"),
        ("Stroe?*", "'Store'"),
        ("*", None),
        ("zz*", None),
    ],
)
async def test_a_glob_without_a_match_finds_similar_names(symbols, glob, near):
    found, answer = await symbols(glob)
    if found:
        assert (glob, answer.notices) == ("*", ())
        return
    told = f"no definition matches {glob!r}"
    assert answer.notices == ((f"{told}; did you mean {near}?" if near else told),)

    _, answer = await symbols(glob, visible=Visibility.of(["acme/none"]))
    assert answer.notices == (told,)


async def test_any_name_is_refused_where_too_many_files_would_be_read(symbols, monkeypatch):
    monkeypatch.setattr(queries, "MAX_UNNARROWED", 2)

    with pytest.raises(InvalidQuery, match="matches any name, so all 9 files"):
        await symbols("*")
    assert len((await symbols("*", repositories=("acme/store",)))[0]) == 6


async def test_uses_of_a_short_name_are_refused_where_too_many_files_would_be_read(
    references, monkeypatch
):
    monkeypatch.setattr(queries, "MAX_UNNARROWED", 2)

    with pytest.raises(InvalidQuery, match="so short that the uses in all 9 files"):
        await references("go")
    await references("go", repositories=("acme/store",))


def test_a_pattern_narrows_by_its_last_part_or_else_by_the_text_of_the_others():
    assert name_pattern("a::Client::ge*", is_literal=False).defines == ("ge*",)
    assert name_pattern("Client.*", is_literal=False).needed == grams.of_text("Client")
    assert [name_pattern(one, is_literal=False).is_wild for one in ("*", "a.*", "Client.*")] == [
        *(True, True, False)
    ]


# Uses


async def test_uses_are_found_in_the_repository_and_in_those_that_import_it(references):
    found, answer = await references("Client")

    assert found == ["acme/app src/app.js:4 start imported"]
    [use] = answer.references
    assert (use.text, use.kind) == ("return new Client().get('/')", "class")
    assert (use.definition.repository, use.definition.path) == ("acme/http", "src/client.js")
    assert [one.repository for one in answer.coverage] == ["acme/app"]


LIBRARY = {
    "python": {
        "pyproject.toml": '[project]\nname = "lib"\n',
        "lib/__init__.py": "def load(key):\n    return key\n",
    },
    "javascript": {
        "package.json": '{"name": "@acme/lib", "main": "index.js"}',
        "index.js": "export function load(key) {\n  return key\n}\n",
    },
    "go": {
        "go.mod": "module host.example/acme/lib\n",
        "load.go": "package lib\n\nfunc Load(key int) int {\n\treturn key\n}\n",
    },
}
#: Each defines the name in one file, uses that in a second one, and the library's in a third one.
BOTH = {
    "python": {
        "app/own.py": "def load(key):\n    return 1\n",
        "app/here.py": "from app.own import load\n\nload(2)\n",
        "app/there.py": "from lib import load\n\nload(3)\n",
        "app/plain.py": "import lib\n\nload(4)\n",
    },
    "javascript": {
        "package.json": '{"name": "app", "dependencies": {"@acme/lib": "1"}}',
        "src/own.js": "export function load(key) {\n  return 1\n}\n",
        "src/here.js": "import { load } from './own.js'\n\nload(2)\n",
        "src/there.js": "import { load } from '@acme/lib'\n\nload(3)\n",
        "src/plain.js": "load(4)\n",
    },
    "go": {
        "go.mod": "module host.example/acme/both\n",
        "own/own.go": "package own\n\nfunc Load(key int) int {\n\treturn 1\n}\n",
        "here/here.go": 'package here\n\nimport "host.example/acme/both/own"\n\n'
        "func Run() int { return own.Load(2) }\n",
        "there/there.go": 'package there\n\nimport "host.example/acme/lib"\n\n'
        "func Run() int { return lib.Load(3) }\n",
    },
}


@pytest.mark.parametrize("language", LIBRARY)
async def test_imports_decide_between_a_local_and_an_imported_definition_of_a_name(
    settings, language
):
    world = World(settings)
    world.index("acme/lib", LIBRARY[language])
    world.index("acme/both", BOTH[language])

    async def meant(visible):
        principal = Principal("ann", Role.READER, visible)
        name = "Load" if language == "go" else "load"
        answer = await service.references(world.dependencies, principal, ReferencesRequest(name))
        return {
            one.path.rpartition("/")[2].partition(".")[0]: one.definition.repository
            for one in answer.references
            if one.definition
        }

    expected = {"here": "acme/both", "there": "acme/lib", "plain": "acme/both"}
    everything = await meant(EVERYTHING)
    assert everything == {name: expected[name] for name in everything}
    assert {"here", "there"} <= everything.keys()
    assert "acme/lib" not in (await meant(Visibility.of(["acme/both"]))).values()


async def test_a_use_that_matches_only_by_name_is_last_and_marked(references):
    found, answer = await references("retry")

    assert found == [
        "acme/http src/client.js:5 Client.get exact",
        "acme/app src/other.js:3 again name",
    ]
    assert answer.references[1].definition is None


async def test_all_lines_of_a_renamed_import_are_uses(references):
    found, answer = await references("load")

    assert found == [
        "acme/store store.py:3 Store.get exact",
        "acme/store use.py:5 run exact",
        "acme/store use.py:6 run exact",
    ]
    assert answer.notices == ()


async def test_uses_of_a_name_that_nothing_defines_are_found_by_name(references):
    found, answer = await references("parse")

    assert found == ["acme/store store.py:7 load name"]
    assert answer.notices == ("no definition is named 'parse'",)


async def test_filters_say_where_a_name_is_used(references):
    assert (await references("retry", repositories=("acme/app",)))[0] == [
        "acme/app src/other.js:3 again name"
    ]
    assert (await references("retry", paths=("src/client.js",)))[0] == [
        "acme/http src/client.js:5 Client.get exact"
    ]
    assert (await references("retry", languages=("python",)))[0] == []
    with pytest.raises(InvalidQuery, match="kinds"):
        await references("retry", kinds=("function",))


async def test_a_qualified_name_is_not_looked_for_by_its_last_part_elsewhere(references):
    found, _ = await references("Store.get")

    assert [one for one in found if not one.startswith("acme/store")] == []


async def test_uses_and_definitions_in_hidden_repositories_stay_hidden(references):
    one = Visibility.of(["acme/app"])
    found, answer = await references("Client", visible=one)
    assert found == ["acme/app src/app.js:4 start name"]
    assert (answer.references[0].definition, answer.notices) == (
        None,
        ("no definition is named 'Client'",),
    )

    found, _ = await references("Client", visible=Visibility.of(["acme/http"]))
    assert found == []


async def test_a_notice_says_that_a_list_of_uses_was_cut(references):
    found, answer = await references("load", limit=2)

    assert len(found) == 2
    assert answer.notices == ("only the first 2 uses are shown; raise `limit`, or add filters",)


async def test_without_tables_the_answers_say_what_is_missing(world, symbols, references):
    published = world.dependencies.published
    published.backends = replace(published.backends, symbols=None, references=None)

    assert "no symbol table" in (await symbols("retry"))[1].notices[0]
    assert "no reference index" in (await references("retry"))[1].notices[0]


async def test_an_empty_name_is_refused_with_an_example(symbols, references):
    for ask in (symbols, references):
        with pytest.raises(InvalidQuery, match=r"name: is empty; give the name of a definition"):
            await ask(" ")


# Positions


@pytest.mark.parametrize(
    ("position", "expected"),
    [
        ("src/client.js:5:12", ["src/retry.js:1 retry"]),  # a use
        ("src/client.js:5:16", ["src/retry.js:1 retry"]),  # its last character
        ("./src/client.js:4:3", ["src/client.js:4 Client.get"]),  # a definition
        ("client.js:4:3", ["src/client.js:4 Client.get"]),  # the end of the path
        ("acme/http/src/client.js:4:3", ["src/client.js:4 Client.get"]),
        ("store.py:11:9", ["store.py:11 Reader.get"]),
        ("use.py:1:27", []),  # an alias, which nothing defines
    ],
)
async def test_definitions_of_the_name_at_a_position_are_listed(symbols, position, expected):
    found, answer = await symbols(position, literal=True)

    assert found == expected
    assert f"the name at {position} is " in " ".join(answer.notices)


async def test_uses_of_the_name_at_a_position_are_listed_in_all_repositories(references):
    named, _ = await references("Client.get")
    found, answer = await references("acme/http/src/client.js:4:3")

    assert found == named != []
    assert answer.notices[0] == "the name at acme/http/src/client.js:4:3 is 'Client.get'"


async def test_filters_are_about_the_uses_and_not_about_the_position(references):
    found, _ = await references("src/retry.js:1:17", repositories=("acme/app",))

    assert found == (await references("retry", repositories=("acme/app",)))[0] != []


@pytest.mark.parametrize(
    ("position", "told"),
    [
        ("Makefile:1:1", "no indexed file is 'Makefile'"),
        ("src/absent.js:1:1", "no indexed file is 'src/absent.js'"),
        ("src/client.js:5:1", "has no name at column 1 of line 5; the line has return at 5, retry"),
        ("src/client.js:5", "has no name at column 0 of line 5; the line has return at 5, retry"),
        ("src/client.js:2:1", "has no name at column 1 of line 2; the line has no names"),
        ("src/client.js:900:1", "the line has no names"),
    ],
)
async def test_the_error_for_a_position_without_a_name_says_what_is_there(
    references, symbols, position, told
):
    with pytest.raises(InvalidQuery, match=re.escape(told)):
        await references(position)
    with pytest.raises(InvalidQuery, match=re.escape(told)):
        await symbols(position, literal=True)


async def test_a_position_in_several_files_needs_the_repository_unless_the_name_is_the_same(
    world, symbols
):
    world.index("acme/fork", {**STORE, "store.py": STORE["store.py"].replace("Reader", "Writer")})

    same, _ = await symbols("store.py:6:5", literal=True)
    assert same == ["store.py:6 load", "store.py:6 load"]
    told = "means several files: acme/fork/store.py, acme/store/store.py; write the repository"
    with pytest.raises(InvalidQuery, match=re.escape(told)):
        await symbols("store.py:10:7", literal=True)
    assert (await symbols("acme/fork/store.py:10:7", literal=True))[0] == ["store.py:10 Writer"]


async def test_a_position_in_a_hidden_repository_is_reported_like_one_in_no_file(
    references, symbols
):
    for listed in (references, symbols):
        literal = {"literal": True} if listed is symbols else {}
        with pytest.raises(InvalidQuery, match=re.escape("no indexed file is 'src/retry.js'")):
            await listed("src/retry.js:1:17", visible=Visibility.of(["acme/app"]), **literal)
