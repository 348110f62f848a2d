"""Read the items in blocks that a macro wraps: Rust `cfg_rt! { pub fn spawn() {} }`.

A grammar leaves a macro's arguments as loose tokens. A block is parsed again separately, at its
offset in the file. It is read only if it has no syntax errors, because the arguments of other
macros are not code. If it has errors, its arms are tried, as in
`cfg_if! { if #[cfg(unix)] { … } else { … } }`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from tree_sitter import Node, Parser, Point, Range

from workers.parse.grammars import Captures, LanguageQuery, Matches

#: Maximum nesting of blocks, so that the time stays linear. Chosen by hand.
MAX_DEPTH = 4

#: Larger blocks are tables of data, bytes. Chosen by hand.
MAX_BLOCK_BYTES = 500_000

#: The text before an arm: `unstable: { … }`, `_ => { … }`, `if #[cfg(unix)] { … } else { … }`.
_BEFORE_ARM = (b":", b"=>", b"]", b"else")

#: Maximum number of blanks between that text and the arm, bytes.
_MAX_BLANK_BYTES = 100

_ITEM = re.compile(rb"\b(?:fn|struct|enum|union|trait|impl|mod|type|const|static|use)\s")


def with_blocks(
    matches: Matches, used: Sequence[Captures], query: LanguageQuery, data: bytes
) -> tuple[Matches, Sequence[Captures]]:
    """Add the matches and uses in the blocks that `matches` capture as `@block`."""
    blocks = _blocks(matches)
    if not blocks:
        return matches, used
    found, uses = [*matches], [*used]
    for _ in range(MAX_DEPTH):
        inner: list[Node] = []
        for block in blocks:
            root = _parsed(block, query, data)
            if root is None:
                inner += _arms(block, data)
            else:
                some, further = query.run(root)
                found += some
                uses += further
                inner += _blocks(some)
        blocks = inner
    return found, uses


def _blocks(matches: Matches) -> list[Node]:
    return [node for _, captures in matches for node in captures.get("block", ())]


def _arms(block: Node, data: bytes) -> Iterator[Node]:
    """Yield the arms of a block."""
    for child in block.named_children:
        start = child.start_byte
        before = data[max(block.start_byte, start - _MAX_BLANK_BYTES) : start].rstrip()
        if data[start : start + 1] == b"{" and before.endswith(_BEFORE_ARM):
            yield child


def _parsed(block: Node, query: LanguageQuery, data: bytes) -> Node | None:
    """Return the tree of the text in the braces; None if it has no items or is not code."""
    start, end = block.start_byte, block.end_byte
    if data[start : start + 1] != b"{" or data[end - 1 : end] != b"}":
        return None
    if end - start > MAX_BLOCK_BYTES or not _ITEM.search(data, start, end):
        return None
    inside = Range(
        Point(block.start_point.row, block.start_point.column + 1),
        Point(block.end_point.row, block.end_point.column - 1),
        start + 1,
        end - 1,
    )
    root = Parser(query.grammar, included_ranges=[inside]).parse(data).root_node
    return None if root.has_error else root
