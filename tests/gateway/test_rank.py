import gc
import inspect
import sys

import numpy as np
import pytest

from codelode.model import Candidate, Category, Kind
from codelode.names import names_of
from gateway.analyze.query import analysis
from gateway.rank import features, keys
from gateway.rank.fused import ranks
from gateway.rank.linear import ranked, same_file
from gateway.rank.paths import stem_of
from gateway.rank.query_group import QueryGroup, same
from gateway.rank.weights import SAME_FILE, WEIGHTS


@pytest.fixture
def candidate(make_chunk):
    def make(path, content="x", *, keyword=1.0, similarity=0.5, **fields):
        return Candidate(make_chunk(path, content, **fields), keyword, similarity)

    return make


def paths(ranking):
    return [place.candidate.chunk.path for place in ranking]


def feature(function, query, *candidates):
    return function(QueryGroup(analysis(query), candidates)).tolist()


def test_the_best_score_has_rank_one_and_a_missing_score_no_rank():
    assert ranks([2.0, None, 9.0]).tolist() == [2, np.inf, 1]


def test_the_definition_comes_before_its_users(candidate):
    found = ranked(
        analysis("HttpClient"),
        [
            candidate("src/use.py", "client = HttpClient()\nHttpClient.get()", keyword=5.0),
            candidate("src/net.py", "class HttpClient:", symbol="HttpClient", keyword=3.0),
        ],
    )

    assert paths(found)[0] == "src/net.py"


@pytest.mark.parametrize(
    ("query", "first"),
    [("retry a call", "src/a.py"), ("tests of retry", "tests/test_a.py")],
)
def test_a_test_ranks_lower_unless_it_is_asked_for(candidate, query, first):
    found = ranked(
        analysis(query),
        [
            candidate("tests/test_a.py", "retry a call, tests of it", category=Category.TEST),
            candidate("src/a.py", "retry a call"),
        ],
    )

    assert paths(found)[0] == first


def test_the_parts_of_a_score_sum_to_it(candidate):
    found = ranked(analysis("retry"), [candidate("a.py", "retry"), candidate("a.py", "x")])

    for place in found:
        assert sum(place.parts) == pytest.approx(place.score)
        assert len(place.parts) == len(place.names)


def test_scores_fall_along_the_ranking_and_each_candidate_is_there_once(candidate):
    given = [candidate(f"{n % 3}.py", "retry " * n, start_line=n, keyword=n) for n in range(1, 9)]

    found = ranked(analysis("retry"), given)

    scores = [place.score for place in found]
    assert scores == sorted(scores, reverse=True)
    assert {place.candidate.chunk.id for place in found} == {c.chunk.id for c in given}
    assert len(found) == len(given)


def test_the_order_of_candidates_does_not_matter(candidate):
    given = [candidate(f"{n}.py", "retry", start_line=n) for n in range(1, 6)]

    assert paths(ranked(analysis("retry"), given)) == paths(ranked(analysis("retry"), given[::-1]))


def test_a_second_chunk_of_a_file_makes_room_for_another_file():
    added = same_file(np.array([9.0, 8.0, 7.0, 6.0]), np.array([0, 0, 1, 0]))

    assert added.tolist() == [0, SAME_FILE, 0, 2 * SAME_FILE]


def test_the_ranking_of_no_candidates_is_empty():
    assert ranked(analysis("retry"), []) == ()


def test_every_feature_has_a_weight():
    public = {
        name
        for name, function in inspect.getmembers(features, inspect.isfunction)
        if list(inspect.signature(function).parameters) == ["group"]
    }

    assert public == {weighed.__name__ for weighed in WEIGHTS}


@pytest.mark.parametrize("query", ["retry", "...", "how are tests of HttpClient run", "ß" * 200])
def test_every_feature_is_within_0_and_1_for_every_candidate(candidate, query):
    given = (
        candidate("", "", keyword=None, similarity=-0.2),
        candidate("a/b/HttpClient.test.ts", "retry ß", keyword=7.0, similarity=None),
        candidate(".env", "\0", symbol="a.b!", symbols=("a.b!", "::"), kind=Kind.BLOCK),
    )

    for weighed in WEIGHTS:
        values = weighed(QueryGroup(analysis(query), given))

        assert values.shape == (3,), weighed
        assert (values >= 0).all(), weighed
        assert (values <= 1).all(), weighed


