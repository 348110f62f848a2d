"""The outcome of a rebuild is reported in one line, with what is left to do."""

from __future__ import annotations

import pytest

from codelode.cli import reindex

PUBLISHED = {"state": "published", "embedder": "e-1", "missing": 0, "summaries_missing": 0}
UNCHANGED = {"state": "unchanged", "embedder": "e-1", "half_built": {}}
BEGUN = {"embedder": "openai", "embedding_model": "large", "embedding_dim": "512"}


@pytest.mark.parametrize(
    ("end", "said"),
    [
        (PUBLISHED, "published for e-1"),
        (PUBLISHED | {"dropped": ["at-1"]}, "published for e-1; removed at-1"),
        (
            PUBLISHED | {"missing": 1, "summaries_missing": 2},
            "published for e-1, without 1 file, without 2 summaries, "
            "which `codelode enrich` writes again",
        ),
        (UNCHANGED, "the index already uses e-1"),
        (
            UNCHANGED | {"half_built": BEGUN},
            "the index already uses e-1; another index is unfinished: `codelode reindex --embedder "
            "openai --model large --dim 512` continues it, `codelode reindex --drop` removes it",
        ),
        (
            UNCHANGED | {"half_built": BEGUN | {"embedding_model": "", "embedding_dim": "0"}},
            "the index already uses e-1; another index is unfinished: `codelode reindex --embedder "
            "openai` continues it, `codelode reindex --drop` removes it",
        ),
        ({"state": "dropped"}, "nothing was left over"),
        ({"state": "dropped", "dropped": ["at-1", "at-2"]}, "removed at-1, at-2"),
    ],
)
def test_the_last_line_says_how_the_rebuild_ended(end, said):
    assert reindex._outcome({"dropped": []} | end) == said
