"""The answers of searches, read from the messages of SearchService."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import overload

from codelode.client.reading import value, values
from codelode.v1 import search_pb2


@dataclass(frozen=True, slots=True)
class Passage:
    """Lines of a file, as they were indexed."""

    start_line: int
    end_line: int
    content: str
    truncated: bool  # whether lines, or the ends of lines, were cut off


@dataclass(frozen=True, slots=True)
class Copy:
    """A chunk of another repository whose text equals that of a hit, or nearly so."""

    repository: str
    ref: str
    path: str
    start_line: int
    end_line: int
    similarity: float  # share of distinct lines in common; 1: the texts are equal
    revision: str
    url: str


@dataclass(frozen=True, slots=True)
class Hit:
    """A chunk of code that answers the query. Lines are 1-based and inclusive."""

    repository: str
    path: str
    start_line: int
    end_line: int
    language: str
    symbol: str
    kind: str
    score: float  # higher is better; comparable within one result only
    match: str  # semantic, keyword, or both
    content: str
    header: str = ""
    category: str = ""
    explain: tuple[tuple[str, float], ...] = ()
    summary: str = ""  # one sentence by a language model; empty: there is none
    passage: Passage | None = None  # lines around the chunk, if they were requested
    block_type: str = ""  # of an infrastructure block: `resource`, `job`, `Deployment`
    line: int = 0  # where the symbol's name is defined; 0: unknown
    keyword_score: float | None = None  # BM25; None: keywords did not find it
    similarity: float | None = None  # cosine; None: vectors did not find it
    revision: str = ""  # the indexed commit
    url: str = ""  # of the lines at the code host; empty: the host is unknown
    copies: tuple[Copy, ...] = ()  # the same code in other repositories, one for each


@dataclass(frozen=True, slots=True)
class SearchResult(Sequence[Hit]):
    """The hits of a search, best first, and how they were found."""

    hits: tuple[Hit, ...]
    took_ms: float  # in the gateway
    cached: bool = False
    stages: tuple[tuple[str, float], ...] = ()  # stage, ms; only with explain
    notices: tuple[str, ...] = ()  # say what was degraded or limited
    query_kind: str = ""
    intent: str = ""
    entities: tuple[Entity, ...] = ()  # names and paths in the query; only with explain
    related: tuple[Related, ...] = ()
    imports: tuple[ImportLink, ...] = ()
    duplicates: tuple[Duplicate, ...] = ()
    files: tuple[FoundFile, ...] = ()  # staged mode: files that were searched, most similar first
    coverage: tuple[Coverage, ...] = ()
    abstained: bool = False  # whether hits were withheld because none was similar enough
    tokens: int = 0  # of all hits together, estimated
    synonyms: tuple[str, ...] = ()
    alternates: tuple[str, ...] = ()
    next_page: str = ""  # for `search(page=…)`; empty: this is the last page
    unmatched: bool = False  # whether no name or word of the query occurs; the hits are similar

    def __len__(self) -> int:
        return len(self.hits)

    @overload
    def __getitem__(self, index: int) -> Hit: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[Hit, ...]: ...
    def __getitem__(self, index: int | slice) -> Hit | tuple[Hit, ...]:
        return self.hits[index]


@dataclass(frozen=True, slots=True)
class Entity:
    """A name or a path in a query."""

    kind: str  # path, pascal_case, camel_case, or snake_case
    text: str


@dataclass(frozen=True, slots=True)
class Related:
    """A file near a hit in the dependency graph."""

    repository: str
    path: str
    relation: str  # imports, imported_by, test_for, interface_of, sibling, or calls
    hops: int
    of: str  # the hit's path


@dataclass(frozen=True, slots=True)
class ImportLink:
    """One step of an import chain; the steps are in depth-first order."""

    repository: str
    path: str
    target: str
    depth: int
    mark: str  # internal, external, circular, or truncated


@dataclass(frozen=True, slots=True)
class Duplicate:
    """A chunk that was left out because it is a near-duplicate of a hit."""

    repository: str
    path: str
    start_line: int
    end_line: int
    of_rank: int  # 1-based, over all pages
    similarity: float


@dataclass(frozen=True, slots=True)
class FoundFile:
    """A file whose summary is similar to the query."""

    repository: str
    path: str
    similarity: float
    summary: str
    symbols: tuple[str, ...]
    tokens: int


@dataclass(frozen=True, slots=True)
class Coverage:
    """The state of the index of a searched repository."""

    repository: str
    ref: str
    revision: str  # empty while the first run is under way
    pending: int  # files
    failed: int


@dataclass(frozen=True, slots=True)
class Context:
    """The hits of a search as one text, within a budget of tokens."""

    text: str  # Markdown with paths and line ranges
    tokens: int
    search: SearchResult  # the search it was made from, with hits without content
    left_out: int  # number of hits that did not fit or whose quality was too low


@dataclass(frozen=True, slots=True)
class Definition:
    """The definition of a name."""

    repository: str
    path: str
    start_line: int
    end_line: int
    name: str
    kind: str
    signature: str
    doc: str


@dataclass(frozen=True, slots=True)
class SymbolList:
    """Definitions by repository, path, and line."""

    symbols: tuple[Definition, ...]
    notices: tuple[str, ...]  # say where the list is not complete
    took_ms: float  # in the gateway
    coverage: tuple[Coverage, ...]


@dataclass(frozen=True, slots=True)
class NamePlace:
    """The place of a definition."""

    repository: str
    path: str
    symbol: str  # qualified name
    line: int


@dataclass(frozen=True, slots=True)
class NameUse:
    """A line that uses a name."""

    repository: str
    path: str
    line: int  # 1-based; 0: not known
    text: str  # the line, at most 1,000 characters
    symbol: str  # qualified name of the definition around the line; may be empty
    kind: str  # call, member, own, class, or implementation; empty: not known
    confidence: str  # exact, imported, or name
    definition: NamePlace | None  # None: the use was found only by its name


@dataclass(frozen=True, slots=True)
class ReferenceList:
    """The uses of a name, the most certain ones first."""

    references: tuple[NameUse, ...]
    notices: tuple[str, ...]  # say where the list is not complete, and if nothing defines the name
    took_ms: float  # in the gateway
    coverage: tuple[Coverage, ...]


@dataclass(frozen=True, slots=True)
class Scope:
    """A named set of repositories, refs, and paths, as far as the caller sees it."""

    name: str
    description: str
    repositories: tuple[str, ...]  # the first 100
    repository_count: int
    refs: tuple[str, ...]  # a search without a ref uses the first that is indexed; empty: any ref
    paths: tuple[str, ...]  # globs; those with `!` exclude; empty: all paths


@dataclass(frozen=True, slots=True)
class FileLines:
    """Lines of a file at the indexed commit."""

    repository: str
    path: str
    language: str
    start_line: int
    end_line: int  # the last line in `content`
    line_count: int  # of the whole file, without blank lines at its end
    content: str
    truncated: bool  # whether one answer cannot hold all requested lines; go on after `end_line`
    revision: str  # empty while the first run is under way
    url: str  # of the lines at the code host; empty: the host is unknown
    coverage: tuple[Coverage, ...] = ()


@dataclass(frozen=True, slots=True)
class MatchSpan:
    """The position of a match in a line: characters, 0-based and half-open."""

    start: int
    end: int


@dataclass(frozen=True, slots=True)
class MatchingLine:
    """A line that a pattern matches, or one around it."""

    number: int
    text: str  # at most 1,000 characters
    is_match: bool
    spans: tuple[MatchSpan, ...]  # the first matches in it
    truncated: bool  # whether the end of the line was cut off


@dataclass(frozen=True, slots=True)
class MatchingFile:
    """A file that a pattern matches."""

    repository: str
    path: str
    language: str
    count: int  # of matching lines, up to the limits
    lines: tuple[MatchingLine, ...]  # matching lines and the lines around them, in order
    revision: str  # empty while the first run is under way
    url: str  # of the first matching line at the code host; empty: the host is unknown


@dataclass(frozen=True, slots=True)
class GrepSummary:
    """The outcome of a search for a pattern."""

    files: int  # number of files with a match
    count: int  # number of matching lines
    read_files: int  # number of files that were read
    complete: bool  # whether all matches were found; else `notices` say where the search stopped
    notices: tuple[str, ...]
    took_ms: float  # in the gateway
    coverage: tuple[Coverage, ...]


@dataclass(frozen=True, slots=True)
class Matches:
    """All files that a search for a pattern returned, and its summary."""

    matches: tuple[MatchingFile, ...]
    summary: GrepSummary


@dataclass(frozen=True, slots=True)
class FolderEntry:
    """A file or a folder in a folder."""

    name: str
    is_folder: bool
    state: str  # of a file: indexed, pending, skipped, or failed
    language: str


@dataclass(frozen=True, slots=True)
class Folder:
    """A page of what a folder contains: folders first, then files, each by name."""

    repository: str
    ref: str
    path: str  # empty: the root
    revision: str  # empty while the first run is under way
    entries: tuple[FolderEntry, ...]
    entry_count: int  # on all pages
    next_page_token: str  # empty: this is the last page
    coverage: tuple[Coverage, ...] = ()


@dataclass(frozen=True, slots=True)
class About:
    """The description of a file or a symbol."""

    kind: str  # file or symbol
    summary: str
    definitions: tuple[Definition, ...]
    imports: tuple[str, ...]
    imported_by: tuple[str, ...]
    tests: tuple[str, ...]
    notices: tuple[str, ...] = ()
    coverage: tuple[Coverage, ...] = ()


def search_result(message: search_pb2.SearchResponse) -> SearchResult:
    return value(SearchResult, message, next_page=message.next_page_token)


def context(message: search_pb2.ContextResponse) -> Context:
    return value(Context, message, search=search_result(message.search))


def about(message: search_pb2.ExplainResponse) -> About:
    return value(About, message, kind=message.subject_kind)


def grep_part(message: search_pb2.GrepResponse) -> tuple[MatchingFile | GrepSummary, ...]:
    files = values(MatchingFile, message.files)
    return (*files, value(GrepSummary, message.summary)) if message.HasField("summary") else files


def matches_of(parts: Iterable[MatchingFile | GrepSummary]) -> Matches:
    """Return the parts of a stream as one value; the last part is the summary."""
    *files, summary = parts
    assert isinstance(summary, GrepSummary), "the stream ends with it"
    return Matches(tuple(file for file in files if isinstance(file, MatchingFile)), summary)
