"""The graph page shows both directions as nested lists, also into other repositories."""

from __future__ import annotations

import pytest

from tests.gateway.test_web_code import PLANT, PLANTED_PATH, as_key, browsing
from tests.pages import Page

HTTP = {
    "package.json": '{"name": "@acme/http"}',
    "src/client.js": "import { retry } from './retry'\n\nexport function get(url) {\n"
    "  return retry(() => fetch(url))\n}\n",
    "src/retry.js": "import { wait } from './wait'\n\nexport function retry(call) {\n"
    "  wait()\n  return call()\n}\n",
    "src/wait.js": "export function wait() {}\n",
}
WEB = {"src/app.js": "import { get } from '@acme/http'\n\nexport const start = () => get('/')\n"}


@pytest.fixture
async def browser(tmp_path):
    async with browsing(tmp_path) as (client, world):
        world.index("acme/http", HTTP)
        world.index("acme/web", WEB, ref="stable")
        yield client


def nested(page):
    """Return the nodes of both lists: (side, repository, label)."""
    found, side = [], ""
    for tag, attributes, _ in page.elements:
        if "data-side" in attributes:
            side = attributes["data-side"]
        if "data-node" in attributes and tag == "li":
            found.append((side, attributes["data-repository"], attributes["data-label"]))
    return found


async def test_a_file_shows_what_it_depends_on_and_what_depends_on_it(browser):
    page = Page(await browser.get("/graph?repository=acme/http&path=src/client.js"))

    assert set(nested(page)) == {
        ("depends", "acme/http", "retry.js"),
        ("depends", "acme/http", "retry"),
        ("used", "acme/web", "app.js"),
    }
    assert "/code?repository=acme%2Fhttp&path=src%2Fretry.js" in page.links()
    assert "/graph?repository=acme%2Fweb&path=src%2Fapp.js" in page.links()


async def test_a_repository_page_shows_dependencies_and_dependents(browser):
    page = Page(await browser.get("/graph?repository=acme/http"))

    assert nested(page) == [("used", "acme/web", "acme/web")]
    assert page.texts("h1") == ["acme/http"]
    assert "Used by 1 repository, which a change may affect" in page.texts("h2")
    (used,) = [text for one, text in page.all("li") if one.get("data-node")]
    assert used == "acme/web (imported) 1 file around acme/web"
    assert {"/code?repository=acme%2Fweb", "/graph?repository=acme%2Fweb"} <= set(page.links())
    file = Page(await browser.get("/graph?repository=acme/http&path=src/client.js"))
    assert "/graph?repository=acme%2Fhttp" in file.links()


async def test_further_steps_are_nested_below_the_first(browser):
    page = Page(await browser.get("/graph?repository=acme/http&path=src/client.js&depth=2"))

    (retry,) = [text for one, text in page.all("li") if one.get("data-label") == "retry.js"]
    assert "src/wait.js" in retry


async def test_each_side_says_how_many_files_it_reaches(browser):
    near = Page(await browser.get("/graph?repository=acme/http&path=src/client.js"))
    assert "Used by 1 file in 1 repository, which a change may affect" in near.texts("h2")
    far = Page(await browser.get("/graph?repository=acme/http&path=src/wait.js&depth=3"))
    assert "Used by 3 files in 2 repositories, which a change may affect" in far.texts("h2")
    assert "Depends on" in far.texts("h2")


async def test_a_symbol_has_a_graph_and_a_part_for_the_script(browser):
    page = Page(await browser.get("/graph?repository=acme/http&symbol=retry"))
    assert page.texts("h1") == ["acme/http src/retry.js retry"]
    assert ("depends", "acme/http", "wait") in nested(page)
    assert ("used", "acme/http", "get") in nested(page)

    part = await browser.get(
        "/graph?repository=acme/http&symbol=retry", headers={"x-codelode-part": "1"}
    )
    assert nested(Page(part)) == nested(page)
    assert Page(part).all("html") == []


async def test_links_that_are_left_out_are_shown_with_a_higher_limit(tmp_path):
    query = "/graph?repository=acme/http&path=src/client.js"
    async with browsing(tmp_path) as (browser, world):
        world.index("acme/http", {**HTTP, "src/again.js": HTTP["src/client.js"]})
        world.index("acme/web", {**WEB, "src/again.js": WEB["src/app.js"]})
        cut = Page(await browser.get(f"{query}&limit=1"))
        whole = Page(await browser.get(query))

    assert "raise the limit for more" in cut.text
    assert "raise the limit" not in whole.text
    assert len(nested(whole)) > len(nested(cut))


async def test_without_a_subject_the_page_asks_for_one(browser):
    page = Page(await browser.get("/graph"))

    assert page.status == 200
    assert "Give the name of a symbol" in page.text


@pytest.mark.parametrize(
    ("query", "status", "says"),
    [
        ("symbol=nowhere", 404, "no file and no symbol 'nowhere'"),
        ("symbol=retry&depth=9", 400, "Steps: is 9"),
        ("symbol=retry&repository=acme/htp", 400, "did you mean 'acme/http'"),
        ("symbol=retry&repository=acme/http&ref=mian", 400, "did you mean 'main'"),
    ],
)
async def test_the_page_says_why_code_cannot_be_shown(browser, query, status, says):
    response = await browser.get(f"/graph?{query}")

    assert response.status_code == status
    assert says in Page(response).text


async def test_hidden_repositories_are_not_nodes(browser):
    await as_key(browser, "reader", ["acme/http"])
    page = Page(await browser.get("/graph?repository=acme/http&path=src/client.js"))
    assert "acme/web" not in page.text

    told = set()
    for name in ("acme/web", "acme/wxx"):
        refused = Page(await browser.get(f"/graph?repository={name}&path=src/app.js"))
        told.add((refused.status, refused.text.replace(name, "NAME").partition("Request")[0]))
    assert len(told) == 1


async def test_scripts_planted_in_names_are_text(browser):
    params = {"repository": "acme/app", "path": PLANTED_PATH}
    response = await browser.get("/graph", params=params)
    page = Page(response)

    assert page.status == 200
    assert "planted=1" in page.text
    assert [found for found, _ in page.all("img") if "onerror" in found] == []
    assert all("src" in found for found, _ in page.all("script"))
    missing = await browser.get("/graph", params={"symbol": PLANT})
    assert [found for found, _ in Page(missing).all("img") if "onerror" in found] == []
