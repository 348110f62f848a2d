"""What the stages pass on: one immutable value that each of them returns with more in it.

It lies beside the pipeline and not inside it, so that a stage imports its vocabulary without
importing the other stages.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from codelode.model import Candidate, Filters, Hit
from codelode.ports import ChunkSearch, Embedder


class QueryKind(StrEnum):
    """How a query is written, which decides how its two sides are weighed."""

    NATURAL_LANGUAGE = "natural_language"
    IDENTIFIER = "identifier"
    CODE = "code"


@dataclass(frozen=True, slots=True)
class SearchQuery:
    """A checked request. Everything that shapes the answer is here, so it is the cache key."""

    text: str
    top_k: int = 10
    filters: Filters = field(default_factory=Filters)


@dataclass(frozen=True, slots=True)
class Analysis:
    """What the words of a query say about it."""

    kind: QueryKind
    words: tuple[str, ...]  # distinct index terms without stop words, in order
    identifiers: tuple[str, ...]  # what is written like code, as written: `Client.get`


@dataclass(frozen=True, slots=True)
class Ranked:
    """A candidate at its place in the ranking."""

    candidate: Candidate
    score: float
    names: tuple[str, ...]  # of the parts: "rank.definition"
    parts: tuple[float, ...]  # what each of them adds to the score


@dataclass(frozen=True, slots=True)
class SearchState:
    """A search under way. Fields are empty until their stage has run."""

    query: SearchQuery
    analysis: Analysis = Analysis(QueryKind.NATURAL_LANGUAGE, (), ())
    candidates: tuple[Candidate, ...] = ()  # of both sides, in any order
    ranking: tuple[Ranked, ...] = ()  # best first
    hits: tuple[Hit, ...] = ()  # best first
    notices: tuple[str, ...] = ()  # what was degraded or limited, in plain words


@dataclass(frozen=True, slots=True)
class Backends:
    """What the stages may ask."""

    chunks: ChunkSearch
    embedder: Embedder
