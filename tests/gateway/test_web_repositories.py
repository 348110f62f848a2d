"""The repositories page says what the status says, and lets indexers do what their role allows."""

from __future__ import annotations

import json
import time
from dataclasses import asdict

import httpx
import pytest

from codelode.access import EVERYTHING
from codelode.cli import main
from codelode.disk_use import DiskPart
from codelode.ledger import FileManifest, WorkItem
from codelode.model import DEFAULT_REF, RefName, Revision
from tests.contracts.test_faces import TOKEN as RUNNING_TOKEN
from tests.contracts.test_faces import Running
from tests.gateway.test_web_code import PLANT, as_key, browsing
from tests.pages import Page
from tests.worlds import blob


@pytest.fixture
async def opened(tmp_path):
    async with browsing(tmp_path) as made:
        yield made


@pytest.fixture
async def browser(opened):
    return opened[0]


@pytest.fixture(scope="module")
def running(tmp_path_factory):
    made = Running(tmp_path_factory.mktemp("running"))
    yield made
    made.close()


def begun(world, name="acme/app", commit="another commit"):
    """Begin a run that has one file of two done."""
    run = world.ledger.create(name, DEFAULT_REF)
    items = tuple(WorkItem(path, blob(f"{path} changed")) for path in ("README.md", "long.py"))
    manifest = FileManifest(Revision(blob(commit)), items)
    world.ledger.plan(run.id, manifest, ref=RefName("main"), fingerprint="1")
    return world.ledger.run(run.id)


def test_the_page_says_what_the_command_line_says(running, capsys, monkeypatch):
    monkeypatch.setenv("CODELODE_SERVER", running.address)
    measured = DiskPart("mirrors", 1_234_567, 5.0)
    running.dependencies.disk_use.record("mirrors", [measured])
    with pytest.raises(SystemExit):
        main(["status", "--json"])
    said = json.loads(capsys.readouterr().out)
    headers = {"authorization": f"Bearer {RUNNING_TOKEN}"}
    page = Page(httpx.get(f"{running.url}/repositories", headers=headers, timeout=60))

    (facts,) = page.texts("p", id="facts")
    assert facts == (
        f"codelode {said['version']}: {said['chunks']} chunks, {said['store']}, {said['embedder']}"
    )
    assert page.texts("li", class_="server") == [
        f"{one['role'].capitalize()} {one['name']}: {one['problem'] or 'answers'}"
        for one in said["servers"]
    ]
    assert page.rows("refs") == [
        [
            f"{one['name']}{one['url']}dependencies of {one['name']}",
            ref["ref"],
            ref["revision"][:12],
            *(str(ref[count]) for count in ("files", "chunks", "failed", "skipped")),
            time.strftime("%Y-%m-%d %H:%M:%SZ", time.gmtime(ref["indexed_at"])),
            one["label"] or "–",
        ]
        for one in said["repositories"]
        for ref in one["refs"]
    ]
    assert [[row[0], row[2], row[3], row[4], row[7]] for row in page.rows("run-table")] == [
        [
            run["repository"],
            run["state"],
            f"{run['done'] + run['failed']}/{run['total']}",
            str(run["failed"]),
            run["id"],
        ]
        for run in said["runs"]
    ]
    assert page.rows("disk") == [["mirrors", "1.2 MB", "1970-01-01 00:00:05Z"]]
    assert said["disk"] == [asdict(measured)]
    assert page.rows("queues") == [
        [one["name"], str(one["messages"]), str(one["workers"])] for one in said["queues"]
    ]


def test_languages_are_summed_over_the_default_refs(running):
    headers = {"authorization": f"Bearer {RUNNING_TOKEN}"}
    with httpx.Client(base_url=running.url, headers=headers, timeout=60) as client:
        page = Page(client.get("/repositories"))
        status = client.get("/api/v1/status").json()

    files = {}
    for one in (one for each in status["repositories"] for one in each["refs"][0]["health"]):
        count = one["ok"] + one["partial"] + one["error"] + one["unsupported"]
        files[one["language"]] = files.get(one["language"], 0) + count
    assert {row[0]: int(row[1]) for row in page.rows("health")} == files


async def test_a_run_shows_the_commit_that_is_wanted_and_its_events(opened):
    browser, world = opened
    run = begun(world)
    page = Page(await browser.get("/repositories"))

    (row,) = [row for row in page.rows("refs") if row[0].startswith("acme/app")]
    assert row[2] == f"{blob('acme/app')[:12]} → {blob('another commit')[:12]}"
    ((live, _),) = [one for one in page.all("tr") if "data-events" in one[0]]
    assert live["data-events"] == f"/api/v1/runs/{run.id}/events"
    ((progress, _),) = page.all("progress")
    assert (progress["value"], progress["max"]) == ("0", "2")


async def test_failures_have_their_reasons_and_skipped_files_theirs(browser):
    page = Page(await browser.get("/repositories"))
    failed = Page(await browser.get(page.link("1")))
    assert failed.rows("failures") == [["main", "src/bad.js", "failed", "too deep"]]
    everything = Page(await browser.get(failed.link("Also show files left out on purpose")))
    assert ["main", "a.bin", "skipped", "binary"] in everything.rows("failures")
    other = Page(await browser.get("/repositories/failures?repository=acme/other"))
    assert "No such files" in other.text