def test_a_word_in_all_candidates_counts_less_than_a_rare_one(candidate):
    given = [candidate(f"{n}.py", "server") for n in range(5)] + [candidate("r.py", "retry")]

    values = feature(features.file_body, "server retry", *given)

    assert values[-1] > values[0] > 0


def test_words_of_a_query_can_be_in_several_chunks_of_a_file(candidate):
    given = (
        candidate("a.py", "server", start_line=1),
        candidate("a.py", "retry", start_line=9),
        candidate("b.py", "server"),
    )

    assert feature(features.file_body, "server retry", *given)[:2] == [1.0, 1.0]
    assert feature(features.file_body, "server retry", *given)[2] < 1


@pytest.mark.parametrize(
    ("path", "query", "share"),
    [
        ("src/http_client.py", "http client", 1.0),
        ("src/http_client.py", "how clients connect", 0.5),
        ("src/http_client.py", "routing", 0.0),
        ("src/RetryPolicy.Async.cs", "retry policy", 2 / 3),
        ("src/.env", "env", 1.0),
        ("Makefile", "makefile", 1.0),
    ],
)
def test_the_name_of_a_file_counts_by_its_share_in_the_query(candidate, path, query, share):
    assert feature(features.stem_said, query, candidate(path)) == [pytest.approx(share)]


def test_words_that_are_one_name_in_the_code_may_be_separate_in_the_query(candidate):
    given = (candidate("src/threadpool.c"), candidate("src/pool.c", symbols=("ThreadPool",)))

    assert feature(features.stem_said, "how does the thread pool work", *given) == [1.0, 1.0]
    assert feature(features.mentioned, "how does the thread pool work", *given) == [0.0, 0.5]


def test_the_name_of_the_only_repository_is_ignored(candidate):
    given = (candidate("src/flask.py", "flask"), candidate("src/routing.py", "flask"))
    named = [c._replace(chunk=c.chunk._replace(repository="pallets/flask")) for c in given]

    assert feature(features.stem_said, "flask routing", *named) == [0.0, 1.0]
    assert feature(features.repository_said, "flask routing", *named) == [1.0, 1.0]


def test_the_name_of_a_repository_distinguishes_it_from_others(candidate):
    given = (candidate("src/a.py"), candidate("src/b.py"))
    named = [
        c._replace(chunk=c.chunk._replace(repository=name))
        for c, name in zip(given, ("pallets/flask", "pallets/click"), strict=True)
    ]

    assert feature(features.repository_said, "flask routing", *named) == [1.0, 0.0]


def test_the_name_of_a_folder_is_the_nearest_one(candidate):
    given = (candidate("cache/redis/a.py"), candidate("a.py"))

    assert feature(features.folder_said, "redis", *given) == [1.0, 0.0]


@pytest.mark.parametrize(
    ("query", "values"),
    [
        ("Client.get", [1.0, 0.5, 0.5]),
        ("get", [1.0, 0.5, 0.5]),
        ("put", [0.0, 0.0, 0.0]),
        ("where is get_user", [0.0, 0.0, 0.0]),
    ],
)
def test_the_start_of_a_definition_ranks_above_its_continuation(candidate, query, values):
    given = (
        candidate("a.py", "1", symbol="HttpClient.get", symbols=("get", "fetchAll")),
        candidate("a.py", "2", symbol="HttpClient.get", symbols=(), start_line=50),
        candidate("a.py", "3", symbol="HttpClient", symbols=("get", "HttpClient"), start_line=90),
    )

    assert feature(features.definition, query, *given) == values


def test_a_class_comes_before_the_constructor_of_its_name(candidate):
    given = (
        candidate("Client.java", "1", symbol="http.Client", symbols=("Client",)),
        candidate("Client.java", "2", symbol="http.Client.Client", symbols=("Client",)),
        candidate("Client.java", "3", symbol="Client.Clients", symbols=("Clients",)),
    )

    assert feature(features.definition, "Client", *given) == [1.0, 0.5, 0.0]
    assert feature(features.definition, "Clients", *given) == [0.0, 0.0, 1.0]


def test_names_in_a_query_of_several_words_are_mentioned(candidate):
    chunk = candidate("a.py", symbol="HttpClient.get", symbols=("get", "fetchAll"))

    assert feature(features.mentioned, "where is fetch_all?", chunk) == [0.5]
    assert feature(features.mentioned, "fetch_all", chunk) == [0.0]  # that asks for a definition
    assert feature(features.named, "how to get a page", chunk) == [1.0]
    assert feature(features.named, "how to fetch a page", chunk) == [0.0]


