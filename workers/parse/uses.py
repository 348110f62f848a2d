"""Find the uses of names in a file: calls, called members, instantiated classes, inherited bases.

The queries use the vocabulary of tree-sitter tags and capture the identifier itself:
`@reference.call`, `@reference.member` (a call with a receiver), `@reference.class` and
`@reference.implementation`. A name counts once per kind and file, with the lines where it is used.
Which definition it means is resolved when it is queried, with the symbol table and the imports of
that moment. A name that an import gives (`renames`) is stored as the name it stands for, with how
it is written. Whether a member is one of the code's own object is read from the text before it.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

from tree_sitter import Node

from codelode.model import Reference, ReferenceKind
from workers.parse.grammars import Captures
from workers.parse.renames import Renames

#: Most distinct uses of one file; a file with more is a table of data.
MAX_REFERENCES = 2_000

#: Most lines kept of one use. Chosen by hand: of 6,077 uses in redis and pydantic, 3 have more.
MAX_LINES = 200

_MAX_NAME_BYTES = 120
_KINDS = {f"reference.{kind.value}": kind for kind in sorted(ReferenceKind)}
#: A name before parentheses among the loose tokens that a macro gets.
_TOKEN = "reference.token"
_LABELS = frozenset({*_KINDS, _TOKEN})
_OBJECTS = (ReferenceKind.CALL, ReferenceKind.MEMBER)  # `Self::load()` is captured as a call

#: What precedes a member of the object or class that the code belongs to: `self.`, `$this->`.
_OWN = re.compile(rb"(?<![\w$.])(?:(?:self|Self|this|\$this|cls)(?:\.|->|::?|\?\.)|static::)\Z")
_MAX_BEFORE_BYTES = len(b" static::")

#: Names that every repository uses and none is searched for: what languages bring along.
_COMMON = frozenset(
    b"super self this print println printf len range str int float bool list dict set tuple "
    b"isinstance require append push String Error console".split()
)


class _Use(NamedTuple):
    """A use in the order of the answer: as the definition is named first, then by kind and name."""

    written: bytes  # empty: as the definition is named
    kind: ReferenceKind
    name: bytes


def distinct(
    captured: Sequence[Captures], data: bytes, renames: Renames | None
) -> tuple[Reference, ...]:
    """Return the distinct uses by kind and name, those under another name last."""
    lines: dict[_Use, set[int]] = defaultdict(set)
    for captures in captured:
        for label, nodes in captures.items():
            for node in nodes if label in _LABELS else ():
                for use in _meanings(node, label, data, renames):
                    lines[use].add(node.start_point.row + 1)
    ordered = sorted(lines, key=lambda use: (bool(use.written), use.kind, use.name, use.written))
    return tuple(_reference(use, lines[use]) for use in ordered if _is_kept(use))[:MAX_REFERENCES]


def joined(references: Iterable[Reference]) -> tuple[Reference, ...]:
    """Return the distinct uses of several parts of a file, each with its lines in all of them."""
    lines: dict[Reference, set[int]] = defaultdict(set)
    for use in references:
        lines[use].update(use.lines)
    return tuple(replace(use, lines=tuple(sorted(lines[use])[:MAX_LINES])) for use in lines)


def _meanings(node: Node, label: str, data: bytes, renames: Renames | None) -> Iterator[_Use]:
    """Yield what a captured name may mean."""
    start = node.start_byte
    kind = _kind(label, data[max(0, start - _MAX_BEFORE_BYTES) : start])
    if kind is None:
        return
    if renames is None:
        yield _Use(b"", kind, data[start : node.end_byte])
        return
    for name, written in renames.meanings(node):
        yield _Use(written, kind, name)


def _kind(label: str, before: bytes) -> ReferenceKind | None:
    """Return the kind of a captured name by the text before it; None if it is not a use."""
    kind = _KINDS.get(label, ReferenceKind.CALL)
    if label == _TOKEN:
        if before.endswith(b"fn "):
            return None
        kind = ReferenceKind.MEMBER if before.endswith(b".") else kind
    is_member = kind in _OBJECTS and before.endswith((b".", b">", b":"))
    return ReferenceKind.OWN if is_member and _OWN.search(before) else kind


def _is_kept(use: _Use) -> bool:
    return (
        1 < len(use.name) <= _MAX_NAME_BYTES
        and len(use.written) <= _MAX_NAME_BYTES
        and use.name not in _COMMON
    )


def _reference(use: _Use, lines: set[int]) -> Reference:
    name, written = use.name.decode("utf-8", "replace"), use.written.decode("utf-8", "replace")
    return Reference(name, use.kind, written, tuple(sorted(lines)[:MAX_LINES]))
