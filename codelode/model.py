"""The vocabulary: every value that crosses a border between folders.

All types are frozen; collections inside them are tuples. Lines are 1-based and inclusive, bytes
0-based and half-open, ranks 1-based, times are seconds since the epoch. Paths are repository
paths with `/`; a path that is not valid UTF-8 has its stray bytes written as `\\xNN`
(`path_from_bytes`), because stores and protos carry text only. A path is a label: content is read
by blob id, never by joining a path to a folder.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import NamedTuple, NewType

import numpy as np
import numpy.typing as npt

from codelode.access import Visibility
from codelode.names import Names

RepositoryName = NewType("RepositoryName", str)
RefName = NewType("RefName", str)
Revision = NewType("Revision", str)  # 40 hex digits: a commit
BlobId = NewType("BlobId", str)  # 40 hex digits: git's id of a content
ChunkId = NewType("ChunkId", str)  # 64 hex digits
RunId = NewType("RunId", str)

RepositoryRef = tuple[RepositoryName, RefName]  # one ref of one repository
FileKey = tuple[RepositoryName, str]  # one file of a repository: its name and the file's path

Vector = npt.NDArray[np.float32]  # (dim,), unit length
Vectors = npt.NDArray[np.float32]  # (n, dim), unit length; a zero row says "no text to embed"

#: The ref a caller means by naming none: whatever the repository's default ref is.
DEFAULT_REF = RefName("HEAD")


class Kind(StrEnum):
    """What a symbol is, and what a chunk mainly defines."""

    FUNCTION = "function"
    METHOD = "method"
    CLASS = "class"
    INTERFACE = "interface"
    STRUCT = "struct"
    ENUM = "enum"
    TRAIT = "trait"
    TYPE = "type"
    MODULE = "module"
    CONSTANT = "constant"
    MACRO = "macro"
    BLOCK = "block"  # of infrastructure; of a chunk also: code that defines no symbol
    TEXT = "text"  # prose or a file without a grammar; chunks only


class Category(StrEnum):
    """What a file is for."""

    SOURCE = "source"
    TEST = "test"
    VENDORED = "vendored"
    GENERATED = "generated"
    DOCS = "docs"
    CONFIGURATION = "configuration"


class HealthStatus(StrEnum):
    OK = "ok"  # the grammar read the whole file
    PARTIAL = "partial"  # the grammar left errors; chunks are complete all the same
    ERROR = "error"  # parsing failed; the file was chunked as text
    UNSUPPORTED = "unsupported"  # no grammar for it; chunked as text


class FileState(StrEnum):
    PENDING = "pending"
    INDEXED = "indexed"
    SKIPPED = "skipped"
    FAILED = "failed"

    @property
    def is_left_out(self) -> bool:
        return self in (FileState.SKIPPED, FileState.FAILED)


class RunState(StrEnum):
    QUEUED = "queued"  # waits for an earlier run of the same repository
    PULLING = "pulling"
    INDEXING = "indexing"
    COMPLETE = "complete"
    FAILED = "failed"
    CANCELLED = "cancelled"

    @property
    def is_over(self) -> bool:
        return self in (RunState.COMPLETE, RunState.FAILED, RunState.CANCELLED)


class Reprocess(StrEnum):
    """Files that a run takes as changed although their content is indexed or was tried."""

    FAILED = "failed"  # those whose last attempt failed
    SUMMARIES = "summaries"  # those that a language model has not described completely


class EdgeKind(StrEnum):
    IMPORTS = "imports"
    CALLS = "calls"
    INHERITS = "inherits"
    TESTS = "tests"


class Match(StrEnum):
    """Which side of the hybrid index found a hit."""

    SEMANTIC = "semantic"
    KEYWORD = "keyword"
    BOTH = "both"


@dataclass(frozen=True, slots=True)
class FilePatterns:
    """Which files of a repository its operator wants, as lines of gitignore(5).

    They are kept outside of the repository and go before its own ignore files.
    """

    include: tuple[str, ...] = ()  # only files that match one of them; none: all
    exclude: tuple[str, ...] = ()  # left out; what `!pattern` matches is not

    @property
    def digest(self) -> str:
        """16 hex digits that tell these patterns from others; empty without any."""
        if not self.include and not self.exclude:
            return ""
        lines = "\n".join((*self.include, "", *self.exclude))
        return hashlib.sha256(lines.encode()).hexdigest()[:16]


#: What a repository has that nobody gave patterns.
ALL_FILES = FilePatterns()


@dataclass(frozen=True, slots=True)
class Repository:
    """A repository as it was registered. `url` never holds credentials."""

    name: RepositoryName
    url: str
    default_ref: RefName = RefName("")  # branch or tag; empty until the first pull resolved it
    patterns: FilePatterns = ALL_FILES


@dataclass(frozen=True, slots=True)
class LanguageHealth:
    """How many indexed files of a language the grammar could read, and how well."""

    language: str
    ok: int = 0
    partial: int = 0
    error: int = 0
    unsupported: int = 0

    @property
    def files(self) -> int:
        return self.ok + self.partial + self.error + self.unsupported

    def __add__(self, other: LanguageHealth) -> LanguageHealth:
        """Of both together; they are of one language."""
        return LanguageHealth(
            self.language,
            self.ok + other.ok,
            self.partial + other.partial,
            self.error + other.error,
            self.unsupported + other.unsupported,
        )


@dataclass(frozen=True, slots=True)
class RefStatus:
    """What of one ref of a repository is in the index."""

    ref: RefName
    indexed: Revision | None  # None: no run has completed yet
    fingerprint: str  # versions of parser, embedder and schema that wrote it
    is_clean: bool = True  # False: a run changed files since and did not complete
    files: int = 0
    skipped: int = 0
    failed: int = 0
    pending: int = 0  # files to index, as they are now, or to remove
    chunks: int = 0
    indexed_at: float = 0.0
    summaries_missing: int = 0  # those that chunks and files should have and do not
    health: tuple[LanguageHealth, ...] = ()  # by language
    patterns: str = ""  # digest of the patterns that chose its files


@dataclass(frozen=True, slots=True)
class SourceFile:
    """One file of one commit, as git lists it."""

    path: str
    blob: BlobId
    size_bytes: int
    mode: int = 0o100644


@dataclass(frozen=True, slots=True)
class FileHealth:
    status: HealthStatus
    errors: int = 0  # syntax errors the grammar reported
    detail: str = ""  # e.g. "decoded as latin-1"


@dataclass(frozen=True, slots=True)
class Symbol:
    """A definition, from the whole file's tree."""

    name: str
    qualified_name: str  # parents joined by ".": `Outer.Inner.method`
    kind: Kind
    signature: str  # one line, at most 200 characters
    start_line: int
    end_line: int
    is_exported: bool
    doc: str = ""  # first line of its documentation


