"""Define the weights of the linear ranker's features: a score is the sum of weight × value.

The weights were fitted by `tests/bench/fit_ranker.py` on 31 repositories with 614 annotated
queries, and rounded. Each query was searched in three scopes: the source tree of its repository,
the whole repository, and all repositories. Cross-validated over repositories, they give NDCG@10
.885, .859 and .713 in these scopes (each chunk of a file takes a rank); reciprocal rank fusion
alone gives .68 and .56 in the first two. These features were tried and did not improve NDCG: the
fused ranks, the query's words in the chunk itself, length, depth of the path,
importers of the file (+.01 among all repositories, −.004 in one), and separate weights for
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
    features.verbatim: 8.0,
    features.as_written: 2.0,
    features.definition: 2.5,
    features.mentioned: 1.4,
    features.named: 0.9,
    features.starts: 2.0,
    features.first: -1.4,
    features.test: -3.3,
    features.docs: -1.9,
    features.example: -1.7,
    # Chosen by hand: those repositories have too few such files to fit these two. So are those of
    # `verbatim`, which outweighs all others together, and of `as_written` (docs/ranking.md).
    features.configuration: -0.5,
    features.foreign: -1.0,
}

#: Penalty of a chunk for each better chunk of its file, because the best chunk of another file
#: usually helps more than a second one of this file. −2 lost .005 NDCG, −7 gained nothing.
SAME_FILE = -5.0
