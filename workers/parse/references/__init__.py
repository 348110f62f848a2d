"""Uses of names in a tree: calls, members called, classes made, bases inherited.

One query per language in the vocabulary of tree-sitter tags, with the identifier itself captured:
`@reference.call`, `@reference.member` (a call with a receiver), `@reference.class` and
`@reference.implementation`. A name counts once per kind and file: who is meant is resolved when it
is asked, with the symbol table and the imports of that moment.
"""

from __future__ import annotations

from functools import cache
from importlib import resources

from tree_sitter import Node, Query, QueryCursor

from codelode.languages import Language
from codelode.model import Reference, ReferenceKind
from workers.parse import grammars
from workers.parse.definitions import Matches

#: Distinct uses kept of one file; more are a table of data.
MAX_REFERENCES = 2_000

_MAX_NAME_BYTES = 120
_KINDS = {f"reference.{kind.value}": kind for kind in ReferenceKind}
_INHERITS = "; inherits:"


def read(language: Language, root: Node, data: bytes) -> tuple[Reference, ...]:
    """The distinct uses, by kind and name; none for a language without a query."""
    query = _query(language.name, language.grammar or "")
    if query is None:
        return ()
    return among([(0, QueryCursor(query).captures(root))], data)


def among(matches: Matches, data: bytes) -> tuple[Reference, ...]:
    """The same out of the matches of a query that looks for more than uses."""
    found: set[tuple[ReferenceKind, bytes]] = set()
    for _, captures in matches:
        for label, nodes in captures.items():
            kind = _KINDS.get(label)
            if kind is not None:
                found.update((kind, data[node.start_byte : node.end_byte]) for node in nodes)
    named = [
        (kind, name.decode("utf-8", "replace"))
        for kind, name in found
        if 1 < len(name) <= _MAX_NAME_BYTES and name not in _COMMON
    ]
    return tuple(Reference(name, kind) for kind, name in sorted(named)[:MAX_REFERENCES])


#: Names that no repository is asked for: what languages bring along.
_COMMON = frozenset(
    b"super self this print println printf len range str int float bool list dict set tuple "
    b"isinstance require append push String Error console".split()
)


@cache
def _query(language: str, grammar: str) -> Query | None:
    found = grammars.grammar(grammar)
    text = source(language)
    return Query(found, text) if found and text else None


def source(language: str) -> str:
    """The text of `<language>.scm` with what it inherits; empty when there is none."""
    file = resources.files("workers.parse.references") / f"{language}.scm"
    if not file.is_file():
        return ""
    text = file.read_text("utf-8")
    first = text.split("\n", 1)[0]
    if not first.startswith(_INHERITS):
        return text
    return "\n".join([*map(source, first.removeprefix(_INHERITS).split()), text])
