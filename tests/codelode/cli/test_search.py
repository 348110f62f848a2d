"""`codelode search` prints hits and ends with the documented status."""

from __future__ import annotations

import json
import socketserver
import threading

import pytest

from codelode.v1 import search_pb2


def hit(**fields: object) -> search_pb2.Hit:
    values: dict[str, object] = {"repository": "r", "path": "a.py", "start_line": 1, "end_line": 1}
    return search_pb2.Hit(**{**values, **fields})


def test_a_hit_is_its_place_its_symbol_and_its_numbered_code(served):
    answer = served("search", "retry")

    assert answer.status == 0
    assert answer.out == (
        "acme/http src/retry.py:9-11  Client.retry  (0.0325, both)\n"
        " 9  def retry(self):\n"
        "10      pause()\n"
        "11      again()\n"
    )
    assert "1 hit in 4.2 ms" in answer.err
    assert "no summaries" in answer.err


def test_a_long_hit_is_cut_to_a_dozen_lines_that_say_what_is_missing(served, gateway):
    gateway.hits = [hit(end_line=30, content="\n".join(f"line {n}" for n in range(1, 31)))]

    _, *lines = served("search", "x").out.splitlines()

    assert lines[0] == " 1  line 1"
    assert lines[-2:] == ["10  line 10", "    … 20 lines below"]


def test_a_long_hit_is_cut_to_the_part_that_matches_the_query(served, gateway):
    code = ["the line"] * 30
    code[17] = "def parseConfig(the):"
    gateway.hits = [hit(start_line=101, end_line=130, content="\n".join(code))]

    _, *lines = served("search", "the config").out.splitlines()

    assert lines[0] == "     … 15 lines above"
    assert lines[3] == "118  def parseConfig(the):"
    assert lines[-1] == "     … 5 lines below"
    assert len(lines) == 12


def test_a_line_that_fills_a_page_is_cut(served, gateway):
    gateway.hits = [hit(content="x" * 5_000)]

    assert max(map(len, served("search", "x").out.splitlines())) < 220


@pytest.mark.parametrize(
    "query",
    ["-lang:go session", "-repo:acme/* x", "-path:a/** x", "-file:b.go x", '-"a b" x', "-/a+/ x"],
)
@pytest.mark.parametrize("command", ["search", "context"])
def test_a_query_may_begin_with_an_exclusion(served, gateway, command, query):
    served(command, query, "--top-k", "3")

    (request,) = gateway.requests
    assert getattr(request, "search", request).query == query


def test_a_pattern_may_begin_with_a_filter_that_excludes(served, gateway):
    served("grep", "-lang:go session", "-w")

    assert gateway.requests[0].pattern == "-lang:go session"


@pytest.mark.parametrize(("command", "name"), [("search", "QUERY"), ("grep", "PATTERN")])
@pytest.mark.parametrize("text", ["-> Result", "--no-verify flag", "-z"])
def test_another_text_that_begins_with_a_minus_sign_needs_two_of_them(
    served, gateway, command, name, text
):
    answer = served(command, text)

    assert answer.status == 2
    assert f"To search for it, put -- before a {name} that begins with -." in answer.err
    served(command, "--", text)
    assert len(gateway.requests) == 1


def test_without_hits_the_status_is_one_and_nothing_is_printed(served, gateway):
    gateway.hits = []

    answer = served("search", "x")

    assert (answer.status, answer.out) == (1, "")
    assert "nothing found" in answer.err


def test_json_has_exactly_the_documented_keys(served):
    answer = served("search", "retry", "--json")

    found = json.loads(answer.out)
    assert list(found) == ["hits", "took_ms", "notices", "coverage"]
    assert (found["took_ms"], found["notices"]) == (4.25, ["no summaries"])
    assert found["hits"] == [
        {
            "repository": "acme/http",
            "path": "src/retry.py",
            "start_line": 9,
            "end_line": 11,
            "language": "python",
            "symbol": "Client.retry",
            "line": 9,
            "kind": "method",
            "category": "source",
            "score": 0.0325,
            "keyword_score": 7.5,
            "similarity": None,
            "match": "both",
            "revision": "a" * 40,
            "url": f"https://github.com/acme/http/blob/{'a' * 40}/src/retry.py#L9-L11",
            "content": "def retry(self):\n    pause()\n    again()\n",
        }
    ]


def test_without_hits_the_json_has_an_empty_list_and_the_notices(served, gateway):
    gateway.hits = []

    answer = served("search", "x", "--json")

    found = json.loads(answer.out)
    assert (answer.status, found["hits"], found["notices"]) == (1, [], ["no summaries"])


