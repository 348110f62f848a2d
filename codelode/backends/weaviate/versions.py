"""Finding, making and exchanging the collection behind an alias.

Functions of a synchronous client are for writers, the asynchronous one is for readers, who never
create anything. Two processes may create the same collection at once: one of them is told that it
exists, which is what it wanted.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from weaviate import WeaviateAsyncClient, WeaviateClient
from weaviate.classes.tenants import Tenant
from weaviate.exceptions import UnexpectedStatusCodeError

from codelode.backends.weaviate import journal
from codelode.backends.weaviate.failures import LOST
from codelode.backends.weaviate.index import Place, Version, definition, from_description
from codelode.errors import Corrupt, SchemaMismatch

_EXISTS = 422


def require(client: WeaviateClient, place: Place, version: Version) -> str:
    """The name of the collection behind the alias, made with its tenant where there is none.

    Raises SchemaMismatch when it is of another version.
    """
    name = target(client, place) or _found(client, place, version)
    if not client.collections.exists(name):
        raise Corrupt(LOST)
    check(_description(client, name), place, version)
    add_tenant(client, name, place)
    return name


def _found(client: WeaviateClient, place: Place, version: Version) -> str:
    """Make the first collection behind the alias."""
    name = create(client, place, version)
    _unless_there(lambda: client.alias.create(alias_name=place.alias, target_collection=name))
    return target(client, place) or name


def create(client: WeaviateClient, place: Place, version: Version) -> str:
    """Make the version's collection unless it is there, and its tenant; returns its name."""
    name = version.collection(place.alias)
    if not client.collections.exists(name):
        wanted = definition(version, replicas=place.replicas)
        _unless_there(lambda: client.collections.create(name, **wanted))
    notes = journal.name(place)
    if not client.collections.exists(notes):
        _unless_there(lambda: client.collections.create(notes, **journal.definition(place)))
    add_tenant(client, name, place)
    return name


def add_tenant(client: WeaviateClient, name: str, place: Place) -> None:
    tenants = client.collections.use(name).tenants
    if not tenants.exists(place.tenant):
        _unless_there(lambda: tenants.create(Tenant(name=place.tenant)))


def publish(client: WeaviateClient, place: Place, version: Version) -> str | None:
    """Make the version the current one, in one step; returns the collection it replaced."""
    before, name = target(client, place), version.collection(place.alias)
    if before == name:
        return None
    if before is None:
        client.alias.create(alias_name=place.alias, target_collection=name)
    else:
        client.alias.update(alias_name=place.alias, new_target_collection=name)
    return before


def drop(client: WeaviateClient, name: str) -> None:
    """Remove a collection that is not the current one any more, with all it holds."""
    client.collections.delete(name)


def others(client: WeaviateClient, place: Place) -> list[str]:
    """Collections of this alias that are not the current one: left over, or being built."""
    current = target(client, place)
    found = client.collections.list_all(simple=True)
    return sorted(
        name
        for name, config in found.items()
        if name.startswith(f"{place.alias}_")
        and name != current
        and from_description(config.description)
    )


def target(client: WeaviateClient, place: Place) -> str | None:
    """The current collection's name; None: there is none yet."""
    found = client.alias.get(alias_name=place.alias)
    return None if found is None else found.collection


async def find(
    client: WeaviateAsyncClient, place: Place, version: Version, *, known: str | None = None
) -> str | None:
    """The current collection's name when it has this tenant; None: nothing was written yet.

    `known`: a collection that was looked at before. Raises SchemaMismatch when the current one is
    of another version, Corrupt when it was removed.
    """
    alias = await client.alias.get(alias_name=place.alias)
    if alias is None:
        return None
    if alias.collection == known:
        return known
    if not await client.collections.exists(alias.collection):
        raise Corrupt(LOST)
    collection = client.collections.use(alias.collection)
    check((await collection.config.get(simple=True)).description, place, version)
    return alias.collection if await collection.tenants.exists(place.tenant) else None


def check(description: str | None, place: Place, version: Version) -> None:
    """Raise SchemaMismatch unless the description is of this version."""
    found = from_description(description)
    if found != version:
        wrote = f"was written with {found}" if found else "was not written by codelode"
        raise SchemaMismatch(
            f"{place.alias} in Weaviate {wrote}, this is {version}: set CODELODE_EMBEDDER back, "
            "build the index anew, or set CODELODE_WEAVIATE_COLLECTION to another name"
        )


def _description(client: WeaviateClient, name: str) -> str | None:
    return client.collections.use(name).config.get(simple=True).description


def _unless_there(create: Callable[[], Any]) -> None:
    try:
        create()
    except UnexpectedStatusCodeError as exc:
        if exc.status_code != _EXISTS or "exist" not in str(exc):
            raise
