"""The web page in a real browser, over a real cluster that has indexed real code."""

from __future__ import annotations

import json
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest
from axe_playwright_python.base import AXE_SCRIPT

from tests.browsers import picture
from tests.end_to_end.pages.samples import (
    COPIED,
    COPY,
    HOSTILE_NAME,
    HOSTILE_REF,
    PHONE,
    PLANT,
)
from tests.waiting import wait_until


def search(page, query):
    """Type the query and wait for its results."""
    page.fill("#q", query)
    page.wait_for_function(
        "query => new URLSearchParams(location.search).get('q') === query", arg=query
    )


def asked(page):
    return parse_qs(urlsplit(page.url).query)


def test_results_appear_while_typing_and_the_url_holds_the_whole_state(open_page):
    with open_page() as page:
        assert page.evaluate("document.activeElement.id") == "q"
        page.keyboard.type("maybe_declare")
        page.wait_for_selector(".hit mark")
        assert asked(page) == {"q": ["maybe_declare"]}
        assert "hits" in page.inner_text("#summary")

        page.click(".facet:has(h2:text('Kind')) .chip >> nth=0")
        page.wait_for_selector(".chip.on:has-text('Kind')")
        (kind,) = asked(page)["kind"]
        first = page.inner_text(".file >> nth=0")

        page.reload()
        assert page.input_value("#q") == "maybe_declare"
        assert page.inner_text(".file >> nth=0") == first
        search(page, "how is a message sent")
        assert asked(page)["kind"] == [kind]  # typing keeps the filters
        page.go_back()
        page.wait_for_function("() => document.getElementById('q').value === 'maybe_declare'")
        assert page.problems == []


def test_deleting_a_letter_shows_the_previous_results_as_current(open_page):
    with open_page("/search?q=declare") as page:
        page.route("**/search?q=declares", lambda _: None)  # its answer takes long
        with page.expect_request("**/search?q=declares"):
            page.fill("#q", "declares")
        page.wait_for_selector("#results[aria-busy=true]")
        page.fill("#q", "declare")
        page.wait_for_selector("#results[aria-busy=false]")
        assert asked(page) == {"q": ["declare"]}


def test_enter_does_not_repeat_a_request_in_progress(open_page):
    with open_page() as page:
        held = []
        page.route("**/search?q=declare", lambda one: held.append(one))
        with page.expect_request("**/search?q=declare"):
            page.fill("#q", "declare")
        page.keyboard.press("Enter")
        page.evaluate("() => fetch('/sign-in')")  # Enter would have sent its request earlier
        for one in held:
            one.continue_()
        page.wait_for_selector(".hit")
        assert len(held) == 1


def test_everything_can_be_reached_by_keyboard(open_page):
    with open_page("/search?q=declare") as page:
        page.keyboard.press("j")
        first = page.evaluate("document.activeElement.href")
        page.keyboard.press("j")
        assert page.evaluate("document.activeElement.href") != first
        page.keyboard.press("k")
        assert page.evaluate("document.activeElement.href") == first
        page.keyboard.press("?")
        assert page.is_visible("#help")
        page.keyboard.press("Escape")
        assert not page.is_visible("#help")
        page.keyboard.press("/")
        assert page.evaluate("document.activeElement.id") == "q"
        page.keyboard.type("j")  # replaces the query: it was selected
        assert page.input_value("#q") == "j"
        page.keyboard.press("Escape")
        page.wait_for_function("() => new URLSearchParams(location.search).get('q') === 'j'")
        page.keyboard.press("j")
        where = urlsplit(page.evaluate("document.activeElement.href"))
        assert where.path == "/code"
        assert {"repository", "path", "lines"} <= parse_qs(where.query).keys()
        page.keyboard.press("Enter")
        page.wait_for_url("**/code?**")


def test_a_repository_is_left_out_with_one_click(open_page):
    with open_page("/search?q=return") as page:
        page.click("text=exclude >> nth=0")
        page.wait_for_selector(".chip.on:has-text('Not repository')")
        (excluded,) = asked(page)["not_repo"]
        assert excluded not in page.inner_text("#results .files")
        page.click(".chip.on")
        page.wait_for_function("() => !location.search.includes('not_repo')")


def test_the_page_works_without_scripts(open_page):
    with open_page(java_script_enabled=False) as page:
        page.fill("#q", "maybe_declare")
        page.press("#q", "Enter")
        page.wait_for_selector(".hit mark")
        page.click(".facet .chip >> nth=0")
        page.wait_for_selector(".chip.on")
        page.click("text=Why this order")
        page.wait_for_selector("table.why")
        page.fill("#q", "declare")
        page.press("#q", "Enter")
        page.wait_for_url("**/search?q=declare&**")
        assert "why" in asked(page)
        page.click("text=Compare settings")
        page.select_option("[name='b.rank.ranker']", "fused")
        page.click(".lab button")
        page.wait_for_selector(".side:has-text('rank.ranker=fused') .hit")
        assert {"q", "b.rank.ranker"} <= asked(page).keys()
        assert "a.rank.ranker" not in asked(page)