def test_explain_shows_the_steps_of_the_ranking(served):
    answer = served("search", "retry", "--explain")

    assert "rank.boost.definition = 2" in answer.out
    assert "identifier query: rank 0.5 ms" in answer.err


def test_explain_adds_traces_and_stages_to_the_json(served):
    found = json.loads(served("search", "retry", "--explain", "--json").out)

    assert found["hits"][0]["explain"] == [{"name": "rank.boost.definition", "value": 2.0}]
    assert found["explain"]["stages"] == [{"stage": "rank", "took_ms": 0.5}]


def test_every_option_reaches_the_gateway(served, gateway):
    served(
        *("search", "q", "--repo", "a", "--repo", "b", "--lang", "go", "--path", "src/**"),
        *("--kind", "class", "--symbol", "User*", "--category", "test", "--ref", "v1"),
        *("--top-k", "3", "--not-repo", "c", "--not-lang", "c", "--not-language", "cpp"),
        *("--not-path", "tests/**", "--scope", "payments"),
    )

    (request,) = gateway.requests
    filters = request.filters
    assert list(filters.not_repositories) == ["c"]
    assert list(filters.not_languages) == ["c", "cpp"]
    assert list(filters.not_paths) == ["tests/**"]
    assert list(filters.repositories) == ["a", "b"]
    assert [list(filters.languages), list(filters.paths)] == [["go"], ["src/**"]]
    assert [list(filters.kinds), list(filters.symbols)] == [["class"], ["User*"]]
    assert [list(filters.categories), filters.ref] == [["test"], "v1"]
    assert (request.query, request.top_k, filters.scope) == ("q", 3, "payments")


@pytest.mark.parametrize("command", ["search", "context"])
@pytest.mark.parametrize("is_unmatched", [True, False])
def test_a_match_can_be_required(served, gateway, command, is_unmatched):
    gateway.around = {"unmatched": is_unmatched}

    plain, required = served(command, "x"), served(command, "x", "--require-match")

    assert (plain.status, required.status) == (0, int(is_unmatched))
    assert plain.out == required.out != ""
    found = json.loads(served(command, "x", "--json").out)
    assert found.get("unmatched", False) == is_unmatched


def test_code_cannot_send_escape_sequences_to_the_terminal(served, gateway):
    gateway.hits = [hit(path="\x1b]0;x\x07.py", symbol="\x1b[2J", content="a\x1b[31mb\r\nc\x9b")]

    answer = served("search", "x")

    assert not set(answer.out) & {"\x1b", "\x07", "\r", "\x9b"}
    assert "1  a\\x1b[31mb\n2  c\\x9b\n" in answer.out


def test_a_refused_field_is_one_line_that_names_it(served, gateway, codes):
    gateway.fail(
        codes.INVALID_ARGUMENT, "there is no kind 'x';\nuse one of …", field="filters.kinds"
    )

    answer = served("search", "q", "--kind", "x")

    assert answer.status == 2
    assert answer.err == "codelode: --kind: there is no kind 'x'; use one of …\n"
    assert answer.out == ""


def test_a_top_k_of_zero_is_refused(served):
    answer = served("search", "q", "--top-k", "0")

    assert answer.status == 2
    assert answer.err == "codelode: --top-k: is 0; it must be 1 to 200\n"


def test_without_a_gateway_it_says_how_to_start_one(codelode, free_address):
    answer = codelode("search", "q", "--server", free_address)

    assert answer.status == 2
    assert answer.err == (f"codelode: no gateway at {free_address}; start one with `codelode up`\n")


class WebServer(socketserver.StreamRequestHandler):
    def handle(self):
        self.rfile.readline()
        self.wfile.write(b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n")


def test_the_address_of_an_http_port_is_distinguished_from_that_of_a_gateway(codelode):
    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), WebServer) as server:
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        address = f"127.0.0.1:{server.server_address[1]}"
        answer = codelode("search", "x", "--server", address)
        server.shutdown()

    assert answer.status == 2
    assert f"codelode: {address} is an HTTP port" in answer.err


def test_presets_and_options_reach_the_gateway(served, gateway):
    served(
        *("search", "q", "--preset", "thorough", "--mode", "staged", "--alpha", "0.2"),
        *("--compact", "--page", "abc", "--similarity", "0.5"),
    )

    (request,) = gateway.requests
    options = request.options
    assert (options.preset, options.retrieve.mode, options.retrieve.alpha) == (
        "thorough",
        "staged",
        0.2,
    )
    assert (options.retrieve.file_similarity, options.retrieve.chunk_similarity) == (0.5, 0.5)
    assert options.assemble.compact
    assert request.page_token == "abc"


