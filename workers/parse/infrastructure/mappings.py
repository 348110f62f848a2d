"""Read mappings and sequences in trees of YAML and JSON, in block style or flow style.

Text is taken from `data`, because the tree may be that of the masked text.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tree_sitter import Node

_WRAPPERS = frozenset({"block_node", "flow_node", "document", "block_sequence_item"})
_MAPPINGS = frozenset({"block_mapping", "flow_mapping", "object"})
_SEQUENCES = frozenset({"block_sequence", "flow_sequence", "array"})
_PAIRS = frozenset({"block_mapping_pair", "flow_pair", "pair"})

MAX_SCALAR_BYTES = 300


@dataclass(frozen=True, slots=True)
class Pair:
    """One pair of a mapping, with its offsets."""

    key: str
    start: int
    end: int
    value: Node | None


def documents(root: Node) -> Iterator[Node]:
    """Yield the documents of a stream, or the root if the grammar could not separate them."""
    found = [child for child in root.children if child.type == "document"]
    yield from found or [root]


def pairs(node: Node | None, data: bytes) -> Iterator[Pair]:
    """Yield the pairs of a mapping in file order; none for any other node."""
    bare = _bare(node)
    if bare is None or bare.type not in _MAPPINGS:
        return
    for child in bare.children:
        key = child.child_by_field_name("key") if child.type in _PAIRS else None
        if key is not None:
            value = child.child_by_field_name("value")
            yield Pair(scalar(key, data), child.start_byte, child.end_byte, value)


def items(node: Node | None) -> Iterator[Node]:
    """Yield the items of a sequence; none for any other node."""
    bare = _bare(node)
    if bare is None or bare.type not in _SEQUENCES:
        return
    yield from (child for child in bare.named_children if child.type != "comment")


def is_mapping(node: Node | None) -> bool:
    """Return whether the node is a mapping."""
    bare = _bare(node)
    return bare is not None and bare.type in _MAPPINGS


def get(node: Node | None, data: bytes, *keys: str) -> Node | None:
    """Return the value at a path of keys, or None."""
    for key in keys:
        node = next((pair.value for pair in pairs(node, data) if pair.key == key), None)
    return node


def scalar(node: Node | None, data: bytes) -> str:
    """Return the text of a scalar without its quotes; empty if it has none or a long one."""
    if node is None or node.end_byte - node.start_byte > MAX_SCALAR_BYTES:
        return ""
    return data[node.start_byte : node.end_byte].decode("utf-8", "replace").strip().strip("\"'")


def _bare(node: Node | None) -> Node | None:
    """Return the mapping, sequence or scalar inside its wrappers, past anchors and comments."""
    while node is not None and node.type in _WRAPPERS:
        node = next((c for c in node.named_children if c.type not in _ASIDE), None)
    return node


_ASIDE = frozenset({"comment", "anchor", "tag", "yaml_directive"})
