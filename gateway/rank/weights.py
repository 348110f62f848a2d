"""How much each feature counts: a hit's score is the sum of weight × value.

Fitted by `tests/bench/fit_ranker.py` on 31 repositories with 614 annotated queries, each once as
its source tree alone and once whole, and rounded. Cross-validated over repositories that gave
NDCG@10 .864 and .821 (several chunks of a file using up several places), where reciprocal rank
fusion alone gives .68 and .56. One column for all kinds of query: a column for identifiers won
nothing on repositories it was not fitted on.
"""

from __future__ import annotations

from gateway.rank import features
from gateway.rank.features import Feature

WEIGHTS: dict[Feature, float] = {
    features.hybrid: 1.2,
    features.keyword: 1.9,
    features.similarity: 1.8,
    features.body: 0.5,
    features.file_body: 0.8,
    features.folder_said: 0.8,
    features.stem_said: 2.4,
    features.symbol: 1.7,
    features.definition: 2.1,
    features.defines: 2.1,
    features.length: 1.2,
    features.test: -3.3,
    features.docs: -1.9,
    # By hand: too few such files stand in those repositories to fit these two.
    features.configuration: -0.5,
    features.foreign: -1.0,
}

#: What each better chunk of the same file takes from a chunk's score: the first place of another
#: file usually helps more than a second one of this file. Halving it lost .005, half as much again
#: won .002.
SAME_FILE = -2.0
