"""The vocabulary: every value that is passed between folders.

All types are frozen, and collections inside them are tuples. Lines are 1-based and inclusive,
bytes are 0-based and half-open, ranks are 1-based, times are seconds since the epoch. Paths are
repository paths with `/`. In a path that is not valid UTF-8, invalid bytes are written as `\\xNN`
(`path_from_bytes`), because stores and protos carry text only. A path is a label: content is read
by blob id, never by joining a path to a folder.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple, NewType

from codelode.access import Label, Visibility
from codelode.covers import Groups
from codelode.estimates import Estimate
from codelode.grams import Grams
from codelode.names import Names

if TYPE_CHECKING:
    from codelode.vectors import Vector, Vectors

RepositoryName = NewType("RepositoryName", str)
RefName = NewType("RefName", str)
Revision = NewType("Revision", str)  # 40 hex digits: a commit
BlobId = NewType("BlobId", str)  # 40 hex digits: git's id of a file's content
ChunkId = NewType("ChunkId", str)  # 64 hex digits
RunId = NewType("RunId", str)

RepositoryRef = tuple[RepositoryName, RefName]  # one ref of one repository
FileKey = tuple[RepositoryName, str]  # one file of a repository: repository name and path

#: The ref of a caller that names none: the default ref of the repository.
DEFAULT_REF = RefName("HEAD")

#: The ref of a checkout's files with their uncommitted changes, and the prefix of such refs in git,
#: which keeps refs with this prefix for each linked work tree separately.
WORKING_COPY = RefName("worktree")
WORKING_COPIES = "refs/worktree/codelode/"


class Kind(StrEnum):
    """The kind of a symbol, or of the main definition in a chunk."""

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
    BLOCK = "block"  # a block of infrastructure code; for a chunk also: code without a definition
    TEXT = "text"  # prose, or a file without a grammar; chunks only


class Category(StrEnum):
    """The purpose of a file."""

    SOURCE = "source"
    TEST = "test"
    VENDORED = "vendored"
    GENERATED = "generated"
    DOCS = "docs"
    CONFIGURATION = "configuration"


class HealthStatus(StrEnum):
    OK = "ok"  # the grammar read the whole file
    PARTIAL = "partial"  # the tree has syntax errors; the chunks still cover the whole file
    ERROR = "error"  # too large for its grammar; chunked as text
    UNSUPPORTED = "unsupported"  # there is no grammar for the language; chunked as text


class FileState(StrEnum):
    PENDING = "pending"
    INDEXED = "indexed"
    SKIPPED = "skipped"
    FAILED = "failed"

    @property
    def is_left_out(self) -> bool:
        return self in (FileState.SKIPPED, FileState.FAILED)


class RunState(StrEnum):
    QUEUED = "queued"  # waiting for an earlier run of the same repository
    PULLING = "pulling"
    INDEXING = "indexing"
    COMPLETE = "complete"
    PLANNED = "planned"  # nothing was indexed; the run has an estimate
    FAILED = "failed"
    CANCELLED = "cancelled"

    @property
    def is_over(self) -> bool:
        return self not in (RunState.QUEUED, RunState.PULLING, RunState.INDEXING)


class RunKind(StrEnum):
    """The purpose of a run."""

    INDEX = "index"
    PLAN = "plan"  # it ends with an estimate
    TRIAL = "trial"  # likewise; its repository was registered only for this run


class Reprocess(StrEnum):
    """Files that a run reprocesses although their content has not changed."""

    FAILED = "failed"  # files whose last attempt failed
    SUMMARIES = "summaries"  # files that lack summaries
    GROUPS = "groups"  # all files, because the repository has new groups; alone, without a pull
    DEFAULT = "default"  # files without the mark of the default ref, when the ref becomes it


class EdgeKind(StrEnum):
    IMPORTS = "imports"
    TESTS = "tests"


class Match(StrEnum):
    """The part of the hybrid search that found a hit: vectors, keywords (BM25), or both."""

    SEMANTIC = "semantic"
    KEYWORD = "keyword"
    BOTH = "both"


@dataclass(frozen=True, slots=True)
class FilePatterns:
    """Patterns of the operator that select files of a repository, as lines of gitignore(5).

    They are stored outside the repository and take precedence over its own ignore files.
    """

    include: tuple[str, ...] = ()  # index only files that match one of these; empty: all files
    exclude: tuple[str, ...] = ()  # skip files that match; `!pattern` makes an exception

    @property
    def digest(self) -> str:
        """Return 16 hex digits that identify the patterns; empty if there are none."""
        if not self.include and not self.exclude:
            return ""
        lines = "\n".join((*self.include, "", *self.exclude))
        return hashlib.sha256(lines.encode()).hexdigest()[:16]


#: The patterns of a repository for which the operator set none.
ALL_FILES = FilePatterns()


@dataclass(frozen=True, slots=True)
class Repository:
    """A registered repository. `url` never holds credentials."""

    name: RepositoryName
    url: str
    default_ref: RefName = RefName("")  # branch or tag; empty until the first pull resolved it
    patterns: FilePatterns = ALL_FILES
    is_pinned: bool = False  # False: the default ref is only the one that was indexed first
    follows_default: bool = False  # only if pinned: it follows the default branch of the source
    label: Label | None = None  # None: admins alone see it


@dataclass(frozen=True, slots=True)
class LanguageHealth:
    """The number of indexed files of a language, by how well the grammar could parse them."""

    language: str
    ok: int = 0
    partial: int = 0
    error: int = 0
    unsupported: int = 0

    @property
    def files(self) -> int:
        return self.ok + self.partial + self.error + self.unsupported

    def __add__(self, other: LanguageHealth) -> LanguageHealth:
        """Add the counts of two parts of an index; both are of the same language."""
        return LanguageHealth(
            self.language,
            self.ok + other.ok,
            self.partial + other.partial,
            self.error + other.error,
            self.unsupported + other.unsupported,
        )


def by_language(parts: Iterable[LanguageHealth]) -> list[LanguageHealth]:
    """Sum parse results by language, most files first."""
    sums: dict[str, LanguageHealth] = {}
    for one in parts:
        sums[one.language] = one + sums.get(one.language, LanguageHealth(one.language))
    return sorted(sums.values(), key=lambda one: (-one.files, one.language))


@dataclass(frozen=True, slots=True)
class RefStatus:
    """The state of the index for one ref of a repository."""

    ref: RefName
    indexed: Revision | None  # None: no run has completed yet
    fingerprint: str  # versions of the parser, embedder, and schema that wrote it
    is_clean: bool = True  # False: a later run changed files and did not complete
    files: int = 0
    skipped: int = 0
    failed: int = 0
    pending: int = 0  # files still to be indexed or removed
    chunks: int = 0
    indexed_at: float = 0.0
    summaries_missing: int = 0  # chunks and files that lack their summary
    health: tuple[LanguageHealth, ...] = ()  # ordered by language
    patterns: str = ""  # digest of the patterns that selected its files
    committed_at: float = 0.0  # when the indexed commit was made; 0: not recorded

    @property
    def paths(self) -> int:
        """The number of files of the ref, in any state."""
        return self.files + self.skipped + self.failed + self.pending


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
    errors: int = 0  # syntax errors in the tree
    detail: str = ""  # e.g. "decoded as latin-1"


@dataclass(frozen=True, slots=True)
class Symbol:
    """A definition, found in the syntax tree of the whole file."""

    name: str
    qualified_name: str  # parents and name joined by ".": `Outer.Inner.method`
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
    renamed: tuple[tuple[str, str], ...] = ()  # (name in this file, imported name or `*`)


class ReferenceKind(StrEnum):
    """The way a name is used: the vocabulary of tree-sitter tags, with member access set apart."""

    CALL = "call"  # `load()`
    MEMBER = "member"  # `store.load()`
    OWN = "own"  # `self.load()`: a member of the object or class that the code belongs to
    CLASS = "class"  # `new Client()`
    IMPLEMENTATION = "implementation"  # `class Client(Base)`
    DEFAULT = "default"  # `export default load`: importers choose the name themselves


@dataclass(frozen=True, slots=True)
class Reference:
    """A use of a name in a file; each combination of name and kind is listed once per file.

    `name` is the name of the definition. If an import renames it, or the module that it is a member
    of, `written` is the text in this file: `read`, `np.load`. Comparisons leave out the lines.
    """

    name: str
    kind: ReferenceKind
    written: str = ""
    lines: tuple[int, ...] = field(default=(), compare=False)  # sorted; the first ones, if many


@dataclass(frozen=True, slots=True)
class Piece:
    """A chunk without its repository and path: it depends only on the content and the language."""

    start_line: int
    end_line: int
    start_byte: int  # offsets in the file's bytes; the pieces of a file partition it
    end_byte: int
    content: str  # the decoded text of exactly this range
    kind: Kind
    symbol: str = ""  # qualified name of the main definition
    symbols: tuple[str, ...] = ()  # names of all definitions
    header: str = ""  # signature lines of the enclosing definitions: `class Foo › def bar`
    block_type: str = ""  # type of infrastructure block: `resource`, `job`, `service`, `Deployment`
    overlap: int = 0  # characters from the end of the previous piece, indexed with this one
    definitions: str = ""  # where `symbol` and `symbols` are defined: `codelode.definitions`


@dataclass(frozen=True, slots=True)
class ParsedFile:
    """The result of parsing one content in one language."""

    language: str
    category: Category
    health: FileHealth
    pieces: tuple[Piece, ...]
    symbols: tuple[Symbol, ...] = ()
    imports: tuple[Import, ...] = ()
    references: tuple[Reference, ...] = ()


@dataclass(frozen=True, slots=True)
class Summaries:
    """The summaries of a file by a language model: one sentence each; empty: there is none."""

    chunks: tuple[str, ...] = ()  # one per chunk, in the order of `locate`; or none at all
    file: str = ""
    missing: int = 0  # summaries that could not be made, and may be made by a later run

    @property
    def made(self) -> int:
        return sum(map(bool, (*self.chunks, self.file)))


NO_SUMMARIES = Summaries()


class Chunk(NamedTuple):
    """A piece of a file in a repository: the unit of the index.

    A named tuple because a search creates hundreds: creating a frozen dataclass takes eight times
    as long.
    """

    id: ChunkId
    repository: RepositoryName
    path: str
    refs: tuple[RefName, ...]  # refs with this content at this path; may include DEFAULT_REF
    language: str
    category: Category
    kind: Kind
    symbol: str
    symbols: tuple[str, ...]
    header: str
    start_line: int
    end_line: int
    content: str
    summary: str = ""  # one sentence in plain words, by a language model; empty: there is none
    block_type: str = ""  # type of infrastructure block: `resource`, `job`, `service`, `Deployment`
    overlap: str = ""  # text right before a chunk that starts inside a definition; only indexed
    file_summary: str = ""  # summary of the whole file; only the first chunk has it
    definitions: str = ""  # where `symbol` and `symbols` are defined: `codelode.definitions`
    part: int = 0  # number of chunks of the file that start on the same line before it


def _no_vectors() -> Vectors:
    from codelode.vectors import no_vectors

    return no_vectors()


@dataclass(frozen=True, slots=True)
class FileChunks:
    """All chunks of one file at one ref, with their vectors; no chunks: the file was removed."""

    repository: RepositoryName
    path: str
    refs: tuple[RefName, ...]  # the ref being indexed, and DEFAULT_REF when it is the default
    chunks: tuple[Chunk, ...] = ()
    vectors: Vectors = field(default_factory=_no_vectors)
    groups: Groups = ()  # of the repository


@dataclass(frozen=True, slots=True)
class Edge:
    """A dependency between two files of a repository, or of a file on something outside it."""

    source: str  # path
    target: str  # path; the name of the dependency if `is_external`
    kind: EdgeKind
    is_external: bool = False


@dataclass(frozen=True, slots=True)
class LocatedSymbol:
    """A symbol and the file that defines it."""

    repository: RepositoryName
    path: str
    symbol: Symbol


@dataclass(frozen=True, slots=True)
class FileRecord:
    """The ledger's record of one file at one ref."""

    path: str
    blob: BlobId
    state: FileState
    reason: str = ""  # why it was skipped or failed; for an indexed file, a warning
    language: str = ""
    health: HealthStatus | None = None
    chunks: int = 0  # chunks in the index; they stay there if reprocessing the content fails
    summaries: int = 0  # summaries of its chunks and of the file itself
    summaries_missing: int = 0  # summaries that could not be made
    is_due: bool = False  # this content is indexed, and a run is going to reprocess it


