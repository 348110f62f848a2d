"""How much each feature counts: a hit's score is the sum of weight × value.

Fitted by `tests/bench/fit_ranker.py` on 31 repositories with 614 annotated queries, each in its
source tree alone, in the whole repository and among all repositories, and rounded. Cross-validated
over repositories that gave NDCG@10 .885, .859 and .713 (several chunks of a file using up several
places), where reciprocal rank fusion alone gives .68 and .56 of the first two. Tried and not worth
a weight: both ranks fused, the query's words in the chunk itself, length, depth of the path,
importers of the file (+.01 among all repositories, −.004 in one), a column of its own for
identifiers.
"""

from __future__ import annotations

from gateway.rank import features
from gateway.rank.features import Feature

WEIGHTS: dict[Feature, float] = {
    features.keyword: 1.4,
    features.similarity: 0.9,
    features.file_similarity: 2.2,
    features.file_body: 1.5,
    features.repository_said: 1.0,
    features.folder_said: 0.6,
    features.stem_said: 2.3,
    features.symbol: 1.1,
    features.definition: 2.5,
    features.mentioned: 1.4,
    features.named: 0.9,
    features.starts: 2.0,
    features.first: -1.4,
    features.test: -3.3,
    features.docs: -1.9,
    features.example: -1.7,
    # By hand: too few such files stand in those repositories to fit these two.
    features.configuration: -0.5,
    features.foreign: -1.0,
}

#: What each better chunk of the same file takes from a chunk's score: the first place of another
#: file usually helps more than a second one of this file. −2 lost .005, −7 won nothing.
SAME_FILE = -5.0
