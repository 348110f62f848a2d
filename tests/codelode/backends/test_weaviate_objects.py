"""Chunks as objects and back, without a server."""

from __future__ import annotations

import numpy as np
import pytest

from codelode.backends.weaviate.index import SCHEMA_VERSION
from codelode.backends.weaviate.objects import BY_DIGIT, Kept, category_of, identify, pack, unpack
from codelode.errors import SchemaMismatch
from codelode.model import Category
from codelode.names import names_of

NOTHING = np.zeros(4, np.float32)


def stored(chunk):
    """Id and properties, as a server gives them back."""
    made = pack(identify(chunk, NOTHING, ["main"]), chunk, NOTHING, ["main"])
    return made.uuid.bytes, made.properties


def test_an_object_is_read_once_and_the_older_half_of_those_kept_goes(chunk_of):
    kept = Kept(most=4)
    objects = [stored(chunk_of(f"part_{number}.py")) for number in range(5)]
    first = [kept.of(*one) for one in objects[:4]]
    assert all(kept.of(*one) is shown for one, shown in zip(objects[:4], first, strict=True))

    kept.of(*objects[4])

    assert kept.of(*objects[3]) is first[3]
    again = kept.of(*objects[0])
    assert again is not first[0]
    assert again == first[0] == unpack(objects[0][1])


def test_what_the_last_digit_of_an_id_means_changes_with_the_schema_only():
    assert SCHEMA_VERSION == 4
    assert [category.value for category in BY_DIGIT] == [
        "source",
        "test",
        "vendored",
        "generated",
        "docs",
        "configuration",
    ]
    assert set(BY_DIGIT) == set(Category)
    with pytest.raises(SchemaMismatch, match="object of another schema"):
        category_of(bytes(15) + b"\x0f")


def test_an_object_tells_its_category_by_its_id_and_its_names_as_rankers_see_them(chunk_of):
    for category in Category:
        chunk = chunk_of(category=category, symbol="HttpPool.get", symbols=("HttpPool.get", "put"))
        id, properties = stored(chunk)
        assert category_of(id) is category
        assert unpack(properties) == (
            chunk._replace(refs=("main",)),
            names_of("HttpPool.get", ("HttpPool.get", "put")),
        )
