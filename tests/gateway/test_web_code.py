"""The code page shows the lines of a file, their URLs, files around, and definitions."""

from __future__ import annotations

from contextlib import asynccontextmanager
from dataclasses import replace
from urllib.parse import parse_qs, urlsplit

import pytest

from codelode.access import Label
from codelode.settings import Settings
from gateway.api.web.source import WINDOW_LINES
from gateway.app import Gateway
from tests.http_gateways import connect, serving
from tests.pages import Page
from tests.worlds import World, blob

TOKEN = "sesame"
PLANT = "<script>planted=1</script><img src=x onerror=planted=1>"
PLANTED_PATH = f"src/{PLANT.replace('/', '')}.py"
FILES = {
    "README.md": "# Read me\n",
    "src/store.py": 'def load(name: str) -> int:\n    """Load it."""\n    return 1\n\n\nEND = 2\n',
    "src/api/app.py": "from src.store import load\n\n\ndef start():\n    return load('x')\n",
    "long.py": "".join(f"value_{number} = {number}\n" for number in range(1, 2_501)),
    PLANTED_PATH: f'def planted():\n    """{PLANT}"""\n    return "\x1b[2J\u202e"  # {PLANT}\n',
    "Makefile": "a" * 150_000 + "\n",
}
OTHER = {"use.py": "from acme_app.src.store import load\n\nload('y')\n"}


@asynccontextmanager
async def browsing(tmp_path, **given):
    """A client with the rights of an admin, and the world that its gateway serves."""
    listen = {"listen": "127.0.0.1:0", "http_listen": "127.0.0.1:0"}
    settings = Settings(data=tmp_path, token=TOKEN, **listen, **given)
    world = World(settings)
    world.index("acme/app", FILES, failed={"src/bad.js": "too deep"}, skipped={"a.bin": "binary"})
    world.index("acme/other", OTHER, ref="trunk")
    for name in ("acme/app", "acme/other"):
        world.ledger.set_label(name, Label.INTERNAL)
    gateway = Gateway(replace(world.dependencies, settings=settings))
    await gateway.start()
    base = f"http://127.0.0.1:{gateway.http_port}"
    headers = {"authorization": f"Bearer {TOKEN}", "origin": base}
    try:
        async with connect(base, headers) as client:
            yield client, world
    finally:
        await gateway.stop(grace_s=0)
        await world.dependencies.close()


async def as_key(browser, role, repositories):
    """Give the browser the rights of a new key."""
    key = {"name": role, "role": role, "repositories": repositories}
    made = (await browser.post("/api/v1/keys", json=key)).json()["key"]
    browser.headers["authorization"] = f"Bearer {made}"


@pytest.fixture
async def browser(tmp_path):
    async with browsing(tmp_path) as (client, _):
        yield client


@pytest.fixture
def code(browser):
    """`code(path)` opens the page of a file of acme/app."""

    async def opened(path, *, repository="acme/app", **given):
        params = {"repository": repository, "path": path, **given}
        return await browser.get("/code", params=params)

    return opened


def lines_of(page):
    """Return the lines of code that a page shows, by number."""
    return {
        int(found["value"]): text
        for found, text in page.all("li")
        if found.get("id", "").startswith("L")
    }


async def test_a_file_is_shown_with_line_numbers_outline_and_the_files_around(code):
    page = Page(await code("src/store.py"))

    assert lines_of(page)[1] == "1def load(name: str) -> int:"
    assert ("load" in text for text in page.texts("ol", class_="outline"))
    assert [text for text in page.texts("a") if text.endswith(("api", ".py", ".md", ".js"))]
    assert page.all("a", aria_current="page") == []
    current = [text for found, text in page.all("a") if found.get("aria-current") == "page"]
    assert current == ["store.py"]
    assert {"bad.js (failed)", "a.bin (skipped)"} <= set(page.texts("span", class_="facts"))


async def test_code_has_colours_and_lines_of_the_address_are_marked(code):
    page = Page(await code("src/store.py", lines="1-2"))

    assert "def" in page.texts("span", class_="k")
    assert [found["id"] for found, _ in page.all("li", class_="on")] == ["L1", "L2"]


async def test_the_permalink_opens_the_file_at_the_commit(browser, code):
    page = Page(await code("src/store.py"))
    permalink = page.link("Permalink")

    assert parse_qs(urlsplit(permalink).query)["ref"] == [blob("acme/app")]
    assert lines_of(Page(await browser.get(permalink))) == lines_of(page)
    gone = permalink.replace(blob("acme/app"), blob("some other commit"))
    assert (await browser.get(gone)).status_code == 400


async def test_a_long_file_is_shown_a_window_at_a_time(browser, code):
    page = Page(await code("long.py", lines="1500"))

    assert list(lines_of(page)) == list(range(WINDOW_LINES + 1, 2 * WINDOW_LINES + 1))
    after = Page(await browser.get(page.link(f"Lines after {2 * WINDOW_LINES}")))
    assert list(lines_of(after)) == list(range(2 * WINDOW_LINES + 1, 2_501))
    before = Page(await browser.get(page.link(f"Lines before {WINDOW_LINES + 1}")))
    assert list(lines_of(before)) == list(range(1, WINDOW_LINES + 1))


