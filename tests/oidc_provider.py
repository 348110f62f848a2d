"""A real OpenID Connect provider: the npm package `oidc-provider`, installed once."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx

from tests.guardian import GUARDIAN
from tests.programs import node, npm_packages

PACKAGE = "oidc-provider@9.13.3"  # MIT

PROGRAM = Path(__file__).with_suffix(".mjs")


@contextmanager
def running_provider(folder: Path, **environment: str) -> Iterator[str]:
    """Run the provider and yield its issuer; skip the test if it cannot be installed."""
    program = folder / PROGRAM.name
    shutil.copy(PROGRAM, program)
    (folder / "node_modules").symlink_to(npm_packages(PACKAGE) / "node_modules")
    process = GUARDIAN.popen(
        [node(), program],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env={**os.environ, **environment},
    )
    try:
        issuer = process.stdout.readline().strip()
        assert issuer.startswith("http://127.0.0.1:"), "the provider does not start"
        yield issuer
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def through_the_pages(browser: httpx.Client, url: str, *, name: str) -> httpx.Response:
    """Log in and consent, as a browser that follows redirects does; return the last page."""
    page = browser.get(url)
    page = browser.post(_action(page), data={"prompt": "login", "login": name, "password": "any"})
    return browser.post(_action(page), data={"prompt": "consent"})


def _action(page: httpx.Response) -> httpx.URL:
    """Return the URL to which the page's form is sent."""
    (found,) = re.findall(r'<form[^>]* action="([^"]+)"', page.text)
    return page.url.join(found)
