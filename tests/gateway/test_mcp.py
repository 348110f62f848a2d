"""MCP on the HTTP port of a real gateway over in-memory twins: callers, hosts, progress, shutdown.

What the tools answer is compared with the other faces in tests/contracts/test_faces.py.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys

import pytest
from structlog.testing import capture_logs

from codelode import api_keys
from codelode.access import Label, Role
from codelode.api_keys import ApiKey
from codelode.model import RunState
from codelode.settings import Settings
from gateway.api.rest.problems import MAX_BODY_BYTES
from gateway.service import audit_log
from tests.agents import HttpAgent
from tests.http_gateways import TOKEN, answer_to_half_a_body, serving
from tests.waiting import until

pytestmark = pytest.mark.slow

ACCEPTED = {"accept": "application/json, text/event-stream"}
METADATA = "/.well-known/oauth-protected-resource"


def message(method, **params):
    return {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}


def call(tool, /, **arguments):
    return message("tools/call", name=tool, arguments=arguments)


async def post(client, body, **headers):
    return await client.post("/mcp", json=body, headers={**ACCEPTED, **headers})


async def asked(client, body, **headers):
    """Return the result of a request."""
    response = await post(client, body, **headers)
    assert response.status_code == 200, response.text
    *_, last = messages(response.text)
    return last["result"]


def messages(text):
    """Return the messages in a stream of events, or the only message."""
    if not text.startswith(("event:", ":")):
        return [json.loads(text)]
    lines = (line.removeprefix("data: ") for line in text.splitlines() if line.startswith("data: "))
    return [json.loads(line) for line in lines if line]


async def said(client, body, **headers):
    """Return the text of a tool's answer, and whether it is an error."""
    result = await asked(client, body, **headers)
    return result["content"][0]["text"], result["isError"]


@pytest.fixture
async def client(tmp_path):
    async with serving(tmp_path) as (client, _):
        yield client


# Callers


@pytest.mark.parametrize("given", ["", "Bearer wrong", "none"])
async def test_an_unknown_caller_is_shown_the_way_to_the_issuer(tmp_path, given):
    issuers = {"oidc_issuers": "https://login.example.com/main", "oidc_audience": "codelode"}
    async with serving(tmp_path, **issuers) as (client, gateway):
        response = await post(client, message("tools/list"), authorization=given)
        base = f"http://127.0.0.1:{gateway.http_port}"
        told = response.headers["www-authenticate"]
        about = [(await client.get(at)).json() for at in (f"{METADATA}/mcp", METADATA)]

    assert response.status_code == response.json()["status"] == 401
    assert told == f'Bearer resource_metadata="{base}{METADATA}/mcp"'
    assert (
        about
        == [
            {
                "resource": f"{base}/mcp",
                "resource_name": "codelode",
                "bearer_methods_supported": ["header"],
                "authorization_servers": ["https://login.example.com/main"],
            }
        ]
        * 2
    )


async def test_without_an_issuer_the_metadata_name_none(client):
    about = (await client.get(f"{METADATA}/mcp")).json()

    assert about["resource"].endswith("/mcp")
    assert "authorization_servers" not in about


async def test_a_gateway_behind_a_proxy_that_terminates_tls_is_named_by_https(tmp_path):
    async with serving(tmp_path, tls_terminated_by_proxy=True) as (client, _):
        about = (await client.get(f"{METADATA}/mcp")).json()

    assert about["resource"].startswith("https://127.0.0.1:")


def keyed(dependencies, role):
    id, secret = api_keys.generate()
    key = ApiKey(id, role.value, api_keys.digest(secret), role, (), 0.0, "token")
    dependencies.keys.add(key)
    return {"authorization": f"Bearer {api_keys.text(id, secret)}"}


async def test_a_tool_has_the_role_of_the_key_that_came_with_the_request(tmp_path):
    async with serving(tmp_path) as (client, gateway):
        reader = keyed(gateway._dependencies, Role.READER)
        indexer = keyed(gateway._dependencies, Role.INDEXER)
        gateway._dependencies.ledger.set_label("acme/app", Label.PUBLIC)
        start = call("index", url="https://host.example/acme/app", wait_s=0)
        found, _ = await said(client, call("search", query="load"), **reader)
        refused, is_error = await said(client, start, **reader)
        started, _ = await said(client, start, **indexer)

    assert "src/a.py:1-2" in found
    assert is_error
    assert "requires the role indexer" in refused
    assert started.startswith("acme/app  pulling")


