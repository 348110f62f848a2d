"""Each service function refuses the roles below its own, with the remedy, and docs say which."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

import pytest

from codelode.access import EVERYTHING, Principal, Role, Visibility
from codelode.errors import CodelodeError, Denied
from gateway import service
from gateway.service.requests import (
    ExplainRequest,
    FailuresRequest,
    GraphRequest,
    RegisterRequest,
    SearchRequest,
    SimilarRequest,
    StartRequest,
)
from gateway.service.roles import ROLES

URL = "https://host.example/acme/http"
#: Arguments of each service function, by name.
ARGUMENTS = {
    "search": (SearchRequest("load"),),
    "context": (SearchRequest("load"),),
    "similar": (SimilarRequest("load"),),
    "explain": (ExplainRequest("load"),),
    "graph": (GraphRequest("load"),),
    "repositories": (),
    "status": (),
    "failures": (FailuresRequest(),),
    "watch": ("run",),
    "register": (RegisterRequest(URL),),
    "start": (StartRequest(URL),),
    "cancel": ("run",),
    "retry_failures": ("",),
    "enrich": ("",),
    "set_default": ("acme/http", "main"),
    "remove": ("acme/http",),
}
SECURITY = Path(__file__).parents[2] / "docs/security.md"


def outcome(dependencies, role, name):
    """The error of a call, or None."""
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
    """The rows of the table: call, service function, and role."""
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
        assert all(word in str(error) for word in (name, ROLES[name], "somebody", "an admin"))


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
