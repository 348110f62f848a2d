"""The pages of a real gateway over in-memory twins: what they show, to whom, and how they fail."""

from __future__ import annotations

import re
import subprocess
import sys
import zipfile
from html import unescape
from pathlib import Path

import pytest
from jinja2 import DictLoader, Environment
from structlog.testing import capture_logs

from codelode.settings import Settings
from gateway.api.web import assets
from gateway.api.web.headers import POLICY
from gateway.api.web.labels import worded
from gateway.api.web.links import code_url
from gateway.api.web.pages import PART
from gateway.api.web.parameters import TOP_K, SearchParameters
from gateway.api.web.rendering import CompiledTemplates
from gateway.service import limits
from tests.http_gateways import RIGHT, serving
from tests.worlds import World

ROOT = Path(__file__).parents[2]
HTML = {"accept": "text/html"}
HITS = {
    "src/pool.py": "class Pool:\n    def close(self):\n        return self.sessions\n",
    "src/long.go": "package a\n\nfunc CloseSessions() {\n" + "\tx := 1\n" * 40 + "}\n",
    "docs/guide.md": "# Sessions\n\nClose sessions <script>planted</script> & more.\n",
}


@pytest.fixture
async def client(tmp_path):
    async with serving(tmp_path) as (client, _):
        yield client


@pytest.fixture
async def two(tmp_path):
    """A client of a gateway over two repositories, which only admins see."""
    world = World(Settings(data=tmp_path))
    for name in ("acme/app", "acme/web"):
        world.index(name, HITS)
    async with serving(tmp_path, dependencies=world.dependencies) as (client, _):
        yield client


def links(page):
    return [unescape(one) for one in re.findall(r'href="([^"]+)"', page.text)]


def paths(page):
    return paths_in(page.text)


def paths_in(text):
    return re.findall(r'class="path">([^<]+)<', text)


@pytest.mark.parametrize("has_folder", [True, False])
def test_templates_are_compiled_once_if_the_cache_folder_exists(tmp_path, monkeypatch, has_folder):
    monkeypatch.setattr(sys, "pycache_prefix", str(tmp_path))
    if has_folder:
        Path(CompiledTemplates().directory).mkdir(parents=True)
    compiled = []

    class Counting(Environment):
        def compile(self, *args, **options):
            compiled.append(args)
            return super().compile(*args, **options)

    for text in ("one", "one", "two"):
        given = Counting(loader=DictLoader({"a": text}), bytecode_cache=CompiledTemplates())
        assert given.get_template("a").render() == text

    assert len(compiled) == (2 if has_folder else 3)


async def test_the_page_has_the_hits_of_the_api_by_file_in_their_order(two):
    for query in ("close sessions", "Pool", "CloseSessions", "guide", "return self.sessions"):
        page = await two.get("/search", params={"q": query})
        body = {"query": query, "top_k": 30}
        answer = (await two.post("/api/v1/search", json=body)).json()

        files = list(dict.fromkeys(hit["path"] for hit in answer["hits"]))
        assert list(dict.fromkeys(paths(page))) == files
        ranges = [f"{hit['start_line']}–{hit['end_line']}" for hit in answer["hits"]]
        assert sorted(re.findall(r'class="range">([^<]+)<', page.text)) == sorted(ranges)
        assert f"{len(answer['hits'])} hit" in page.text


async def test_the_hits_of_a_file_are_in_the_order_of_their_ranks(tmp_path):
    lines = "".join(f"    step_{n} = pool.fetch({n}, timeout={n})\n" for n in range(40))
    names = ("use_sessions", "open_other", "close_sessions")
    world = World(Settings(data=tmp_path))
    world.index("acme/app", {"a.py": "".join(f"def {one}(pool):\n{lines}\n\n" for one in names)})
    async with serving(tmp_path, dependencies=world.dependencies) as (client, _):
        page = await client.get("/search?q=close_sessions")
        body = {"query": "close_sessions", "top_k": 30}
        answer = (await client.post("/api/v1/search", json=body)).json()

    ranges = [f"{hit['start_line']}–{hit['end_line']}" for hit in answer["hits"]]
    assert answer["hits"][0]["symbol"] == "close_sessions"
    assert ranges != sorted(ranges, key=lambda one: int(one.partition("–")[0]))
    assert re.findall(r'class="range">([^<]+)<', page.text) == ranges


