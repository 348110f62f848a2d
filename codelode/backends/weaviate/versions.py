"""Find, create, publish, and drop the collections behind an alias.

Functions with a synchronous client serve writers, those with an asynchronous one readers, which
never create anything. Two processes may create the same collection at the same time; the error
that it already exists counts as success.

Organisations share a collection until one of them changes its embedder. That one then gets its own
alias, which has precedence; the others keep the collection and alias that they had.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from contextlib import closing
from http.client import HTTPConnection, HTTPException
from typing import Any

from weaviate import WeaviateAsyncClient, WeaviateClient
from weaviate.classes.tenants import Tenant
from weaviate.exceptions import UnexpectedStatusCodeError

from codelode.backends.remedies import AFRESH, EMBEDDER
from codelode.backends.weaviate import intent_log
from codelode.backends.weaviate.connection import Address, http_connection
from codelode.backends.weaviate.errors import GONE, KEY_REFUSED, LOST
from codelode.backends.weaviate.schema import (
    TenantIndex,
    Version,
    choice_from,
    definition,
    from_description,
)
from codelode.errors import Corrupt, InvalidSettings, SchemaMismatch, Superseded, Unavailable

_EXISTS = 422


def published(
    address: Address, index: TenantIndex
) -> tuple[str, Mapping[str, object], Version | None]:
    """Return the current collection's name, the settings of its embedder, and its version.

    An empty name means that there is none; empty settings mean that each process uses its own. Asks
    over one plain connection, because a client of the library takes 60 ms of processor time to
    create and this is called every other second. Raises Unavailable, InvalidSettings.
    """
    with closing(http_connection(address)) as http:
        for alias in (index.own_alias, index.alias):
            if found := _get(http, f"/v1/aliases/{alias}", address):
                name = str(found["class"])
                collection = _get(http, f"/v1/schema/{name}", address)
                if collection is None:
                    break
                description = collection["description"]
                return name, choice_from(description), from_description(description)
    return "", {}, None


def require(client: WeaviateClient, index: TenantIndex, version: Version) -> str:
    """Return the name of the current collection; create it and its tenant if they are missing.

    Raises SchemaMismatch when it has another version.
    """
    name = target(client, index)
    if name is None:
        made = create(client, index, version)
        _unless_exists(lambda: client.alias.create(alias_name=index.alias, target_collection=made))
        name = target(client, index) or made  # another process may have been first
    if not client.collections.exists(name):
        raise Corrupt(LOST)
    check(_description(client, name), index, version)
    add_tenant(client, name, index)
    return name


def has_tenant(client: WeaviateClient, name: str, index: TenantIndex) -> bool:
    return client.collections.use(name).tenants.exists(index.tenant)


def describe(
    client: WeaviateClient, index: TenantIndex, version: Version, choice: Mapping[str, object]
) -> None:
    """Store the settings that select the embedder with the version's collection."""
    collection = client.collections.use(version.collection(index.alias))
    collection.config.update(description=version.describe(choice))


def require_current(client: WeaviateClient, index: TenantIndex, name: str) -> None:
    """Raise Superseded when another collection has replaced this one."""
    current = target(client, index)
    if current is not None and current != name:
        raise Superseded(f"{current} has taken the place of {name} in Weaviate")


def create(
    client: WeaviateClient,
    index: TenantIndex,
    version: Version,
    *,
    choice: Mapping[str, object] | None = None,
) -> str:
    """Create the version's collection and tenant unless they exist; return the name."""
    name = version.collection(index.alias)
    wanted = definition(version, replicas=index.replicas, choice=choice)
    if not client.collections.exists(name):
        _unless_exists(lambda: client.collections.create(name, **wanted))
    create_intent_log(client, index)
    add_tenant(client, name, index)
    return name


def create_intent_log(client: WeaviateClient, index: TenantIndex) -> None:
    """Create the collection of intents unless it exists."""
    name = intent_log.collection_name(index)
    if not client.collections.exists(name):
        _unless_exists(lambda: client.collections.create(name, **intent_log.definition(index)))


def add_tenant(client: WeaviateClient, name: str, index: TenantIndex) -> None:
    tenants = client.collections.use(name).tenants
    if not tenants.exists(index.tenant):
        _unless_exists(lambda: tenants.create(Tenant(name=index.tenant)))


def publish(client: WeaviateClient, index: TenantIndex, version: Version) -> str | None:
    """Swap in the version's collection atomically; return the name of the one it replaced."""
    before, name = target(client, index), version.collection(index.alias)
    if before == name:
        return None
    alias = _alias_to_update(client, index, before)
    if client.alias.get(alias_name=alias) is None:
        client.alias.create(alias_name=alias, target_collection=name)
    else:
        client.alias.update(alias_name=alias, new_target_collection=name)
    return before


