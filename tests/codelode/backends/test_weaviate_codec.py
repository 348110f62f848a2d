"""Chunks as objects and back, without a server."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from weaviate.collections.batch.grpc_batch import _BatchGRPC
from weaviate.collections.classes.batch import _BatchObject
from weaviate.util import _ServerVersion

from codelode.backends.weaviate.codec import (
    BY_DIGIT,
    ChunkCache,
    Given,
    category_of,
    pack,
    unpack,
    visible,
)
from codelode.backends.weaviate.inserting import request
from codelode.backends.weaviate.schema import SCHEMA_VERSION
from codelode.errors import SchemaMismatch
from codelode.model import Category
from codelode.names import names_of

NOTHING = np.zeros(4, np.float32)


def stored(chunk):
    """The object as a server gives it back."""
    made = pack(Given.of(chunk, NOTHING, ["main"]))
    return SimpleNamespace(id=made.uuid.bytes, properties=made.properties)


def test_an_object_is_read_once_and_the_older_half_of_those_kept_goes(chunk_of):
    kept = ChunkCache(most=4)
    objects = [stored(chunk_of(f"part_{number}.py")) for number in range(5)]
    first = [kept.of(one) for one in objects[:4]]
    assert all(kept.of(one) is shown for one, shown in zip(objects[:4], first, strict=True))

    kept.of(objects[4])

    assert kept.of(objects[3]) is first[3]
    again = kept.of(objects[0])
    assert again is not first[0]
    assert again == first[0] == unpack(objects[0].properties)


def test_what_the_last_digit_of_an_id_means_changes_with_the_schema_only():
    assert SCHEMA_VERSION == 5
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
        read = stored(chunk)
        assert category_of(read.id) is category
        assert unpack(read.properties) == (
            chunk._replace(refs=("main",)),
            names_of("HttpPool.get", ("HttpPool.get", "put")),
        )


@pytest.mark.parametrize("vector", [NOTHING, np.array([0.6, 0.8, 0, 0], np.float32)])
@pytest.mark.parametrize("symbol", ["", "HttpPool.get"])
def test_the_message_of_an_object_is_the_one_that_the_library_makes(chunk_of, vector, symbol):
    made = pack(Given.of(chunk_of(symbol=symbol), vector, ["main", "dev"]))
    theirs = _BatchObject(
        collection="Code",
        tenant="acme",
        uuid=str(made.uuid),
        properties=made.properties,
        vector=made.vector,
        references=None,
        index=0,
    )
    library = _BatchGRPC(_ServerVersion(1, 39, 2), None, None)
    asked = request([made], collection="Code", tenant="acme")
    assert list(asked.objects) == [library.grpc_object(theirs)]


def test_every_white_space_of_a_path_is_made_visible():
    spaces = [char for char in map(chr, range(0x11000)) if char.isspace()]
    assert len(spaces) > 20
    assert visible("a" + "".join(spaces) + "b") == "a" + "␠" * len(spaces) + "b"
