"""Chunks as objects and back, without a server."""

from __future__ import annotations

import numpy as np

from codelode.backends.weaviate.objects import Chunks, identify, pack, unpack

NOTHING = np.zeros(4, np.float32)


def stored(chunk):
    """Id and properties, as a server gives them back."""
    made = pack(identify(chunk, NOTHING, ["main"]), chunk, NOTHING, ["main"])
    return made.uuid, made.properties


def test_an_object_is_read_once_and_the_older_half_of_those_kept_goes(chunk_of):
    chunks = Chunks(most=4)
    objects = [stored(chunk_of(f"part_{number}.py")) for number in range(5)]
    first = [chunks.of(*one) for one in objects[:4]]
    assert all(chunks.of(*one) is kept for one, kept in zip(objects[:4], first, strict=True))

    chunks.of(*objects[4])

    assert chunks.of(*objects[3]) is first[3]
    again = chunks.of(*objects[0])
    assert again is not first[0]
    assert again == first[0] == unpack(objects[0][1])
