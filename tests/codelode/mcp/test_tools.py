"""Test the tools in a session without a process: what agents are told, and the answers."""

from __future__ import annotations

import json
from contextlib import asynccontextmanager

import click
import pytest
from mcp import Client
from mcp.shared.exceptions import MCPError

from codelode.cli.command import codelode as group
from codelode.client import FileLines
from codelode.errors import CodelodeError, Unavailable
from codelode.mcp import prompts
from codelode.mcp.answers import MAX_BYTES, text_answer
from codelode.mcp.arguments import Narrowing, schema
from codelode.mcp.server import make_server
from codelode.mcp.stdio import LocalClient
from codelode.mcp.text import file_lines, notes
from codelode.mcp.tools import TOOLS
from codelode.v1 import index_pb2, search_pb2
from tests.waiting import answered


@asynccontextmanager
async def session(gateway):
    async with Client(make_server(lambda: LocalClient(gateway.address))) as client:
        yield client


async def asked(gateway, tool, /, **arguments):
    """Return the answer to one call, in a new session."""
    async with session(gateway) as client:
        return await client.call_tool(tool, arguments)


async def told(gateway, tool, /, **arguments):
    """Return the text of the answer, which is not an error."""
    answer = await asked(gateway, tool, **arguments)
    assert not answer.is_error, answer
    return answer.content[0].text


async def refused(gateway, tool, /, **arguments):
    """Return the text of the error."""
    answer = await asked(gateway, tool, **arguments)
    assert answer.is_error, answer
    return answer.content[0].text


# What an agent reads in every session


async def test_there_are_few_tools_and_their_descriptions_are_short(gateway):
    async with session(gateway) as client:
        listed = (await client.list_tools()).tools

    assert [tool.name for tool in listed] == list(TOOLS)
    assert len(listed) <= 8
    assert [tool.name for tool in listed if len(tool.description) > 300] == []
    assert len(json.dumps([tool.model_dump(exclude_none=True) for tool in listed])) < 11_000


async def test_only_index_says_that_it_changes_something(gateway):
    async with session(gateway) as client:
        listed = (await client.list_tools()).tools

    assert [tool.name for tool in listed if not tool.annotations.read_only_hint] == ["index"]


def test_the_filters_are_those_of_the_command_line():
    command = group.get_command(click.Context(group), "search")
    shown = {one.name for one in command.params if one.multiple} - {"overrides"}

    assert Narrowing.model_fields.keys() - {"structured"} == shown | {"ref", "scope"}


@pytest.mark.parametrize("tool", TOOLS.values(), ids=TOOLS.keys())
def test_a_schema_has_no_redundant_entries(tool):
    made = schema(tool.arguments)
    fields = made["properties"]

    assert not made["additionalProperties"]
    assert [name for name, field in fields.items() if "title" in field] == []
    assert [name for name, field in fields.items() if not field.get("default", True)] == []
    assert list(fields)[: len(made["required"])] == made["required"]


# Answers


async def test_an_exact_search_answers_with_the_lines_of_each_file(gateway):
    line = search_pb2.MatchingLine
    lines = [line(number=8, text="def f():"), line(number=9, text="\x1b[31mcall", is_match=True)]
    gateway.matches = [
        search_pb2.MatchingFile(
            repository="acme/http", path="src/a.py", count=1, lines=lines, revision="a" * 40
        )
    ]
    gateway.is_long = True

    answer = await told(gateway, "search", query="ca.l", exact=True, top_k=3, context_lines=1)

    assert answer == (
        f"## acme/http at {'a' * 12}\nsrc/a.py-8- def f():\nsrc/a.py:9: \\x1b[31mcall\n"
        "note: stopped\n1 line in 1 file"
    )
    (request,) = gateway.requests
    assert (request.pattern, request.limit, request.before_lines) == ("ca.l", 3, 1)


def test_a_filter_in_a_note_is_named_as_its_argument():
    assert notes(["filters.paths: 'x' matches nothing"]) == ["note: paths: 'x' matches nothing"]


