"""Filters in a query narrow the search; other words with a colon are searched as text."""

from __future__ import annotations

import re
import sys
from dataclasses import replace

import pytest

from codelode import deadline
from codelode.access import EVERYTHING, Principal, Role, Visibility
from codelode.errors import InvalidQuery, TimedOut
from codelode.model import Repository, RepositoryName
from codelode.query_language import (
    WrittenGroup,
    leading_filters,
    parts_of,
    whole_text,
    words_of,
    written_filters,
    written_texts,
)
from gateway import pipeline, service
from gateway.service import catalog, query_filters
from gateway.service.requests import GivenFilters, GivenOptions, GrepRequest, SearchRequest
from gateway.service.scopes import VisibleScopes
from gateway.state import Narrowing, SearchQuery
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
    *("file:/opt/app/conf.yml (No such file)", "x path:/src", "file:src/a.py:42", "path:'a' x"),
    *("function load(name:string, path:string, kind:Kind)", "{ path:foo }", "f(path:foo);"),
    *("return [ kind:foo ]", "def f(a, path:str = 1)", "see repo:latest; x", 'lang:"go"x'),
    *('"a path:b" c', '-"a path:b"', '"" "path:a "', "ref:main: not found", "file:C:/a.py"),
)


@pytest.mark.parametrize("text", TEXTS)
def test_text_that_is_no_filter_stays_text(text):
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
        ('path:"/a:1 {b}," x', "x", [("paths", "/a:1 {b},")]),
        ("path:a/[b].ts sym:a::b* x", "x", [("paths", "a/[b].ts"), ("symbols", "a::b*")]),
        ('say "hi  lang:c" lang:go  "a  b"', 'say "hi  lang:c" "a  b"', [("languages", "go")]),
    ],
)
def test_a_word_with_a_known_prefix_and_a_value_is_a_filter(text, words, filters):
    written = written_filters(text)

    assert [(one.field, one.value) for one in written] == filters
    assert words_of(text) == words


def test_a_pattern_has_filters_only_at_its_beginning():
    assert leading_filters("lang:go  func \\w+ lang:c ")[1] == "func \\w+ lang:c "
    assert leading_filters("func lang:go") == ((), "func lang:go")
    filters, pattern = leading_filters("lang:c (lang:go or path:a$) x")
    assert ([one.value for one in filters], pattern) == (["c"], "(lang:go or path:a$) x")


@pytest.mark.parametrize(
    "pattern",
    [
        *(r"path:\s*(\w+)", r"kind:\s+Deployment", "ref:.*main", "file:[^ ]+ foo", "lang:go"),
        *("kind:(Pod|Job) a", "path:a$ b", "ref:^v1 b", "lang:c++ x", "repo:a{2} b", "ref:.* b"),
        *('path:"[a-z]+" x', "lang:go kind:Pod "),
        *("(lang:go or path:{src,lib}/**) needle", "-(path:a or lang:go or path:.*b) x"),
    ],
)
def test_a_regular_expression_that_begins_with_a_prefix_stays_whole(pattern):
    assert leading_filters(pattern) == ((), pattern)


