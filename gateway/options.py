"""Define the options of a search, one dataclass per stage, and the presets that bundle them.

docs/ranking.md has the range, the source of the default, and the measured effect of each option. An
option that a request sets overrides its preset. Options that do not improve the ranking are
experimental: they work, but no preset has them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum


class Fusion(StrEnum):
    """The fusion of keyword and vector results to one score."""

    RRF = "rrf"  # reciprocal ranks, k = 60
    RELATIVE = "relative"  # keyword and vector scores each scaled to [0, 1]


class Mode(StrEnum):
    """The units that are retrieved first: chunks, or files."""

    HYBRID = "hybrid"  # chunks
    STAGED = "staged"  # experimental: files by their summaries, then the chunks inside them


class Ranker(StrEnum):
    """The model that orders the candidates."""

    LINEAR = "linear"  # the fitted features
    FUSED = "fused"  # experimental: the fused score alone, with the definition boost


class Centrality(StrEnum):
    """Experimental: how the number of a file's links in the graph affects the ranking."""

    OFF = "off"
    RRF = "rrf"  # 1 / (k + rank) + 0.5 / (k + centrality rank)
    BLEND = "blend"  # 0.6 × score + 0.4 × centrality


class Reranker(StrEnum):
    """Experimental: a model that reads the top candidates again."""

    NONE = "none"
    CROSS_ENCODER = "cross_encoder"
    JUDGE = "judge"  # the language model grades 0 to 100


class Preset(StrEnum):
    """A named starting point for the options."""

    FAST = "fast"
    BALANCED = "balanced"
    THOROUGH = "thorough"


@dataclass(frozen=True, slots=True)
class Analyze:
    """Options of the query analysis. All experimental."""

    synonyms: bool = False  # search for synonyms of its words too
    infer_filters: bool = False  # `in python`, `function that …` limit language and kind
    rewrite: bool = False  # search for two rewritten queries of the language model too


@dataclass(frozen=True, slots=True)
class Retrieve:
    """Options of the retrieval of candidates."""

    mode: Mode = Mode.HYBRID
    # Maximum number of keyword results and of vector results; of both together if the store fuses
    # them. If all options of the stage have their defaults, some queries use those of `hybrid.HOW`.
    window: int = 100
    fusion: Fusion = Fusion.RRF  # of the fused ranker
    alpha: float | None = None  # weight of vector results, 0 to 1; None: by the kind of query
    file_similarity: float | None = None  # staged: minimum cosine of files; None: the embedder's
    max_files: int = 15  # staged: files whose chunks are searched
    chunk_similarity: float | None = None  # staged: minimum cosine of chunks; None: the embedder's
    max_chunks: int = 72  # candidates that are ranked


@dataclass(frozen=True, slots=True)
class Rank:
    """Options of the ranking of candidates, and of what is left out."""

    ranker: Ranker = Ranker.LINEAR
    definition_boost: float = 2.0  # of the fused ranker
    centrality: Centrality = Centrality.OFF
    reranker: Reranker = Reranker.NONE
    # Abstain if the best cosine is lower. Usual values are 0.5 for transformers and 0.3 for the
    # built-in embedder, with which 1 % of the answerable queries are below 0.3, and 18 % below 0.5.
    confidence: float = 0.0
    duplicate_similarity: float = 1.0  # collapse chunks with a higher cosine; 1: none
    collapse_copies: bool = True  # one hit for a chunk that several repositories have


@dataclass(frozen=True, slots=True)
class Expand:
    """Options of the expansion of the hits."""

    related: int = 0  # files near the hits in the graph, at most; 10 is usual
    hops: int = 2  # steps to a related file, 1 or 2
    imports: int = 0  # depth of the import chains; 3 is usual
    enclosing: bool = False  # the whole function or class around each hit
    before_lines: int = 0
    after_lines: int = 0
    max_lines: int = 50  # of a hit with its surroundings
    max_line_chars: int = 200


@dataclass(frozen=True, slots=True)
class Assemble:
    """Options of the size and the form of the answer."""

    budget_tokens: int = 8_000
    reserved_tokens: int = 2_000  # of the budget, for the caller's own prompt
    exact_tokens: bool = False  # count with the embedder's tokeniser; else characters / 4
    compact: bool = False  # locations and signatures without code
    min_quality: float = 0.0  # chunks below are left out of a context; 0.3 is usual


@dataclass(frozen=True, slots=True)
class Options:
    """All options of a search. Frozen and hashable: it is part of the cache key."""

    analyze: Analyze = field(default_factory=Analyze)
    retrieve: Retrieve = field(default_factory=Retrieve)
    rank: Rank = field(default_factory=Rank)
    expand: Expand = field(default_factory=Expand)
    assemble: Assemble = field(default_factory=Assemble)


PRESETS: dict[Preset, Options] = {
    Preset.FAST: Options(retrieve=Retrieve(window=50, max_chunks=50)),
    Preset.BALANCED: Options(),
    # A wider window helps if tests and documents compete with code (docs/ranking.md); `expand` adds
    # the surroundings of the hits. Synonyms and a lower duplicate similarity improve nothing.
    Preset.THOROUGH: Options(
        retrieve=Retrieve(window=150, max_chunks=150),
        rank=Rank(duplicate_similarity=0.98),
        expand=Expand(related=10, imports=3, enclosing=True),
    ),
}
