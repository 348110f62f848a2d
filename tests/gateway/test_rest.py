"""The HTTP port of a real gateway over in-memory twins: credentials, errors, caching, shutdown."""

from __future__ import annotations

import asyncio
import json
import socket
import ssl
from dataclasses import replace

import pytest
from grpc import aio
from starlette.requests import Request
from structlog.testing import capture_logs

from codelode.errors import InvalidSettings, TimedOut
from codelode.listeners import require_secure_listeners
from codelode.settings import Settings
from codelode.v1 import search_pb2, search_pb2_grpc
from gateway.api.rest import calls, problems
from gateway.api.rest.server import HttpServer
from gateway.app import Gateway
from gateway.service import audit_log
from tests.authorities import Authority
from tests.http_gateways import TOKEN, serving

LONG = "sesame-of-16-chr"  # the shortest token for other machines


@pytest.fixture
async def client(tmp_path):
    async with serving(tmp_path) as (client, _):
        yield client


def told(response):
    """Return the status, the field, and the detail of a problem."""
    assert response.headers["content-type"] == problems.MEDIA_TYPE
    problem = response.json()
    assert problem["status"] == response.status_code
    assert problem["request_id"] == response.headers["x-request-id"]
    return response.status_code, problem.get("field", ""), problem["detail"]


@pytest.mark.parametrize("scheme", ["bearer", "BEARER", "Bearer ", "bEaReR"])
async def test_every_face_accepts_the_scheme_bearer_in_any_case(tmp_path, scheme):
    about_tools = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}
    accepted = {"accept": "application/json, text/event-stream"}
    async with serving(tmp_path) as (client, gateway):
        made = await client.post("/api/v1/keys", json={"name": "ann", "role": "reader"})
        for secret in (TOKEN, made.json()["key"]):
            header = {"authorization": f"{scheme} {secret}"}
            assert (await client.get("/api/v1/scopes", headers=header)).status_code == 200
            agent = await client.post("/mcp", json=about_tools, headers={**accepted, **header})
            assert agent.status_code == 200
            link = await client.post("/sign-in/link", headers=header)
            assert (await client.get(link.json()["path"])).status_code == 303
            async with aio.insecure_channel(f"127.0.0.1:{gateway.port}") as channel:
                list_scopes = search_pb2_grpc.SearchServiceStub(channel).ListScopes
                await list_scopes(search_pb2.ListScopesRequest(), metadata=tuple(header.items()))


@pytest.mark.parametrize("authorization", ["Basic {}", "bearer{}", "token {}", "bearer\t{}"])
async def test_another_scheme_does_not_carry_the_shared_token(client, authorization):
    header = {"authorization": authorization.format(TOKEN)}
    assert (await client.get("/api/v1/scopes", headers=header)).status_code == 401


async def test_a_search_is_answered_and_logged_under_the_id_of_its_caller(client):
    with capture_logs() as logs:
        response = await client.post(
            "/api/v1/search", json={"query": "load"}, headers={"x-request-id": "mine"}
        )
        (line,) = [one for one in logs if one["event"] == "http"]

    assert [hit["path"] for hit in response.json()["hits"]] == ["src/a.py"]
    assert response.headers["x-request-id"] == "mine"
    assert (line["method"], line["code"], line["request_id"]) == (
        "POST /api/v1/search",
        "200",
        "mine",
    )


@pytest.mark.parametrize(
    ("header", "remedy"),
    [
        ({}, "requires a token"),
        ({"authorization": "Bearer wrong"}, "is wrong"),
        ({"authorization": TOKEN}, "is wrong"),
        ({"authorization": "Bearer codelode_none_none"}, "API key is wrong"),
    ],
)
async def test_wrong_credentials_are_refused_before_the_body_is_read(client, header, remedy):
    client.headers.pop("authorization")
    response = await client.post("/api/v1/search", content=b"{", headers=header)

    status, _, detail = told(response)
    assert status == 401
    assert remedy in detail
    assert response.headers["www-authenticate"] == "Bearer"


