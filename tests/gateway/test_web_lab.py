"""The lab compares the results of two settings, and shows why and how fast each has them."""

from __future__ import annotations

import pytest

from gateway.api.web.comparison import counts
from gateway.api.web.lab_options import OFFERED, PRESET
from gateway.options import PRESETS, Options
from gateway.service.options import NAMES, chosen, described, from_text, value_of
from gateway.service.requests import GivenOptions
from tests.gateway.test_web_code import as_key, browsing
from tests.http_gateways import serving
from tests.pages import Page

FILES = {
    "src/pool.py": "class Pool:\n    def close(self):\n        return self.sessions\n",
    "src/close.go": "package a\n\nfunc CloseSessions() {\n" + "\tx := 1\n" * 40 + "}\n",
    "docs/guide.md": "# Sessions\n\nClose sessions <script>planted</script> & more.\n",
    "tests/test_pool.py": "def test_close():\n    assert Pool().close() is None\n",
}
QUERY = {"q": "close sessions"}
FUSED = {"b.rank.ranker": "fused", "b.retrieve.alpha": "0.9"}


@pytest.fixture
async def browser(tmp_path):
    async with browsing(tmp_path) as (client, world):
        world.index("acme/pool", FILES)
        yield client


async def lab(browser, **params):
    return Page(await browser.get("/lab", params=params))


async def ranked(browser, **options):
    """Return the locations of the API's hits, in order."""
    body = {"query": QUERY["q"], "top_k": 20, "options": options}
    hits = (await browser.post("/api/v1/search", json=body)).json()["hits"]
    return [
        f"{one['repository']} {one['path']}:{one['start_line']}–{one['end_line']}" for one in hits
    ]


def columns(page):
    """Return what each side shows of its hits: (place, move)."""
    found = []
    for tag, attributes, text in page.elements:
        if tag == "section" and attributes.get("class") == "side":
            found.append([])
        if tag == "a" and attributes.get("class") == "open":
            found[-1].append([" ".join(text.split())])
        if tag == "span" and attributes.get("class", "").startswith("move"):
            found[-1][-1].append(" ".join(text.split()))
    return found


async def test_each_side_has_the_hits_of_the_api_under_its_settings(browser):
    page = await lab(browser, **QUERY, **FUSED)
    first, second = columns(page)

    assert [place for place, _ in first] == await ranked(browser)
    fused = {"rank": {"ranker": "fused"}, "retrieve": {"alpha": 0.9}}
    assert [place for place, _ in second] == await ranked(browser, **fused)
    assert "rank.ranker=fused" in page.text
    assert "retrieve.alpha=0.9" in page.text
    assert "the usual settings" in page.text


async def test_each_hit_says_where_the_other_side_has_it(browser):
    first, second = columns(await lab(browser, **QUERY, **FUSED, top="3"))

    places = [place for place, _ in second]
    for rank, (place, move) in enumerate(first):
        if place not in places:
            assert move == "only in A"
        elif (other := places.index(place)) == rank:
            assert move.endswith("the same rank in B")
        else:
            assert f"{abs(rank - other)} {'higher' if rank < other else 'lower'} than in B" in move


async def test_equal_settings_give_equal_results(browser):
    page = await lab(browser, **QUERY)
    first, second = columns(page)

    assert [place for place, _ in first] == [place for place, _ in second]
    (summary,) = page.texts("p", id="summary")
    assert summary.endswith("in both, 0 of them at another rank; 0 only in A, 0 only in B")


async def test_scores_have_their_parts_and_stages_their_times(browser):
    page = await lab(browser, **QUERY)

    assert "rank.keyword" in page.texts("th")
    assert page.text.count("retrieve ") >= 2
    assert all(text.endswith("ms") for text in page.texts("strong"))


async def test_empty_form_fields_are_not_in_the_address(browser):
    params = {**QUERY, "top": "20", "a.preset": "", "a.retrieve.window": "50", "b.preset": ""}
    answer = await browser.get("/lab", params=params)

    assert answer.status_code == 303
    assert answer.headers["location"] == "/lab?q=close+sessions&top=20&a.retrieve.window=50"