def test_any_option_can_be_set_by_its_name_in_the_api(served, gateway):
    served(
        *("search", "q", "--mode", "staged", "--set", "retrieve.mode=hybrid"),
        *("--set", "rank.reranker=judge", "--set", "rank.confidence=0.5"),
        *("--set", "analyze.rewrite=true", "--set", "expand.after_lines=5"),
    )
    served("context", "q", "--set", "assemble.exact_tokens=true", "--set", "rank.centrality=rrf")

    searched, made = (gateway.requests[0].options, gateway.requests[1].search.options)
    assert (searched.retrieve.mode, searched.rank.reranker) == ("hybrid", "judge")
    assert (searched.rank.confidence, searched.analyze.rewrite) == (0.5, True)
    assert searched.expand.after_lines == 5
    assert (made.assemble.exact_tokens, made.rank.centrality) == (True, "rrf")
    assert made.assemble.reserved_tokens == 2_000


def test_every_option_of_the_api_can_be_set(served, gateway):
    """Set each field of each stage to a value of its type."""
    values = {"bool": "true", "string": "x", "int32": "1", "double": "0.5"}
    names = {
        f"{stage.name}.{field.name}": values[_type(field)]
        for stage in search_pb2.SearchOptions.DESCRIPTOR.fields
        if stage.message_type
        for field in stage.message_type.fields
    }

    served("search", "q", *(part for one in names.items() for part in ("--set", "=".join(one))))

    [request] = gateway.requests
    set_ = {
        f"{stage.name}.{field.name}"
        for stage, message in request.options.ListFields()
        if stage.message_type
        for field, _ in message.ListFields()
    }
    assert set_ == set(names)


def _type(field):
    types = {field.TYPE_BOOL: "bool", field.TYPE_STRING: "string", field.TYPE_INT32: "int32"}
    return types.get(field.type, "double")


@pytest.mark.parametrize(
    ("given", "complaint"),
    [
        ("judge", "is not STAGE.NAME=VALUE"),
        ("rank.reranker", "is not STAGE.NAME=VALUE"),
        ("rerank=judge", "is not STAGE.NAME=VALUE"),
        ("ranking.reranker=judge", "--set ranking: is not a stage"),
        ("rank.model=judge", "--set rank.model: "),
        ("rank.confidence=high", "--set rank.confidence: "),
    ],
)
def test_an_option_that_does_not_exist_is_refused_by_name(served, gateway, given, complaint):
    answer = served("search", "q", "--set", given)

    assert answer.status == 2
    assert complaint in answer.err
    assert gateway.requests == []


def test_explain_tells_how_the_query_was_read_and_what_is_indexed(served, gateway, around):
    gateway.around = {**around, "entities": [search_pb2.Entity(kind="path", text="a/b.py")]}

    answer = served("search", "retry", "--explain")
    found = json.loads(served("search", "retry", "--explain", "--json").out)
    covered, found = found["coverage"], found["explain"]

    for line in (
        "intent: general",
        "names: a/b.py (path)",
        "synonyms: backoff",
        "also asked: call again",
        "files: src/retry.py (0.75)",
        f"searched acme/http main at {'a' * 12}, 3 files pending, 1 failed",
    ):
        assert line in answer.err.splitlines()
    assert found["entities"] == [{"kind": "path", "text": "a/b.py"}]
    assert covered[0]["pending"] == 3
    assert (found["intent"], found["alternates"]) == ("general", ["call again"])


def test_without_options_none_are_set(served, gateway):
    served("search", "q")

    options = gateway.requests[0].options
    assert [field.name for field, _ in options.ListFields()] == ["preset"]


def test_related_files_imports_and_duplicates_are_printed_after_the_hits(served, gateway, around):
    gateway.around = around

    answer = served("search", "retry")

    assert answer.out.endswith(
        "\n"
        "related  b.py (imports src/retry.py)\n"
        "import   src/retry.py → os (external)\n"
        "duplicate c.py:3 of hit 1\n"
    )
    assert "more: --page abc" in answer.err


def test_json_has_what_was_found_around_the_hits_where_there_is_some(served, gateway, around):
    gateway.around = {**around, "abstained": True}

    found = json.loads(served("search", "retry", "--json").out)

    assert list(found) == [
        *("hits", "took_ms", "notices", "coverage", "related", "imports", "duplicates", "files"),
        *("abstained", "next_page"),
    ]
    assert found["related"][0]["relation"] == "imports"


