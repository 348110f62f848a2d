"""Define the requests of the service functions: unchecked plain values that every face fills in.

None, empty texts, and empty sequences mean "not given", as does a `page_size` or a `line` of 0.
Fields are named as in the protos, so that an InvalidQuery names the same field for every face.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields


@dataclass(frozen=True, slots=True)
class GivenFilters:
    """Limits of a search. Values inside one field are alternatives.

    `!` before a repository, a language, or a path excludes it, like the fields `not_…`.
    """

    repositories: Sequence[str] = ()
    languages: Sequence[str] = ()
    paths: Sequence[str] = ()
    kinds: Sequence[str] = ()
    symbols: Sequence[str] = ()
    categories: Sequence[str] = ()
    block_types: Sequence[str] = ()
    ref: str = ""
    not_repositories: Sequence[str] = ()
    not_languages: Sequence[str] = ()
    not_paths: Sequence[str] = ()
    scope: str = ""

    @property
    def is_empty(self) -> bool:
        return not any(getattr(self, one.name) for one in fields(self))


NO_FILTERS = GivenFilters()


@dataclass(frozen=True, slots=True)
class GivenOptions:
    """A preset, and the options that the request sets, by name: `retrieve.window`."""

    preset: str = ""
    values: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class SearchRequest:
    """The request of a search or a context: a question in words, a name, or a code snippet."""

    query: str
    filters: GivenFilters = NO_FILTERS
    top_k: int | None = None
    explain: bool = False
    skip_cache: bool = False
    options: GivenOptions = field(default_factory=GivenOptions)
    page_token: str = ""
    facets: bool = False  # count the values of filters, for the web page


@dataclass(frozen=True, slots=True)
class SimilarRequest:
    """A snippet, or a line of an indexed file, to find similar code for."""

    snippet: str = ""
    repository: str = ""
    path: str = ""
    line: int = 0
    ref: str = ""
    filters: GivenFilters = NO_FILTERS
    top_k: int | None = None


@dataclass(frozen=True, slots=True)
class ReadRequest:
    """Lines of an indexed file. An `end_line` of 0 is the last line."""

    path: str
    repository: str = ""
    ref: str = ""
    start_line: int = 0
    end_line: int = 0


@dataclass(frozen=True, slots=True)
class GrepRequest:
    """A pattern to find exactly: a regular expression of RE2, or with `literal`, a plain text."""

    pattern: str
    filters: GivenFilters = NO_FILTERS
    literal: bool = False
    ignore_case: bool = False
    whole_word: bool = False
    multiline: bool = False  # a match may contain line breaks
    before_lines: int = 0
    after_lines: int = 0
    limit: int | None = None  # of matching lines
    limit_per_file: int = 0  # of matching lines per file; 0: no limit
    without_lines: bool = False  # only count the matching lines


@dataclass(frozen=True, slots=True)
class SymbolsRequest:
    """A glob over names whose definitions to list; with `literal`, a name or a position of it."""

    name: str
    filters: GivenFilters = NO_FILTERS
    literal: bool = False
    limit: int | None = None


@dataclass(frozen=True, slots=True)
class ReferencesRequest:
    """A name, perhaps qualified, or a position of it, whose uses to list."""

    name: str
    filters: GivenFilters = NO_FILTERS  # where to look for uses
    limit: int | None = None


@dataclass(frozen=True, slots=True)
class FilesRequest:
    """A folder of a repository; an empty path is the root."""

    repository: str = ""
    ref: str = ""
    path: str = ""
    page_size: int = 0
    page_token: str = ""


@dataclass(frozen=True, slots=True)
class ExplainRequest:
    """A path, or the name of a symbol, to describe."""

    subject: str
    repository: str = ""
    ref: str = ""


@dataclass(frozen=True, slots=True)
class GraphRequest:
    """A path, or the name of a symbol, whose dependencies to follow.

    Without a subject, those of the whole repository.
    """

    subject: str = ""
    repository: str = ""
    ref: str = ""
    relations: Sequence[str] = ()
    depth: int | None = None
    limit: int | None = None
    reverse: bool = False


@dataclass(frozen=True, slots=True)
class RegisterRequest:
    """A repository to register, with the patterns that choose its files."""

    url: str
    name: str = ""
    label: str = ""  # empty: unchanged
    include: Sequence[str] | None = None  # None: unchanged
    exclude: Sequence[str] | None = None


@dataclass(frozen=True, slots=True)
class StartRequest(RegisterRequest):
    """A repository to index at a ref; it is registered first if necessary."""

    ref: str = ""
    plan_only: bool = False  # see the proto


@dataclass(frozen=True, slots=True)
class FailuresRequest:
    """A selection of the files that are missing from the index or only partly indexed."""

    repository: str = ""
    include_skipped: bool = False
    include_partial: bool = False
    page_size: int = 0
    page_token: str = ""


@dataclass(frozen=True, slots=True)
class MapRequest:
    """The repositories of a map."""

    repositories: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class MapPlacesRequest(MapRequest):
    """Points of a map, numbered from 0."""

    points: Sequence[int] = ()


@dataclass(frozen=True, slots=True)
class CreateKeyRequest:
    """An API key to create."""

    name: str
    role: str
    repositories: Sequence[str] = ()
    expires_in_s: float = 0.0  # 0: never


@dataclass(frozen=True, slots=True)
class PushedRef:
    """A branch or tag that was pushed or deleted."""

    name: str
    is_deletion: bool = False
    brings_ref: bool = False  # whether it is new, and the rules of the connection name it
    is_default: bool = False  # whether it is the default branch at the host


@dataclass(frozen=True, slots=True)
class HostEvent:
    """An event that a code host reports about one of its repositories."""

    connection: str
    principal: str  # the principal of the connection
    prefix: str  # of the addresses of its repositories
    delivery: str  # id; empty: the host gave none
    urls: Sequence[str] = ()  # of the repository, in all its spellings
    refs: Sequence[PushedRef] = ()
    changes_rights: bool = False  # whether rights to read may have changed
    changes_repositories: bool = False  # whether one was created, changed, or deleted
    may_be_first: bool = False  # whether the repository may have been empty before the push
