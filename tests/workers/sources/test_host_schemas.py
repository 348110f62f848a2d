"""The servers of the tests answer as the published descriptions of the hosts say."""

from __future__ import annotations

import asyncio
import json
import re
import time

import pytest
from joserfc.jwk import RSAKey

from codelode import sources
from tests import host_schemas
from tests.hosts import APP, TOKEN, Azure, Bitbucket, BitbucketServer, GitHub
from workers.sources import apps, github
from workers.sources.connectors import CONNECTORS
from workers.sources.pages import Pages

jsonschema = pytest.importorskip("jsonschema")

SCHEMAS = json.loads(host_schemas.WRITTEN.read_text())
#: GraphQL has no description there, and the paths of an own server begin with more.
OF_GRAPHQL, PREFIX = "/api/graphql", "/api/v3"


def recorded(server):
    """Have a server keep the answers that it gives, and return these."""
    given, answer = [], server.answer

    def kept(method, path, *rest):
        found = answer(method, path, *rest)
        given.append((method, path, *found))
        return found

    server.answer = kept
    return given


def declared(kind, url, *, more="token: {env: UNUSED}"):
    organisation = "ACME" if kind == "bitbucket-server" else "acme"
    one = f"name: a, kind: {kind}, url: '{url}', organisation: {organisation}, {more}"
    return sources.parse(f"connections: [{{{one}, repositories: {{}}}}]", file="f")[0]


async def read(server, kind):
    """Ask a server for all that is asked of its kind."""
    connection = declared(kind, server.url)
    connector = CONNECTORS[connection.kind]
    async with connector.host(connection, TOKEN, Pages()) as host:
        assert [one async for one in connector.repositories(host, connection)]
        if connector.permissions:
            await connector.permissions(host, connection)


async def read_as_app(server):
    """Ask a GitHub for a token as an app."""
    key = RSAKey.generate_key(2_048)
    server.app, pem = key, key.as_pem(private=True).decode()
    connection = declared("github", server.url, more=f"app: {{id: {APP}, private_key: {{env: K}}}}")
    async with CONNECTORS[connection.kind].host(connection, pem, Pages()) as host:
        await apps.token(host, connection, pem, rest=github.rest(connection), now=time.time())


def of(kind, method, path):
    """Return the request of which there is a description."""
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
    ("kind", "server"),
    [
        ("bitbucket", Bitbucket),
        ("bitbucket-server", BitbucketServer),
        ("azure", Azure),
    ],
)
def test_the_others_answer_as_the_types_say_that_were_generated_from_their_descriptions(
    kind, server
):
    made = server()
    given = recorded(made)
    asyncio.run(read(made, kind))
    made.close()

    assert len(check(kind, given)) == 1