@dataclass(frozen=True, slots=True)
class Import:
    """One import as written, before it is resolved to a file."""

    module: str  # `os.path`, `./util`, `github.com/x/y`, `crate::a::b`, `<vector>`, `"a/b.h"`
    line: int
    names: tuple[str, ...] = ()
    renamed: tuple[tuple[str, str], ...] = ()  # the file's own name, the imported one or `*`


class ReferenceKind(StrEnum):
    """How a name is used. The vocabulary of tree-sitter tags, with members told apart."""

    CALL = "call"  # `load()`
    MEMBER = "member"  # `store.load()`
    CLASS = "class"  # `new Client()`
    IMPLEMENTATION = "implementation"  # `class Client(Base)`
    DEFAULT = "default"  # `export default load`: what others import under a name of their own


@dataclass(frozen=True, slots=True)
class Reference:
    """A use of a name that is defined here or elsewhere; once for each name and kind of a file.

    The name is that of the definition. Where an import gives it another one in this file, or gives
    one to what it is a member of, `written` says how it stands there: `read`, `np.load`.
    """

    name: str
    kind: ReferenceKind
    written: str = ""


@dataclass(frozen=True, slots=True)
class Piece:
    """A chunk before it has a place: depends on content and language only, never on the path."""

    start_line: int
    end_line: int
    start_byte: int  # offsets in the file's bytes; the pieces of a file partition it
    end_byte: int
    content: str  # the decoded text of exactly this range
    kind: Kind
    symbol: str = ""  # qualified name of what it mainly defines
    symbols: tuple[str, ...] = ()  # names of all it defines
    header: str = ""  # signature lines of its parents: `class Foo › def bar`
    block_type: str = ""  # of infrastructure: `resource`, `job`, `service`, `stage`, `Deployment`
    overlap: int = 0  # characters at the end of the piece before that are indexed with this one