def test_a_candidate_without_cosine_counts_as_the_least_similar_one(candidate):
    given = [candidate(f"{n}.py", similarity=n) for n in (0.8, 0.4, None)]

    assert feature(features.similarity, "retry", *given) == [1.0, 0.5, 0.5]
    assert feature(features.file_similarity, "retry", *given) == [1.0, 0.0, 0.0]


@pytest.mark.parametrize(
    ("query", "share"),
    [
        ("Cannot connect to redis://h:1: Connection refused", 4 / 6),
        ("Trying to open (2): Cannot connect to h", 3 / 8),
        ("connect to somewhere: cannot", 0.0),
        ("how does it cannot connect to a server", 0.0),
    ],
)
def test_a_message_with_unknown_values_is_scored_by_its_longest_part(candidate, query, share):
    text = "error('Cannot connect to %s: %s.')"
    given = (candidate("a.py", text), candidate("b.md", text, category=Category.DOCS))

    assert feature(features.pasted, query, *given) == [share, 0.0]


@pytest.mark.parametrize(
    ("query", "source", "share"),
    [
        ('unknown command "a" for "b"', 'Errorf("unknown command %q for %q", a, b)', 1.0),
        ('unknown command "a" for "b"', '"unknown command " + a + " for " + b', 1.0),
        ("too.Many: Exceeded 30 redirects.", 'f"Exceeded {self.max_redirects} redirects."', 3 / 4),
        ("404 Client Error: Not Found for url: /a/b", "Client Error: {why} for url: {url}", 5 / 8),
        ('unknown command "a" for "b"', "the unknown command a user looks for", 0.0),
        ("exceeded some redirects for urls:", 'f"exceeded {a} redirects {b} urls:"', 0.0),
    ],
)
def test_a_message_matches_despite_the_values_between_its_words(candidate, query, source, share):
    assert feature(features.pasted, query, candidate("a.py", source)) == [pytest.approx(share)]


def test_a_test_that_quotes_a_message_does_not_compete_with_its_source(candidate):
    query = 'accepts at most "1" arg(s), received 3'
    test = candidate("a_test.go", f"want := `{query}`", category=Category.TEST)
    source = candidate("a.go", 'Errorf("accepts at most %q arg(s), received %d", n, len(args))')

    assert feature(features.pasted, query, test, source) == [0.0, 1.0]
    assert feature(features.verbatim, query, test, source) == [0.0, 0.0]
    assert feature(features.pasted, query, test) == [1.0]
    assert feature(features.verbatim, query, test) == [1.0]


@pytest.mark.parametrize(
    ("query", "text", "value"),
    [
        ("history-limit", '\t{ .name = "history-limit",\n\t  .type = NUMBER }', keys.DECLARED),
        ("auto_https", '\tcase "auto_https":', keys.DECLARED),
        ("proxyPort", "  'proxyPort': 80,", keys.DECLARED),
        ("body_limit", "  :body_limit => 1", keys.DECLARED),
        ("body_limit", "config[:body_limit]", keys.READ),
        ("history-limit", 'n = get(options, "history-limit");', keys.READ),
        ("grace_period", 'Grace Duration `json:"grace_period,omitempty"`', keys.READ),
        ("max_size", "    max_size: usize = 10,", keys.ASSIGNED),
        ("max_size", "max_size = 10", keys.ASSIGNED),
        ("max_size", "run(\n  max_size=max_size)", 0.0),
        ("history-limit", "// The history-limit may be changed.", 0.0),
        ("history-limit", 'get("history-limits"); get("no-history-limit")', 0.0),
        ("HTTP_PROXY", 'let proxy = lookup("HTTP_PROXY")', keys.READ),
        ("HTTP_PROXY", 'proxy = os.environ.get("HTTP_PROXY")', keys.DECLARED),
        ("HTTP_PROXY", "if (process.env.HTTP_PROXY) {", keys.READ),
        ("HTTP_PROXY", 'curl -x "${HTTP_PROXY:-none}"', keys.READ),
        ("--dry-run", 'option("-n", "--dry-run", help="…")', keys.DECLARED),
        ("--dry-run", 'option("--dry-run [WHEN]")', keys.DECLARED),
        ("--dry-run", '  {"dry-run", ARG_BOOL},', keys.READ),
        ("--dry-run", 'has(flags, "dry-run")', keys.ASSIGNED),
        ("Broken pipe", 'raise Failed("Broken pipe")', keys.READ),
        ("Broken pipe", 'printf("Broken pipe: %s", name)', keys.READ),
        ("Broken pipe", "# Broken pipe", 0.0),
    ],
)
def test_code_that_declares_or_reads_a_key_is_recognised(candidate, query, text, value):
    assert feature(features.key, query, candidate("src/a.x", text)) == [value]