BAD = {
    "an unknown field": ({"query": "x", "topk": 1}, "topk", "is unknown"),
    "an unknown field inside": ({"query": "x", "filters": {"repo": []}}, "filters.repo", "unknown"),
    "a text as a number": (
        {"query": "x", "top_k": "1"},
        "top_k",
        "top_k: must be a whole number; /api/docs",
    ),
    "a number as a text": ({"query": 1}, "query", "query: must be a text; /api/docs"),
    "a text as a list": ({"query": "x", "filters": {"paths": "x"}}, "filters.paths", "be a list"),
    "a text as an object": ({"query": "x", "filters": "x"}, "filters", "must be an object"),
    "no query": ({}, "query", "query: is required and missing; /api/docs"),
    "a list": ([], "body", "JSON object"),
    "half a character": (b'{"query": "\\ud800"}', "query", "Unicode"),
    "half a character as a name": (
        b'{"query": "x", "options": {"rank": {"\\ud800": 1}}}',
        "options.rank",
        "Unicode",
    ),
    "no JSON": (b"{", "body", 'send an object such as {"query": "retry"}'),
    "no text": (b"\xff", "body", "cannot be read"),
    "nothing": (b"", "body", "JSON object"),
    "a huge number": (b'{"query": "x", "top_k": 1%s}' % (b"0" * 5_000), "body", "cannot be read"),
    "depth": (b"[" * 100_000, "body", "cannot be read"),
    "an option": (
        {"query": "x", "options": {"retrieve": {"windw": 1}}},
        "options.retrieve.windw",
        "did you mean 'retrieve.window'",
    ),
    "an option of another type": (
        {"query": "x", "options": {"retrieve": {"window": "5"}}},
        "options.retrieve.window",
        "whole number",
    ),
    "a repository": (
        {"query": "x", "filters": {"repositories": ["acme/ap"]}},
        "filters.repositories",
        "did you mean 'acme/app'",
    ),
}


@pytest.mark.parametrize(("body", "field", "remedy"), BAD.values(), ids=BAD.keys())
async def test_a_bad_body_is_refused_with_the_field_and_the_remedy(client, body, field, remedy):
    given = {"content": body} if isinstance(body, bytes) else {"json": body}
    headers = {"content-type": "application/json"}
    response = await client.post("/api/v1/search", **given, headers=headers)

    status, named, detail = told(response)
    assert status == 400
    assert named.startswith(field)
    assert remedy in detail


async def test_a_body_that_is_not_sent_as_json_is_refused(client):
    response = await client.post(
        "/api/v1/search", content=b'{"query": "load"}', headers={"content-type": "text/plain"}
    )

    assert told(response)[:2] == (400, "body")


@pytest.mark.parametrize("is_announced", [True, False])
async def test_a_body_over_a_megabyte_is_refused(client, is_announced):
    body = b'{"query": "%s"}' % (b"x" * problems.MAX_BODY_BYTES)

    async def parts():
        for start in range(0, len(body), 65_536):
            yield body[start : start + 65_536]

    response = await client.post("/api/v1/search", content=body if is_announced else parts())

    status, field, detail = told(response)
    assert (status, field) == (413, "body")
    assert "1,000,000 bytes" in detail


@pytest.mark.parametrize(
    ("method", "path", "status", "remedy"),
    [
        ("GET", "/api/v1/serch", 404, "did you mean /api/v1/search?"),
        ("GET", "/nothing", 404, "/api/docs lists all"),
        ("GET", "/api/v1/search", 405, "use POST"),
        ("POST", "/api/v1/status", 405, "use GET"),
        ("PUT", "/api/v1/keys", 405, "use GET, POST"),
        ("GET", "/api/v1/keys/ci", 405, "use DELETE"),
        ("POST", "/api/docs", 405, "use GET"),
    ],
)
async def test_an_unknown_route_is_answered_with_a_hint(client, method, path, status, remedy):
    response = await client.request(method, path)

    found, _, detail = told(response)
    assert found == status
    assert remedy in detail