@pytest.mark.parametrize(
    "words",
    [
        *('"" lang:go ', "lang:go ", 'path:"a b" ', 'path:" ', '" ', "{ lang:go ", "lang:go /a+/ "),
        *("(lang:go or ", "(lang:go or path:a) ", '(path:"', '-("a" or ', '("a" ', '("a" or "b") '),
        *("(", ") ", "-(/a+/ ", '"a" (', "(lang:go or lang:go ", '(/a+/ or ("b" or ', "/\\/ ( "),
    ],
)
def test_a_query_is_read_in_linear_time(words):
    def steps(count):
        seen = 0

        def counted(*_):
            nonlocal seen
            seen += 1

        text = words * count
        sys.setprofile(counted)
        try:
            words_of(text)
        finally:
            sys.setprofile(None)
        return seen

    assert steps(800) < 12 * steps(100)


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
        ("x repo:*", "'repo:\\*' .* because '\\*' stops at '/'; '\\*\\*' matches some"),
        ("x -kind:method", "'-kind:method' at character 3 excludes what cannot be excluded"),
        ('x path:"/src"', "'path:\"/src\"' at character 3 is not a filter: '/src' starts with '/'"),
        ("x path:!src", "'path:!src' at character 3 .* write `-` before the word"),
        ("ref:main ref:dev x", "'ref:dev' at character 10 is not a filter: there is no ref"),
        ("lang:go", "has only filters and exclusions; say in words"),
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
    for hidden in ("secret/app", "secret/*", "secret*"):
        with pytest.raises(InvalidQuery) as error:
            await search(f"retry repo:{hidden}", visible=one)
        with pytest.raises(InvalidQuery) as absent:
            await search(f"retry repo:{hidden.replace('secret', 'nobody')}", visible=one)
        told = str(absent.value).replace("nobody", "secret")
        assert SUGGESTED.sub("", told) == SUGGESTED.sub("", str(error.value))
        assert "secret/app" not in SUGGESTED.findall(str(error.value))


# Texts and expressions


@pytest.mark.parametrize(
    "text",
    [
        *('cannot find module "foo" in path', 'x = "a b"', 'say "hi" or leave', "this or that"),
        *("/usr/bin/", "/api/v1/users/", "/* a comment */", "a / (b + c) / d", "// a+ /", "ls -la"),
        *("/^timeout$/ or retry", "retry or /^timeout$/", "/a+/ foo or /b+/"),
        *("--gather-outputs", "-x", 'printf("hello")', '"a"\n"b"', f'"{"x" * 1_001}"', '""', '"'),
    ],
)
def test_quotes_and_slashes_of_words_are_words(text):
    assert written_texts(text) == ()
    assert words_of(text) == text.strip()


@pytest.mark.parametrize(
    ("text", "words", "found"),
    [
        ('"no route"', "no route", ["no route"]),
        ('lang:go "a b" "c"', "a b c", ["a b", "c"]),
        ('"a" or /b+c/', "a b c", ["a", "or /b+c/"]),
        (r"context /func \w+\//", "context", [r"/func \w+//"]),
        ('retry -"test" -/t+/', "retry", ["-test", "-/t+/"]),
        (r"/\d+/", r"\d+", [r"/\d+/"]),
        ("/a+/ or /b+/ this or that", "or this or that", ["/a+/", "or /b+/"]),
    ],
)
def test_a_query_is_split_into_texts_expressions_and_words_to_rank_by(text, words, found):
    parts = parts_of(text)
    read = [
        "or " * one.is_alternative
        + "-" * one.is_exclusion
        + (f"/{one.value}/" if one.is_expression else one.value)
        for one in parts.texts
    ]

    assert (read, parts.words) == (found, words)


CODE = (
    *('printf ("%d" "%s");', 'print ("a")', 'raise Error ("a" or "b")', 'if (a) { s = ("b" "c") }'),
    *('(defun f () "text" (g "a" or "b"))', '\'("a" "b")', '("a", "b")', 'f(("a" or "b"))'),
    *('$x = ("a" or "b");', 'x = y in ("a" or "b")', 'const s = ("a" || "b")', 'f ("a") or die'),
    *(
        'open(F, "a") or die("b")',
        'say ("a") if (/b+/ or /c+/);',
        "s.match (/^a+$/)",
        "a -(b or c)",
    ),
    *('SELECT a FROM b WHERE (c = "d" or e = "f")', 'where (a in ("b") or "c")', "(foo or bar)"),
    *('case ("a" | "b") => x', 'assert ("a" or "b") in x()', 'f( ("a" or "b") )', '("a" or "b") ('),
    *(
        'match x { ("a") | ("b") => 1 }',
        'x -("a")',
        'echo ("a" . "b")',
        '(("a" or "b"))',
        '("a" or)',
    ),
    *('(or "a" "b")', '("a" or or "b")', '("a" or "b"', '"a" or "b")', '("a"or "b")', '-() "a"'),
    *("function (path:a or b)", "f (lang:go)", "(kind:Kind or null)", "(path:a or file:/b)", "()"),
    *("error (missing key or value)", 'cannot find ("a" or "b") in path', "(re: lang:go) or (x)"),
    *("x(lang:go or lang:c)", "(lang:go or lang:c);", "(lang:go or lang:c)) y", "(lang:go)"),
    *("( (lang:go or lang:c) )", 'puts ("a" "b") unless (c or d)', 'when ("a" or "b") ->'),
    *(
        '(if (x) "a" or "b")',
        'local t = f ("a") or ("b")',
        '#define S ("a" "b")',
        'x := ("a" + "b")',
    ),
)