async def test_a_caller_beyond_its_limit_is_told_when_to_try_again(tmp_path):
    async with serving(tmp_path, limited=True, search_per_minute=6, limits="on") as (client, _):
        await said(client, call("search", query="load"))
        text, is_error = await said(client, call("search", query="load"))

    assert is_error
    assert "limit of 6 search calls per minute" in text


async def test_calls_of_tools_and_refused_requests_are_logged_and_audited(tmp_path):
    file = tmp_path / "audit.jsonl"
    log = audit_log.opened(Settings(audit_log=str(file)))
    async with serving(tmp_path, audit=log) as (client, _):
        with capture_logs() as logs:
            await said(client, call("search", query="load"), **{"x-request-id": "mine"})
            await asked(client, message("tools/list"))
            await post(client, message("tools/list"), authorization="none")
            await asyncio.sleep(0)  # lines are logged after the answers
    log.close()

    lines = [one for one in logs if one["event"] == "mcp"]
    assert [(one["method"], one["code"], one.get("principal")) for one in lines] == [
        ("Search", "ok", "token"),
        ("POST /mcp", "Unauthenticated", None),
    ]
    assert lines[0]["request_id"] == "mine"
    told = ("call", "principal", "source", "outcome")
    assert [
        tuple(json.loads(line)[name] for name in told) for line in file.read_text().splitlines()
    ] == [
        ("search", "token", "127.0.0.1", "ok"),
        ("mcp", "", "127.0.0.1", "Unauthenticated"),
    ]


# Requests


@pytest.mark.parametrize("version", ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"])
async def test_every_published_version_of_the_handshake_is_spoken(client, version):
    about = {"name": "test", "version": "1"}
    hello = message("initialize", protocolVersion=version, capabilities={}, clientInfo=about)
    header = {"mcp-protocol-version": version}

    assert (await asked(client, hello))["protocolVersion"] == version
    assert len((await asked(client, message("tools/list"), **header))["tools"]) == 8
    text, _ = await said(client, call("search", query="load"), **header)
    assert "src/a.py:1-2 load (function)" in text


async def test_prompts_and_files_are_offered_as_over_stdio(client):
    asking = message("prompts/get", name="impact", arguments={"subject": "src/a.py"})
    prompt = await asked(client, asking)
    file = await asked(client, message("resources/read", uri="codelode://file/acme%2Fapp/src/a.py"))

    assert "What does a change of src/a.py affect?" in prompt["messages"][0]["content"]["text"]
    assert "1  def load(store):" in file["contents"][0]["text"]


@pytest.mark.parametrize("method", ["GET", "DELETE", "PUT"])
async def test_other_methods_are_refused_because_there_are_no_sessions(client, method):
    response = await client.request(method, "/mcp", headers=ACCEPTED)

    assert (response.status_code, response.headers["allow"]) == (405, "POST")
    assert "use POST" in response.json()["detail"]


async def test_a_body_over_a_megabyte_is_refused(client):
    response = await post(client, call("search", query="x" * MAX_BODY_BYTES))

    assert response.status_code == 413
    assert "ask for less at once" in response.json()["detail"]


async def test_a_body_that_never_ends_times_out(tmp_path, monkeypatch):
    monkeypatch.setattr("gateway.api.mcp.endpoint.TIMEOUT_S", 0.2)
    async with serving(tmp_path) as (_, gateway), asyncio.timeout(60):
        answer = await answer_to_half_a_body(
            gateway,
            "/mcp",
            **{"Authorization": f"Bearer {TOKEN}", "Content-Type": "application/json"},
            **ACCEPTED,
        )

    assert answer.startswith("HTTP/1.1 504 ")
    assert "was not sent within 0.2 s" in answer


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"host": "rebound.example:50080"}, 421),
        ({"host": "localhost.rebound.example"}, 421),
        ({"host": "127.0.0.1:x"}, 421),
        ({"origin": "https://page.example"}, 403),
        ({"origin": "http://192.0.2.7"}, 403),
        ({"origin": "null"}, 403),
        ({"host": "localhost:50080"}, 200),
        ({"host": "[::1]:50080"}, 200),
        ({"host": "192.0.2.7:50080"}, 200),
        ({"host": "Search.example.com"}, 200),
        ({"host": "search.example.com:443", "origin": "https://search.example.com"}, 200),
        ({"origin": "http://localhost:6274"}, 200),
    ],
    ids=str,
)
async def test_only_known_hosts_and_their_pages_are_answered(tmp_path, headers, status):
    async with serving(tmp_path, http_hosts="search.example.com") as (client, _):
        response = await post(client, message("tools/list"), **headers)

    assert response.status_code == status
    if status != 200:
        told = response.json()
        assert "CODELODE_HTTP_HOSTS" in told["detail"]
        error = "InvalidQuery" if status == 421 else "Denied"
        assert told["type"] == f"urn:codelode:error:{error}"


