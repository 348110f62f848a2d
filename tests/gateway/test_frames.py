"""A stack trace in the query leads to the function of the innermost frame that is indexed."""

from __future__ import annotations

import pytest

from codelode.access import EVERYTHING, Principal, Role
from gateway import service
from gateway.analyze.frames import MAX_FRAMES, frames
from gateway.service.requests import GivenFilters, SearchRequest
from tests.worlds import World

ASKING = Principal("ann", Role.READER, EVERYTHING)

GO = """panic: runtime error: invalid memory address or nil pointer dereference
[signal SIGSEGV: segmentation violation code=0x1 addr=0x0 pc=0x48f2b1]

goroutine 18 [running]:
panic({0x4a2e20?, 0x55b9a0?})
\t/usr/local/go/src/runtime/panic.go:770 +0x132
main.(*Server).handle.func1()
\t/build/app/src/server.go:14 +0x1d
main.(*Server).handle(0xc00012e000, {0x0, 0x0})
\t/build/app/src/server.go:16 +0x1d
main.serve(...)
\t/build/app/src/main.go:9
main.main()
\t/build/app/src/main.go:5 +0x20
created by main.start in goroutine 1
\t/build/app/src/main.go:20 +0x5c
"""
PYTHON = """Traceback (most recent call last):
  File "/srv/app/main.py", line 8, in main
    run(1)
  File "/srv/app/jobs.py", line 2, in run
    return json.loads(text)
  File "/usr/lib/python3.11/json/decoder.py", line 355, in raw_decode
    raise JSONDecodeError("Expecting value", s, err.value) from None
"""
FILES = {
    "src/main.go": (
        "package main\n\nfunc main() {\n\tstart()\n\tserve()\n}\n\n"
        "// panic: runtime error: goroutine running main.serve created by main.start\n"
        "func serve() {\n\tnew(Server).handle(nil)\n}\n\n"
        "func start() {\n\tgo serve() // goroutine: main serve handle Server\n}\n"
    ),
    "src/server.go": (
        "package main\n\ntype Server struct{}\n\ntype Client struct{}\n\n"
        "// handle of a client: panic, runtime error, nil pointer dereference\n"
        "func (c *Client) handle(text []byte) {\n\tpanic(text)\n}\n\n"
        "func (s *Server) handle(text []byte) {\n"
        "\tdefer func() {\n\t\trecover()\n\t}()\n\tlog(text[0])\n}\n"
    ),
    "other/server.go": "package other\n\nfunc handle() {}\n",
    "app/main.py": (
        "def run(text):\n    return text\n\n\ndef main():\n    from jobs import run\n\n    run(1)\n"
    ),
    "app/jobs.py": "def run(text):\n    return json.loads(text)\n",
}


@pytest.fixture
def search(settings):
    world = World(settings)
    world.index("acme/app", FILES)

    async def searched(text, **filters):
        request = SearchRequest(query=text, filters=GivenFilters(**filters))
        answer = await service.search(world.dependencies, ASKING, request)
        return [(hit.path, hit.symbol) for hit in answer.hits]

    return searched


CARGO = "/home/ann/.cargo/registry/src/index.crates.io-6f17d22bba15001f"


@pytest.mark.parametrize(
    ("path", "meant"),
    [
        ("/usr/lib/python3/site-packages/flask/app.py", "src/flask/app.py"),
        ("/venv/lib/python3.11/site-packages/flask/json/tag.py", "flask/json/tag.py"),
        ("/usr/lib/python3/dist-packages/six.py", "six.py"),
        (f"{CARGO}/tokio-1.38.0/src/lib.rs", "tokio/src/lib.rs"),
        (f"{CARGO}/tokio-1.38.0/src/lib.rs", "src/lib.rs"),
        (f"{CARGO}/x-2.0.0-rc.1/src/lib.rs", "crates/x/src/lib.rs"),
        ("/home/ann/gems/activerecord-7.0.1/lib/base.rb", "activerecord/lib/base.rb"),
        ("/go/pkg/mod/github.com/acme/sdk/trace@v1.2.0/span.go", "trace/span.go"),
        ("/srv/gems/lib/load-1.rb", "gems/lib/load-1.rb"),
        ("/srv/registry/src/lib.rs", "registry/src/lib.rs"),
        ("/srv/release-2/src/lib.rs", "release-2/src/lib.rs"),
    ],
)
def test_the_path_of_an_installed_package_can_mean_a_path_in_its_repository(path, meant):
    (frame,) = frames(f"{path}:12")
    assert frame.may_mean(meant)


