"""The extension in a real VS Code in a browser, over a real cluster that has indexed real code."""

from __future__ import annotations

import importlib.util
import json
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest

from codelode.cluster import token_of
from tests.browsers import picture, running_browser
from tests.code_server import running_code_server

pytestmark = pytest.mark.timeout(600)

WAIT_MS = 90_000
INPUT = ".quick-input-filter input[type=text], .quick-input-filter input[type=password]"
BUILD = Path(__file__).parents[2] / "editors" / "vscode" / "build.py"

POOL = '''"""Pools of connections."""


class Pool:
    def drain_idle_connections(self):
        """Close the connections that nobody uses."""
        return 0
'''
USER = """from pool import Pool


def stop(pool: Pool):
    pool.drain_idle_connections()
"""


@pytest.fixture(scope="module")
def served(tmp_path_factory, cluster_at, library, make_git):
    """A cluster with a repository that the editor has open, and one that it has not."""
    made = cluster_at(tmp_path_factory.mktemp("vscode") / "data")
    made.start()
    try:
        other = make_git()
        other.commit({"src/pool.py": POOL, "src/user.py": USER})
        with made.client() as client:
            client.index(str(library.folder), name="acme/library")
            client.index(str(other.folder), name="acme/other")
        yield made
    finally:
        made.kill()


@pytest.fixture(scope="module")
def vsix():
    spec = importlib.util.spec_from_file_location("build", BUILD)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.build()


@pytest.fixture(scope="module")
def address(tmp_path_factory, vsix, served):
    folder = tmp_path_factory.mktemp("code-server")
    with running_code_server(folder, vsix, CODELODE_DATA=str(served.data)) as found:
        yield found


@pytest.fixture(scope="module")
def chromium():
    with running_browser() as browser:
        yield browser


@pytest.fixture
def open_editor(chromium, address, library):
    """Return a function that opens the editor in a new browser, with a folder."""

    @contextmanager
    def opened(folder=library.folder):
        context = chromium.new_context(viewport={"width": 1280, "height": 800})
        context.set_default_timeout(WAIT_MS)
        context.grant_permissions(["clipboard-read", "clipboard-write"])
        page = context.new_page()
        page.goto(f"{address}/?folder={folder}")
        status(page, "codelode: not connected")
        try:
            yield page
        except BaseException:
            picture(page, "vscode-failed")
            raise
        context.close()

    return opened


def status(page, text):
    """Wait until the status bar shows the text."""
    page.wait_for_selector(f".statusbar-item:has-text('{text}')")


def command(page, title):
    page.keyboard.press("F1")
    page.wait_for_function(
        "document.activeElement.closest('.quick-input-widget') && "
        "document.activeElement.value.startsWith('>')"
    )
    page.fill(INPUT, f">codelode: {title}")
    row(page, f"codelode: {title}")
    page.keyboard.press("Enter")


def row(page, text):
    """Wait for a row with the text in the list that is shown."""
    found = page.locator(f".quick-input-list .monaco-list-row:has-text({json.dumps(text)})").first
    found.wait_for()
    return found


def rows(page):
    found = page.query_selector_all(".quick-input-list .monaco-list-row")
    return [one.get_attribute("aria-label") for one in found]


def title(page, text):
    """Wait for a list or an input with exactly this title."""
    page.wait_for_selector(f".quick-input-title:text-is({json.dumps(text)})")


def notified(page, text):
    page.wait_for_selector(f".notification-list-item-message:has-text({json.dumps(text)})")


def connect(page, then="connected"):
    command(page, "Connect")
    row(page, "The cluster of this machine")
    page.keyboard.press("Enter")
    notified(page, "2 repositories")
    status(page, f"codelode: {then}")


def search(page, query):
    command(page, "Search")
    title(page, "codelode: Search")
    page.fill(INPUT, query)


def opened(page, path, line):
    """Wait until an editor with the file has the focus and the cursor in the line."""
    page.wait_for_selector(".monaco-editor.focused")
    page.wait_for_selector(f".tab.active[data-resource-name={json.dumps(path)}]")
    page.wait_for_selector(f".statusbar-item:has-text('Ln {line}, Col')")