@pytest.mark.parametrize(
    ("tool", "field", "shown"),
    [
        ("search", "filters.paths", "paths"),
        ("search", "page_token", "page"),
        ("search", "options.rank.window", "options.rank.window"),
        ("search", "options.expand.after_lines", "context_lines (expand.after_lines)"),
        ("context", "options.assemble.budget_tokens", "tokens (assemble.budget_tokens)"),
        ("index", "name", "name"),
    ],
)
async def test_an_invalid_field_is_named_as_the_argument(gateway, codes, tool, field, shown):
    gateway.fail(codes.INVALID_ARGUMENT, "is wrong", field=field)
    given = {"url": "x"} if tool == "index" else {"query": "x"}

    assert await refused(gateway, tool, **given) == f"{shown}: is wrong"


async def test_an_error_about_a_pattern_names_the_query_and_the_number_of_hits(gateway, codes):
    gateway.fail(codes.INVALID_ARGUMENT, "is too common; lower `limit`", field="pattern")

    told = await refused(gateway, "search", query="x", exact=True)

    assert told == "query: is too common; lower `top_k`"


@pytest.mark.parametrize("names", ["symbols", "references"])
async def test_a_list_of_names_that_is_cut_names_the_argument_to_raise(gateway, names):
    assert "raise `top_k`" in await told(gateway, "search", query="retry", names=names, top_k=1)


async def test_a_hit_is_its_place_its_name_and_its_lines(gateway):
    assert await told(gateway, "search", query="retry") == (
        f"## acme/http at {'a' * 12}\n"
        "1. src/retry.py:9-11 Client.retry (method)\n"
        " 9  def retry(self):\n"
        "10      pause()\n"
        "11      again()\n"
        "note: no summaries"
    )


async def test_the_arguments_of_a_search_reach_the_gateway(gateway):
    names = Narrowing.model_fields.keys() - {"structured", "ref", "scope"}
    filters: dict[str, object] = {"scope": "payments", **{name: ["x", "y"] for name in names}}

    await told(
        gateway,
        "search",
        query="retry",
        top_k=3,
        ref="stable",
        page="token",
        preset="fast",
        context_lines=7,
        options={"rank.reranker": "judge"},
        **filters,
    )

    (request,) = gateway.requests
    assert (request.query, request.top_k, request.page_token) == ("retry", 3, "token")
    assert request.filters == search_pb2.Filters(ref="stable", **filters)
    assert request.options.preset == "fast"
    assert request.options.rank.reranker == "judge"
    expand = request.options.expand
    assert (expand.before_lines, expand.after_lines, expand.max_lines) == (7, 7, 1_000)


def hit(repository="acme/http", path="a.py", content="x = 1\n", line=0, **fields):
    return search_pb2.Hit(
        **{"start_line": 1, "end_line": 1, "kind": "block", "revision": "b" * 40, **fields},
        repository=repository,
        path=path,
        content=content,
        line=line,
    )


async def test_the_repositories_with_copies_are_named(gateway):
    copy = search_pb2.Copy(
        repository="acme/fork", path="a.py", start_line=3, end_line=3, similarity=1.0
    )
    gateway.hits = [hit(copies=[copy])]

    assert "1. a.py:1-1 (block)\nalso in 1 repository: acme/fork a.py:3-3\n" in (
        await told(gateway, "search", query="x")
    )


async def test_hits_are_grouped_by_repository_and_keep_their_ranks(gateway):
    gateway.hits = [hit("acme/http", "a.py"), hit("acme/web", "b.js"), hit("acme/http", "c.py")]

    lines = (await told(gateway, "search", query="x")).splitlines()

    shown = [line for line in lines if line.startswith("## ") or line[1:3] == ". "]
    assert shown == [
        f"## acme/http at {'b' * 12}",
        "1. a.py:1-1 (block)",
        "3. c.py:1-1 (block)",
        f"## acme/web at {'b' * 12}",
        "2. b.js:1-1 (block)",
    ]


