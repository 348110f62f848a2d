"""The simulated hosts answer according to the published descriptions of the real ones."""

from __future__ import annotations

import asyncio
import json
import re
import time

import jsonschema
import pytest
from joserfc.jwk import RSAKey

from codelode import sources
from tests import host_schemas
from tests.hosts import APP, TOKEN, Azure, Bitbucket, BitbucketServer, GitHub
from workers.sources import apps, github
from workers.sources.connectors import CONNECTORS
from workers.sources.pages import Pages

SCHEMAS = json.loads(host_schemas.WRITTEN.read_text())
#: GraphQL has no description there, and the paths of an own server begin with more.
OF_GRAPHQL, PREFIX = "/api/graphql", "/api/v3"
#: The fields that connectors need of every row, of hosts whose descriptions require none.
NEEDED = {
    "bitbucket": {"uuid", "full_name", "is_private", "mainbranch", "size", "updated_on"},
    "bitbucket-server": {"id", "slug", "project", "public"},
    "azure": {"id", "name", "project"},
}
#: Those of them that may be null: the branch of an empty repository.
MAY_BE_NULL = {"mainbranch"}


def recorded(server):
    """Make a server record its answers, and return them."""
    given, answer = [], server.answer

    def kept(method, path, *rest):
        found = answer(method, path, *rest)
        given.append((method, path, *found))
        return found

    server.answer = kept
    return given


def declared(kind, url, *, more="token: {env: UNUSED}", organisation="acme"):
    of = f"organisation: {organisation}, " if organisation else ""
    one = f"name: a, kind: {kind}, url: '{url}', {of}{more}"
    return sources.parse(f"connections: [{{{one}, repositories: {{}}}}]", file="f")[0]


async def read(server, kind, organisation="acme"):
    """Send all requests that connectors send to a server of this kind."""
    connection = declared(kind, server.url, organisation=organisation)
    connector = CONNECTORS[connection.kind]
    async with connector.host(connection, TOKEN, Pages()) as host:
        assert [one async for one in connector.repositories(host, connection)]
        if connector.permissions:
            await connector.permissions(host, connection)


async def read_as_app(server):
    """Request a token from a GitHub as an app."""
    key = RSAKey.generate_key(2_048)
    server.app, pem = key, key.as_pem(private=True).decode()
    connection = declared("github", server.url, more=f"app: {{id: {APP}, private_key: {{env: K}}}}")
    async with CONNECTORS[connection.kind].host(connection, pem, Pages()) as host:
        await apps.token(host, connection, pem, rest=github.rest(connection), now=time.time())


def of(kind, method, path):
    """Return the described request that matches."""
    for name in SCHEMAS[kind]:
        described, _, template = name.partition(" ")
        parts = re.sub(r"\\\{\w+\\\}", "[^/]+", re.escape(template))
        if described == method and re.fullmatch(parts, path.removeprefix(PREFIX)):
            return name
    raise AssertionError(f"{kind} has no description of {method} {path}")


def check(kind, given):
    """Compare answers with their descriptions, and return which requests they answer."""
    found, schemas = set(), SCHEMAS[kind]
    for method, path, status, _, value in given:
        if path == OF_GRAPHQL or status >= 400:
            continue
        name = of(kind, method, path)
        found.add(name)
        if "page" in schemas:
            jsonschema.validate(value, schemas["page"])
            value = value["values"]
        for row in value if isinstance(value, list) else value.get("value", [value]):
            jsonschema.validate(row, schemas[name])
            given_to_connector = {field for field in row if row[field] is not None} | MAY_BE_NULL
            assert NEEDED.get(kind, set()) <= given_to_connector & {*row}, f"{name} lacks fields"
            if "project" in schemas:
                jsonschema.validate(row["project"], schemas["project"])
    return found


def test_github_answers_as_its_openapi_document_says():
    server = GitHub()
    given = recorded(server)
    server.repositories[12] = ("tools", "PRIVATE", [3, 9, 2])  # more than a page of collaborators
    asyncio.run(read(server, "github"))
    asyncio.run(read_as_app(server))
    server.close()

    assert check("github", given) == {*SCHEMAS["github"]}


@pytest.mark.parametrize(
    ("kind", "server", "organisations"),
    [
        ("bitbucket", Bitbucket, ["acme"]),
        ("bitbucket-server", BitbucketServer, ["ACME", ""]),  # a project, and the whole server
        ("azure", Azure, ["acme"]),
    ],
)
def test_answers_of_the_other_hosts_match_their_published_types(kind, server, organisations):
    made = server()
    given = recorded(made)
    for organisation in organisations:
        asyncio.run(read(made, kind, organisation))
    made.close()

    assert check(kind, given) == {*SCHEMAS[kind]} - {"page", "project"}


@pytest.mark.parametrize(("kind", "server"), [("bitbucket", Bitbucket), ("azure", Azure)])
@pytest.mark.parametrize("change", ["missing", "null"])
def test_an_answer_without_required_fields_is_an_error_of_the_host(kind, server, change):
    made = server()
    given = recorded(made)
    asyncio.run(read(made, kind))
    made.close()
    ((*_, value),) = given
    row = value["values" if kind == "bitbucket" else "value"][0]
    id = "uuid" if kind == "bitbucket" else "id"
    if change == "null":
        row[id] = None
    else:
        del row[id]

    with pytest.raises(AssertionError, match="lacks fields"):
        check(kind, given)
