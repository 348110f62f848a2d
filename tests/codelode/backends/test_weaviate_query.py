"""Scores are parsed from the server's explanation of a hybrid query."""

from __future__ import annotations

from types import SimpleNamespace
from uuid import UUID

import pytest

from codelode.backends.weaviate.query import hybrid_scores
from codelode.errors import Corrupt

ID = UUID("eb33b527-fafe-584b-908d-f7b4a98252f0")
WORDS = f"Hybrid (Result Set keyword,bm25) Document {ID}: original score 15.78351, normalized"
NEAR = f"Hybrid (Result Set vector,hybridVector) Document {ID}: original score -1.5e-07, normalized"


def explained(text):
    return SimpleNamespace(explain_score=text)


@pytest.mark.parametrize(
    ("text", "keyword_score", "similarity"),
    [
        (f"\n{WORDS} score: 0.46 - \n{NEAR} score: 0.37", 15.78351, -1.5e-07),
        (f"\n{WORDS} score: 0.46", 15.78351, None),
        (f"\n{NEAR} score: 0", None, -1.5e-07),
    ],
)
def test_each_half_that_found_the_object_has_its_score(text, keyword_score, similarity):
    assert hybrid_scores(explained(text)) == (keyword_score, similarity)


@pytest.mark.parametrize(
    "text",
    [None, "", "fused of keyword 15.8 and vector 0.3", WORDS.replace("15.78351,", "15.78351;")],
)
def test_an_explanation_without_scores_is_refused_with_the_remedy(text):
    with pytest.raises(Corrupt, match=r"run the version that docker-compose\.yml names"):
        hybrid_scores(explained(text))
