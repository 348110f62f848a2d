"""The layout of vectors in two dimensions keeps neighbours, and is the same each time."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from codelode.backends.models.static import StaticEmbedder
from codelode.model import embedding_text, locate
from workers.mapping.layout import LEAF, NEIGHBOURS, layout, neighbours, principal
from workers.parse import parse

ROOT = Path(__file__).parents[3]

#: Few vectors that trees split: those of one leaf are all compared, and nothing is random.
SPLIT = LEAF + 44


@pytest.fixture(scope="module")
def vectors():
    """Return the vectors of the chunks of two folders of this repository."""
    chunks = []
    for file in sorted([*(ROOT / "gateway").rglob("*.py"), *(ROOT / "tests/gateway").glob("*.py")]):
        path = str(file.relative_to(ROOT))
        parsed = parse(file.read_bytes(), path=path)
        chunks += locate(parsed, repository="acme/app", path=path, refs=("main",))
    chunks = chunks[::2]
    found = StaticEmbedder().embed_documents([embedding_text(chunk) for chunk in chunks])
    return found[found.any(axis=1)]


def nearest(vectors):
    distances = (
        ((vectors[:, None] - vectors[None]) ** 2).sum(axis=2)
        if (vectors.shape[1] < 4)
        else 2 - 2 * vectors @ vectors.T
    )
    np.fill_diagonal(distances, np.inf)
    return np.argpartition(distances, NEIGHBOURS, axis=1)[:, :NEIGHBOURS]


def kept(wanted, found):
    """Return the mean fraction of nearest neighbours that are kept."""
    pairs = zip(wanted.tolist(), found.tolist(), strict=True)
    return np.mean([len({*one} & {*other}) / NEIGHBOURS for one, other in pairs])


@pytest.mark.slow
def test_many_more_neighbours_are_kept_than_by_principal_components(vectors):
    wanted = nearest(vectors)
    components = principal(vectors, np.random.default_rng(1))

    before, after = kept(wanted, nearest(components[:, :2])), kept(wanted, nearest(layout(vectors)))
    assert after > 0.35
    assert after > 2 * before


@pytest.mark.slow
def test_most_neighbours_are_found(vectors):
    components = principal(vectors, np.random.default_rng(1))

    found = neighbours(components, np.random.default_rng(2))

    assert kept(nearest(vectors), found) > 0.5
    assert all(len({*row}) == NEIGHBOURS for row in found.tolist())


@pytest.mark.slow
def test_the_layout_is_the_same_each_time_and_tells_its_progress(vectors):
    told = []
    first = layout(vectors[:SPLIT], progress=told.append)

    assert len(first) == SPLIT
    assert np.array_equal(first, layout(vectors[:SPLIT]))
    assert told == sorted(told)
    assert told[-1] == pytest.approx(1.0)
    assert np.isfinite(first).all()


@pytest.mark.parametrize("count", [0, 1, NEIGHBOURS, NEIGHBOURS + 1, 30])
def test_few_vectors_have_positions_too(vectors, count):
    found = layout(vectors[:count])

    assert found.shape == (count, 2)
    assert np.isfinite(found).all()


@pytest.mark.slow
def test_equal_vectors_have_positions_too(vectors):
    assert np.isfinite(layout(np.repeat(vectors[:1], SPLIT, axis=0))).all()
