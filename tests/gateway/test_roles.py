"""Each service function refuses lower roles with a remedy, as documented."""

from __future__ import annotations

import asyncio
import re
from dataclasses import replace
from pathlib import Path

import grpc
import pytest
from google.protobuf import symbol_database
from grpc import aio

from codelode import api_keys
from codelode.access import EVERYTHING, Principal, Role, Visibility
from codelode.api_keys import ApiKey
from codelode.errors import CodelodeError, Denied
from codelode.settings import Settings
from gateway import app, service
from gateway.app import Gateway
from gateway.service.capabilities import CAPABILITIES
from gateway.service.requests import (
    CreateKeyRequest,
    ExplainRequest,
    FailuresRequest,
    FilesRequest,
    GraphRequest,
    GrepRequest,
    HostEvent,
    MapPlacesRequest,
    MapRequest,
    ReadRequest,
    ReferencesRequest,
    RegisterRequest,
    SearchRequest,
    SimilarRequest,
    StartRequest,
    SymbolsRequest,
)
from gateway.sessions import Credential
from tests.http_gateways import connect

ROLES = {name: one.role for name, one in CAPABILITIES.items()}
URL = "https://host.example/acme/http"
#: Arguments of each service function, by name.
ARGUMENTS = {
    "search": (SearchRequest("load"),),
    "context": (SearchRequest("load"),),
    "similar": (SimilarRequest("load"),),
    "grep": (GrepRequest("load"),),
    "symbols": (SymbolsRequest("load"),),
    "references": (ReferencesRequest("load"),),
    "read": (ReadRequest("src/a.py"),),
    "files": (FilesRequest(),),
    "explain": (ExplainRequest("load"),),
    "chunk_map": (MapRequest(),),
    "map_places": (MapPlacesRequest(),),
    "make_map": (MapRequest(),),
    "graph": (GraphRequest("load"),),
    "repositories": (),
    "scopes": (),
    "status": (),
    "failures": (FailuresRequest(),),
    "watch": ("run",),
    "sign_in": (Credential("Bearer sesame"),),
    "sign_in_link": ("Bearer sesame",),
    "register": (RegisterRequest(URL),),
    "start": (StartRequest(URL),),
    "cancel": ("run",),
    "retry_failures": ("",),
    "enrich": ("",),
    "set_default": ("acme/http", "main"),
    "remove": ("acme/http",),
    "label": ("acme/http", "public"),
    "create_key": (CreateKeyRequest("ci", "reader"),),
    "list_keys": (),
    "revoke_key": ("ci",),
    "permissions": (),
    "sync_permissions": (),
    "sources": (),
    "sync_sources": (),
    "deliver": (HostEvent("work", "somebody", "git.example/", "1"),),
}
SECURITY = Path(__file__).parents[2] / "docs/security.md"


def outcome(dependencies, role, name):
    """Return the error of a call, or None."""
    principal = Principal("somebody", role, EVERYTHING)

    async def called():
        found = getattr(service, name)(dependencies, principal, *ARGUMENTS[name])
        if hasattr(found, "__aiter__"):
            return [one async for one in found]
        return await found

    try:
        asyncio.run(called())
    except CodelodeError as error:
        return error
    return None


def rows():
    """Return the rows of the table: call, service function, and role."""
    row = re.compile(r"\|(?: `(\w+)`)? \| `(\w+)` \| (\w+) \|")
    return [
        found.groups() for line in SECURITY.read_text().splitlines() if (found := row.match(line))
    ]


def test_every_service_function_has_a_role_and_the_document_shows_it():
    functions = set(service.__all__) - {"Dependencies"}

    assert set(ROLES) == functions == set(ARGUMENTS)
    assert {(function, role) for _, function, role in rows()} == set(ROLES.items())


@pytest.mark.parametrize("role", Role)
@pytest.mark.parametrize("name", ROLES)
def test_a_function_refuses_the_roles_below_its_own(dependencies, name, role):
    error = outcome(dependencies, role, name)

    if role.includes(ROLES[name]):
        assert not isinstance(error, Denied)
    else:
        assert isinstance(error, Denied)
        assert all(word in str(error) for word in (ROLES[name], "somebody", "an admin"))