async def test_a_trace_of_an_installed_package_leads_to_its_source(settings):
    world = World(settings)
    world.index("acme/lib", {f"src/lib/{path[4:]}": text for path, text in FILES.items()})
    trace = PYTHON.replace("/srv/app/", "/usr/lib/python3/site-packages/lib/")

    answer = await service.search(world.dependencies, ASKING, SearchRequest(query=trace))

    assert [(hit.path, hit.symbol) for hit in answer.hits][:2] == [
        ("src/lib/jobs.py", "run"),
        ("src/lib/main.py", "main"),
    ]


async def test_a_go_trace_leads_to_the_innermost_own_function(search):
    found = await search(GO)
    assert found[0] == ("src/server.go", "Server.handle")
    assert ("other/server.go", "handle") not in found[:3]


#: What a handler of panics prints, which is above the panic itself.
RECOVERED = GO.replace(
    "panic({0x",
    "runtime/debug.Stack()\n\t/usr/local/go/src/runtime/debug/stack.go:26 +0x64\n"
    "main.serve.func1()\n\t/build/app/src/main.go:10 +0x1d\npanic({0x",
)


async def test_a_go_trace_of_a_handler_of_panics_leads_to_the_function_that_panicked(search):
    assert (await search(RECOVERED))[0] == ("src/server.go", "Server.handle")
    again = RECOVERED.replace("running]:\n", "running]:\npanic({0x1})\n\t/go/panic.go:1004 +0x1\n")
    assert (await search(again))[0] == ("src/server.go", "Server.handle")


async def test_a_python_trace_ends_with_the_innermost_frame(search):
    found = await search(PYTHON)
    assert found[:2] == [("app/jobs.py", "run"), ("app/main.py", "main")]


async def test_the_filters_of_the_query_bound_the_frames_too(search):
    assert all(path == "src/main.go" for path, _ in await search(GO, paths=("src/main.go",)))
    assert all(path.endswith(".py") for path, _ in await search(GO, languages=("python",)))


def test_frames_are_read_innermost_first_up_to_a_bound():
    assert [(frame.function, frame.line) for frame in frames(GO)] == [
        *(("panic", 770), ("handle", 14), ("handle", 16), ("serve", 9), ("main", 5)),
    ]
    assert [frame.function for frame in frames(PYTHON)] == ["raw_decode", "run", "main"]
    assert frames("where is main go:5 read(") == ()
    assert len(frames("main.f()\n\t/a.go:1 +0x1\n" * 50)) == MAX_FRAMES


SCRIPT = """TypeError: Cannot read properties of undefined (reading 'id')
    at handle (/build/app/web/page.js:5:9)
    at process.processTicksAndRejections (node:internal/process/task_queues:95:5)
    at async start (/build/app/web/main.js:2:3)
"""
PAGE = "export function draw() {\n  return 1;\n}\nexport function handle(user) {\n  user.id;\n}\n"


@pytest.mark.parametrize(
    ("query", "first"),
    [
        ("src/server.go:16", ("src/server.go", "Server.handle")),
        ("server.go:9", ("src/server.go", "Server.handle")),
        ("./app/main.py:8:5: error: name is not defined", ("app/main.py", "main")),
        (r"D:\build\app\main.py(8): error", ("app/main.py", "main")),
        ("in /srv/app/main.py:line 8", ("app/main.py", "main")),
        ("Warning: bad name in /srv/app/main.py on line 8", ("app/main.py", "main")),
        ("what happens at app/main.py:2", ("app/main.py", "main")),
    ],
)
async def test_a_line_of_a_file_leads_to_the_chunk_that_holds_it(search, query, first):
    assert (await search(query))[0] == first


async def test_a_line_that_many_repositories_have_leads_to_all_of_them_with_a_notice(settings):
    world = World(settings)
    text = "fn main() {\n    let port = read().unwrap();\n    serve(port);\n}\n"
    for name in ("acme/cli", "acme/web"):
        world.index(name, {"src/main.rs": text.replace("port", name[5:])})
    world.index("acme/kit", {"examples/a/src/main.rs": text, "src/main.rs": "fn main() {}\n"})
    query = "thread 'main' panicked at src/main.rs:2:23:\ncalled `Option::unwrap()`"

    answer = await service.search(world.dependencies, ASKING, SearchRequest(query=query))
    found = [(hit.repository, hit.path) for hit in answer.hits]

    assert sorted(found[:2]) == [("acme/cli", "src/main.rs"), ("acme/web", "src/main.rs")]
    assert found[2] == ("acme/kit", "examples/a/src/main.rs")
    assert any("'src/main.rs:2' may be in any of 3 files" in one for one in answer.notices)
    request = SearchRequest(query=query, filters=GivenFilters(repositories=("acme/web",)))
    answer = await service.search(world.dependencies, ASKING, request)
    assert (answer.hits[0].repository, answer.notices) == ("acme/web", ())