def test_a_key_is_sought_in_source_before_tests_and_never_in_documents(candidate):
    text = 'get("body_limit")'
    source, test = candidate("a.py", text), candidate("test_a.py", text, category=Category.TEST)
    docs = candidate("a.md", text, category=Category.DOCS)

    assert feature(features.key, "body_limit", source, test, docs) == [keys.READ, 0.0, 0.0]
    assert feature(features.key, "body_limit", test, docs) == [keys.READ, 0.0]


def test_a_name_that_is_defined_is_no_key_unless_the_environment_is_read(candidate):
    named = candidate("a.c", "#define CA_FILE 1", symbol="CA_FILE", symbols=("CA_FILE",))
    quoted, read = candidate("b.c", 'put("CA_FILE")'), candidate("c.c", 'getenv("CA_FILE")')

    assert feature(features.key, "CA_FILE", named, quoted, read) == [0.0, 0.0, keys.DECLARED]


@pytest.mark.parametrize(
    ("path", "text", "share"),
    [
        ("/users/123", 'router.get("/users/{id}", show)', 0.95),
        ("/users/123", "get '/users/:id', to: 'users#show'", 0.95),
        ("/users/123", '@app.route("/users/<int:id>")', 0.95),
        ("/users/123", 'mux.HandleFunc("GET /users/{id}", show)', 0.95),
        ("/users/123", 'r.Route("/users", func() { r.Get("/{id}", show) })', 0.95),
        ("/api/v1/users", 'app.use("/api/v1", users)', 2 / 3),
        ("/rails/info/routes", 'get "rails/info/routes" => "rails/info#routes"', 1.0),
        ("/rails/info/routes", 'require "rails/info"', 0.0),
        ("/api/v1/users/123", 'app.get("/users")', 0.0),
        ("/users/123", 'router.get("/{name}", show)', 0.0),
        ("/users/123", "the path /users/{id} shows a user", 0.0),
        ("/users/123", "// @Router /users/{id} [get]\nfunc Show() {}", 0.95),
        ("/users/123", "paths:\n  /users/{id}:\n    get:", 0.95),
        ("/users/123", "GET  /users/:id  controllers.Users.show(id)", 0.95),
        ("/api/v1/users/123", "mux.Get(`${prefix}/users/:id`, show)", 1.9 / 3),
        ("/api/v1/users/123", 'app.get(PREFIX + "/users/:id", show)', 1.9 / 3),
        ("/users/123", "resources :users, only: [:show]", 0.95),
        ("/users/new", 'Route::resource("users", Users::class)', 1.0),
        ("/users/123/edit", "resources :users", 2.9 / 3),
        ("/mod/users/123/ban", "namespace :mod do\n resources :users do\n  post :ban", 3.9 / 4),
        ("/users/me", "@Controller('users')\nclass Users {\n  @Get('me')", 1.0),
        ("/api/users/123", '@RequestMapping("api")\n@GetMapping("users/{id}")', 2.9 / 3),
        ("/users/123", 're_path(r"^users/(?P<id>[^/]+)/$", show)', 0.95),
        ("/users/page/2", 'get "/users(/page/:page)" => "users#index"', 2.9 / 3),
        ("/users", 'get "/users(.:format)" => "users#index"', 1.0),
        ("/~alice/stories", 'get "/~:name/stories"', 0.95),
        ("/users", 'names.get("users")', 0.0),
        ("/users", 'redirect_to "/users"', 0.5),
        ("/users", "return request.post<User>(\n  '/users',\n)", 0.5),
        ("GET /users", "// @Router /users [get]\n", 1.0),
        ("GET /users", "// @Router /users [post]\n", 0.8),
        ("DELETE /users/123", '@PutMapping("/users/{id}")', 0.76),
        ("PUT /users/123", '@PutMapping("/users/{id}")', 0.95),
        ("/users/123", 'router.get("/groups/{id}", show)', 0.0),
    ],
)
def test_code_that_declares_a_url_path_is_recognised(candidate, path, text, share):
    assert feature(features.route, path, candidate("src/a.x", text)) == [pytest.approx(share)]


