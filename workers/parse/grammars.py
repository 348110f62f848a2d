"""Grammars and their queries, loaded once per process when first asked for."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from importlib import resources

import tree_sitter_language_pack as pack
from tree_sitter import Language as Grammar
from tree_sitter import Parser, Query, Tree

#: Query files start their inherited parts with `; inherits: javascript`, as in nvim-treesitter.
_INHERITS = "; inherits:"


@cache
def grammar(name: str) -> Grammar | None:
    """The grammar by its name in tree-sitter-language-pack; None when the pack lacks it."""
    try:
        return pack.get_language(name)  # type: ignore[arg-type]
    except LookupError:
        return None


def tree(name: str, utf8: bytes) -> Tree | None:
    """The syntax tree; None when there is no such grammar."""
    found = grammar(name)
    return Parser(found).parse(utf8) if found else None


@cache
def query(language: str, grammar_name: str) -> Query | None:
    """The definitions and imports query of a language; None when none is written for it."""
    found = grammar(grammar_name)
    source = query_source(language)
    return Query(found, source) if found and source else None


@dataclass(frozen=True, slots=True)
class Errors:
    """What a grammar could not read."""

    count: int = 0  # ERROR and MISSING nodes
    widest: int = 0  # children of the widest ERROR node


def errors(parsed: Tree) -> Errors:
    """The errors of a tree, by a walk into nodes that hold some.

    A query for them would be quadratic: its cursor looks ahead over anonymous siblings.
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


def query_source(language: str) -> str:
    """The text of `queries/<language>.scm` with what it inherits; empty when there is none."""
    file = resources.files("workers.parse") / "queries" / f"{language}.scm"
    if not file.is_file():
        return ""
    return with_inherited(file.read_text("utf-8"))


def with_inherited(text: str) -> str:
    """The text of a query with the built-in ones it inherits in front."""
    first = text.split("\n", 1)[0]
    if not first.startswith(_INHERITS):
        return text
    return "\n".join([*map(query_source, first.removeprefix(_INHERITS).split()), text])
