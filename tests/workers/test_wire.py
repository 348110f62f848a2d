"""Values passed between stages arrive unchanged."""

from __future__ import annotations

import zlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from codelode.errors import Rejected
from codelode.model import (
    Category,
    FileHealth,
    HealthStatus,
    Import,
    Kind,
    ParsedFile,
    Piece,
    Summaries,
    Symbol,
)
from workers import wire
from workers.parse import parse

text = st.text(max_size=40)
number = st.integers(0, 10**6)
pieces = st.builds(
    Piece, number, number, number, number, text, st.sampled_from(Kind), text,
    st.tuples(text), text,
)  # fmt: skip
symbols = st.builds(
    Symbol, text, text, st.sampled_from(Kind), text, number, number, st.booleans(), text
)
parsed_files = st.builds(
    ParsedFile,
    language=text,
    category=st.sampled_from(Category),
    health=st.builds(FileHealth, st.sampled_from(HealthStatus), number, text),
    pieces=st.lists(pieces, max_size=3).map(tuple),
    symbols=st.lists(symbols, max_size=3).map(tuple),
    imports=st.lists(st.builds(Import, text, number, st.tuples(text)), max_size=3).map(tuple),
)


@given(parsed_files)
def test_a_parsed_file_survives_the_round_trip(parsed: ParsedFile) -> None:
    assert wire.load_parsed(wire.dump_parsed(parsed, max_file_bytes=1_000_000)) == parsed


#: Classes in one another, with names of 250 characters, and 3,000 methods in the last of them.
NESTED = "".join(f"{' ' * depth}class {'C' * 250}{depth}:\n" for depth in range(30))
NESTED += "".join(f"{' ' * 30}def f{number}(self): pass\n" for number in range(3_000))


def test_a_file_whose_names_multiply_is_refused_with_the_setting() -> None:
    parsed = parse(NESTED.encode(), path="a.py")
    with pytest.raises(Rejected, match=r"take 2\d MB .* 20 MB; raise CODELODE_MAX_FILE_BYTES"):
        wire.dump_parsed(parsed, max_file_bytes=1_000_000)


def test_a_file_too_large_to_cache_is_loaded() -> None:
    parsed = parse(NESTED[:60_000].encode(), path="a.py")
    data = wire.dump_parsed(parsed, max_file_bytes=1_000_000)
    assert len(zlib.decompress(data)) > wire.MAX_CACHED_BYTES
    assert wire.load_parsed(data) == parsed


def test_vectors_survive_the_round_trip_to_half_precision() -> None:
    vectors = np.random.default_rng(1).normal(size=(50, 256)).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    back = wire.load_vectors(wire.dump_vectors(vectors), dim=256)
    assert back.dtype == np.float32
    assert np.min(np.sum(back * vectors, axis=1)) > 0.99999
    np.testing.assert_allclose(np.linalg.norm(back, axis=1), 1, atol=1e-6)


def test_zero_vectors_and_empty_arrays_survive_the_round_trip() -> None:
    zero = np.zeros((2, 8), np.float32)
    np.testing.assert_array_equal(wire.load_vectors(wire.dump_vectors(zero), dim=8), zero)
    assert wire.load_vectors(wire.dump_vectors(zero[:0]), dim=8).shape == (0, 8)


@pytest.mark.parametrize("texts", [(), ("",), ("Says it.", "", "日本語 ✓")])
def test_summaries_survive_the_round_trip(texts):
    said = Summaries(texts, file="Says all.", missing=3)
    assert wire.load_summaries(wire.dump_summaries(said)) == said