def test_each_role_includes_those_before_it():
    included = {role: [other for other in Role if role.includes(other)] for role in Role}

    assert included == {
        Role.READER: [Role.READER],
        Role.INDEXER: [Role.READER, Role.INDEXER],
        Role.ADMIN: [Role.READER, Role.INDEXER, Role.ADMIN],
    }


@pytest.mark.parametrize(
    ("role", "visible", "is_shown"),
    [
        (Role.ADMIN, EVERYTHING, True),
        (Role.ADMIN, Visibility.of(["acme/http"]), False),
        (Role.INDEXER, EVERYTHING, False),
        (Role.READER, EVERYTHING, False),
    ],
)
async def test_queues_are_shown_to_admins_who_see_everything(dependencies, role, visible, is_shown):
    status = await service.status(dependencies, Principal("somebody", role, visible))

    assert bool(status.queues) == is_shown


# Over gRPC

CALLS = [
    (service.full_name, method)
    for service in (app.SEARCH, app.INDEX, app.GRAPH, app.ACCESS)
    for method in service.methods
]


@pytest.fixture(scope="module")
def required():
    """Return the role that the document names for each call."""
    return {call: Role(role) for call, _, role in rows() if call}


def test_the_document_has_every_call(required):
    assert {method.name for _, method in CALLS} == set(required)


@pytest.mark.parametrize("role", [*Role, None], ids=str)
async def test_every_call_is_refused_to_the_roles_below_its_own(
    dependencies, tmp_path, required, role
):
    settings = Settings(listen="127.0.0.1:0", data=tmp_path, token="not-used-by-this-test")
    gateway = Gateway(replace(dependencies, settings=settings))
    await gateway.start()
    key = _key(dependencies, role) if role else ""
    async with aio.insecure_channel(f"127.0.0.1:{gateway.port}") as channel:
        codes = {method.name: await _code(channel, name, method, key) for name, method in CALLS}
    await gateway.stop(grace_s=0)

    if role is None:
        assert set(codes.values()) == {grpc.StatusCode.UNAUTHENTICATED}
        return
    denied = {name for name, code in codes.items() if code is grpc.StatusCode.PERMISSION_DENIED}
    assert denied == {name for name, needed in required.items() if not role.includes(needed)}
    assert grpc.StatusCode.UNAUTHENTICATED not in codes.values()
    assert grpc.StatusCode.INTERNAL not in codes.values()


def _key(dependencies, role):
    id, secret = api_keys.generate()
    key = ApiKey(id, role.value, api_keys.digest(secret), role, (), 0.0, "token")
    dependencies.keys.add(key)
    return api_keys.text(id, secret)


async def _code(channel, service, method, key):
    """Return the status code of an empty request."""
    request, response = (
        symbol_database.Default().GetSymbol(one.full_name)
        for one in (method.input_type, method.output_type)
    )
    path = f"/{service}/{method.name}"
    is_stream = method.server_streaming
    send = (channel.unary_stream if is_stream else channel.unary_unary)(
        path,
        request_serializer=request.SerializeToString,
        response_deserializer=response.FromString,
    )
    sent = send(request(), metadata=(("authorization", f"Bearer {key}"),) if key else ())
    try:
        await (sent.read() if is_stream else sent)
    except aio.AioRpcError as error:
        return error.code()
    return grpc.StatusCode.OK


# Over HTTP

#: Requests that are valid as such, for the operations whose bodies or parameters are required.
BODIES: dict[str, dict[str, object]] = {
    "Search": {"query": "load"},
    "Context": {"query": "load"},
    "Similar": {},
    "MakeMap": {"repositories": []},
    "RetryFailures": {},
    "EnrichRepository": {},
    "SyncPermissions": {},
    "SyncSources": {},
    "StartRun": {"url": ""},
    "SetDefaultRef": {"repository": "acme/http", "ref": "main"},
    "SetLabel": {"repository": "acme/http", "label": "public"},
    "CreateKey": {"name": "ci", "role": "reader"},
}
PARAMETERS = {
    "Explain": {"subject": "load"},
    "GetGraph": {"subject": "load"},
    "RemoveRepository": {"name": "acme/http"},
}
FORBIDDEN, UNKNOWN, DEFECT = 403, 401, 500