@pytest.mark.parametrize("code", CODE)
def test_parentheses_in_code_and_messages_are_not_groups(code):
    parts = parts_of(code)

    assert not any(isinstance(one, WrittenGroup) for one in parts.texts)
    assert parts.filters == ()


def tree(parts):
    """Return the parts as lists, with `or` and `-` where they are."""
    shown = []
    for one in parts:
        found = tree(one.parts) if isinstance(one, WrittenGroup) else one.value
        shown += ["or"] * one.is_alternative + ["-"] * one.is_exclusion + [found]
    return shown


@pytest.mark.parametrize(
    ("text", "words", "found"),
    [
        ('("a" or "b") "c"', "a b c", [["a", "or", "b"], "c"]),
        ('("a" "b") or "c"', "a b c", [["a", "b"], "or", "c"]),
        ('"c" or ("a" "b")', "c a b", ["c", "or", ["a", "b"]]),
        ('-("a" or /b+/) retry', "retry", ["-", ["a", "or", "b+"]]),
        (r"retry (/a+/ or /\(b/)", "retry", [["a+", "or", r"\(b"]]),
        ('("a" ("b" or -"c")) or -"d"', "a b", [["a", ["b", "or", "-", "c"]], "-", "d"]),
        ('lang:go ("a (b)" or "c) d")', "a (b) c) d", [["a (b)", "or", "c) d"]]),
        ('path:src/(app)/** ( "a" or "b" )', "a b", [["a", "or", "b"]]),
    ],
)
def test_groups_join_texts_and_expressions(text, words, found):
    parts = parts_of(text)

    assert (tree(parts.texts), parts.words) == (found, words)


@pytest.mark.parametrize(
    ("text", "words", "found"),
    [
        ("(lang:go or lang:c) retry", "retry", ["lang:go", "lang:c"]),
        ("retry -(lang:go or path:a/**) x", "retry x", ["-lang:go", "-path:a/**"]),
        ('"a" (path:"b c" or file:d)', "a", ["path:b c", "path:d"]),
    ],
)
def test_groups_of_filters_are_filters(text, words, found):
    parts = parts_of(text)
    read = [
        "-" * one.is_exclusion + f"{one.field.rstrip('s').removesuffix('uage')}:{one.value}"
        for one in parts.filters
    ]

    assert (parts.words, read) == (words, found)


def test_parentheses_nested_too_deeply_are_read_as_words():
    deep = '("a" ' * 4_000 + '"b"' + ")" * 4_000

    assert parts_of(deep).texts == ()
    assert len(parts_of('("a" ' * 10 + '"b"' + ")" * 10).texts) == 1


def test_a_whole_query_is_a_text_or_an_expression():
    assert [whole_text(one) is not None for one in ('"a b"', "/a+/", '"a" "b"', '-"a"', "a")] == [
        *(True, True, False, False, False)
    ]


@pytest.fixture
def hits(world):
    async def found(query, *, window=50, visible=EVERYTHING):
        options = GivenOptions("", {"retrieve.window": window})
        request = SearchRequest(query, top_k=50, options=options)
        principal = Principal("ann", Role.READER, visible)
        return await service.search(world.dependencies, principal, request)

    return found