def test_scripts_planted_in_repositories_and_queries_never_run(open_page):
    views = (
        "/",
        "/search?q=planted_name",
        f"/search?q={PLANT}",
        f"/search?q=x&ref={HOSTILE_REF}&repo={HOSTILE_NAME}",
        f"/search?q=planted_name&ref={HOSTILE_REF}&repo={HOSTILE_NAME}&why=1&collapse=1",
        f"/search?q=x&repo={PLANT}&path={PLANT}&language={PLANT}",
        f"/sign-in?next={PLANT}",
        f"/{PLANT}",
    )
    with open_page() as page:
        for view in views:
            page.goto(view.replace("<", "%3C").replace(">", "%3E"))
            page.wait_for_load_state("networkidle")
            assert page.evaluate("typeof planted") == "undefined", view
            assert page.query_selector("main script, main img") is None, view
        page.goto("/")
        search(page, "planted_name")
        page.wait_for_selector("text=onerror=planted >> nth=0")
        assert page.evaluate("typeof planted") == "undefined"
        assert page.query_selector("main script, main img") is None
        text = page.inner_text("#results")
        assert "\\x1b[2J\\u202e" in text
        assert "\u202e" not in text
        assert [one for one in page.problems if "Content Security Policy" in one] == []


VIEWS = {
    "start": "/",
    "results": "/search?q=maybe_declare",
    "why": "/search?q=how+is+a+message+sent&why=1&collapse=1",
    "lab": "/lab?q=how+is+a+message+sent&b.rank.ranker=fused&b.retrieve.alpha=0.5",
    "lab-refused": "/lab?q=declare&a.retrieve.window=5",
    "filtered": "/search?q=declare&repo=acme/library&kind=method",
    "nothing": "/search?q=declare&path=nowhere/**",
    "refused": "/search?q=declare&repo=acme/librar",
    "missing": "/no/such/page",
    "sign-in": "/sign-in?ended=1",
}
LOOKS = {
    "desktop": {},
    "phone": {"viewport": PHONE, "has_touch": True, "is_mobile": True},
}


def test_copies_unfold_and_lead_to_their_code(open_page):
    with open_page(VIEWS["results"]) as page:
        copies = page.locator("details.copies").first
        assert not copies.locator("a").first.is_visible()
        copies.locator("summary").focus()
        page.keyboard.press("Enter")
        copies.locator("a").first.click()
        page.wait_for_selector("#code li.on")
        assert asked(page)["repository"][0] in ("acme/library", HOSTILE_NAME)
        page.go_back()
        page.click("text=Show all copies")
        page.wait_for_selector(".chip.on:has-text('Show all copies')")
        shown = page.inner_text("#results .files")
        assert {COPIED, COPY} <= set(shown.split())
        assert page.query_selector("details.copies") is None
        assert page.problems == []


def unfold(page):
    """Unfold everything and render what is below the window, so that axe checks it too.

    Axe would otherwise use the overlapping boxes of files that are not laid out yet.
    """
    page.evaluate("for (const one of document.querySelectorAll('main details')) one.open = true")
    page.evaluate("""
        for (const file of document.querySelectorAll('.file')) {
          file.style.contentVisibility = 'visible'
        }
    """)


#: The colour rules of axe, which take most of its time.
COLOURS = ("color-contrast", "link-in-text-block")

#: Remove lines of code and rows of tables whose elements look like those of earlier ones: they have
#: the same classes in the same places. A page of results has 3,000 elements, of which 600 are left.
KEEP_ONE_OF_EACH = """() => {
    const place = one => one === document.body ? '' :
      `${place(one.parentElement)} ${one.tagName}.${one.getAttribute('class')}`;
    const seen = new Set();
    for (const row of document.querySelectorAll('main :is(li, tr):not(:has(li, tr))')) {
      const places = [row, ...row.querySelectorAll('*')].map(place);
      if (places.every(one => seen.has(one))) row.remove();
      else places.forEach(one => seen.add(one));
    }
}"""


def violations(page, **options):
    """Return the rules of axe that the page violates, each with the first element."""
    if not page.evaluate("'axe' in window"):
        page.evaluate(AXE_SCRIPT)
    given = json.dumps({"resultTypes": ["violations"], **options})
    return page.evaluate(f"""
        axe.run({given}).then(({{violations}}) => violations.map(
          ({{id, nodes}}) => [id, nodes[0].html]))
    """)