async def test_a_path_is_not_looked_up_in_the_folders_of_the_gateway(tmp_path, monkeypatch):
    (tmp_path / "secret").mkdir()
    monkeypatch.chdir(tmp_path)
    async with serving(tmp_path) as (client, _):
        answers = [await said(client, call("index", url=url)) for url in ("secret", "absent")]

    (there, is_error), (absent, _) = answers
    assert is_error
    assert there.replace("secret", "absent") == absent


async def test_a_defect_is_reported_with_the_request_id_of_its_log_entry(tmp_path):
    async with serving(tmp_path) as (client, gateway):
        object.__setattr__(gateway._dependencies, "coverage", None)
        with capture_logs() as logs:
            text, is_error = await said(
                client, call("search", query="load"), **{"x-request-id": "mine"}
            )

    assert is_error
    assert text == "internal error mine: the server's log has the details"
    assert [one["request_id"] for one in logs if one["event"] == "defect"] == ["mine"]


# Runs


@pytest.mark.parametrize("version", ["2025-06-18", "2026-07-28"])
async def test_the_progress_of_a_run_arrives_while_it_runs(tmp_path, version):
    async with serving(tmp_path) as (_, gateway):
        seen = asyncio.Queue()
        url = f"http://127.0.0.1:{gateway.http_port}"
        mode = "legacy" if version < "2026" else "auto"
        loop = asyncio.get_running_loop()

        async def on_progress(done, total, text):
            loop.call_soon_threadsafe(seen.put_nowait, text)

        agent = await asyncio.to_thread(HttpAgent, url, TOKEN, mode=mode)
        given = {"url": "https://host.example/acme/new", "wait_s": 100, "on_progress": on_progress}
        answering = asyncio.create_task(asyncio.to_thread(agent.result, "index", **given))
        begun = await asyncio.wait_for(seen.get(), 60)
        run = begun.rpartition(" ")[2]
        assert not answering.done()
        await asyncio.to_thread(_cancel, gateway, run)
        answer = await answering
        await asyncio.to_thread(agent.close)

    assert begun.startswith("acme/new  pulling")
    assert answer.content[0].text.startswith("acme/new  cancelled")


def _cancel(gateway, run):
    gateway._dependencies.ledger.end(run, RunState.CANCELLED, "")


async def test_a_stopping_gateway_says_that_the_run_continues(tmp_path):
    async with serving(tmp_path) as (client, gateway):
        start = call("index", url="https://host.example/acme/new", wait_s=100)
        answering = asyncio.create_task(said(client, start))
        await until(lambda: gateway._dependencies.jobs.sent[1:], "the run")
        await gateway.stop(grace_s=30)
        text, is_error = await answering

    assert not is_error
    assert "note: the run goes on in the cluster" in text


async def test_an_agent_that_leaves_ends_its_call(tmp_path):
    async with serving(tmp_path) as (client, gateway):
        start = call("index", url="https://host.example/acme/new", wait_s=100)
        answering = asyncio.create_task(post(client, start))
        await until(lambda: gateway._dependencies.jobs.sent[1:], "the run")
        answering.cancel()
        await asyncio.wait_for(gateway._calls.idle.wait(), 60)


def test_the_library_is_not_imported_until_an_agent_comes():
    script = (
        "import sys; from gateway import app; from gateway.api.rest import app, calls, server\n"
        "print([name for name in ('mcp', 'mcp_types', 'codelode.cli') if name in sys.modules])"
    )
    printed = subprocess.run(
        [sys.executable, "-c", script],
        env=os.environ,
        capture_output=True,
        text=True,
        check=True,
    ).stdout

    assert printed.strip() == "[]"