async def test_hits_have_the_text_or_match_the_expression(hits):
    works, either, expression = [
        sorted(f"{one.repository} {one.path}" for one in (await hits(query)).hits)
        for query in (
            '"calls until it works"',
            '"calls until it works" or "it holds"',
            r"retry /^func Re\w+\(/",
        )
    ]

    assert works == ["acme/app src/retry.py"]
    assert either == ["acme/app src/retry.py", "acme/web src/retry.py"]
    assert expression == ["acme/app src/api/retry.go"]


@pytest.mark.parametrize(
    ("query", "paths"),
    [
        ('("until it" "works") or "it holds"', {"acme/app src/retry.py", "acme/web src/retry.py"}),
        ('"until it" -("works" or "nowhere")', {"acme/web src/retry.py"}),
        ('"until it" -("works" "nowhere")', {"acme/app src/retry.py", "acme/web src/retry.py"}),
        (
            'retry (/^func/ or (/until\\s/ -"holds"))',
            {"acme/app src/api/retry.go", "acme/app src/retry.py"},
        ),
        (
            "retry (lang:go or lang:markdown)",
            {"acme/app src/api/retry.go", "acme/app docs/retry.md"},
        ),
        ("retry -(lang:python or path:docs/**)", {"acme/app src/api/retry.go"}),
        (
            "retry (repo:acme/web or repo:secret/*) -(lang:go or repo:secret/app)",
            {"acme/web src/retry.py"},
        ),
    ],
)
async def test_a_group_in_a_query_keeps_the_hits_that_match_its_parts(hits, query, paths):
    seen = Visibility.of(["acme/app", "acme/web", "secret/app"])
    if "repo:" not in query:
        seen = Visibility.of(["acme/app", "acme/web"])

    answer = await hits(query, visible=seen)

    assert {f"{one.repository} {one.path}" for one in answer.hits} == paths
    assert not answer.unmatched


async def test_a_notice_shows_filters_of_a_group_with_their_signs(hits):
    (told,) = (await hits("retry -(lang:python or path:docs/**)")).notices

    assert told.startswith("'-lang:python -path:docs/**' was read as filters")


@pytest.mark.parametrize(
    ("query", "at"),
    [
        ("x (lang:go or path:src/**)", 4),
        ("x (lang:go or -lang:c)", 4),
        ('("a" lang:go or "b")', 6),
        ("(repo:acme/app or ref:main) x", 2),
    ],
)
async def test_a_group_of_filters_that_cannot_be_searched_at_once_is_refused(search, query, at):
    with pytest.raises(InvalidQuery, match=rf"at character {at} is in a group with something else"):
        await search(query)


async def test_case_matters_if_there_is_a_capital(hits):
    assert len((await hits('"UNTIL it works"')).hits) != 1
    assert (await hits('"UNTIL it works"')).unmatched
    assert not (await hits('"until IT works"'.lower())).unmatched


async def test_hits_that_match_an_excluded_text_or_expression_are_left_out(hits):
    paths = {one.path for one in (await hits('retry -"until it" -/^func/')).hits}

    assert paths == {"tests/test_retry.py", "docs/retry.md"}


async def test_a_text_that_occurs_nowhere_leaves_only_similar_hits(hits):
    answer = await hits('"retry until it never works"')

    assert answer.hits
    assert answer.unmatched
    assert any("no searched code has the texts" in one for one in answer.notices)


async def test_excluded_texts_also_exclude_hits_that_are_only_similar(hits):
    answer = await hits(r'retry /never\d works/ -"until it"')

    assert answer.unmatched
    assert answer.hits
    assert "src/retry.py" not in {one.path for one in answer.hits}


