"""What the stages pass on: one immutable value that each of them returns with more in it.

It lies beside the pipeline and not inside it, so that a stage imports its vocabulary without
importing the other stages.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import NamedTuple

from codelode.access import Visibility
from codelode.model import (
    Candidate,
    Category,
    Chunk,
    ChunkId,
    Filters,
    Hit,
    RepositoryName,
)
from codelode.ports import (
    ChunkSearch,
    CrossEncoder,
    DependencyGraph,
    Embedder,
    LanguageModel,
    PackageIndex,
    ReferenceIndex,
    SymbolTable,
    Tokeniser,
)
from gateway.options import Options

#: Characters of code and prose per token, the usual rule of thumb for models of language.
CHARS_PER_TOKEN = 4


def estimated_tokens(text: str) -> int:
    """About how many tokens a language model sees in the text."""
    return -(-len(text) // CHARS_PER_TOKEN)


class QueryKind(StrEnum):
    """How a query is written, which decides how its two sides are weighed."""

    NATURAL_LANGUAGE = "natural_language"
    IDENTIFIER = "identifier"
    CODE = "code"


class Intent(StrEnum):
    """What the asker is after."""

    FIND_DEFINITION = "find_definition"
    FIND_USAGE = "find_usage"
    UNDERSTAND_MODULE = "understand_module"
    FIND_SIMILAR = "find_similar"
    GENERAL = "general"


class EntityKind(StrEnum):
    """How a name in a query is written."""

    PATH = "path"
    PASCAL_CASE = "pascal_case"
    CAMEL_CASE = "camel_case"
    SNAKE_CASE = "snake_case"


class FileRelation(StrEnum):
    """How a related file is near a hit; both directions of `tests`, `inherits` and `calls`."""

    IMPORTS = "imports"
    IMPORTED_BY = "imported_by"
    TEST_FOR = "test_for"
    INTERFACE_OF = "interface_of"
    CALLS = "calls"
    SIBLING = "sibling"


class Mark(StrEnum):
    """Where a link of an import chain leads."""

    INTERNAL = "internal"
    EXTERNAL = "external"
    CIRCULAR = "circular"  # back to a file that the chain came through
    TRUNCATED = "truncated"  # the target imports more, which is not followed


@dataclass(frozen=True, slots=True)
class SearchQuery:
    """A checked request. Everything that shapes the answer is here, so it is the cache key."""

    text: str
    top_k: int = 10
    filters: Filters = field(default_factory=Filters)
    options: Options = field(default_factory=Options)
    offset: int = 0  # hits of the pages before
    visible: Visibility = field(kw_only=True)  # what the asker may see


@dataclass(frozen=True, slots=True)
class Entity:
    """A name in a query."""

    kind: EntityKind
    text: str


#: Words that ask for files which otherwise stand back behind source code.
ASKED_BY = {
    Category.TEST: frozenset({"test", "tests", "testing", "spec", "mock", "fixture", "fixtures"}),
    Category.DOCS: frozenset(
        {"doc", "docs", "documentation", "readme", "changelog", "tutorial", "guide"}
    ),
    Category.VENDORED: frozenset(),
    Category.GENERATED: frozenset(),
}


@dataclass(frozen=True, slots=True)
class Analysis:
    """What the words of a query say about it."""

    kind: QueryKind
    words: tuple[str, ...]  # distinct index terms without stop words, in order
    identifiers: tuple[str, ...]  # what is written like code, as written: `Client.get`
    intent: Intent = Intent.GENERAL
    entities: tuple[Entity, ...] = ()
    synonyms: tuple[str, ...] = ()  # words to search for besides

    def alpha(self, chosen: float | None) -> float:
        """Weight of the vector side where none was chosen: names are matched by words, prose by
        meaning. The usual values of hybrid code search.
        """
        if chosen is not None:
            return chosen
        return 0.3 if self.kind is QueryKind.IDENTIFIER else 0.7

    @property
    def unasked(self) -> frozenset[Category]:
        """The kinds of files that the query's words do not ask for."""
        return frozenset(
            category for category, asking in ASKED_BY.items() if asking.isdisjoint(self.words)
        )


