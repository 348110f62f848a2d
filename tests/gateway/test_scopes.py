"""Scopes narrow a search, never widen it, and are hidden from callers who see none of them."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest
import structlog

from codelode.access import EVERYTHING, Principal, Role, Visibility
from codelode.client import AsyncClient
from codelode.errors import InvalidQuery, InvalidSettings
from codelode.scopes import parse
from codelode.settings import Settings
from gateway import service
from gateway.access import followed
from gateway.app import Gateway
from gateway.service.requests import (
    GivenFilters,
    GivenOptions,
    GrepRequest,
    ReferencesRequest,
    SearchRequest,
    SimilarRequest,
    SymbolsRequest,
)
from tests.worlds import World

FILES = {
    "src/retry.py": "def retry(call):\n    return call()\n",
    "src/use.py": "from retry import retry\n\nretry(len)\n",
    "tests/test_retry.py": "from retry import retry\n\ndef test_retry():\n    retry(len)\n",
}
SCOPES = """
scopes:
  acme: {repositories: ["acme/*"]}
  sources:
    description: No tests
    repositories: ["acme/*", lib/http]
    paths: ["src/**", "docs/**", "!**/use.py"]
  release: {repositories: ["acme/*"], refs: [v9, v1, HEAD]}
  old: {repositories: ["acme/*"], refs: [v9]}
  first: {repositories: ["acme/*"], refs: [v1]}
  not-app: {repositories: ["!acme/app", "acme/*"]}
  secret: {repositories: [secret/*], description: about the merger}
  secretly: {repositories: [acme/app, secret/*], refs: [merger, HEAD]}
  empty: {repositories: [nobody/*]}
  src: {paths: ["src/**"]}
"""
APP = ("acme/app",)
READER = Principal("r", Role.READER, Visibility.of(["acme/app", "acme/web", "lib/http"]))
ADMIN = Principal("a", Role.ADMIN, EVERYTHING)


@pytest.fixture
def world(settings):
    made = World(settings)
    for name in ("acme/web", "lib/http"):
        made.index(name, FILES)
    made.index("acme/app", FILES, ref="v1")
    made.index("secret/merger", FILES, ref="merger")
    made.dependencies = in_force(made.dependencies, SCOPES)
    return made


def in_force(dependencies, text):
    declared = parse(text, file="scopes.yaml")
    return replace(dependencies, scopes=lambda: declared)


async def found(world, query="retry", principal=READER, **filters):
    request = SearchRequest(query, GivenFilters(**filters), top_k=50)
    answer = await service.search(world.dependencies, principal, request)
    copies = {(copy.repository, copy.path) for hit in answer.hits for copy in hit.copies}
    return copies | {(hit.repository, hit.path) for hit in answer.hits}


def files(*names, of=tuple(FILES)):
    return {(name, path) for name in names for path in of}


async def test_a_search_in_a_scope_has_what_its_globs_match(world):
    assert await found(world, scope="acme") == files("acme/app", "acme/web")
    assert await found(world, scope="not-app") == files("acme/web")
    assert await found(world, scope="sources") == files(
        *("acme/app", "acme/web", "lib/http"), of=["src/retry.py"]
    )
    assert await found(world, scope="src") == files(
        *("acme/app", "acme/web", "lib/http"), of=["src/retry.py", "src/use.py"]
    )


async def test_a_scope_can_be_part_of_the_query(world):
    for query in ("retry scope:sources", "scope:sources retry", 'retry scope:"sources"'):
        assert await found(world, query) == await found(world, scope="sources")
    assert await found(world, "retry scope:sources", scope="sources")
    with pytest.raises(InvalidQuery, match="'scope:acme' at character 7 is a second scope"):
        await found(world, "retry scope:acme", scope="sources")
    with pytest.raises(InvalidQuery, match="a second scope; a search has one"):
        await found(world, "retry (scope:acme or scope:sources)")
    with pytest.raises(InvalidQuery, match="excludes what cannot be excluded"):
        await found(world, "retry -scope:acme")


async def test_a_scope_and_other_filters_admit_what_both_do(world):
    of = ["src/use.py"]
    assert await found(world, scope="acme", paths=("**/use.py",)) == files(
        *("acme/app", "acme/web"), of=of
    )
    assert await found(world, scope="sources", paths=("**/use.py", "tests/**")) == set()
    assert await found(world, "retry file:*.py scope:src -file:use.py") == await found(
        world, scope="sources"
    )
    assert await found(world, scope="acme", repositories=("acme/app", "lib/http")) == files(
        "acme/app"
    )
    assert await found(world, scope="acme", not_repositories=("acme/app",)) == files("acme/web")
    assert await found(world, "retry repo:*/*p* scope:acme") == files("acme/app")
    assert await found(world, "retry repo:acme/web repo:lib/http scope:acme") == files("acme/web")
    assert await found(world, "retry repo:*/* scope:acme", repositories=("acme/web",)) == files(
        "acme/web"
    )
    assert await found(world, scope="sources", not_paths=("src/**",)) == set()


async def test_a_filter_outside_of_the_scope_is_an_error(world):
    with pytest.raises(InvalidQuery, match="names no repository of the scope 'acme'"):
        await found(world, scope="acme", repositories=("lib/http",))
    with pytest.raises(InvalidQuery, match="'repo:lib/http' at character 7 is outside of"):
        await found(world, "retry repo:lib/http scope:acme")
    with pytest.raises(InvalidQuery, match="'repo:lib/\\*' at character 7 matches no repo"):
        await found(world, "retry repo:lib/* scope:acme")
    with pytest.raises(InvalidQuery, match="there is no repository 'acme/ap'"):
        await found(world, scope="acme", repositories=("acme/ap",))


async def test_the_first_indexed_ref_of_a_scope_is_searched_unless_another_is_asked_for(world):
    assert await found(world, scope="release") == files("acme/app")  # alone has v1
    assert await found(world, scope="release", ref="HEAD") == files("acme/app", "acme/web")
    assert await found(world, "retry scope:release ref:HEAD") == files("acme/app", "acme/web")
    assert await found(world, scope="acme", ref="main") == files("acme/web")
    with pytest.raises(InvalidQuery, match="'main' is not a ref of the scope 'release'; there"):
        await found(world, scope="release", ref="main")
    told = "'ref:main' at character 7 is not a filter: 'main' is not a ref of the scope 'release'"
    with pytest.raises(InvalidQuery, match=told):
        await found(world, "retry ref:main scope:release")
    with pytest.raises(InvalidQuery, match="no ref of the scope 'old' is indexed"):
        await found(world, scope="old")
    blind = replace(READER, visible=Visibility.of(["acme/app", "lib/http"]))
    with pytest.raises(
        InvalidQuery, match="'main' is not a ref of the scope 'acme'; there are: HEAD"
    ):
        await found(world, principal=blind, scope="acme", ref="main")


async def test_a_scope_does_not_show_refs_that_only_hidden_repositories_have(world):
    world.index("lib/http", FILES, ref="merger")
    told = "'merger' is not a ref of the scope 'secretly'; there are: HEAD"
    with pytest.raises(InvalidQuery, match=told):
        await found(world, scope="secretly", ref="merger")


async def test_a_scope_uses_a_ref_that_a_repository_within_the_other_filters_has(world):
    web = files("acme/web")
    assert await found(world, scope="release", not_repositories=("acme/app",)) == web
    assert await found(world, scope="release", repositories=("acme/web",)) == web
    assert await found(world, "retry scope:release -repo:acme/a*") == web
    told = "the ref 'v1' of the scope 'release' is not indexed in the 1 of its 2 repositories that"
    with pytest.raises(InvalidQuery, match=told):
        await found(world, scope="release", ref="v1", not_repositories=APP)
    told = "no ref of the scope 'first' is indexed in the 1 of its 2 repositories that the other"
    for query, out in (("retry scope:first -repo:acme/a*", ()), ("retry scope:first", APP)):
        with pytest.raises(InvalidQuery, match=told):
            await found(world, query, not_repositories=out)
    told = "in the 0 of its 2 repositories that the other filters leave; index one there, or leave"
    with pytest.raises(InvalidQuery, match=told):
        await found(world, scope="first", not_repositories=("acme/app", "acme/web"))


async def test_repositories_without_the_ref_of_the_scope_are_counted_in_a_notice(world):
    given, asked = world.dependencies, GivenFilters(scope="release")
    told = (
        "the scope 'release' was searched at its ref 'v1', which is not indexed in 1 of 2 "
        "repositories; give another ref for these"
    )
    search = SearchRequest("retry", asked)
    grep = [part async for part in service.grep(given, READER, GrepRequest("call", asked))]
    similar = SimilarRequest("def retry(call): return call()", filters=asked)
    for answer in (
        await service.search(given, READER, search),
        await service.search(given, READER, search),  # from the cache
        (await service.context(given, READER, search)).search,
        await service.similar(given, READER, similar),
        await service.symbols(given, READER, SymbolsRequest("retry", asked)),
        await service.references(given, READER, ReferencesRequest("retry", asked)),
        grep[-1].summary,
    ):
        assert answer.notices.count(told) == 1
    for none in ({"ref": "HEAD"}, {"ref": "v1"}, {"repositories": APP}):
        alone = replace(search, filters=replace(asked, **none))
        assert not (await service.search(given, READER, alone)).notices


async def test_every_function_with_filters_accepts_a_scope(world):
    given, asked = world.dependencies, GivenFilters(scope="sources")

    def places(answer):
        return {(one.repository, one.path) for one in answer}

    expected = files("acme/app", "acme/web", "lib/http", of=["src/retry.py"])
    context = await service.context(given, READER, SearchRequest("retry", asked))
    copies = [copy for hit in context.search.hits for copy in hit.copies]
    assert places((*context.search.hits, *copies)) == expected
    similar = await service.similar(
        given, READER, SimilarRequest("", "acme/web", "tests/test_retry.py", 3, filters=asked)
    )
    copies = [copy for hit in similar.hits for copy in hit.copies]
    assert places((*similar.hits, *copies)) == expected
    parts = [part async for part in service.grep(given, READER, GrepRequest("call", asked))]
    assert places(file for part in parts for file in part.files) == expected
    parts = [one async for one in service.grep(given, READER, GrepRequest("scope:sources call"))]
    assert places(file for part in parts for file in part.files) == expected
    defined = await service.symbols(given, READER, SymbolsRequest("*retry*", asked))
    assert places(defined.symbols) == expected
    src = GivenFilters(scope="src")
    used = await service.references(given, READER, ReferencesRequest("retry", src))
    assert {one.path for one in used.references} == {"src/use.py"}
    acme = GivenFilters(scope="not-app")
    used = await service.references(given, READER, ReferencesRequest("retry", acme))
    assert {one.repository for one in used.references} == {"acme/web"}
    assert {one.repository for one in used.coverage} == {"acme/web"}


async def test_related_files_are_inside_the_scope(world):
    world.dependencies = in_force(
        world.dependencies, 'scopes: {a: {paths: ["src/retry.py", "t*/**"]}}'
    )

    async def related(**filters):
        options = GivenOptions(values={"expand.related": 10})
        request = SearchRequest("retry", GivenFilters(**filters), options=options)
        return {
            one.path
            for one in (await service.context(world.dependencies, READER, request)).search.related
        }

    assert await related(repositories=("acme/web",), paths=("src/retry.py",)) == set(FILES) - {
        "src/retry.py"
    }
    assert await related(repositories=("acme/web",), paths=("src/retry.py",), scope="a") == {
        "tests/test_retry.py"
    }


async def test_a_misspelt_scope_is_an_error_with_similar_visible_names(world):
    async def told(name, principal=READER):
        with pytest.raises(InvalidQuery) as error:
            await found(world, principal=principal, scope=name)
        return error.value.message

    assert await told("sorces") == (
        "there is no scope 'sorces'; did you mean 'sources' or 'src'? (`codelode scopes` lists all)"
    )
    assert await told("scret") == "there is no scope 'scret'; did you mean 'secretly'? " + (
        "(`codelode scopes` lists all)"
    )
    assert "'secret'" in await told("scret", ADMIN)
    nobody = replace(READER, visible=Visibility.of([]))
    assert await told("acme", nobody) == (
        "there is no scope 'acme', nor any other with a repository that you see"
    )
    with pytest.raises(InvalidQuery, match="'scope:x' at character 7 is not a filter: there is no"):
        await found(world, "retry scope:x")
    with pytest.raises(InvalidQuery, match="in quotes it is searched as text"):
        await found(world, "retry scope:x")


async def test_an_unknown_scope_in_a_message_is_text(world):
    request = SearchRequest("token lacks the oauth scope:repo")
    answer = await service.search(world.dependencies, READER, request)

    assert any("'scope:repo' was searched as text" in notice for notice in answer.notices)


async def test_a_hidden_scope_is_reported_like_an_absent_one(world):
    async def told(name, query="retry"):
        with pytest.raises(InvalidQuery) as error:
            await found(world, query, **({"scope": name} if name else {}))
        return str(error.value)

    for hidden, absent in (("secret", "secrez"), ("empty", "emptz")):
        assert (await told(hidden)) == (await told(absent)).replace(absent, hidden)
        written = await told("", f"retry scope:{absent}")
        assert await told("", f"retry scope:{hidden}") == written.replace(absent, hidden)
    assert await found(world, scope="secretly") == files("acme/app")
    assert await found(world, principal=ADMIN, scope="secret") == files("secret/merger")


async def test_the_list_has_what_the_caller_sees(world):
    listed = {one.name: one for one in await service.scopes(world.dependencies, READER)}
    whole = {one.name: one for one in await service.scopes(world.dependencies, ADMIN)}

    assert list(listed) == [
        *("acme", "first", "not-app", "old", "release", "secretly", "sources", "src")
    ]
    assert list(whole) == sorted([*listed, "secret"])
    assert listed["secretly"].repositories == ("acme/app",)
    assert listed["secretly"].repository_count == 1
    assert listed["secretly"].refs == ("HEAD",)
    assert whole["secretly"].refs == ("merger", "HEAD")
    assert whole["secretly"].repositories == ("acme/app", "secret/merger")
    assert listed["sources"].description == "No tests"
    assert listed["sources"].paths == ("src/**", "docs/**", "!**/use.py")
    nobody = replace(READER, visible=Visibility.of([]))
    assert await service.scopes(world.dependencies, nobody) == ()


async def test_a_changed_scope_misses_the_cache_and_ends_its_pages(world):
    async def ask(page=""):
        request = SearchRequest("retry", GivenFilters(scope="acme"), top_k=1, page_token=page)
        return await service.search(world.dependencies, READER, request)

    first = await ask()
    assert (await ask()).cached
    assert (await ask(first.next_page_token)).hits
    described = SCOPES.replace("acme: {repo", "acme: {description: ours, repo")
    world.dependencies = in_force(world.dependencies, described)
    assert (await ask()).cached
    for changed in ('["acme/*", "!acme/app"]', '["acme/*"], paths: ["src/**"]', '["acme/w*"]'):
        text = SCOPES.replace('acme: {repositories: ["acme/*"]', f"acme: {{repositories: {changed}")
        world.dependencies = in_force(world.dependencies, text)
        assert not (await ask()).cached, changed
        with pytest.raises(InvalidQuery, match="belongs to another search"):
            await ask(first.next_page_token)


async def test_a_new_repository_in_a_scope_does_not_invalidate_its_page_tokens(world):
    request = SearchRequest("retry", GivenFilters(scope="acme"), top_k=1)
    first = await service.search(world.dependencies, ADMIN, request)
    world.index("acme/new", FILES)

    later = replace(request, page_token=first.next_page_token)
    assert (await service.search(world.dependencies, ADMIN, later)).hits


async def test_an_exclusion_of_a_scope_that_excludes_nothing_causes_no_notice(world):
    scope = 'scopes:\n  a: {paths: ["!gone/**", "**"]}'
    world.dependencies = in_force(world.dependencies, scope)
    request = SearchRequest("retry", GivenFilters(scope="a", not_paths=("away/**",)))
    answer = await service.search(world.dependencies, READER, request)

    told = [one for one in answer.notices if "leaves nothing out" in one]
    assert len(told) == 1
    assert "away/**" in told[0]


async def test_a_scope_without_code_is_reported(world):
    world.dependencies = in_force(world.dependencies, 'scopes:\n  a: {paths: ["gone/**"]}')
    request = SearchRequest("retry", GivenFilters(scope="a"))
    answer = await service.search(world.dependencies, READER, request)

    assert answer.notices == ("no code is indexed in the searched scope at this ref",)


async def test_a_gateway_follows_the_file_and_keeps_the_last_good_version(
    world, tmp_path, monkeypatch
):
    monkeypatch.setattr(followed, "FOLLOW_INTERVAL_S", 0.01)
    path = tmp_path / "scopes.yaml"
    path.write_text("scopes:\n  acme: {repositories: [acme/*]}\n")
    configured = Settings(listen="127.0.0.1:0", data=tmp_path, scopes=str(path))
    gateway = Gateway(replace(world.dependencies, settings=configured))
    await gateway.start()
    async with AsyncClient(f"127.0.0.1:{gateway.port}") as client:
        assert [one.name for one in await client.scopes()] == ["acme"]
        path.write_text("scopes:\n  web: {repositories: [acme/web]}\n")
        assert [one.name for one in await client.scopes()] == ["web"]
        with structlog.testing.capture_logs() as lines:
            path.write_text("scopes:\n  app: {repository: acme/app}\n")
            while not any(line["event"] == "scopes_file_rejected" for line in lines):
                await asyncio.sleep(0.01)
        assert [one.name for one in await client.scopes()] == ["web"]
        (told,) = (await client.status()).problems
    await gateway.stop(grace_s=0)

    assert told.startswith(f"{path}:2: 'app' has no field 'repository'; it may have: description")
    assert told.endswith("its last good version stays in force")
    with pytest.raises(InvalidSettings, match="it may have: description"):
        Gateway(replace(world.dependencies, settings=configured))
