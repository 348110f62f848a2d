"""Uses of names in a tree: calls, members called, classes made, bases inherited.

One query per language in the vocabulary of tree-sitter tags, with the identifier itself captured:
`@reference.call`, `@reference.member` (a call with a receiver), `@reference.class` and
`@reference.implementation`. A name counts once per kind and file: who is meant is resolved when it
is asked, with the symbol table and the imports of that moment. A name that an import gives
(`renamed`) is told by what it stands for, beside how it is written.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from importlib import resources

from tree_sitter import Node, Query, QueryCursor

from codelode.languages import Language
from codelode.model import Reference, ReferenceKind
from workers.parse import grammars
from workers.parse.references.renamed import Renamed, Renames

#: Distinct uses kept of one file; more are a table of data.
MAX_REFERENCES = 2_000

Uses = Sequence[Mapping[str, Sequence[Node]]]  # what patterns captured

_MAX_NAME_BYTES = 120
_KINDS = {f"reference.{kind.value}": kind for kind in sorted(ReferenceKind)}
_INHERITS = "; inherits:"


def read(
    language: Language, root: Node, data: bytes, *, renames: Renames | None = None
) -> tuple[Reference, ...]:
    """The distinct uses, by kind and name; none for a language without a query."""
    return among(uses(language, root), data, renames=renames)


def uses(language: Language, root: Node) -> Uses:
    """All that the language's query captures, which `among` makes distinct."""
    query = _query(language.name, language.grammar or "")
    return [QueryCursor(query).captures(root)] if query else ()


def among(captured: Uses, data: bytes, *, renames: Renames | None = None) -> tuple[Reference, ...]:
    """The distinct uses out of what patterns captured, those under other names last."""
    plain: dict[str, set[bytes]] = defaultdict(set)
    renamed: dict[str, set[Renamed]] = defaultdict(set)
    for captures in captured:
        for label, nodes in captures.items():
            names = plain[label]
            if renames is not None:
                renames.tell_apart(nodes, names, renamed[label])
                continue
            for node in nodes:
                names.add(data[node.start_byte : node.end_byte])
    found = [
        Reference(name, kind)
        for label, kind in _KINDS.items()
        for name in sorted(_decoded(plain.get(label, ())))
    ]
    found += [
        Reference(name, kind, written.decode("utf-8", "replace"))
        for label, kind in _KINDS.items()
        for raw, written in sorted(renamed.get(label, ()))
        if len(written) <= _MAX_NAME_BYTES
        for name in _decoded([raw])
    ]
    return tuple(found[:MAX_REFERENCES])


def _decoded(names: Iterable[bytes]) -> Iterator[str]:
    for name in names:
        if 1 < len(name) <= _MAX_NAME_BYTES and name not in _COMMON:
            yield name.decode("utf-8", "replace")


def _is_told(name: bytes) -> bool:
    return 1 < len(name) <= _MAX_NAME_BYTES and name not in _COMMON


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