async def test_alternate_queries_have_no_hits_without_the_texts(world, model):
    model.answers = ["calls until it works"]
    dependencies = world.dependencies
    published = dependencies.published
    published.backends = replace(published.backends, language_model=model)
    options = GivenOptions("", {"analyze.rewrite": True})
    request = SearchRequest(r'retry /^func Re\w+\(/ -"web"', top_k=50, options=options)

    answer = await service.search(dependencies, Principal("ann", Role.READER, EVERYTHING), request)

    assert model.asked
    assert [one.path for one in answer.hits] == ["src/api/retry.go"]


@pytest.mark.parametrize(
    ("query", "told"),
    [
        (r"retry /\d\d\d\d/", "only the likeliest code was compared"),
        ('"call("', "files that may have the texts were not read"),
    ],
)
async def test_an_answer_says_when_not_all_files_were_read(world, hits, monkeypatch, query, told):
    monkeypatch.setattr("gateway.retrieve.texts.MAX_FILES", 1)

    answer = await hits(query)

    assert any(told in one for one in answer.notices)
    assert not any("no searched code has the texts" in one for one in answer.notices)


async def test_a_chunk_that_is_not_a_candidate_is_found_by_its_text(world, hits):
    many = {f"src/retry_{n}.py": FILES["src/retry.py"].replace("works", f"{n}") for n in range(60)}
    world.index("acme/many", {**many, "z.py": "def other():\n    return 'a needle retries'\n"})

    assert [one.path for one in (await hits("retry /needle\\s/", window=10)).hits] == ["z.py"]


async def test_hidden_code_is_not_found_by_its_text(hits):
    seen = Visibility.of(["acme/app"])
    hidden, absent = [await hits(f'"{one}(call)"', visible=seen) for one in ("hide", "hade")]

    assert hidden.unmatched
    assert absent.unmatched
    assert {one.repository for one in hidden.hits} <= {"acme/app"}


async def test_the_error_for_an_invalid_expression_names_its_position(hits):
    with pytest.raises(InvalidQuery, match=r"'/\(a/' at character 15 is not a regular expression"):
        await hits("lang:go retry /(a/")
    with pytest.raises(InvalidQuery, match="only filters and exclusions"):
        await hits('lang:go -"a"')


@pytest.mark.parametrize(
    ("query", "told"),
    [
        ("/(a/", "'/(a/' at character 1 is not a regular expression of RE2: missing ): (a"),
        (
            "/a(?=b)/",
            "'/a(?=b)/' at character 1 is not a regular expression of RE2: invalid perl operator: "
            "(?=; look-around and backreferences are not possible",
        ),
    ],
)
async def test_an_error_about_a_text_in_a_query_does_not_name_options_of_exact_search(
    hits, query, told
):
    with pytest.raises(InvalidQuery) as refused:
        await hits(query)
    assert refused.value.message == f"{told}; in quotes it is searched as text"


async def test_answers_with_other_texts_are_not_shared(hits):
    first, second = await hits(r"retry /^func/"), await hits(r"retry /^def/")

    assert {one.path for one in first.hits}.isdisjoint({one.path for one in second.hits})


@pytest.fixture
def grep(world):
    async def found(pattern, **given):
        principal = Principal("ann", Role.READER, EVERYTHING)
        request = GrepRequest(pattern, **given)
        parts = [one async for one in service.grep(world.dependencies, principal, request)]
        files = [f"{file.repository} {file.path}" for one in parts for file in one.files]
        return files, parts[-1].summary

    return found


async def test_a_pattern_may_begin_with_filters_which_the_summary_reports(grep):
    found, summary = await grep("lang:go repo:acme/* func [A-Z]")

    assert found == ["acme/app src/api/retry.go"]
    assert summary.notices == (
        "'lang:go repo:acme/*' was read as filters; ask for a literal to find it as text",
    )


async def test_a_pattern_may_begin_with_groups_of_filters(grep):
    written = "(lang:go or lang:python) -(path:tests/** or repo:secret/*)"
    found, summary = await grep(f"{written} retry\\(")

    assert found == ["acme/app src/retry.py", "acme/web src/retry.py"]
    assert summary.notices[0].startswith(
        "'lang:go lang:python -path:tests/** -repo:secret/*' was read as filters"
    )
    assert (await grep("lang:go (func|package) (api|Retry)"))[0] == ["acme/app src/api/retry.go"]