async def test_unknown_parameters_are_refused(client):
    response = await client.get("/api/v1/failures", params={"repositry": "acme/app"})

    assert told(response)[:2] == (400, "repositry")


async def test_an_answer_that_the_caller_has_is_not_sent_again(client):
    first = await client.get("/api/v1/repositories")
    tag = first.headers["etag"]
    assert [one["name"] for one in first.json()] == ["acme/app"]

    for known in (tag, f'"other", W/{tag}'):
        again = await client.get("/api/v1/repositories", headers={"if-none-match": known})
        assert (again.status_code, again.content, again.headers["etag"]) == (304, b"", tag)
    other = await client.get("/api/v1/repositories", headers={"if-none-match": '"other"'})
    assert other.json() == first.json()


async def test_a_caller_beyond_its_limit_is_told_when_to_try_again(tmp_path):
    limits = {"search_per_minute": 6, "limits": "on"}
    async with serving(tmp_path, limited=True, **limits) as (client, _):
        assert (await client.get("/api/v1/repositories")).is_success
        response = await client.get("/api/v1/repositories")

    status, _, detail = told(response)
    assert status == 429
    assert "limit of 6 search calls per minute" in detail
    assert 0 < response.json()["retry_s"] <= int(response.headers["retry-after"]) <= 10


async def test_an_answer_that_takes_too_long_is_ended(dependencies, ledger, tmp_path, monkeypatch):
    monkeypatch.setattr(calls, "TIMEOUT_S", 0.2)
    ledger.answers.clear()
    try:
        async with serving(tmp_path, dependencies=dependencies) as (client, _):
            status, _, detail = told(await client.get("/api/v1/repositories"))
    finally:
        ledger.answers.set()

    assert status == 504
    assert "0.2 s; ask for less" in detail or "before the call began" in detail


async def test_a_defect_is_answered_with_the_id_under_which_the_log_has_it(tmp_path):
    async with serving(tmp_path) as (client, gateway):
        with capture_logs() as logs:
            object.__setattr__(gateway._dependencies, "keys", None)
            response = await client.get("/api/v1/keys")
    status, _, detail = told(response)
    assert status == 500
    (defect,) = [one for one in logs if one["event"] == "defect"]
    assert defect["request_id"] in detail
    assert "NoneType" not in response.text


async def test_health_needs_no_credentials_and_follows_the_gateway(tmp_path):
    async with serving(tmp_path) as (client, gateway):
        client.headers.pop("authorization")
        while (response := await client.get("/api/v1/health")).status_code == 503:
            pass  # the gateway has too much to do
        assert response.json() == {"status": "serving"}
        await gateway._health.drain()
        response = await client.get("/api/v1/health")

    assert (response.status_code, response.json()) == (503, {"status": "not serving"})


async def test_the_api_page_loads_nothing_from_other_hosts(client):
    page = (await client.get("/api/docs")).text

    assert "://" not in page
    assert (await client.get("/api/openapi.json")).json()["openapi"].startswith("3.1")
    for name in ("swagger-ui-bundle.js", "swagger-ui.css"):
        assert f"/api/static/{name}" in page
        assert (await client.get(f"/api/static/{name}")).is_success


# Calls that change something


async def events(response):
    """Yield the events of a response, as name and data."""
    name = ""
    async for line in response.aiter_lines():
        field, _, value = line.partition(": ")
        if field == "event":
            name = value
        elif field == "data":
            yield name, json.loads(value)


