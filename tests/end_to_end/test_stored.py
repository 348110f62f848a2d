"""The comparison of two indexes, which other tests rely on, misses nothing that is stored."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from codelode.backends import registry
from codelode.model import DEFAULT_REF, FileChunks, RefName, RepositoryName, RunState
from tests.end_to_end.stored import assert_same, differences, read

NAME = RepositoryName("compared")
FILES = {
    "app/load.py": "def load(path):\n    return open(path)\n",
    "app/show.py": "from app.load import load\n\n\ndef show(path):\n    print(load(path))\n",
}
GONE = "app/show.py"
REFS = (DEFAULT_REF, RefName("main"))


@pytest.fixture(scope="module")
def damaged(cluster, make_git):
    """The cluster with a repository of this module, which each test damages further."""
    git = make_git()
    git.commit(FILES)
    with cluster.client() as client:
        run = client.index(str(git.folder), name=NAME)
        assert (run.state, run.failed) == (RunState.COMPLETE, 0)
        yield cluster
        client.remove(NAME)


def test_an_index_equals_itself_but_not_one_with_another_vector(damaged):
    whole = read(damaged, NAME)
    assert_same(read(damaged, NAME), whole)

    id, vector = next(iter(whole.vectors.items()))
    turned = whole._replace(vectors={**whole.vectors, id: np.roll(vector, 1)})
    with pytest.raises(AssertionError, match="Not equal to tolerance"):
        assert_same(turned, whole)


def without_edges(settings):
    registry.graph(settings).replace(NAME, REFS, {GONE: ()})


def without_symbols(settings):
    registry.symbols(settings).replace(NAME, REFS, {GONE: ()})


def without_names(settings):
    registry.references(settings).replace(NAME, REFS, {GONE: ()})


def without_chunks(settings):
    store = registry.chunk_store(settings)
    store.replace([FileChunks(NAME, GONE, REFS)])
    store.close()


def with_a_stray_symbol(settings):
    table = registry.symbols(settings)
    (at, *_) = table.defined_in(NAME, DEFAULT_REF, [GONE])[GONE]
    table.replace(NAME, REFS, {"app/stray.py": [replace(at.symbol, name="stray")]})


@pytest.mark.parametrize(
    ("damage", "parts"),
    [
        (with_a_stray_symbol, {"symbols", "symbols_by_name"}),
        (without_edges, {"outgoing", "incoming"}),
        (without_symbols, {"symbols", "symbols_by_name"}),
        (without_names, {"names", "names_by_name"}),
        (without_chunks, {"ids", "chunks"}),
    ],
)
def test_missing_and_additional_entries_are_found(damaged, damage, parts):
    before = read(damaged, NAME)
    damage(damaged.settings())
    assert differences(read(damaged, NAME), before).keys() == parts
