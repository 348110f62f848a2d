"""Find the blocks of kustomizations: each field, and each item of a field with named items."""

from __future__ import annotations

from collections.abc import Iterator

from tree_sitter import Node

from workers.parse.infrastructure import mappings
from workers.parse.infrastructure.blocks import Block

#: Fields whose items have names → block type of an item.
_ITEMS = {
    "images": "image",
    "replicas": "replica",
    "configMapGenerator": "configMap",
    "secretGenerator": "secret",
    "helmCharts": "chart",
    "vars": "variable",
}
#: Fields that only say what kind of file this is.
_HEADS = frozenset({"apiVersion", "kind", "metadata"})


def blocks(root: Node, data: bytes) -> Iterator[Block]:
    """Yield blocks such as `resources`, `patches`, `images.image.nginx`."""
    for document in mappings.documents(root):
        for pair in mappings.pairs(document, data):
            if pair.key in _HEADS:
                continue
            yield Block(pair.start, pair.end, pair.key, pair.key, pair.key)
            block_type = _ITEMS.get(pair.key)
            for item in mappings.items(pair.value) if block_type else ():
                name = mappings.scalar(mappings.get(item, data, "name"), data)
                if block_type and name:
                    hierarchy = f"{pair.key}.{block_type}.{name}"
                    yield Block(item.start_byte, item.end_byte, hierarchy, name, block_type)