def fork(**fields):
    values = {"repository": "acme/fork", "ref": "main", "path": "a.py", "similarity": 1.0}
    return search_pb2.Copy(**{**values, "start_line": 1, "end_line": 1, **fields})


def test_the_repositories_with_copies_are_named(served, gateway):
    copies = [fork(), fork(repository="acme/app", path="lib/a.py", similarity=0.875)]
    gateway.hits = [hit(content="x", copies=copies), hit(content="y", copies=[fork()] * 7)]

    shown = served("search", "x").out.splitlines()

    line = "    also in 2 repositories: acme/fork, acme/app lib/a.py:1-1 (87 % alike)"
    assert shown[1] == line
    assert shown[5] == f"    also in 7 repositories: {', '.join(['acme/fork'] * 5)} and 2 more"


def test_a_copy_at_the_place_of_a_compact_hit_is_named_without_its_lines(served, gateway):
    copies = [fork(end_line=9), fork(repository="acme/app", end_line=9, similarity=0.9)]
    gateway.hits = [hit(start_line=5, end_line=9, copies=copies)]

    assert "    also in 2 repositories: acme/fork, acme/app a.py:1-9 (90 % alike)\n" in (
        served("search", "x", "--compact").out
    )


def test_json_has_all_copies_of_a_hit(served, gateway):
    gateway.hits = [hit(copies=[fork()] * 7)]

    [found] = json.loads(served("search", "x", "--json").out)["hits"]

    assert found["copies"][6] == {
        **{"repository": "acme/fork", "ref": "main", "path": "a.py", "start_line": 1},
        **{"end_line": 1, "similarity": 1.0, "revision": "", "url": ""},
    }


def test_copies_are_hits_of_their_own_on_request(served, gateway):
    served("search", "x", "--all-copies")
    served("search", "x")

    asked, by_default = (request.options.rank for request in gateway.requests)
    assert (asked.HasField("collapse_copies"), asked.collapse_copies) == (True, False)
    assert not by_default.HasField("collapse_copies")


def test_the_lines_around_a_hit_are_shown_in_its_place(served, gateway):
    passage = search_pb2.Passage(start_line=8, end_line=10, content="above\nhit\nbelow")
    gateway.hits = [hit(start_line=9, end_line=9, content="hit", passage=passage)]

    _, *lines = served("search", "x").out.splitlines()

    assert lines == [" 8  above", " 9  hit", "10  below"]


FORGED = "a.py:1-1\nacme/http b.py"
REVERSED = "gnp\u202eyp.b\u2028"


def test_no_name_forges_a_line_or_reorders_one(served, gateway, around):
    copies = [fork(repository=REVERSED, path=FORGED)]
    gateway.hits = [hit(path=FORGED, symbol=REVERSED, content="x", copies=copies)]
    gateway.around = {
        **around,
        "related": [search_pb2.Related(path=REVERSED, relation="imports", of=FORGED)],
        "imports": [search_pb2.ImportLink(path=FORGED, target=REVERSED, mark="external", depth=1)],
        "duplicates": [search_pb2.Duplicate(path=FORGED, start_line=1, of_rank=1)],
        "files": [search_pb2.FoundFile(path=FORGED, similarity=0.5)],
        "coverage": [search_pb2.Coverage(repository="r", ref=REVERSED, revision="a" * 40)],
    }

    answer = served("search", "x", "--explain")

    shown = answer.out.split("\n")
    assert shown == [
        r"r 'a.py:1-1\nacme/http b.py':1-1  'gnp\u202eyp.b\u2028'  (0, )",
        r"    also in 1 repository: 'gnp\u202eyp.b\u2028'",
        "1  x",
        "",
        r"related  'gnp\u202eyp.b\u2028' (imports 'a.py:1-1\nacme/http b.py')",
        r"import   'a.py:1-1\nacme/http b.py' → 'gnp\u202eyp.b\u2028' (external)",
        r"duplicate 'a.py:1-1\nacme/http b.py':1 of hit 1",
        "",
    ]
    assert r"files: 'a.py:1-1\nacme/http b.py' (0.50)" in answer.err.split("\n")
    assert r"searched r 'gnp\u202eyp.b\u2028' at aaaaaaaaaaaa" in answer.err.split("\n")


def test_code_keeps_its_lines_and_loses_what_reorders_them(served, gateway):
    gateway.hits = [hit(content="if admin: \u202e#\u2066 not\u2028x\x1b[2J")]

    _, line = served("search", "x").out.split("\n")[:2]

    assert line == r"1  if admin: \u202e#\u2066 not\u2028x\x1b[2J"
