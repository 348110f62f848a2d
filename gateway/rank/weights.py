"""Define the weights of the linear ranker's features: a score is the sum of weight × value.

The first weights were fitted by `tests/bench/fit_ranker.py` on 31 repositories with 614 annotated
queries, each searched in three scopes: the source tree of its repository, the whole repository, and
all repositories. Features added later, marked "+", have weights chosen by hand: a value was kept if
NDCG@10 rose with it in these scopes and for 594 commit subjects, or fell by less than .003 in one
of them (docs/ranking.md). These features were tried and did not improve NDCG: the fused ranks,
the query's words in the chunk itself, importers of the file, files that export the names of others
(`mod.rs`, `__init__.py`), the language that the query names, files with general names (`utils`),
the share of a file's language in its repository, and separate weights for identifiers.
"""

from __future__ import annotations

from gateway.rank import features
from gateway.rank.features import Feature

WEIGHTS: dict[Feature, float] = {
    features.keyword: 1.4,
    features.similarity: 0.9,
    features.file_similarity: 2.2,
    features.file_similarities: 0.6,  # +
    features.repository_keyword: 1.0,  # +
    features.agreed: 0.4,  # +
    features.file_body: 1.5,
    features.phrase: 0.8,  # +
    features.repository_said: 2.0,
    features.folder_said: 0.6,
    features.stem_said: 2.3,
    features.symbol: 1.1,
    features.verbatim: 11.0,
    features.key: 6.0,  # +
    features.route: 8.0,  # +
    features.pasted: 6.0,  # +
    features.snippet: 8.0,  # +
    features.as_written: 2.0,
    features.definition: 2.5,
    features.mentioned: 1.7,
    features.named: 0.9,
    features.starts: 1.7,
    features.length: 0.3,  # +
    features.detail: -0.2,  # +
    features.type_for_question: 0.2,  # +
    features.settings: 2.0,  # +
    features.first: -1.1,
    features.declaration: -1.5,  # +
    features.older: -4.0,  # +
    features.depth: -1.0,  # +
    features.test: -3.3,
    features.docs: -2.5,
    features.example: -2.3,
    # These two are chosen by hand, because the repositories have too few such files to fit them. So
    # are `verbatim`, which outweighs all others together, and `as_written` (docs/ranking.md).
    features.configuration: -0.5,
    features.foreign: -1.0,
}

#: Penalty of a chunk for each better chunk of its file, because the best chunk of another file
#: usually helps more than a second one of this file. −2 lost .005 NDCG, −7 gained nothing.
SAME_FILE = -5.0
