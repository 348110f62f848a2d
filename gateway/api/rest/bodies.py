"""Define the JSON bodies of requests. Each converts itself to a request of the service layer.

Fields are named as in the service layer, so that an error names the same field for every face. The
service layer checks values; here only JSON types are checked, strictly: `"5"` is not a number.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict, Field
from pydantic_core import PydanticCustomError

from gateway.service import requests

#: Whole numbers with the range of the gRPC API, which exceeds all limits of the service layer.
Whole = Annotated[int, Field(ge=-(2**31), le=2**31 - 1)]


def _valid(text: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError as exc:
        raise PydanticCustomError("unicode", "Input should be valid Unicode") from exc
    return text


#: JSON can encode a lone surrogate, as in `"\\ud800"`, which no store and no other face accepts.
Text = Annotated[str, AfterValidator(_valid)]
Option = bool | Whole | float | Text


class Body(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class Filters(Body):
    """Filters say where to search.

    Values of one field are alternatives; `!` before a value excludes it.
    """

    repositories: list[Text] = Field(default=[], description="Names of repositories.")
    languages: list[Text] = Field(default=[], description="Languages, such as `python`.")
    paths: list[Text] = Field(default=[], description="Globs of paths, such as `src/**`.")
    kinds: list[Text] = Field(default=[], description="Kinds of symbols, such as `function`.")
    symbols: list[Text] = Field(default=[], description="Globs of names of symbols.")
    categories: list[Text] = Field(default=[], description="Categories of files, such as `source`.")
    block_types: list[Text] = Field(default=[], description="Types of infrastructure blocks.")
    ref: Text = Field(
        default="", description="Branch, tag, or commit; empty: the default ref of each."
    )
    not_repositories: list[Text] = Field(default=[], description="Repositories to leave out.")
    not_languages: list[Text] = Field(default=[], description="Languages to leave out.")
    not_paths: list[Text] = Field(default=[], description="Globs of paths to leave out.")
    scope: Text = Field(
        default="", description="Name of a scope; the other filters limit it further."
    )

    def given(self) -> requests.GivenFilters:
        return requests.GivenFilters(**dict(self))


class Options(Body):
    """Options of the stages of a search; docs/ranking.md describes each."""

    preset: Text = Field(default="", description="`fast`, `balanced` (the default), or `thorough`.")
    analyze: dict[Text, Option] = Field(default={}, description="Options of the query analysis.")
    retrieve: dict[Text, Option] = Field(
        default={}, description='Options of the retrieval, such as `{"window": 100}`.'
    )
    rank: dict[Text, Option] = Field(default={}, description="Options of the ranking.")
    expand: dict[Text, Option] = Field(default={}, description="Options of related code.")
    assemble: dict[Text, Option] = Field(default={}, description="Options of the answer's size.")

    def given(self) -> requests.GivenOptions:
        stages = {name: values for name, values in self if name != "preset"}
        return requests.GivenOptions(
            self.preset,
            {
                f"{stage}.{name}": one
                for stage, values in stages.items()
                for name, one in values.items()
            },
        )


class SearchBody(Body):
    query: Text = Field(
        description="A question, a name, or code; may have filters, such as `lang:go`."
    )
    filters: Filters = Filters()
    top_k: Whole | None = Field(default=None, description="Number of hits, at most 200.")
    explain: bool = Field(default=False, description="Whether hits list the parts of their scores.")
    skip_cache: bool = Field(
        default=False, description="Whether to search even if an answer is cached."
    )
    options: Options = Options()
    page_token: Text = Field(default="", description="`next_page_token` of the previous page.")

    def given(self) -> requests.SearchRequest:
        values = dict(self) | {"filters": self.filters.given(), "options": self.options.given()}
        return requests.SearchRequest(**values)


class SimilarBody(Body):
    snippet: Text = Field(
        default="", description="Code to find similar code for; or give a path and line."
    )
    repository: Text = Field(default="", description="Repository of the path.")
    path: Text = Field(default="", description="Path of an indexed file.")
    line: Whole = Field(default=0, description="Line in it, 1-based.")
    ref: Text = Field(default="", description="Ref of the file; empty: the default one.")
    filters: Filters = Filters()
    top_k: Whole | None = Field(default=None, description="Number of hits, at most 200.")

    def given(self) -> requests.SimilarRequest:
        return requests.SimilarRequest(**dict(self) | {"filters": self.filters.given()})


class GrepBody(Body):
    pattern: Text = Field(description="A regular expression of RE2; with `literal`, a plain text.")
    filters: Filters = Filters()
    literal: bool = Field(default=False, description="Whether the pattern is a plain text.")
    ignore_case: bool = Field(default=False, description="Whether case does not matter.")
    whole_word: bool = Field(default=False, description="Whether a match consists of whole words.")
    multiline: bool = Field(default=False, description="Whether a match may contain line breaks.")
    before_lines: Whole = Field(default=0, description="Lines before each match, at most 50.")
    after_lines: Whole = Field(default=0, description="Lines after each match, at most 50.")
    limit: Whole | None = Field(
        default=None, description="Number of matching lines, at most 100,000; null: 1,000."
    )
    limit_per_file: Whole = Field(
        default=0, description="Number of matching lines of one file; 0: all."
    )
    without_lines: bool = Field(default=False, description="Whether only to count the lines.")

    def given(self) -> requests.GrepRequest:
        return requests.GrepRequest(**dict(self) | {"filters": self.filters.given()})


class SymbolsBody(Body):
    name: Text = Field(description="A glob over names, such as `parse_*` or `Client.get`.")
    filters: Filters = Filters()
    literal: bool = Field(
        default=False,
        description="Whether the name has no wildcards. It may then be a position of the name, "
        "such as `src/client.py:12:9`.",
    )
    limit: Whole | None = Field(
        default=None, description="Number of definitions, at most 10,000; null: 200."
    )

    def given(self) -> requests.SymbolsRequest:
        return requests.SymbolsRequest(**dict(self) | {"filters": self.filters.given()})


class ReferencesBody(Body):
    name: Text = Field(
        description="A name, the end of a qualified one, such as `Client.get`, or a position of "
        "the name, such as `src/client.py:12:9`."
    )
    filters: Filters = Filters()
    limit: Whole | None = Field(
        default=None, description="Number of uses, at most 10,000; null: 200."
    )

    def given(self) -> requests.ReferencesRequest:
        return requests.ReferencesRequest(**dict(self) | {"filters": self.filters.given()})


class Query(BaseModel):
    """Parameters of a URL, which are texts."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class ReadQuery(Query):
    path: Text = Field(description="Path of an indexed file.")
    repository: Text = Field(default="", description="May be left out if only one is indexed.")
    ref: Text = Field(default="", description="Branch, tag, or commit; empty: the default ref.")
    start_line: Whole = Field(default=0, description="First line, 1-based; 0: line 1.")
    end_line: Whole = Field(default=0, description="Last line; 0: the last of the file.")

    def given(self) -> requests.ReadRequest:
        return requests.ReadRequest(**dict(self))