async def test_code_is_escaped_and_matches_are_marked(two):
    page = await two.get("/search?q=sessions&language=markdown")

    assert "&lt;script&gt;planted&lt;/script&gt; &amp; more." in page.text
    assert "<script>planted" not in page.text
    assert "<mark>Sessions</mark>" in page.text


async def test_a_hit_links_to_its_lines_in_the_code_view(two):
    page = await two.get("/search?q=Pool&repo=acme/app&ref=main")

    assert "/code?repository=acme%2Fapp&ref=main&path=src%2Fpool.py&lines=1-3#L1" in links(page)
    assert code_url("a/b", "x y&z.py", "fe#1", (3, 4)) == (
        "/code?repository=a%2Fb&ref=fe%231&path=x+y%26z.py&lines=3-4#L3"
    )


async def test_long_hits_are_cut_to_the_lines_that_match_and_say_so(two):
    page = await two.get("/search?q=CloseSessions&language=go&repo=acme/app")

    assert page.text.count("<li value=") <= 12
    assert "func <mark>CloseSessions</mark>()" in page.text
    assert re.search(r"\d+ lines below", page.text)


async def test_the_counts_of_chips_are_of_the_hits_on_all_pages(tmp_path):
    world = World(Settings(data=tmp_path))
    for name, count in (("acme/app", TOP_K + 5), ("acme/web", 7)):
        files = {f"{name[5:]}/{n}.py": f"def session_{n}_{name[5:]}(): ...\n" for n in range(count)}
        world.index(name, files)
    async with serving(tmp_path, dependencies=world.dependencies) as (client, _):
        page = await client.get("/search?q=session")

    assert f"{TOP_K} hits" in page.text
    assert f"counts are of the {TOP_K + 12} hits on all pages" in page.text
    shown = re.findall(r'class="chip" href="[^"]*">(\S+) <span class="count">(\d+)<', page.text)
    assert shown == [
        ("acme/app", str(TOP_K + 5)),
        ("acme/web", "7"),
        ("app/**", str(TOP_K + 5)),
        ("web/**", "7"),
    ]


async def test_a_scope_is_offered_and_then_limits_the_search(tmp_path):
    world, declared = World(Settings(data=tmp_path)), tmp_path / "scopes.yaml"
    for name, ref in (("acme/app", "main"), ("acme/web", "v1")):
        world.index(name, HITS, ref=ref)
    declared.write_text(
        "scopes:\n"
        "  app: {repositories: [acme/app], paths: ['src/**'], description: The <app>}\n"
        "  old: {repositories: [acme/*], refs: [v1]}\n"
        "  hidden: {repositories: [other/*]}\n"
    )
    given = {"dependencies": world.dependencies, "scopes": str(declared)}
    async with serving(tmp_path, **given) as (client, _):
        start = await client.get("/")
        assert '<a href="/search?scope=app">app</a>' in start.text
        assert "1 repository, The &lt;app&gt;" in start.text
        assert "scope=hidden" not in start.text
        wide = await client.get("/search?q=sessions")
        assert "/search?q=sessions&scope=app" in links(wide)
        narrow = await client.get("/search?q=sessions&scope=app")
        assert set(paths(narrow)) == {"src/pool.py", "src/long.go"}
        assert "Scope: app" in narrow.text
        assert "/search?q=sessions" in links(narrow)
        assert '<input type="hidden" form="search" name="scope" value="app">' in narrow.text
        assert "/search?q=sessions&scope=old" not in links(narrow)
        for old in ("/search?q=sessions&scope=old", "/search?q=sessions+ref:v1"):
            page = await client.get(old)
            at = "/code?repository=acme%2Fweb&ref=v1&path=src%2Fpool.py"
            assert any(one.startswith(at) for one in links(page)), old
        for where in ("+scope:app", "+repo:acme/*", "+ref:v1", "&repo=acme%2Fweb", "&ref=v1"):
            page = await client.get(f"/search?q=sessions{where}")
            assert page.status_code == 200, where
            assert not any("scope=" in one for one in links(page)), where
        lab = await client.get("/lab?q=sessions&scope=app")
        assert "Scope: app" in lab.text
        assert '<input type="hidden" name="scope" value="app">' in lab.text
        unknown = await client.get("/search?q=sessions&scope=ap")
        assert (unknown.status_code, "did you mean" in unknown.text) == (400, True)


