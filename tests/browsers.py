"""A real browser for tests: the chromium of the machine, driven by Playwright.

If chromium is missing, tests are skipped; with CODELODE_TEST_BROWSER=required they fail.
CODELODE_TEST_SCREENSHOTS=FOLDER stores screenshots of the pages there.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

#: Names of the program; the sandbox of chromium does not work for root or in most containers.
PROGRAMS = ("chromium", "chromium-browser", "google-chrome")
OPTIONS = ("--no-sandbox", "--disable-dev-shm-usage")


@contextmanager
def running_browser() -> Iterator[Browser]:
    program = next(filter(None, map(shutil.which, PROGRAMS)), None)
    if program is None:
        reason = "no browser: chromium is missing (apt-get install chromium)"
        if os.environ.get("CODELODE_TEST_BROWSER") == "required":
            pytest.fail(reason)
        pytest.skip(reason)
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=[*OPTIONS])
        yield browser
        browser.close()


def picture(page: Page, name: str) -> None:
    """Store a screenshot of the page if CODELODE_TEST_SCREENSHOTS is set."""
    folder = os.environ.get("CODELODE_TEST_SCREENSHOTS")
    if folder:
        Path(folder).mkdir(parents=True, exist_ok=True)
        page.screenshot(path=Path(folder) / f"{name}.png")