def _alias_to_update(client: WeaviateClient, index: TenantIndex, before: str | None) -> str:
    """Return the alias to move: the shared one, unless the organisation has or needs its own."""
    if client.alias.get(alias_name=index.own_alias) is not None:
        return index.own_alias
    others = _tenants(client, before) - {index.tenant} if before else None
    return index.own_alias if others else index.alias


def drop(client: WeaviateClient, index: TenantIndex, name: str) -> None:
    """Delete the organisation's objects in a collection that is not its current one.

    The collection is deleted with its last tenant, unless an alias still points to it.
    """
    if _tenants(client, name) - {index.tenant} or _is_aliased(client, name):
        client.collections.use(name).tenants.remove([index.tenant])
    else:
        client.collections.delete(name)


def others(client: WeaviateClient, index: TenantIndex) -> list[str]:
    """Return the organisation's collections other than the current one: old, or being built."""
    current = target(client, index)
    found = client.collections.list_all(simple=True)
    return sorted(
        name
        for name, config in found.items()
        if name.startswith(f"{index.alias}_")
        and name != current
        and from_description(config.description)
        and index.tenant in _tenants(client, name)
    )


def target(client: WeaviateClient, index: TenantIndex) -> str | None:
    """Return the current collection's name; None: there is none yet."""
    for alias in (index.own_alias, index.alias):
        if (found := client.alias.get(alias_name=alias)) is not None:
            return found.collection
    return None


async def find(
    client: WeaviateAsyncClient, index: TenantIndex, version: Version, *, known: str | None = None
) -> str | None:
    """Return the current collection's name; None: nothing was written for this tenant yet.

    `known` is a collection that was checked before. Raises SchemaMismatch when the current one has
    another version, Superseded when it has another version than the known one, and Corrupt when the
    collection was removed.
    """
    name = await _target(client, index)
    if name is None or name == known:
        return name
    if not await client.collections.exists(name):
        raise Corrupt(LOST)
    collection = client.collections.use(name)
    try:
        check((await collection.config.get(simple=True)).description, index, version)
    except SchemaMismatch as exc:
        if known is None:
            raise
        raise Superseded(str(exc)) from exc
    return name if await collection.tenants.exists(index.tenant) else None


async def _target(client: WeaviateAsyncClient, index: TenantIndex) -> str | None:
    for alias in (index.own_alias, index.alias):
        if (found := await client.alias.get(alias_name=alias)) is not None:
            return found.collection
    return None


def check(description: str | None, index: TenantIndex, version: Version) -> None:
    """Raise SchemaMismatch unless the description is of this version."""
    found = from_description(description)
    if found != version:
        wrote = f"was written with {found}" if found else "was not written by codelode"
        elsewhere = f"set CODELODE_WEAVIATE_COLLECTION to another name, and {AFRESH}"
        is_of_schema = found is not None and found.schema == version.schema
        remedy = f"{EMBEDDER}; or {elsewhere}" if is_of_schema else elsewhere
        raise SchemaMismatch(f"{index.alias} in Weaviate {wrote}, this is {version}: {remedy}")


def current(client: WeaviateClient, index: TenantIndex) -> Version | None:
    """Return the version of the current collection; None: there is none."""
    name = target(client, index)
    if name is None or not client.collections.exists(name):
        return None
    return from_description(_description(client, name))


def _get(http: HTTPConnection, path: str, address: Address) -> dict[str, Any] | None:
    """Return the response; None: not found."""
    try:
        key = {"Authorization": f"Bearer {address.api_key}"} if address.api_key else {}
        http.request("GET", path, headers=key)
        response = http.getresponse()
        body = response.read()
        if response.status == 200:
            return dict(json.loads(body))
    except (OSError, HTTPException, ValueError) as exc:
        raise Unavailable(f"{GONE} ({exc})") from exc
    if response.status == 404:
        return None
    if response.status in (401, 403):
        raise InvalidSettings(KEY_REFUSED)
    raise Unavailable(f"Weaviate failed: status {response.status}")


def _description(client: WeaviateClient, name: str) -> str | None:
    return client.collections.use(name).config.get(simple=True).description


def _tenants(client: WeaviateClient, name: str) -> set[str]:
    return set(client.collections.use(name).tenants.get())


def _is_aliased(client: WeaviateClient, name: str) -> bool:
    return any(one.collection == name for one in client.alias.list_all(collection=name).values())


def _unless_exists(create: Callable[[], Any]) -> None:
    try:
        create()
    except UnexpectedStatusCodeError as exc:
        if exc.status_code != _EXISTS or "exist" not in str(exc):
            raise