async def test_a_trace_of_another_language_leads_to_its_first_line_that_is_indexed(settings):
    world = World(settings)
    world.index("acme/web", {"web/page.js": PAGE, "web/main.js": "start();\nawait run();\n"})
    answer = await service.search(world.dependencies, ASKING, SearchRequest(query=SCRIPT))

    assert answer.hits[0].path == "web/page.js"
    assert answer.hits[0].start_line <= 5 <= answer.hits[0].end_line


#: A file of more chunks than a search finds.
LONG = "".join(f"def other_{n}(value):\n    return value\n\n\n" for n in range(9_000))


async def test_a_line_beyond_what_the_words_find_is_read_from_the_file(search, settings):
    world = World(settings)
    world.index("acme/long", {"src/long.py": LONG})
    request = SearchRequest(query="src/long.py:33001")
    answer = await service.search(world.dependencies, ASKING, request)

    assert answer.hits[0].start_line <= 33_001 <= answer.hits[0].end_line


async def test_the_first_of_several_lines_heads_the_ranking_wherever_it_is(settings):
    world = World(settings)
    world.index("acme/long", {"src/long.py": LONG, "src/short.py": "def run():\n    return 1\n"})
    request = SearchRequest(query="src/long.py:33001: failed\nsrc/short.py:1: called from here")
    answer = await service.search(world.dependencies, ASKING, request)

    first, second, *_ = answer.hits
    assert first.path == "src/long.py"
    assert first.start_line <= 33_001 <= first.end_line
    assert second.path == "src/short.py"


@pytest.mark.parametrize(
    ("trace", "path", "line"),
    [
        ('  File "/srv/jobs.py", line 7\n    def f(:\nSyntaxError: invalid', "/srv/jobs.py", 7),
        (
            "IllegalStateException: closed\n\tat acme.Pool.take(Pool.java:31)\n"
            "\tat acme.Main.main(Main.java:8)",
            "Pool.java",
            31,
        ),
        ("    at run (/app/page.js:5:9)\n    at start (/app/main.js:2:3)", "/app/page.js", 5),
        ("    at file:///app/main.mjs:2:3", "///app/main.mjs", 2),
        ("thread 'main' panicked at src/pool.rs:31:9:\nindex out of bounds", "src/pool.rs", 31),
        ("app/pool.rb:31:in 'Pool#take': closed (Error)\n\tfrom main.rb:8", "app/pool.rb", 31),
        ("   at Acme.Pool.Take(Int32 n) in /src/Pool.cs:line 31", "/src/Pool.cs", 31),
        ("PHP Fatal error: closed in /www/Pool.php:31\n#0 /www/a.php(8): f()", "/www/Pool.php", 31),
        ("PHP Warning: Undefined variable $x in /www/Pool.php on line 31", "/www/Pool.php", 31),
        ("closed at lib/Pool.pm line 31.", "lib/Pool.pm", 31),
        ("Fatal error: closed: file Sources/Pool.swift, line 31", "Sources/Pool.swift", 31),
        ("./deploy.sh: line 31: foo: command not found", "deploy.sh", 31),
        ("deploy.sh: line 31: foo: command not found", "deploy.sh", 31),
        ("why does `pool.py` line 31 fail", "pool.py", 31),
        ("pool.py line 31", "pool.py", 31),
        ("closed: pool.py (line 31)", "pool.py", 31),
        ("pool.py, Line 31", "pool.py", 31),
        ('"pool.acme", line 31', "pool.acme", 31),
        (r"src\pool.acme line 31", "src/pool.acme", 31),
        ("https://git.example.org/acme/app/src/pool.py#L31-L40", "src/pool.py", 31),
        ("https://git.example.org/acme/app/src/pool.py#L31C5-L40C9", "src/pool.py", 31),
        ("https://git.example.org/README.md?plain=1#L31", "README.md", 31),
        ("https://git.example.org/pool.py?at=refs%2Fheads/v1.2#lines-31", "pool.py", 31),
    ],
)
def test_the_first_place_of_a_trace_of_any_language_is_read(trace, path, line):
    first = frames(trace)[0]

    assert (first.path[-len(path) :], first.line) == (path, line)


@pytest.mark.parametrize(
    "query",
    [
        *("localhost:8080", "at 10:30", "version 3.5:1", "f(12)", "a/b:12", "x.:3"),
        *("ends at line 3", "a.b #L3", "pool.py#L3x", "pool.py#L3Cx", "pool.py: 31 errors"),
        *("an abbreviation, e.g line 5", "at 9 a.m, line 5", "the U.S line 3", "e.g: line 5"),
        *("v1.x line 4", "ASP.NET line 3", "Node.js line 80 limit", "vue.js (line 3)"),
    ],
)
def test_text_that_only_looks_like_a_location_is_not_one(query):
    assert frames(query) == ()