async def test_a_run_is_watched_until_it_is_over(client):
    started = await client.post("/api/v1/runs", json={"url": "https://host.example/acme/new"})
    run = started.json()
    assert (started.status_code, run["repository"], run["state"]) == (201, "acme/new", "pulling")
    seen = []
    async with client.stream("GET", f"/api/v1/runs/{run['id']}/events") as response:
        assert response.headers["content-type"].startswith("text/event-stream")
        async for name, data in events(response):
            seen.append((name, data.get("state")))
            if len(seen) == 1:
                cancelled = await client.post(f"/api/v1/runs/{run['id']}/cancel")
                assert cancelled.json()["state"] == "cancelled"

    assert seen == [("run", "pulling"), ("run", "cancelled"), ("end", None)]


async def test_watching_an_unknown_run_is_not_found(client):
    response = await client.get("/api/v1/runs/0123456789abcdef/events")

    assert told(response)[0] == 404


async def test_a_stream_ends_with_an_error_when_the_gateway_stops(tmp_path):
    async with serving(tmp_path) as (client, gateway):
        run = (await client.post("/api/v1/runs", json={"url": "https://host.example/a/b"})).json()
        async with client.stream("GET", f"/api/v1/runs/{run['id']}/events") as response:
            following = events(response)
            assert (await anext(following))[0] == "run"
            stopping = asyncio.create_task(gateway.stop(grace_s=30))
            name, problem = await anext(following)
            assert [one async for one in following] == []
        await stopping

    assert (name, problem["status"]) == ("error", 503)
    assert "watch the run again" in problem["detail"]


async def test_a_watcher_that_disconnects_ends_its_call(tmp_path):
    async with serving(tmp_path) as (client, gateway):
        run = (await client.post("/api/v1/runs", json={"url": "https://host.example/a/b"})).json()
        async with client.stream("GET", f"/api/v1/runs/{run['id']}/events") as response:
            assert (await anext(events(response)))[0] == "run"
            assert not gateway._calls.idle.is_set()
        await asyncio.wait_for(gateway._calls.idle.wait(), 60)


async def test_a_quiet_stream_is_kept_open(client, monkeypatch):
    monkeypatch.setattr("gateway.api.rest.events.BEAT_S", 0.01)
    run = (await client.post("/api/v1/runs", json={"url": "https://host.example/a/b"})).json()
    async with client.stream("GET", f"/api/v1/runs/{run['id']}/events") as response:
        async for line in response.aiter_lines():
            if line == ":":
                break


async def test_a_key_is_created_listed_used_and_revoked(client):
    body = {"name": "ci", "role": "reader", "repositories": ["acme/*"], "expires_in_s": 3600}
    made = await client.post("/api/v1/keys", json=body)
    assert made.status_code == 201
    own = {"authorization": f"Bearer {made.json()['key']}"}

    assert [one["name"] for one in (await client.get("/api/v1/keys")).json()] == ["ci"]
    assert (await client.get("/api/v1/repositories", headers=own)).json() == []  # no label yet
    labelled = {"repository": "acme/app", "label": "internal"}
    assert (await client.post("/api/v1/repositories/label", json=labelled)).json() == ["acme/app"]
    (seen,) = (await client.get("/api/v1/repositories", headers=own)).json()
    assert seen["name"] == "acme/app"
    assert (await client.delete("/api/v1/keys/ci")).status_code == 204
    assert (await client.get("/api/v1/repositories", headers=own)).status_code == 401


async def test_a_repository_is_changed_and_removed(client):
    name = {"repository": "acme/app"}
    default = await client.post("/api/v1/repositories/default-ref", json={**name, "ref": "main"})
    assert default.json()["repository"] == "acme/app"
    assert (await client.post("/api/v1/failures/retry", json=name)).json() == []
    enriched = await client.post("/api/v1/repositories/enrich", json=name)
    assert "CODELODE_LANGUAGE_MODEL" in told(enriched)[2]
    assert (await client.delete("/api/v1/repositories", params={"name": "acme/app"})).is_success

    assert (await client.get("/api/v1/repositories")).json() == []
    again = await client.delete("/api/v1/repositories", params={"name": "acme/app"})
    assert told(again)[0] == 404