async def test_a_literal_has_no_filters(grep):
    found, summary = await grep("lang:go is", literal=True)

    assert (found, summary.notices) == (["acme/app docs/retry.md"], ())


async def test_after_a_filter_a_pattern_can_be_quoted_or_between_slashes(grep):
    assert (await grep("lang:go /func [A-Z]/"))[0] == ["acme/app src/api/retry.go"]
    assert (await grep('lang:python "retry(call)" '))[0] == [
        *("acme/app src/retry.py", "acme/web src/retry.py")
    ]
    assert (await grep('"lang:go"'))[0] == []


async def test_a_query_is_not_longer_because_of_its_filters(search, grep):
    with pytest.raises(InvalidQuery, match="at most 8,192 are allowed"):
        await search("path:a*b " * 4_000 + "retry")
    with pytest.raises(InvalidQuery, match="at most 1,000 are allowed"):
        await grep("path:a*b " * 200 + "retry")


@pytest.fixture
def ask(world):
    async def answer(query, *, visible=EVERYTHING, dependencies=None, **given):
        principal = Principal("ann", Role.READER, visible)
        asked = SearchRequest(query, **given)
        return await service.search(dependencies or world.dependencies, principal, asked)

    return answer


def test_many_texts_are_searched_as_words():
    assert len(parts_of('-"a" ' * 20 + "retry").texts) == 20
    assert parts_of('-"a" ' * 21 + "retry").texts == ()


async def test_an_answer_reports_the_filters_in_its_query(ask, world):
    told = "'lang:go -repo:acme/*' was read as filters; in quotes it is searched as text"

    for _ in range(2):  # the second one is cached
        assert told in (await ask("retry lang:go -repo:acme/*")).notices
    assert not (await ask("retry")).notices
    principal = Principal("ann", Role.READER, EVERYTHING)
    request = SearchRequest("retry lang:go -repo:acme/*")
    context = await service.context(world.dependencies, principal, request)
    assert told in context.search.notices


async def test_an_unknown_name_in_a_message_is_text_whether_it_is_hidden_or_absent(ask, search):
    one = Visibility.of(["acme/app", "acme/web"])
    answers = [
        await ask(f"pull access denied for repo:{name}/app retry", visible=one)
        for name in ("secret", "nobody")
    ]

    hidden, absent = ([one.replace("secret", "nobody") for one in a.notices] for a in answers)
    assert hidden == absent
    assert hidden == [
        "'repo:nobody/app' was searched as text, because it names a repository, language, kind, "
        "ref, or scope that does not exist"
    ]
    hits = [[(hit.repository, hit.path) for hit in one.hits] for one in answers]
    assert hits[0] == hits[1] != []
    assert (
        (await ask("no matches for kind:Deployment lang:go retry"))
        .notices[0]
        .startswith("'lang:go' was read as filters")
    )
    assert await search("retry calls until it works repo:acme/web") == ["acme/web src/retry.py"]


@pytest.mark.parametrize("group", ["(lang:go or lang:nosuch)", "-(path:x or repo:no/such)"])
def test_a_group_with_an_unknown_name_in_a_message_is_text_as_a_whole(world, group):
    message = f"retry the bad thing {group} lang:python"
    seen = catalog.VisibleCatalog(world.dependencies.ledger, EVERYTHING)

    scopes = VisibleScopes(world.dependencies.scopes, seen)
    found = query_filters.recognised(message, parts_of(message), scopes)

    assert found.words == f"retry the bad thing {group}"
    assert [one.value for one in found.filters] == ["python"]