@dataclass(frozen=True, slots=True)
class Run:
    """One indexing run of one ref. The counters are files; at the end done + failed == total.

    A file that turns out to be unsuitable when it is read moves from the total to `skipped`.
    """

    id: RunId
    repository: RepositoryName
    ref: RefName  # as requested; DEFAULT_REF if the caller named none
    state: RunState
    revision: Revision | None = None  # the commit to be indexed, once resolved
    resolved: RefName = RefName("")  # the branch, tag, or commit that `ref` resolved to
    total: int = 0  # files to index or to remove
    done: int = 0
    failed: int = 0
    skipped: int = 0  # files left out with a recorded reason
    error: str = ""  # why the run failed
    waits_for: str = ""  # why work was postponed; empty again once a file is done
    summaries: int = 0  # summaries of the chunks and files that were stored
    summaries_missing: int = 0  # summaries that could not be made for them
    reprocess: tuple[Reprocess, ...] = ()
    notices: tuple[str, ...] = ()  # what the caller may not expect, such as another default ref
    started_at: float = 0.0
    finished_at: float = 0.0
    kind: RunKind = RunKind.INDEX
    estimate: Estimate | None = None  # of a run that was PLANNED
    is_bulk: bool = False  # once it is planned, it gives way to runs that are not bulk