async def test_the_form_shows_given_values_and_defaults(browser):
    page = await lab(browser, **{"a.preset": "fast", "b.retrieve.alpha": "0.5"})
    inputs = {one["name"]: one for one, _ in page.all("input", type="number")}

    assert inputs["a.retrieve.window"]["placeholder"] == "50"
    assert inputs["b.retrieve.window"]["placeholder"] == "100"
    assert inputs["b.retrieve.alpha"]["value"] == "0.5"
    usual = [text for text in page.texts("option", value="") if text in ("(linear)", "(fused)")]
    assert usual == ["(linear)", "(fused)"]  # alpha selects the fused ranker


@pytest.mark.parametrize(
    ("name", "text", "says"),
    [
        ("a.retrieve.window", "5", "A: Window: is 5; it must be 10 to 500"),
        ("b.retrieve.window", "many", "B: Window: must be a whole number"),
        ("b.retrieve.alpha", "nan", "B: Alpha: is nan; it must be 0 to 1"),
        ("a.rank.ranker", "best", "A: Ranker: 'best' is not a choice; use one of: linear, fused"),
        ("a.analyze.synonyms", "maybe", "A: Synonyms: must be true or false"),
        ("b.preset", "<b>", "B: Preset: '<b>' is not a choice"),
        ("top", "1000", "Hits: is 1,000; it must be 1 to 200"),
        ("repo", "acme/poo", "Repository: "),
    ],
)
async def test_an_invalid_value_is_named_as_the_form_names_it(browser, name, text, says):
    page = await lab(browser, **QUERY, **{name: text})

    assert page.status == 400
    assert says in page.text
    assert page.all("form", action="/lab")


async def test_an_unknown_option_is_refused(browser):
    for name in ("a.assemble.compact", "c.retrieve.window", "a.retrieve", "<b>"):
        page = await lab(browser, **QUERY, **{name: "1"})
        assert page.status == 400
        assert "is not a parameter of the lab" in page.text


async def test_queries_and_code_are_escaped(browser):
    answer = await browser.get("/lab", params={"q": "sessions <script>planted</script>"})

    assert "<script>planted" not in answer.text
    assert "&lt;script&gt;" in answer.text


async def test_a_search_leads_to_the_lab_with_its_filters_and_the_sides_can_be_exchanged(browser):
    found = Page(await browser.get("/search", params={**QUERY, "not_path": "docs/**"}))
    address = found.link("Compare settings")
    assert address == "/lab?q=close+sessions&not_path=docs%2F%2A%2A"

    page = await lab(browser, **QUERY, **FUSED, not_path="docs/**")
    assert "guide.md" not in page.text
    exchanged = (
        "/lab?q=close+sessions&not_path=docs%2F%2A%2A&a.retrieve.alpha=0.9&a.rank.ranker=fused"
    )
    assert page.link("Exchange A and B") == exchanged
    assert page.link("Reset") == address


async def test_a_caller_sees_only_own_repositories(browser):
    await as_key(browser, "reader", ["acme/other"])
    page = await lab(browser, **QUERY)

    assert page.status == 200
    assert "acme/pool" not in page.text


async def test_each_search_of_the_lab_counts(tmp_path):
    limits = {"search_per_minute": 12, "limits": "on"}  # two at a time
    async with serving(tmp_path, limited=True, **limits) as (client, _):
        page = await client.get("/lab?q=load")

    assert page.status_code == 429
    assert "limit of 12 search calls per minute" in page.text


@pytest.mark.parametrize("name", sorted({*OFFERED} - {PRESET}))
def test_every_option_is_read_from_the_text_of_a_form(name):
    field = described(name)
    texts = field.choices or (f"{field.low:g}", f"{field.high:g}")
    for text in texts:
        made = chosen(GivenOptions(values={name: from_text(name, text)}))
        assert value_of(made, name) == text


def test_the_lab_offers_only_options_that_exist():
    assert set(OFFERED) - {PRESET} <= set(NAMES)
    assert value_of(Options(), "retrieve.alpha") == ""
    assert [value_of(one, "retrieve.window") for one in PRESETS.values()] == ["50", "100", "150"]


def test_two_empty_results_have_nothing_in_common():
    assert (counts((), ()).both, counts((), ()).only_first) == (0, 0)