async def test_a_retry_is_offered_only_where_files_have_failed(opened):
    browser, world = opened
    world.index("acme/skipping", {"src/a.py": "x = 1\n"}, skipped={"a.bin": "binary"})
    failures = "/repositories/failures?all=1&repository"

    assert "Retry the failed files" in Page(await browser.get(f"{failures}=acme/app")).text
    skipped = Page(await browser.get(f"{failures}=acme/skipping"))
    assert ["main", "a.bin", "skipped", "binary"] in skipped.rows("failures")
    assert "Retry" not in skipped.text


async def test_an_indexer_retries_cancels_and_indexes(opened):
    browser, world = opened
    await as_key(browser, "indexer", ["acme/*"])
    for path, form in (
        ("/repositories/retry", {"repository": "acme/app"}),
        ("/repositories", {"url": "https://host.example/acme/other", "name": "acme/other"}),
    ):
        answer = await browser.post(path, data=form)
        assert answer.status_code == 303, Page(answer).text
        assert answer.headers["location"] == "/repositories#runs"
    page = Page(await browser.get("/repositories"))
    live = [one["data-run"] for one, _ in page.all("tr") if "data-events" in one]
    assert len(live) == 2

    answer = await browser.post("/repositories/cancel", data={"run": live[0]})
    assert answer.status_code == 303
    assert world.ledger.run(live[0]).state == "cancelled"


async def test_a_reader_sees_no_buttons_and_may_do_nothing(browser):
    await as_key(browser, "reader", ["acme/*"])
    page = Page(await browser.get("/repositories"))

    assert [one.get("action") for one, _ in page.all("form")] == ["/search", "/sign-out", None]
    assert page.all("table", id="queues") == []
    for path in ("/repositories", "/repositories/retry", "/repositories/cancel"):
        refused = await browser.post(path, data={"url": "https://host.example/acme/app"})
        assert refused.status_code == 403
        assert "requires the role indexer" in Page(refused).text


async def test_a_page_of_another_site_starts_nothing(opened):
    browser, world = opened
    signed_in = await browser.post("/sign-in", data={"secret": "sesame"})
    assert signed_in.status_code == 303
    del browser.headers["authorization"]
    assert (await browser.get("/repositories")).status_code == 200
    before = world.ledger.recent(EVERYTHING)

    foreign = {"origin": "https://elsewhere.example", "sec-fetch-site": "cross-site"}
    refused = await browser.post("/repositories/retry", data={"repository": ""}, headers=foreign)
    assert refused.status_code == 303
    assert refused.headers["location"].startswith("/sign-in")
    assert world.ledger.recent(EVERYTHING) == before


@pytest.mark.parametrize(
    ("path", "form", "status", "says"),
    [
        ("/repositories", {"url": ""}, 400, "URL: it is empty"),
        ("/repositories", {"url": "ftp://x/y"}, 400, "URL: ftp:// is not allowed"),
        ("/repositories/retry", {"repository": "acme/none"}, 404, "there is no repository"),
        ("/repositories/cancel", {"run": "none"}, 404, "there is no run 'none'"),
        ("/repositories", {f"field{n}": "1" for n in range(20)}, 400, "is not a form of this page"),
    ],
)
async def test_an_invalid_form_is_reported(browser, path, form, status, says):
    refused = await browser.post(path, data=form)

    assert refused.status_code == status
    assert says in Page(refused).text


async def test_hidden_repositories_are_neither_listed_nor_counted(opened):
    browser, world = opened
    begun(world)
    await as_key(browser, "admin", ["acme/other"])
    for path in ("/repositories", "/repositories/failures?all=1"):
        assert "acme/app" not in (await browser.get(path)).text
    told = set()
    for name in ("acme/app", "acme/axx"):
        page = Page(await browser.get("/repositories/failures", params={"repository": name}))
        told.add((page.status, page.text.replace(name, "NAME").partition("Request")[0]))
    assert len(told) == 1


async def test_an_empty_index_says_how_to_begin(tmp_path):
    async with browsing(tmp_path) as (browser, world):
        for name in ("acme/app", "acme/other"):
            world.ledger.unregister(name)
            world.ledger.removal_finished(name)
        page = Page(await browser.get("/repositories"))
        await as_key(browser, "reader", ["acme/*"])
        reader = Page(await browser.get("/repositories"))

    assert "codelode index https://host/owner/name" in page.text
    assert "Ask somebody with the role indexer" in reader.text


async def test_scripts_planted_in_reasons_and_notes_are_text(tmp_path):
    async with browsing(tmp_path) as (browser, world):
        world.index("acme/bad", {}, ref=PLANT, failed={f"{PLANT}.py": PLANT})
        for path in ("/repositories", "/repositories/failures?all=1"):
            response = await browser.get(path)
            page = Page(response)
            assert "planted=1" in page.text
            assert [found for found, _ in page.all("img") if "onerror" in found] == []
            assert all("src" in found for found, _ in page.all("script"))
