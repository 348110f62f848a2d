"""Find blocks of HCL by type and labels: Terraform, OpenTofu, Terragrunt, Packer and Nomad."""

from __future__ import annotations

from collections.abc import Iterator

from tree_sitter import Node

from codelode.infrastructure import Family
from workers.parse.infrastructure.blocks import Block

#: The block whose attributes are referred to as `local.<name>`.
_LOCALS = "locals"
#: Types of the nodes before the body of a block: its type and its labels.
_LABELS = frozenset({"string_lit", "identifier"})


def blocks(family: Family | None, root: Node, data: bytes) -> Iterator[Block]:
    """Yield each top-level block, `resource.aws_s3_bucket.x`, and each local, `local.region`.

    The family makes no difference: all of these tools write their blocks in the same form.
    """
    for node in _in_body(root, "block"):
        yield from _block(node)


def _block(node: Node) -> Iterator[Block]:
    parts = [_label(child) for child in node.children if child.type in _LABELS]
    if not parts:
        return
    yield Block(
        node.start_byte,
        node.end_byte,
        hierarchy=".".join(parts),
        name=parts[-1],
        block_type=parts[0],
        signature=" ".join([parts[0], *(f'"{part}"' for part in parts[1:])]),
    )
    if parts == [_LOCALS]:
        yield from _locals(node)


def _locals(node: Node) -> Iterator[Block]:
    for attribute in _in_body(node, "attribute"):
        name = _label(attribute.children[0])
        yield Block(
            attribute.start_byte,
            attribute.end_byte,
            hierarchy=f"local.{name}",
            name=name,
            block_type="local",
        )


def _in_body(parent: Node, type: str) -> Iterator[Node]:
    """Yield the nodes of a type in the body of a file or block."""
    for body in parent.children:
        if body.type == "body":
            yield from (node for node in body.children if node.type == type)


def _label(node: Node) -> str:
    """Return a label without its quotes."""
    return (node.text or b"").decode("utf-8", "replace").strip('"')
