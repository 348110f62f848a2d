"""The scopes file: named sets of repositories, refs, and paths, which searches take as a filter.

    scopes:
      payments:
        description: Everything that moves money
        repositories: [payments/*, shared/ledger, "!payments/archive-*"]
        refs: [HEAD, release-2]
        paths: [src/**, "!**/testdata/**"]

A scope limits a search and never widens what its caller may see.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from codelode import declarations, repository_globs
from codelode.addresses import check_ref
from codelode.declarations import Wrong, items, line, text, texts
from codelode.errors import InvalidQuery
from codelode.globs import matches_path, path_problem, signed

#: Maximum number of scopes: listing them compares each one with the name of every repository.
MAX_SCOPES = 200
#: Bounds of the fields of a scope.
MAX_REFS = 20
MAX_PATHS = 100
MAX_PATH_CHARS = 200
MAX_DESCRIPTION_CHARS = 200

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")

_FIELDS = ("description", "repositories", "refs", "paths")
_LIMITS = _FIELDS[1:]
_SECTIONS = ("scopes",)


@dataclass(frozen=True, slots=True)
class Scope:
    """A named set of repositories, refs, and paths. An empty field does not limit the search.

    In repositories and paths, a leading `!` excludes what the rest of the glob matches.
    """

    name: str
    description: str = ""
    repositories: tuple[str, ...] = ()  # globs over names
    refs: tuple[str, ...] = ()  # a search uses the first one that a searched repository has
    paths: tuple[str, ...] = ()  # globs over whole paths

    @property
    def admits(self) -> Callable[[str], bool]:
        """Return a predicate that tells whether the repository of a name belongs to the scope."""
        wanted, unwanted = signed(self.repositories)
        is_wanted = repository_globs.matcher(tuple(wanted or ["**"]))
        is_unwanted = repository_globs.matcher(tuple(unwanted))
        return lambda name: is_wanted(name) and not is_unwanted(name)


#: Scopes by name.
Scopes = Mapping[str, Scope]
NO_SCOPES: Scopes = {}


def read(path: Path) -> Scopes:
    """Return the scopes of a file. Raises InvalidSettings with file and line."""
    return parse(declarations.read_text(path, what="scopes file"), file=str(path))


def parse(content: str, *, file: str) -> Scopes:
    """Return the scopes that a text declares. Raises InvalidSettings with the line of an error."""
    return declarations.parsed(content, _scopes, file=file, empty="scopes: {}")


def schema() -> dict[str, Any]:
    """Return the JSON schema of the file, for editors. The parser decides what is accepted."""
    fields = {
        "description": {"type": "string", "maxLength": MAX_DESCRIPTION_CHARS},
        "repositories": _listed("Globs over names; a leading `!` excludes what the glob matches."),
        "refs": _listed(
            "Branches, tags, or HEAD; a search without a ref uses the first one "
            "that a searched repository has."
        ),
        "paths": _listed("Globs over whole paths; a leading `!` excludes what the glob matches."),
    }
    scope = {
        "type": "object",
        "properties": fields,
        "additionalProperties": False,
        "anyOf": [{"required": [name]} for name in _LIMITS],
    }
    named = {
        "type": "object",
        "propertyNames": {"pattern": f"^{NAME.pattern}$"},
        "maxProperties": MAX_SCOPES,
        "additionalProperties": scope,
    }
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Scopes of codelode",
        "type": "object",
        "properties": {"scopes": named},
        "additionalProperties": False,
    }


def _listed(description: str) -> dict[str, Any]:
    values = {"type": "array", "items": {"type": "string"}, "minItems": 1}
    return {**values, "description": description}


def _scopes(root: yaml.Node) -> Scopes:
    sections = dict(items(root, "the file", known=_SECTIONS))
    found = dict(items(sections["scopes"], "scopes")) if sections else {}
    if len(found) > MAX_SCOPES:
        raise Wrong(
            line(root),
            f"the file has {len(found):,} scopes; at most {MAX_SCOPES} are allowed; merge some",
        )
    return {name: _scope(name, node) for name, node in found.items()}


def _scope(name: str, node: yaml.Node) -> Scope:
    if not NAME.fullmatch(name):
        raise Wrong(
            line(node),
            f"{name[:100]!r} cannot name a scope; write 1 to 64 letters, digits, and . _ -",
        )
    fields = dict(items(node, repr(name), known=_FIELDS))
    if not any(limit in fields for limit in _LIMITS):
        raise Wrong(
            line(node), f"{name!r} limits nothing; give at least one of {', '.join(_LIMITS)}"
        )
    given = {limit: _texts(limit, fields[limit]) for limit in _LIMITS if limit in fields}
    return Scope(name, _description(fields.get("description")), **given)


def _description(node: yaml.Node | None) -> str:
    if node is None:
        return ""
    found = text(node, "description")
    if len(found) > MAX_DESCRIPTION_CHARS or not found.isprintable():
        raise Wrong(
            line(node),
            f"description must be one line of at most {MAX_DESCRIPTION_CHARS} characters",
        )
    return found


def _texts(name: str, node: yaml.Node) -> tuple[str, ...]:
    """Return the values of a field of a scope. Raises Wrong that names the first wrong one."""
    found = tuple(dict.fromkeys(texts(node, name, form=f": {_EXAMPLES[name]}")))
    problem = _PROBLEMS[name](found) if found else "is empty; leave the field out"
    if problem:
        raise Wrong(line(node), f"{name} {problem}")
    return found


def _repositories(globs: Sequence[str]) -> str:
    wanted, unwanted = signed(globs)
    if "**" in unwanted:
        return "holds '!**', which excludes every repository; remove it"
    return repository_globs.problem([*wanted, *unwanted]) or next(
        (
            f"holds {glob!r}, which matches no name; remove the '/' at its beginning or end"
            for glob in (*wanted, *unwanted)
            if glob.startswith("/") or glob.endswith("/")
        ),
        "",
    )


def _refs(names: Sequence[str]) -> str:
    if len(names) > MAX_REFS:
        return f"has {len(names):,} refs; at most {MAX_REFS} are allowed"
    try:
        for name in names:
            check_ref(name)
    except InvalidQuery as exc:
        return f"holds an invalid ref: {exc.message}"
    return ""


def _paths(globs: Sequence[str]) -> str:
    if len(globs) > MAX_PATHS or max(map(len, globs)) > MAX_PATH_CHARS:
        return (
            f"has too many or too long globs; at most {MAX_PATHS} globs of {MAX_PATH_CHARS} "
            "characters are allowed"
        )
    problems = map(_path, _unsigned(globs))
    return next((f"holds an invalid glob: {told}" for told in problems if told), "")


def _path(glob: str) -> str:
    if not glob:
        return "it is empty; write '**' for every path"
    if not glob.isprintable():
        return f"{glob!r} has control characters; remove them"
    try:
        matches_path(glob)
    except InvalidQuery as exc:
        return f"{glob!r} {exc.message}"
    return path_problem(glob)


def _unsigned(globs: Sequence[str]) -> Sequence[str]:
    return [glob.removeprefix("!") for glob in globs]


_PROBLEMS = {"repositories": _repositories, "refs": _refs, "paths": _paths}
_EXAMPLES = {
    "repositories": "[payments/*, shared/ledger]",
    "refs": "[HEAD, release-2]",
    "paths": "[src/**]",
}
