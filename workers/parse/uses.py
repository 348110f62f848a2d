"""Uses of names in a file: calls, called members, instantiated classes, inherited bases.

The queries use the vocabulary of tree-sitter tags and capture the identifier itself:
`@reference.call`, `@reference.member` (a call with a receiver), `@reference.class` and
`@reference.implementation`. A name counts once per kind and file. Which definition it means is
resolved when it is queried, with the symbol table and the imports of that moment. A name that an
import gives (`renames`) is stored as the name it stands for, with how it is written.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence

from codelode.model import Reference, ReferenceKind
from workers.parse.grammars import Captures
from workers.parse.renames import Renamed, Renames

#: Most distinct uses of one file; a file with more is a table of data.
MAX_REFERENCES = 2_000

_MAX_NAME_BYTES = 120
_KINDS = {f"reference.{kind.value}": kind for kind in sorted(ReferenceKind)}

#: Names that every repository uses and none is searched for: what languages bring along.
_COMMON = frozenset(
    b"super self this print println printf len range str int float bool list dict set tuple "
    b"isinstance require append push String Error console".split()
)


def distinct(
    captured: Sequence[Captures], data: bytes, renames: Renames | None
) -> tuple[Reference, ...]:
    """Return the distinct uses by kind and name, those under another name last."""
    plain: dict[str, set[bytes]] = defaultdict(set)
    renamed: dict[str, set[Renamed]] = defaultdict(set)
    for captures in captured:
        for label, nodes in captures.items():
            names = plain[label]
            if renames is not None:
                renames.separate(nodes, names, renamed[label])
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