def assert_accessible(page, name, look):
    """Check the page, and then the colours of elements that differ in their looks, in both schemes.

    A phone shows the same elements, so there all rules are checked only on those that differ.
    """
    if look == "phone":
        page.evaluate(KEEP_ONE_OF_EACH)
        assert violations(page) == [], name
        return
    rules = {rule: {"enabled": False} for rule in COLOURS}
    assert violations(page, rules=rules) == [], name
    page.evaluate(KEEP_ONE_OF_EACH)
    for colours in ("dark", "light"):
        page.emulate_media(color_scheme=colours)
        shown = violations(page, runOnly={"type": "rule", "values": COLOURS})
        assert shown == [], f"{name} in {colours} colours"


def assert_fits(page, name, look):
    """Check the width of the page, and keep pictures of it."""
    for colours in ("dark", "light") if look == "desktop" else ("light",):
        page.emulate_media(color_scheme=colours)
        picture(page, f"{name}-{look}-{colours}")
    wide = page.evaluate("document.documentElement.scrollWidth - innerWidth")
    assert wide <= 0, f"{name} is {wide} px wider than the window"


def loaded(page):
    """Disable the cache, and return the bytes of each URL, which the page adds as it loads."""
    seen = {}

    def count(one):
        seen[one.url] = len(one.body())

    page.context.new_cdp_session(page).send("Network.setCacheDisabled", {"cacheDisabled": True})
    page.on("response", count)
    return seen


def assert_small(page, seen, base):
    """Check the size and the origin of what the page has loaded, and forget it."""
    page.wait_for_load_state("networkidle")
    assert sum(seen.values()) <= 200_000, seen
    assert [url for url in seen if not url.startswith(f"{base}/")] == []
    seen.clear()


@pytest.mark.parametrize("look", LOOKS)
def test_every_view_is_small_and_accessible_and_fits_the_window(open_page, served, look):
    with open_page(**LOOKS[look]) as page:
        seen = loaded(page)
        for name, path in VIEWS.items():
            page.goto(path)
            assert_small(page, seen, served.facts["http"])
            unfold(page)
            assert_fits(page, name, look)
            assert_accessible(page, name, look)
        page.goto("/")
        if look != "phone":
            page.keyboard.press("Escape")
            page.keyboard.press("?")
            picture(page, f"help-{look}")
            assert_accessible(page, "help", look)


def test_an_absent_gateway_is_reported_and_the_page_recovers_by_itself(open_page):
    with open_page("/search?q=declare") as page:
        page.context.set_offline(True)
        page.fill("#q", "maybe_declare")
        page.wait_for_selector("#away", state="visible")
        assert "declare" in page.inner_text("#results")  # the earlier results stay
        page.context.set_offline(False)
        page.wait_for_selector("#away", state="hidden")
        page.wait_for_function("() => location.search === '?q=maybe_declare'")


def test_a_revoked_key_signs_the_browser_out_and_another_key_signs_it_in(open_page, served, token):
    api = httpx.Client(
        base_url=f"{served.facts['http']}/api/v1",
        headers={"authorization": f"Bearer {token}"},
        timeout=60,
    )
    with api, open_page(secret="") as page:
        key = api.post("/keys", json={"name": "ann", "role": "admin"}).json()["key"]
        page.goto("/search?q=declare")
        page.fill("#secret", key)
        page.click("main button")
        page.wait_for_url("**/search?q=declare")
        assert "key:ann" in page.inner_text("header")

        api.delete("/keys/ann")
        headers = {"authorization": f"Bearer {key}"}
        wait_until(lambda: api.get("/status", headers=headers).status_code == 401, "the revocation")
        page.fill("#q", "maybe_declare")
        page.wait_for_url("**/sign-in?**")
        assert "signed out" in page.inner_text("main")
        page.fill("#secret", token)
        page.click("main button")
        page.wait_for_url("**/search?q=**")
        page.click("text=Sign out")
        page.wait_for_url("**/sign-in")


def test_text_of_results_is_selectable_without_line_numbers(open_page):
    with open_page("/search?q=maybe_declare") as page:
        text = page.evaluate(
            """() => {
                getSelection().selectAllChildren(document.querySelector('ol.code'));
                return getSelection().toString();
            }"""
        )
        shown = page.evaluate(
            "[...document.querySelector('ol.code').querySelectorAll('code')].map(c => c.innerText)"
        )
    assert [line.rstrip() for line in text.split("\n") if line.strip()] == [
        line.rstrip() for line in shown if line.strip()
    ], json.dumps(text)