class FilesQuery(Query):
    repository: Text = Field(default="", description="May be left out if only one is indexed.")
    ref: Text = Field(default="", description="Branch, tag, or commit; empty: the default ref.")
    path: Text = Field(default="", description="A folder, such as `src/api`; empty: the root.")
    page_size: Whole = Field(default=0, description="Number of entries, at most 1,000; 0: 1,000.")
    page_token: Text = Field(default="", description="`next_page_token` of the previous page.")

    def given(self) -> requests.FilesRequest:
        return requests.FilesRequest(**dict(self))


class ExplainQuery(Query):
    subject: Text = Field(description="Path of a file, or name of a symbol.")
    repository: Text = Field(default="", description="Look only in this repository.")
    ref: Text = Field(
        default="", description="Branch, tag, or commit; empty: the default ref of each."
    )

    def given(self) -> requests.ExplainRequest:
        return requests.ExplainRequest(**dict(self))


class GraphQuery(Query):
    subject: Text = Field(
        default="", description="Path of a file, or name of a symbol; empty: the repository."
    )
    repository: Text = Field(
        default="", description="Look for the subject only in this repository."
    )
    ref: Text = Field(
        default="", description="Branch, tag, or commit; empty: the default ref of each."
    )
    relations: list[Text] = Field(
        default=[], description="Follow only these relations; repeatable."
    )
    depth: Whole | None = Field(default=None, description="Number of steps, at most 5.")
    limit: Whole | None = Field(default=None, description="Number of links, at most 1,000.")
    reverse: bool = Field(
        default=False, description="Whether to follow links to what depends on the subject."
    )

    def given(self) -> requests.GraphRequest:
        return requests.GraphRequest(**dict(self))


