"""Define the answers of the service functions: plain values with the field names of the protos.

Faces format these values and compute nothing. The query cache stores them as JSON.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from codelode import model
from codelode.api_keys import ApiKey
from codelode.chunk_map import MapPlace
from codelode.disk_use import DiskPart
from codelode.model import (
    Category,
    Kind,
    LanguageHealth,
    Match,
    RefName,
    RepositoryName,
    Run,
)
from codelode.reports import FileFailure, MapStatus, Queue, Server
from gateway.assemble.context import Context
from gateway.exact.matching import Line
from gateway.expand.explain import Explanation
from gateway.expand.links import Link
from gateway.expand.uses import FoundUse
from gateway.pipeline import Timing
from gateway.service.coverage import Coverage
from gateway.service.facets import Facets
from gateway.service.folders import FolderEntry
from gateway.state import Entity, FileRelation, FoundFile, ImportLink, Passage, SearchState


@dataclass(frozen=True, slots=True)
class Trace:
    """One part of a score."""

    name: str
    value: float


@dataclass(frozen=True, slots=True)
class Copy:
    """A chunk of another repository with the text of a hit, or nearly the same text."""

    repository: RepositoryName
    path: str
    start_line: int
    end_line: int
    similarity: float
    ref: str = ""  # like `revision` and `url`, not cached
    revision: str = ""
    url: str = ""


@dataclass(frozen=True, slots=True)
class Hit:
    """A chunk of an answer."""

    repository: RepositoryName
    path: str
    start_line: int
    end_line: int
    language: str
    symbol: str
    kind: Kind
    category: Category
    score: float
    match: Match
    content: str
    header: str = ""
    summary: str = ""
    block_type: str = ""
    explain: tuple[Trace, ...] = ()  # only where the request explains
    passage: Passage | None = None
    line: int = 0
    keyword_score: float | None = None
    similarity: float | None = None
    revision: str = ""  # like `url`, not cached
    url: str = ""
    copies: tuple[Copy, ...] = ()  # in other repositories, one per repository


@dataclass(frozen=True, slots=True)
class RelatedFile:
    """A file near a hit in the dependency graph."""

    repository: RepositoryName
    path: str
    relation: FileRelation
    hops: int
    of: str  # the hit's path


@dataclass(frozen=True, slots=True)
class Duplicate:
    """A chunk that was left out because a hit is nearly the same."""

    repository: RepositoryName
    path: str
    start_line: int
    end_line: int
    of_rank: int  # 1-based rank of the hit
    similarity: float


@dataclass(frozen=True, slots=True)
class SearchAnswer:
    """The answer of `search` and `similar`.

    `took_ms`, `cached`, `coverage` and some notices differ for each call and are not cached.
    """

    hits: tuple[Hit, ...] = ()
    took_ms: float = 0.0
    cached: bool = False
    stages: tuple[Timing, ...] = ()  # only where the request explains
    notices: tuple[str, ...] = ()
    query_kind: str = ""
    intent: str = ""
    related: tuple[RelatedFile, ...] = ()
    imports: tuple[ImportLink, ...] = ()
    duplicates: tuple[Duplicate, ...] = ()
    coverage: tuple[Coverage, ...] = ()
    abstained: bool = False
    unmatched: bool = False
    tokens: int = 0
    next_page_token: str = ""
    entities: tuple[Entity, ...] = ()
    synonyms: tuple[str, ...] = ()
    alternates: tuple[str, ...] = ()
    files: tuple[FoundFile, ...] = ()
    ranking: str = ""  # digest of the ranking that the page is a part of; internal
    facets: Facets | None = None  # only where the request asks for them; internal
    ref: str = ""  # the searched ref; empty: each repository's default; internal


@dataclass(frozen=True, slots=True)
class ContextAnswer:
    """One text for an agent, and the search from which it was made; its hits have no code."""

    text: str
    tokens: int
    search: SearchAnswer
    left_out: int


@dataclass(frozen=True, slots=True)
class Definition:
    """The definition of a name."""

    repository: RepositoryName
    path: str
    start_line: int
    end_line: int
    name: str  # qualified
    kind: Kind
    signature: str
    doc: str


@dataclass(frozen=True, slots=True)
class ExplainAnswer:
    """The description of a file or a symbol."""

    subject_kind: str
    summary: str
    definitions: tuple[Definition, ...]
    imports: tuple[str, ...]
    imported_by: tuple[str, ...]
    tests: tuple[str, ...]
    notices: tuple[str, ...]
    coverage: tuple[Coverage, ...] = ()


@dataclass(frozen=True, slots=True)
class SymbolsAnswer:
    """Definitions by repository, path, and line."""

    symbols: tuple[Definition, ...]
    notices: tuple[str, ...]  # for example that the list is incomplete
    took_ms: float
    coverage: tuple[Coverage, ...]


@dataclass(frozen=True, slots=True)
class ReferencesAnswer:
    """The uses of a name, the most certain ones first."""

    references: tuple[FoundUse, ...]
    notices: tuple[str, ...]
    took_ms: float
    coverage: tuple[Coverage, ...]


@dataclass(frozen=True, slots=True)
class FileLines:
    """Lines of a file at the indexed commit."""

    repository: RepositoryName
    path: str
    language: str
    start_line: int
    end_line: int  # last line in `content`
    line_count: int  # lines of the whole file, without blank lines at its end
    content: str
    truncated: bool  # whether more was requested than one answer may hold
    revision: str  # the indexed commit; empty while the first run is under way
    url: str  # of the lines at the code host; empty: unknown
    coverage: tuple[Coverage, ...] = ()


@dataclass(frozen=True, slots=True)
class MatchingFile:
    """A file that a pattern matches."""

    repository: RepositoryName
    path: str
    language: str
    count: int  # of matching lines, up to the limits
    lines: tuple[Line, ...]  # matching lines and the lines around them, in order
    revision: str = ""  # the indexed commit; empty while the first run is under way
    url: str = ""  # of the first matching line at the code host; empty: unknown


@dataclass(frozen=True, slots=True)
class GrepSummary:
    """The outcome of a search for a pattern."""

    files: int  # with a match
    count: int  # of matching lines
    read_files: int  # read because they have the trigrams of the pattern
    complete: bool  # whether all matches were found; else `notices` tell where the search stopped
    notices: tuple[str, ...]
    took_ms: float
    coverage: tuple[Coverage, ...]


@dataclass(frozen=True, slots=True)
class GrepPart:
    """A part of an answer: files, or in the last part, the summary."""

    files: tuple[MatchingFile, ...] = ()
    summary: GrepSummary | None = None


@dataclass(frozen=True, slots=True)
class GrepAnswer:
    """All matching files and the summary, for a face that sends them at once."""

    matches: tuple[MatchingFile, ...]
    summary: GrepSummary


def grep_answer(parts: Iterable[GrepPart]) -> GrepAnswer:
    """Combine the parts, the last of which has the summary, into one answer."""
    *found, last = parts
    assert last.summary is not None, "the service ends with it"
    return GrepAnswer(tuple(file for part in found for file in part.files), last.summary)


@dataclass(frozen=True, slots=True)
class FileList:
    """One page of what a folder contains at the indexed commit."""

    repository: RepositoryName
    ref: RefName
    path: str
    revision: str  # empty while the first run is under way
    entries: tuple[FolderEntry, ...]  # folders first
    entry_count: int  # of all pages
    next_page_token: str
    coverage: tuple[Coverage, ...] = ()


@dataclass(frozen=True, slots=True)
class GraphAnswer:
    """The links around a file, a symbol, or a repository."""

    subject_kind: str
    repository: RepositoryName
    links: tuple[Link, ...]
    notices: tuple[str, ...]
    coverage: tuple[Coverage, ...] = ()


@dataclass(frozen=True, slots=True)
class RefStatus:
    """The state of the index of a ref."""

    ref: str
    revision: str  # empty while the first run is under way
    files: int
    skipped: int
    failed: int
    chunks: int
    indexed_at: float
    health: tuple[LanguageHealth, ...]


@dataclass(frozen=True, slots=True)
class Repository:
    """A registered repository with its refs."""

    name: RepositoryName
    url: str
    default_ref: str
    is_pinned: bool  # False: the default ref is the one that was indexed first
    follows_default: bool  # whether the default ref follows the source's default branch
    refs: tuple[RefStatus, ...]
    include: tuple[str, ...]
    exclude: tuple[str, ...]
    label: str  # empty: none


@dataclass(frozen=True, slots=True)
class Status:
    """Repositories, recent runs, queues, and workers at one moment."""

    version: str
    repositories: tuple[Repository, ...]
    runs: tuple[Run, ...]
    chunks: int  # or UNKNOWN
    queues: tuple[Queue, ...]
    embedder: str
    store: str
    problems: tuple[str, ...] = ()  # of the gateway's configuration
    disk: tuple[DiskPart, ...] = ()  # as last measured
    servers: tuple[Server, ...] = ()  # the store, the embedder, and the language model


@dataclass(frozen=True, slots=True)
class MapAnswer:
    """The map of some repositories. Names are sorted by their number of points, most first."""

    repositories: tuple[RepositoryName, ...]
    status: MapStatus | None  # None: the map was never requested
    expected_s: float  # time that a worker takes for it
    maps: tuple[MapStatus, ...]  # of visible repositories, latest first
    point_repositories: tuple[str, ...] = ()
    languages: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    #: Five little-endian 16-bit numbers per point: x and y, and the positions of its repository,
    #: language, and category in the names above.
    points: bytes = b""


@dataclass(frozen=True, slots=True)
class MapPlaces:
    """The chunks at points of a map."""

    places: tuple[MapPlace, ...]


@dataclass(frozen=True, slots=True)
class Bound:
    """Globs over names of repositories; a name must match at least one."""

    globs: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Key:
    """An API key without its secret. Times are seconds since the epoch; 0: never."""

    id: str
    name: str
    role: str
    bounds: tuple[Bound, ...]
    created_at: float
    created_by: str
    expires_at: float
    used_at: float


@dataclass(frozen=True, slots=True)
class ListedScope:
    """A named set of repositories, refs, and paths, as far as the caller sees it."""

    name: str
    description: str
    repositories: tuple[RepositoryName, ...]  # the first 100
    repository_count: int
    refs: tuple[str, ...]  # empty: any
    paths: tuple[str, ...]  # globs, those with `!` exclude; empty: any


@dataclass(frozen=True, slots=True)
class CreatedKey:
    """A new API key, with the text that callers send."""

    key: str = field(repr=False)
    created: Key
    notices: tuple[str, ...] = ()  # about repositories that the key unexpectedly does not see


@dataclass(frozen=True, slots=True)
class Failures:
    """One page of failures."""

    failures: tuple[FileFailure, ...]
    next_page_token: str


def search_answer(
    state: SearchState, timings: Iterable[Timing] = (), *, explain: bool = False
) -> SearchAnswer:
    """Return the answer of a finished search, without the fields that differ for each call."""
    ranks = {hit.chunk.id: rank for rank, hit in enumerate(state.hits, 1 + state.query.offset)}
    analysis = state.analysis
    return SearchAnswer(
        hits=tuple(_hit(one, state, explain=explain) for one in state.hits),
        stages=tuple(timings) if explain else (),
        notices=(*state.notices, *state.remarks),
        query_kind=analysis.kind,
        intent=analysis.intent,
        related=tuple(
            RelatedFile(one.repository, one.path, one.relation, one.hops, one.of)
            for one in state.related
        ),
        imports=state.imports,
        duplicates=tuple(
            Duplicate(
                one.chunk.repository,
                one.chunk.path,
                one.chunk.start_line,
                one.chunk.end_line,
                ranks[one.of],
                one.similarity,
            )
            for one in state.duplicates
            if one.of in ranks
        ),
        abstained=state.has_abstained,
        unmatched=state.is_unmatched,
        tokens=state.tokens,
        entities=analysis.entities if explain else (),
        synonyms=analysis.synonyms,
        alternates=tuple(alternate.text for alternate in state.alternates),
        files=state.files,
    )


def context_answer(made: Context, search: SearchAnswer) -> ContextAnswer:
    """Return the answer with the text; its hits have no code, because the text contains it."""
    hits = tuple(replace(hit, content="", passage=None) for hit in search.hits)
    notices = (*search.notices, *made.notices)
    return ContextAnswer(
        made.text, made.tokens, replace(search, hits=hits, notices=notices), made.left_out
    )


def explain_answer(found: Explanation, coverage: tuple[Coverage, ...]) -> ExplainAnswer:
    return ExplainAnswer(
        subject_kind=found.kind,
        summary=found.summary,
        definitions=tuple(map(definition_of, found.definitions)),
        imports=found.imports,
        imported_by=found.imported_by,
        tests=found.tests,
        notices=found.notices,
        coverage=coverage,
    )


def repository(item: model.Repository, refs: Iterable[model.RefStatus]) -> Repository:
    return Repository(
        name=item.name,
        url=item.url,
        default_ref=item.default_ref,
        is_pinned=item.is_pinned,
        follows_default=item.follows_default,
        refs=tuple(map(_ref_status, refs)),
        include=item.patterns.include,
        exclude=item.patterns.exclude,
        label=item.label or "",
    )


def key_of(item: ApiKey) -> Key:
    return Key(
        id=item.id,
        name=item.name,
        role=item.role,
        bounds=tuple(map(Bound, item.bounds)),
        created_at=item.created_at,
        created_by=item.created_by,
        expires_at=item.expires_at or 0.0,
        used_at=item.used_at or 0.0,
    )


def file_failure(
    repository: RepositoryName, ref: model.RefName, record: model.FileRecord
) -> FileFailure:
    state = record.health if record.health and not record.state.is_left_out else record.state
    return FileFailure(repository, ref, record.path, state, record.reason)


def _hit(item: model.Hit, state: SearchState, *, explain: bool) -> Hit:
    chunk = item.chunk
    return Hit(
        repository=chunk.repository,
        path=chunk.path,
        start_line=chunk.start_line,
        end_line=chunk.end_line,
        language=chunk.language,
        symbol=chunk.symbol,
        kind=chunk.kind,
        category=chunk.category,
        score=item.score,
        match=item.match,
        content=chunk.content,
        header=chunk.header,
        summary=chunk.summary,
        block_type=chunk.block_type,
        explain=tuple(Trace(*part) for part in item.explain) if explain else (),
        passage=state.passages.get(chunk.id),
        line=item.line,
        keyword_score=item.keyword_score,
        similarity=item.similarity,
        copies=tuple(_copy(one.chunk, one.similarity) for one in state.copies.get(chunk.id, ())),
    )


def _copy(chunk: model.Chunk, similarity: float) -> Copy:
    return Copy(chunk.repository, chunk.path, chunk.start_line, chunk.end_line, similarity)


def definition_of(item: model.LocatedSymbol) -> Definition:
    """Convert a definition for an answer."""
    symbol = item.symbol
    return Definition(
        repository=item.repository,
        path=item.path,
        start_line=symbol.start_line,
        end_line=symbol.end_line,
        name=symbol.qualified_name,
        kind=symbol.kind,
        signature=symbol.signature,
        doc=symbol.doc,
    )


def _ref_status(item: model.RefStatus) -> RefStatus:
    return RefStatus(
        ref=item.ref,
        revision=item.indexed or "",
        files=item.files,
        skipped=item.skipped,
        failed=item.failed,
        chunks=item.chunks,
        indexed_at=item.indexed_at,
        health=item.health,
    )