def test_a_search_previews_with_the_arrow_keys_and_opens_at_the_line(open_editor):
    with open_editor() as page:
        connect(page)
        search(page, "repo:acme/library maybe_declare")
        row(page, "def maybe_declare(entity")
        picture(page, "vscode-search")
        first, second, *_ = rows(page)
        assert first.startswith("kombu/common.py:110, maybe_declare")
        assert not page.query_selector(".tab"), "a file is opened before a key is pressed"

        page.keyboard.press("ArrowDown")
        name = Path(second.partition(":")[0]).name
        page.wait_for_selector(f".tab.active:has-text({json.dumps(name)})")
        assert page.is_visible(".quick-input-widget"), "the preview takes the focus"

        page.keyboard.press("ArrowUp")
        page.wait_for_selector(".tab.active:has-text('common.py')")
        page.keyboard.press("Enter")
        page.wait_for_selector(".quick-input-widget", state="hidden")
        opened(page, "common.py", 110)
        assert len(page.query_selector_all(".tab")) == 1

        command(page, "Search")
        row(page, "repo:acme/library maybe_declare")  # the history
        page.keyboard.press("Enter")
        row(page, "def maybe_declare(entity")


def test_the_buttons_of_the_search_filter_it(open_editor):
    with open_editor() as page:
        connect(page)
        search(page, "pool")
        row(page, "acme/library")
        page.click("[aria-label='Only these repositories']")
        title(page, "codelode: Search (repo)")
        row(page, "acme/other").click()
        page.keyboard.press("Enter")
        title(page, "codelode: Search")
        row(page, "acme/other")
        assert page.input_value(INPUT) == "repo:acme/other pool"
        assert not [one for one in rows(page) if "acme/library" in one]


def test_code_outside_the_workspace_is_shown_and_explained(open_editor):
    with open_editor() as page:
        connect(page)
        search(page, "repo:acme/other drain_idle_connections")
        row(page, "src/pool.py:5")
        page.keyboard.press("Enter")
        opened(page, "pool.py", 5)

        page.keyboard.press("Home")
        for _ in range(2):  # from `def` to the name
            page.keyboard.press("Control+ArrowRight")
        command(page, "Explain")
        title(page, "codelode: Explain drain_idle_connections")
        row(page, "is a method in src/pool.py:5-7 of acme/other")
        row(page, "Close the connections that nobody uses.")
        picture(page, "vscode-explain")
        page.keyboard.press("Escape")

        command(page, "Who Uses This")
        row(page, "src/user.py:5")
        assert not [one for one in rows(page) if "pool.py" in one], "a definition is no use"
        row(page, "src/user.py:5").click()
        opened(page, "user.py", 5)

        command(page, "Find Similar Code")
        title(page, "codelode: Similar Code")
        row(page, "acme/other")
        page.keyboard.press("Escape")

        command(page, "Copy Permalink")
        notified(page, "The permalink is copied.")
        link = urlsplit(page.evaluate("navigator.clipboard.readText()"))
        (lines,) = parse_qs(link.query)["lines"]
        (revision,) = parse_qs(link.query)["ref"]
        assert (link.path, len(revision)) == ("/code", 40)
        assert lines == "5-5"


def test_a_refused_token_is_reported_and_not_stored(open_editor, served):
    with open_editor() as page:
        enter_server(page, served.facts["http"], "wrong")
        page.wait_for_selector(".notification-list-item-message:has-text('token')")
        status(page, "codelode: not connected")

        enter_server(page, served.facts["http"], token_of(served.facts["grpc"], served.data))
        notified(page, "2 repositories")
        status(page, "codelode: connected")


def enter_server(page, server, token):
    command(page, "Connect")
    row(page, "Another server").click()
    title(page, "codelode: Connect (1/2)")
    page.fill(INPUT, server)
    page.keyboard.press("Enter")
    title(page, "codelode: Connect (2/2)")
    page.fill(INPUT, token)
    page.keyboard.press("Enter")


def test_mcp_is_set_up_without_a_secret_in_the_file(open_editor, served, tmp_path):
    file = tmp_path / ".vscode" / "mcp.json"
    file.parent.mkdir()
    file.write_text('{"servers": {"other": {"command": "other"}}}')
    with open_editor(tmp_path) as page:
        connect(page, then="not indexed")
        command(page, "Set Up MCP")
        page.wait_for_selector(".tab.active:has-text('mcp.json')")

    found = json.loads(file.read_text())
    assert set(found["servers"]) == {"other", "codelode"}
    assert found["servers"]["codelode"]["url"] == f"{served.facts['http']}/mcp"
    assert token_of(served.facts["grpc"], served.data) not in file.read_text()


def test_an_unreachable_gateway_is_reported_and_its_return_noticed(open_editor, served):
    with open_editor() as page:
        connect(page)
        served.stop()
        status(page, "codelode: error")
        search(page, "drain_idle_connections")
        row(page, "No cluster runs on this machine")
        picture(page, "vscode-away")

        served.start()  # on another port
        page.keyboard.press("Enter")
        row(page, "src/pool.py:5")
        page.keyboard.press("Escape")
        status(page, "codelode: connected")