class MapQuery(Query):
    repositories: list[Text] = Field(default=[], description="Names, at most 50; repeatable.")

    def given(self) -> requests.MapRequest:
        return requests.MapRequest(self.repositories)


class MapPlacesQuery(MapQuery):
    points: list[Whole] = Field(
        default=[], description="Numbers of points, from 0, at most 200; repeatable."
    )

    def given(self) -> requests.MapPlacesRequest:
        return requests.MapPlacesRequest(self.repositories, self.points)


class MapBody(Body):
    repositories: list[Text] = Field(description="Names of the repositories, at most 50.")

    def given(self) -> requests.MapRequest:
        return requests.MapRequest(self.repositories)


class FailuresQuery(Query):
    repository: Text = Field(default="", description="List only the files of this repository.")
    include_skipped: bool = Field(
        default=False, description="Whether to list files skipped on purpose."
    )
    include_partial: bool = Field(
        default=False, description="Whether to list files indexed in part."
    )
    page_size: Whole = Field(default=0, description="Number of files, at most 1,000; 0: 200.")
    page_token: Text = Field(default="", description="`next_page_token` of the previous page.")

    def given(self) -> requests.FailuresRequest:
        return requests.FailuresRequest(**dict(self))


class RunBody(Body):
    url: Text = Field(description="URL of the repository, or the path of a local one.")
    name: Text = Field(default="", description="Name to register; empty: from the URL.")
    ref: Text = Field(default="", description="Branch, tag, or commit; empty: the default branch.")
    label: Text = Field(default="", description="`public`, `internal`, or `private`; for admins.")
    include: list[Text] | None = Field(default=None, description="Index only these paths.")
    exclude: list[Text] | None = Field(default=None, description="Leave these paths out.")
    plan_only: bool = Field(
        default=False, description="Whether to end with an estimate and index nothing."
    )

    def given(self) -> requests.StartRequest:
        return requests.StartRequest(**dict(self))


class RepositoryBody(Body):
    repository: Text = Field(default="", description="Name of a repository; empty: all of them.")


class DefaultRefBody(Body):
    repository: Text = Field(description="Name of a repository.")
    ref: Text = Field(description="Branch or tag that becomes the default ref.")


class LabelBody(Body):
    repository: Text = Field(description="Name of a repository, or a glob.")
    label: Text = Field(description="`public`, `internal`, or `private`; empty: none.")


class RemoveQuery(Query):
    name: Text = Field(description="Name of a repository.")
    ref: Text = Field(default="", description="Remove only this ref; empty: the repository.")


class KeyBody(Body):
    name: Text = Field(description="Name of the key: 1 to 64 letters, digits, and `. _ -`.")
    role: Text = Field(description="`reader`, `indexer`, or `admin`.")
    repositories: list[Text] = Field(default=[], description="Globs; empty: no bound.")
    expires_in_s: float = Field(default=0.0, description="Seconds until it expires; 0: never.")

    def given(self) -> requests.CreateKeyRequest:
        return requests.CreateKeyRequest(**dict(self))


class SyncBody(Body):
    connection: Text = Field(default="", description="Name of a connection; empty: all of them.")


class SourcesBody(Body):
    connection: Text = Field(default="", description="Name of a connection; empty: all of them.")
    mode: Text = Field(
        default="",
        description="`plan`, `sync` (the default), or `confirm`, which also removes what waits for "
        "a confirmation.",
    )