@pytest.mark.parametrize(
    ("message", "is_text"),
    [
        ("fatal: bad ref:refs/heads/x is broken retry", True),
        ("error: cannot lock ref:0123 retry calls", True),
        ("warning: ignoring branch:%s of retry calls", True),
        ("fatal: bad ref:main is broken retry", False),
        ("retry calls until it works ref:HEAD", False),
    ],
)
async def test_an_unknown_ref_in_a_message_is_text(ask, message, is_text):
    answer = await ask(message)

    assert answer.hits
    assert ("was searched as text" in answer.notices[0]) == is_text
    assert ("was read as filters" in answer.notices[0]) == (not is_text)


async def test_a_misspelt_ref_or_an_unknown_ref_in_a_short_query_is_an_error(ask):
    with pytest.raises(InvalidQuery, match=r"'ref:mian' .* did you mean 'main'"):
        await ask("retry calls until it works ref:mian")
    with pytest.raises(InvalidQuery, match="is not a filter: there is no ref 'refs/heads/x'"):
        await ask("ref:refs/heads/x retry")


async def test_at_most_one_of_many_refs_is_compared_with_the_known_ones(ask, monkeypatch):
    compared = []

    def counted(name, known, n):
        compared.append(name)
        return []

    monkeypatch.setattr(catalog, "get_close_matches", counted)
    many = " ".join(f"ref:x{number}" for number in range(400))

    with pytest.raises(InvalidQuery, match=r"'ref:x0' .* is not a filter: there is no ref 'x0'"):
        await ask(f"fatal: bad {many} is broken retry")
    assert compared == ["x0"]


def test_a_name_is_compared_with_a_bounded_number_of_others_before_the_deadline(monkeypatch):
    assert catalog.nearest("mian", ["one", "two", "main"]) == ["main"]
    with deadline.calling(0), pytest.raises(TimedOut):
        catalog.nearest("mian", ["main"])

    monkeypatch.setattr(catalog, "_AT_ONCE", 1)
    assert catalog.nearest("mian", ["mina", "one", "mian", "main"]) == ["mian", "mina", "main"]
    ticks = iter(range(9))
    with deadline.calling(3, clock=lambda: next(ticks)), pytest.raises(TimedOut):
        catalog.nearest("mian", ["one", "two", "main"])

    monkeypatch.setattr(catalog, "MAX_COMPARED", 2)
    assert catalog.nearest("mian", ["one", "two", "main"]) == []


async def test_refs_of_hidden_repositories_are_unknown(ask, world):
    world.index("secret/new", FILES, ref="release-7")
    one = Visibility.of(["acme/app"])
    message = "fatal: bad ref:{} is broken retry"

    told = [
        (await ask(message.format(name), visible=one)).notices[0].replace(name, "NAME")
        for name in ("release-7", "release-77", "nothing-alike")
    ]

    assert "'ref:NAME' was searched as text" in told[0]
    assert told[0] == told[1] == told[2]
    assert "was read as filters" in (await ask(message.format("release-7"))).notices[0]


class Counting:
    """A ledger that counts its calls."""

    def __init__(self, ledger):
        self.ledger = ledger
        self.calls = 0

    def __getattr__(self, name):
        self.calls += 1
        return getattr(self.ledger, name)


async def test_the_catalog_is_read_as_often_for_one_filter_as_for_many(ask, world):
    async def calls(query):
        ledger = Counting(world.ledger)
        dependencies = replace(world.dependencies, ledger=ledger)
        await ask(query, dependencies=dependencies, skip_cache=True)
        return ledger.calls

    few = "repo:acme/app repo:acme/* -repo:secret/app -repo:secret/a* ref:main lang:go retry"
    many = "repo:acme/web repo:acme/a* -repo:secret/*p path:src/** sym:* lang:python kind:function "

    assert await calls(many * 12 + few) == await calls(few)


