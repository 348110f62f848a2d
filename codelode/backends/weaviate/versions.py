"""Finding, making and exchanging the collection behind an alias.

Functions of a synchronous client are for writers, the asynchronous one is for readers, who never
create anything. Two processes may create the same collection at once: one of them is told that it
exists, which is what it wanted.

Organisations share a collection until one of them changes its embedder: that one gets an alias of
its own, which is looked for first, and the others stay with the collection and alias they had.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from weaviate import WeaviateAsyncClient, WeaviateClient
from weaviate.classes.tenants import Tenant
from weaviate.exceptions import UnexpectedStatusCodeError

from codelode.backends.remedies import AFRESH, EMBEDDER
from codelode.backends.weaviate import intent_log
from codelode.backends.weaviate.errors import LOST
from codelode.backends.weaviate.schema import (
    TenantIndex,
    Version,
    definition,
    from_description,
)
from codelode.errors import Corrupt, SchemaMismatch, Superseded

_EXISTS = 422


def require(client: WeaviateClient, place: TenantIndex, version: Version) -> str:
    """The name of the collection behind the alias, made with its tenant where there is none.

    Raises SchemaMismatch when it is of another version.
    """
    name = target(client, place) or _found(client, place, version)
    if not client.collections.exists(name):
        raise Corrupt(LOST)
    check(_description(client, name), place, version)
    add_tenant(client, name, place)
    return name


def _found(client: WeaviateClient, place: TenantIndex, version: Version) -> str:
    """Make the first collection behind the alias."""
    name = create(client, place, version)
    _unless_there(lambda: client.alias.create(alias_name=place.alias, target_collection=name))
    return target(client, place) or name


def has_tenant(client: WeaviateClient, name: str, place: TenantIndex) -> bool:
    return client.collections.use(name).tenants.exists(place.tenant)


def describe(
    client: WeaviateClient, place: TenantIndex, version: Version, choice: Mapping[str, object]
) -> None:
    """Store the settings that name the embedder with the version's collection."""
    collection = client.collections.use(version.collection(place.alias))
    collection.config.update(description=version.describe(choice))


def require_current(client: WeaviateClient, place: TenantIndex, name: str) -> None:
    """Raise Superseded when another collection than this has taken its place."""
    current = target(client, place)
    if current is not None and current != name:
        raise Superseded(f"{current} has taken the place of {name} in Weaviate")


def create(
    client: WeaviateClient,
    place: TenantIndex,
    version: Version,
    *,
    choice: Mapping[str, object] | None = None,
) -> str:
    """Make the version's collection unless it is there, and its tenant; returns its name."""
    name = version.collection(place.alias)
    wanted = definition(version, replicas=place.replicas, choice=choice)
    if not client.collections.exists(name):
        _unless_there(lambda: client.collections.create(name, **wanted))
    notes = intent_log.name(place)
    if not client.collections.exists(notes):
        _unless_there(lambda: client.collections.create(notes, **intent_log.definition(place)))
    add_tenant(client, name, place)
    return name


def add_tenant(client: WeaviateClient, name: str, place: TenantIndex) -> None:
    tenants = client.collections.use(name).tenants
    if not tenants.exists(place.tenant):
        _unless_there(lambda: tenants.create(Tenant(name=place.tenant)))


def publish(client: WeaviateClient, place: TenantIndex, version: Version) -> str | None:
    """Make the version the current one, in one step; returns the collection it replaced."""
    before, name = target(client, place), version.collection(place.alias)
    if before == name:
        return None
    alias = _alias_to_move(client, place, before)
    if client.alias.get(alias_name=alias) is None:
        client.alias.create(alias_name=alias, target_collection=name)
    else:
        client.alias.update(alias_name=alias, new_target_collection=name)
    return before


def _alias_to_move(client: WeaviateClient, place: TenantIndex, before: str | None) -> str:
    """The alias of all, unless this organisation has one of its own or others stay behind."""
    if client.alias.get(alias_name=place.own_alias) is not None:
        return place.own_alias
    return place.own_alias if before and _tenants(client, before) - {place.tenant} else place.alias


def drop(client: WeaviateClient, place: TenantIndex, name: str) -> None:
    """Remove what the organisation has in a collection that is not its current one.

    The collection goes with its last tenant, unless an alias still points to it.
    """
    if _tenants(client, name) - {place.tenant} or _is_aliased(client, name):
        client.collections.use(name).tenants.remove([place.tenant])
    else:
        client.collections.delete(name)


def others(client: WeaviateClient, place: TenantIndex) -> list[str]:
    """Collections with this organisation that are not its current one.

    They are left over, or being built.
    """
    current = target(client, place)
    found = client.collections.list_all(simple=True)
    return sorted(
        name
        for name, config in found.items()
        if name.startswith(f"{place.alias}_")
        and name != current
        and from_description(config.description)
        and place.tenant in _tenants(client, name)
    )


def target(client: WeaviateClient, place: TenantIndex) -> str | None:
    """The current collection's name; None: there is none yet."""
    for alias in (place.own_alias, place.alias):
        if (found := client.alias.get(alias_name=alias)) is not None:
            return found.collection
    return None


async def find(
    client: WeaviateAsyncClient, place: TenantIndex, version: Version, *, known: str | None = None
) -> str | None:
    """The current collection's name when it has this tenant; None: nothing was written yet.

    `known`: a collection that was looked at before. Raises SchemaMismatch when the current one is
    of another version, and when it has taken the place of the known one Superseded; Corrupt when
    it was removed.
    """
    name = await _target(client, place)
    if name is None or name == known:
        return name
    if not await client.collections.exists(name):
        raise Corrupt(LOST)
    collection = client.collections.use(name)
    try:
        check((await collection.config.get(simple=True)).description, place, version)
    except SchemaMismatch as exc:
        if known is None:
            raise
        raise Superseded(str(exc)) from exc
    return name if await collection.tenants.exists(place.tenant) else None


async def _target(client: WeaviateAsyncClient, place: TenantIndex) -> str | None:
    for alias in (place.own_alias, place.alias):
        if (found := await client.alias.get(alias_name=alias)) is not None:
            return found.collection
    return None


def check(description: str | None, place: TenantIndex, version: Version) -> None:
    """Raise SchemaMismatch unless the description is of this version."""
    found = from_description(description)
    if found != version:
        wrote = f"was written with {found}" if found else "was not written by codelode"
        elsewhere = f"set CODELODE_WEAVIATE_COLLECTION to another name, and {AFRESH}"
        is_of_schema = found is not None and found.schema == version.schema
        remedy = f"{EMBEDDER}; or {elsewhere}" if is_of_schema else elsewhere
        raise SchemaMismatch(f"{place.alias} in Weaviate {wrote}, this is {version}: {remedy}")


def current(client: WeaviateClient, place: TenantIndex) -> Version | None:
    """What the current collection was written with; None: there is none."""
    name = target(client, place)
    if name is None or not client.collections.exists(name):
        return None
    return from_description(_description(client, name))


def _description(client: WeaviateClient, name: str) -> str | None:
    return client.collections.use(name).config.get(simple=True).description


def _tenants(client: WeaviateClient, name: str) -> set[str]:
    return set(client.collections.use(name).tenants.get())


def _is_aliased(client: WeaviateClient, name: str) -> bool:
    return any(one.collection == name for one in client.alias.list_all(collection=name).values())


def _unless_there(create: Callable[[], Any]) -> None:
    try:
        create()
    except UnexpectedStatusCodeError as exc:
        if exc.status_code != _EXISTS or "exist" not in str(exc):
            raise
