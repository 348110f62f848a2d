"""Filters among the words of a query narrow it; whatever else has a colon is searched as text."""

from __future__ import annotations

import re

import pytest

from codelode.access import EVERYTHING, Principal, Role, Visibility
from codelode.errors import InvalidQuery
from codelode.query_language import leading_filters, words_of, written_filters
from gateway import service
from gateway.service.requests import GivenFilters, GrepRequest, SearchRequest
from tests.worlds import World

FILES = {
    "src/retry.py": "def retry(call):\n    # calls until it works\n    return call()\n",
    "src/api/retry.go": "package api\n\nfunc Retry(call func()) {\n\tcall()\n}\n",
    "tests/test_retry.py": "def test_retry():\n    assert retry(len)\n",
    "docs/retry.md": "# Retry\n\nlang:go is how a label is written.\n",
}

#: What an error suggests, which depends on how a name is spelt.
SUGGESTED = re.compile(r"; (?:did you mean|there are).*")

TEXTS = (
    *("std::vector<int> of retry", "http://host/a retry", "file:///etc/passwd", "path: src/a"),
    *("lang :go", "a repo:", "key:value retry", "xrepo:acme/a retry", "{path:'x'} retry"),
    *('"repo:acme/app lang:go"', "def f():\n    lang:go", "repo::of", "path:\tx", "ref:// x"),
    *("retry --lang", "-x retry", "kind", "who calls a::b", "c:\\path\\file"),
)


@pytest.mark.parametrize("text", TEXTS)
def test_text_stays_text(text):
    assert written_filters(text) == ()


@pytest.mark.parametrize(
    ("text", "words", "filters"),
    [
        ("repo:acme/app retry", "retry", [("repositories", "acme/app")]),
        ("retry lang:go a call", "retry a call", [("languages", "go")]),
        ("retry file:a.py branch:main", "retry", [("paths", "a.py"), ("ref", "main")]),
        ('path:"my docs/**" sym:User* x', "x", [("paths", "my docs/**"), ("symbols", "User*")]),
        ("std::sort kind:method", "std::sort", [("kinds", "method")]),
        ('"lang:go" -lang:go x', '"lang:go" x', [("languages", "go")]),
    ],
)
def test_a_word_with_a_known_prefix_and_a_value_is_a_filter(text, words, filters):
    written = written_filters(text)

    assert [(one.field, one.value) for one in written] == filters
    assert words_of(text) == words


def test_a_pattern_has_filters_only_at_its_beginning():
    assert leading_filters("lang:go  func \\w+ lang:c ")[1] == "func \\w+ lang:c "
    assert leading_filters("func lang:go") == ((), "func lang:go")


@pytest.fixture
def world(settings):
    made = World(settings)
    made.index("acme/app", FILES)
    made.index("acme/web", {"src/retry.py": FILES["src/retry.py"].replace("works", "holds")})
    made.index("secret/app", {"src/hidden.py": FILES["src/retry.py"].replace("call", "hide")})
    return made


@pytest.fixture
def search(world):
    async def paths(query, *, visible=EVERYTHING, **filters):
        request = SearchRequest(query, GivenFilters(**filters), top_k=20)
        principal = Principal("ann", Role.READER, visible)
        answer = await service.search(world.dependencies, principal, request)
        return sorted({f"{hit.repository} {hit.path}" for hit in answer.hits})

    return paths


@pytest.mark.parametrize(
    ("query", "filters"),
    [
        ("retry repo:acme/web", {"repositories": ("acme/web",)}),
        ("retry repo:acme/*", {"repositories": ("acme/app", "acme/web")}),
        ("retry -repo:acme/*", {"not_repositories": ("acme/app", "acme/web")}),
        ("repo:acme/web repo:secret/app retry", {"repositories": ("acme/web", "secret/app")}),
        ("lang:golang retry", {"languages": ("go",)}),
        ("retry -lang:python", {"not_languages": ("python",)}),
        ("retry path:src/*.py", {"paths": ("src/*.py",)}),
        ("retry file:retry.go", {"paths": ("**/retry.go",)}),
        ("retry -file:test_*", {"not_paths": ("**/test_*",)}),
        ("retry ref:main", {"ref": "main"}),
        ("retry sym:test_*", {"symbols": ("test_*",)}),
        ("retry kind:function", {"kinds": ("function",)}),
    ],
)
async def test_a_written_filter_is_the_filter_of_a_request(search, query, filters):
    assert await search(query) == await search("retry", **filters) != []


