"""A cluster and a browser, which the tests of all pages share."""

from __future__ import annotations

from contextlib import contextmanager

import httpx
import pytest

from codelode.cluster import token_of
from tests.browsers import running_browser
from tests.end_to_end.pages.samples import (
    COPIED,
    COPY,
    DESKTOP,
    HOSTILE_CODE,
    HOSTILE_NAME,
    HOSTILE_PATH,
    HOSTILE_REF,
    PLANT,
    WAIT_MS,
)


@pytest.fixture(scope="session")
def served(tmp_path_factory, cluster_at, library, make_git):
    """A cluster with two repositories, one of them hostile."""
    made = cluster_at(tmp_path_factory.mktemp("web") / "data")
    made.start()
    try:
        hostile = make_git()
        copied = (library.folder / COPIED).read_text()
        hostile.commit({HOSTILE_PATH: HOSTILE_CODE, "README.md": PLANT, COPY: copied})
        hostile.run("branch", HOSTILE_REF)
        with made.client() as client:
            client.index(str(library.folder), name="acme/library")
            client.index(str(hostile.folder), name=HOSTILE_NAME)
            client.index(str(hostile.folder), name=HOSTILE_NAME, ref=HOSTILE_REF)
        yield made
    finally:
        made.kill()


@pytest.fixture(scope="module")  # its event loop would disturb tests of other files
def chromium():
    with running_browser() as browser:
        yield browser


@pytest.fixture(scope="session")
def token(served):
    return token_of(served.facts["grpc"], served.data)


@pytest.fixture(scope="module")
def open_page(chromium, served, token):
    """Return a function that opens a page in a new browser, signed in by a link."""

    @contextmanager
    def opened(path="/", *, secret=token, **options):
        base = served.facts["http"]
        context = chromium.new_context(base_url=base, **{"viewport": DESKTOP, **options})
        context.set_default_timeout(WAIT_MS)
        page = context.new_page()
        page.problems = []
        page.on("console", lambda one: one.type == "error" and page.problems.append(one.text))
        page.on("pageerror", lambda error: page.problems.append(str(error)))
        if secret and path == "/":
            page.goto(link(base, secret))  # leads there
        else:
            if secret:
                context.request.get(link(base, secret), max_redirects=0)  # sets the cookie
            page.goto(path)
        yield page
        context.close()

    return opened


def link(base, secret):
    answer = httpx.post(
        f"{base}/sign-in/link", headers={"authorization": f"Bearer {secret}"}, timeout=60
    )
    return base + answer.json()["path"]