async def test_the_raw_link_returns_the_whole_file_as_plain_text(browser, code):
    page = Page(await code("long.py"))
    raw = await browser.get(page.link("Raw"))

    assert raw.text == FILES["long.py"]
    assert raw.headers["content-type"] == "text/plain; charset=utf-8"
    assert raw.headers["x-content-type-options"] == "nosniff"
    planted = await browser.get(
        "/code/raw", params={"repository": "acme/app", "path": PLANTED_PATH}
    )
    assert planted.headers["content-type"] == "text/plain; charset=utf-8"


async def test_a_name_is_looked_up_beside_the_code(browser, code):
    page = Page(await code("src/api/app.py", name="load"))

    assert page.texts("h3") == ["Defined in", "Called by 1"]
    places = [found["href"] for found, _ in page.all("a", class_="open")]
    assert [parse_qs(urlsplit(one).query)["path"] for one in places] == [
        ["src/store.py"],
        ["src/api/app.py"],
    ]
    part = await browser.get("/code/names", params={"repository": "acme/app", "name": "load"})
    assert [found["href"] for found, _ in Page(part).all("a", class_="open")] == places


async def test_names_of_other_repositories_are_shown_and_unknown_ones_are_reported(code):
    elsewhere = Page(await code("use.py", repository="acme/other", name="load"))
    unknown = Page(await code("use.py", repository="acme/other", name="nothing_of_that_name"))

    assert "acme/app src/store.py:1" in elsewhere.texts("a", class_="open")
    assert "Nothing that you see defines it" in unknown.text
    assert unknown.link("Search for it") == "/search?q=nothing_of_that_name"


async def test_a_folder_is_served_as_a_page_and_as_a_fragment(browser):
    root = Page(await browser.get("/code?repository=acme/app"))
    assert {"src/", "README.md", "long.py"} <= set(root.texts("a"))
    inside = Page(await browser.get(root.link("src/")))
    assert {"api/", "store.py"} <= set(inside.texts("a"))
    assert inside.link("why").startswith("/repositories/failures")

    part = Page(await browser.get("/code/tree?repository=acme/app&path=src/api"))
    assert part.texts("a") == ["app.py"]
    assert part.all("html") == []


@pytest.mark.slow
async def test_a_text_that_no_lexer_finishes_is_shown_without_colours(code):
    page = Page(await code("Makefile"))

    assert len(lines_of(page)[1]) > 150_000
    assert "Shown without colours" in page.text


@pytest.mark.parametrize(
    ("given", "status", "says"),
    [
        ({"path": "gone.py"}, 404, "acme/app holds no indexed file"),
        ({"path": "nowhere/"}, 404, "acme/app has no folder"),
        ({"ref": "mian"}, 400, "did you mean 'main'"),
        ({"lines": "ten"}, 400, "Lines: is 'ten'; write 10, or 10-20"),
        ({"lines": "9000"}, 400, "the file ends with line 6"),
        ({"name": "x" * 10_000}, 400, "at most 8,192"),
        ({"colour": "1"}, 400, "colour: is unknown"),
    ],
)
async def test_the_page_says_why_code_cannot_be_shown(code, given, status, says):
    response = await code(**{"path": "src/store.py", **given})

    assert response.status_code == status
    assert says in Page(response).text


async def test_a_hidden_file_is_answered_like_a_missing_one(browser, code):
    await as_key(browser, "reader", ["acme/other"])
    told = set()
    for name in ("acme/app", "acme/axx"):
        for path in ("src/store.py", "src/", "gone.py"):
            page = Page(await code(path, repository=name))
            text = page.text.replace(name, "NAME").partition("Request")[0]
            told.add((page.status, " ".join(text.split())))
    assert len(told) == 1
    seen = Page(await code("use.py", repository="acme/other", name="load"))
    assert seen.status == 200
    assert "acme/app" not in seen.text


async def test_scripts_planted_in_names_and_code_are_text(browser, code):
    for given in ({}, {"name": PLANT}, {"lines": "1-3", "name": "planted"}):
        response = await code(PLANTED_PATH, **given)
        page = Page(response)
        assert page.status == 200
        assert len(page.all("script")) == response.text.count('<script type="module"') == 2
        assert [found for found, _ in page.all("img") if "onerror" in found] == []
        assert "\x1b" not in response.text
        assert "\u202e" not in response.text
        assert "planted=1" in page.text
    for path in ("/code?repository=acme/app&path=src/", "/code/tree?repository=acme/app&path=src"):
        page = Page(await browser.get(path))
        assert all("src=x" not in str(found) for _, found, _ in page.elements)
        assert [found for found, _ in page.all("img") if "onerror" in found] == []


@pytest.mark.parametrize("given", ["path=src/a.py", "path=src/a.py&name=load"])
async def test_the_outline_and_the_names_of_a_page_count_as_contexts(tmp_path, given):
    at_once = given.count("=")
    limits = {"context_per_minute": 6 * at_once, "limits": "on"}
    async with serving(tmp_path, limited=True, **limits) as (client, _):
        assert (await client.get(f"/code?{given}")).is_success
        page = await client.get(f"/code?{given}")

    assert page.status_code == 429
    assert f"limit of {6 * at_once} context calls per minute" in page.text


async def test_an_unknown_caller_is_sent_to_the_sign_in_page(browser, code):
    del browser.headers["authorization"]
    response = await code("src/store.py")

    assert response.status_code == 303
    assert response.headers["location"].startswith("/sign-in?next=%2Fcode%3F")