def test_a_route_counts_in_source_before_tests_and_never_in_documents(candidate):
    text = 'get("/users/1")'
    source, test = candidate("a.py", text), candidate("test_a.py", text, category=Category.TEST)
    docs = candidate("a.md", text, category=Category.DOCS)

    assert feature(features.route, "/users/1", source, test, docs) == [1.0, 0.0, 0.0]
    assert feature(features.route, "/users/1", test, docs) == [1.0, 0.0]


@pytest.mark.parametrize(
    ("snippet", "share"),
    [
        ("if not pool:\n    return open(pool)", 1.0),
        ("\t\tif not pool:\n\n\t\t\treturn open(pool)\n}", 1.0),
        ("if not pool:\n    return open(pole)", 12 / 29),
        ("while pool:\n    pool.close()", 0.0),
        ("return open(pool)", 0.0),
    ],
)
def test_a_snippet_is_found_by_its_lines_whatever_their_indentation(candidate, snippet, share):
    text = "def get(self):\n        if not pool:\n            return open(pool)\n"

    assert feature(features.snippet, snippet, candidate("a.py", text)) == [pytest.approx(share)]


def test_tests_within_a_source_file_of_rust_are_tests(candidate):
    given = [
        candidate("a.rs", symbol=symbol, language=language)
        for symbol, language in [
            ("tests.retries", "rust"),
            ("tests", "rust"),
            ("Retry.tests_left", "rust"),
            ("tests.retries", "python"),
        ]
    ]

    assert feature(features.test, "retry", *given) == [1.0, 1.0, 0.0, 0.0]


def test_an_example_ranks_lower_unless_it_is_asked_for(candidate):
    folders = ("examples", "benchmark", "_examples/rest", "docs_src", "src")
    given = [candidate(f"{folder}/a.py") for folder in folders]

    assert feature(features.example, "retry", *given) == [1.0, 1.0, 1.0, 1.0, 0.0]
    assert feature(features.example, "an example of retry", *given) == [0.0] * 5


@pytest.mark.parametrize(
    ("path", "declares"),
    [
        ("include/uv.h", 1.0),
        ("lib/index.d.ts", 1.0),
        ("src/typing.pyi", 1.0),
        ("src/core.c", 0.0),
        ("lib/index.ts", 0.0),
    ],
)
def test_a_header_declares_what_another_file_defines(candidate, path, declares):
    assert feature(features.declaration, "close a handle", candidate(path)) == [declares]


KINDS = (Kind.CLASS, Kind.METHOD, Kind.CONSTANT, Kind.TEXT)


def test_a_function_ranks_below_the_type_that_contains_it(candidate):
    given = [candidate(f"{kind}.py", kind=kind) for kind in KINDS]

    assert feature(features.detail, "follow redirects", *given) == [0.0, 1.0, 1.0, 0.0]


@pytest.mark.parametrize(
    ("query", "values"),
    [
        ("how are redirects followed", [1.0, 0.0, 0.0, 0.0]),
        (" Where is the pool kept?", [1.0, 0.0, 0.0, 0.0]),
        ("follow redirects", [0.0] * 4),
        ("is_redirect", [0.0] * 4),
        ("Which", [0.0] * 4),
        ("whatever follows redirects", [0.0] * 4),
    ],
)
def test_a_question_is_answered_by_types_first(candidate, query, values):
    given = [candidate(f"{kind}.py", kind=kind) for kind in KINDS]

    assert feature(features.type_for_question, query, *given) == values


@pytest.mark.parametrize(
    ("query", "value"),
    [
        ("where is the default timeout configured", 1.0),
        (" Where are the LIMITS set?", 1.0),
        ("where do I change the settings of the pool", 1.0),
        ("where is the timeout defined", 0.0),
        ("where is the setup of the pool", 0.0),
        ("how is the default timeout configured", 0.0),
        ("default timeout", 0.0),
    ],
)
def test_files_of_settings_come_first_if_the_query_asks_where_a_value_is_set(
    candidate, query, value
):
    of_settings = ("httpx/_config.py", "lib/defaults/index.js", "zls/BuildOptions.zig", ".config")
    others = ("httpx/_client.py", "lib/core/http.js", "config_v2/deep/http.py", "confirm.py")
    given = [candidate(path) for path in of_settings + others]

    assert feature(features.settings, query, *given) == [value] * 4 + [0.0] * 4