async def test_exclusions_add_up_and_other_filters_meet(search):
    found = await search("retry -path:docs/** lang:python", not_paths=("tests/**",))

    assert found == ["acme/app src/retry.py", "acme/web src/retry.py", "secret/app src/hidden.py"]


@pytest.mark.parametrize(
    ("query", "told"),
    [
        ("retry lang:pythn", "'lang:pythn' at character 7 is not a filter: there is no language"),
        ("repo:acme/ap x", "'repo:acme/ap' at character 1 .*did you mean 'acme/app'"),
        ("x repo:nobody/*", "'repo:nobody/\\*' at character 3 matches no repository"),
        ("x -kind:method", "'-kind:method' at character 3 excludes what cannot be excluded"),
        ("x path:/src", "'path:/src' at character 3 is not a filter: '/src' starts with '/'"),
        ("x path:!src", "'path:!src' at character 3 .* write `-` before the word"),
        ("ref:main ref:dev x", "'ref:dev' at character 10 is not a filter: there is no ref"),
        ("lang:go", "has only filters; say in words"),
        ("x lang:pythn", "in quotes it is searched as text"),
    ],
)
async def test_an_error_says_where_and_what_to_do(search, query, told):
    with pytest.raises(InvalidQuery, match=told) as error:
        await search(query)
    assert error.value.field == "query"


async def test_a_field_that_the_request_has_too_is_narrowed_if_it_can_be(search):
    both = await search("retry repo:acme/* lang:go", repositories=("acme/app", "secret/app"))

    assert both == ["acme/app src/api/retry.go"]
    with pytest.raises(InvalidQuery, match="is outside of the filter languages of the request"):
        await search("retry lang:go", languages=("python",))
    with pytest.raises(InvalidQuery, match="is given as a filter of the request as well"):
        await search("retry path:src/**", paths=("*.py",))


async def test_globs_mean_visible_repositories_alone(search):
    one = Visibility.of(["acme/app", "acme/web"])

    assert await search("retry repo:**", visible=one) == await search("retry", visible=one)
    for hidden in ("secret/app", "secret/*"):
        with pytest.raises(InvalidQuery) as error:
            await search(f"retry repo:{hidden}", visible=one)
        with pytest.raises(InvalidQuery) as absent:
            await search(f"retry repo:{hidden.replace('secret', 'nobody')}", visible=one)
        told = str(absent.value).replace("nobody", "secret")
        assert SUGGESTED.sub("", told) == SUGGESTED.sub("", str(error.value))
        assert "secret/app" not in SUGGESTED.findall(str(error.value))


@pytest.fixture
def grep(world):
    async def found(pattern, **given):
        principal = Principal("ann", Role.READER, EVERYTHING)
        request = GrepRequest(pattern, **given)
        parts = [one async for one in service.grep(world.dependencies, principal, request)]
        files = [f"{one.file.repository} {one.file.path}" for one in parts[:-1]]
        return files, parts[-1].summary

    return found


async def test_a_pattern_may_begin_with_filters_and_the_summary_says_so(grep):
    found, summary = await grep("lang:go repo:acme/* func [A-Z]")

    assert found == ["acme/app src/api/retry.go"]
    assert summary.notices == (
        "'lang:go repo:acme/*' was read as filters; ask for a literal to find it as text",
    )


async def test_a_literal_has_no_filters(grep):
    found, summary = await grep("lang:go is", literal=True)

    assert (found, summary.notices) == (["acme/app docs/retry.md"], ())