async def test_the_signature_is_shown_where_the_lines_that_match_are_elsewhere(gateway):
    code = ["def long(self):", *(f"    step({at})" for at in range(40)), "    return pause()"]
    gateway.hits = [hit(content="\n".join(code), line=1, end_line=42, symbol="long")]

    lines = (await told(gateway, "search", query="pause")).splitlines()

    assert lines[1:3] == ["1. a.py:1-42 long (block)", "1  def long(self):"]
    assert any("return pause()" in line for line in lines)


async def test_files_that_are_missing_from_the_index_are_reported(gateway, around):
    gateway.around = around

    text = await told(gateway, "search", query="retry")

    assert f"## acme/http main at {'a' * 12}\n" in text
    assert "note: no summaries\n" in text
    assert "note: acme/http main is not complete: 3 files pending, 1 failed\n" in text
    assert text.endswith('more: page="abc"')


async def test_without_hits_the_answer_has_a_hint(gateway):
    gateway.hits = []

    text = await told(gateway, "search", query="retry")

    assert text.startswith("nothing found; try other words, or fewer filters\nnote: ")


async def test_context_is_the_text_and_says_what_was_left_out(gateway):
    text = await told(gateway, "context", query="retry", tokens=500)

    assert text.startswith("### src/retry.py:9-11\n")
    assert text.endswith("note: no summaries\nnote: 1 of 1 hits left out")
    assert gateway.requests[0].search.options.assemble.budget_tokens == 500


async def test_context_asks_for_no_more_than_an_answer_may_have(gateway):
    text = await told(gateway, "context", query="retry", tokens=100_000)

    budget = gateway.requests[0].search.options.assemble.budget_tokens
    assert 4 * budget <= MAX_BYTES
    assert f"note: one answer has at most {budget:,} tokens" in text


@pytest.mark.parametrize(
    ("line", "count"),
    [("word " * 20, 2_000), ("\u202e" * 100, 2_000), ("\u202e" * 50_000, 2)],
    ids=["many lines", "lines that are escaped", "a line that is too long"],
)
def test_the_lines_of_a_file_that_do_not_fit_can_be_asked_for(line, count):
    content = "\n".join([line] * count)
    file = FileLines("r", "a.py", "python", 1, count, count, content, False, "", "")

    text = text_answer(file_lines(file), narrow="").text

    place, *shown, more = text.splitlines()
    numbers = [int(one.split()[0]) for one in shown if not one.startswith("note: ")]
    assert place == f"## r a.py:1-{numbers[-1]} of {count}"
    assert more == f"more of the file: start_line={numbers[-1] + 1}"
    assert ("note: line 1 is longer than an answer" in shown) == (count == 2)
    assert MAX_BYTES / 2 < len(text.encode()) <= MAX_BYTES


async def test_read_shows_numbered_lines_and_where_the_file_continues(gateway):
    gateway.is_long = True

    assert await told(gateway, "read", path="src/retry.py", start_line=9, ref="next") == (
        "## acme/http at aaaaaaaaaaaa src/retry.py:9-10 of 12\n"
        " 9  def retry(call):\n"
        "10      \\x1b[31mcall()\n"
        "more of the file: start_line=11"
    )
    assert gateway.requests == [
        search_pb2.ReadFileRequest(path="src/retry.py", ref="next", start_line=9)
    ]


async def test_explain_shows_the_signature_and_the_files_around(gateway):
    assert await told(gateway, "explain", subject="src/retry.py") == (
        "src/retry.py retries calls.\n"
        "acme/http src/retry.py:9-11 Client.retry (method)\n"
        "    def retry(self):\n"
        "    Call again.\n"
        "imports:\n  src/clock.py\n"
        "imported by:\n  src/client.py\n"
        "tested by:\n  tests/test_retry.py\n"
        "note: no graph"
    )


def registered(name, **ref):
    refs = [index_pb2.RefStatus(ref="main", revision="c" * 40, **ref)] if ref else []
    return index_pb2.Repository(name=name, url=f"https://x/{name}", refs=refs)