async def test_permissions_are_shown_and_asked_for(client):
    assert (await client.get("/api/v1/permissions")).json() == {"connections": [], "problem": ""}
    synced = await client.post("/api/v1/permissions/sync", json={})
    assert "no connection has permission sync" in told(synced)[2]


async def test_sources_are_shown_and_asked_for(client):
    assert (await client.get("/api/v1/sources")).json() == {"sources": [], "problem": ""}
    synced = await client.post("/api/v1/sources/sync", json={"mode": "plan"})
    assert "no connection has its repositories followed" in told(synced)[2]
    wrong = await client.post("/api/v1/sources/sync", json={"mode": "all"})
    assert (wrong.status_code, "there is no mode 'all'" in told(wrong)[2]) == (400, True)


async def test_calls_over_http_are_in_the_audit_log(tmp_path):
    file = tmp_path / "audit.jsonl"
    log = audit_log.opened(Settings(audit_log=str(file)))
    async with serving(tmp_path, audit=log) as (client, _):
        body = {"query": "load", "filters": {"repositories": ["acme/none"]}}
        await client.post("/api/v1/search", json=body)
        await client.delete("/api/v1/repositories", params={"name": "acme/app"})
        await client.post("/api/v1/search", json={"query": 1})
        await client.get("/api/v1/status", headers={"authorization": "none"})
    log.close()

    told = ("call", "principal", "source", "repositories", "outcome")
    assert [
        tuple(json.loads(line)[name] for name in told) for line in file.read_text().splitlines()
    ] == [
        ("search", "token", "127.0.0.1", ["acme/none"], "InvalidQuery"),
        ("remove", "token", "127.0.0.1", ["acme/app"], "ok"),
        ("search", "token", "127.0.0.1", [], "InvalidQuery"),
        ("status", "", "127.0.0.1", [], "Unauthenticated"),
    ]


# Connections that keep the gateway waiting

HEAD = b"GET /api/v1/health HTTP/1.1\r\nHost: localhost\r\n"


@pytest.mark.parametrize("sent", [b"", b"G", HEAD], ids=["nothing", "a byte", "a part"])
@pytest.mark.parametrize("is_first", [True, False], ids=["first", "later"])
async def test_a_connection_that_withholds_headers_is_closed(tmp_path, monkeypatch, sent, is_first):
    monkeypatch.setattr("gateway.api.rest.server.HEADERS_S", 0.2)
    monkeypatch.setattr("gateway.api.rest.server.KEEP_ALIVE_S", 1)
    async with serving(tmp_path) as (_, gateway), asyncio.timeout(60):
        reader, writer = await asyncio.open_connection("127.0.0.1", gateway.http_port)
        if not is_first:
            writer.write(HEAD + b"\r\n")
            assert await reader.readuntil(b'serving"}')
        writer.write(sent)
        assert await reader.read() == b""  # all that comes until the gateway closes
        writer.close()


async def test_a_connection_at_work_stays_open_for_longer_than_headers_may_take(
    tmp_path, monkeypatch
):
    monkeypatch.setattr("gateway.api.rest.server.HEADERS_S", 0.2)
    async with serving(tmp_path) as (client, gateway), asyncio.timeout(60):
        run = (await client.post("/api/v1/runs", json={"url": "https://host.example/a/b"})).json()
        async with client.stream("GET", f"/api/v1/runs/{run['id']}/events") as response:
            following = events(response)
            assert (await anext(following))[0] == "run"
            reader, writer = await asyncio.open_connection("127.0.0.1", gateway.http_port)
            assert await reader.read() == b""  # one that was opened later is closed
            writer.close()
            await client.post(f"/api/v1/runs/{run['id']}/cancel")
            rest = [name async for name, _ in following]

    assert rest == ["run", "end"]


