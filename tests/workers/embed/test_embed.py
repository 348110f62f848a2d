"""One vector per chunk, and none is computed twice."""

from __future__ import annotations

import numpy as np
import pytest

from codelode.backends.memory.derivations import MemoryDerivations
from codelode.backends.models.static import StaticEmbedder
from codelode.model import (
    NO_SUMMARIES,
    Category,
    FileHealth,
    HealthStatus,
    Kind,
    ParsedFile,
    Piece,
    Summaries,
)
from workers.embed import embed
from workers.wire import dump_vectors


class Counting:
    """The static embedder; records the texts that it embeds."""

    def __init__(self, identity="static"):
        self._embedder = StaticEmbedder()
        self.identity = identity
        self.dim = self._embedder.dim
        self.texts = []

    def embed_documents(self, texts):
        self.texts += texts
        return self._embedder.embed_documents(texts)


@pytest.fixture
def known():
    return MemoryDerivations(max_bytes=1 << 20)


def parsed(*contents):
    pieces = tuple(
        Piece(line, line, 0, 1, content, Kind.BLOCK)
        for line, content in enumerate(contents, start=1)
    )
    return ParsedFile("python", Category.SOURCE, FileHealth(HealthStatus.OK), pieces)


def test_each_file_has_its_rows_in_the_order_of_its_chunks(known):
    embedder = Counting()
    files = [
        ("a.py", parsed("first", "  ", "second"), NO_SUMMARIES),
        ("b.py", parsed(), NO_SUMMARIES),
    ]
    found = embed([*files, ("c.py", parsed("third"), NO_SUMMARIES)], embedder=embedder, known=known)
    assert [rows.shape for rows in found] == [(2, embedder.dim), (0, embedder.dim), (1, 256)]
    wanted = StaticEmbedder().embed_documents(["a.py\nfirst", "a.py\nsecond", "c.py\nthird"])
    np.testing.assert_array_equal(np.concatenate(found), wanted.astype(np.float16))


def test_an_empty_batch_gives_no_vectors(known):
    assert embed([], embedder=Counting(), known=known) == ()


def test_cached_vectors_are_not_computed_again(known):
    files = [("a.py", parsed("first", "second"), NO_SUMMARIES)]
    (first,) = embed(files, embedder=Counting(), known=known)
    again = Counting()
    (second,) = embed(files, embedder=again, known=known)
    assert again.texts == []
    assert second.tobytes() == first.tobytes()


def test_the_result_does_not_depend_on_which_vectors_are_cached(known):
    """The store stage gets exactly the same bytes."""
    contents = [f"def part_{n}(path):\n    return open(path, {n})\n" * (n % 9) for n in range(60)]
    some = [("a.py", parsed(*contents[::3]), NO_SUMMARIES)]
    everything = [("a.py", parsed(*contents), NO_SUMMARIES)]
    embed(some, embedder=Counting(), known=known)

    (partly_known,) = embed(everything, embedder=Counting(), known=known)
    (fresh,) = embed(everything, embedder=Counting(), known=MemoryDerivations(max_bytes=1 << 20))

    assert dump_vectors(partly_known) == dump_vectors(fresh)


def test_only_changed_texts_are_computed(known):
    embed([("a.py", parsed("first", "second"), NO_SUMMARIES)], embedder=Counting(), known=known)
    again = Counting()
    embed([("a.py", parsed("first", "changed"), NO_SUMMARIES)], embedder=again, known=known)
    assert again.texts == ["a.py\nchanged"]


def test_equal_texts_are_computed_once(known):
    embedder = Counting()
    embed([("a.py", parsed("same", "same"), NO_SUMMARIES)] * 2, embedder=embedder, known=known)
    assert embedder.texts == ["a.py\nsame"]


def test_vectors_of_two_embedders_never_mix(known):
    files = [("a.py", parsed("first"), NO_SUMMARIES)]
    embed(files, embedder=Counting("one"), known=known)
    other = Counting("two")
    embed(files, embedder=other, known=known)
    assert other.texts == ["a.py\nfirst"]


def test_a_summary_is_embedded_with_its_chunk(known):
    embedder = Counting()
    files = [
        ("a.py", parsed("first", "  ", "second"), Summaries(("Says it.", ""), file="Says all."))
    ]
    embed(files, embedder=embedder, known=known)
    assert embedder.texts == ["a.py\nSays it.\nfirst", "a.py\nsecond"]


def test_a_damaged_cache_entry_is_computed_again(known):
    files = [("a.py", parsed("first"), NO_SUMMARIES)]
    embed(files, embedder=Counting(), known=known)
    for key in list(known._values):
        known.put({key: b"damaged"})
    again = Counting()
    embed(files, embedder=again, known=known)
    assert again.texts == ["a.py\nfirst"]
