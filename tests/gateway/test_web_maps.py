"""The map page: how a map is made, its points and groups, and what is at a point."""

from __future__ import annotations

import numpy as np
import pytest

from tests.gateway.test_web_code import FILES, PLANT, PLANTED_PATH, as_key, browsing
from tests.pages import Page

BOTH = "repository=acme/app&repository=acme/other"


@pytest.fixture
async def opened(tmp_path):
    async with browsing(tmp_path) as made:
        yield made


async def test_without_a_selection_the_page_offers_repositories(opened):
    browser, world = opened
    world.map("acme/other")
    page = Page(await browser.get("/map"))

    assert [one["value"] for one, _ in page.all("input", type="checkbox")] == [
        "acme/app",
        "acme/other",
    ]
    assert "/map?repository=acme%2Fother" in page.links()
    assert page.all("canvas") == []


async def test_the_chosen_repositories_are_listed_even_among_many(opened, monkeypatch):
    monkeypatch.setattr("gateway.api.web.maps.MAX_LISTED", 1)
    for query, listed in (("", "acme/app"), ("?repository=acme/other", "acme/other")):
        page = Page(await opened[0].get(f"/map{query}"))
        assert [one["value"] for one, _ in page.all("input", type="checkbox")] == [listed]
        assert "1 more repository: name them in the address" in page.text


async def test_a_map_is_made_on_demand(opened):
    browser, world = opened
    before = Page(await browser.get(f"/map?{BOTH}"))
    assert "There is no map of these repositories yet" in before.text
    assert "seconds" in before.text

    names = [one["value"] for one, _ in before.all("input", type="hidden", name="repository")]
    sent = await browser.post("/map", data={"repository": names})
    assert sent.status_code == 303
    assert world.jobs.sent[-1] == ("map", ("acme/app", "acme/other"))
    waiting = Page(await browser.get(sent.headers["location"]))
    assert "The map is being made: waiting" in waiting.text
    assert [found for _, found, _ in waiting.elements if "data-busy" in found] != []

    world.map("acme/app", "acme/other")
    part = await browser.get(f"/map?{BOTH}", headers={"x-codelode-part": "1"})
    assert "data-busy" not in part.text
    assert Page(await browser.get(f"/map?{BOTH}")).all("canvas") != []


async def test_points_are_numbers_and_groups_say_what_colours_mean(opened):
    browser, world = opened
    world.map("acme/app", "acme/other")
    points = np.frombuffer((await browser.get(f"/map/points?{BOTH}")).content, "<u2")
    by_repository = Page(await browser.get(f"/map?{BOTH}")).rows("groups")
    by_language = Page(await browser.get(f"/map?{BOTH}&colour=language")).rows("groups")

    count = len(points) // 5
    assert sum(int(number) for _, number in by_repository) == count
    assert sum(int(number) for _, number in by_language) == count
    assert {name for name, _ in by_language} >= {"python"}


async def test_a_point_leads_to_its_code_and_its_name_is_text(opened):
    browser, world = opened
    world.index("acme/few", {path: FILES[path] for path in ("src/store.py", PLANTED_PATH)})
    world.map("acme/few")
    count = len((await browser.get("/map/points?repository=acme/few")).content) // 10
    numbers = "".join(f"&point={one}" for one in range(count))
    page = Page(await browser.get(f"/map/places?repository=acme/few{numbers}"))

    links = [one for one in page.links() if "path=src%2Fstore.py" in one]
    assert Page(await browser.get(links[0])).status == 200
    assert any(PLANTED_PATH in text for text in page.texts("a"))
    assert [found for found, _ in page.all("img") if "onerror" in found] == []


async def test_the_refusal_of_a_reader_says_whom_to_ask(opened):
    browser, _ = opened
    await as_key(browser, "reader", ["acme/*"])
    page = Page(await browser.get("/map?repository=acme/app"))

    assert "Ask somebody with the role indexer" in page.text
    assert page.all("form", action="/map", method="post") == []
    assert (await browser.post("/map", data={"repository": "acme/app"})).status_code == 403


async def test_a_map_with_a_hidden_repository_is_not_named(opened):
    browser, world = opened
    world.map("acme/app", "acme/other")
    await as_key(browser, "reader", ["acme/app"])

    assert "acme/other" not in Page(await browser.get("/map")).text
    told = set()
    for name in ("acme/other", "acme/othxx"):
        for path in ("/map", "/map/points", "/map/places"):
            refused = Page(await browser.get(f"{path}?repository=acme/app&repository={name}"))
            text = refused.text.replace(name, "NAME").partition("Request")[0]
            told.add((refused.status, text))
    assert len(told) == 1


@pytest.mark.parametrize(
    ("path", "status", "says"),
    [
        ("/map?repository=acme/ap", 400, "did you mean 'acme/app'"),
        (f"/map?repository={PLANT}", 400, "there is no repository"),
        ("/map?repository=acme/app&colour=pink", 400, "colour"),
        ("/map/places?repository=acme/app&point=0", 404, "have it made first"),
    ],
)
async def test_the_page_says_why_code_cannot_be_shown(opened, path, status, says):
    page = Page(await opened[0].get(path))

    assert page.status == status
    assert says in page.text
    assert [found for found, _ in page.all("img") if "onerror" in found] == []