async def test_status_shows_repositories_and_runs(gateway, make_run):
    gateway.repositories = [registered("acme/http", files=3, failed=1), registered("acme/new")]
    gateway.runs = [make_run("indexing", total=10, done=4, waits_for="the model\nserver")]

    assert (await told(gateway, "status")).splitlines() == [
        f"acme/http main at {'c' * 12}: 3 files, 1 failed",
        "acme/new is not indexed yet",
        "run: acme/http  indexing  run r1  waits: the model server",
    ]


async def test_status_shows_the_scopes_with_their_descriptions(gateway):
    gateway.repositories = [registered("acme/http", files=3)]
    gateway.scopes = [
        search_pb2.Scope(name=f"s{at}", repository_count=at + 1, description="for money" * (not at))
        for at in range(60)
    ]

    lines = (await told(gateway, "status")).splitlines()

    assert lines[1:3] == ["scope: s0, 1 repository: for money", "scope: s1, 2 repositories"]
    assert lines[51] == "… 10 more scopes"
    assert "scope" not in await told(gateway, "status", repository="acme/http")


async def test_status_of_one_repository_omits_all_others(gateway):
    gateway.repositories = [registered("acme/http", files=3), registered("acme/web", files=4)]

    text = await told(gateway, "status", repository="acme/web")

    assert text == f"acme/web main at {'c' * 12}: 4 files"


async def test_status_lists_the_files_that_are_not_indexed_on_request(gateway):
    gateway.failures = [
        index_pb2.FileFailure(
            repository="acme/http", ref="main", path=f"{at}.js", state="failed", reason="too deep"
        )
        for at in range(60)
    ]

    assert "failed" not in await told(gateway, "status")
    lines = (await told(gateway, "status", failures="failed")).splitlines()

    assert "failed: acme/http main 0.js: too deep" in lines
    assert len([line for line in lines if line.startswith("failed: ")]) == 50
    assert lines[-1] == "… more than 50 files; `codelode failures` lists all"


async def test_many_repositories_are_listed_in_part(gateway):
    gateway.repositories = [registered(f"acme/{at}", files=1) for at in range(300)]

    text = await told(gateway, "status")

    assert text.count("\n") < 110
    assert "… 200 more repositories; name one in `repository`" in text


# Runs


async def test_index_reports_progress_until_the_run_is_over(gateway, make_run):
    gateway.watches = [
        [make_run("indexing", total=4, done=1), make_run("complete", total=4, done=3, failed=1)]
    ]
    seen = []

    async def on_progress(done, total, message):
        seen.append((done, total, message.split("  ")[1]))

    async with session(gateway) as client:
        given = {"url": "https://x/y.git", "name": "y", "include": ["src/"]}
        answer = await client.call_tool("index", given, progress_callback=on_progress)

    assert seen == [(1, 4, "indexing"), (4, 4, "complete")]
    assert answer.content[0].text.startswith("acme/http  complete  3 files, 0 skipped, 1 failed")
    started = gateway.requests[0]
    assert (started.url, started.name) == ("https://x/y.git", "y")
    assert list(started.include.patterns) == ["src/"]
    assert not started.HasField("exclude")


async def test_index_does_not_wait_longer_than_asked(gateway, make_run):
    gateway.watches = [[make_run("indexing", total=4, done=1), 2.0]]

    text = await told(gateway, "index", url="https://x/y.git", wait_s=0.5)

    assert text.startswith("acme/http  indexing")
    assert text.endswith("note: the run goes on in the cluster; `status` shows its state")


async def test_a_run_that_fails_is_an_error_with_its_reason(gateway, make_run):
    gateway.watches = [[make_run("failed", error="the host does not answer")]]

    text = await refused(gateway, "index", url="https://x/y.git")

    assert text.endswith("the host does not answer")