@dataclass(frozen=True, slots=True)
class Found:
    """The candidates of an alternate query."""

    text: str
    analysis: Analysis
    candidates: tuple[Candidate, ...] = ()


class Ranked(NamedTuple):
    """A candidate at its place in the ranking. A tuple for the reason that a candidate is one.

    Of the linear ranker the parts sum to the score; each step after it adds the one number that it
    decided by.
    """

    candidate: Candidate
    score: float
    names: tuple[str, ...]  # of the parts: "rank.definition"
    parts: tuple[float, ...]  # what each of them adds to the score


@dataclass(frozen=True, slots=True)
class Duplicate:
    """A chunk that was left out for a better one that is nearly the same."""

    chunk: Chunk
    of: ChunkId
    similarity: float


@dataclass(frozen=True, slots=True)
class FoundFile:
    """A file whose summary is like the query."""

    repository: RepositoryName
    path: str
    similarity: float
    summary: str
    symbols: tuple[str, ...]  # what it shows to others
    tokens: int  # of the whole file, estimated


@dataclass(frozen=True, slots=True)
class Related:
    """A file near a hit."""

    repository: RepositoryName
    path: str
    relation: FileRelation
    hops: int
    of: str  # the hit's path
    chunks: tuple[Chunk, ...] = ()  # all of the file's


@dataclass(frozen=True, slots=True)
class ImportLink:
    """One step of an import chain."""

    repository: RepositoryName
    path: str
    target: str
    depth: int  # 1: the hit's own imports
    mark: Mark


@dataclass(frozen=True, slots=True)
class Passage:
    """Stored lines of a file."""

    start_line: int
    end_line: int
    content: str
    truncated: bool = False  # lines or line ends were cut


@dataclass(frozen=True, slots=True)
class SearchState:
    """A search under way. Fields are empty until their stage has run."""

    query: SearchQuery
    analysis: Analysis = Analysis(QueryKind.NATURAL_LANGUAGE, (), ())
    alternates: tuple[Found, ...] = ()  # other wordings, each searched as well
    candidates: tuple[Candidate, ...] = ()  # of both sides, in any order
    files: tuple[FoundFile, ...] = ()  # staged: the files that were searched, best first
    ranking: tuple[Ranked, ...] = ()  # best first
    duplicates: tuple[Duplicate, ...] = ()
    has_abstained: bool = False
    related: tuple[Related, ...] = ()  # nearest first
    imports: tuple[ImportLink, ...] = ()  # depth first
    passages: Mapping[ChunkId, Passage] = field(default_factory=dict)
    hits: tuple[Hit, ...] = ()  # best first
    tokens: int = 0  # of all hits together, estimated
    notices: tuple[str, ...] = ()  # what was degraded this time, in plain words
    remarks: tuple[str, ...] = ()  # what limits the answer as long as the index is the same

    @property
    def page(self) -> tuple[Ranked, ...]:
        """The part of the ranking that is answered."""
        start = self.query.offset
        return self.ranking[start : start + self.query.top_k]

    def noticed(self, *notices: str) -> SearchState:
        """The state that says so, and whose answer is not kept."""
        return replace(self, notices=(*self.notices, *notices)) if notices else self

    def remarked(self, *remarks: str) -> SearchState:
        """The state that says so."""
        return replace(self, remarks=(*self.remarks, *remarks)) if remarks else self


@dataclass(frozen=True, slots=True)
class Backends:
    """What the stages may ask. What is None is not configured."""

    chunks: ChunkSearch
    embedder: Embedder
    graph: DependencyGraph | None = None
    symbols: SymbolTable | None = None
    language_model: LanguageModel | None = None
    cross_encoder: CrossEncoder | None = None
    tokeniser: Tokeniser | None = None
    references: ReferenceIndex | None = None
    packages: PackageIndex | None = None
