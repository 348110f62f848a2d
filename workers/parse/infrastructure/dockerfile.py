"""Find the stages of a Dockerfile, each from one `FROM` to the next."""

from __future__ import annotations

from collections.abc import Iterator

from tree_sitter import Node

from codelode.infrastructure import Family
from workers.parse.infrastructure.blocks import Block


def blocks(family: Family | None, root: Node, data: bytes) -> Iterator[Block]:
    """Yield the stages by name, `stage.builder`, or by number from 0 as in `COPY --from=0`."""
    froms = [node for node in root.children if node.type == "from_instruction"]
    ends = [*(node.start_byte for node in froms[1:]), root.end_byte]
    for number, (node, end) in enumerate(zip(froms, ends, strict=False)):
        alias = node.child_by_field_name("as")
        name = _text(alias) if alias is not None else str(number)
        signature = " ".join(_text(node).split())
        yield Block(node.start_byte, end, f"stage.{name}", name, "stage", signature)


def _text(node: Node) -> str:
    return (node.text or b"").decode("utf-8", "replace")
