"""The pages of code, repositories, and graphs in a real browser, over a real cluster."""

from __future__ import annotations

from urllib.parse import quote, urlencode

import pytest

from tests.end_to_end.pages.samples import HOSTILE_NAME, HOSTILE_PATH, HOSTILE_REF
from tests.end_to_end.pages.test_web import (
    LOOKS,
    asked,
    assert_accessible,
    assert_fits,
    assert_small,
    loaded,
    unfold,
)

FILE = "kombu/common.py"
#: A worker has low priority while it makes a map.
MAP_MS = 240_000
CODE = f"/code?{urlencode({'repository': 'acme/library', 'path': FILE})}"
PLANTED = {"repository": HOSTILE_NAME, "path": HOSTILE_PATH}
VIEWS = {
    "code": f"{CODE}&lines=30-40#L30",
    "names": f"{CODE}&name=maybe_declare",
    "folder": "/code?repository=acme/library&path=kombu/",
    "code-missing": "/code?repository=acme/library&path=gone.py",
    "repositories": "/repositories",
    "failures": "/repositories/failures?all=1",
    "graph": f"/graph?{urlencode({'repository': 'acme/library', 'path': FILE})}",
    "graph-repository": "/graph?repository=acme/library&depth=2",
    "graph-empty": "/graph",
    "map": "/map?repository=acme/library&colour=category",
    "map-empty": "/map",
}


def marked(page):
    return page.eval_on_selector_all("#code li.on", "found => found.map(one => one.id)")


def click_name(page, name):
    """Click the first use of a name in the code that has no span of its own."""
    box = page.evaluate(
        """name => {
            const nodes = document.createTreeWalker(document.getElementById('code'), 4);
            while (nodes.nextNode()) {
                const node = nodes.currentNode;
                const at = node.data.search(new RegExp(`\\\\b${name}\\\\b`));
                if (at < 0 || node.parentElement.closest('.c, .s, .m, .k')) continue;
                node.parentElement.scrollIntoView({block: 'center'});
                const range = document.createRange();
                range.setStart(node, at);
                range.setEnd(node, at + name.length);
                const {x, y, width, height} = range.getBoundingClientRect();
                return {x: x + width / 2, y: y + height / 2};
            }
            return null;
        }""",
        name,
    )
    page.mouse.click(box["x"], box["y"])


def test_line_numbers_set_the_address_and_the_address_marks_lines(open_page):
    with open_page(CODE) as page:
        page.click("#L12 a.n")
        page.click("#L15 a.n", modifiers=["Shift"])
        assert page.url.endswith("#L12-L15")
        assert marked(page) == ["L12", "L13", "L14", "L15"]
        page.reload()
        assert marked(page) == ["L12", "L13", "L14", "L15"]

        page.goto(f"{CODE}&lines=30-32#L30")
        assert marked(page) == ["L30", "L31", "L32"]
        assert page.problems == []


def test_a_link_to_lines_that_the_file_no_longer_has_shows_the_file(open_page):
    with open_page(f"{CODE}#L99999") as page:
        page.wait_for_load_state("networkidle")
        assert page.is_visible("#L1")
        assert page.problems == []


def test_y_rewrites_the_address_to_the_permalink(open_page):
    with open_page(f"{CODE}&lines=30-32#L30") as page:
        page.keyboard.press("y")
        (commit,) = asked(page)["ref"]
        assert len(commit) == 40
        assert page.url.endswith("#L30")
        page.reload()
        assert marked(page) == ["L30", "L31", "L32"]


def test_a_click_on_a_name_shows_its_definition_on_the_same_page(open_page):
    with open_page(CODE) as page:
        click_name(page, "maybe_declare")
        page.wait_for_selector("#names .places a")
        assert asked(page)["name"] == ["maybe_declare"]
        assert FILE in page.inner_text("#names")

        page.keyboard.press("n")
        page.keyboard.type("Broadcast")
        page.keyboard.press("Enter")
        page.wait_for_selector("#names h2:has-text('Broadcast')")
        page.go_back()
        page.wait_for_selector("#names h2:has-text('maybe_declare')")
        page.reload()
        page.wait_for_selector("#names h2:has-text('maybe_declare')")
        assert page.problems == []


def test_folders_open_beside_the_code(open_page):
    with open_page(CODE) as page:
        folder = page.locator(".tree a.folder", has_text="transport").first
        folder.click()
        page.wait_for_selector(".tree a:has-text('virtual')")
        page.click(".tree a:has-text('memory.py')")
        page.wait_for_url("**memory.py")


def test_a_map_is_made_from_the_page_and_its_points_lead_to_code(open_page):
    with open_page(VIEWS["map"]) as page:
        page.click("button:has-text('Make the map')")
        page.wait_for_selector("#state:has-text('points of')", timeout=MAP_MS)
        page.goto(page.url)  # the page may be about to load again by itself
        page.wait_for_selector("#canvas[data-points]")
        count = int(page.get_attribute("#canvas", "data-points"))
        assert f"{count:,} points of {count:,} chunks" in page.inner_text("#state")

        page.focus("#canvas")
        page.keyboard.press("+")
        page.keyboard.press("Enter")
        page.wait_for_selector("#places a.open")
        page.select_option("#colour", "language")
        page.wait_for_selector("#groups th:has-text('Language')")
        page.wait_for_selector("#canvas[data-points]")
        assert asked(page)["colour"] == ["language"]
        for box in page.query_selector_all("[data-group]"):
            box.uncheck()
        page.click("#list")
        page.wait_for_selector("#places p:text-is('0 in view')")
        page.check("[data-group='0']")
        page.click("#list")
        page.click("#places a.open >> nth=0")
        page.wait_for_selector("#code li.on")
        assert page.problems == []


