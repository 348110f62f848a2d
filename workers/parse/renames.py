"""Find the names that imports give to definitions with other names.

`from a import load as read` makes `read()` a use of `load`. After `import numpy as np`, a name
behind `np.` is a member of the imported module, never of this file. Both are recognised by the
imports and the text before a name. A parameter that shadows an import, which is rare, is taken for
the import.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from tree_sitter import Node

from codelode.model import Import
from codelode.references import DEFAULT, MODULE
from workers.parse.definitions import Definition
from workers.parse.rules import Rules

#: Maximum number of renamed names of a file; the whole file is searched for each of them.
MAX_RENAMED = 1_000

#: The name of a definition, and how the file writes it; empty: the same.
Renamed = tuple[bytes, bytes]

_WORD = rb"[A-Za-z_$\x80-\xff][\w$\x80-\xff]*"
_MEMBERS = re.compile(rb"%b(?:(?:\.|::|\\)(%b))*" % (_WORD, _WORD))
_DOT = ord(".")
#: Bytes after which a name continues, or a member follows.
_CONTINUING = frozenset(b for b in range(256) if re.match(rb"[\w$\x80-\xff\\]", bytes([b])))
#: Second bytes of joints, with the first byte that they need: `::`, `->`, but not `..`.
_JOINING = {ord(":"): ord(":"), ord(">"): ord("-"), _DOT: _DOT}


@dataclass(frozen=True, slots=True)
class Renames:
    """The names that imports give in one file."""

    names: Mapping[bytes, bytes]  # given name → name of the definition, empty for a module
    members: Mapping[int, bytes]  # offset of a member of a given name → how it is written
    ambiguous: frozenset[bytes]  # given names that may also be names of definitions
    data: bytes

    def meanings(self, node: Node) -> Iterator[Renamed]:
        """Yield the names that a use may mean, each with how the use is written."""
        data, start = self.data, node.start_byte
        name = data[start : node.end_byte]
        written = self.members.get(start)
        if written is not None:
            yield name, written
            return
        is_renamed = bool(self.names.get(name)) and _is_bare(data, start)
        if is_renamed:
            yield self.names[name], name
        if not is_renamed or name in self.ambiguous:
            yield name, b""


def read(
    imports: Iterable[Import], definitions: Iterable[Definition], data: bytes, rules: Rules
) -> Renames | None:
    """Return the names that imports give; None if they give none, as in most files."""
    given = [pair for one in imports for pair in one.renamed][:MAX_RENAMED]
    if not given:
        return None
    names = {own.encode(): b"" if name == MODULE else name.encode() for own, name in given}
    defined = {one.name for one in definitions}
    ambiguous = {own.encode() for own, name in given if name == DEFAULT or own in defined}
    return Renames(names, _members(names, data, rules.joints), frozenset(ambiguous), data)


def _members(names: Iterable[bytes], data: bytes, joints: Sequence[bytes]) -> Mapping[int, bytes]:
    found: dict[int, bytes] = {}
    for text in (own + joint for own in names for joint in joints):
        at = data.find(text)
        while at >= 0:
            member = _MEMBERS.match(data, at + len(text)) if _is_bare(data, at) else None
            if member:
                found[member.start(member.lastindex or 0)] = data[at : member.end()]
            at = data.find(text, at + len(text))
    return found


def _is_bare(data: bytes, start: int) -> bool:
    """Return whether the name at `start` is not a member; `..` is a range and `...` a spread."""
    before = data[start - 1] if start else 0
    if before in _CONTINUING:
        return False
    twice = _JOINING.get(before)
    return twice is None or (data[start - 2] == twice) == (before == _DOT)