@dataclass(frozen=True, slots=True)
class Filters:
    """The filters of a search. An empty field matches all; values of one field are alternatives.

    What one of the `not_` fields matches is left out, whatever the other fields say.
    """

    repositories: tuple[RepositoryName, ...] = ()
    languages: tuple[str, ...] = ()
    paths: tuple[str, ...] = ()  # globs over the whole path: `src/**/*.py`
    kinds: tuple[Kind, ...] = ()
    symbols: tuple[str, ...] = ()  # globs over names and qualified names: `User*`
    categories: tuple[Category, ...] = ()
    block_types: tuple[str, ...] = ()  # types of infrastructure blocks: `resource`, `Deployment`
    ref: RefName = DEFAULT_REF
    not_repositories: tuple[RepositoryName, ...] = ()
    not_languages: tuple[str, ...] = ()
    not_paths: tuple[str, ...] = ()  # globs, as in `paths`
    within: tuple[str, ...] = ()  # more globs: a path must match one of these and one of `paths`


@dataclass(frozen=True, slots=True)
class HybridQuery:
    """A query to a chunk store: words and a vector, under one filter."""

    text: str  # as the caller wrote it; the store splits it with `tokens.terms`
    vector: Vector | None  # None: search by keywords only
    filters: Filters
    limit: int  # keyword and vector candidates each; in total if the store fuses both lists itself
    alpha: float = 0.5  # weight of the vector part in a store that fuses, 0 to 1
    with_vectors: bool = False  # return the vectors of the candidates
    total_limit: int | None = None  # keyword and vector candidates together; None: all
    secondary: frozenset[Category] = frozenset()  # categories penalised by `total_limit`
    visible: Visibility = field(kw_only=True)  # outer bound of the repositories

    def bounded(self) -> HybridQuery | None:
        """Return the query limited to visible repositories; None if none of them is left.

        Stores call this before they filter.
        """

        if self.visible.is_everything:
            return self
        visible = self.visible.among(self.filters.repositories)
        return (
            replace(self, filters=replace(self.filters, repositories=visible)) if visible else None
        )


