"""Find the uses of names in a file: calls, called members, instantiated classes, inherited bases.

The queries use the vocabulary of tree-sitter tags and capture the identifier itself:
`@reference.call`, `@reference.member` (a call with a receiver), `@reference.class` and
`@reference.implementation`. What `@reference.none` captures is not a use, whatever else captures
it. A name counts once per kind and file, with the lines where it is used.
It is resolved to a definition when it is queried, by the symbol table and the imports of that time.
A name that an import gives (`renames`) is stored as the name of the definition, with its spelling
in the file. The text before a member shows whether it belongs to the code's own object.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace

from tree_sitter import Node

from codelode.model import Reference, ReferenceKind
from workers.parse.grammars import Captures
from workers.parse.renames import Renamed, Renames

#: Maximum number of distinct uses of a file; a file with more holds data.
MAX_REFERENCES = 2_000

#: Maximum number of lines of a use. Chosen by hand: of 6,077 uses in redis and pydantic, 3 have
#: more.
MAX_LINES = 200

_MAX_NAME_BYTES = 120
#: Kinds by label, as plain text, because that is hashed and compared in C.
_KINDS = {f"reference.{kind.value}": kind.value for kind in sorted(ReferenceKind)}
_CALL, _MEMBER, _OF_OWN = (
    kind.value for kind in (ReferenceKind.CALL, ReferenceKind.MEMBER, ReferenceKind.OWN)
)
#: A name before parentheses among the loose tokens that a macro gets.
_TOKEN = "reference.token"
_NONE = "reference.none"
_LABELS = frozenset({*_KINDS, _TOKEN})
_OBJECTS = (_CALL, _MEMBER)  # `Self::load()` is captured as a call

#: The text before a member of the object or class that the code belongs to: `self.`, `$this->`.
_OWN = re.compile(rb"(?<![\w$.])(?:(?:self|Self|this|\$this|cls)(?:\.|->|::?|\?\.)|static::)\Z")
_MAX_BEFORE_BYTES = len(b" static::")

#: Names that languages define, which every repository uses and nobody searches for.
_COMMON = frozenset(
    b"super self this print println printf len range str int float bool list dict set tuple "
    b"isinstance require append push String Error console".split()
)


#: How a use is written (empty: as the definition is named), its kind, and the name.
_Use = tuple[bytes, str, bytes]


def distinct(
    captured: Sequence[Captures], data: bytes, renames: Renames | None
) -> tuple[Reference, ...]:
    """Return the distinct uses by kind and name, those under another name last."""
    lines: dict[_Use, set[int]] = defaultdict(set)
    none = {node.start_byte for captures in captured for node in captures.get(_NONE, ())}
    for captures in captured:
        for label in _LABELS.intersection(captures):
            for node in captures[label]:
                if node.start_byte in none:
                    continue
                kind = _kind(label, data, node.start_byte)
                for name, written in _meanings(node, data, renames) if kind else ():
                    lines[written, kind, name].add(node.start_point.row + 1)
    ordered = sorted((bool(written), kind, name, written) for written, kind, name in lines)
    uses = ((written, kind, name) for _, kind, name, written in ordered)
    return tuple(_reference(use, lines[use]) for use in uses if _is_kept(use))[:MAX_REFERENCES]


def joined(references: Iterable[Reference]) -> tuple[Reference, ...]:
    """Return the distinct uses of several parts of a file, each with its lines in all of them."""
    lines: dict[Reference, set[int]] = defaultdict(set)
    for use in references:
        lines[use].update(use.lines)
    return tuple(replace(use, lines=tuple(sorted(lines[use])[:MAX_LINES])) for use in lines)


def _meanings(node: Node, data: bytes, renames: Renames | None) -> Iterable[Renamed]:
    """Return what a captured name may mean."""
    if renames is None:
        return ((data[node.start_byte : node.end_byte], b""),)
    return renames.meanings(node)


def _kind(label: str, data: bytes, start: int) -> str:
    """Return the kind of a captured name by the text before it; empty if it is not a use."""
    kind = _KINDS.get(label, _CALL)
    if label == _TOKEN:
        if data.endswith(b"fn ", 0, start):
            return ""
        kind = _MEMBER if data.endswith(b".", 0, start) else kind
    if kind in _OBJECTS and data.endswith((b".", b">", b":"), 0, start):
        own = _OWN.search(data[max(0, start - _MAX_BEFORE_BYTES) : start])
        return _OF_OWN if own else kind
    return kind


def _is_kept(use: _Use) -> bool:
    written, _, name = use
    return (
        1 < len(name) <= _MAX_NAME_BYTES and len(written) <= _MAX_NAME_BYTES and name not in _COMMON
    )


def _reference(use: _Use, lines: set[int]) -> Reference:
    written, name = use[0].decode("utf-8", "replace"), use[2].decode("utf-8", "replace")
    return Reference(name, ReferenceKind(use[1]), written, tuple(sorted(lines)[:MAX_LINES]))