@pytest.mark.parametrize(
    ("query", "is_older"),
    [
        ("parse a schema", [1.0, 0.0, 0.0, 0.0]),
        ("parse a schema of v3", [0.0, 0.0, 0.0, 0.0]),
    ],
)
def test_the_newer_of_two_trees_ranks_higher_unless_the_older_one_is_named(
    candidate, query, is_older
):
    paths = ("src/v3/types.ts", "src/v4/core/parse.ts", "other/v2/a.ts", "src/index.ts")

    assert feature(features.older, query, *map(candidate, paths)) == is_older


def test_versions_in_different_repositories_are_not_compared(candidate):
    given = (candidate("v1/a.go"), candidate("v2/a.go"))
    apart = [
        c._replace(chunk=c.chunk._replace(repository=name))
        for c, name in zip(given, ("acme/one", "acme/two"), strict=True)
    ]

    assert feature(features.older, "parse", *given) == [1.0, 0.0]
    assert feature(features.older, "parse", *apart) == [0.0, 0.0]


@pytest.mark.parametrize(
    ("text", "share"),
    [
        ("the thread pools", 1.0),
        ("thread_pool = 1", 1.0),
        ("new ThreadPool()", 1.0),
        ("pool of threads", 0.0),
        (f"{'pools ' * 50}thread-pool", 1.0),
        (f"{'pools ' * 50}threads, pools", 0.0),
    ],
)
def test_adjacent_words_count_where_they_are_adjacent_in_the_code(candidate, text, share):
    assert feature(features.phrase, "thread pool", candidate("a.py", text)) == [share]


def calls(function):
    """Return how many C functions the call calls, which varies less than its time."""
    made = []
    before = sys.getprofile()
    gc.disable()  # collecting garbage calls functions too, whenever it happens
    sys.setprofile(lambda frame, event, argument: made.append(event))
    try:
        function()
    finally:
        sys.setprofile(before)
        gc.enable()
    return made.count("c_call")


@pytest.mark.parametrize("query", ["x 0 y 1", "function t e n r o"])
def test_a_table_of_digits_needs_no_more_steps_than_a_short_text(candidate, query):
    def taken(rows):
        given = [candidate("a.csv", f"function x, y{', 0 t, 1 e, n, r, o' * rows}")]
        group = QueryGroup(analysis(query), given)
        assert group.bodies.all()
        return calls(group.adjacent)

    taken(1)  # what only a first call does
    assert taken(1_000) == taken(20)


def test_the_best_chunks_of_a_file_count_together(candidate):
    given = (
        candidate("a.py", similarity=0.5, start_line=1),
        candidate("a.py", similarity=0.5, start_line=9),
        candidate("b.py", similarity=0.6),
        candidate("c.py", similarity=0.1),
    )

    values = feature(features.file_similarities, "retry", *given)

    assert values == pytest.approx([1.0, 1.0, 0.625, 0.0])


def test_a_repository_with_several_good_hits_ranks_above_one_with_a_single_one(candidate):
    given = [candidate(f"{n}.py", keyword=n) for n in (4.0, 3.0, 5.0)]
    apart = [
        c._replace(chunk=c.chunk._replace(repository=name))
        for c, name in zip(given, ("acme/one", "acme/one", "acme/two"), strict=True)
    ]

    values = feature(features.repository_keyword, "retry", *apart)

    assert values == pytest.approx([1.0, 1.0, 5 / 7])


def test_a_query_that_describes_a_change_wants_its_tests_and_documents_too(candidate):
    given = (
        candidate("tests/test_a.py", category=Category.TEST),
        candidate("CHANGES.md", category=Category.DOCS),
        candidate("src/a.py"),
    )

    assert feature(features.test, "fix the retry of calls", *given) == [0.5, 0.0, 0.0]
    assert feature(features.docs, "fix the retry of calls", *given) == [0.0, 0.5, 0.0]
    assert feature(features.test, "how are calls retried", *given) == [1.0, 0.0, 0.0]