class FileText(NamedTuple):
    """The text of a file, put together from its chunks; lines that were not requested are blank."""

    language: str  # of its first chunk
    raw: bytes  # UTF-8, with `\n` as line break


@dataclass(frozen=True, slots=True)
class FileQuery:
    """A query to a chunk store for the files whose text, or a name in them, may match a pattern.

    Filters by kind, symbol, and block type are ignored, because they do not apply to whole files.
    """

    grams: Grams  # the text of each file must have them; NOTHING with `defines`
    filters: Filters
    defines: tuple[str, ...] = ()  # globs; a chunk of each file must define a name that matches one
    visible: Visibility = field(kw_only=True)  # outer bound of the repositories

    def bounded(self) -> FileQuery | None:
        """Return the query with only the filters of files, limited to visible repositories.

        None if no repository is left. Stores call this before they filter.
        """
        of_files = replace(self.filters, kinds=(), symbols=self.defines, block_types=())
        visible = self.visible.among(of_files.repositories)
        if visible is None:
            return replace(self, filters=of_files)
        if not visible:
            return None
        return replace(self, filters=replace(of_files, repositories=visible))


class Candidate(NamedTuple):
    """A chunk found by keywords, by its vector, or by both. Higher scores are better."""

    chunk: Chunk
    keyword_score: float | None  # BM25; None: not among the keyword results
    similarity: float | None  # cosine in [-1, 1]; None: not among the vector results
    vector: Vector | None = None  # the chunk's vector, if the query asked for it
    names: Names | None = None  # normalised symbol names, if the store keeps them


