import pytest

from gateway.analyze.query import analysis, kind
from gateway.state import QueryKind

NATURAL, IDENTIFIER, CODE = QueryKind.NATURAL_LANGUAGE, QueryKind.IDENTIFIER, QueryKind.CODE


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("getUserById", IDENTIFIER),
        ("parse_args", IDENTIFIER),
        ("absl::StrCat", IDENTIFIER),
        ("Client.get()", IDENTIFIER),
        ("$this->run", IDENTIFIER),
        ("@app.route", IDENTIFIER),
        ("Foo#bar", IDENTIFIER),
        ("empty?", IDENTIFIER),
        ("authentication", IDENTIFIER),
        ("class HttpClient", IDENTIFIER),
        ("übergröße", IDENTIFIER),
        ("how are timeouts configured", NATURAL),
        ("where is parse_args called?", NATURAL),
        ("read a file; write it back", NATURAL),
        ("map keys => values", NATURAL),
        ("class that retries requests", NATURAL),
        ("查找 用户", NATURAL),
        ("def get(self, url):\n    return self.request('GET', url)", CODE),
        ("for (int i = 0; i < n; i++) { sum += a[i]; }", CODE),
        ("if err != nil {\n\treturn err\n}", CODE),
        ("const x = useState(null);", CODE),
        ("...", NATURAL),
    ],
)
def test_the_form_of_a_query_tells_its_kind(query, expected):
    assert kind(query) is expected


@pytest.mark.parametrize(
    ("query", "words", "identifiers"),
    [
        ("how does parse_args work", ("parse", "args", "parseargs", "work"), ("parse_args",)),
        ("getUser", ("get", "user", "getuser"), ("getUser",)),
        ("class HttpClient", ("class", "http", "client", "httpclient"), ("HttpClient",)),
        ("where is `Client.get` used?", ("client", "get"), ("Client.get",)),
        ("HTTP server options", ("http", "server", "options"), ()),
        ("an ArgParser.", ("arg", "parser", "argparser"), ("ArgParser",)),
        ("retry and retry", ("retry",), ()),
        ("what is it", ("what", "is", "it"), ()),
        ("Wo wird max_redirects geprüft?", ("max", "redirects", "maxredirects", "geprüft"),
         ("max_redirects",)),
        ("¿dónde se guarda la sesión?", ("guarda", "sesión"), ()),
        ("où est défini BasicAuth", ("défini", "basic", "auth", "basicauth"), ("BasicAuth",)),
        ("does the child die in los_angeles", ("child", "die", "los", "angeles", "losangeles"),
         ("los_angeles",)),
    ],
)  # fmt: skip
def test_words_are_index_terms_and_identifiers_are_as_written(query, words, identifiers):
    found = analysis(query)

    assert found.words == words
    assert found.identifiers == identifiers


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("connection refused by peer", "connection refused by peer"),
        (' "connection refused by peer" ', "connection refused by peer"),
        ("`if err != nil {`", "if err != nil {"),
        ("--gather-outputs", "--gather-outputs"),
        ("cluster-announce-hostname", "cluster-announce-hostname"),
        ("server.port", "server.port"),
        ("connection refused", ""),
        ("parse_args", ""),
        ("authentication", ""),
        ("", ""),
        ("''", ""),
        ("a b " * 1_000, ""),
    ],
)
def test_a_message_or_a_key_is_searched_as_it_is_written(query, expected):
    assert analysis(query).verbatim == expected


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("--dry-run", "--dry-run"),
        ("--future", "--future"),
        ("'server.port'", "server.port"),
        (":body_limit", "body_limit"),
        ("max_body_size", "max_body_size"),
        ("keepAliveTimeout", "keepAliveTimeout"),
        ("EDITOR", "EDITOR"),
        ("SSL_CERT_FILE", "SSL_CERT_FILE"),
        ("JSON", ""),
        ("retry", ""),
        ("src/app.py", ""),
        ("class HTTPServer", ""),
        ("Broken pipe", "Broken pipe"),
        ("set the body_limit", ""),
    ],
)
def test_a_flag_an_option_or_a_variable_is_a_key(query, expected):
    assert analysis(query).key == expected


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("/users/123", ("users", "123")),
        ("GET /users/123/", ("users", "123")),
        ("https://api.example.com:8080/v1/users?page=2#top", ("v1", "users")),
        ("`/health`", ("health",)),
        ("https://example.com", ()),
        ("src/users/app.py", ()),
        ("read /etc/hosts and print it", ()),
        ("/users/123: not found", ()),
    ],
)
def test_a_url_path_in_a_query_is_split_into_parts(query, expected):
    assert analysis(query).url_path == expected


@pytest.mark.parametrize(
    "query", ["設定はどこで読み込まれますか", "配置文件在哪里加载", "인증토큰검증위치"]
)
def test_a_question_without_spaces_is_prose_and_searched_as_it_is_written(query):
    found = analysis(query)

    assert (found.kind, found.verbatim) == (QueryKind.NATURAL_LANGUAGE, query)
    assert analysis("加载配置").kind is QueryKind.IDENTIFIER


@pytest.mark.parametrize(
    ("query", "is_change"),
    [
        ("Fix crash when the header is empty", True),
        ("feat(client)!: stream uploads", True),
        ("http2: avoid a second copy", True),
        ("docs: typo", True),
        ("add the time to every event", False),
        ("where is the fix for retries", False),
        ("TypeError: cannot set attribute", False),
        ("prefix of a path", False),
        ("fixture of a client", False),
    ],
)
def test_a_subject_of_a_commit_is_recognised(query, is_change):
    assert analysis(query).is_change is is_change
