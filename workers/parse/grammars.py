"""Load grammars and their queries, once per process, on first use."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import NamedTuple

import tree_sitter_language_pack as pack
from tree_sitter import Language as Grammar
from tree_sitter import Node, Parser, Query, QueryCursor, Tree

from workers.parse.nesting import is_too_deep

#: The first line of a query file may name others to inherit, as in nvim-treesitter:
#: `; inherits: javascript`.
_INHERITS = "; inherits:"

#: The line between the patterns of definitions and imports and those of uses.
_USES = "\n; uses of names\n"

Captures = Mapping[str, Sequence[Node]]
Matches = Sequence[tuple[int, Captures]]  # number of the pattern, captures


@cache
def grammar(name: str) -> Grammar | None:
    """Return a grammar by its name in tree-sitter-language-pack; None when the pack lacks it."""
    try:
        return pack.get_language(name)  # type: ignore[arg-type]
    except LookupError:
        return None


def tree(name: str, utf8: bytes) -> Tree | None:
    """Return the syntax tree of a text; None if there is no such grammar or it would crash."""
    found = None if is_too_deep(name, utf8) else grammar(name)
    return Parser(found).parse(utf8) if found else None


class QuerySource(NamedTuple):
    """The text of a query file, with what it inherits."""

    definitions: str  # and import statements
    uses: str


def query_source(language: str) -> QuerySource:
    """Return the text of `queries/<language>.scm`; empty when there is no such file.

    A file without a section of uses inherits no uses either.
    """
    file = resources.files("workers.parse") / "queries" / f"{language}.scm"
    if not file.is_file():
        return QuerySource("", "")
    definitions, has_uses, uses = file.read_text("utf-8").partition(_USES)
    inherited = map(query_source, _inherited(definitions)) if has_uses else ()
    return QuerySource(
        with_inherited(definitions), "\n".join([*(source.uses for source in inherited), uses])
    )


def with_inherited(text: str) -> str:
    """Return the text of a query for definitions, preceded by the built-in ones it inherits."""
    inherited = [query_source(language).definitions for language in _inherited(text)]
    return "\n".join([*inherited, text])


def _inherited(text: str) -> list[str]:
    first = text.split("\n", 1)[0]
    return first.removeprefix(_INHERITS).split() if first.startswith(_INHERITS) else []


@dataclass(frozen=True, slots=True)
class LanguageQuery:
    """One query for definitions, imports, and uses, because a walk of the tree is expensive."""

    grammar: Grammar
    query: Query
    first_use: int  # number of the first pattern of uses

    def run(self, root: Node) -> tuple[Matches, Sequence[Captures]]:
        """Return the matches of definitions and imports, and the captures of uses."""
        found, first_use = QueryCursor(self.query).matches(root), self.first_use
        return (
            [match for match in found if match[0] < first_use],
            [captures for pattern, captures in found if pattern >= first_use],
        )


@cache
def query(language: str, grammar_name: str) -> LanguageQuery | None:
    """Return the query of a language; None when there is none."""
    found, source = grammar(grammar_name), query_source(language)
    if found is None or not any(source):
        return None
    compiled = Query(found, f"{source.definitions}\n{source.uses}")
    size = len(source.definitions.encode())
    starts = map(compiled.start_byte_for_pattern, range(compiled.pattern_count))
    return LanguageQuery(found, compiled, sum(start < size for start in starts))


@dataclass(frozen=True, slots=True)
class Errors:
    """The errors that a grammar reports."""

    count: int = 0  # ERROR and MISSING nodes
    widest: int = 0  # children of the widest ERROR node


def errors(parsed: Tree) -> Errors:
    """Count the errors of a tree by walking the nodes that contain any.

    A query for them would take quadratic time: its cursor looks ahead over anonymous siblings.
    """
    cursor = parsed.walk()
    count = widest = 0
    while True:
        node = cursor.node
        assert node, "a cursor stands on a node"
        if node.is_error:
            widest = max(widest, node.child_count)
        count += node.is_error or node.is_missing
        if node.has_error and cursor.goto_first_child():
            continue
        while not cursor.goto_next_sibling():
            if not cursor.goto_parent():
                return Errors(count, widest)