@dataclass(frozen=True, slots=True)
class Hit:
    """A ranked chunk."""

    chunk: Chunk
    score: float
    match: Match
    line: int = 0  # where its symbol is defined; 0: unknown
    keyword_score: float | None = None  # of the candidate, as is `similarity`
    similarity: float | None = None
    explain: tuple[tuple[str, float], ...] = ()  # ("rank.boost.definition", 2.0), in order


def path_from_bytes(raw: bytes) -> str:
    """Decode a path: `b"src/a.py"` → `"src/a.py"`; bytes that are not UTF-8 become `\\xNN`."""
    return raw.decode("utf-8", "backslashreplace")


def chunk_id(
    repository: str,
    path: str,
    start_line: int,
    content: str,
    ordinal: int = 0,
    version: str = "",
) -> ChunkId:
    """Return the SHA-256 of repository, path, start line, and content, in hex.

    `ordinal` distinguishes equal contents that start on the same line (pieces of a minified file).
    `version` distinguishes chunks with equal texts in two versions of a file at the same path. For
    the first chunk, it identifies the text and the summary of the whole file; for a chunk that
    continues a definition, it is the place of that definition.
    """
    parts = [repository, path, str(start_line), content, str(ordinal) if ordinal else ""]
    if version:
        parts.append(version)
    return ChunkId(hashlib.sha256("\0".join(parts).encode("utf-8", "replace")).hexdigest())


def locate(
    parsed: ParsedFile,
    *,
    repository: RepositoryName,
    path: str,
    refs: Iterable[RefName],
    summaries: Summaries = NO_SUMMARIES,
) -> tuple[Chunk, ...]:
    """Return the chunks of a parsed file in a repository, in file order, with distinct ids."""
    refs = tuple(sorted(refs))
    seen: dict[tuple[int, str], int] = {}
    parts: Counter[int] = Counter()  # by start line
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
        version = _continued(piece) if chunks else f"{_digest(parsed)} {of_file}"
        chunks.append(
            Chunk(
                id=chunk_id(repository, path, *key, ordinal, version),
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
                definitions=piece.definitions,
                part=parts[piece.start_line],
            )
        )
        parts[piece.start_line] += 1
    return tuple(chunks)


def _digest(parsed: ParsedFile) -> str:
    """Return 32 hex digits that identify the text of the file."""
    made = hashlib.sha256()
    for piece in parsed.pieces:
        made.update(piece.content.encode("utf-8", "replace"))
    return made.hexdigest()[:32]


def _continued(piece: Piece) -> str:
    """Return the place of the definition that begins before the piece; empty if none does."""
    return piece.definitions if piece.definitions.startswith("-") else ""


def embedding_text(chunk: Chunk) -> str:
    """Return the text of a chunk to embed: path, header, summary, overlap, and code."""

    parts = (chunk.path, chunk.header, chunk.summary, chunk.overlap + chunk.content)
    return "\n".join(part for part in parts if part)