def test_code_is_read_without_scripts(open_page):
    with open_page(f"{CODE}&name=maybe_declare", java_script_enabled=False) as page:
        page.wait_for_selector("#names .places a")
        page.fill("#name", "Broadcast")
        page.press("#name", "Enter")
        page.wait_for_selector("#names h2:has-text('Broadcast')")
        page.click(".tree a.folder >> nth=0")
        page.wait_for_selector(".folder-list a")
        page.goto(VIEWS["graph"])
        page.wait_for_selector(".branches a")
        assert not page.is_visible("#canvas")


def test_a_repository_is_indexed_from_the_page_and_its_run_is_followed(open_page, make_git, served):
    source = make_git()
    source.commit({"new.py": "def brand_new():\n    return 1\n"})
    with open_page("/repositories") as page:
        page.click("summary:has-text('Index a repository')")
        page.fill("#url", str(source.folder))
        page.fill("#as-name", "acme/new")
        page.press("#as-name", "Enter")
        page.wait_for_selector("#run-table tr:has-text('acme/new') .state:has-text('complete')")
        page.wait_for_selector("#refs tr:has-text('acme/new') a.open")
        page.click("#refs tr:has-text('acme/new') a.open")
        page.click(".folder-list a:has-text('new.py')")
        page.wait_for_selector("#code .nf:has-text('brand_new')")
        assert page.problems == []
    with served.client() as client:
        client.remove("acme/new")


#: Returns the positions at which the canvas shows a node.
AT_NODES = """places => {
    const canvas = document.getElementById('canvas');
    const {left, top} = canvas.getBoundingClientRect();
    return places.filter(([x, y]) => {
      const at = {clientX: left + x, clientY: top + y};
      canvas.dispatchEvent(new PointerEvent('pointermove', at));
      return canvas.style.cursor === 'pointer';
    });
}"""


def test_a_graph_is_drawn_and_expands_in_the_lists(open_page):
    with open_page(VIEWS["graph"]) as page:
        page.wait_for_selector("#canvas[data-nodes]")
        before = int(page.get_attribute("#canvas", "data-nodes"))
        assert before == 1 + len(
            set(
                page.eval_on_selector_all(
                    "li[data-node]", "found => found.map(one => one.dataset.node)"
                )
            )
            - {page.get_attribute("#graph", "data-node")}
        )
        page.click(".controls [data-zoom='1.3']")
        page.click(".controls [data-zoom='0']")
        box = page.locator("#canvas").bounding_box()
        places = [
            (x, y)
            for x in range(20, int(box["width"]), 12)
            for y in range(20, int(box["height"]) - 10, 12)
        ]
        for x, y in page.evaluate(AT_NODES, places):
            page.mouse.move(box["x"] + x, box["y"] + y)
            if page.evaluate("document.getElementById('canvas').style.cursor") == "pointer":
                page.mouse.click(box["x"] + x, box["y"] + y)
                if page.query_selector("#graph .inside"):
                    break
        page.wait_for_selector("#graph .inside li[data-node]")
        assert page.problems == []


def test_scripts_planted_in_files_names_and_refs_never_run(open_page):
    views = (
        f"/code?{urlencode(PLANTED)}",
        f"/code?{urlencode({**PLANTED, 'ref': HOSTILE_REF, 'name': 'planted_name'})}",
        f"/code?{urlencode({**PLANTED, 'name': HOSTILE_REF})}",
        f"/code?{urlencode({**PLANTED, 'path': 'src/'})}",
        f"/code?{urlencode({**PLANTED, 'path': HOSTILE_REF, 'lines': HOSTILE_REF})}",
        f"/code/raw?{urlencode(PLANTED)}",
        "/repositories",
        f"/repositories/failures?{urlencode({'repository': HOSTILE_REF})}",
        f"/graph?{urlencode(PLANTED)}",
        f"/graph?{urlencode({'symbol': HOSTILE_REF})}",
        f"/graph?{urlencode({'symbol': 'planted_name'})}",
        f"/code?path={quote(HOSTILE_REF)}",
    )
    with open_page() as page:
        for view in views:
            page.goto(view)
            page.wait_for_load_state("load")
            assert page.evaluate("typeof planted") == "undefined", view
            assert page.query_selector("main script, main img") is None, view
        page.goto(views[0])
        click_name(page, "planted_name")
        page.wait_for_selector("#names h2")
        assert page.evaluate("typeof planted") == "undefined"
        assert page.query_selector("main script, main img") is None
        assert "\u202e" not in page.inner_text("#code")
        assert [one for one in page.problems if "Content Security Policy" in one] == []


@pytest.mark.parametrize("look", LOOKS)
def test_every_view_is_small_and_accessible_and_fits_the_window(open_page, served, look):
    with open_page(**LOOKS[look]) as page:
        seen = loaded(page)
        for name, path in VIEWS.items():
            page.goto(path)
            assert_small(page, seen, served.facts["http"])
            if name in ("graph", "graph-repository"):
                page.wait_for_selector("#canvas[data-nodes]")
            unfold(page)
            assert_fits(page, name, look)
            assert_accessible(page, name, look)