async def test_the_link_to_all_copies_is_shown_only_if_there_are_copies(two):
    assert "Show all copies" in (await two.get("/search?q=sessions")).text
    assert "Show all copies" not in (await two.get("/search?q=sessions&repo=acme/app")).text


async def test_a_list_of_scopes_counts_as_a_call_and_is_left_out_beyond_the_limit(
    tmp_path, monkeypatch
):
    monkeypatch.setattr(limits, "BURST_S", 180)  # three calls, and another one after a minute
    declared = tmp_path / "scopes.yaml"
    declared.write_text("scopes: {app: {repositories: [acme/app]}}")
    given = {"limited": True, "scopes": str(declared)}
    async with serving(tmp_path, search_per_minute=1, **given) as (client, _):
        pages = [await client.get("/") for _ in range(3)]
    assert [page.status_code for page in pages] == [200, 200, 429]
    assert ["/search?scope=app" in links(page) for page in pages[:2]] == [True, False]
    async with serving(tmp_path, search_at_once=1, **given) as (client, _):
        page = await client.get("/search?q=load")
    assert (page.status_code, "Scope" in page.text) == (200, False)


async def test_chips_narrow_and_exclude(two):
    page = await two.get("/search?q=sessions")
    offered = links(page)

    assert "/search?q=sessions&repo=acme%2Fapp" in offered
    assert "/search?q=sessions&not_repo=acme%2Fapp" in offered
    assert "/search?q=sessions&path=src%2F%2A%2A" in offered
    narrowed = await two.get("/search?q=sessions&not_repo=acme%2Fapp")
    assert 'class="repository">acme/app' not in narrowed.text
    assert 'class="repository">acme/web' in narrowed.text
    assert "/search?q=sessions" in links(narrowed)  # removes the filter
    assert '<input type="hidden" form="search" name="not_repo" value="acme/app">' in narrowed.text


async def test_collapsed_results_show_the_best_file_of_each_repository(two):
    page = await two.get("/search?q=sessions&collapse=1&copies=1")

    shown = re.sub(r"<details class=\"folded\">.*?</details>", "", page.text, flags=re.DOTALL)
    assert len(paths_in(shown)) == 2
    assert len(paths(page)) > 2


async def test_copies_are_one_hit_that_unfolds_and_hits_of_their_own_on_request(two):
    page = await two.get("/search?q=Pool")

    copies = re.findall(r"<details class=\"copies\">.*?</details>", page.text, re.DOTALL)[0]
    assert "In 2 repositories" in copies
    assert ">acme/web</a>" in copies
    assert "/code?repository=acme%2Fweb&path=src%2Fpool.py&lines=1-3#L1" in unescape(copies)
    assert "/search?q=Pool&copies=1" in links(page)
    apart = await two.get("/search?q=Pool&copies=1")
    assert 'class="copies"' not in apart.text
    assert paths(apart).count("src/pool.py") == 2
    assert '<input type="hidden" form="search" name="copies" value="1">' in apart.text


async def test_messages_name_what_the_page_has_for_commands(two):
    page = await two.get("/search?q=sessions&repo=acme/ap")

    assert page.status_code == 400
    assert "`codelode" not in page.text
    assert "Repository" in page.text