async def test_a_path_is_resolved_on_this_machine(gateway, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    await told(gateway, "index", url=".")

    assert gateway.requests[0].url == str(tmp_path.resolve())


# Bounds


async def test_whole_hits_are_left_out_of_an_answer_that_is_too_long(gateway):
    line = f"{'word ' * 30}\n"
    gateway.hits = [hit(path=f"{at}.py", content=line * 10) for at in range(200)]

    text = await told(gateway, "search", query="absent", top_k=200)

    assert len(text.encode()) <= MAX_BYTES
    shown = [line for line in text.splitlines() if ".py:" in line]
    assert f"note: {200 - len(shown)} hits did not fit; repeat with top_k={len(shown)}" in text
    assert "more: page" not in text
    assert 20 < len(shown) < 200


async def test_a_single_hit_that_is_too_long_is_cut_at_a_line(gateway):
    content = "".join(f"{'long ' * 39}{at}\n" for at in range(401))
    passage = search_pb2.Passage(start_line=1, end_line=401, content=content)
    gateway.hits = [hit(passage=passage, line=200, end_line=401)]

    text = await told(gateway, "search", query="x", context_lines=200)

    assert MAX_BYTES / 2 < len(text.encode()) <= MAX_BYTES
    assert "note: cut off " in text.splitlines()[-1]
    assert "ask for fewer hits (top_k)" in text.splitlines()[-1]


async def test_unprintable_characters_count_with_the_length_of_their_escapes(gateway):
    gateway.hits = [hit(path=f"{at}.py", content="\u202e" * 190 + "\n") for at in range(200)]

    text = await told(gateway, "search", query="x", top_k=200)

    assert len(text.encode()) <= MAX_BYTES


# Structured answers


async def test_an_answer_is_structured_on_demand_only(gateway):
    plain = await asked(gateway, "search", query="retry")
    structured = await asked(gateway, "search", query="retry", structured=True)

    assert plain.structured_content is None
    found = structured.structured_content
    assert found["hits"][0]["path"] == "src/retry.py"
    assert json.loads(structured.content[0].text) == found


async def test_a_structured_answer_that_is_too_long_says_how_to_narrow(gateway):
    gateway.hits = gateway.hits * 200

    text = await refused(gateway, "search", query="retry", structured=True, top_k=200)

    assert "bytes, more than" in text
    assert "ask for fewer hits (top_k)" in text


# Content that is not trusted

HOSTILE = "\x1b[31m\u202e\u2066evil\x07\n## fake/repo at 1234"


async def test_names_and_code_are_shown_escaped(gateway):
    gateway.hits = [hit(HOSTILE, HOSTILE, HOSTILE, symbol=HOSTILE)]

    text = await told(gateway, "search", query="evil")

    assert not set(text) & set("\x1b\u202e\u2066\x07")
    assert "\\x1b[31m\\u202e\\u2066evil\\x07" in text
    assert [line for line in text.splitlines() if line.startswith("## fake")] == []


async def test_names_and_code_are_escaped_in_structured_answers_too(gateway):
    gateway.hits = [hit(HOSTILE, HOSTILE, HOSTILE, symbol=HOSTILE)]

    answer = await asked(gateway, "search", query="evil", structured=True)

    (found,) = answer.structured_content["hits"]
    assert {found[name].split("\n")[0] for name in ("repository", "path", "symbol", "content")} == {
        "\\x1b[31m\\u202e\\u2066evil\\x07"
    }


async def test_errors_are_also_escaped(gateway, codes):
    gateway.fail(codes.NOT_FOUND, f"there is no {HOSTILE}")

    assert "\\x1b[31m\\u202e" in await refused(gateway, "search", query="x")


# Mistakes


async def test_a_refusal_of_the_gateway_names_the_field_and_the_remedy(gateway, codes):
    gateway.fail(codes.INVALID_ARGUMENT, "must be 1 to 200", field="top_k")

    assert await refused(gateway, "search", query="x") == "top_k: must be 1 to 200"


MISTAKES = {
    "an unknown argument": (
        "search",
        {"query": "x", "langages": ["go"]},
        "langages: there is no such argument; did you mean languages?",
    ),
    "a missing one": ("search", {}, "query: is missing; A question, words, a name, or code."),
    "a text for a list": (
        "search",
        {"query": "x", "languages": "go"},
        "languages: Input should be a valid list, not 'go'",
    ),
    "no number": ("search", {"query": "x", "top_k": "many"}, "top_k: Input should be a valid"),
    "two ways to show code": (
        "search",
        {"query": "x", "compact": True, "context_lines": 3},
        "compact: shows no code, context_lines shows more; give one of them",
    ),
    "an option of no stage": (
        "search",
        {"query": "x", "options": {"related": 5}},
        "options: 'related' is not STAGE.NAME, such as expand.related",
    ),
    "an unknown option": (
        "search",
        {"query": "x", "options": {"expand.relatd": 5}},
        "options.expand.relatd: is not an option of expand; did you mean 'related'?",
    ),
    "no url": ("index", {"url": " "}, "url: it is empty"),
}


@pytest.mark.parametrize(("tool", "given", "says"), MISTAKES.values(), ids=MISTAKES.keys())
async def test_a_mistake_is_an_error_with_its_remedy(gateway, tool, given, says):
    assert (await refused(gateway, tool, **given)).startswith(says)
    assert gateway.requests == []


async def test_a_gateway_that_is_away_is_an_error_and_later_calls_find_it_again(gateway):
    async with session(gateway) as client:

        async def search():
            answer = await client.call_tool("search", {"query": "retry"})
            if answer.is_error:
                raise Unavailable(answer.content[0].text)

        gateway.stop()
        with pytest.raises(Unavailable, match="start one with `codelode up`"):
            await search()
        gateway.serve()
        await answered(search)  # gRPC waits up to two seconds until it connects again


# Resources


async def test_a_file_is_a_resource_with_the_text_of_the_tool(gateway):
    async with session(gateway) as client:
        (template,) = (await client.list_resource_templates()).resource_templates
        listed = (await client.list_resources()).resources
        uri = "codelode://file/acme%2Fhttp/src/a%20b.py?ref=v2"
        (content,) = (await client.read_resource(uri)).contents
        tool = await client.call_tool("read", {"path": "src/a b.py"})

    assert (template.uri_template, listed) == ("codelode://file/{repository}/{+path}{?ref}", [])
    assert content.text == tool.content[0].text
    assert gateway.requests[0] == search_pb2.ReadFileRequest(
        repository="acme/http", path="src/a b.py", ref="v2"
    )


@pytest.mark.parametrize(
    "uri", ["file:///etc/passwd", "codelode://file/acme", "codelode://x/acme/a.py", "codelode:a"]
)
async def test_a_resource_of_another_form_is_an_error_of_the_protocol(gateway, uri):
    async with session(gateway) as client:
        with pytest.raises(MCPError, match="is not of the form codelode://file/"):
            await client.read_resource(uri)

    assert gateway.requests == []


# Prompts


async def test_a_prompt_names_the_subject_and_the_tools_to_call(gateway):
    async with session(gateway) as client:
        listed = (await client.list_prompts()).prompts
        given = {"subject": "Client.get", "repository": "acme/http"}
        made = {one.name: await client.get_prompt(one.name, given) for one in listed}

    texts = {name: one.messages[0].content.text for name, one in made.items()}
    assert texts.keys() == {"explain", "impact"}
    assert "change of Client.get in the repository acme/http" in texts["impact"]
    for text in texts.values():
        named = {word.strip("`") for word in text.replace(",", " ").split() if word[0] == "`"}
        assert {name for name in named if name in TOOLS} >= {"explain", "graph", "search"}


@pytest.mark.parametrize(
    ("name", "given", "says"),
    [
        ("explian", {"subject": "x"}, "there are: explain, impact"),
        ("impact", {}, "subject: is missing"),
        ("impact", {"subject": "x", "repo": "y"}, "repo: unknown; there are: subject, repository"),
    ],
)
def test_a_mistake_in_a_prompt_is_an_error_with_its_remedy(name, given, says):
    with pytest.raises(CodelodeError) as caught:
        prompts.filled(name, given)

    assert says in str(caught.value)