@dataclass(frozen=True, slots=True)
class ParsedFile:
    """What parsing derives from one content in one language."""

    language: str
    category: Category
    health: FileHealth
    pieces: tuple[Piece, ...]
    symbols: tuple[Symbol, ...] = ()
    imports: tuple[Import, ...] = ()
    references: tuple[Reference, ...] = ()


@dataclass(frozen=True, slots=True)
class Summaries:
    """What a language model says of a file: one sentence each, empty where there is none."""

    chunks: tuple[str, ...] = ()  # in the order of `locate`, or none at all
    file: str = ""
    missing: int = 0  # those that it should have, and may get when they are asked for again

    @property
    def made(self) -> int:
        return sum(map(bool, (*self.chunks, self.file)))


NO_SUMMARIES = Summaries()


class Chunk(NamedTuple):
    """A piece at its place in a repository: the unit of the index.

    A tuple because a search makes hundreds: a frozen dataclass takes eight times as long.
    """

    id: ChunkId
    repository: RepositoryName
    path: str
    refs: tuple[RefName, ...]  # refs that hold this content at this path, DEFAULT_REF among them
    language: str
    category: Category
    kind: Kind
    symbol: str
    symbols: tuple[str, ...]
    header: str
    start_line: int
    end_line: int
    content: str
    summary: str = ""  # one sentence in plain words, by a language model; empty: none was made
    block_type: str = ""  # of infrastructure: `resource`, `job`, `service`, `stage`, `Deployment`
    overlap: str = ""  # what stands right before it, where it begins inside something; indexed only
    file_summary: str = ""  # of its whole file, like `summary`; only the first chunk has it


@dataclass(frozen=True, slots=True)
class FileChunks:
    """All chunks of one file at one ref, with their vectors; no chunks: the file left the ref."""

    repository: RepositoryName
    path: str
    refs: tuple[RefName, ...]  # the ref being indexed, and DEFAULT_REF when it is the default
    chunks: tuple[Chunk, ...] = ()
    vectors: Vectors = field(default_factory=lambda: np.zeros((0, 0), np.float32))


@dataclass(frozen=True, slots=True)
class Edge:
    """A dependency between files of one repository, or from a file to something outside."""

    source: str  # path
    target: str  # path, or the external name when `is_external`
    kind: EdgeKind
    is_external: bool = False


@dataclass(frozen=True, slots=True)
class LocatedSymbol:
    """A symbol in its file."""

    repository: RepositoryName
    path: str
    symbol: Symbol


@dataclass(frozen=True, slots=True)
class FileRecord:
    """What the ledger knows of one file of one ref."""

    path: str
    blob: BlobId
    state: FileState
    reason: str = ""  # why it was skipped or failed; of an indexed one, what is wrong with it
    language: str = ""
    health: HealthStatus | None = None
    chunks: int = 0  # in the index; also when doing the same content once more failed
    summaries: int = 0  # of its chunks and of itself
    summaries_missing: int = 0  # those it should have besides
    is_due: bool = False  # indexed with just this content, and planned to be done once more


@dataclass(frozen=True, slots=True)
class Run:
    """One indexing of one ref. The counters are files; at the end done + failed == total.

    A file that is left out when it was read leaves the total and is among the skipped ones.
    """

    id: RunId
    repository: RepositoryName
    ref: RefName  # as asked for; DEFAULT_REF when the caller named none
    state: RunState
    revision: Revision | None = None  # the commit that will be indexed, once resolved
    resolved: RefName = RefName("")  # the branch, tag or commit `ref` turned out to be
    total: int = 0  # files to index or to remove
    done: int = 0
    failed: int = 0
    skipped: int = 0  # files left out with a recorded reason
    error: str = ""  # why the run failed
    waits_for: str = ""  # why work was put off; empty: a file has come through since
    summaries: int = 0  # of the chunks and files that were stored
    summaries_missing: int = 0  # those they should have besides
    reprocess: tuple[Reprocess, ...] = ()
    started_at: float = 0.0
    finished_at: float = 0.0


@dataclass(frozen=True, slots=True)
class Filters:
    """What a search is limited to. Empty means all; values inside one field are alternatives."""

    repositories: tuple[RepositoryName, ...] = ()
    languages: tuple[str, ...] = ()
    paths: tuple[str, ...] = ()  # globs over the whole path: `src/**/*.py`
    kinds: tuple[Kind, ...] = ()
    symbols: tuple[str, ...] = ()  # globs over names and qualified names: `User*`
    categories: tuple[Category, ...] = ()
    block_types: tuple[str, ...] = ()  # of infrastructure, as written: `resource`, `Deployment`
    ref: RefName = DEFAULT_REF