def test_remedies_are_those_of_the_page():
    assert worded("none is indexed yet: run `codelode index URL_OR_PATH`") == (
        "none is indexed yet: use “Index a repository” under “Repositories”"
    )
    assert worded("(`codelode default NAME REF`)") == "(`codelode default NAME REF`)"
    assert worded("raise `limit` for more") == "raise the limit for more"


async def test_the_order_is_explained_where_it_is_asked_for(two):
    assert "table class" not in (await two.get("/search?q=sessions")).text
    page = await two.get("/search?q=sessions&why=1")
    assert 'class="why"' in page.text
    assert "rank." in page.text
    assert "analyze" in page.text


async def test_a_misspelt_name_is_suggested_as_a_link(two):
    page = await two.get("/search?q=ClosSessions")
    assert "/search?q=CloseSessions" in links(page)


async def test_a_url_contains_only_values_that_differ_from_the_defaults():
    asked = SearchParameters(q="a&b", repo=["x"], why=True, page="token")

    assert asked.url() == "/search?q=a%26b&repo=x&why=1"
    assert asked.without_value("repo", "x") == "/search?q=a%26b&why=1"
    assert asked.with_value("repo", "x") == asked.url()
    assert SearchParameters().url() == "/"


async def test_more_results_are_on_a_further_page(tmp_path):
    world = World(Settings(data=tmp_path))
    world.index("acme/app", {f"src/f{i}.py": f"def load_{i}():\n    pass\n" for i in range(50)})
    async with serving(tmp_path, dependencies=world.dependencies) as (client, _):
        first = await client.get("/search?q=load")
        (more,) = [one for one in links(first) if "page=" in one]
        second = await client.get(more)

    assert len(paths(first)) == 30
    assert paths(second)
    assert not set(paths(first)) & set(paths(second))


@pytest.mark.parametrize(
    ("path", "status", "said"),
    [
        ("/search?q=x&repo=acme/ap", 400, "did you mean &#39;acme/app&#39;?"),
        ("/search?q=x&colour=red", 400, "is unknown"),
        ("/search?q=x&collapse=maybe", 400, "collapse"),
        ("/search?q=x&page=forged", 400, "More results: is not a token"),
        ("/search?q=" + "x" * 20_000, 400, "Search: has 20,000 characters"),
        ("/no/such/page", 404, "there is no page at /no/such/page"),
        ("/static/x/none.css", 404, "there is no page"),
    ],
)
async def test_an_error_is_shown_as_a_page_with_the_remedy(client, path, status, said):
    page = await client.get(path, headers=HTML)

    assert page.status_code == status
    assert said in page.text
    assert 'role="alert"' in page.text
    assert f"<code>{page.headers['x-request-id']}</code>" in page.text


async def test_a_script_gets_parts_of_pages_and_the_status_of_errors(client):
    part = {PART: "1"}
    found = await client.get("/search?q=load", headers=part)
    assert "<html" not in found.text
    assert "src/a.py" in found.text
    refused = await client.get("/search?q=x&repo=no", headers=part)
    assert (refused.status_code, "<html" in refused.text) == (400, False)
    client.headers.pop("authorization")
    assert (await client.get("/search?q=load", headers=part)).status_code == 401


async def test_repositories_that_the_caller_may_not_see_are_on_no_page(two):
    key = {"name": "ann", "role": "reader"}
    made = (await two.post("/api/v1/keys", json=key)).json()["key"]
    await two.post("/api/v1/repositories/label", json={"repository": "acme/web", "label": "public"})
    reader = {"authorization": f"Bearer {made}", **HTML}
    pages = [
        await two.get(path, headers=reader)
        for path in (
            "/",
            "/search?q=sessions",
            "/search?q=Pool&why=1&collapse=1",
            "/search?q=x&repo=acme/ap",
            "/search?q=x&repo=acme/app",
        )
    ]

    assert "acme/web" in pages[0].text
    for page in pages:
        shown = (
            page.text.replace("acme/app&#39;", "") if "no repository" in page.text else page.text
        )
        assert "acme/app" not in re.sub(r'value="[^"]*"', "", shown)


