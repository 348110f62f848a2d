"""Encoding chunks as objects and decoding them, without a server."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from codelode.backends.weaviate.codec import (
    CATEGORY_DIGITS,
    ChunkCache,
    NewObject,
    category_of,
    decode,
    encode,
    groups_in,
    mark_whitespace,
)
from codelode.backends.weaviate.schema import SCHEMA_VERSION
from codelode.errors import SchemaMismatch
from codelode.model import Category
from codelode.names import names_of
from tests.chunks import chunk

NOTHING = np.zeros(4, np.float32)


def stored(chunk):
    """Return the object as a server would."""
    made = encode(NewObject.of(chunk, NOTHING, ["main"]))
    return SimpleNamespace(id=made.uuid.bytes, properties=made.properties)


def test_an_object_is_decoded_once_and_a_full_cache_drops_its_older_half(chunk_of):
    cache = ChunkCache(capacity=4)
    objects = [stored(chunk_of(f"part_{number}.py")) for number in range(5)]
    first = [cache.decoded(one) for one in objects[:4]]
    assert all(cache.decoded(one) is shown for one, shown in zip(objects[:4], first, strict=True))

    cache.decoded(objects[4])

    assert cache.decoded(objects[3]) is first[3]
    again = cache.decoded(objects[0])
    assert again is not first[0]
    assert again == first[0] == decode(objects[0].properties)


def test_groups_are_stored_with_prefixes_and_change_ids_only_from_the_second_on():
    here = chunk("a.py", "x = 1", repository="acme/pay-api")
    given = ((), ("=12ab",), ("=12ab", "=34cd"))
    plain, grouped, divided = (
        encode(NewObject.of(here, NOTHING, ["main"], groups=groups)) for groups in given
    )

    assert str(plain.uuid) == "54b6cea6-92e8-58a7-ae18-8af4b5c94940"
    assert str(grouped.uuid) == "9da24a30-f104-5748-8b88-aeb2feb15830"
    assert plain.properties["prefixes"] == ["acme/", "acme/pay-"]
    assert grouped.uuid != plain.uuid
    assert grouped.properties == {
        **plain.properties,
        "prefixes": ["acme/", "acme/pay-", "=12ab"],
    }
    assert divided.uuid not in (plain.uuid, grouped.uuid)
    assert divided.properties["prefixes"] == ["acme/", "acme/pay-", "=12ab", "=34cd"]
    assert [groups_in(one.properties) for one in (plain, grouped, divided)] == list(given)


def test_the_meaning_of_an_ids_last_digit_changes_with_the_schema_only():
    assert SCHEMA_VERSION == 8
    assert [category.value for category in CATEGORY_DIGITS] == [
        "source",
        "test",
        "vendored",
        "generated",
        "docs",
        "configuration",
    ]
    assert set(CATEGORY_DIGITS) == set(Category)
    with pytest.raises(SchemaMismatch, match="object of another schema"):
        category_of(bytes(15) + b"\x0f")


def test_an_object_has_its_category_in_its_id_and_the_normalised_names(chunk_of):
    for category in Category:
        chunk = chunk_of(category=category, symbol="HttpPool.get", symbols=("HttpPool.get", "put"))
        read = stored(chunk)
        assert category_of(read.id) is category
        assert decode(read.properties) == (
            chunk._replace(refs=("main",)),
            names_of("HttpPool.get", ("HttpPool.get", "put")),
        )


def test_every_white_space_of_a_path_is_marked():
    spaces = [char for char in map(chr, range(0x11000)) if char.isspace()]
    assert len(spaces) > 20
    assert mark_whitespace("a" + "".join(spaces) + "b") == "a" + "␠" * len(spaces) + "b"