@dataclass(frozen=True, slots=True)
class HybridQuery:
    """What a chunk store is asked: words and a vector, under one filter."""

    text: str  # as the caller wrote it; the backend splits it with `tokens.terms`
    vector: Vector | None  # None: keywords only
    filters: Filters
    limit: int  # candidates wanted from each side; of both, where a store fuses them to one list
    alpha: float = 0.5  # what the vector side counts there, 0 to 1: it decides what is cut off
    with_vectors: bool = False  # candidates are wanted with their vectors
    total_limit: int | None = None  # candidates wanted of both sides together; None: all
    secondary: frozenset[Category] = frozenset()  # these stand back when the most are chosen
    visible: Visibility = field(
        kw_only=True
    )  # outer bound of the repositories, whatever is filtered

    def bounded(self) -> HybridQuery | None:
        """The query whose filters name no more than the visible repositories.

        None: no repository that it may read is left. Stores call this before they filter.
        """
        if self.visible.is_everything:
            return self
        visible = self.visible.among(self.filters.repositories)
        return (
            replace(self, filters=replace(self.filters, repositories=visible)) if visible else None
        )


class Candidate(NamedTuple):
    """A chunk one or both sides of the hybrid index found. Higher scores are better."""

    chunk: Chunk
    keyword_score: float | None  # BM25; None: not among the keyword side's candidates
    similarity: float | None  # cosine in [-1, 1]; None: not among the vector side's candidates
    vector: Vector | None = None  # the chunk's, when it was asked for
    names: Names | None = None  # where the store keeps them


@dataclass(frozen=True, slots=True)
class Hit:
    """A ranked chunk."""

    chunk: Chunk
    score: float
    match: Match
    explain: tuple[tuple[str, float], ...] = ()  # ("rank.boost.definition", 2.0), in order


def path_from_bytes(raw: bytes) -> str:
    """`b"src/a.py"` → `"src/a.py"`; bytes that are not UTF-8 become `\\xNN`."""
    return raw.decode("utf-8", "backslashreplace")


def chunk_id(
    repository: str,
    path: str,
    start_line: int,
    content: str,
    ordinal: int = 0,
    file_summary: str = "",
) -> ChunkId:
    """SHA-256 of repository, path, start line and content, in hex.

    `ordinal` tells apart equal contents that start on one line (a minified file cut in pieces),
    `file_summary` those that begin two files: one path at two refs, whose later chunks differ.
    """
    parts = [repository, path, str(start_line), content, str(ordinal) if ordinal else ""]
    if file_summary:
        parts.append(file_summary)
    return ChunkId(hashlib.sha256("\0".join(parts).encode("utf-8", "replace")).hexdigest())


def locate(
    parsed: ParsedFile,
    *,
    repository: RepositoryName,
    path: str,
    refs: Iterable[RefName],
    summaries: Summaries = NO_SUMMARIES,
) -> tuple[Chunk, ...]:
    """The chunks of a parsed file at its place, in file order, with distinct ids."""
    refs = tuple(sorted(refs))
    seen: dict[tuple[int, str], int] = {}
    chunks: list[Chunk] = []
    before = ""
    for piece in parsed.pieces:
        overlap = before[len(before) - piece.overlap :]
        before = piece.content
        if not piece.content.strip():
            continue
        key = (piece.start_line, piece.content)
        ordinal = seen.get(key, 0)
        seen[key] = ordinal + 1
        of_file = "" if chunks else summaries.file
        chunks.append(
            Chunk(
                id=chunk_id(repository, path, *key, ordinal, of_file),
                repository=repository,
                path=path,
                refs=refs,
                language=parsed.language,
                category=parsed.category,
                kind=piece.kind,
                symbol=piece.symbol,
                symbols=piece.symbols,
                header=piece.header,
                start_line=piece.start_line,
                end_line=piece.end_line,
                content=piece.content,
                summary=summaries.chunks[len(chunks)] if summaries.chunks else "",
                block_type=piece.block_type,
                overlap=overlap,
                file_summary=of_file,
            )
        )
    return tuple(chunks)


def embedding_text(chunk: Chunk) -> str:
    """The text of a chunk that is embedded: path, parents' header, summary, then the code, with
    what it goes on from.
    """
    parts = (chunk.path, chunk.header, chunk.summary, chunk.overlap + chunk.content)
    return "\n".join(part for part in parts if part)