def test_a_package_called_tools_is_not_an_example(candidate):
    given = (
        candidate("src/main/java/tools/jackson/Parser.java"),
        candidate("core/src/main/java/tools/Parser.java"),
        candidate("tools/src/main/java/acme/Release.java"),
    )

    assert feature(features.example, "parser", *given) == [0.0, 0.0, 1.0]


@pytest.mark.parametrize(
    ("one", "other", "are_same"),
    [
        ("route", "route", True),
        ("routing", "routes", True),
        ("cache", "caching", True),
        ("config", "configuration", False),
        ("form", "format", True),
        ("in", "into", False),
        ("test", "rest", False),
    ],
)
def test_words_with_a_long_common_prefix_match(one, other, are_same):
    assert same(one, other) is are_same
    assert same(other, one) is are_same


def test_the_stem_of_a_file_is_its_name_without_the_last_extension():
    assert [stem_of(path) for path in ("a/b.py", "Sql.Async.cs", ".env", "Makefile", "")] == [
        "b",
        "Sql.Async",
        "env",
        "Makefile",
        "",
    ]


def test_names_that_the_store_keeps_are_not_computed_again(candidate):
    found = candidate("a.py", symbol="old", symbols=("old",))
    kept = found._replace(names=names_of("new", ("new",)))

    assert [place.score for place in ranked(analysis("new"), [kept])] > [
        place.score for place in ranked(analysis("new"), [found])
    ]


def test_a_class_that_is_asked_for_comes_before_a_function_of_its_name(candidate):
    found = [
        candidate(
            "src/sessions.py",
            'def session():\n    """Deprecated: create a class Session instead."""\n',
            symbol="session",
            symbols=("session",),
            kind=Kind.FUNCTION,
            keyword=6.0,
        ),
        candidate(
            "src/sessions.py",
            "class Session(Mixin):\n",
            symbol="Session",
            symbols=("Session",),
            kind=Kind.CLASS,
            keyword=5.0,
        ),
    ]

    assert ranked(analysis("class Session"), found)[0].candidate.chunk.symbol == "Session"
    assert ranked(analysis("def session"), found)[0].candidate.chunk.symbol == "session"
    assert feature(features.definition, "class Session", *found) == [0.5, 1.0]
    assert feature(features.definition, "def session", *found) == [1.0, 0.5]
    assert feature(features.definition, "Session", *found) == [1.0, 1.0]


MESSAGE = "cannot open the file again"


def test_the_chunk_with_a_message_comes_before_all_with_its_words(candidate):
    words = "open the file, and open again a file that cannot be opened: the file"
    found = ranked(
        analysis(MESSAGE),
        [
            candidate("src/file.py", words, keyword=9.0, similarity=0.9, symbol="open_file"),
            candidate("docs/guide.md", MESSAGE, keyword=8.0, category=Category.DOCS),
            candidate("src/a.c", f'error("{MESSAGE}");', keyword=1.0, similarity=None),
        ],
    )

    assert paths(found)[0] == "src/a.c"


@pytest.mark.parametrize(
    ("query", "content", "value"),
    [
        (MESSAGE, f'raise Failed("{MESSAGE}")', 1.0),
        (f'"{MESSAGE}"', f"raise Failed('{MESSAGE}')", 1.0),
        (MESSAGE, MESSAGE.upper(), 0.0),
        (MESSAGE, f"{MESSAGE}st", 0.0),
        ("--list-steps", 'eql(arg, "--list-steps")', 1.0),
        ("--list-steps", 'eql(arg, "--list-steps-all")', 0.0),
        ("list-steps", "--list-steps", 0.0),
        ("list steps", "list steps", 0.0),
    ],
)
def test_a_query_is_found_as_it_is_written(candidate, query, content, value):
    assert feature(features.verbatim, query, candidate("a.py", content)) == [value]


@pytest.mark.parametrize(
    ("query", "values"),
    [
        ("FromRequest", [1.0, 0.0, 0.5]),
        ("from_request", [0.0, 1.0, 0.0]),
        ("how is a FromRequest made", [1.0, 0.0, 0.5]),
        ("request", [0.0, 0.0, 0.0]),
    ],
)
def test_names_that_differ_only_by_case_are_distinguished(candidate, query, values):
    given = (
        candidate("a.rs", "trait FromRequest {}", symbol="FromRequest"),
        candidate("b.rs", "fn from_request() {}", symbol="router.from_request"),
        candidate("c.rs", "impl FromRequest for Json {}", symbol="Json"),
    )

    assert feature(features.as_written, query, *given) == values
