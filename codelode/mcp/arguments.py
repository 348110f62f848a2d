"""The arguments of the tools, with the descriptions that an agent reads.

Bounds are not declared here: the gateway checks them, so that every face refuses the same values
with the same remedy. Descriptions are short, because every agent pays for them in every session.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, cast

from pydantic import BaseModel, ConfigDict, Field
from pydantic.json_schema import GenerateJsonSchema

from codelode.client.request import MOST, Filters

Texts = Annotated[list[str], Field(default_factory=list)]
Text = Annotated[str, Field(default="")]


class Arguments(BaseModel):
    """The base of all arguments; it refuses unknown names."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    structured: bool = Field(
        False, description="JSON instead of text; costs several times the tokens."
    )


class Narrowing(Arguments):
    """The filters of a search, with the same meaning as on the command line."""

    repositories: Texts = Field(description="Only these; else all.")
    not_repositories: Texts
    languages: Texts = Field(description="Such as go, python.")
    not_languages: Texts
    paths: Texts = Field(description="Globs of whole paths, such as src/**, **/*.py.")
    not_paths: Texts
    kinds: Texts = Field(
        description="function, method, class, interface, struct, enum, trait, type, module, "
        "constant, macro, block, text."
    )
    symbols: Texts = Field(description="Globs of symbol names.")
    categories: Texts = Field(description="source, test, docs, configuration, generated, vendored.")
    block_types: Texts = Field(description="Infrastructure: resource, job.")
    ref: Text = Field(description="Branch, tag, or commit; else each default ref.")
    scope: Text

    def filters(self) -> Filters:
        """Return the given filters as arguments of the client."""
        given = {name: getattr(self, name) for name in Narrowing.model_fields}
        given.pop("structured")
        return cast(Filters, {name: value for name, value in given.items() if value})


class Search(Narrowing):
    query: str = Field(description="A question, words, a name, or code.")
    top_k: int = Field(10, description=f"Hits, 1 to {MOST['top_k']}.")
    exact: bool = Field(
        False, description="Query is an RE2 regex; find all lines it matches, top_k of them."
    )
    names: Literal["", "symbols", "references"] = Field(
        "", description="List definitions by glob, or uses."
    )
    page: Text = Field(description="Continue after an answer that gave this page.")
    compact: bool = Field(False, description="Signatures instead of code.")
    context_lines: int = Field(0, description="Lines around the best line, up to 200.")
    preset: Text = Field(description="fast, balanced, or thorough.")
    options: dict[str, Any] = Field(
        default_factory=dict, description='Such as {"expand.related": 5}.'
    )


class Context(Narrowing):
    query: str = Field(description="A question, words, or a name.")
    tokens: int = Field(8_000, description="Budget of the text.")
    top_k: int = Field(20, description="Hits to choose from.")


class Similar(Narrowing):
    path: Text = Field(description="File of the code to compare with.")
    line: int = Field(0, description="Line in it.")
    repository: Text = Field(description="Of the path.")
    snippet: Text = Field(description="Code, instead of path and line.")
    top_k: int = Field(10, description=f"Hits, 1 to {MOST['top_k']}.")


class Read(Arguments):
    path: str = Field(description="Path of an indexed file.")
    repository: Text = Field(description="Needed if several are indexed.")
    ref: Text = Field(description="Branch, tag, or commit.")
    start_line: int = Field(0, description="First line; 0: the first of the file.")
    end_line: int = Field(0, description="Last line; 0: the last of the file.")


class Subject(Arguments):
    subject: str = Field(description="Path or name of a symbol.")
    repository: Text = Field(description="Needed if several have the subject.")
    ref: Text = Field(description="Branch, tag, or commit.")


class Graph(Subject):
    subject: Text = Field(description="Path or name of a symbol; empty: the repository.")
    reverse: bool = Field(False, description="What depends on it, instead of what it depends on.")
    relations: Texts = Field(
        description="Of imports, importers, calls, callers, inherits, subclasses, definitions, "
        "references, tests, cross_repository."
    )
    depth: int = Field(2, description=f"Steps, 1 to {MOST['depth']}.")
    limit: int = Field(30, description=f"Edges per relation, 1 to {MOST['limit']:,}.")


class Status(Arguments):
    repository: Text = Field(description="Only this repository.")
    failures: Literal["", "failed", "all"] = Field(
        "", description="List files that are not indexed; all: also those skipped on purpose."
    )


class Index(Arguments):
    url: str = Field(description="URL of a git repository, or a path on this machine.")
    name: Text = Field(description="Else the one of the URL.")
    ref: Text = Field(description="Branch, tag, or commit; else the default ref.")
    include: list[str] | None = Field(None, description="Patterns as in .gitignore.")
    exclude: list[str] | None = Field(None, description="Patterns as in .gitignore.")
    wait_s: float = Field(50, description="Wait this long for the end of the run.")


_CLOSED = {"additionalProperties": False}


class _Compact(GenerateJsonSchema):
    """Generates schemas without titles and empty defaults, which are of no use to an agent."""

    def field_title_should_be_set(self, schema: Any) -> bool:
        return False

    def default_schema(self, schema: Any) -> dict[str, Any]:
        made = super().default_schema(schema)
        return made if made.get("default") else {k: v for k, v in made.items() if k != "default"}


def schema(arguments: type[Arguments]) -> dict[str, Any]:
    """Return the JSON schema of a tool's arguments, as short as it can be, required ones first."""
    made = arguments.model_json_schema(schema_generator=_Compact)
    fields, required = made["properties"], made.get("required", [])
    ordered = {name: fields[name] for name in dict.fromkeys((*required, *fields))}
    return {"type": "object", "properties": ordered, "required": required} | _CLOSED
