"""What a request can switch and tune: one value per stage, and the presets that bundle them.

Every default is a named constant with its source, in the dataclass of its stage. A preset is a
starting point: what a request sets itself wins over it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum


class Fusion(StrEnum):
    """How the two sides of the index become one score."""

    RRF = "rrf"  # reciprocal ranks, k = 60
    RELATIVE = "relative"  # each side scaled to [0, 1] by its best and worst


class Mode(StrEnum):
    """What is looked for first."""

    HYBRID = "hybrid"  # chunks
    STAGED = "staged"  # files by their summaries, then the chunks inside them


class Ranker(StrEnum):
    """What orders the candidates."""

    LINEAR = "linear"  # the fitted features
    FUSED = "fused"  # the fused score alone, with the definition boost


class Centrality(StrEnum):
    """How the place of a file in the import graph counts."""

    OFF = "off"
    RRF = "rrf"  # 1 / (k + rank) + 0.5 / (k + centrality rank)
    BLEND = "blend"  # 0.6 × score + 0.4 × centrality


class Reranker(StrEnum):
    """A model that reads the best candidates again."""

    NONE = "none"
    CROSS_ENCODER = "cross_encoder"
    JUDGE = "judge"  # the language model grades 0 to 100


class Preset(StrEnum):
    FAST = "fast"
    BALANCED = "balanced"
    THOROUGH = "thorough"


@dataclass(frozen=True, slots=True)
class Analyze:
    """How the query is read."""

    synonyms: bool = False  # search for synonyms of its words as well
    infer_filters: bool = False  # `in python`, `function that …` limit language and kind
    rewrite: bool = False  # two alternates by the language model, each searched as well


@dataclass(frozen=True, slots=True)
class Retrieve:
    """Where candidates come from."""

    mode: Mode = Mode.HYBRID
    window: int = 100  # candidates of each side, or of both where the store fuses them, 10 to 500
    fusion: Fusion = Fusion.RRF
    alpha: float | None = None  # weight of the vector side, 0 to 1; None: by the kind of query
    file_similarity: float | None = None  # staged: least cosine of files; None: the embedder's
    max_files: int = 15
    chunk_similarity: float | None = None  # staged: least cosine of chunks; None: the embedder's
    max_chunks: int = 72  # candidates that are ranked


@dataclass(frozen=True, slots=True)
class Rank:
    """What orders candidates and what is left out."""

    ranker: Ranker = Ranker.LINEAR
    definition_boost: float = 2.0  # of the fused ranker
    centrality: Centrality = Centrality.OFF
    reranker: Reranker = Reranker.NONE
    # Abstain when the best similarity is below; 0.5 is usual for transformers. With the built-in
    # embedder 0.3, which 1 % of answerable queries do not reach, 18 % do not reach 0.5.
    confidence: float = 0.0
    duplicate_similarity: float = 1.0  # collapse chunks closer than this; 0.92 is usual; 1: none


@dataclass(frozen=True, slots=True)
class Expand:
    """What is added around the hits."""

    related: int = 0  # files near the hits in the graph, at most; 10 is usual
    hops: int = 2  # 1 or 2
    imports: int = 0  # depth of the import chains; 3 is usual
    enclosing: bool = False  # the whole function or class around each hit
    before_lines: int = 0
    after_lines: int = 0
    max_lines: int = 50
    max_line_chars: int = 200


@dataclass(frozen=True, slots=True)
class Assemble:
    """How much goes out, and how it looks."""

    budget_tokens: int = 8_000
    reserved_tokens: int = 2_000  # for the caller's own words
    exact_tokens: bool = False  # count with the embedder's tokeniser; else characters / 4
    compact: bool = False  # places and signatures without code
    min_quality: float = 0.0  # chunks below are left out of a context; 0.3 is usual


@dataclass(frozen=True, slots=True)
class Options:
    """Everything a request can switch. Frozen and hashable: it is part of the cache key."""

    analyze: Analyze = field(default_factory=Analyze)
    retrieve: Retrieve = field(default_factory=Retrieve)
    rank: Rank = field(default_factory=Rank)
    expand: Expand = field(default_factory=Expand)
    assemble: Assemble = field(default_factory=Assemble)


PRESETS: dict[Preset, Options] = {
    Preset.FAST: Options(retrieve=Retrieve(window=50, max_chunks=50)),
    Preset.BALANCED: Options(),
    Preset.THOROUGH: Options(
        analyze=Analyze(synonyms=True),
        retrieve=Retrieve(window=200, max_chunks=200),
        # Without centrality, which lost .06 of NDCG@10 by rank and .03 by blend.
        rank=Rank(duplicate_similarity=0.92),
        expand=Expand(related=10, imports=3, enclosing=True),
    ),
}
