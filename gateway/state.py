"""Define the state of a search: an immutable value to which each stage adds its results.

The types are not in `pipeline`, so that a stage can import them without importing other stages.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import NamedTuple, Protocol

from codelode.access import Visibility
from codelode.globs import is_literal
from codelode.grams import Grams
from codelode.model import (
    Candidate,
    Category,
    Chunk,
    ChunkId,
    Filters,
    Hit,
    Kind,
    RefName,
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
from codelode.scopes import Scope
from gateway.options import Options

#: Matches each part of a name that is joined from several: `absl::StrCat`, `$this->run`.
_NAME_PART = re.compile(r"[\w$]+")

#: Characters of code or prose per token, the usual rule of thumb for language models.
CHARS_PER_TOKEN = 4


def estimated_tokens(text: str) -> int:
    """Estimate how many tokens a language model sees in the text."""
    return -(-len(text) // CHARS_PER_TOKEN)


class QueryKind(StrEnum):
    """The form of a query, which decides how keyword and vector results are weighed."""

    NATURAL_LANGUAGE = "natural_language"
    IDENTIFIER = "identifier"
    CODE = "code"


class Intent(StrEnum):
    """The purpose of a query."""

    FIND_DEFINITION = "find_definition"
    FIND_USAGE = "find_usage"
    UNDERSTAND_MODULE = "understand_module"
    FIND_SIMILAR = "find_similar"
    GENERAL = "general"


class EntityKind(StrEnum):
    """The spelling of a name in a query."""

    PATH = "path"
    PASCAL_CASE = "pascal_case"
    CAMEL_CASE = "camel_case"
    SNAKE_CASE = "snake_case"


class FileRelation(StrEnum):
    """The relation of a file to a hit.

    `test_for`, `interface_of` and `calls` count in both directions.
    """

    IMPORTS = "imports"
    IMPORTED_BY = "imported_by"
    TEST_FOR = "test_for"
    INTERFACE_OF = "interface_of"
    CALLS = "calls"
    SIBLING = "sibling"


class Mark(StrEnum):
    """The kind of target that a link of an import chain has."""

    INTERNAL = "internal"
    EXTERNAL = "external"
    CIRCULAR = "circular"  # a file that the chain has already passed
    TRUNCATED = "truncated"  # the target imports more, which is not followed


class TextTest(Protocol):
    """Tests whether a chunk contains the texts that a query requires, and none that it excludes."""

    @property
    def key(self) -> str:
        """Return a key that differs for different tests."""

    @property
    def needed(self) -> Grams:
        """Return the trigrams that a file must have for one of its chunks to have the texts."""

    @property
    def is_excluding(self) -> bool:
        """Return whether the query only excludes texts."""

    def holds(self, text: str) -> bool:
        """Return whether the text has everything that is required."""

    def admits(self, text: str) -> bool:
        """Return whether the text has nothing that is excluded."""


@dataclass(frozen=True, slots=True)
class Narrowing:
    """A visibility, and the globs of a query or scope over names of repositories that narrow it."""

    of: Visibility
    globs: tuple[str, ...]  # names included; empty: all
    excluded: tuple[str, ...]
    scope: Scope | None = None

    @property
    def named(self) -> tuple[RepositoryName, ...]:
        """Return the names among the globs."""
        return tuple(RepositoryName(one) for one in self.globs if is_literal(one))


@dataclass(frozen=True, slots=True)
class SearchQuery:
    """A checked request: everything that shapes the answer, and therefore part of the cache key."""

    text: str
    top_k: int = 10
    filters: Filters = field(default_factory=Filters)
    options: Options = field(default_factory=Options)
    offset: int = 0  # number of hits on earlier pages
    texts: TextTest | None = None  # tests the texts that hits must or must not have
    visible: Visibility = field(kw_only=True)  # outer bound of every read
    narrowing: Narrowing | None = None  # how the query made `visible` narrower than the caller's

    @property
    def visible_key(self) -> str:
        """Return a key of `visible` with globs instead of the names that match now."""
        if self.narrowing is None:
            return self.visible.digest
        scope = self.narrowing.scope.repositories if self.narrowing.scope else ()
        of, globs = self.narrowing.of.digest, self.narrowing.globs
        return f"{of} {globs} -{self.narrowing.excluded} {scope}"

    @property
    def named(self) -> tuple[RepositoryName, ...]:
        """Return the repositories that the query names without wildcards."""
        return self.narrowing.named if self.narrowing else ()


@dataclass(frozen=True, slots=True)
class Entity:
    """A name in a query."""

    kind: EntityKind
    text: str


#: Words of a query that ask for a category of files, which otherwise rank below source code.
ASKED_BY = {
    Category.TEST: frozenset({"test", "tests", "testing", "spec", "mock", "fixture", "fixtures"}),
    Category.DOCS: frozenset(
        {"doc", "docs", "documentation", "readme", "changelog", "tutorial", "guide"}
    ),
    Category.VENDORED: frozenset(),
    Category.GENERATED: frozenset(),
}


@dataclass(frozen=True, slots=True)
class Frame:
    """A frame of a stack trace in the query, or a line of a file that it names."""

    path: str  # as in the trace, often absolute
    line: int
    function: str = ""  # unqualified; empty: the line alone counts

    def may_mean(self, path: str) -> bool:
        """Return whether the path of the frame may mean the file: one ends with the other."""
        inner, outer = sorted((self.path.lstrip("/"), path), key=len)
        return f"/{outer}".endswith(f"/{inner}")

    def is_in(self, chunk: Chunk) -> bool:
        """Return whether the chunk defines the function, or has the line, in such a file."""
        if not self.may_mean(chunk.path):
            return False
        if not self.function:
            return chunk.start_line <= self.line <= chunk.end_line
        return self.function in (chunk.symbol.rpartition(".")[2], *chunk.symbols)


@dataclass(frozen=True, slots=True)
class Analysis:
    """The result of the analysis of a query."""

    kind: QueryKind
    words: tuple[str, ...]  # distinct index terms without stop words, in order
    identifiers: tuple[str, ...]  # tokens that are written like code, unchanged: `Client.get`
    intent: Intent = Intent.GENERAL
    entities: tuple[Entity, ...] = ()
    synonyms: tuple[str, ...] = ()  # additional words to search for
    kinds: frozenset[Kind] = frozenset()  # kinds that the word before a name asks for; empty: any
    frames: tuple[Frame, ...] = ()  # of a stack trace, innermost first
    verbatim: str = ""  # the query, if a chunk may contain it as it is written; else empty
    key: str = ""  # the query, if it may be a flag, an option, a variable, or a short message
    url_path: tuple[str, ...] = ()  # the parts of the URL path that the query is
    url_method: str = ""  # the method before it: `GET`
    lines: tuple[str, ...] = ()  # the lines of a query of several lines, without indentation
    used: str = ""  # the name whose users the query asks for, if any
    message: tuple[str, ...] = ()  # the words of the query, if it looks like a message
    is_change: bool = False  # the query describes a change, as a commit subject does
    is_question: bool = False  # the query begins as a question does: `how are tokens refreshed`
    asks_how: bool = False  # the query begins with "how"
    asks_where_set: bool = False  # `where is the default timeout configured`

    def alpha(self, chosen: float | None) -> float:
        """Return the chosen weight of the vector results, or the usual one of hybrid code search.

        Identifiers need keyword results more, prose needs vector results more.
        """
        if chosen is not None:
            return chosen
        return 0.3 if self.kind is QueryKind.IDENTIFIER else 0.7

    @property
    def last_names(self) -> tuple[str, ...]:
        """Return the last part of each identifier, as it is written: `Client.get` → `get`."""
        parts = (_NAME_PART.findall(name) for name in self.identifiers)
        return tuple(dict.fromkeys(found[-1] for found in parts if found))

    @property
    def unasked(self) -> frozenset[Category]:
        """Return the categories of files that no word of the query asks for."""
        return frozenset(
            category for category, asking in ASKED_BY.items() if asking.isdisjoint(self.words)
        )


@dataclass(frozen=True, slots=True)
class AlternateQuery:
    """An alternate wording of the query, with its candidates."""

    text: str
    analysis: Analysis
    candidates: tuple[Candidate, ...] = ()


class Ranked(NamedTuple):
    """A candidate with its score. A named tuple, like a candidate, because many are created.

    The parts of the linear ranker sum to the score. Each later step adds the value that
    it ranked by.
    """

    candidate: Candidate
    score: float
    names: tuple[str, ...]  # names of the parts: "rank.definition"
    parts: Sequence[float]  # their values

    def raised(self, score: float, name: str) -> Ranked:
        """Return the entry with this score, and with the difference as a part named `name`."""
        parts = (*self.parts, score - self.score)
        return self._replace(score=score, names=(*self.names, name), parts=parts)


@dataclass(frozen=True, slots=True)
class Duplicate:
    """A chunk that was left out because a better one is nearly the same."""

    chunk: Chunk
    of: ChunkId
    similarity: float


@dataclass(frozen=True, slots=True)
class Copy:
    """A chunk of another repository that a better one stands for."""

    chunk: Chunk
    similarity: float  # 1: the texts are equal


@dataclass(frozen=True, slots=True)
class FoundFile:
    """A file whose summary is similar to the query."""

    repository: RepositoryName
    path: str
    similarity: float
    summary: str
    symbols: tuple[str, ...]  # names that it exports
    tokens: int  # estimate for the whole file


@dataclass(frozen=True, slots=True)
class Related:
    """A file that is related to a hit."""

    repository: RepositoryName
    path: str
    relation: FileRelation
    hops: int
    of: str  # the hit's path
    chunks: tuple[Chunk, ...] = ()  # all chunks of the file


@dataclass(frozen=True, slots=True)
class ImportLink:
    """One step of an import chain."""

    repository: RepositoryName
    path: str
    target: str
    depth: int  # 1 for the imports of the hit itself
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
    """A running search. Fields are empty until their stage has run."""

    query: SearchQuery
    analysis: Analysis = Analysis(QueryKind.NATURAL_LANGUAGE, (), ())
    alternates: tuple[AlternateQuery, ...] = ()  # searched in addition to the query
    candidates: tuple[Candidate, ...] = ()  # keyword and vector results, in any order
    is_unmatched: bool = False  # neither the queried name nor any word of the query occurs
    files: tuple[FoundFile, ...] = ()  # staged: the files that were searched, best first
    ranking: tuple[Ranked, ...] = ()  # best first
    duplicates: tuple[Duplicate, ...] = ()
    copies: Mapping[ChunkId, tuple[Copy, ...]] = field(default_factory=dict)  # of ranked chunks
    has_abstained: bool = False
    related: tuple[Related, ...] = ()  # nearest first
    imports: tuple[ImportLink, ...] = ()  # depth first
    passages: Mapping[ChunkId, Passage] = field(default_factory=dict)
    hits: tuple[Hit, ...] = ()  # best first
    tokens: int = 0  # estimate for all hits together
    notices: tuple[str, ...] = ()  # temporary limitations; such an answer is not cached
    remarks: tuple[str, ...] = ()  # limitations that last as long as the index; cached

    @property
    def page(self) -> tuple[Ranked, ...]:
        """Return the part of the ranking that this page shows."""
        start = self.query.offset
        return self.ranking[start : start + self.query.top_k]

    def noticed(self, *notices: str) -> SearchState:
        """Return the state with notices, which keep its answer out of the cache."""
        return replace(self, notices=(*self.notices, *notices)) if notices else self

    def remarked(self, *remarks: str) -> SearchState:
        """Return the state with remarks, which are cached with its answer."""
        return replace(self, remarks=(*self.remarks, *remarks)) if remarks else self


class CommitTimes(Protocol):
    """Tells how recent the index of each repository is."""

    async def commit_times(
        self, names: Collection[RepositoryName], ref: RefName
    ) -> Mapping[RepositoryName, float]:
        """Return when the indexed commit of each visible repository was made; 0: not recorded."""


@dataclass(frozen=True, slots=True)
class Backends:
    """The ports that the stages use. A port that is None is not configured."""

    chunks: ChunkSearch
    embedder: Embedder
    graph: DependencyGraph | None = None
    symbols: SymbolTable | None = None
    language_model: LanguageModel | None = None
    cross_encoder: CrossEncoder | None = None
    tokeniser: Tokeniser | None = None
    references: ReferenceIndex | None = None
    packages: PackageIndex | None = None
    history: CommitTimes | None = None
