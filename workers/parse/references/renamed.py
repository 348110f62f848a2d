"""Where a file says another name than the definition has, because an import gives it one.

`from a import load as read` makes `read()` a use of `load`, and after `import numpy as np` what
stands behind `np.` is a member of what was imported, never of this file. Both are told from the
imports and the text before a name: what else could shadow an import (a parameter of its name) is
rare enough to be taken for it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from tree_sitter import Node

from codelode.model import Import
from codelode.references import DEFAULT, MODULE
from workers.parse.definitions import Definition

#: Names of one file, each of which is looked for in all of it.
MAX_RENAMED = 1_000

#: A name, and how it is written.
Renamed = tuple[bytes, bytes]

#: Between a module and its member; a dot where nothing else is said.
_JOINTS = {"rust": (b"::",), "php": (b"::", b"\\")}

_WORD = rb"[A-Za-z_$\x80-\xff][\w$\x80-\xff]*"
_MEMBERS = re.compile(rb"%b(?:(?:\.|::|\\)(%b))*" % (_WORD, _WORD))
_DOT = ord(".")
#: Bytes behind which a name goes on, or a member follows.
_BEHIND = frozenset(b for b in range(256) if re.match(rb"[\w$\x80-\xff\\]", bytes([b])))
#: Bytes behind which a member follows by what is before them: `::`, `->`, but not `..`.
_JOINING = {ord(":"): ord(":"), ord(">"): ord("-"), _DOT: _DOT}


@dataclass(frozen=True, slots=True)
class Renames:
    """The names that imports give in one file."""

    names: Mapping[bytes, bytes]  # given → of the definition, empty for a module
    members: Mapping[int, bytes]  # where a member of what is renamed stands → how it is written
    ambiguous: frozenset[bytes]  # given names that may as well be those of definitions
    data: bytes

    def tell_apart(self, nodes: Sequence[Node], plain: set[bytes], other: set[Renamed]) -> None:
        """Adds each use to those by the name that is written or to those by another."""
        data, names, members = self.data, self.names, self.members
        for node in nodes:
            start = node.start_byte
            name = data[start : node.end_byte]
            written = members.get(start)
            if written is not None:
                other.add((name, written))
            elif names.get(name) and _is_bare(data, start):
                other.add((names[name], name))
                if name in self.ambiguous:
                    plain.add(name)
            else:
                plain.add(name)


def read(
    imports: Iterable[Import], definitions: Iterable[Definition], data: bytes, *, language: str
) -> Renames | None:
    """What the imports rename; None: nothing, as in most files."""
    given = [pair for one in imports for pair in one.renamed][:MAX_RENAMED]
    if not given:
        return None
    names = {own.encode(): b"" if name == MODULE else name.encode() for own, name in given}
    defined = {one.name for one in definitions}
    ambiguous = {own.encode() for own, name in given if name == DEFAULT or own in defined}
    return Renames(names, _members(names, data, language), frozenset(ambiguous), data)


def _members(names: Iterable[bytes], data: bytes, language: str) -> Mapping[int, bytes]:
    found: dict[int, bytes] = {}
    for text in (own + joint for own in names for joint in _JOINTS.get(language, (b".",))):
        at = data.find(text)
        while at >= 0:
            member = _MEMBERS.match(data, at + len(text)) if _is_bare(data, at) else None
            if member:
                found[member.start(member.lastindex or 0)] = data[at : member.end()]
            at = data.find(text, at + len(text))
    return found


def _is_bare(data: bytes, start: int) -> bool:
    """Whether the name there is no member of something; `..` is a range, `...` spreads."""
    before = data[start - 1] if start else 0
    if before in _BEHIND:
        return False
    twice = _JOINING.get(before)
    return twice is None or (data[start - 2] == twice) == (before == _DOT)