async def test_filters_of_a_query_have_the_limits_of_a_request(ask):
    with pytest.raises(InvalidQuery, match="has 101 globs"):
        await ask("path:a*b " * 101 + "x")
    given = GivenFilters(not_paths=[f"{number}/**" for number in range(51)])
    with pytest.raises(InvalidQuery, match="has 101 globs"):
        await ask("-path:a*b " * 50 + "x", filters=given)
    with pytest.raises(InvalidQuery, match="is one filter too many: the query has 101 globs"):
        await ask("repo:a* " * 101 + "x")
    with pytest.raises(InvalidQuery, match="at most 1,024 are allowed"):
        await ask(f"path:{'a' * 1_025} x")


async def test_a_page_continues_when_a_repository_is_registered_that_a_glob_matches(ask, world):
    first = await ask("retry repo:acme/*", top_k=1)
    world.index("acme/new", FILES)
    second = await ask("retry repo:acme/*", top_k=1, page_token=first.next_page_token)

    assert second.hits
    with pytest.raises(InvalidQuery, match="belongs to another search"):
        await ask("retry repo:*/*", top_k=1, page_token=first.next_page_token)
    one = Visibility.of(["acme/app", "acme/web"])
    with pytest.raises(InvalidQuery, match="belongs to another search"):
        await ask("retry repo:acme/*", visible=one, top_k=1, page_token=first.next_page_token)


async def test_keys_have_the_glob_and_the_visibility_of_the_caller():
    def key(of, *globs, visible="acme/a"):
        query = SearchQuery("x", visible=Visibility.of([visible]), narrowing=Narrowing(of, *globs))
        return pipeline.cache_key(query, pipeline.Shape("s", "e", 1))

    one = Visibility.of(["acme/a"])
    assert key(EVERYTHING, ("a*",), ()) == key(EVERYTHING, ("a*",), (), visible="acme/b")
    assert len({key(EVERYTHING, ("a*",), ()), key(one, ("a*",), ()), key(one, (), ("a*",))}) == 3


async def test_a_glob_is_not_answered_with_what_another_caller_sees(ask):
    one = Visibility.of(["acme/app"])

    everything = await ask("retry repo:**")
    narrow = await ask("retry repo:**", visible=one)

    assert "secret/app" in {hit.repository for hit in everything.hits}
    assert {hit.repository for hit in narrow.hits} == {"acme/app"} != set(everything.coverage)
    assert {one.repository for one in narrow.coverage} == {"acme/app"}


async def test_only_named_repositories_are_reported_as_incomplete(ask, world):
    names = [f"new/r{number:02}" for number in range(15)]
    for name in names:
        world.ledger.register(Repository(RepositoryName(name), f"https://host/{name}"))
        world.ledger.create(RepositoryName(name), "HEAD")

    globbed = await ask("retry repo:new/* repo:acme/*")
    again = await ask("retry repo:new/* repo:acme/*")
    named = await ask("retry " + " ".join(f"repo:{name}" for name in names))

    assert not any("completely" in one for one in globbed.notices)
    assert again.cached
    told = [one for one in named.notices if "read as filters" not in one]
    assert told == [
        *(f"{name} is not completely indexed yet" for name in names[:10]),
        "nor are 5 more repositories that the filter names",
    ]


async def test_a_repository_named_beside_a_glob_is_reported_as_incomplete(ask, grep, world):
    for name in ("new/one", "other/two"):
        world.ledger.register(Repository(RepositoryName(name), f"https://host/{name}"))
        world.ledger.create(RepositoryName(name), "HEAD")
    told = "new/one is not completely indexed yet"

    for query in ("retry repo:new/one repo:acme/*", "retry repo:other/* repo:new/one repo:acme/*"):
        notices = (await ask(query)).notices
        assert told in notices
        assert not any("other/two" in one and "read as" not in one for one in notices)
    assert told in (await grep("repo:new/one repo:acme/* retry"))[1].notices
    assert told not in (await grep("repo:new/* repo:acme/* retry"))[1].notices


async def test_an_error_in_a_pattern_names_the_pattern(grep):
    with pytest.raises(InvalidQuery, match="as a literal it is searched as text") as error:
        await grep("repo:acme/none retry")
    assert error.value.field == "pattern"