@pytest.mark.parametrize("role", [*Role, None], ids=str)
async def test_every_operation_is_refused_to_the_roles_below_its_own(
    dependencies, tmp_path, required, role
):
    listen = {"listen": "127.0.0.1:0", "http_listen": "127.0.0.1:0"}
    settings = Settings(**listen, data=tmp_path, token="not-used-by-this-test")
    gateway = Gateway(replace(dependencies, settings=settings))
    await gateway.start()
    headers = {"authorization": f"Bearer {_key(dependencies, role)}"} if role else {}
    address = f"http://127.0.0.1:{gateway.http_port}"
    async with connect(address, headers) as client:
        described = (await client.get("/api/openapi.json")).json()["paths"]
        statuses = {
            operation["operationId"]: await _status(client, method, path, operation["operationId"])
            for path, methods in described.items()
            for method, operation in methods.items()
        }
    await gateway.stop(grace_s=0)

    assert statuses.pop("CheckHealth") in (200, 503)  # 503: the gateway has too much to do
    assert statuses.keys() == required.keys()
    assert DEFECT not in statuses.values()
    if role is None:
        assert set(statuses.values()) == {UNKNOWN}
        return
    denied = {name for name, status in statuses.items() if status == FORBIDDEN}
    assert denied == {name for name, needed in required.items() if not role.includes(needed)}
    assert UNKNOWN not in statuses.values()


async def _status(client, method, path, operation):
    given: dict[str, object] = {"params": PARAMETERS.get(operation, {})}
    if operation in BODIES:
        given["json"] = BODIES[operation]
    found = path.format(run_id="run", name="ci")
    return (await client.request(method, found, **given)).status_code


# Over MCP

#: Valid arguments of each tool, and the call that it makes.
TOOLS = {
    "search": ("Search", {"query": "load"}),
    "similar": ("Similar", {"snippet": "load"}),
    "context": ("Context", {"query": "load"}),
    "read": ("ReadFile", {"path": "src/a.py"}),
    "explain": ("Explain", {"subject": "load"}),
    "graph": ("GetGraph", {"subject": "load"}),
    "status": ("GetStatus", {}),
    "index": ("StartRun", {"url": URL, "wait_s": 0}),
}


@pytest.mark.parametrize("role", [*Role, None], ids=str)
async def test_every_tool_is_refused_to_the_roles_below_its_own(
    dependencies, tmp_path, required, role
):
    listen = {"listen": "127.0.0.1:0", "http_listen": "127.0.0.1:0"}
    settings = Settings(**listen, data=tmp_path, token="not-used-by-this-test")
    gateway = Gateway(replace(dependencies, settings=settings))
    await gateway.start()
    headers = {"accept": "application/json, text/event-stream"}
    if role:
        headers["authorization"] = f"Bearer {_key(dependencies, role)}"
    address = f"http://127.0.0.1:{gateway.http_port}"
    async with connect(address, headers) as client:
        answers = {tool: await _told(client, tool, given) for tool, (_, given) in TOOLS.items()}
        tools = await _asked(client, "tools/list")
    await gateway.stop(grace_s=0)

    if role is None:
        assert {answer.status_code for answer in answers.values()} == {UNKNOWN}
        assert tools.status_code == UNKNOWN
        return
    assert tools.text.count('"inputSchema"') == len(TOOLS)
    denied = {tool for tool, answer in answers.items() if "requires the role" in answer.text}
    assert denied == {
        tool for tool, (call, _) in TOOLS.items() if not role.includes(required[call])
    }
    assert not [answer.text for answer in answers.values() if "internal error" in answer.text]


async def _told(client, tool, arguments):
    return await _asked(client, "tools/call", name=tool, arguments=arguments)


async def _asked(client, method, **params):
    body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
    return await client.post("/mcp", json=body)