async def test_requests_are_refused_while_there_are_too_many_connections(tmp_path, monkeypatch):
    monkeypatch.setattr("gateway.api.rest.server.MAX_CONNECTIONS", 1)
    async with serving(tmp_path) as (client, gateway), asyncio.timeout(60):
        assert (await client.get("/api/v1/repositories")).is_success
        reader, writer = await asyncio.open_connection("127.0.0.1", gateway.http_port)
        writer.write(HEAD + b"\r\n")
        refused = await reader.read()  # until the gateway closes the connection

        assert refused.startswith(b"HTTP/1.1 429 ")
        assert b"retry-after: 1\r\n" in refused
        assert b"more than 1 connections; try again in 1 s" in refused
        writer.close()
        while not (await client.get("/api/v1/repositories")).is_success:
            pass  # its connection was one too many until the other one was closed


# The address


def test_http_without_authentication_is_refused_even_on_loopback():
    with pytest.raises(InvalidSettings, match="any web page in a browser"):
        require_secure_listeners(Settings(http_listen="127.0.0.1:0"))
    require_secure_listeners(Settings(http_listen="127.0.0.1:0", token=TOKEN))


@pytest.mark.parametrize("listen", ["0.0.0.0:50080", "host.example:1"])
def test_http_without_tls_is_refused_to_other_machines(listen):
    with pytest.raises(InvalidSettings, match=r"CODELODE_HTTP_LISTEN=.*without TLS"):
        require_secure_listeners(Settings(http_listen=listen, token=LONG))
    require_secure_listeners(Settings(http_listen=listen, token=LONG, tls_terminated_by_proxy=True))


@pytest.mark.parametrize("listen", ["127.0.0.1", "127.0.0.1:x", "unix:/run/x.sock"])
def test_a_malformed_address_is_refused_with_an_example(listen):
    with pytest.raises(InvalidSettings, match=r"HTTP_LISTEN.* 127\.0\.0\.1:"):
        require_secure_listeners(Settings(http_listen=listen, token=TOKEN))


async def test_a_taken_port_is_refused_by_name(dependencies, tmp_path):
    async with serving(tmp_path) as (_, gateway):
        taken = f"127.0.0.1:{gateway.http_port}"
        settings = Settings(listen="127.0.0.1:0", http_listen=taken, data=tmp_path, token=TOKEN)
        with pytest.raises(InvalidSettings, match=f"CODELODE_HTTP_LISTEN='{taken}'"):
            await Gateway(replace(dependencies, settings=settings)).start()


def test_the_body_of_an_answer_does_not_wait_for_an_acknowledgement():
    server = HttpServer("127.0.0.1:0")
    with socket.create_connection(("127.0.0.1", server.port)):
        accepted, _ = server._socket.accept()
        assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
        accepted.close()
    server._socket.close()


async def test_https_uses_the_current_certificate(tmp_path):
    authority = Authority(tmp_path / "tls")
    issued = authority.issue("127.0.0.1")
    async with serving(tmp_path, **issued.settings) as (client, _):
        address = client.base_url.join("/api/v1/health")
        assert await names(address, authority) == {"127.0.0.1"}
        authority.issue("127.0.0.1", "other.example")
        assert await names(address, authority) == {"127.0.0.1", "other.example"}


async def names(address, authority):
    """Return the names in the certificate that a new connection gets."""
    context = ssl.create_default_context(cafile=str(authority.root))
    _, writer = await asyncio.open_connection(address.host, address.port, ssl=context)
    found = writer.get_extra_info("peercert")["subjectAltName"]
    writer.close()
    await writer.wait_closed()
    return {name for _, name in found}


async def test_a_caller_that_disconnects_during_its_body_raises_timed_out():
    sent = [
        {"type": "http.request", "body": b"{", "more_body": True},
        {"type": "http.disconnect"},
    ]

    async def receive():
        return sent.pop(0)

    with pytest.raises(TimedOut):
        await calls.body(Request({"type": "http", "headers": []}, receive))