async def test_a_limit_is_a_page_that_says_when_to_try_again(tmp_path):
    async with serving(tmp_path, limited=True, search_per_minute=6) as (client, _):
        answers = [await client.get("/search?q=load", headers=HTML) for _ in range(3)]

    assert answers[-1].status_code == 429
    assert "Try again in" in answers[-1].text
    assert int(answers[-1].headers["retry-after"]) >= 1


async def test_a_page_is_one_call_in_the_log(client):
    with capture_logs() as logs:
        await client.get("/search?q=secret-words")
    lines = [one for one in logs if one["event"] == "http"]

    assert [(one["method"], one["code"], one["principal"]) for one in lines] == [
        ("GET /search", "200", "token")
    ]
    assert "secret-words" not in repr(logs)


@pytest.mark.parametrize(
    "path", ["/", "/search?q=load", "/sign-in", "/nothing", "/api/v1/status", "/api/v1/nothing"]
)
async def test_every_answer_says_what_browsers_may_do_with_it(client, path):
    answer = await client.get(path, headers=HTML)

    assert answer.headers.get_list("content-security-policy") == [POLICY]
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["referrer-policy"] == "same-origin"


async def test_the_description_of_the_api_keeps_its_script(client):
    assert "content-security-policy" not in (await client.get("/api/docs")).headers


@pytest.mark.parametrize("path", ["/", "/search?q=load&why=1", "/sign-in", "/nothing"])
async def test_pages_have_no_inline_script_or_style_and_are_not_kept(client, path):
    page = await client.get(path, headers=HTML)

    assert not re.search(r"<script(?![^>]* src=)|<style|\son\w+=|style=", page.text)
    assert not re.search(r'(?:src|href)="(?:https?:)?//', page.text)
    if path != "/nothing":
        assert page.headers["cache-control"] == "no-store"


async def test_files_of_pages_are_kept_by_browsers_and_need_no_credentials(client):
    client.headers.pop("authorization")
    page = await client.get("/sign-in")
    files = [one for one in re.findall(r'(?:src|href)="([^"]+)"', page.text) if "static" in one]
    assert files
    for file in files:
        answer = await client.get(file)
        assert answer.status_code == 200
        assert "immutable" in answer.headers["cache-control"]
    old = await client.get(f"/static/0123/{next(iter(assets.FILES))}")
    assert (old.status_code, old.headers["cache-control"]) == (200, "no-store")
    for wrong in ("/static/x/../app.py", "/static/x/%2e%2e%2fapp.py"):
        assert (await client.get(wrong)).status_code == 404


async def test_before_anything_is_indexed_the_page_says_how(tmp_path):
    async with serving(tmp_path, dependencies=World(Settings(data=tmp_path)).dependencies) as (
        client,
        _,
    ):
        page = await client.get("/")
    assert "Nothing is indexed yet" in page.text
    assert "codelode index" in page.text


async def test_the_first_page_keeps_the_filters_that_are_chosen(client):
    page = await client.get("/?repo=acme/app", headers=RIGHT)
    assert 'name="repo" value="acme/app"' in page.text


@pytest.mark.slow
def test_the_wheel_has_the_files_of_the_pages(tmp_path):
    command = ("-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path))
    subprocess.run([sys.executable, *command], cwd=ROOT, check=True, capture_output=True)
    (wheel,) = tmp_path.glob("*.whl")
    held = set(zipfile.ZipFile(wheel).namelist())

    web = ROOT / "gateway/api/web"
    wanted = [one for one in web.rglob("*") if one.suffix in (".html", ".css", ".js", ".svg")]
    assert len(wanted) > 8
    assert {str(one.relative_to(ROOT)) for one in wanted} <= held
