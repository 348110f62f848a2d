"""Extract the definitions of a syntax tree from the captures of a query.

A query captures each definition as `@definition.<kind>` with its `@name`, the vocabulary of
tree-sitter tags. If two patterns match one name at one position, the earlier pattern counts. Other
captures are for names that a grammar does not nest:

    @scope      nests others under its @name without defining it: Rust `impl`, Swift `extension`
    @namespace  does the same and is left out of headers: C++
    @receiver   is the parent of one definition: Go methods
    @body       is the body, where a definition ends if the grammar puts it next to it: Dart
    @open       marks a definition that ends where the next such one begins: Perl's `package`
    @exported   is a name in an export list
    @import     is an import statement, which `imports` reads
    @block      is a macro's block, which `macros` reads: Rust `cfg_rt! { pub fn f() {} }`
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from tree_sitter import Node

from codelode.languages import Language
from codelode.model import Kind, Symbol
from workers.parse import describe, grammars
from workers.parse.comments import Comments
from workers.parse.exports import Declared
from workers.parse.grammars import Captures, Matches
from workers.parse.lines import Lines
from workers.parse.rules import Rules

_CLASSES = frozenset({Kind.CLASS, Kind.INTERFACE, Kind.STRUCT, Kind.TRAIT, Kind.ENUM, Kind.TYPE})

#: Maximum nesting; deeper code is generated, and qualified names would grow without bound.
MAX_NESTING = 32

#: Maximum number of definitions of a file; only the first are kept. A file with more holds data.
MAX_DEFINITIONS = 10_000

_KINDS = {kind.value: kind for kind in Kind}

#: The kind of the node that each capture marks.
_DEFINED = {f"definition.{name}": name for name in _KINDS} | {
    name: name for name in ("scope", "namespace")
}

_NAME_BYTES = 300
_SEPARATOR = re.compile(r"::|\.|:")
_MADE_NAME = re.compile(r"\w+\((\w+)\)")
#: Matches a type that a grammar reads as a part of a name, as in `API std::string f()`.
_TYPE = re.compile(r"\A\w++(?:::\w++)++\s++(?=\w)")
_NOT_NAME = re.compile(r"[\s*&()\[\]'\"`]+|<.*", re.DOTALL)


class Definition(NamedTuple):
    """A definition with its qualified name. A tuple, because files have thousands."""

    start: int
    end: int
    line: int  # of the name: the node may begin with annotations
    name: str
    qualified_name: str
    kind: Kind | None  # None: a scope, which is not a symbol
    signature: str  # empty: a namespace, left out of headers
    is_exported: bool
    doc: str = ""
    block_type: str = ""  # of an infrastructure block

    def symbol(self, lines: Lines) -> Symbol:
        """Return the symbol of a definition, which must not be a scope."""
        assert self.kind, self
        return Symbol(
            name=self.name,
            qualified_name=self.qualified_name,
            kind=self.kind,
            signature=self.signature,
            start_line=lines.row(self.start) + 1,
            end_line=lines.row(max(self.start, self.end - 1)) + 1,
            is_exported=self.is_exported,
            doc=self.doc,
        )


@dataclass(frozen=True, slots=True)
class Captured:
    """The definitions and import statements of a tree."""

    definitions: tuple[Definition, ...] = ()  # by start, outer before inner
    imports: tuple[Node, ...] = ()  # by start


class _Match(NamedTuple):
    """One match of a query, before nesting. A tuple because files have thousands."""

    pattern: int
    start: int
    end: int
    at: int  # where the name is
    node: Node
    name: str
    kind: str  # of the model, `scope` or `namespace`
    receiver: str
    is_open: bool


@dataclass(frozen=True, slots=True)
class _Context:
    """Everything that describing a definition needs besides its match."""

    rules: Rules
    lines: Lines
    comments: Comments
    exported: frozenset[str]  # names in export lists
    body_field: int | None  # the grammar's number of the field, which is faster than its name


def capture(
    language: Language,
    rules: Rules,
    matches: Matches,
    root: Node,
    lines: Lines,
    comments: Comments,
) -> Captured:
    """Return the definitions and import nodes in the matches of a query over the tree of `root`."""
    found: dict[tuple[int, str], _Match] = {}
    imports: dict[int, Node] = {}
    exported: set[str] = set()
    for pattern, captures in matches:
        match = _match(pattern, captures, lines.data)
        if match:
            known = found.get((match.start, match.name))
            if known is None or pattern < known.pattern:
                found[match.start, match.name] = match
        for node in captures.get("import", ()):
            imports[node.start_byte] = node
        for node in captures.get("exported", ()):
            exported.add(_text(node, lines.data))
    ordered = _closed(_without_imports(found.values(), sorted(imports)), root.end_byte)
    context = _Context(rules, lines, comments, frozenset(exported), _body_field(language))
    nested = _nest(ordered, context)
    return Captured(
        tuple(_join_clauses(nested) if rules.has_clauses else nested),
        tuple(imports[start] for start in sorted(imports)),
    )


def _body_field(language: Language) -> int | None:
    grammar = grammars.grammar(language.grammar or "")
    return grammar.field_id_for_name("body") if grammar else None


def _match(pattern: int, captures: Captures, data: bytes) -> _Match | None:
    names = captures.get("name")
    if not names or names[0].start_byte == names[0].end_byte:  # MISSING nodes are empty
        return None
    for label, nodes in captures.items():
        kind = _DEFINED.get(label)
        if kind is not None:
            node = nodes[0]
            return _Match(
                pattern=pattern,
                start=node.start_byte,
                end=captures["body"][0].end_byte if "body" in captures else node.end_byte,
                at=names[0].start_byte,
                node=node,
                name=_text(names[0], data),
                kind=kind,
                receiver=_text(captures["receiver"][0], data) if "receiver" in captures else "",
                is_open="open" in captures,
            )
    return None


def _text(node: Node, data: bytes) -> str:
    start = node.start_byte
    return data[start : min(node.end_byte, start + _NAME_BYTES)].decode("utf-8", "ignore")


def _without_imports(matches: Iterable[_Match], imports: Sequence[int]) -> list[_Match]:
    """Sort the matches, and drop constants that only name an import: `x = require("x")`."""
    return sorted(
        (m for m in matches if m.kind != "constant" or not _holds(m.start, m.end, imports)),
        key=lambda match: (match.start, -match.end),
    )[:MAX_DEFINITIONS]


def _closed(matches: list[_Match], end: int) -> list[_Match]:
    """End each open match where the next open one begins, or at `end`."""
    for at in range(len(matches) - 1, -1, -1):
        match = matches[at]
        if match.is_open:
            matches[at] = match._replace(end=end)
            end = match.start
    return matches


def _holds(start: int, end: int, imports: Sequence[int]) -> bool:
    at = bisect_left(imports, start)
    return at < len(imports) and imports[at] < end


def _nest(matches: Sequence[_Match], context: _Context) -> Iterator[Definition]:
    around: list[Definition] = []
    for match in matches:
        while around and not _is_within(match, around[-1]):
            around.pop()
        if len(around) == MAX_NESTING:
            continue
        parent = around[-1] if around else None
        if parent is not None and _is_typedef(parent):
            parent = next((d for d in reversed(around) if not _is_typedef(d)), None)
        definition = _define(match, parent, context)
        around.append(definition)
        yield definition


def _is_within(match: _Match, definition: Definition) -> bool:
    """Return whether the match is nested in the definition.

    `a, b = 1, 2` is one node with two names, neither of which is inside the other.
    """
    if (match.start, match.end) == (definition.start, definition.end):
        return False
    return match.start < definition.end


def _is_typedef(definition: Definition) -> bool:
    """Return whether it is a `typedef struct a {…} b` of C, where `a` is not a member of `b`."""
    return definition.signature.startswith("typedef")


def _define(match: _Match, parent: Definition | None, context: _Context) -> Definition:
    node, lines = match.node, context.lines
    names = [*_parts(match.receiver), *_parts(match.name)]
    body = node.child_by_field_id(context.body_field) if context.body_field else None
    signature = "" if match.kind == "namespace" else describe.signature(node, body, lines)
    kind = _KINDS.get(match.kind)
    if kind is Kind.FUNCTION and (len(names) > 1 or _is_class(parent)):
        kind = Kind.METHOD
    return Definition(
        start=match.start,
        end=match.end,
        line=lines.row(match.at) + 1,
        name=names[-1],
        qualified_name=".".join([*([parent.qualified_name] if parent else ()), *names]),
        kind=kind,
        signature=signature,
        is_exported=(parent is None or parent.is_exported)
        and (
            kind is None
            or (_is_listable(parent, context) and names[-1] in context.exported)
            or _is_exported(names[-1], signature, node, parent, context)
        ),
        doc=_doc(match, body, context) if kind else "",
    )


def _doc(match: _Match, body: Node | None, context: _Context) -> str:
    """Return the first line of the docstring, or of the comment right above; empty without both."""
    if context.rules.has_docstrings:
        return describe.docstring(body, context.lines.data)
    return describe.comment_above(match.start, context.lines, context.comments)


def _is_exported(
    name: str, signature: str, node: Node, parent: Definition | None, context: _Context
) -> bool:
    rule = context.rules.is_exported
    return rule is None or rule(Declared(name, signature, node.type, parent and parent.kind))


def _is_listable(parent: Definition | None, context: _Context) -> bool:
    return parent is None or context.rules.lists_members


def _is_class(definition: Definition | None) -> bool:
    """Return whether functions in it are methods: it is a class, or a scope that stands for one."""
    if definition is None or not definition.signature:
        return False
    return definition.kind is None or definition.kind in _CLASSES


def _parts(name: str) -> list[str]:
    """Split a name: `Foo<T>::bar` → `["Foo", "bar"]`, `*Server` → `["Server"]`.

    Names of operators, `operator==`, stay whole. If a macro makes the name, `FUNC(Box)`, its
    argument is the name. A type before the name is not a part of it.
    """
    if not name or name.isidentifier():
        return [name] if name else []
    if "operator" in name or name.startswith(('"', "'")):
        return [part for part in name.strip("\"'").split("::") if part] or [name]
    made = _MADE_NAME.fullmatch(name)
    alone = made[1] if made else _TYPE.sub("", name)
    parts = [_NOT_NAME.sub("", part) for part in _SEPARATOR.split(alone)]
    return [part for part in parts if part] or [name.strip()]


def _join_clauses(definitions: Iterable[Definition]) -> list[Definition]:
    """Join neighbours of one name and kind into one definition with the first one's signature."""
    out: list[Definition] = []
    for definition in definitions:
        last = out[-1] if out else None
        key = definition.qualified_name, definition.kind
        if last and last.kind and (last.qualified_name, last.kind) == key:
            out[-1] = last._replace(end=definition.end)
        else:
            out.append(definition)
    return out
